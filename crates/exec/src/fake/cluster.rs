//! Three nodes that do not exist, their runs, and the time there.
//!
//! The file is longer than others, because nodes, runs and time change each other at every step and would not be understood apart.

use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use rota_gpu::{Device, Devices, Virtual, parse_virtual};

use super::deed::{FakeDeed, FakeExit};
use crate::Cause;
use crate::executor::{
    Adoption, EventSink, ExecutorEvent, KnownRun, LostCause, Node, NodeName, Place, PrepareError, RunEnd, RunIdentity, RunKey,
    RunRequest, StartError, Started, Stop, StopError,
};

/// A fault on order. Each is used once, by the next thing it fits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FakeFault {
    /// The next start is refused, for this reason.
    RefuseStart(String),
    /// The next start is taken; the run is accepted and running after these times.
    AcceptLate {
        /// From the start until the run is accepted.
        accepted_after: Duration,
        /// From the start until the run is running.
        running_after: Duration,
    },
    /// The next stop reaches its run after this time.
    SlowStop(Duration),
    /// The node tells the next end twice. The executor must pass on one.
    DuplicateEnd,
    /// The next end cannot be read before this time has passed.
    UnreadableEnd(Duration),
}

/// Three nodes, called `one`, `two` and `three`, with two GPUs each, that do not exist.
#[derive(Clone)]
pub struct FakeCluster(Arc<Mutex<Cluster>>);

#[derive(Clone, Debug, PartialEq)]
enum Phase {
    Taken,
    Running { since_ns: u64 },
    Over { end: RunEnd },
}

struct Run {
    identity: RunIdentity,
    places: Vec<Place>,
    deed: FakeDeed,
    grace: Duration,
    time_limit: Option<Duration>,
    phase: Phase,
    log: Vec<u8>,
    /// The caller that started or adopted the run, and has not heard of its end.
    caller: Option<u64>,
    /// Changes whenever the run's end is another than was planned.
    version: u64,
    /// Before this time it cannot be read how the run ended.
    readable_at_ns: u64,
    /// A stop that could not reach the run's node yet.
    stop_wanted: Option<Stop>,
    /// The caller is still to be told that the run is running.
    is_unsure: bool,
}

/// Something that will happen.
#[derive(Clone, Copy)]
enum Due {
    Accepted(RunKey),
    Running(RunKey),
    Finish(RunKey, FakeExit, u64),
    TimeLimit(RunKey),
    Stop(RunKey, Stop, Cause),
    Kill(RunKey, Cause),
    /// An end that could not be told before.
    Tell(RunKey),
}

struct Cluster {
    now_ns: u64,
    nodes: Vec<Node>,
    runs: BTreeMap<RunKey, Run>,
    prepared: BTreeMap<RunKey, RunIdentity>,
    /// By time, then runs that have done their work before everything else: a stop that comes at this very moment comes too late.
    due: BTreeMap<(u64, bool, u64), Due>,
    due_count: u64,
    identities: u64,
    faults: VecDeque<FakeFault>,
    /// How long every stop takes to reach its run.
    stop_time: Duration,
    sink: Option<EventSink>,
    caller: u64,
    /// Events that the caller has not been given yet.
    outbox: Vec<ExecutorEvent>,
    /// Runs that began, in order, and were not asked about yet.
    starts: Vec<FakeStart>,
}

/// A run that began.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FakeStart {
    /// When it began, in nanoseconds.
    pub at_ns: u64,
    /// The run that began.
    pub run: RunKey,
    /// Its nodes and devices.
    pub places: Vec<Place>,
}

impl Default for FakeCluster {
    fn default() -> Self {
        let named = |name: &str| {
            let spec = parse_virtual("a100:2").unwrap_or_default();
            let mut devices = Virtual::new(&spec).list().unwrap_or_default();
            for device in &mut devices {
                device.uuid = format!("{}-{name}", device.uuid);
            }
            Node { name: name.into(), devices, answers: true }
        };
        Self::with_nodes(["one", "two", "three"].map(named).to_vec())
    }
}

impl FakeCluster {
    /// A cluster of other nodes.
    pub fn with_nodes(nodes: Vec<Node>) -> Self {
        Self(Arc::new(Mutex::new(Cluster {
            now_ns: 0,
            nodes,
            runs: BTreeMap::new(),
            prepared: BTreeMap::new(),
            due: BTreeMap::new(),
            due_count: 0,
            identities: 0,
            faults: VecDeque::new(),
            stop_time: Duration::ZERO,
            sink: None,
            caller: 0,
            outbox: Vec::new(),
            starts: Vec::new(),
        })))
    }

