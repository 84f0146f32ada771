//! A file for the result of long work. It is opened before the work, so that a file that cannot be written is found at once.

use anyhow::Context;
use std::fs::File;
use std::io::Write as _;
use std::path::{Path, PathBuf};

/// A file that is open. Its content appears whole or not at all: it is written under a temporary name first.
pub struct OutFile {
    path: PathBuf,
    file: File,
    /// The temporary name, until the file has its own; `None` for a pipe or a device, which is written as it is.
    partial: Option<PathBuf>,
}

impl OutFile {
    /// Opens the file.
    pub fn create(path: &Path) -> anyhow::Result<Self> {
        let cannot = || format!("cannot write `{}`", path.display());
        let known = path.metadata().ok();
        if known.as_ref().is_some_and(std::fs::Metadata::is_dir) || path.file_name().is_none() {
            anyhow::bail!("cannot write `{}`: it is a folder", path.display());
        }
        // A file that exists and may not be written must not be replaced either.
        if known.is_some() {
            let file = File::options().write(true).open(path).with_context(cannot)?;
            if !known.is_some_and(|known| known.is_file()) {
                return Ok(Self { path: path.to_owned(), file, partial: None });
            }
        }
        let mut name = path.file_name().unwrap_or_default().to_owned();
        name.push(".partial");
        let partial = path.with_file_name(name);
        let file = File::create(&partial).with_context(cannot)?;
        Ok(Self { path: path.to_owned(), file, partial: Some(partial) })
    }

    /// Writes the content, and gives the file its name.
    pub fn finish(mut self, content: &str) -> anyhow::Result<()> {
        let cannot = || format!("cannot write `{}`", self.path.display());
        self.file.write_all(content.as_bytes()).with_context(cannot)?;
        if let Some(partial) = &self.partial {
            std::fs::rename(partial, &self.path).with_context(cannot)?;
            self.partial = None;
        }
        Ok(())
    }
}

impl Drop for OutFile {
    /// A file that was not finished leaves nothing.
    fn drop(&mut self) {
        if let Some(partial) = &self.partial {
            let _ = std::fs::remove_file(partial);
        }
    }
}
