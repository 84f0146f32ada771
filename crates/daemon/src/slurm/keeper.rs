//! The thread that keeps allocations: asks for them, follows them, gives them back.
//!
//! What must always hold: an intent is on the disk before `sbatch` is called; each Slurm job with this queue's comment belongs to an
//! allocation or is cancelled; after a failure the next request waits longer each time, so that nothing is submitted in a loop.

use super::demand::{Need, Supply, UNTYPED, shapes};
use super::keeper_thread::KeeperThread;
use super::nodes::is_promise;
use super::occupancy::{busy_nodes, needs, nodes_of_jobs_that_do_not_save};
use crate::api::GpuState;
use crate::config::SlurmEngine;
use crate::machine::platform::Message;
use crate::view::board::{Board, View};
use rota_exec::slurm::{
    Allocation, AllocationBook, AllocationStage, BookError, Findings, KillWait, Script, Shape, SlurmClient, SlurmError,
    SlurmNode, comment_of,
};
use rota_exec::{ExecutorEvent, NodeName, WorkersHandle, left_path};
use std::collections::{HashMap, HashSet};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::mpsc::{RecvTimeoutError, Sender};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// The warning about nodes, which the queue writes.
const NODE: &str = "node";
/// The warning about Slurm.
const SLURM: &str = "slurm";
/// How often waiting jobs are looked at between two looks at Slurm's queue.
const GLANCE: Duration = Duration::from_millis(100);
/// How often the nodes are looked at.
const NODES_EVERY: Duration = Duration::from_secs(30);
/// Jobs on an allocation are told to save this long before its time limit ends.
const NOTICE_SECONDS: u64 = 120;
/// The shortest and the longest pause after something that Slurm refused or ended at once.
const PAUSE_MIN: Duration = Duration::from_secs(30);
const PAUSE_MAX: Duration = Duration::from_hours(1);
/// The workers of an allocation have at least this long to join.
const JOIN_WITHIN: Duration = Duration::from_mins(1);
/// The last word on an allocation is believed this long after Slurm's kill time.
const KILL_MARGIN_SECONDS: u64 = 2;

/// What a keeper is made of.
pub(crate) struct KeeperParts {
    /// What the site has set about Slurm.
    pub settings: SlurmEngine,
    /// The client that calls Slurm's programs.
    pub client: SlurmClient,
    /// The nodes that it has.
    pub nodes: Vec<SlurmNode>,
    /// What tells the daemon that the node of a worker is gone.
    pub workers: WorkersHandle,
    /// Where workers find the daemon.
    pub address: String,
    /// The file that lets them in.
    pub token_file: PathBuf,
    /// The program `rota`.
    pub program: PathBuf,
    /// The daemon's own folder.
    pub state_dir: PathBuf,
    /// What others may look at.
    pub board: Arc<Board>,
    /// The queue's inbox.
    pub inbox: Sender<Message>,
}

/// The keeper of allocations.
pub(crate) struct Keeper {
    parts: KeeperParts,
    book: AllocationBook,
    kill_wait: KillWait,
    nodes_at: Instant,
    /// Since when each allocation has had no job.
    idle: HashMap<u64, Instant>,
    /// Allocations whose jobs were told to leave.
    leaving: HashSet<u64>,
    /// Allocations whose time is almost over, and those that were asked for to follow them.
    followers: HashMap<u64, Vec<u64>>,
    /// Allocations whose workers have joined.
    joined: HashSet<u64>,
    pause: Duration,
    not_before: Option<Instant>,
    /// What was wrong with the last request.
    problem: Option<String>,
}

impl Keeper {
    /// Opens the book. Allocations of an earlier daemon are found again at the first look.
    pub fn new(parts: KeeperParts) -> Result<Self, BookError> {
        let state = format!("{:08x}", seed(&parts.state_dir));
        let book = AllocationBook::open(&parts.state_dir.join("slurm"), &state)?;
        // Workers that find nothing to do wait for this daemon from now on.
        _ = std::fs::remove_file(Script::down_path(book.folder()));
        let kill_wait = parts.client.kill_wait().unwrap_or(KillWait(Duration::from_secs(30)));
        Ok(Self {
            parts,
            book,
            kill_wait,
            nodes_at: Instant::now(),
            idle: HashMap::new(),
            leaving: HashSet::new(),
            followers: HashMap::new(),
            joined: HashSet::new(),
            pause: PAUSE_MIN,
            not_before: None,
            problem: None,
        })
    }

