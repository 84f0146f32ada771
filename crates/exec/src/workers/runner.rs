//! The worker's side of runs: does what the daemon asks with the executor of this machine, and tells what comes of it. One thread, which
//! takes everything in order: messages of the daemon, events of the executor, and connections that come and go.

use std::collections::{HashMap, HashSet};
use std::fs::DirBuilder;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant, SystemTime};

use rota_gpu::Device;
use tokio::sync::mpsc::UnboundedSender;
use tokio::sync::oneshot;

use super::home::{HomeRuns, SharedExecutor};
use super::leaving::Leaving;
use super::output::Cursor;
use super::protocol::{FromWorker, HeldRun, HeldState, OutputPlace, ToWorker};
use super::pruning::{PruneRule, Pruning};
use crate::executor::{
    Adoption, Executor, ExecutorEvent, KnownRun, RunEnd, RunIdentity, RunKey, RunRequest, StartError, Started, Stop,
};
use crate::local::chain;
use crate::local::run_directory::run_dir::{RunDir, SPEC, unseal};
use crate::local::watch::dir_in;
use crate::{LocalExecutor, RunSpec};

/// How often the output of running jobs is looked at.
const OUTPUT_EVERY: Duration = Duration::from_millis(200);
/// Output that waits to be sent before more is read.
const OUTPUT_QUEUED_MAX: usize = 4 << 20;

/// What the thread takes in.
pub(super) enum Input {
    /// The daemon tells something.
    Message(ToWorker),
    /// The executor of this machine tells something.
    Event(ExecutorEvent),
    /// The GPUs were looked at.
    Looks(Vec<crate::DeviceLook>),
    /// A run was taken over on the daemon's own machine.
    Adopted(RunKey, RunIdentity, HeldState),
    /// A connection is about to be made: what runs and what devices are here?
    Introduce(oneshot::Sender<(Vec<Device>, Vec<HeldRun>)>),
    /// A connection was made.
    Connected(Outbox),
    /// The connection is gone.
    Disconnected,
    /// The allocation that this worker is in ends. The answer comes when nothing runs any more.
    Leave(oneshot::Sender<()>),
}

/// What goes to the daemon, and how many bytes of output are on their way.
#[derive(Clone)]
pub(super) struct Outbox {
    pub(super) sender: UnboundedSender<FromWorker>,
    pub(super) queued_bytes: Arc<AtomicUsize>,
}

/// The GPUs of the jobs that run here, by job: what virtual GPUs show.
pub(super) type Placed = Arc<Mutex<HashMap<u64, Vec<String>>>>;

struct Run {
    identity: RunIdentity,
    state: HeldState,
    /// Whether the daemon is to be told of the end.
    is_wanted: bool,
    /// How far the output was sent, if it is to be sent.
    cursor: Option<Cursor>,
    files_max: u32,
}

/// The worker's side of runs.
pub(super) struct Runner {
    executor: SharedExecutor,
    jobs: PathBuf,
    runs: HashMap<RunKey, Run>,
    /// Parts of runs on several nodes that are ready.
    prepared: HashMap<RunKey, RunRequest>,
    outbox: Option<Outbox>,
    placed: Placed,
    /// What was seen on the GPUs last.
    looks: Vec<crate::DeviceLook>,
    /// Where jobs find the lease service on this machine, if it is not where the daemon says.
    leases: Option<SocketAddr>,
    /// The runs of the daemon's own machine, where this is it. Its output is where it belongs.
    home: Option<HomeRuns>,
    /// What is known of the end of the allocation that this worker is in, if it is in one.
    leaving: Option<Leaving>,
    /// When old run directories are removed; never on the daemon's own machine, where they are the daemon's.
    pruning: Option<Pruning>,
}

impl Runner {
    /// The same, which removes the directories of runs that ended long ago.
    pub(super) fn pruning(mut self, rule: PruneRule) -> Self {
        self.pruning = Some(Pruning::new(rule));
        self
    }

    /// The same in an allocation that ends with its jobs.
    pub(super) fn in_allocation(mut self, is_in_allocation: bool) -> Self {
        self.leaving = is_in_allocation.then(Leaving::default);
        self
    }

