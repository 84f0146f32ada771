//! MPS, NVIDIA's service through which several processes compute on one GPU at the same time: its whole life, from start to stop.
//!
//! Every shared GPU has a control daemon of its own (a *domain*), so that a fault on one GPU stays there. What must always hold:
//!
//! - The compute mode a GPU had is on the disk before it is changed, and stays there until it has been put back. Whatever moment Rota
//!   dies at, [`Mps::recover`] puts back what is still ours to put back: a mode that someone else has set since is left alone.
//! - A domain serves one user at a time, as MPS does: two users' jobs would wait for each other without a word.
//! - Nothing is killed but a control program we started ourselves and that has outlived its time. Jobs, servers and control daemons
//!   are only ever asked.
//!
//! Everything here waits for the control program, so it may take some seconds: not for a thread that others wait for.

mod control;
mod error;
mod folder;

pub use error::MpsError;

use crate::{ComputeMode, ComputeModes, Device, ModeError};
use control::{Client, Control};
use folder::{Folder, MpsState};
use std::collections::BTreeSet;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// How long one call of the control program may take.
const TIMEOUT: Duration = Duration::from_secs(5);

/// The MPS control daemons of this machine that are Rota's, one a GPU.
///
/// ```no_run
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use rota_gpu::{Devices, Mps, Nvml};
/// let mut nvml = Nvml::open()?;
/// let mut mps = Mps::new("nvidia-cuda-mps-control".as_ref(), "/var/lib/rota/mps".as_ref());
/// mps.check()?;
/// mps.recover(&|_uuid| false, &nvml);
/// let device = nvml.list()?.remove(0);
/// mps.start(&device, 1000, &nvml)?;
/// let environment = mps.environment(&device.uuid, Some(50), Some(4096)); // of each job on the GPU
/// // … before a job is killed:
/// mps.terminate_clients(&device.uuid, &[4711])?;
/// // … when the last job has ended:
/// mps.stop(&device.uuid, &nvml)?;
/// # Ok(()) }
/// ```
#[derive(Debug)]
pub struct Mps {
    control: PathBuf,
    base: PathBuf,
    timeout: Duration,
}

/// A GPU that jobs may share.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Domain {
    /// The GPU's UUID.
    pub uuid: String,
    /// The user whose jobs may share it.
    pub uid: u32,
    /// What is not as it should be, and what to do about it; sharing works nevertheless.
    pub notes: Vec<String>,
}

/// What became of a domain that an earlier Rota left.
#[derive(Debug)]
pub struct Recovered {
    /// The GPU's UUID.
    pub uuid: String,
    /// What was done about the domain.
    pub outcome: Recovery,
}

/// What was done with a domain that an earlier Rota left.
#[derive(Debug)]
pub enum Recovery {
    /// Jobs use it, so it stays as it is.
    Kept {
        /// Whether its control daemon answers. If not, [`Mps::start`] starts another for jobs to come.
        answers: bool,
    },
    /// No process uses it: its daemon was ended, if it still ran, and the compute mode put back.
    Stopped,
    /// It could not be stopped. What is to be put back is still written down.
    Failed(MpsError),
}

impl Mps {
    /// The control program (looked for on the `PATH` if it has no slash) and the directory where everything is kept, which need not
    /// exist yet; the directory it is in must. Nothing happens before [`start`](Self::start).
    pub fn new(control: &Path, base: &Path) -> Self {
        // The control daemon does not run in our working directory, and jobs do not either.
        let base = std::path::absolute(base).unwrap_or_else(|_| base.to_owned());
        Self { control: control.to_owned(), base, timeout: TIMEOUT }
    }

    /// With another time that a call of the control program may take; it is 5 s.
    #[must_use]
    pub fn with_timeout(self, timeout: Duration) -> Self {
        Self { timeout, ..self }
    }

    /// Whether the control program is there and may be run.
    pub fn check(&self) -> Result<(), MpsError> {
        control::find(&self.control).map(drop)
    }

