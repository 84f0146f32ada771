//! The executor of this machine: a supervisor for each run, which outlives the caller.

use std::ffi::OsString;
use std::fs::DirBuilder;
use std::io::{self, Read, Seek, SeekFrom};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::sync::mpsc::Sender;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rota_gpu::{ComputeModes, Device, Mps};

use crate::executor::{
    Adoption, EventSink, Executor, ExecutorEvent, KnownRun, Node, NodeName, PrepareError, RunIdentity, RunKey, RunRequest,
    StartError, Started, Stop, StopError,
};
use crate::local::chain;
use crate::local::confinement::devices::{DeviceFilter, NVIDIA_MAJOR};
use crate::local::environment::{cuda_names, environment, first_device};
use crate::local::launch::{LaunchError, Launcher};
use crate::local::mps::{MpsKeeper, Work};
use crate::local::processes::identity::Identity;
use crate::local::run_directory::adopt::{Adopted, adopt};
use crate::local::run_directory::look::{Looked, look};
use crate::local::run_directory::run_dir::{RunDir, SPEC, SUPERVISOR, VOID};
use crate::local::run_directory::spec::RunSpec;
use crate::local::watch::Watch;

/// Others may pass through, so that the job's user can read the log.
const DIRECTORY_MODE: u32 = 0o711;

/// How runs are made on this machine.
#[derive(Clone, Debug)]
pub struct LocalSettings {
    /// The name of this machine.
    pub node: NodeName,
    /// The directory that keeps everything: run directories are in `jobs`, what MPS needs is in `mps`.
    pub state_dir: PathBuf,
    /// The program that makes supervisors, such as `/usr/bin/rota`.
    pub program: PathBuf,
    /// The arguments of that program, such as `__supervise`.
    pub arguments: Vec<OsString>,
    /// The cgroup in which each run gets its own, if runs are to have one; see [`cgroup_root`](crate::cgroup_root).
    pub cgroup: Option<PathBuf>,
    /// NVIDIA's control program for MPS.
    pub mps_control: PathBuf,
    /// What is kept from runs.
    pub hardening: Hardening,
    /// The number of files that runs may have open, where the caller has raised its own.
    pub files_max: Option<u64>,
}

/// What is kept from runs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Hardening {
    /// A run can open only its own GPUs, where it has a cgroup and the kernel permits it.
    pub isolates_devices: bool,
    /// The programs of a run get no rights that its user does not have.
    pub no_new_privileges: bool,
}

/// What the threads of the executor share.
pub(crate) struct Shared {
    pub(crate) settings: LocalSettings,
    pub(crate) watch: Arc<Watch>,
    launcher: Mutex<Launcher>,
    devices: Mutex<Vec<Device>>,
    /// Knows the variables of runs under MPS. The thread that starts and ends MPS has another.
    mps: Mps,
}

/// What a launch has led to.
pub(crate) enum Launched {
    Running,
    /// The run is looked at again until it is known.
    Unknown,
    /// The run's directory was used before.
    Duplicate,
    /// Nothing was started, and nothing will be.
    Failed(String),
}

impl Shared {
    fn devices(&self) -> MutexGuard<'_, Vec<Device>> {
        self.devices.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The device with this UUID.
    pub(crate) fn device(&self, uuid: &str) -> Option<Device> {
        self.devices().iter().find(|device| device.uuid == uuid).cloned()
    }

    fn node(&self) -> Node {
        Node { name: self.settings.node.clone(), devices: self.devices().clone(), answers: true }
    }