    /// The allocation ends: all runs are asked to end, and whoever waits hears when they have.
    fn leave(&mut self, waits: oneshot::Sender<()>) {
        if let Some(leaving) = &mut self.leaving {
            leaving.leave(waits);
        }
        for run in self.running() {
            // A run that is not there has ended.
            _ = self.executor().stop(run, Stop::Gentle);
        }
    }

    fn running(&self) -> Vec<RunKey> {
        let is_over = |run: &RunKey| self.leaving.as_ref().is_some_and(|leaving| leaving.is_over(run));
        let is_running = |run: &Run| !matches!(run.state, HeldState::Ended(_));
        self.runs.iter().filter(|(key, run)| is_running(run) && !is_over(key)).map(|(key, _)| *key).collect()
    }

    /// Tells the ends that were kept for long enough, and whoever waits for the last one.
    fn settle_ends(&mut self) {
        let Some(leaving) = &mut self.leaving else { return };
        for (run, end) in leaving.believed() {
            self.end(run, end);
        }
        if self.leaving.as_ref().is_some_and(Leaving::is_leaving) && self.running().is_empty() {
            self.leaving.iter_mut().for_each(Leaving::rest);
        }
    }

    fn end(&mut self, run: RunKey, end: RunEnd) {
        if let Some(known) = self.runs.get_mut(&run) {
            known.state = HeldState::Ended(end);
            self.pump(run);
        }
    }

    /// Takes up the runs of an earlier worker.
    pub(super) fn new(mut executor: LocalExecutor, jobs: PathBuf, placed: Placed, leases: SocketAddr) -> Self {
        let mut runs = HashMap::new();
        for (key, spec) in specs_in(&jobs) {
            let Some(identity) = spec.identity else { continue };
            let known = KnownRun { run: key, identity: Some(identity.clone()), places: Vec::new(), is_under_mps: false };
            let state = match executor.adopt(&known) {
                Adoption::Running => HeldState::Running,
                Adoption::Unknown => HeldState::Unknown,
                Adoption::Ended(end) => HeldState::Ended(end),
            };
            runs.insert(key, Run { identity, state, is_wanted: false, cursor: None, files_max: spec.log_files_max });
        }
        executor.settle();
        let executor = Arc::new(Mutex::new(executor));
        Self {
            executor,
            jobs,
            runs,
            prepared: HashMap::new(),
            outbox: None,
            placed,
            leases: Some(leases),
            home: None,
            leaving: None,
            pruning: None,
            looks: Vec::new(),
        }
    }

    /// The daemon's own machine, with parts of runs that are on other nodes, too.
    pub(super) fn home(executor: SharedExecutor, runs: HomeRuns, outbox: Outbox) -> Self {
        Self {
            executor,
            jobs: PathBuf::new(),
            runs: HashMap::new(),
            prepared: HashMap::new(),
            outbox: Some(outbox),
            placed: Placed::default(),
            leases: None,
            home: Some(runs),
            leaving: None,
            pruning: None,
            looks: Vec::new(),
        }
    }

    fn executor(&self) -> MutexGuard<'_, LocalExecutor> {
        self.executor.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes everything in until nothing will come any more.
    pub(super) fn run(mut self, inputs: &Receiver<Input>) {
        let mut pumped = Instant::now();
        loop {
            let has_output = self.outbox.is_some() && self.runs.values().any(|run| run.cursor.is_some());
            let keeps_ends = self.leaving.as_ref().is_some_and(Leaving::keeps_any);
            let input = if has_output || keeps_ends {
                inputs.recv_timeout(OUTPUT_EVERY.saturating_sub(pumped.elapsed()))
            } else {
                inputs.recv().map_err(|_| RecvTimeoutError::Disconnected)
            };
            match input {
                Ok(input) => self.take(input),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return,
            }
            // Also where the thread always has something else to do.
            if pumped.elapsed() >= OUTPUT_EVERY {
                self.pump_all();
                pumped = Instant::now();
            }
            self.settle_ends();
            self.prune();
        }
    }