    /// Makes a GPU one that jobs of a user may share: the compute mode is written down and set to one process (which is then the MPS
    /// server), and a control daemon started. What is done already stays as it is, so this may be called before every job.
    ///
    /// [`MpsError::Busy`] while processes of another user are on the GPU's server. A job that was started and has not used CUDA yet
    /// cannot be seen there: the caller, which started it, must know of it.
    ///
    /// If the daemon does not start, everything is as it was before.
    pub fn start(&mut self, device: &Device, uid: u32, modes: &dyn ComputeModes) -> Result<Domain, MpsError> {
        self.check()?;
        let folder = Folder::of(&self.base, &device.uuid)?;
        let known = folder.read()?;
        folder.prepare(uid)?;
        let control = self.control(&folder);
        let clients = match control.clients() {
            Ok(clients) => Some(clients),
            Err(MpsError::NotRunning) => None,
            Err(error) => return Err(error),
        };
        if let (Some(known), Some([_, ..])) = (&known, clients.as_deref())
            && known.uid != uid
        {
            return Err(MpsError::Busy { uid: known.uid });
        }
        let mut state = known.unwrap_or_else(|| MpsState::new(uid));
        state.uid = uid;
        let mut notes = Vec::new();
        let started = claim(&folder, &mut state, device, modes, &mut notes).and_then(|()| match clients {
            Some(_) => Ok(()),
            None => control.start(&device.cuda_name()),
        });
        match started {
            Ok(()) => Ok(Domain { uuid: device.uuid.clone(), uid, notes }),
            Err(error) if clients.is_some() => Err(error),
            Err(error) => {
                // Should this fail too, what is to be put back is still written down.
                _ = self.stop(&device.uuid, modes);
                Err(error)
            }
        }
    }

    /// Whether the GPU's control daemon answers.
    pub fn health(&self, uuid: &str) -> Result<(), MpsError> {
        self.control(&Folder::of(&self.base, uuid)?).servers().map(drop)
    }

    /// Takes the work of some processes off a GPU, as must be done before they are killed: a client killed in the middle of its work
    /// can take its neighbours with it. Process ids that are no clients are passed over, so all of a job's may be given. Returns how
    /// many clients were taken off.
    ///
    /// Ends at the first client the server does not let go in time, as it would not let the others go either; then there is nothing
    /// left but to kill.
    pub fn terminate_clients(&self, uuid: &str, pids: &[u32]) -> Result<usize, MpsError> {
        let control = self.control(&Folder::of(&self.base, uuid)?);
        let clients = match control.clients() {
            Ok(clients) => clients,
            Err(MpsError::NotRunning) => return Ok(0),
            Err(error) => return Err(error),
        };
        let mut refused = None;
        let mut count = 0;
        for client in clients.into_iter().filter(|client| pids.contains(&client.pid)) {
            match control.terminate(client) {
                Ok(was_there) => count += usize::from(was_there),
                Err(error @ (MpsError::Failed { .. } | MpsError::Answer { .. })) => refused = refused.or(Some(error)),
                Err(error) => return Err(error),
            }
        }
        refused.map_or(Ok(count), Err)
    }

    /// Ends a GPU's control daemon and puts its compute mode back. Nothing happens to a GPU that is not shared.
    ///
    /// [`MpsError::InUse`] while processes are on the GPU's server: the daemon would turn new ones away and wait for the old ones.
    pub fn stop(&mut self, uuid: &str, modes: &dyn ComputeModes) -> Result<(), MpsError> {
        let folder = Folder::of(&self.base, uuid)?;
        let Some(state) = folder.read()? else {
            return Ok(());
        };
        let control = self.control(&folder);
        match control.clients() {
            Ok(clients) if clients.is_empty() => control.quit()?,
            Ok(clients) => return Err(MpsError::InUse { pids: distinct(&clients) }),
            Err(MpsError::NotRunning) => {}
            // Whoever removed NVIDIA's driver should not find its next version with our compute mode.
            Err(MpsError::Program { .. }) if !control.has_daemon() => {}
            Err(error) => return Err(error),
        }
        put_back(uuid, &state, modes)?;
        folder.forget()
    }

    /// What an earlier Rota left, by UUID: domains whose jobs still run are kept, the others stopped as by [`stop`](Self::stop).
    /// To be called once, before the first [`start`](Self::start).
    pub fn recover(&mut self, still_used: &dyn Fn(&str) -> bool, modes: &dyn ComputeModes) -> Vec<Recovered> {
        let uuids = match Folder::all(&self.base) {
            Ok(uuids) => uuids,
            Err(error) => return vec![Recovered { uuid: String::new(), outcome: Recovery::Failed(error) }],
        };
        let outcome = |mps: &mut Self, uuid: &str| {
            if still_used(uuid) {
                return Recovery::Kept { answers: mps.health(uuid).is_ok() };
            }
            mps.stop(uuid, modes).map_or_else(Recovery::Failed, |()| Recovery::Stopped)
        };
        uuids.into_iter().map(|uuid| Recovered { outcome: outcome(self, &uuid), uuid }).collect()
    }