    /// The GPUs that a run may open. GPUs without a device file, such as virtual ones, are not filtered.
    fn device_filter(&self, request: &RunRequest) -> Option<DeviceFilter> {
        let devices = self.devices();
        let has_files = !devices.is_empty() && devices.iter().all(|device| device.minor.is_some());
        let is_own = |device: &Device| request.places.iter().any(|place| place.uuids.contains(&device.uuid));
        let is_given = |device: &&Device| is_own(device) || request.spare_uuids.contains(&device.uuid);
        let minors = devices.iter().filter(is_given).filter_map(|device| device.minor).collect();
        let is_wanted = self.settings.hardening.isolates_devices && self.settings.cgroup.is_some();
        (has_files && is_wanted).then_some(DeviceFilter { major: NVIDIA_MAJOR, minors })
    }

    fn spec(&self, request: &RunRequest) -> RunSpec {
        let names = cuda_names(&self.devices());
        RunSpec {
            job: request.run.job,
            attempt: request.run.attempt,
            identity: Some(request.identity.clone()),
            command: request.command.clone(),
            cwd: request.cwd.clone(),
            env: environment(request, &names, &self.mps),
            run_as: request.run_as.clone(),
            log: self.watch.dir(request.run).join("log"),
            log_bytes_max: request.log.bytes_max,
            log_files_max: request.log.files_max,
            time_limit: request.limits.time,
            grace: request.limits.grace,
            notice: Some(request.notice),
            memory_max_bytes: request.limits.memory_max_bytes,
            cpus_max: request.limits.cpus_max,
            cgroup: self.settings.cgroup.clone(),
            devices: self.device_filter(request),
            resource_limits: request.resource_limits.clone(),
            no_new_privileges: self.settings.hardening.no_new_privileges && request.run_as.is_some(),
        }
    }

    /// Launches the supervisor of a run that is in the table.
    pub(crate) fn launch(&self, request: &RunRequest) -> Launched {
        let (run, spec) = (request.run, self.spec(request));
        let launched = self.launcher.lock().unwrap_or_else(PoisonError::into_inner).launch(&self.watch.dir(run), &spec);
        match launched {
            Ok(supervisor) => {
                if self.watch.follow(run, supervisor) {
                    Launched::Running
                } else {
                    Launched::Unknown
                }
            }
            Err(LaunchError::Used { .. }) => Launched::Duplicate,
            // Nobody was asked for a supervisor yet.
            Err(error @ LaunchError::Directory { .. }) => Launched::Failed(chain(&error)),
            // Its supervisor may be there all the same. If it is not, the directory is void once it was looked at.
            Err(error @ LaunchError::Start { .. }) => {
                self.watch.look_later(run, Some(chain(&error)));
                Launched::Unknown
            }
        }
    }
}

/// The executor of this machine.
pub struct LocalExecutor {
    shared: Arc<Shared>,
    works: Sender<Work>,
}

/// What other threads may ask the executor of this machine, and tell it.
#[derive(Clone)]
pub struct LocalNode(Arc<Shared>);

impl LocalNode {
    /// The job that each watched process belongs to: supervisors of runs, and processes that claims are tied to.
    pub fn jobs_by_pid(&self) -> std::collections::HashMap<u32, u64> {
        self.0.watch.jobs_by_pid()
    }

    /// Takes note of the devices that were found. The caller is told if they are others than before.
    pub fn found(&self, devices: Vec<Device>) {
        let known = std::mem::replace(&mut *self.0.devices(), devices);
        let node = self.0.node();
        if known != node.devices {
            self.0.watch.tell(ExecutorEvent::InventoryChanged(node));
        }
    }
}

impl LocalExecutor {
    /// An executor with these devices, whose events go to a sink.
    pub fn new(
        settings: LocalSettings,
        devices: Vec<Device>,
        modes: Box<dyn ComputeModes + Send>,
        sink: EventSink,
    ) -> io::Result<Self> {
        let (works, to_do) = std::sync::mpsc::channel();
        let watch = Watch::start(settings.state_dir.join("jobs"), sink, works.clone())?;
        let mps = || Mps::new(&settings.mps_control, &settings.state_dir.join("mps"));
        let launcher =
            Mutex::new(Launcher::new(settings.program.clone(), settings.arguments.clone()).with_files_max(settings.files_max));
        let keeper_mps = mps();
        let shared = Arc::new(Shared { mps: mps(), settings, watch, launcher, devices: Mutex::new(devices) });
        let keeper = MpsKeeper { shared: Arc::clone(&shared), mps: keeper_mps, modes, held: std::collections::BTreeMap::new() };
        std::thread::Builder::new().name("mps".to_owned()).spawn(move || keeper.run(&to_do))?;
        Ok(Self { shared, works })
    }

