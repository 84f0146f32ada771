//! The machine's processes: starts supervisors, hears of their ends from the kernel, and finds them again after a restart.

use crate::api;
use crate::clock::{Clock, SystemClock};
use crate::config::Config;
use crate::platform::{Message, Outcome, Platform, Run};
use crate::record::Record;
use crate::users;
use rota_core::Time;
use rota_exec::{Adopted, LostReason, RunAs, RunSpec, Supervisor};
use rustix::event::epoll;
use rustix::fd::{AsFd, OwnedFd};
use rustix::process::{Pid, PidfdFlags, pidfd_open};
use std::collections::{HashMap, HashSet};
use std::ffi::OsString;
use std::io::{self, Read, Seek, SeekFrom};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// Messages taken at once: enough to share one write to the disk, few enough to answer soon.
const BATCH_MAX: usize = 8192;

/// Somebody whose end is waited for.
enum Watched {
    Supervisor { supervisor: Supervisor, dir: PathBuf },
    Holder { pidfd: OwnedFd, pid: u32 },
}

impl Watched {
    fn pid(&self) -> u32 {
        match self {
            Self::Supervisor { supervisor, .. } => supervisor.identity().pid,
            Self::Holder { pid, .. } => *pid,
        }
    }
}

/// Everybody whose end is waited for, by job and attempt.
#[derive(Default)]
pub struct Watch {
    watched: Mutex<HashMap<(u64, u32), Watched>>,
    epoll: Option<OwnedFd>,
}

