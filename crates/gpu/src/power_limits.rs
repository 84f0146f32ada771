//! Power limits, read and set. What must hold: the limit that a GPU had is on the disk before it is changed, and stays there until it has
//! been put back, so that whatever moment Rota dies at the next start puts it back. A limit that someone else has set since is left
//! alone.

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

const VERSION: u32 = 1;
/// Limits that differ by less than this are the same one: drivers round.
const SAME_WATTS: f64 = 1.0;

/// Reads and sets the power limits of devices.
pub trait PowerLimits {
    /// The least and the greatest limit that a device takes, in watts.
    fn range(&self, uuid: &str) -> Result<(f64, f64), LimitError>;

    /// The limit of a device now, in watts.
    fn get(&self, uuid: &str) -> Result<f64, LimitError>;

    /// Sets the limit of a device. It holds until it is set again, or the driver is loaded anew.
    fn set(&self, uuid: &str, watts: f64) -> Result<(), LimitError>;
}

/// Why a limit could not be asked or set.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LimitError {
    /// Only root may.
    #[error("only root may set the power limit of a GPU")]
    NoPermission,
    /// The device has no such setting.
    #[error("the GPU has no power limit that can be set")]
    NotSupported,
    /// The device is gone.
    #[error("the GPU is lost")]
    Lost,
    /// The driver would not.
    #[error("the driver answered: {0}")]
    Driver(String),
}

/// Why GPUs could not be capped.
#[derive(Debug, thiserror::Error)]
pub enum CapError {
    /// The file with the limits to put back.
    #[error("{path}: {source}")]
    File {
        /// The path of that file.
        path: PathBuf,
        /// What the system says.
        source: io::Error,
    },
    /// A device would not.
    #[error("GPU {uuid}: {source}")]
    Limit {
        /// The UUID of the GPU.
        uuid: String,
        /// Why the limit was not set.
        source: LimitError,
    },
    /// Outside what a device takes.
    #[error("GPU {uuid}: {watts} W is not from {least} to {greatest} W, which it takes")]
    Range {
        /// The UUID of the GPU.
        uuid: String,
        /// The cap that was asked for.
        watts: f64,
        /// The least limit.
        least: f64,
        /// The greatest limit.
        greatest: f64,
    },
}

/// What is written down of a GPU before it is capped.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
struct Kept {
    before_watts: f64,
    cap_watts: f64,
}

#[derive(Serialize, Deserialize)]
struct Written {
    version: u32,
    gpus: BTreeMap<String, Kept>,
}

/// The limits that are to be put back, on the disk.
#[derive(Debug)]
pub struct CapBook {
    path: PathBuf,
}

impl CapBook {
    /// The book in a state directory.
    pub fn new(state_dir: &Path) -> Self {
        Self { path: state_dir.join("power-limits.json") }
    }

    /// Caps devices, in watts. If one refuses, those before it are put back.
    pub fn cap(&self, caps: &[(String, f64)], limits: &dyn PowerLimits) -> Result<(), CapError> {
        let failed = |uuid: &str| {
            let uuid = uuid.to_owned();
            move |source| CapError::Limit { uuid, source }
        };
        let mut gpus = self.read()?;
        for (uuid, watts) in caps {
            let (least, greatest) = limits.range(uuid).map_err(failed(uuid))?;
            if !(least - SAME_WATTS..=greatest + SAME_WATTS).contains(watts) {
                return Err(CapError::Range { uuid: uuid.clone(), watts: *watts, least, greatest });
            }
            let before_watts = limits.get(uuid).map_err(failed(uuid))?;
            gpus.insert(uuid.clone(), Kept { before_watts, cap_watts: *watts });
        }
        self.write(&gpus)?;
        for (uuid, watts) in caps {
            if let Err(source) = limits.set(uuid, *watts) {
                self.put_back(limits)?;
                return Err(CapError::Limit { uuid: uuid.clone(), source });
            }
        }
        Ok(())
    }

    /// Puts back the limits that are written down. Says for which GPUs that was not done, and why: those stay written down, unless someone
    /// else has set their limit since.
    pub fn put_back(&self, limits: &dyn PowerLimits) -> Result<Vec<String>, CapError> {
        let gpus = self.read()?;
        let mut left = BTreeMap::new();
        let mut notes = Vec::new();
        for (uuid, kept) in &gpus {
            match limits.get(uuid) {
                Ok(now) if (now - kept.cap_watts).abs() >= SAME_WATTS => {
                    if (now - kept.before_watts).abs() >= SAME_WATTS {
                        notes.push(format!("GPU {uuid} has a limit of {now} W that someone else has set; it is left as it is"));
                    }
                }
                Ok(_) => {
                    if let Err(error) = limits.set(uuid, kept.before_watts) {
                        notes.push(format!("GPU {uuid} keeps its power cap: {error}"));
                        left.insert(uuid.clone(), *kept);
                    }
                }
                Err(error) => {
                    notes.push(format!("GPU {uuid} keeps its power cap: {error}"));
                    left.insert(uuid.clone(), *kept);
                }
            }
        }
        if !gpus.is_empty() {
            self.write(&left)?;
        }
        Ok(notes)
    }

    fn failed(&self, source: io::Error) -> CapError {
        CapError::File { path: self.path.clone(), source }
    }

    fn read(&self) -> Result<BTreeMap<String, Kept>, CapError> {
        let text = match std::fs::read(&self.path) {
            Ok(text) => text,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(BTreeMap::new()),
            Err(error) => return Err(self.failed(error)),
        };
        let written = serde_json::from_slice::<Written>(&text).map_err(|error| self.failed(io::Error::other(error)))?;
        if written.version != VERSION {
            let problem = format!("has version {}; this Rota reads {VERSION}", written.version);
            return Err(self.failed(io::Error::other(problem)));
        }
        Ok(written.gpus)
    }

    /// Writes the book so that it is whole on the disk, or the one before is.
    fn write(&self, gpus: &BTreeMap<String, Kept>) -> Result<(), CapError> {
        if gpus.is_empty() {
            return match std::fs::remove_file(&self.path) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => Err(self.failed(error)),
                _ => Ok(()),
            };
        }
        let write = || {
            let draft = self.path.with_extension("draft");
            let mut file = File::create(&draft)?;
            file.write_all(serde_json::to_string(&Written { version: VERSION, gpus: gpus.clone() })?.as_bytes())?;
            file.sync_all()?;
            std::fs::rename(&draft, &self.path)?;
            self.path.parent().map_or(Ok(()), |folder| File::open(folder)?.sync_all())
        };
        write().map_err(|error| self.failed(error))
    }
}