    /// What other threads may ask this executor, and tell it.
    pub fn node(&self) -> LocalNode {
        LocalNode(Arc::clone(&self.shared))
    }

    /// Watches the process that a claim is tied to, in place of the one before. False if the process is gone.
    pub fn watch_holder(&self, claim: RunKey, holder: &Identity) -> bool {
        self.shared.watch.hold(claim, holder)
    }

    fn check_place(&self, request: &RunRequest) -> Result<(), StartError> {
        let refused = |problem: String| StartError::Place { run: request.run, problem };
        match request.places.as_slice() {
            [place] if place.node == self.shared.settings.node => Ok(()),
            [place] => Err(refused(format!("there is no node {}; this is {}", place.node, self.shared.settings.node))),
            places => Err(refused(format!("a run on this machine has one node, not {}", places.len()))),
        }
    }
}

impl Drop for LocalExecutor {
    fn drop(&mut self) {
        self.shared.watch.close();
    }
}

impl Executor for LocalExecutor {
    fn inventory(&self) -> Vec<Node> {
        vec![self.shared.node()]
    }

    fn check_mps(&self) -> Result<(), String> {
        self.shared.mps.check().map_err(|error| chain(&error))
    }

    fn prepare(&mut self, run: RunKey) -> Result<RunIdentity, PrepareError> {
        let path = self.shared.watch.dir(run);
        let failed = |source| PrepareError::Place { path: path.clone(), source };
        let make = || DirBuilder::new().recursive(true).mode(DIRECTORY_MODE).create(&path);
        match DirBuilder::new().mode(DIRECTORY_MODE).create(&path) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                if let Some(supervisor) = clear(&path).map_err(failed)? {
                    return Err(PrepareError::Occupied { path, supervisor });
                }
                // What was there may have been put aside.
                make().map_err(failed)?;
            }
            // The first run of its job.
            Err(error) if error.kind() == io::ErrorKind::NotFound => make().map_err(failed)?,
            created => created.map_err(failed)?,
        }
        new_identity().map_err(failed)
    }

    fn start(&mut self, request: RunRequest) -> Result<Started, StartError> {
        let run = request.run;
        self.check_place(&request)?;
        let mps_device = request.mps.as_ref().and_then(|_| first_device(&request)).map(str::to_owned);
        let is_under_mps = mps_device.is_some();
        if !self.shared.watch.reserve(run, mps_device, Some(request.identity.clone())) {
            return Err(StartError::Duplicate { run });
        }
        if is_under_mps {
            let is_used = is_used(&self.shared.watch.dir(run)).unwrap_or(false);
            if is_used {
                self.shared.watch.forget(run);
                return Err(StartError::Duplicate { run });
            }
            if self.works.send(Work::Start(Box::new(request))).is_err() {
                self.shared.watch.forget(run);
                return Err(StartError::NotLaunched("the thread that starts MPS has ended".to_owned()));
            }
            return Ok(Started::Taken);
        }
        match self.shared.launch(&request) {
            Launched::Running => Ok(Started::Running),
            Launched::Unknown => Ok(Started::Taken),
            Launched::Duplicate => {
                self.shared.watch.forget(run);
                Err(StartError::Duplicate { run })
            }
            Launched::Failed(problem) => {
                self.shared.watch.forget(run);
                Err(StartError::NotLaunched(problem))
            }
        }
    }

    fn stop(&mut self, run: RunKey, how: Stop) -> Result<(), StopError> {
        if let Some(uuid) = self.shared.watch.stop(run, how)?
            && self.works.send(Work::Stop(run, how, uuid)).is_err()
        {
            self.shared.watch.stop_now(run, how);
        }
        Ok(())
    }

    fn adopt(&mut self, known: &KnownRun) -> Adoption {
        let run = known.run;
        let device = known.places.iter().flat_map(|place| &place.uuids).next().filter(|_| known.is_under_mps);
        let watch = &self.shared.watch;
        if !watch.reserve(run, device.cloned(), known.identity.clone()) {
            return if watch.is_alive(run) { Adoption::Running } else { Adoption::Unknown };
        }
        match look(&watch.dir(run), known.identity.as_ref()) {
            Looked::Alive(supervisor) => {
                if watch.follow(run, supervisor) {
                    Adoption::Running
                } else {
                    Adoption::Unknown
                }
            }
            Looked::Ended(end) => {
                watch.forget(run);
                Adoption::Ended(end)
            }
            Looked::Later(problem) => {
                watch.look_later(run, None);
                watch.tell(ExecutorEvent::Unreadable { run, problem });
                Adoption::Unknown
            }
        }
    }

    fn settle(&mut self) {
        let (done, settled) = std::sync::mpsc::sync_channel(1);
        if self.works.send(Work::Settle(done)).is_ok() {
            // A thread that has ended has nothing left to settle.
            _ = settled.recv();
        }
    }

    fn log_path(&self, run: RunKey) -> Option<PathBuf> {
        Some(self.shared.watch.dir(run).join("log"))
    }

    fn log_end(&self, run: RunKey, bytes_max: u64) -> io::Result<Vec<u8>> {
        let mut log = std::fs::File::open(self.shared.watch.dir(run).join("log"))?;
        let length = log.metadata()?.len();
        log.seek(SeekFrom::Start(length.saturating_sub(bytes_max)))?;
        let mut end = Vec::new();
        log.take(bytes_max).read_to_end(&mut end)?;
        Ok(end)
    }

    fn highest_job(&self) -> io::Result<Option<u64>> {
        highest_job_in(&self.shared.settings.state_dir.join("jobs"))
    }
}

