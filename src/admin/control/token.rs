//! The bearer token of the control listener.

use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use aws_lc_rs::digest::{SHA256, digest};
use subtle::ConstantTimeEq;

/// Shorter ones can be guessed.
const MIN_LENGTH: usize = 16;
const MAX_LENGTH: usize = 4_096;

/// The token of a file. Only its SHA-256 is kept: comparing takes the same time for every guess of any length.
#[derive(Debug)]
pub(super) struct Token {
    path: PathBuf,
    hash: Mutex<[u8; 32]>,
}

impl Token {
    /// Reads the file. White space around the token is dropped. The error is for the operator, and holds no token.
    pub(super) fn load(path: &Path) -> Result<Self, String> {
        Ok(Self { path: path.to_owned(), hash: Mutex::new(read(path)?) })
    }

    /// Reads the file again; on an error the last good token stays. Tells whether it changed.
    pub(super) fn reload(&self) -> Result<bool, String> {
        let new = read(&self.path)?;
        let mut hash = self.hash.lock().unwrap_or_else(PoisonError::into_inner);
        let changed = *hash != new;
        *hash = new;
        Ok(changed)
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Whether `sent` is the token.
    pub(super) fn is(&self, sent: &str) -> bool {
        let expected = *self.hash.lock().unwrap_or_else(PoisonError::into_inner);
        expected.as_slice().ct_eq(digest(&SHA256, sent.as_bytes()).as_ref()).into()
    }
}

fn read(path: &Path) -> Result<[u8; 32], String> {
    let failed = |error: std::io::Error| format!("cannot read {}: {error}", path.display());
    let mut text = String::new();
    let file = File::open(path).map_err(failed)?;
    file.take(MAX_LENGTH as u64 + 1).read_to_string(&mut text).map_err(failed)?;
    let token = text.trim();
    if text.len() > MAX_LENGTH || token.len() < MIN_LENGTH || !token.bytes().all(|byte| byte.is_ascii_graphic()) {
        return Err(format!(
            "{} must hold one token of {MIN_LENGTH} to {MAX_LENGTH} visible ASCII characters, such as `openssl rand -hex 32` makes",
            path.display()
        ));
    }
    let mut hash = [0; 32];
    hash.copy_from_slice(digest(&SHA256, token.as_bytes()).as_ref());
    Ok(hash)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_is_read_without_the_space_around_it_and_compared_whole() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("token");
        std::fs::write(&path, " 0123456789abcdef\n").expect("written");
        let token = Token::load(&path).expect("a token");
        assert!(token.is("0123456789abcdef"));
        for wrong in ["", "0123456789abcde", "0123456789abcdef0", "0123456789ABCDEF", " 0123456789abcdef"] {
            assert!(!token.is(wrong), "{wrong}");
        }
        assert!(!format!("{token:?}").contains("0123456789abcdef"));
    }

    #[test]
    fn a_token_that_anybody_could_guess_or_nobody_could_send_is_refused_and_not_repeated() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("token");
        let long = "x".repeat(MAX_LENGTH + 1);
        for text in ["", "  \n", "short-token-123", "two words of sixteen", "sixteen\u{e4}characters", &long] {
            std::fs::write(&path, text).expect("written");
            let error = Token::load(&path).expect_err(text);
            assert!(error.contains(&path.display().to_string()), "{error}");
            assert!(text.trim().is_empty() || !error.contains(text.trim()), "{error}");
        }
        std::fs::remove_file(&path).expect("removed");
        assert!(Token::load(&path).expect_err("no file").starts_with("cannot read "));
    }

    #[test]
    fn a_new_token_replaces_the_old_one_and_a_bad_one_does_not() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("token");
        std::fs::write(&path, "the-first-token-1").expect("written");
        let token = Token::load(&path).expect("a token");
        assert_eq!(token.reload(), Ok(false));
        std::fs::write(&path, "the-second-token-2").expect("written");
        assert_eq!(token.reload(), Ok(true));
        assert!(token.is("the-second-token-2") && !token.is("the-first-token-1"));
        std::fs::write(&path, "short").expect("written");
        assert!(token.reload().is_err());
        assert!(token.is("the-second-token-2"), "the last good stays");
    }
}
