//! The file on the disk: opened, locked, repaired, appended to, and cut back after a failed write.

use std::fs::{File, OpenOptions, TryLockError};
use std::io::{self, Write};
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use serde::de::IgnoredAny;

use crate::upstream::Error;

/// Bytes of a last line without an end that are still taken for an event that a crash tore.
const LONGEST_TAIL: u64 = 256 << 20;

/// A file of lines.
pub(super) struct Log {
    path: PathBuf,
    file: File,
    /// Where the file ended before a write that failed and that could not be undone yet.
    cut_to: Option<u64>,
}

impl Log {
    /// Opens or makes the file.
    ///
    /// A last line without a line feed is what a crash left of an event that was never answered with a yes. Where it is
    /// a whole JSON document it is kept and ended; else it is cut off, and the log says how many bytes were lost. A file
    /// whose last line does not look like an event is not the gate's: nothing is changed.
    pub(super) fn open(path: &Path) -> Result<Self, Error> {
        let fault = |source| Error::Open { path: path.to_owned(), source };
        let made = !path.exists();
        let file = OpenOptions::new().read(true).append(true).create(true).mode(0o600).open(path).map_err(fault)?;
        if !file.metadata().map_err(fault)?.is_file() {
            return Err(Error::Foreign { path: path.to_owned(), fault: "is no regular file" });
        }
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => return Err(Error::Locked { path: path.to_owned() }),
            Err(TryLockError::Error(source)) => return Err(fault(source)),
        }
        if made {
            sync_folder(path).map_err(fault)?;
        }
        let mut log = Self { path: path.to_owned(), file, cut_to: None };
        log.repair()?;
        Ok(log)
    }

    /// The configured path.
    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Appends whole lines and makes them durable. After an error nothing of them is in the file, or will be cut off
    /// before the next line is written.
    pub(super) fn append(&mut self, lines: &[u8]) -> Result<(), Error> {
        if self.has_moved() {
            *self = Self::open(&self.path)?;
        }
        self.write(lines).map_err(|source| Error::Open { path: self.path.clone(), source })
    }

    fn write(&mut self, lines: &[u8]) -> io::Result<()> {
        self.cut()?;
        let end = self.file.metadata()?.len();
        let written = self.file.write_all(lines).and_then(|()| self.file.sync_data());
        if written.is_err() {
            self.cut_to = Some(end);
            // The error of the write is the one to tell; what cannot be cut now is cut before the next write.
            self.cut().ok();
        }
        written
    }

    fn cut(&mut self) -> io::Result<()> {
        if let Some(end) = self.cut_to {
            self.file.set_len(end)?;
            self.cut_to = None;
        }
        Ok(())
    }

    /// Whether the path now leads to another file, or to none.
    fn has_moved(&self) -> bool {
        let identity = |metadata: std::fs::Metadata| (metadata.dev(), metadata.ino());
        let there = self.path.metadata().map(identity);
        let here = self.file.metadata().map(identity);
        !matches!((there, here), (Ok(there), Ok(here)) if there == here)
    }

    fn repair(&mut self) -> Result<(), Error> {
        let fault = |source| Error::Open { path: self.path.clone(), source };
        let foreign = |fault| Error::Foreign { path: self.path.clone(), fault };
        let end = self.file.metadata().map_err(fault)?.len();
        let Some(start) = tail_start(&self.file, end).map_err(fault)? else {
            return Err(foreign("has a last line of more than 256 MiB"));
        };
        if start == end {
            return Ok(());
        }
        let tail = read(&self.file, start, end).map_err(fault)?;
        // After a power failure a block of a torn line may have come back as zeros.
        if !matches!(tail.first(), Some(b'{' | 0)) {
            return Err(foreign("does not end with an event"));
        }
        if serde_json::from_slice::<IgnoredAny>(&tail).is_ok() {
            self.file.write_all(b"\n").map_err(fault)?;
            tracing::warn!(path = %self.path.display(), "the last line had no end: ended it");
        } else {
            self.file.set_len(start).map_err(fault)?;
            let bytes = end - start;
            tracing::warn!(path = %self.path.display(), bytes, "the last line was torn by a crash: cut it off");
        }
        self.file.sync_all().map_err(fault)
    }
}

/// Where the bytes after the last line feed begin; nothing if they are too many.
fn tail_start(file: &File, end: u64) -> io::Result<Option<u64>> {
    const STEP: u64 = 64 << 10;
    let mut to = end;
    while to > 0 {
        if end - to > LONGEST_TAIL {
            return Ok(None);
        }
        let from = to.saturating_sub(STEP);
        let bytes = read(file, from, to)?;
        if let Some(at) = bytes.iter().rposition(|byte| *byte == b'\n') {
            return Ok(Some(from + at as u64 + 1));
        }
        to = from;
    }
    Ok(Some(0))
}