/// The highest number of a job with a directory here.
pub(crate) fn highest_job_in(jobs: &Path) -> io::Result<Option<u64>> {
    let entries = match std::fs::read_dir(jobs) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        entries => entries?,
    };
    let mut highest = None;
    for entry in entries {
        highest = highest.max(entry?.file_name().to_str().and_then(|name| name.parse().ok()));
    }
    Ok(highest)
}

/// Whether a run directory was used: a supervisor was asked for, came, or will never come.
fn is_used(path: &Path) -> io::Result<bool> {
    let dir = RunDir::open(path)?;
    for name in [SPEC, SUPERVISOR, VOID] {
        if dir.exists(name)? {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Makes way for a run in a directory that is there. What another run left, which the caller does not know, is kept beside it under
/// another name; if that run still runs, the process id of its supervisor is given back.
fn clear(path: &Path) -> io::Result<Option<u32>> {
    if !is_used(path)? {
        return Ok(None);
    }
    match adopt(path) {
        Ok(Adopted::Running(supervisor)) => return Ok(Some(supervisor.identity().pid)),
        Ok(_) => {}
        Err(error) => return Err(io::Error::other(chain(&error))),
    }
    let mut kept = path.as_os_str().to_owned();
    kept.push(format!(".before-{}", new_identity()?.as_str()));
    std::fs::rename(path, kept)?;
    Ok(None)
}

/// A random identity, from the kernel.
pub(crate) fn new_identity() -> io::Result<RunIdentity> {
    let mut bytes = [0; 16];
    getrandom::fill(&mut bytes).map_err(io::Error::other)?;
    Ok(RunIdentity::from_text(format!("{:032x}", u128::from_be_bytes(bytes))))
}