    /// Lets every stop take so long to reach its run.
    pub fn set_stop_time(&self, stop_time: Duration) {
        self.lock().stop_time = stop_time;
    }

    fn lock(&self) -> MutexGuard<'_, Cluster> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Does something to the cluster, then tells the caller what came of it.
    fn with<T>(&self, act: impl FnOnce(&mut Cluster) -> T) -> T {
        let mut cluster = self.lock();
        let done = act(&mut cluster);
        let events = std::mem::take(&mut cluster.outbox);
        let sink = cluster.sink.clone();
        drop(cluster);
        if let Some(sink) = sink {
            for event in events {
                sink(event);
            }
        }
        done
    }

    /// The time, in nanoseconds.
    pub fn now_ns(&self) -> u64 {
        self.lock().now_ns
    }

    /// When the next thing will happen, if anything will by itself.
    pub fn next_ns(&self) -> Option<u64> {
        self.lock().due.keys().next().map(|(at, ..)| *at)
    }

    /// Moves the clock to a time, which is not before now, and lets happen what is due until then.
    pub fn advance(&self, to_ns: u64) {
        self.with(|cluster| cluster.advance(to_ns));
    }

    /// Orders a fault.
    pub fn order(&self, fault: FakeFault) {
        self.lock().faults.push_back(fault);
    }

    /// Plans the end of a running run anew: it exits with a code at a time, whatever its command says.
    pub fn end_at(&self, run: RunKey, at_ns: u64, code: i32) {
        self.with(|cluster| {
            let Some(planned) = cluster.runs.get_mut(&run) else { return };
            planned.version += 1;
            let version = planned.version;
            cluster.plan(at_ns, Due::Finish(run, FakeExit { code: Some(code), signal: None, cause: Cause::Exited }, version));
        });
    }

    /// Kills the supervisor of a run.
    pub fn kill_supervisor(&self, run: RunKey) {
        self.with(|cluster| cluster.end(run, RunEnd::Lost(LostCause::SupervisorKilled)));
    }

    /// Cuts a node off. Its runs go on.
    pub fn lose_node(&self, name: &NodeName) {
        self.with(|cluster| {
            if let Some(node) = cluster.nodes.iter_mut().find(|node| node.name == *name && node.answers) {
                node.answers = false;
                let reason = "it does not answer".to_owned();
                cluster.outbox.push(ExecutorEvent::NodeGone { node: name.clone(), reason });
            }
        });
    }

    /// Lets a node answer again, which tells of ends meanwhile.
    pub fn return_node(&self, name: &NodeName) {
        self.with(|cluster| {
            let Some(node) = cluster.nodes.iter_mut().find(|node| node.name == *name && !node.answers) else { return };
            node.answers = true;
            cluster.outbox.push(ExecutorEvent::NodeBack(node.clone()));
            let on_it = |run: &Run| run.places.iter().any(|place| place.node == *name);
            let runs = cluster.runs.iter().filter(|(_, run)| on_it(run)).map(|(key, _)| *key).collect::<Vec<_>>();
            for run in runs {
                cluster.catch_up(run);
            }
        });
    }

    /// Restarts a node that is cut off: nobody will know how its runs ended.
    pub fn reboot_node(&self, name: &NodeName) {
        self.with(|cluster| {
            let is_there = |run: &Run| run.places.iter().any(|place| place.node == *name);
            let runs = cluster.runs.iter().filter(|(_, run)| is_there(run)).map(|(key, _)| *key).collect::<Vec<_>>();
            for run in runs {
                cluster.end(run, RunEnd::Rebooted);
            }
        });
    }

    /// Gives a node other devices.
    pub fn change_devices(&self, name: &NodeName, devices: Vec<Device>) {
        self.with(|cluster| {
            if let Some(node) = cluster.nodes.iter_mut().find(|node| node.name == *name) {
                node.devices = devices;
                cluster.outbox.push(ExecutorEvent::InventoryChanged(node.clone()));
            }
        });
    }

    /// The runs that began since this was asked the last time, in order.
    pub fn take_starts(&self) -> Vec<FakeStart> {
        std::mem::take(&mut self.lock().starts)
    }

    /// The runs that are running now.
    pub fn running(&self) -> Vec<RunKey> {
        let cluster = self.lock();
        cluster.runs.iter().filter(|(_, run)| matches!(run.phase, Phase::Running { .. })).map(|(key, _)| *key).collect()
    }

    /// The nodes and their devices.
    pub fn nodes(&self) -> Vec<Node> {
        self.lock().nodes.clone()
    }

