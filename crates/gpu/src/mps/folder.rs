//! One GPU's directory: where its sockets and logs are, and the file that says what must be put back.
//!
//! ```text
//! BASE                0711   any user may pass, none may list it
//! BASE/UUID           0711
//! BASE/UUID/pipe      0755   sockets and a FIFO, all made by the control daemon
//! BASE/UUID/log       0700   written by the control daemon alone: servers send their lines through the FIFO
//! BASE/UUID/state.json 0600
//! ```
//!
//! The control daemon runs as Rota does; a server runs as the job's user, and so does the job. Both need to enter the pipe directory
//! and to open what the daemon put there, which has modes of its own; neither creates anything in it. So only the daemon may
//! write there: in a directory that a user can write to, a link laid out in time would make root write wherever it points.

use super::MpsError;
use crate::ComputeMode;
use serde::{Deserialize, Serialize};
use std::fs::{File, OpenOptions, Permissions};
use std::io::{ErrorKind, Write};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

const STATE: &str = "state.json";
const VERSION: u32 = 1;
/// The longest name of a socket in the pipe directory, and the longest path the kernel takes for one.
const LONGEST_SOCKET: &str = "/control_privileged";
const SOCKET_PATH_BYTES_MAX: usize = 107;

/// What is written down about a GPU before anything is done to it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct MpsState {
    version: u32,
    /// The user whose jobs share the GPU.
    pub(super) uid: u32,
    /// The compute mode to put back; `None` if it is not changed.
    pub(super) mode_before: Option<ComputeMode>,
}

impl MpsState {
    pub(super) fn new(uid: u32) -> Self {
        Self { version: VERSION, uid, mode_before: None }
    }
}

/// The directory of one GPU.
#[derive(Debug)]
pub(super) struct Folder {
    path: PathBuf,
}

impl Folder {
    pub(super) fn of(base: &Path, uuid: &str) -> Result<Self, MpsError> {
        let is_name = uuid.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-:._".contains(&byte));
        if !is_name || !uuid.starts_with(|character: char| character.is_ascii_alphanumeric()) {
            return Err(MpsError::Uuid(uuid.to_owned()));
        }
        Ok(Self { path: base.join(uuid) })
    }

    /// The UUIDs that something is written down about.
    pub(super) fn all(base: &Path) -> Result<Vec<String>, MpsError> {
        let entries = match base.read_dir() {
            Ok(entries) => entries,
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
            Err(source) => return Err(MpsError::File { action: "read", path: base.to_owned(), source }),
        };
        let uuids = entries.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
        let mut uuids = uuids.filter(|uuid| base.join(uuid).join(STATE).exists()).collect::<Vec<_>>();
        uuids.sort();
        Ok(uuids)
    }

    pub(super) fn pipe(&self) -> PathBuf {
        self.path.join("pipe")
    }

    pub(super) fn log(&self) -> PathBuf {
        self.path.join("log")
    }

    /// Makes the directories, and makes sure that a job of the user can use them.
    pub(super) fn prepare(&self, uid: u32) -> Result<(), MpsError> {
        let pipe = self.pipe();
        let bytes = pipe.as_os_str().as_bytes().len() + LONGEST_SOCKET.len();
        if let Some(excess_bytes @ 1..) = bytes.checked_sub(SOCKET_PATH_BYTES_MAX) {
            return Err(MpsError::PathTooLong { path: pipe, excess_bytes });
        }
        let base = self.path.parent().unwrap_or(&self.path);
        for (path, mode) in [(base, 0o711), (&self.path, 0o711), (&pipe, 0o755), (&self.log(), 0o700)] {
            make(path, mode)?;
        }
        // Without root every job is ours; and nothing is shut to root.
        if uid == 0 || uid == rustix::process::geteuid().as_raw() {
            return Ok(());
        }
        pipe.ancestors().try_for_each(|path| {
            let folder = path.metadata().map_err(|source| MpsError::File { action: "look at", path: path.to_owned(), source })?;
            // The user may be in the directory's group: only what is certainly shut counts.
            let enter = if folder.uid() == uid { 0o100 } else { 0o011 };
            let is_open = folder.mode() & enter != 0;
            if is_open { Ok(()) } else { Err(MpsError::Unreachable { path: path.to_owned(), uid }) }
        })
    }

    /// What is written down, if anything is.
    pub(super) fn read(&self) -> Result<Option<MpsState>, MpsError> {
        let path = self.path.join(STATE);
        let text = match std::fs::read_to_string(&path) {
            Ok(text) => text,
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
            Err(source) => return Err(MpsError::File { action: "read", path, source }),
        };
        match serde_json::from_str::<MpsState>(&text) {
            Ok(state) if state.version == VERSION => Ok(Some(state)),
            Ok(state) => {
                let problem = format!("it has version {}, and this Rota knows {VERSION}", state.version);
                Err(MpsError::State { path, problem })
            }
            Err(error) => Err(MpsError::State { path, problem: error.to_string() }),
        }
    }

    /// Writes it down: whole, and on the disk, before this returns.
    pub(super) fn write(&self, state: &MpsState) -> Result<(), MpsError> {
        let path = self.path.join(STATE);
        let draft = self.path.join("state.json.draft");
        let write = || {
            let mut file = OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&draft)?;
            file.write_all(serde_json::to_string(state)?.as_bytes())?;
            file.sync_all()?;
            std::fs::rename(&draft, &path)?;
            sync(&self.path)
        };
        write().map_err(|source| MpsError::File { action: "write", path: path.clone(), source })
    }

    /// There is nothing to put back any more.
    pub(super) fn forget(&self) -> Result<(), MpsError> {
        let path = self.path.join(STATE);
        match std::fs::remove_file(&path).and_then(|()| sync(&self.path)) {
            Err(source) if source.kind() != ErrorKind::NotFound => Err(MpsError::File { action: "remove", path, source }),
            _ => Ok(()),
        }
    }
}

/// Makes a directory with a mode whatever the umask is. One that is there keeps its mode: it is the owner's or the daemon's choice.
fn make(path: &Path, mode: u32) -> Result<(), MpsError> {
    let make = || {
        match std::fs::DirBuilder::new().mode(mode).create(path) {
            Err(error) if error.kind() == ErrorKind::AlreadyExists && path.is_dir() => return Ok(()),
            outcome => outcome?,
        }
        std::fs::set_permissions(path, Permissions::from_mode(mode))?;
        path.parent().map_or(Ok(()), sync)
    };
    make().map_err(|source| MpsError::File { action: "make", path: path.to_owned(), source })
}

fn sync(folder: &Path) -> std::io::Result<()> {
    File::open(folder)?.sync_all()
}