fn read(file: &File, from: u64, to: u64) -> io::Result<Vec<u8>> {
    let length = usize::try_from(to - from).map_err(io::Error::other)?;
    let mut bytes = vec![0; length];
    file.read_exact_at(&mut bytes, from)?;
    Ok(bytes)
}

/// A new file's name is durable only once its folder is.
fn sync_folder(path: &Path) -> io::Result<()> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or_else(|| Path::new("."));
    File::open(folder)?.sync_all()
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    fn at(content: &[u8]) -> (tempfile::TempDir, PathBuf) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("events.jsonl");
        fs::write(&path, content).unwrap();
        (folder, path)
    }

    #[test]
    fn a_torn_last_line_is_cut_off_and_a_whole_one_is_ended() {
        let long = [b"{\"a\":1}\n{\"b\":\"".as_slice(), &[b'x'; 200_000]].concat();
        let cases: [(&[u8], &[u8]); 7] = [
            (b"", b""),
            (b"{\"a\":1}\n", b"{\"a\":1}\n"),
            (b"{\"a\":1}\n{\"b\":", b"{\"a\":1}\n"),
            (b"{\"b\":", b""),
            (b"{\"a\":1}\n\0\0\0", b"{\"a\":1}\n"),
            (b"{\"a\":1}\n{\"b\":2}", b"{\"a\":1}\n{\"b\":2}\n"),
            (&long, b"{\"a\":1}\n"),
        ];
        for (before, after) in cases {
            let (_folder, path) = at(before);
            let mut log = Log::open(&path).unwrap();
            assert_eq!(fs::read(&path).unwrap(), after);
            log.append(b"{}\n").unwrap();
            assert_eq!(fs::read(&path).unwrap(), [after, b"{}\n"].concat());
        }
    }

    #[test]
    fn a_file_that_is_not_the_gates_is_left_as_it_is() {
        let (folder, path) = at(b"key: value\nother: text");
        assert!(matches!(Log::open(&path), Err(Error::Foreign { .. })));
        assert_eq!(fs::read(&path).unwrap(), b"key: value\nother: text");
        assert!(matches!(Log::open(Path::new("/dev/null")), Err(Error::Foreign { .. })));
        assert!(matches!(Log::open(&folder.path().join("no/such")), Err(Error::Open { .. })));
    }

    #[test]
    fn a_second_gate_cannot_open_the_file() {
        let (_folder, path) = at(b"");
        let first = Log::open(&path).unwrap();
        assert!(matches!(Log::open(&path), Err(Error::Locked { .. })));
        drop(first);
        Log::open(&path).unwrap();
    }

    #[test]
    fn a_new_file_is_for_its_owner_only() {
        let (folder, _) = at(b"");
        let path = folder.path().join("new.jsonl");
        Log::open(&path).unwrap();
        assert_eq!(path.metadata().unwrap().mode() & 0o777, 0o600);
    }

    #[test]
    fn a_full_disk_is_told_and_what_it_took_is_cut_off_before_the_next_line() {
        let (_folder, path) = at(b"{\"a\":1}\n");
        let mut log = Log::open(&path).unwrap();
        let full = OpenOptions::new().read(true).append(true).open("/dev/full").unwrap();
        let good = std::mem::replace(&mut log.file, full);
        let error = log.write(b"{\"b\":2}\n").unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::StorageFull);
        assert_eq!(log.cut_to, Some(0), "the full device cannot be cut, so that is still to be done");

        log.file = good;
        log.cut_to = Some(8);
        OpenOptions::new().append(true).open(&path).unwrap().write_all(b"{\"b\"").unwrap();
        log.append(b"{\"c\":3}\n").unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"{\"a\":1}\n{\"c\":3}\n");
    }

    #[test]
    fn a_file_that_was_moved_away_or_removed_is_made_anew() {
        let (folder, path) = at(b"");
        let mut log = Log::open(&path).unwrap();
        log.append(b"{\"a\":1}\n").unwrap();
        let moved = folder.path().join("events.jsonl.1");
        fs::rename(&path, &moved).unwrap();
        log.append(b"{\"b\":2}\n").unwrap();
        assert_eq!(fs::read(&moved).unwrap(), b"{\"a\":1}\n");
        assert_eq!(fs::read(&path).unwrap(), b"{\"b\":2}\n");
        fs::remove_file(&path).unwrap();
        log.append(b"{\"c\":3}\n").unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"{\"c\":3}\n");
    }
}