    /// The user whose jobs share a GPU; `None` if it is not shared.
    pub fn user_of(&self, uuid: &str) -> Option<u32> {
        Folder::of(&self.base, uuid).and_then(|folder| folder.read()).ok().flatten().map(|state| state.uid)
    }

    /// What a job on a shared GPU has in its environment, in place of what it had under the same names: where the domain is, and
    /// which part of the GPU's threads and how much of its memory it may use at most.
    ///
    /// For jobs on one GPU: a process cannot be in two domains.
    pub fn environment(&self, uuid: &str, threads_percent: Option<u8>, memory_mib: Option<u32>) -> Vec<(OsString, OsString)> {
        // The server shows its clients the one GPU it has, as number 0; a UUID means the same GPU on both sides.
        let visible = if uuid.starts_with("PCI-") { "0" } else { uuid };
        let mut environment: Vec<(OsString, OsString)> = vec![
            ("CUDA_MPS_PIPE_DIRECTORY".into(), self.base.join(uuid).join("pipe").into()),
            ("CUDA_VISIBLE_DEVICES".into(), visible.into()),
        ];
        if let Some(percent) = threads_percent {
            environment.push(("CUDA_MPS_ACTIVE_THREAD_PERCENTAGE".into(), percent.clamp(1, 100).to_string().into()));
        }
        if let Some(memory_mib) = memory_mib {
            environment.push(("CUDA_MPS_PINNED_DEVICE_MEM_LIMIT".into(), format!("0={memory_mib}M").into()));
        }
        environment
    }

    fn control(&self, folder: &Folder) -> Control<'_> {
        Control { program: &self.control, pipe: folder.pipe(), log: folder.log(), timeout: self.timeout }
    }
}

/// Each process once: one with several contexts may be listed several times.
fn distinct(clients: &[Client]) -> Vec<u32> {
    clients.iter().map(|client| client.pid).collect::<BTreeSet<_>>().into_iter().collect()
}

/// Writes down what is about to be done, then lets only the server onto the GPU.
fn claim(
    folder: &Folder,
    state: &mut MpsState,
    device: &Device,
    modes: &dyn ComputeModes,
    notes: &mut Vec<String>,
) -> Result<(), MpsError> {
    let uuid = &device.uuid;
    let trouble = |action| move |source| MpsError::Mode { action, uuid: uuid.clone(), source };
    // The mode is the whole GPU's, and the other parts are not ours.
    let mode = if device.mig_parent.is_some() { ComputeMode::Unknown } else { modes.get(uuid).map_err(trouble("ask for"))? };
    match mode {
        ComputeMode::Prohibited => return Err(MpsError::Prohibited { uuid: uuid.clone() }),
        ComputeMode::Default => state.mode_before = Some(mode),
        // If Rota set it, the mode before is known already.
        ComputeMode::ExclusiveProcess => {}
        ComputeMode::Unknown => {
            notes.push(
                "processes that do not go through MPS are not kept off the GPU: it has no compute mode of its own".to_owned(),
            );
        }
    }
    folder.write(state)?;
    if mode != ComputeMode::Default {
        return Ok(());
    }
    match modes.set(uuid, ComputeMode::ExclusiveProcess) {
        Ok(()) => Ok(()),
        Err(problem @ (ModeError::NoPermission | ModeError::NotSupported)) => {
            notes.push(format!(
                "processes that do not go through MPS are not kept off the GPU: {problem}; \
                 root can keep them off with `nvidia-smi -i {uuid} -c EXCLUSIVE_PROCESS`"
            ));
            state.mode_before = None;
            folder.write(state)
        }
        Err(error) => Err(trouble("set")(error)),
    }
}

/// Puts the compute mode back, if it is still the one we set.
fn put_back(uuid: &str, state: &MpsState, modes: &dyn ComputeModes) -> Result<(), MpsError> {
    let Some(before) = state.mode_before else {
        return Ok(());
    };
    let done = match modes.get(uuid) {
        Ok(ComputeMode::ExclusiveProcess) => modes.set(uuid, before),
        Ok(_) => Ok(()),
        Err(error) => Err(error),
    };
    match done {
        // A GPU that returns has the mode the driver gives it, not ours.
        Ok(()) | Err(ModeError::Lost) => Ok(()),
        Err(source) => Err(MpsError::Mode { action: "put back", uuid: uuid.to_owned(), source }),
    }
}