    pub(super) fn connect(&self, sink: EventSink) -> u64 {
        let mut cluster = self.lock();
        cluster.sink = Some(sink);
        cluster.caller += 1;
        cluster.caller
    }

    pub(super) fn disconnect(&self, caller: u64) {
        let mut cluster = self.lock();
        if cluster.caller == caller {
            cluster.sink = None;
        }
    }

    pub(super) fn prepare(&self, run: RunKey) -> Result<RunIdentity, PrepareError> {
        let mut cluster = self.lock();
        if let Some(other) = cluster.runs.get(&run) {
            if !matches!(other.phase, Phase::Over { .. }) {
                return Err(PrepareError::Occupied { path: path(run), supervisor: 1 });
            }
            cluster.runs.remove(&run);
        }
        cluster.identities += 1;
        let identity = RunIdentity::from_text(format!("fake-{}", cluster.identities));
        cluster.prepared.insert(run, identity.clone());
        Ok(identity)
    }

    pub(super) fn start(&self, caller: u64, request: &RunRequest) -> Result<Started, StartError> {
        self.with(|cluster| cluster.start(caller, request))
    }

    pub(super) fn stop(&self, caller: u64, run: RunKey, how: Stop) -> Result<(), StopError> {
        self.with(|cluster| {
            let is_under_way = |known: &Run| known.caller == Some(caller);
            cluster.runs.get(&run).filter(|known| is_under_way(known)).ok_or(StopError::Unknown { run })?;
            let delay = cluster.take_fault(|fault| match fault {
                FakeFault::SlowStop(delay) => Some(*delay),
                _ => None,
            });
            cluster.plan_in(delay.unwrap_or(cluster.stop_time), Due::Stop(run, how, Cause::StopRequested));
            Ok(())
        })
    }

    pub(super) fn adopt(&self, caller: u64, known: &KnownRun) -> Adoption {
        self.with(|cluster| cluster.adopt(caller, known))
    }

    pub(super) fn log_end(&self, run: RunKey, bytes_max: u64) -> io::Result<Vec<u8>> {
        let cluster = self.lock();
        let log = &cluster.runs.get(&run).ok_or_else(|| io::Error::from(io::ErrorKind::NotFound))?.log;
        let from = log.len().saturating_sub(usize::try_from(bytes_max).unwrap_or(usize::MAX));
        Ok(log[from..].to_vec())
    }

    pub(super) fn highest_job(&self) -> Option<u64> {
        let cluster = self.lock();
        cluster.runs.keys().chain(cluster.prepared.keys()).map(|run| run.job).max()
    }
}

fn path(run: RunKey) -> PathBuf {
    PathBuf::from(format!("/fake/{run}"))
}

impl Cluster {
    fn plan(&mut self, at_ns: u64, due: Due) {
        self.due_count += 1;
        let comes_later = !matches!(due, Due::Finish(..));
        self.due.insert((at_ns.max(self.now_ns), comes_later, self.due_count), due);
    }

    fn plan_in(&mut self, delay: Duration, due: Due) {
        self.plan(self.now_ns.saturating_add(u64::try_from(delay.as_nanos()).unwrap_or(u64::MAX)), due);
    }

    fn take_fault<T>(&mut self, fits: impl Fn(&FakeFault) -> Option<T>) -> Option<T> {
        let (index, found) = self.faults.iter().enumerate().find_map(|(index, fault)| Some((index, fits(fault)?)))?;
        self.faults.remove(index);
        Some(found)
    }

    fn advance(&mut self, to_ns: u64) {
        while let Some(entry) = self.due.first_entry().filter(|entry| entry.key().0 <= to_ns) {
            let ((at, ..), due) = entry.remove_entry();
            self.now_ns = self.now_ns.max(at);
            self.happen(due);
        }
        self.now_ns = self.now_ns.max(to_ns);
    }

    fn happen(&mut self, due: Due) {
        match due {
            Due::Accepted(run) => self.tell_about(run, ExecutorEvent::Accepted { run }),
            Due::Running(run) => {
                if self.runs.get(&run).is_some_and(|known| known.phase == Phase::Taken) {
                    self.begin(run);
                    if let Some(known) = self.runs.get_mut(&run) {
                        known.is_unsure = true;
                    }
                    self.catch_up(run);
                }
            }
            Due::Finish(run, exit, version) => {
                if self.runs.get(&run).is_some_and(|known| known.version == version) {
                    self.exit(run, exit);
                }
            }
            Due::TimeLimit(run) => self.halt(run, Stop::Gentle, Cause::TimeLimit),
            Due::Stop(run, how, cause) => self.halt(run, how, cause),
            Due::Kill(run, cause) => self.halt(run, Stop::AtOnce, cause),
            Due::Tell(run) => self.report(run),
        }
    }