    /// Starts the thread. It ends with the daemon.
    pub fn start(mut self) -> std::io::Result<KeeperThread> {
        let (close, closed) = std::sync::mpsc::channel();
        let (done, is_done) = std::sync::mpsc::channel();
        std::thread::Builder::new().name("slurm".to_owned()).spawn(move || {
            let mut seen = u64::MAX;
            loop {
                self.look();
                while !self.parts.client.pause().is_zero() {
                    let told = self.parts.board.told();
                    if std::mem::replace(&mut seen, told) != told {
                        self.ask();
                    }
                    match closed.recv_timeout(GLANCE.min(self.parts.client.pause())) {
                        Err(RecvTimeoutError::Timeout) => {}
                        Err(RecvTimeoutError::Disconnected) => return,
                        Ok(()) => {
                            self.give_back_the_unused();
                            // Whoever waits may have lost patience.
                            _ = done.send(());
                            return;
                        }
                    }
                }
            }
        })?;
        Ok(KeeperThread::new(close, is_done))
    }

    /// The daemon ends for good: gives back allocations without jobs, and takes back requests that wait. The workers of the others leave
    /// when their jobs have ended.
    fn give_back_the_unused(&mut self) {
        // Without the file they stay until their time limit, or the next daemon.
        _ = std::fs::write(Script::down_path(self.book.folder()), "");
        let busy = busy_nodes(&self.parts.board.read());
        let is_unused = |allocation: &&Allocation| !busy.iter().any(|node| allocation.owns(node));
        let unused = self.book.allocations().iter().filter(is_unused).filter_map(|allocation| match &allocation.stage {
            AllocationStage::Waiting { job } | AllocationStage::Running { job, .. } => Some((allocation.number, job.clone())),
            AllocationStage::Intended | AllocationStage::Ended { .. } => None,
        });
        for (number, job) in unused.collect::<Vec<_>>() {
            self.remember(|book| book.give_back(number));
            // One that stays is in the book, and is given back by the next daemon.
            _ = self.parts.client.cancel(&job);
        }
    }

    /// Looks at Slurm's queue, and does what follows from it.
    fn look(&mut self) {
        if self.nodes_at.elapsed() > NODES_EVERY {
            self.nodes_at = Instant::now();
            // An old list is good enough until the next one comes.
            if let Ok(nodes) = self.parts.client.nodes() {
                self.parts.nodes = nodes;
            }
        }
        let listed = match self.parts.client.own_jobs() {
            Ok(listed) => listed,
            Err(error) => return self.warn(&error.to_string()),
        };
        // Of those that joined an earlier daemon, some may have ended since.
        self.note_joined();
        match self.book.reconcile(&listed, now()) {
            Ok(findings) => self.take(&findings),
            Err(error) => return self.warn(&error.to_string()),
        }
        self.note_joined();
        self.end_those_that_leave();
        self.forget_those_that_are_over();
        self.give_back_the_idle();
        self.ask();
        self.show();
    }

    fn take(&mut self, findings: &Findings) {
        for job in &findings.strays {
            // One that stays is found again at the next look.
            _ = self.parts.client.cancel(job);
        }
        for number in &findings.vanished {
            self.problem = Some(format!("Slurm accepted allocation {number} and lost it; it is asked for again"));
        }
        let ended = self.book.allocations().iter().filter(|allocation| findings.ended.contains(&allocation.number)).cloned();
        for allocation in ended.collect::<Vec<_>>() {
            let reason = reason_of(&allocation);
            // Of one that was given back nobody misses anything.
            let missed = if allocation.is_given_back { Vec::new() } else { self.workers_there(&allocation) };
            for worker in missed {
                self.tell(ExecutorEvent::NodeGone { node: NodeName::new(&worker), reason: reason.clone() });
            }
            if !self.joined.contains(&allocation.number) && !allocation.is_given_back {
                let log = self.book.folder().join(format!("a{}.log", allocation.number));
                self.hold_off(&format!(
                    "allocation {} ended before its workers had joined ({reason}); `{}` says more if the nodes can write there: the state \
                     directory must be seen by them under the same path",
                    allocation.number,
                    log.display()
                ));
            }
        }
    }

