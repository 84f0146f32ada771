//! Files that are either whole or not there: everything is written beside its place and then moved into it.

use crate::png::DrawError;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// Why a report could not be written.
#[derive(Debug, thiserror::Error)]
pub enum ReportError {
    /// A directory cannot be made.
    #[error("cannot create the directory `{}`", path.display())]
    Directory {
        /// The file or directory.
        path: PathBuf,
        /// The reason the system gives.
        source: io::Error,
    },
    /// A file cannot be written.
    #[error("cannot write `{}`", path.display())]
    File {
        /// The file or directory.
        path: PathBuf,
        /// The reason the system gives.
        source: io::Error,
    },
    /// A picture cannot be drawn.
    #[error("cannot draw `{}`", path.display())]
    Picture {
        /// The file or directory.
        path: PathBuf,
        /// The reason the drawing failed.
        source: DrawError,
    },
}

/// A directory being filled, and what was written.
pub(crate) struct Folder<'a> {
    pub path: PathBuf,
    written: &'a mut Vec<PathBuf>,
}

impl<'a> Folder<'a> {
    /// Opens a directory, making it if need be.
    pub fn open(path: &Path, written: &'a mut Vec<PathBuf>) -> Result<Self, ReportError> {
        fs::create_dir_all(path).map_err(|source| ReportError::Directory { path: path.to_owned(), source })?;
        Ok(Self { path: path.to_owned(), written })
    }

    /// A directory inside this one.
    pub fn subfolder(&mut self, name: &str) -> Result<Folder<'_>, ReportError> {
        Folder::open(&self.path.join(name), self.written)
    }

    pub fn write(&mut self, name: &str, content: &[u8]) -> Result<(), ReportError> {
        let path = self.path.join(name);
        let unfinished = self.path.join(format!(".{name}.{}.part", std::process::id()));
        let result = fs::write(&unfinished, content).and_then(|()| fs::rename(&unfinished, &path));
        if let Err(source) = result {
            // Best effort: the first error is the one that matters.
            let _ = fs::remove_file(&unfinished);
            return Err(ReportError::File { path, source });
        }
        self.written.push(path);
        Ok(())
    }

    /// Writes a picture as `name.svg` and `name.png`.
    pub fn write_picture(&mut self, name: &str, svg: &str) -> Result<(), ReportError> {
        self.write(&format!("{name}.svg"), svg.as_bytes())?;
        let png_name = format!("{name}.png");
        let pixels = crate::png::png(svg).map_err(|source| ReportError::Picture { path: self.path.join(&png_name), source })?;
        self.write(&png_name, &pixels)
    }
}

/// A name for a folder: letters, digits, `.`, `_` and `-` of the policy's name, different for different positions.
pub fn folder_names(policies: &[&str]) -> Vec<String> {
    let mut names: Vec<String> = Vec::new();
    for policy in policies {
        let safe = |character: char| {
            if character.is_ascii_alphanumeric() || "._-".contains(character) { character } else { '-' }
        };
        let name = policy.chars().take(80).map(safe).collect::<String>();
        let name = name.trim_matches(['.', '-']);
        let name = if name.is_empty() { "policy" } else { name };
        // File systems that ignore case must not merge two policies.
        let taken = |names: &[String], wanted: &str| names.iter().any(|known| known.eq_ignore_ascii_case(wanted));
        let mut unique = name.to_owned();
        let mut number = 2;
        while taken(&names, &unique) {
            unique = format!("{name}-{number}");
            number += 1;
        }
        names.push(unique);
    }
    names
}
