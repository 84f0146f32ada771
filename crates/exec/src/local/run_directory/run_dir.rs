//! A run directory and the files in it. Every file appears whole or not at all, and carries a closing seal, so that
//! one torn by a power loss is recognised.

use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};

use rustix::fs::{CWD, FlockOperation, Mode, OFlags, RenameFlags};
use rustix::io::Errno;

pub(crate) const SPEC: &str = "spec.json";
pub(crate) const SUPERVISOR: &str = "supervisor.json";
pub(crate) const VOID: &str = "void";
pub(crate) const EXIT: &str = "exit.json";
pub(crate) const EXIT_PREPARED: &str = "exit.json.tmp";

/// Names in a run directory that a log must not have.
pub(crate) const RESERVED: [&str; 5] = [SPEC, SUPERVISOR, VOID, EXIT, EXIT_PREPARED];

/// Only the owner may read these files: they hold the job's environment.
const PRIVATE: Mode = Mode::from_raw_mode(0o600);

/// Numbers the temporary files of this process.
static PUBLISHED: AtomicU64 = AtomicU64::new(0);

/// An open run directory.
#[derive(Debug)]
pub(crate) struct RunDir(OwnedFd);

impl RunDir {
    pub(crate) fn open(path: &Path) -> io::Result<Self> {
        Ok(Self(rustix::fs::openat(CWD, path, OFlags::DIRECTORY | OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())?))
    }

    /// The contents of a file, or `None` if there is no such file.
    pub(crate) fn read(&self, name: &str) -> io::Result<Option<Vec<u8>>> {
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let file = match rustix::fs::openat(&self.0, name, flags, Mode::empty()) {
            Ok(file) => file,
            Err(Errno::NOENT) => return Ok(None),
            Err(error) => return Err(error.into()),
        };
        let mut contents = Vec::new();
        File::from(file).read_to_end(&mut contents)?;
        Ok(Some(contents))
    }

    pub(crate) fn exists(&self, name: &str) -> io::Result<bool> {
        match rustix::fs::statat(&self.0, name, rustix::fs::AtFlags::SYMLINK_NOFOLLOW) {
            Ok(_) => Ok(true),
            Err(Errno::NOENT) => Ok(false),
            Err(error) => Err(error.into()),
        }
    }

    /// Creates a file that must not be there yet.
    pub(crate) fn create(&self, name: &str) -> io::Result<File> {
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        Ok(rustix::fs::openat(&self.0, name, flags, PRIVATE)?.into())
    }

    /// Writes a file that appears whole; `AlreadyExists` if there is one of that name. Not yet durable: see [`Self::sync`].
    pub(crate) fn publish(&self, name: &str, contents: &[u8]) -> io::Result<()> {
        // A name of its own keeps writers apart: whoever is second to rename loses, and neither writes into the other's file.
        let temporary = format!("{name}.{}.{}", std::process::id(), PUBLISHED.fetch_add(1, Ordering::Relaxed));
        let mut file = match self.create(&temporary) {
            // Left by a process of the same pid that died here; nobody else would use this name.
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                rustix::fs::unlinkat(&self.0, temporary.as_str(), rustix::fs::AtFlags::empty())?;
                self.create(&temporary)?
            }
            created => created?,
        };
        let published = file.write_all(contents).and_then(|()| self.rename_new(&temporary, name));
        if published.is_err() {
            let _ = rustix::fs::unlinkat(&self.0, temporary.as_str(), rustix::fs::AtFlags::empty());
        }
        published
    }

    fn rename_new(&self, from: &str, to: &str) -> io::Result<()> {
        match rustix::fs::renameat_with(&self.0, from, &self.0, to, RenameFlags::NOREPLACE) {
            // A file system without NOREPLACE: a hard link refuses to replace as well.
            Err(Errno::INVAL) => {
                rustix::fs::linkat(&self.0, from, &self.0, to, rustix::fs::AtFlags::empty())?;
                Ok(rustix::fs::unlinkat(&self.0, from, rustix::fs::AtFlags::empty())?)
            }
            renamed => Ok(renamed?),
        }
    }

    pub(crate) fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        Ok(rustix::fs::renameat(&self.0, from, &self.0, to)?)
    }

    /// Makes every name in the directory durable.
    pub(crate) fn sync(&self) -> io::Result<()> {
        Ok(rustix::fs::fsync(&self.0)?)
    }

    /// Takes the lock of the directory if nobody has it. It is held until the returned handle is dropped.
    pub(crate) fn try_lock(&self) -> io::Result<Option<OwnedFd>> {
        let lock = self.open_lock()?;
        match rustix::fs::flock(&lock, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => Ok(Some(lock)),
            Err(Errno::WOULDBLOCK) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    /// Takes the lock of the directory, waiting for whoever has it.
    pub(crate) fn lock(&self) -> io::Result<OwnedFd> {
        let lock = self.open_lock()?;
        loop {
            match rustix::fs::flock(&lock, FlockOperation::LockExclusive) {
                Ok(()) => return Ok(lock),
                Err(Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
    }

    fn open_lock(&self) -> io::Result<OwnedFd> {
        // A description of its own: the lock goes with it, not with the directory's.
        Ok(rustix::fs::openat(&self.0, ".", OFlags::DIRECTORY | OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())?)
    }
}

/// A value as a line of JSON, and below it the seal: the sum over the line, as a JSON string.
pub(crate) fn seal<T: serde::Serialize>(value: &T) -> io::Result<Vec<u8>> {
    let mut text = serde_json::to_vec(value)?;
    let sum = sum(&text);
    writeln!(text, "\n\"fnv1a64:{sum:016x}\"")?;
    Ok(text)
}

/// The value of a sealed file, or `None` if the file is torn.
pub(crate) fn unseal<T: serde::de::DeserializeOwned>(contents: &[u8]) -> Option<T> {
    let mut lines = contents.split(|byte| *byte == b'\n');
    let line = lines.next()?;
    let expected = format!("\"fnv1a64:{:016x}\"", sum(line));
    if lines.next()? != expected.as_bytes() {
        return None;
    }
    serde_json::from_slice(line).ok()
}

/// FNV-1a: enough to tell a torn file, which is all it is for.
fn sum(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |sum: u64, byte| (sum ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_torn_file_is_recognised_wherever_it_is_torn() {
        let whole = seal(&vec!["one".to_owned(), "two".to_owned()]).unwrap();
        assert_eq!(unseal::<Vec<String>>(&whole), Some(vec!["one".to_owned(), "two".to_owned()]));
        for length in 0..whole.len() - 1 {
            assert_eq!(unseal::<Vec<String>>(&whole[..length]), None, "cut at {length}");
            let mut zeros = whole.clone();
            zeros[length..].fill(0);
            assert_eq!(unseal::<Vec<String>>(&zeros), None, "zeros from {length}");
        }
    }

    #[test]
    fn a_file_is_published_once() {
        let folder = tempfile::tempdir().unwrap();
        let dir = RunDir::open(folder.path()).unwrap();
        dir.publish("a", b"first").unwrap();
        assert_eq!(dir.publish("a", b"second").unwrap_err().kind(), io::ErrorKind::AlreadyExists);
        assert_eq!(dir.read("a").unwrap().unwrap(), b"first");
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1, "no temporary stays");
    }
}