    /// The workers of an allocation that have ever joined and were not given up.
    fn workers_there(&self, allocation: &Allocation) -> Vec<String> {
        let known = self.parts.workers.nodes().into_iter().map(|node| node.name.to_string());
        known.filter(|worker| allocation.owns(worker)).collect()
    }

    /// Notes whose workers have joined. What works ends the pause after failures.
    fn note_joined(&mut self) {
        // Those that joined an earlier daemon, too.
        let there = self.parts.workers.nodes().into_iter().map(|node| node.name.to_string()).collect::<HashSet<_>>();
        for allocation in self.book.allocations() {
            let workers = allocation.workers();
            let has_joined = !workers.is_empty() && workers.iter().all(|worker| there.contains(worker));
            if has_joined && self.joined.insert(allocation.number) {
                (self.pause, self.not_before, self.problem) = (PAUSE_MIN, None, None);
                // It could have no job before.
                self.idle.remove(&allocation.number);
            }
        }
    }

    /// Tells the jobs of allocations that will end to save and leave.
    fn end_those_that_leave(&mut self) {
        let moment = now();
        let stuck = nodes_of_jobs_that_do_not_save(&self.parts.board.read());
        let mut leaving = Vec::new();
        for allocation in self.book.allocations() {
            let AllocationStage::Running { ends, .. } = &allocation.stage else { continue };
            let is_noticed = Script::notice_path(self.book.folder(), allocation.number).exists();
            let is_due = ends.is_some_and(|ends| ends.saturating_sub(moment) <= NOTICE_SECONDS);
            let followers = self.followers.get(&allocation.number);
            let is_followed = followers.is_some_and(|those| those.iter().all(|follower| self.joined.contains(follower)));
            // Jobs that do not save stay as long as they can: they may be done in time.
            let is_followed = is_followed && !allocation.workers().iter().any(|worker| stuck.contains(worker));
            if (is_noticed || is_due || is_followed) && !self.leaving.contains(&allocation.number) {
                let why = match (is_due, is_noticed) {
                    (true, _) => "its time limit",
                    (_, true) => "Slurm takes its nodes",
                    _ => "another follows it",
                };
                leaving.push((allocation.number, allocation.workers(), format!("allocation {} ends: {why}", allocation.number)));
            }
        }
        for (number, workers, reason) in leaving {
            self.leaving.insert(number);
            // The inbox is gone only when the daemon ends.
            _ = self.parts.inbox.send(Message::NodesLeaving { nodes: workers, reason });
        }
    }

    /// Forgets allocations that are over when no process of theirs can be left.
    fn forget_those_that_are_over(&mut self) {
        let kill_seconds = self.kill_wait.0.as_secs() + KILL_MARGIN_SECONDS;
        let busy = busy_nodes(&self.parts.board.read());
        let over = self.book.allocations().iter().filter(|allocation| match allocation.stage {
            AllocationStage::Ended { since, is_listed, .. } => {
                // One that was given back without jobs has nothing whose end must be proved.
                let is_empty = allocation.is_given_back && !busy.iter().any(|node| allocation.owns(node));
                !is_listed && (is_empty || self.has_left(allocation) || now().saturating_sub(since) >= kill_seconds)
            }
            _ => false,
        });
        for allocation in over.cloned().collect::<Vec<_>>() {
            let reason = reason_of(&allocation);
            self.take_what_is_left(&allocation);
            let left = self.workers_there(&allocation).into_iter();
            let refused = left.filter_map(|worker| self.parts.workers.prove_gone(&NodeName::new(&worker), &reason).err());
            // A worker that still speaks is one that Slurm has not killed: its jobs are not over.
            if refused.count() == 0 {
                self.remember(|book| book.forget(allocation.number));
                self.clear_warning_of(&allocation);
                self.leaving.remove(&allocation.number);
                self.followers.remove(&allocation.number);
                self.joined.remove(&allocation.number);
                self.idle.remove(&allocation.number);
            }
        }
    }

    /// Whether all workers of an allocation have left because nothing ran any more while there was no daemon.
    fn has_left(&self, allocation: &Allocation) -> bool {
        let workers = self.workers_there(allocation);
        !workers.is_empty() && workers.iter().all(|worker| self.left_path(worker).exists())
    }