impl Watch {
    /// A watch that tells of ends by messages, from a thread of its own.
    pub fn start(inbox: Sender<Message>) -> io::Result<Arc<Self>> {
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        let watch = Arc::new(Self { watched: Mutex::default(), epoll: Some(epoll) });
        let watching = Arc::clone(&watch);
        std::thread::Builder::new().name("exits".to_owned()).spawn(move || watching.run(&inbox))?;
        Ok(watch)
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<(u64, u32), Watched>> {
        self.watched.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn add(&self, job: u64, attempt: u32, watched: Watched) -> io::Result<()> {
        let mut all = self.lock();
        if let Some(epoll) = &self.epoll {
            let fd = match &watched {
                Watched::Supervisor { supervisor, .. } => supervisor.pidfd(),
                Watched::Holder { pidfd, .. } => pidfd.as_fd(),
            };
            // An attempt has few bits, a job many; both fit one word.
            let data = epoll::EventData::new_u64(job << 24 | u64::from(attempt & 0xff_ffff));
            epoll::add(epoll, fd, data, epoll::EventFlags::IN | epoll::EventFlags::ONESHOT)?;
        }
        all.insert((job, attempt), watched);
        Ok(())
    }

    /// Which job each watched process belongs to.
    pub fn jobs_by_pid(&self) -> HashMap<u32, u64> {
        let mut jobs = HashMap::new();
        for ((job, _), watched) in self.lock().iter() {
            // A process may claim again what it gave back: the last claim counts.
            let last = jobs.entry(watched.pid()).or_insert(*job);
            *last = (*last).max(*job);
        }
        jobs
    }

    fn run(&self, inbox: &Sender<Message>) {
        let Some(epoll) = &self.epoll else { return };
        let mut events = Vec::with_capacity(256);
        loop {
            events.clear();
            match epoll::wait(epoll, rustix::buffer::spare_capacity(&mut events), None) {
                Ok(_) | Err(rustix::io::Errno::INTR) => {}
                Err(_) => return,
            }
            for event in &events {
                let data = event.data.u64();
                let (job, attempt) = (data >> 24, (data & 0xff_ffff) as u32);
                let Some(gone) = self.lock().remove(&(job, attempt)) else { continue };
                let outcome = match gone {
                    Watched::Supervisor { dir, .. } => outcome_in(&dir),
                    Watched::Holder { .. } => Outcome::HolderGone,
                };
                if inbox.send(Message::Ended { job, attempt, outcome }).is_err() {
                    return;
                }
            }
        }
    }
}

/// What has become of a run whose supervisor is gone.
fn outcome_in(dir: &Path) -> Outcome {
    match rota_exec::adopt(dir) {
        Ok(Adopted::Ended(exit)) => Outcome::Ended(Box::new(exit)),
        Ok(Adopted::NeverStarted) => Outcome::NeverStarted,
        Ok(Adopted::Lost(LostReason::Rebooted)) => Outcome::Rebooted,
        Ok(Adopted::Lost(LostReason::SupervisorKilled)) => {
            // Nobody may get its GPUs while something of it lives.
            rota_exec::kill_leftovers(dir);
            Outcome::Lost("its supervisor was killed, so nobody knows how it ended".to_owned())
        }
        Ok(Adopted::Running(_)) => Outcome::Lost("its supervisor is gone and yet there".to_owned()),
        Err(error) => Outcome::Lost(format!("its supervisor is gone, and its record cannot be read: {error}")),
    }
}

/// The machine this daemon runs on.
pub struct SystemPlatform {
    clock: SystemClock,
    inbox: Receiver<Message>,
    watch: Arc<Watch>,
    launcher: rota_exec::Launcher,
    state_dir: PathBuf,
    config: Config,
    cuda_names: HashMap<String, String>,
    is_root: bool,
    cgroup: Option<PathBuf>,
    devices: Vec<rota_gpu::Device>,
    mps: rota_gpu::Mps,
    modes: Box<dyn rota_gpu::ComputeModes>,
}

impl SystemPlatform {
    /// Starts supervisors with this program.
    pub fn new(
        clock: SystemClock,
        inbox: Receiver<Message>,
        watch: Arc<Watch>,
        program: PathBuf,
        state_dir: PathBuf,
        config: Config,
        (devices, modes): (&[rota_gpu::Device], Box<dyn rota_gpu::ComputeModes>),
    ) -> Self {
        let mps = rota_gpu::Mps::new(&config.sharing.mps_control, &state_dir.join("mps"));
        let cgroup = config.jobs.cgroups.then(rota_exec::cgroup_root).flatten();
        Self {
            clock,
            inbox,
            watch,
            launcher: rota_exec::Launcher::new(program, vec![OsString::from("__supervise")]),
            state_dir,
            config,
            cuda_names: devices.iter().map(|device| (device.uuid.clone(), device.cuda_name())).collect(),
            is_root: rustix::process::geteuid().is_root(),
            cgroup,
            devices: devices.to_vec(),
            mps,
            modes,
        }
    }

    fn spec(&self, run: &Run<'_>) -> Result<RunSpec, String> {
        let record = run.record;
        let ask = &record.spec.ask;
        let run_as = if self.is_root && record.uid != 0 {
            let groups = users::groups_of(&record.user, record.spec.gid);
            Some(RunAs { uid: record.uid, gid: record.spec.gid, groups })
        } else {
            None
        };
        let log = record.log_path(&self.state_dir).ok_or("it has no log")?;
        let seconds = |value: f64| Duration::from_secs_f64(value.clamp(0.0, 1e9));
        Ok(RunSpec {
            job: record.id,
            attempt: record.attempts,
            command: record.command().iter().map(crate::text::Text::to_os).collect(),
            cwd: PathBuf::from(ask.cwd.to_os()),
            env: self.environment(run),
            run_as,
            log,
            log_bytes_max: self.config.jobs.log_mib << 20,
            log_files_max: self.config.jobs.log_files,
            time_limit: ask.time_limit_seconds.map(seconds),
            grace: seconds(ask.grace_seconds.unwrap_or(self.config.jobs.grace_seconds)),
            memory_max_bytes: ask.host_memory_mib.map(|memory| memory << 20),
            cpus_max: ask.cpus,
            cgroup: self.cgroup.clone(),
        })
    }

    /// Sees to MPS on a job's GPU.
    fn start_mps(&mut self, record: &Record) -> Result<(), String> {
        let uuid = record.gpu_uuids.first().ok_or("it has no GPU")?;
        let device = self.devices.iter().find(|device| device.uuid == *uuid).ok_or("its GPU is gone")?;
        self.mps.start(device, record.uid, &*self.modes).map(|_| ()).map_err(|error| chain(&error))
    }

    /// Takes a job's processes out of the MPS server, which a killed client may take down with all others.
    fn leave_mps(&self, record: &Record) {
        let pids = rota_exec::job_processes(&record.run_dir(&self.state_dir));
        if let Some(uuid) = record.gpu_uuids.first() {
            // If the server does not let them go, they are ended all the same.
            _ = self.mps.terminate_clients(uuid, &pids);
        }
    }

    /// What the user had, with what Rota says in its place.
    fn environment(&self, run: &Run<'_>) -> Vec<(OsString, OsString)> {
        let record = run.record;
        let devices =
            record.gpu_uuids.iter().map(|uuid| self.cuda_names.get(uuid).unwrap_or(uuid).clone()).collect::<Vec<_>>().join(",");
        let mut own: Vec<(OsString, OsString)> = vec![
            ("ROTA_JOB_ID".into(), record.id.to_string().into()),
            ("ROTA_ATTEMPT".into(), record.attempts.to_string().into()),
            ("ROTA_GPUS".into(), record.spec.ask.gpus.to_string().into()),
            ("ROTA_STATE".into(), self.state_dir.clone().into()),
            ("CUDA_DEVICE_ORDER".into(), "PCI_BUS_ID".into()),
            ("CUDA_VISIBLE_DEVICES".into(), devices.into()),
        ];
        if let Some(index) = record.spec.array_index {
            own.push(("ROTA_ARRAY_INDEX".into(), index.to_string().into()));
        }
        for (name, value) in &record.spec.values {
            own.push((format!("ROTA_PARAM_{}", name.to_uppercase()).into(), value.into()));
        }
        if let Some(uuid) = record.gpu_uuids.first().filter(|_| record.is_under_mps()) {
            let percent = record.spec.ask.threads_percent.and_then(|percent| u8::try_from(percent).ok());
            // What the MPS server calls its GPU counts in place of what others call it.
            let under_mps = self.mps.environment(uuid, percent, record.memory());
            own.retain(|(name, _)| !under_mps.iter().any(|(other, _)| other == name));
            own.extend(under_mps);
        }
        let given = run.env.iter().map(|(name, value)| (name.to_os(), value.to_os()));
        let kept = given.filter(|(name, _)| !own.iter().any(|(own, _)| own == name)).collect::<Vec<_>>();
        kept.into_iter().chain(own).collect()
    }
}

impl Platform for SystemPlatform {
    fn now(&self) -> Time {
        self.clock.now()
    }

    fn wall_ns(&self) -> i64 {
        self.clock.wall_ns()
    }

    fn wait(&mut self, until: Option<Time>) -> Option<Vec<Message>> {
        let first = match until {
            None => self.inbox.recv().map_err(|_| RecvTimeoutError::Disconnected),
            Some(until) => self.inbox.recv_timeout(Duration::from_nanos(until.0.saturating_sub(self.now().0))),
        };
        match first {
            Ok(first) => Some(std::iter::once(first).chain(self.inbox.try_iter()).take(BATCH_MAX).collect()),
            Err(RecvTimeoutError::Timeout) => Some(Vec::new()),
            Err(RecvTimeoutError::Disconnected) => None,
        }
    }

    fn prepare(&mut self, record: &Record) -> Result<(), String> {
        let dir = record.run_dir(&self.state_dir);
        std::fs::DirBuilder::new().recursive(true).mode(0o711).create(&dir).map_err(|error| format!("{}: {error}", dir.display()))
    }

    fn launch(&mut self, run: Run<'_>) -> Result<(), Outcome> {
        if run.record.is_under_mps() {
            self.start_mps(run.record).map_err(Outcome::NotLaunched)?;
        }
        let spec = self.spec(&run).map_err(Outcome::NotLaunched)?;
        let dir = run.record.run_dir(&self.state_dir);
        let problem = match self.launcher.launch(&dir, &spec) {
            Ok(supervisor) => match self.watch.add(run.record.id, run.record.attempts, Watched::Supervisor { supervisor, dir }) {
                Ok(()) => return Ok(()),
                Err(error) => error.to_string(),
            },
            Err(error) => chain(&error),
        };
        // Its supervisor may be there all the same. If it is not, the directory is void from here on.
        match self.adopt(run.record) {
            None => Ok(()),
            Some(Outcome::NeverStarted) => Err(Outcome::NotLaunched(problem)),
            Some(outcome) => Err(outcome),
        }
    }

    fn check_mps(&self) -> Result<(), String> {
        self.mps.check().map_err(|error| chain(&error))
    }

    fn end_mps(&mut self, uuid: &str) -> Result<(), String> {
        self.mps.stop(uuid, &*self.modes).map_err(|error| chain(&error))
    }

    fn recover_mps(&mut self, used: &HashSet<String>) -> Vec<String> {
        let recovered = self.mps.recover(&|uuid| used.contains(uuid), &*self.modes);
        let problem = |recovered: rota_gpu::Recovered| match recovered.outcome {
            rota_gpu::Recovery::Failed(error) => Some(format!("GPU {}: MPS was left there: {}", recovered.uuid, chain(&error))),
            rota_gpu::Recovery::Kept { answers: false } => {
                Some(format!("GPU {}: its MPS control daemon does not answer, though jobs are under it", recovered.uuid))
            }
            rota_gpu::Recovery::Kept { answers: true } | rota_gpu::Recovery::Stopped => None,
        };
        recovered.into_iter().filter_map(problem).collect()
    }

    fn log_end(&self, record: &Record, bytes: u64) -> Vec<u8> {
        let Some(mut log) = record.log_path(&self.state_dir).and_then(|path| std::fs::File::open(path).ok()) else {
            return Vec::new();
        };
        let length = log.metadata().map_or(0, |metadata| metadata.len());
        let mut end = Vec::new();
        // A log that cannot be read tells nothing.
        if log.seek(SeekFrom::Start(length.saturating_sub(bytes))).is_ok() {
            _ = log.take(bytes).read_to_end(&mut end);
        }
        end
    }

    fn stop(&mut self, record: &Record, at_once: bool) {
        if record.is_under_mps() {
            self.leave_mps(record);
        }
        if let Some(Watched::Supervisor { supervisor, .. }) = self.watch.lock().get(&(record.id, record.attempts)) {
            // One that is gone already has ended, which is told by its record.
            _ = if at_once { supervisor.kill() } else { supervisor.stop() };
        }
    }

    fn adopt(&mut self, record: &Record) -> Option<Outcome> {
        let dir = record.run_dir(&self.state_dir);
        if let Ok(Adopted::Running(supervisor)) = rota_exec::adopt(&dir) {
            let watched = Watched::Supervisor { supervisor, dir: dir.clone() };
            if self.watch.add(record.id, record.attempts, watched).is_ok() {
                return None;
            }
        }
        Some(outcome_in(&dir))
    }

    fn watch_holder(&mut self, record: &Record) -> Option<Outcome> {
        let holder = record.spec.holder.as_ref()?;
        let attempt = record.attempts;
        let pidfd =
            Pid::from_raw(i32::try_from(holder.pid).unwrap_or(0)).and_then(|pid| pidfd_open(pid, PidfdFlags::empty()).ok());
        let is_same = rota_exec::Identity::of(holder.pid)
            .is_ok_and(|now| now.start_ticks == holder.start_ticks && now.boot_id == holder.boot_id);
        match pidfd {
            Some(pidfd) if is_same => {
                _ = self.watch.add(record.id, attempt, Watched::Holder { pidfd, pid: holder.pid });
                None
            }
            _ => Some(Outcome::HolderGone),
        }
    }
}

/// An error with its causes, in one line.
fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        text = format!("{text}: {cause}");
        source = cause.source();
    }
    text
}

/// Says which job each process on a GPU belongs to, by its ancestors.
pub fn owners(processes: &[rota_gpu::Process], jobs: &HashMap<u32, u64>, names: &mut users::Names) -> Vec<api::GpuProcess> {
    let describe = |process: &rota_gpu::Process| {
        let mut pid = process.pid;
        let mut job = None;
        // A process table has no circles, but it changes while it is read.
        for _ in 0..64 {
            if let Some(&found) = jobs.get(&pid) {
                job = Some(found);
                break;
            }
            match parent_of(pid) {
                Some(parent) if parent > 1 => pid = parent,
                _ => break,
            }
        }
        let uid = users::owner_of_process(process.pid);
        api::GpuProcess {
            pid: process.pid,
            user: uid.map(|uid| names.name_of(uid)),
            name: std::fs::read_to_string(format!("/proc/{}/comm", process.pid)).ok().map(|name| name.trim_end().to_owned()),
            memory_mib: process.memory_mib,
            job,
        }
    };
    processes.iter().map(describe).collect()
}

pub(crate) fn parent_of(pid: u32) -> Option<u32> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The name may hold anything, a closing bracket too: what follows the last one is plain.
    stat.rsplit_once(')')?.1.split_whitespace().nth(1)?.parse().ok()
}
