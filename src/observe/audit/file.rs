//! A file of lines that others may rotate away.

use std::fs::{File, Metadata, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::path::PathBuf;

use super::super::lines::write_whole;

/// A file that is appended to, made with mode 0600, and opened anew when its path leads to another file.
#[derive(Debug)]
pub(super) struct LineFile {
    path: PathBuf,
    open: Option<Open>,
}

#[derive(Debug)]
struct Open {
    file: File,
    identity: (u64, u64),
}

impl LineFile {
    /// Opens or makes the file.
    ///
    /// # Errors
    /// What the system says.
    pub(super) fn open(path: PathBuf) -> io::Result<Self> {
        let mut file = Self { path, open: None };
        file.current()?;
        Ok(file)
    }

    /// Appends whole lines. After an error the file is opened anew once, and the line that broke off is written again.
    ///
    /// # Errors
    /// How many bytes are written as whole lines, and what the system says of the rest.
    pub(super) fn append(&mut self, batch: &[u8]) -> Result<(), (usize, io::Error)> {
        let Err((written, _)) = self.append_once(batch) else { return Ok(()) };
        let whole = whole_lines(batch, written);
        let rest = batch.get(whole..).unwrap_or_default();
        self.append_once(rest).map_err(|(written, error)| (whole + whole_lines(rest, written), error))
    }

    fn append_once(&mut self, batch: &[u8]) -> Result<(), (usize, io::Error)> {
        let file = self.current().map_err(|error| (0, error))?;
        let result = write_whole(file, batch);
        if result.is_err() {
            self.open = None;
        }
        result
    }

    fn current(&mut self) -> io::Result<&mut File> {
        if self.open.as_ref().is_some_and(|open| self.leads_elsewhere(open)) {
            self.open = None;
        }
        let open = match self.open.take() {
            Some(open) => open,
            None => Open::new(&self.path)?,
        };
        Ok(&mut self.open.insert(open).file)
    }

    fn leads_elsewhere(&self, open: &Open) -> bool {
        std::fs::metadata(&self.path).map_or(true, |metadata| identity(&metadata) != open.identity)
    }
}

impl Open {
    fn new(path: &PathBuf) -> io::Result<Self> {
        let mut file = OpenOptions::new().read(true).append(true).create(true).mode(0o600).open(path)?;
        let metadata = file.metadata()?;
        if metadata.is_file() && is_torn(&file, metadata.len())? {
            write_whole(&mut file, b"\n").map_err(|(_, error)| error)?;
        }
        Ok(Self { identity: identity(&metadata), file })
    }
}

/// Whether the last line has no end: a crash or a full disk broke it off. The next line must not be glued to it.
fn is_torn(file: &File, length: u64) -> io::Result<bool> {
    let Some(last) = length.checked_sub(1) else { return Ok(false) };
    let mut byte = [0];
    file.read_exact_at(&mut byte, last)?;
    Ok(byte != *b"\n")
}

fn identity(metadata: &Metadata) -> (u64, u64) {
    (metadata.dev(), metadata.ino())
}

/// The bytes of the whole lines among the first `written` bytes of `batch`.
pub(super) fn whole_lines(batch: &[u8], written: usize) -> usize {
    let sent = batch.get(..written).unwrap_or(batch);
    sent.iter().rposition(|byte| *byte == b'\n').map_or(0, |newline| newline + 1)
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    fn append(file: &mut LineFile, text: &str) {
        file.append(text.as_bytes()).map_err(|(_, error)| error).expect("written");
    }

    #[test]
    fn a_new_file_is_its_owners_alone_and_an_old_one_is_appended_to() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("audit.jsonl");
        append(&mut LineFile::open(path.clone()).expect("opened"), "one\n");
        append(&mut LineFile::open(path.clone()).expect("opened"), "two\n");
        assert_eq!(fs::read_to_string(&path).expect("read"), "one\ntwo\n");
        assert_eq!(fs::metadata(&path).expect("there").permissions().mode() & 0o777, 0o600);
    }

    #[test]
    fn a_file_that_was_rotated_away_is_left_and_made_anew() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("audit.jsonl");
        let mut file = LineFile::open(path.clone()).expect("opened");
        append(&mut file, "one\n");
        fs::rename(&path, folder.path().join("audit.jsonl.1")).expect("renamed");
        append(&mut file, "two\n");
        fs::rename(&path, folder.path().join("audit.jsonl.2")).expect("renamed");
        fs::write(&path, "of the rotating program\n").expect("written");
        append(&mut file, "three\n");
        assert_eq!(fs::read_to_string(folder.path().join("audit.jsonl.1")).expect("read"), "one\n");
        assert_eq!(fs::read_to_string(folder.path().join("audit.jsonl.2")).expect("read"), "two\n");
        assert_eq!(fs::read_to_string(&path).expect("read"), "of the rotating program\nthree\n");
    }

    #[test]
    fn a_line_that_a_crash_broke_off_does_not_spoil_the_next_one() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("audit.jsonl");
        fs::write(&path, "whole\n{\"torn\":").expect("written");
        append(&mut LineFile::open(path.clone()).expect("opened"), "next\n");
        assert_eq!(fs::read_to_string(&path).expect("read"), "whole\n{\"torn\":\nnext\n");
    }

    #[test]
    fn a_folder_that_is_gone_is_an_error_until_it_is_back() {
        let folder = tempfile::tempdir().expect("a folder");
        let place = folder.path().join("logs");
        fs::create_dir(&place).expect("made");
        let path = place.join("audit.jsonl");
        let mut file = LineFile::open(path.clone()).expect("opened");
        fs::remove_dir_all(&place).expect("removed");
        let (written, error) = file.append(b"lost\n").expect_err("no folder");
        assert_eq!((written, error.kind()), (0, io::ErrorKind::NotFound));
        fs::create_dir(&place).expect("made");
        append(&mut file, "kept\n");
        assert_eq!(fs::read_to_string(&path).expect("read"), "kept\n");
    }

    #[test]
    fn a_device_can_be_written_to_and_a_full_one_is_an_error() {
        append(&mut LineFile::open("/dev/null".into()).expect("opened"), "gone\n");
        let mut full = LineFile::open("/dev/full".into()).expect("opened");
        let (written, error) = full.append(b"lost\n").expect_err("full");
        assert_eq!((written, error.kind()), (0, io::ErrorKind::StorageFull));
    }

    #[test]
    fn only_whole_lines_count_as_written() {
        assert_eq!(whole_lines(b"one\ntwo\n", 8), 8);
        assert_eq!(whole_lines(b"one\ntwo\n", 7), 4);
        assert_eq!(whole_lines(b"one\ntwo\n", 4), 4);
        assert_eq!(whole_lines(b"one\ntwo\n", 3), 0);
    }
}