    fn left_path(&self, worker: &str) -> PathBuf {
        left_path(&Script::down_path(self.book.folder()), worker)
    }

    /// Takes in how jobs have ended whose workers have left.
    fn take_what_is_left(&self, allocation: &Allocation) {
        for worker in self.workers_there(allocation) {
            let path = self.left_path(&worker);
            if !path.exists() {
                continue;
            }
            if let Err(error) = self.parts.workers.take_left(&NodeName::new(&worker), &path) {
                self.warn(&format!("{}: {error}; its jobs are started again", path.display()));
            }
            _ = std::fs::remove_file(path);
        }
    }

    /// Takes back the warning about nodes if it is about an allocation that is forgotten.
    fn clear_warning_of(&self, allocation: &Allocation) {
        let (start, workers) = (format!("allocation {} ", allocation.number), allocation.workers());
        let is_about =
            |text: &String| text.starts_with(&start) || workers.iter().any(|worker| text.contains(&format!(" {worker} ")));
        let mut view = self.parts.board.write();
        if view.warnings.get(NODE).is_some_and(is_about) {
            view.warnings.remove(NODE);
        }
    }

    /// Gives back allocations that have had no job for long enough.
    fn give_back_the_idle(&mut self) {
        let busy = busy_nodes(&self.parts.board.read());
        let idle_max = Duration::from_secs_f64(self.parts.settings.idle_seconds);
        let mut to_cancel = Vec::new();
        for allocation in self.book.allocations() {
            let number = allocation.number;
            let AllocationStage::Running { job, .. } = &allocation.stage else {
                self.idle.remove(&number);
                continue;
            };
            if self.is_awaited(number) || allocation.workers().iter().any(|worker| busy.contains(worker)) {
                self.idle.remove(&number);
                continue;
            }
            let since = *self.idle.entry(number).or_insert_with(Instant::now);
            let idle_max = if self.joined.contains(&number) { idle_max } else { idle_max.max(JOIN_WITHIN) };
            if self.leaving.contains(&number) && allocation.is_given_back {
                to_cancel.push((number, job.clone(), true));
            } else if since.elapsed() >= idle_max || self.leaving.contains(&number) {
                to_cancel.push((number, job.clone(), false));
            }
        }
        for (number, job, is_closed) in to_cancel {
            if is_closed {
                // Nothing was started there since nothing may be.
                if let Err(error) = self.parts.client.cancel(&job) {
                    self.warn(&error.to_string());
                }
                continue;
            }
            self.remember(|book| book.give_back(number));
            self.leaving.insert(number);
            if !self.joined.contains(&number) {
                let log = self.book.folder().join(format!("a{number}.log"));
                self.hold_off(&format!(
                    "the workers of allocation {number} did not join within {} s; they look for the daemon at {}, which is \
                     `engine.slurm.address`; `{}` says more",
                    idle_max.max(JOIN_WITHIN).as_secs(),
                    self.parts.address,
                    log.display()
                ));
            }
            let workers = self.book.allocations().iter().find(|allocation| allocation.number == number).map(Allocation::workers);
            let reason = format!("allocation {number} is given back: it had no job");
            _ = self.parts.inbox.send(Message::NodesLeaving { nodes: workers.unwrap_or_default(), reason });
        }
        self.cancel_the_unneeded();
    }

    /// Cancels requests that no job waits for any more.
    fn cancel_the_unneeded(&mut self) {
        let is_needed = !needs(&self.parts.board.read()).is_empty();
        if is_needed {
            return;
        }
        let waiting = self.book.allocations().iter().filter_map(|allocation| match &allocation.stage {
            AllocationStage::Waiting { job } if !allocation.is_given_back && !self.is_awaited(allocation.number) => {
                Some((allocation.number, job.clone()))
            }
            _ => None,
        });
        let there = self.parts.workers.nodes().into_iter().map(|node| node.name.to_string()).collect::<Vec<_>>();
        // One whose workers are there has started since Slurm was asked, and may have a job.
        let has_joined = |number: u64| there.iter().any(|worker| worker.ends_with(&format!(".a{number}")));
        for (number, job) in waiting.filter(|(number, _)| !has_joined(*number)).collect::<Vec<_>>() {
            self.remember(|book| book.give_back(number));
            if let Err(error) = self.parts.client.cancel(&job) {
                self.warn(&error.to_string());
            }
        }
    }