    fn start(&mut self, caller: u64, request: &RunRequest) -> Result<Started, StartError> {
        let run = request.run;
        if self.runs.contains_key(&run) {
            return Err(StartError::Duplicate { run });
        }
        self.check(request)?;
        if let Some(why) = self.take_fault(|fault| match fault {
            FakeFault::RefuseStart(why) => Some(why.clone()),
            _ => None,
        }) {
            return Err(StartError::NotLaunched(why));
        }
        self.prepared.remove(&run);
        let deed = FakeDeed::of(&request.command);
        let log = if let FakeDeed::Print(text) = &deed { format!("{text}\n").into_bytes() } else { Vec::new() };
        self.runs.insert(
            run,
            Run {
                identity: request.identity.clone(),
                places: request.places.clone(),
                deed,
                grace: request.limits.grace,
                time_limit: request.limits.time,
                phase: Phase::Taken,
                log,
                caller: Some(caller),
                version: 0,
                readable_at_ns: 0,
                stop_wanted: None,
                is_unsure: false,
            },
        );
        let late = self.take_fault(|fault| match fault {
            FakeFault::AcceptLate { accepted_after, running_after } => Some((*accepted_after, *running_after)),
            _ => None,
        });
        if let Some((accepted_after, running_after)) = late {
            self.plan_in(accepted_after, Due::Accepted(run));
            self.plan_in(running_after, Due::Running(run));
            return Ok(Started::Taken);
        }
        self.begin(run);
        Ok(Started::Running)
    }

    fn check(&self, request: &RunRequest) -> Result<(), StartError> {
        let refused = |problem: String| Err(StartError::Place { run: request.run, problem });
        if request.places.is_empty() {
            return refused("it has no node".to_owned());
        }
        for place in &request.places {
            match self.nodes.iter().find(|node| node.name == place.node) {
                None => return refused(format!("there is no node {}", place.node)),
                Some(node) if !node.answers => return refused(format!("node {} does not answer", place.node)),
                Some(node) => {
                    let has = |uuid: &&String| node.devices.iter().any(|device| device.uuid == **uuid);
                    if let Some(uuid) = place.uuids.iter().find(|uuid| !has(uuid)) {
                        return refused(format!("node {} has no device {uuid}", place.node));
                    }
                }
            }
        }
        if self.prepared.get(&request.run) != Some(&request.identity) {
            return Err(StartError::NotLaunched("it was not prepared".to_owned()));
        }
        Ok(())
    }

    /// A run is running from now on.
    fn begin(&mut self, run: RunKey) {
        let since_ns = self.now_ns;
        let Some(known) = self.runs.get_mut(&run) else { return };
        known.phase = Phase::Running { since_ns };
        self.starts.push(FakeStart { at_ns: since_ns, run, places: known.places.clone() });
        let (end, version, time_limit) = (known.deed.end(), known.version, known.time_limit);
        if let Some((length, exit)) = end {
            self.plan_in(length, Due::Finish(run, exit, version));
        }
        if let Some(limit) = time_limit {
            self.plan_in(limit, Due::TimeLimit(run));
        }
    }

    /// A run is told to end.
    fn halt(&mut self, run: RunKey, how: Stop, cause: Cause) {
        let Some(known) = self.runs.get(&run) else { return };
        let is_from_outside = cause == Cause::StopRequested && known.phase != Phase::Taken;
        if is_from_outside && self.is_cut_off(known) {
            if let Some(known) = self.runs.get_mut(&run) {
                known.stop_wanted = Some(how);
            }
            return;
        }
        match (&known.phase, how) {
            (Phase::Over { .. }, _) => {}
            (Phase::Taken, _) => self.end(run, RunEnd::NeverStarted),
            (Phase::Running { .. }, Stop::Gentle | Stop::Notice | Stop::Told) if known.deed == FakeDeed::Stubborn => {
                self.plan_in(known.grace, Due::Kill(run, cause));
            }
            (Phase::Running { .. }, how) => {
                let signal = if how == Stop::AtOnce { 9 } else { 15 };
                self.exit(run, FakeExit { code: None, signal: Some(signal), cause });
            }
        }
    }

    fn exit(&mut self, run: RunKey, exit: FakeExit) {
        if let Some(Run { phase: Phase::Running { since_ns }, .. }) = self.runs.get(&run) {
            let record = exit.record(*since_ns, self.now_ns);
            self.end(run, RunEnd::Ended(Box::new(record)));
        }
    }

