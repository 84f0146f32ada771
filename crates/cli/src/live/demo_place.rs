//! Where the demo is: its temporary folder, and a note that lets plain commands of the same user find it while no other queue runs.

use anyhow::Context;
use std::io::Write;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};

/// The folder of a demo.
pub struct DemoPlace {
    dir: PathBuf,
    is_announced_here: bool,
}

/// The note of this user's demo. It holds the demo's folder.
fn note() -> PathBuf {
    std::env::temp_dir().join(format!("rota-demo-{}.at", rustix::process::geteuid().as_raw()))
}

/// Whether a file or folder belongs to this user, and is no link to another.
fn is_ours(path: &Path) -> bool {
    let own = rustix::process::geteuid().as_raw();
    std::fs::symlink_metadata(path).is_ok_and(|meta| meta.uid() == own && !meta.is_symlink())
}

/// The folder of a demo of this user that answers.
pub fn running_demo() -> Option<PathBuf> {
    let note = note();
    if !is_ours(&note) {
        // Another user's note would lead commands to that user's daemon.
        return None;
    }
    let dir = PathBuf::from(std::fs::read_to_string(note).ok()?.trim());
    (is_ours(&dir) && answers(&dir)).then_some(dir)
}

/// Whether a daemon listens in a folder.
pub fn answers(dir: &Path) -> bool {
    UnixStream::connect(dir.join("rota.sock")).is_ok()
}

impl DemoPlace {
    /// Makes the folder: the one that is named, or a new one.
    pub fn make(named: Option<PathBuf>) -> anyhow::Result<Self> {
        let is_announced_here = named.is_none();
        let dir = match named {
            Some(dir) => std::path::absolute(dir)?,
            None => {
                std::env::temp_dir().join(format!("rota-demo-{}-{}", rustix::process::geteuid().as_raw(), std::process::id()))
            }
        };
        if dir.exists() && std::fs::read_dir(&dir).map_or(true, |mut entries| entries.next().is_some()) {
            anyhow::bail!("{} is not empty; a demo needs a folder of its own, which it removes", dir.display());
        }
        std::fs::DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(&dir)
            .with_context(|| format!("making {}", dir.display()))?;
        Ok(Self { dir, is_announced_here })
    }

    /// The folder of the demonstration.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// Lets plain commands find it.
    pub fn announce(&self) -> anyhow::Result<()> {
        if !self.is_announced_here {
            return Ok(());
        }
        let note = note();
        // A note of an earlier demo is replaced; what another user has put there stays, and is not followed.
        _ = std::fs::remove_file(&note);
        let mut file = std::fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(&note);
        match &mut file {
            Ok(file) => writeln!(file, "{}", self.dir.display()).with_context(|| format!("writing {}", note.display())),
            Err(error) => anyhow::bail!("writing {}: {error}", note.display()),
        }
    }

    /// Removes the folder and the note.
    pub fn remove(&self) {
        let note = note();
        let is_own = std::fs::read_to_string(&note).is_ok_and(|text| Path::new(text.trim()) == self.dir);
        if is_own {
            _ = std::fs::remove_file(note);
        }
        // What cannot be removed is a temporary file of the system.
        _ = std::fs::remove_dir_all(&self.dir);
    }
}

/// How this program is called from here: `rota` where the shell finds it, its path otherwise.
pub fn own_name() -> String {
    let Ok(own) = std::env::current_exe() else { return "rota".to_owned() };
    let path = std::env::var_os("PATH").unwrap_or_default();
    let is_own = |dir: PathBuf| dir.join("rota").canonicalize().is_ok_and(|found| found == own);
    if std::env::split_paths(&path).any(is_own) {
        return "rota".to_owned();
    }
    let here = std::env::current_dir().unwrap_or_default();
    match own.strip_prefix(&here) {
        Ok(below) if below.components().count() == 1 => format!("./{}", below.display()),
        Ok(below) => below.display().to_string(),
        Err(_) => own.display().to_string(),
    }
}