    /// Asks for the allocations that waiting jobs need.
    fn ask(&mut self) {
        if self.not_before.is_some_and(|at| Instant::now() < at) {
            return;
        }
        let (mut wanted, supply, ending) = {
            let view = self.parts.board.read();
            if view.draining {
                return;
            }
            let ending = self.ending(&view);
            (needs(&view), self.supply(&view, &ending), ending)
        };
        wanted.extend(ending.iter().map(|(_, need)| need.clone()));
        for shape in shapes(&wanted, &supply, &self.parts.nodes, &self.parts.settings) {
            let Some(number) = self.submit(&shape) else { return };
            let kind = shape.kind.as_deref().unwrap_or(UNTYPED);
            for (before, _) in ending.iter().filter(|(_, need)| need.kinds.iter().any(|wanted| wanted == kind)) {
                self.followers.entry(*before).or_default().push(number);
            }
        }
    }

    /// Whether an allocation was asked for to follow another that still has its nodes.
    fn is_awaited(&self, number: u64) -> bool {
        self.book.allocations().iter().any(|before| {
            matches!(before.stage, AllocationStage::Running { .. })
                && self.followers.get(&before.number).is_some_and(|followers| followers.contains(&number))
        })
    }

    /// Allocations with jobs whose time is almost over, and what must be asked for before it is.
    fn ending(&self, view: &View) -> Vec<(u64, Need)> {
        let lead = (self.parts.settings.time_limit_seconds / 10.0).clamp(180.0, 1800.0) as u64;
        let busy = busy_nodes(view);
        let moment = now();
        let mut ending = Vec::new();
        for allocation in self.book.allocations() {
            let AllocationStage::Running { ends: Some(ends), .. } = allocation.stage else { continue };
            let is_busy = allocation.workers().iter().any(|worker| busy.contains(worker));
            let is_followed = self.followers.contains_key(&allocation.number) || self.leaving.contains(&allocation.number);
            if is_busy && ends.saturating_sub(moment) <= lead && !is_followed {
                let kind = allocation.shape.kind.clone().unwrap_or_else(|| UNTYPED.to_owned());
                ending.push((allocation.number, Need { gpus: allocation.shape.gpus(), kinds: vec![kind] }));
            }
        }
        ending
    }

    /// What is there or on its way.
    fn supply(&self, view: &View, ending: &[(u64, Need)]) -> Supply {
        let mut supply = Supply::default();
        let leaving = self.book.allocations().iter().filter(|allocation| self.leaving.contains(&allocation.number));
        let leaving = leaving.flat_map(Allocation::workers).collect::<HashSet<_>>();
        for gpu in view.gpus.iter().filter(|gpu| gpu.state == GpuState::Free && !is_promise(&gpu.node)) {
            if !leaving.contains(&gpu.node) {
                *supply.free.entry(gpu.kind.clone()).or_default() += 1;
            }
        }
        let there = view.gpus.iter().map(|gpu| gpu.node.as_str()).collect::<HashSet<_>>();
        for allocation in self.book.allocations() {
            let kind = allocation.shape.kind.clone().unwrap_or_else(|| UNTYPED.to_owned());
            let is_coming = match &allocation.stage {
                AllocationStage::Intended | AllocationStage::Waiting { .. } => {
                    supply.waiting += 1;
                    !allocation.is_given_back
                }
                AllocationStage::Running { .. } => !allocation.workers().iter().all(|worker| there.contains(worker.as_str())),
                AllocationStage::Ended { .. } => continue,
            };
            // Those that are followed by another make room for it.
            let makes_room =
                self.followers.contains_key(&allocation.number) || ending.iter().any(|(number, _)| *number == allocation.number);
            supply.held += if makes_room { 0 } else { allocation.shape.gpus() };
            if is_coming {
                *supply.free.entry(kind).or_default() += allocation.shape.gpus();
            }
        }
        supply
    }