    fn end(&mut self, run: RunKey, end: RunEnd) {
        let blind = self.take_fault(|fault| match fault {
            FakeFault::UnreadableEnd(blind) => Some(*blind),
            _ => None,
        });
        let twice = self.take_fault(|fault| (*fault == FakeFault::DuplicateEnd).then_some(()));
        let now_ns = self.now_ns;
        let Some(known) = self.runs.get_mut(&run).filter(|known| !matches!(known.phase, Phase::Over { .. })) else { return };
        known.phase = Phase::Over { end };
        if let Some(blind) = blind {
            known.readable_at_ns = now_ns.saturating_add(u64::try_from(blind.as_nanos()).unwrap_or(u64::MAX));
            let at_ns = known.readable_at_ns;
            self.tell_about(run, ExecutorEvent::Unreadable { run, problem: "its record cannot be read".to_owned() });
            self.plan(at_ns, Due::Tell(run));
        }
        self.report(run);
        if twice.is_some() {
            self.report(run);
        }
    }

    /// A node tells of the end of a run. It may do so more than once; the caller hears it once.
    fn report(&mut self, run: RunKey) {
        let Some(known) = self.runs.get(&run) else { return };
        let Phase::Over { end } = &known.phase else { return };
        if self.is_cut_off(known) || known.readable_at_ns > self.now_ns {
            return;
        }
        let event = ExecutorEvent::Ended { run, end: end.clone() };
        self.tell_about(run, event);
        if let Some(known) = self.runs.get_mut(&run).filter(|known| known.caller == Some(self.caller)) {
            known.caller = None;
        }
    }

    /// Tells the caller what it missed of a run whose node answers, and the run what the caller wanted.
    fn catch_up(&mut self, run: RunKey) {
        let Some(known) = self.runs.get(&run) else { return };
        if self.is_cut_off(known) {
            return;
        }
        let (is_running, is_unsure) = (matches!(known.phase, Phase::Running { .. }), known.is_unsure);
        if is_running && is_unsure {
            self.tell_about(run, ExecutorEvent::Running { run });
        }
        let Some(known) = self.runs.get_mut(&run) else { return };
        known.is_unsure = false;
        if let Some(how) = known.stop_wanted.take() {
            self.halt(run, how, Cause::StopRequested);
        }
        self.report(run);
    }

    fn is_cut_off(&self, run: &Run) -> bool {
        let is_silent = |place: &Place| self.nodes.iter().any(|node| node.name == place.node && !node.answers);
        run.places.iter().any(is_silent)
    }

    /// Tells the caller something about a run, if it is the caller's that is connected now.
    fn tell_about(&mut self, run: RunKey, event: ExecutorEvent) {
        if self.sink.is_some() && self.runs.get(&run).is_some_and(|known| known.caller == Some(self.caller)) {
            self.outbox.push(event);
        }
    }

    fn adopt(&mut self, caller: u64, known: &KnownRun) -> Adoption {
        let Some(run) = self.runs.get(&known.run) else { return self.adopt_unstarted(known) };
        if known.identity.as_ref().is_some_and(|identity| *identity != run.identity) {
            return Adoption::Ended(RunEnd::Lost(LostCause::AnotherRun(path(known.run))));
        }
        let is_unreadable = self.is_cut_off(run) || run.readable_at_ns > self.now_ns;
        let Some(run) = self.runs.get_mut(&known.run) else { return Adoption::Unknown };
        match &run.phase {
            Phase::Over { end } if !is_unreadable => {
                run.caller = None;
                Adoption::Ended(end.clone())
            }
            Phase::Running { .. } => {
                (run.caller, run.is_unsure) = (Some(caller), is_unreadable);
                if is_unreadable { Adoption::Unknown } else { Adoption::Running }
            }
            Phase::Over { .. } | Phase::Taken => {
                run.caller = Some(caller);
                Adoption::Unknown
            }
        }
    }

    /// A run that was not started when its caller died is void from now on.
    fn adopt_unstarted(&mut self, known: &KnownRun) -> Adoption {
        let Some(identity) = self.prepared.remove(&known.run) else {
            return Adoption::Ended(RunEnd::Lost(LostCause::DirectoryGone(path(known.run))));
        };
        let void = Run {
            identity,
            places: known.places.clone(),
            deed: FakeDeed::Sleep,
            grace: Duration::ZERO,
            time_limit: None,
            phase: Phase::Over { end: RunEnd::NeverStarted },
            log: Vec::new(),
            caller: None,
            version: 0,
            readable_at_ns: 0,
            stop_wanted: None,
            is_unsure: false,
        };
        self.runs.insert(known.run, void);
        Adoption::Ended(RunEnd::NeverStarted)
    }
}