    /// Removes the directories of runs that ended long ago. Ends that the daemon is still to hear of stay.
    fn prune(&mut self) {
        if !self.pruning.as_mut().is_some_and(|pruning| pruning.is_due(Instant::now())) {
            return;
        }
        let Some(pruning) = &self.pruning else { return };
        let mut failed = None;
        let jobs = &self.jobs;
        self.runs.retain(|key, run| {
            if run.is_wanted || !matches!(run.state, HeldState::Ended(_)) {
                return true;
            }
            let dir = dir_in(jobs, *key);
            match pruning.remove_old(&dir, SystemTime::now()) {
                Ok(is_gone) => !is_gone,
                Err(error) => {
                    failed = Some(format!("the old run directory {} cannot be removed: {error}", dir.display()));
                    true
                }
            }
        });
        if let Some(failed) = failed {
            self.tell(FromWorker::Warning(failed));
        }
    }

    fn take(&mut self, input: Input) {
        match input {
            Input::Message(message) => self.obey(message),
            Input::Event(event) => self.hear(event),
            Input::Looks(mut looks) => {
                // A look from before the end of a run would show its processes as strangers; the next look is not far.
                let is_over = |run: &Run| matches!(run.state, HeldState::Ended(_));
                let under_way = self.runs.iter().filter(|(_, run)| !is_over(run)).map(|(key, _)| key.job);
                let under_way = under_way.collect::<HashSet<_>>();
                looks.retain(|look| look.owners.iter().all(|owner| owner.job.is_none_or(|job| under_way.contains(&job))));
                self.tell(FromWorker::Looks(looks.clone()));
                self.looks = looks;
            }
            Input::Introduce(reply) => {
                self.disconnect();
                let held = self.runs.iter().map(|(run, held)| HeldRun {
                    run: *run,
                    identity: held.identity.clone(),
                    state: held.state.clone(),
                });
                let devices = self.executor().inventory().into_iter().flat_map(|node| node.devices).collect();
                // A connection that was given up has nobody who wants to know.
                _ = reply.send((devices, held.collect()));
            }
            Input::Adopted(run, identity, state) => {
                self.runs.insert(run, Run { identity, state, is_wanted: true, cursor: None, files_max: 0 });
            }
            Input::Connected(outbox) => {
                self.outbox = Some(outbox);
                // Nothing is started on a node whose GPUs were not looked at, and the next look is some time away.
                self.tell(FromWorker::Looks(self.looks.clone()));
                self.pruning.iter_mut().for_each(|pruning| pruning.set_connected(Some(Instant::now())));
            }
            Input::Disconnected => self.disconnect(),
            Input::Leave(waits) => self.leave(waits),
        }
    }

    fn disconnect(&mut self) {
        self.outbox = None;
        self.pruning.iter_mut().for_each(|pruning| pruning.set_connected(None));
        // What was made ready for a gang is not started by another connection.
        self.prepared.clear();
        for run in self.runs.values_mut() {
            (run.is_wanted, run.cursor) = (false, None);
        }
    }

    fn tell(&self, message: FromWorker) {
        if let Some(outbox) = &self.outbox {
            // What is lost with the connection is in the next report.
            _ = outbox.sender.send(message);
        }
    }

    fn obey(&mut self, message: ToWorker) {
        match message {
            ToWorker::Start(request) => self.start(*request),
            ToWorker::Prepare(request) => {
                let run = request.run;
                let ready = self.make_ready(*request).and_then(|request| {
                    self.prepared.insert(run, request);
                    free_port()
                });
                self.tell(FromWorker::Prepared(run, ready));
            }
            ToWorker::Launch(run, variables) => {
                if let Some(mut request) = self.prepared.remove(&run) {
                    request.variables.extend(variables);
                    self.launch(request);
                }
            }
            ToWorker::Discard(run) => _ = self.prepared.remove(&run),
            ToWorker::Stop(run, how) => self.stop(run, how),
            ToWorker::Report(run, place) => self.report(run, place),
            ToWorker::Beat | ToWorker::Tunnel(_) => {}
        }
    }

    fn start(&mut self, request: RunRequest) {
        let (run, identity) = (request.run, request.identity.clone());
        match self.make_ready(request) {
            Ok(request) => self.launch(request),
            Err(why) => self.tell(FromWorker::Ended(run, identity, RunEnd::NotLaunched(why))),
        }
    }