    /// Submits an allocation: first the intent, then the script, then `sbatch`. Gives its number if Slurm has it.
    fn submit(&mut self, shape: &Shape) -> Option<u64> {
        let number = match self.book.intend(shape.clone(), now()) {
            Ok(number) => number,
            Err(error) => {
                self.warn(&error.to_string());
                return None;
            }
        };
        let kind = shape.kind.clone().unwrap_or_else(|| UNTYPED.to_owned());
        let script = Script {
            number,
            folder: self.book.folder().to_owned(),
            program: self.parts.program.clone(),
            address: self.parts.address.clone(),
            token_file: self.parts.token_file.clone(),
            gres: shape.gres(),
            gpu_type: shape.kind.clone(),
            virtual_gpus: self.parts.settings.virtual_gpus.then(|| format!("{kind}:{}", shape.gpus_per_node)),
        };
        if let Err(error) = std::fs::write(script.path(), script.text()) {
            self.remember(|book| book.refused(number));
            self.hold_off(&format!("{}: {error}", script.path().display()));
            return None;
        }
        let (name, comment) = (format!("rota-{}-{number}", self.book.state()), comment_of(self.book.state(), number));
        match self.parts.client.submit(shape, &name, &comment, &script.path()) {
            Ok(job) => {
                self.remember(|book| book.submitted(number, &job));
                self.problem = None;
                Some(number)
            }
            Err(error @ (SlurmError::Refused { .. } | SlurmError::Missing { .. })) => {
                self.remember(|book| book.refused(number));
                self.hold_off(&error.to_string());
                None
            }
            // It may have been taken all the same: the comment will tell.
            Err(error) => {
                self.hold_off(&error.to_string());
                None
            }
        }
    }

    /// Asks for nothing for a while, longer each time.
    fn hold_off(&mut self, problem: &str) {
        self.not_before = Some(Instant::now() + self.pause);
        let text = format!("{problem}; tried again in {} s", self.pause.as_secs());
        self.pause = (self.pause * 2).min(PAUSE_MAX);
        self.warn(&text);
        self.problem = Some(text);
    }

    fn warn(&self, text: &str) {
        self.parts.board.write().warnings.insert(SLURM, format!("Slurm: {text}"));
    }

    fn remember(&mut self, change: impl FnOnce(&mut AllocationBook) -> Result<(), BookError>) {
        if let Err(error) = change(&mut self.book) {
            self.warn(&error.to_string());
        }
    }

    fn tell(&self, event: ExecutorEvent) {
        // The inbox is gone only when the daemon ends.
        _ = self.parts.inbox.send(Message::Executor(event));
    }

    /// Shows what waiting jobs wait for in Slurm.
    fn show(&mut self) {
        let mut text = self.problem.clone().unwrap_or_default();
        for allocation in self.book.allocations() {
            let AllocationStage::Waiting { job } = &allocation.stage else { continue };
            let reason = if allocation.reason.is_empty() { "its turn" } else { &allocation.reason };
            let start = allocation.expected.map_or_else(String::new, |at| {
                format!(
                    ", expected {}",
                    crate::clock::rfc3339(i64::try_from(at).unwrap_or(i64::MAX / 1_000_000_000) * 1_000_000_000)
                )
            });
            let kind = allocation.shape.kind.as_deref().unwrap_or("of any type");
            let line = format!("Slurm job {job} ({} GPUs {kind}) waits for {reason}{start}", allocation.shape.gpus());
            text = if text.is_empty() { line } else { format!("{text}; {line}") };
        }
        let mut view = self.parts.board.write();
        view.engine = (!text.is_empty()).then_some(text);
        if self.problem.is_none() {
            view.warnings.remove(SLURM);
        }
    }
}

/// Why an allocation is over, for people.
fn reason_of(allocation: &Allocation) -> String {
    let word = if allocation.reason.is_empty() { "it is over" } else { &allocation.reason };
    format!("Slurm allocation {}: {word}", allocation.number)
}

fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs())
}

/// A number for the name of a new queue: made of its folder and the moment.
fn seed(folder: &std::path::Path) -> u32 {
    use std::hash::{BuildHasher, Hasher, RandomState};
    let mut hasher = RandomState::new().build_hasher();
    hasher.write(folder.as_os_str().as_encoded_bytes());
    (hasher.finish() & u64::from(u32::MAX)) as u32
}
