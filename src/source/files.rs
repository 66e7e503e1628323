//! Policy files: one file, or the policy files of a directory read as one policy.

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use arc_swap::ArcSwap;
use aws_lc_rs::digest::{self, SHA256};

use crate::policy::file::{self, Format};
use crate::policy::{Fault, Place, Source, World, compile_beside};

/// SHA-256 over names and contents of all files.
type Hash = [u8; 32];

/// The world that policy files make, and the way to read them anew.
#[derive(Debug)]
pub struct Files {
    path: PathBuf,
    /// Metalakes that another source governs by name.
    elsewhere: BTreeSet<String>,
    world: ArcSwap<World>,
    /// Held during a whole reload, so that two cannot overtake each other.
    hash: Mutex<Hash>,
}

impl Files {
    /// Reads a policy file, or all `.yaml`, `.yml` and `.json` files of a directory. Sub-directories and names that
    /// begin with a dot are left out; symbolic links are followed, as Kubernetes mounts a ConfigMap.
    ///
    /// Blocks on files.
    ///
    /// # Errors
    ///
    /// Files that cannot be read or have the wrong shape; else all faults of meaning.
    pub fn load(path: &Path) -> Result<Self, Vec<Fault>> {
        Self::load_beside(path, BTreeSet::new())
    }

    /// The same, beside a Gravitino server that governs these metalakes by name.
    ///
    /// # Errors
    ///
    /// As [`Files::load`], and places that name one of these metalakes.
    pub fn load_beside(path: &Path, elsewhere: BTreeSet<String>) -> Result<Self, Vec<Fault>> {
        let texts = read(path)?;
        let world = parse(&texts, &elsewhere)?;
        let (world, hash) = (ArcSwap::from_pointee(world), Mutex::new(hash_of(&texts)));
        Ok(Self { path: path.to_owned(), elsewhere, world, hash })
    }

    /// The world of the last good load.
    pub fn world(&self) -> Arc<World> {
        self.world.load_full()
    }

    /// Reads the files anew. `true` if their content changed and the new world stands, `false` if nothing changed.
    ///
    /// Blocks on files, and while another reload runs.
    ///
    /// # Errors
    ///
    /// As [`Files::load`]; the last good world stays.
    pub fn reload(&self) -> Result<bool, Vec<Fault>> {
        let mut hash = self.hash.lock().unwrap_or_else(PoisonError::into_inner);
        let texts = read(&self.path)?;
        let new = hash_of(&texts);
        if new == *hash {
            return Ok(false);
        }
        let world = parse(&texts, &self.elsewhere)?;
        self.world.store(Arc::new(world));
        *hash = new;
        Ok(true)
    }

    /// The directories to watch, without what lies below them: a file's own directory, since editors and Kubernetes
    /// replace files rather than write into them.
    pub fn paths(&self) -> Vec<PathBuf> {
        if self.path.is_dir() {
            return vec![self.path.clone()];
        }
        let parent = self.path.parent().filter(|parent| !parent.as_os_str().is_empty());
        vec![parent.unwrap_or_else(|| Path::new(".")).to_owned()]
    }
}

/// A policy file's text.
struct Text {
    file: PathBuf,
    format: Format,
    text: String,
}

fn read(path: &Path) -> Result<Vec<Text>, Vec<Fault>> {
    let metadata = fs::metadata(path).map_err(|error| vec![unreadable(path, &error)])?;
    let files = if metadata.is_dir() { list(path)? } else { vec![path.to_owned()] };
    let mut texts = Vec::with_capacity(files.len());
    let mut faults = Vec::new();
    for file in files {
        match (format_of(&file), fs::read_to_string(&file)) {
            (None, _) => faults.push(whole(&file, "a policy file ends in .yaml, .yml or .json".to_owned())),
            (_, Err(error)) => faults.push(unreadable(&file, &error)),
            (Some(format), Ok(text)) => texts.push(Text { file, format, text }),
        }
    }
    if faults.is_empty() { Ok(texts) } else { Err(faults) }
}

/// The policy files of a directory, ordered by name.
fn list(directory: &Path) -> Result<Vec<PathBuf>, Vec<Fault>> {
    let entries = fs::read_dir(directory).and_then(Iterator::collect::<io::Result<Vec<_>>>);
    let entries = entries.map_err(|error| vec![unreadable(directory, &error)])?;
    let mut files: Vec<PathBuf> = entries
        .iter()
        .filter(|entry| !entry.file_name().as_encoded_bytes().starts_with(b"."))
        .map(fs::DirEntry::path)
        .filter(|file| format_of(file).is_some() && !file.is_dir())
        .collect();
    if files.is_empty() {
        return Err(vec![whole(directory, "no .yaml, .yml or .json file is in this directory".to_owned())]);
    }
    files.sort();
    Ok(files)
}

fn format_of(file: &Path) -> Option<Format> {
    let extension = file.extension()?.to_str()?;
    match extension {
        "yaml" | "yml" => Some(Format::Yaml),
        "json" => Some(Format::Json),
        _ => None,
    }
}

fn parse(texts: &[Text], elsewhere: &BTreeSet<String>) -> Result<World, Vec<Fault>> {
    let mut sources = Vec::with_capacity(texts.len());
    let mut faults = Vec::new();
    for Text { file, format, text } in texts {
        match file::parse(text, *format) {
            Ok(policy) => sources.push(Source { file: file.clone(), policy }),
            Err(error) => {
                let (line, column) = (error.line, error.column);
                let place = if line == 0 { Place::Whole } else { Place::Line { line, column } };
                faults.push(Fault { file: file.clone(), place, message: error.message });
            }
        }
    }
    match compile_beside(sources, elsewhere) {
        Ok(world) if faults.is_empty() => Ok(world),
        Ok(_) => Err(faults),
        Err(more) => {
            faults.extend(more);
            Err(faults)
        }
    }
}

/// Each part goes in with its length, so that no two sets of files read alike.
fn hash_of(texts: &[Text]) -> Hash {
    let mut context = digest::Context::new(&SHA256);
    for Text { file, text, .. } in texts {
        for part in [file.as_os_str().as_encoded_bytes(), text.as_bytes()] {
            context.update(&(part.len() as u64).to_be_bytes());
            context.update(part);
        }
    }
    let mut hash = Hash::default();
    for (to, from) in hash.iter_mut().zip(context.finish().as_ref()) {
        *to = *from;
    }
    hash
}

fn unreadable(file: &Path, error: &io::Error) -> Fault {
    whole(file, format!("cannot be read: {error}"))
}

fn whole(file: &Path, message: String) -> Fault {
    Fault { file: file.to_owned(), place: Place::Whole, message }
}

#[cfg(test)]
mod tests;