    /// Makes the place of a run, and of the request one for this machine.
    fn make_ready(&mut self, mut request: RunRequest) -> Result<RunRequest, String> {
        let known = self.runs.get(&request.run);
        if known.is_some_and(|known| known.identity == request.identity) {
            return Err("it was started here before".to_owned());
        }
        fit_user(&mut request)?;
        for (name, value) in &mut request.variables {
            if let (true, Some(leases)) = (name == "ROTA_LEASE_ADDR", self.leases) {
                *value = leases.to_string().into();
            } else if name == "ROTA_CHECKPOINT_DIR" {
                make_checkpoint_folder(Path::new(value), request.run_as.as_ref())?;
            }
        }
        self.executor().prepare(request.run).map_err(|error| chain(&error))?;
        self.runs.remove(&request.run);
        Ok(request)
    }

    fn launch(&mut self, request: RunRequest) {
        let (run, identity, files_max) = (request.run, request.identity.clone(), request.log.files_max);
        let uuids = request.places.iter().flat_map(|place| place.uuids.clone()).collect::<Vec<_>>();
        self.placed.lock().unwrap_or_else(PoisonError::into_inner).insert(run.job, uuids);
        if let Some(home) = &self.home {
            home.insert(run);
        }
        let started = self.executor().start(request);
        let state = match started {
            Ok(Started::Running) => HeldState::Running,
            Ok(Started::Taken) => HeldState::Unknown,
            Err(StartError::Duplicate { .. }) => return,
            Err(error) => HeldState::Ended(RunEnd::NotLaunched(chain(&error))),
        };
        if state == HeldState::Running {
            self.tell(FromWorker::Running(run));
        }
        let cursor = self.home.is_none().then(|| Cursor::new(&dir_in(&self.jobs, run), OutputPlace::default(), files_max));
        self.runs.insert(run, Run { identity, state, is_wanted: true, cursor, files_max });
        self.pump(run);
    }

    fn stop(&mut self, run: RunKey, how: Stop) {
        if let Some(leaving) = &mut self.leaving {
            leaving.ask(run);
        }
        // A run that is not there has ended, and its end is told.
        let stopped = self.executor().stop(run, how);
        if let Err(crate::StopError::Unreached { source, .. }) = stopped {
            self.tell(FromWorker::Warning(format!("job {} cannot be reached: {source}", run.job)));
        }
    }

    /// Tells what has become of a run, after the output that the daemon does not have.
    fn report(&mut self, run: RunKey, place: OutputPlace) {
        let Some(known) = self.runs.get_mut(&run) else { return };
        known.is_wanted = true;
        known.cursor = self.home.is_none().then(|| Cursor::new(&dir_in(&self.jobs, run), place, known.files_max));
        if known.state == HeldState::Running {
            self.tell(FromWorker::Running(run));
        }
        self.pump(run);
    }

    fn hear(&mut self, event: ExecutorEvent) {
        match event {
            ExecutorEvent::Running { run } => {
                if let Some(known) = self.runs.get_mut(&run) {
                    known.state = HeldState::Running;
                    self.tell(FromWorker::Running(run));
                }
            }
            ExecutorEvent::Ended { run, end } => {
                self.placed.lock().unwrap_or_else(PoisonError::into_inner).remove(&run.job);
                let end = match &mut self.leaving {
                    Some(leaving) => leaving.doubt(run, end),
                    None => Some(end),
                };
                if let Some(end) = end {
                    self.end(run, end);
                }
            }
            ExecutorEvent::Unreadable { run, problem } => {
                if let Some(known) = self.runs.get_mut(&run) {
                    known.state = HeldState::Unknown;
                    self.tell(FromWorker::Unreadable(run, problem));
                }
            }
            ExecutorEvent::InventoryChanged(node) => self.tell(FromWorker::Devices(node.devices)),
            ExecutorEvent::DeviceHeld { device, reason } => self.tell(FromWorker::Held(device.uuid, Some(reason))),
            ExecutorEvent::DeviceFree { device } => self.tell(FromWorker::Held(device.uuid, None)),
            ExecutorEvent::Warning(text) => self.tell(FromWorker::Warning(text)),
            // The executor of one machine tells of no other.
            ExecutorEvent::Accepted { .. }
            | ExecutorEvent::HolderGone { .. }
            | ExecutorEvent::NodeGone { .. }
            | ExecutorEvent::NodeBack(_)
            | ExecutorEvent::NodeRemoved { .. }
            | ExecutorEvent::Looked(_) => {}
        }
    }

    fn pump_all(&mut self) {
        let runs = self.runs.iter().filter(|(_, run)| run.cursor.is_some()).map(|(key, _)| *key).collect::<Vec<_>>();
        for run in runs {
            self.pump(run);
        }
    }

    /// Sends the output of a run as far as it goes, and then its end if it has ended.
    fn pump(&mut self, key: RunKey) {
        let (Some(outbox), Some(run)) = (&self.outbox, self.runs.get_mut(&key)) else { return };
        while let Some(cursor) = &mut run.cursor {
            if outbox.queued_bytes.load(Ordering::Relaxed) > OUTPUT_QUEUED_MAX {
                return;
            }
            match cursor.next() {
                Ok(Some((place, bytes))) => {
                    outbox.queued_bytes.fetch_add(bytes.len(), Ordering::Relaxed);
                    _ = outbox.sender.send(FromWorker::Output { run: key, place, files_max: cursor.files_max, bytes });
                }
                Ok(None) => break,
                Err(error) => {
                    // An end is worth more than the output before it.
                    self.tell(FromWorker::Warning(format!("the output of job {} cannot be read: {error}", key.job)));
                    break;
                }
            }
        }
        let Some(run) = self.runs.get_mut(&key) else { return };
        if let (HeldState::Ended(end), true) = (&run.state, run.is_wanted) {
            let message = FromWorker::Ended(key, run.identity.clone(), end.clone());
            (run.is_wanted, run.cursor) = (false, None);
            self.tell(message);
        }
    }
}

/// The specifications of all runs that have a directory.
pub(super) fn specs_in(jobs: &Path) -> Vec<(RunKey, RunSpec)> {
    let entries = |path: &Path| std::fs::read_dir(path).into_iter().flatten().flatten().map(|entry| entry.path());
    let mut specs = Vec::new();
    for dir in entries(jobs).flat_map(|job| entries(&job).collect::<Vec<_>>()) {
        // What is beside them was moved away, or belongs to the job as a whole.
        let is_attempt = dir.file_name().and_then(|name| name.to_str()).is_some_and(|name| name.parse::<u32>().is_ok());
        let contents = RunDir::open(&dir).ok().filter(|_| is_attempt).and_then(|dir| dir.read(SPEC).ok().flatten());
        if let Some(spec) = contents.and_then(|contents| unseal::<RunSpec>(&contents)) {
            specs.push((RunKey { job: spec.job, attempt: spec.attempt }, spec));
        }
    }
    specs
}

/// A worker of root runs jobs as their owners; any other runs those of its own user.
fn fit_user(request: &mut RunRequest) -> Result<(), String> {
    let own = rustix::process::geteuid();
    match &request.run_as {
        Some(_) if own.is_root() => Ok(()),
        Some(user) if user.uid == own.as_raw() => {
            request.run_as = None;
            Ok(())
        }
        Some(user) => Err(format!(
            "the worker runs as the user with id {} and cannot start a job of the user with id {}: start it as root",
            own.as_raw(),
            user.uid
        )),
        None => Ok(()),
    }
}

/// Makes a job's folder for checkpoints where it is not there. On storage that all nodes share, the daemon has made it.
fn make_checkpoint_folder(folder: &Path, owner: Option<&crate::RunAs>) -> Result<(), String> {
    if folder.is_dir() {
        return Ok(());
    }
    let failed = |error: std::io::Error| format!("its folder for checkpoints, `{}`, cannot be made: {error}", folder.display());
    if let Some(parent) = folder.parent() {
        DirBuilder::new().recursive(true).mode(0o711).create(parent).map_err(failed)?;
    }
    DirBuilder::new().mode(0o700).create(folder).map_err(failed)?;
    match owner {
        Some(owner) => std::os::unix::fs::chown(folder, Some(owner.uid), Some(owner.gid)).map_err(failed),
        None => Ok(()),
    }
}

/// A port that is free on this machine now, on which the first process of a gang can wait for the others.
fn free_port() -> Result<u16, String> {
    let listener = TcpListener::bind((Ipv4Addr::UNSPECIFIED, 0)).and_then(|listener| listener.local_addr());
    listener.map(|address| address.port()).map_err(|error| format!("no port is free: {error}"))
}
