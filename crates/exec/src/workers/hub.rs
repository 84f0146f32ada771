//! The daemon's side of its workers: the nodes, the runs on them, and what each message changes.
//!
//! Everything is in one table under one lock. Events are told while it is held, so that their order is that of what happened; whoever is
//! told must not wait.

use std::collections::{HashMap, HashSet};
use std::net::IpAddr;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

use super::gang::{PartState, RemoteRun, launch_variables, resolve};
use super::home::HomeNode;
use super::known_nodes::{KnownNode, KnownNodes};
use super::listening_clock::ListeningClock;
use super::mirror::Mirror;
use super::nodes::{Link, NodeEntry, check_join};
use super::protocol::{FromWorker, HeldState, Hello, ToWorker};
use crate::executor::{
    DeviceKey, DeviceLook, EventSink, ExecutorEvent, LostCause, Node, NodeName, RunEnd, RunIdentity, RunKey, Stop,
};

/// Clocks that differ by more than this are told of.
const CLOCKS_APART: Duration = Duration::from_secs(5);
/// How often it is noted that the daemon listens, within bounds.
const TICK_MIN: Duration = Duration::from_millis(20);
const TICK_MAX: Duration = Duration::from_millis(500);

/// Says whether a secret that is not that of the token file lets a worker in.
pub type JoinJudge = Arc<dyn Fn(&str) -> bool + Send + Sync>;

/// A connection of a worker: the addresses of both ends, and how the worker was let in.
pub(super) struct Connection {
    pub(super) worker: IpAddr,
    pub(super) daemon: IpAddr,
    /// The token, if it was not the secret of the token file.
    pub(super) token: Option<String>,
}

/// What a connection is given when its worker has joined.
pub(super) struct Joined {
    pub(super) name: NodeName,
    pub(super) number: u64,
    pub(super) outgoing: UnboundedReceiver<ToWorker>,
    pub(super) heard_ms: Arc<AtomicU64>,
}

/// What is known of nodes and runs.
#[derive(Default)]
pub(super) struct Table {
    pub(super) nodes: Vec<NodeEntry>,
    pub(super) known: KnownNodes,
    pub(super) runs: HashMap<RunKey, RemoteRun>,
    /// What was seen on GPUs, and not told yet.
    looks: Vec<DeviceLook>,
    /// Runs that were said never to have started: they never will.
    pub(super) void: HashSet<RunIdentity>,
    links: u64,
}

/// The daemon's side of its workers.
pub(super) struct Hub {
    table: Mutex<Table>,
    sink: EventSink,
    state_dir: PathBuf,
    pub(super) mirror: Mirror,
    pub(super) lost_after: Duration,
    /// The lowest number that a GPU of a worker may have.
    first_index: u32,
    pub(super) clock: ListeningClock,
    pub(super) judge: OnceLock<JoinJudge>,
}

impl Hub {
    pub(super) fn new(state_dir: PathBuf, lost_after: Duration, first_index: u32, sink: EventSink) -> std::io::Result<Self> {
        let mut known = KnownNodes::read(&state_dir)?;
        let mut nodes = std::mem::take(&mut known.nodes);
        for node in &mut nodes {
            known.number(&mut node.devices, first_index);
        }
        known.nodes.clone_from(&nodes);
        let entries = nodes.into_iter().map(|node| NodeEntry {
            name: NodeName::new(&node.name),
            place: node.place,
            devices: node.devices,
            answers: false,
            is_told_gone: false,
            is_seen: false,
            link: None,
            heard_ms: Arc::default(),
            held: HashMap::new(),
            address: None,
            daemon_address: None,
            token: None,
            clock_behind_ns: 0,
            home: None,
        });
        let table = Table { nodes: entries.collect(), known, ..Table::default() };
        let mirror = Mirror::new(state_dir.join("jobs"));
        let clock = ListeningClock::new((lost_after / 10).clamp(TICK_MIN, TICK_MAX));
        Ok(Self { table: Mutex::new(table), sink, state_dir, mirror, lost_after, first_index, clock, judge: OnceLock::new() })
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, Table> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn tell(&self, event: ExecutorEvent) {
        (self.sink)(event);
    }

    pub(super) fn inventory(&self) -> Vec<Node> {
        self.lock().nodes.iter().filter(|node| node.home.is_none()).map(NodeEntry::node).collect()
    }

    /// Cuts all connections: the daemon ends.
    pub(super) fn close(&self) {
        for node in &mut self.lock().nodes {
            node.link = None;
        }
    }

    /// Writes down which nodes there are. What cannot be written now is written with the next change.
    pub(super) fn remember(&self, table: &mut Table) {
        let known = |node: &NodeEntry| KnownNode {
            name: node.name.as_str().to_owned(),
            place: node.place.clone(),
            devices: node.devices.clone(),
        };
        table.known.nodes = table.nodes.iter().filter(|node| node.home.is_none()).map(known).collect();
        if let Err(error) = table.known.write(&self.state_dir) {
            self.tell(ExecutorEvent::Warning(format!("the list of nodes cannot be written: {error}")));
        }
    }

    /// Takes in the daemon's own machine, for runs that are there and on other nodes. It is not one of the inventory.
    pub(super) fn join_home(&self, name: NodeName, home: HomeNode, sender: UnboundedSender<ToWorker>) -> u64 {
        let mut table = self.lock();
        table.links += 1;
        let number = table.links;
        table.nodes.push(NodeEntry {
            name,
            place: "home".to_owned(),
            devices: Vec::new(),
            answers: true,
            is_told_gone: false,
            is_seen: false,
            link: Some(Link { number, sender }),
            heard_ms: Arc::default(),
            held: HashMap::new(),
            address: None,
            daemon_address: None,
            token: None,
            clock_behind_ns: 0,
            home: Some(home),
        });
        number
    }

    /// Takes in a worker that has connected, or says why not.
    pub(super) fn join(&self, hello: Hello, connection: Connection, wall_ms: i64) -> Result<Joined, String> {
        let mut table = self.lock();
        let name = NodeName::new(&hello.name);
        check_join(&table, &hello, &name)?;
        let mut devices = hello.devices;
        table.known.number(&mut devices, self.first_index);
        table.links += 1;
        let (number, (sender, outgoing)) = (table.links, unbounded_channel());
        let heard_ms = Arc::new(AtomicU64::new(self.clock.now_ms()));
        let behind_ms = wall_ms - hello.wall_ms;
        let held = hello.runs.into_iter().map(|held| (held.run, (held.identity, held.state))).collect();
        let entry = NodeEntry {
            name: name.clone(),
            place: hello.place,
            devices,
            answers: true,
            is_told_gone: false,
            is_seen: false,
            link: Some(Link { number, sender }),
            heard_ms: Arc::clone(&heard_ms),
            held,
            address: Some(hello.address.unwrap_or(connection.worker)),
            daemon_address: Some(connection.daemon),
            token: connection.token,
            clock_behind_ns: if behind_ms.unsigned_abs() > 1000 { behind_ms * 1_000_000 } else { 0 },
            home: None,
        };
        let (node, index) = (entry.node(), table.nodes.iter().position(|other| other.name == name));
        if let Some(index) = index {
            let before = std::mem::replace(&mut table.nodes[index], entry);
            if !before.answers {
                self.tell(ExecutorEvent::NodeBack(node.clone()));
            }
            if before.devices != node.devices {
                self.tell(ExecutorEvent::InventoryChanged(node));
            }
        } else {
            table.nodes.push(entry);
            self.tell(ExecutorEvent::InventoryChanged(node));
        }
        self.remember(&mut table);
        if u128::from(behind_ms.unsigned_abs()) > CLOCKS_APART.as_millis() {
            let ahead = if behind_ms < 0 { "ahead of" } else { "behind" };
            let text = format!(
                "the clock of node {name} is {} s {ahead} the daemon's: set both by NTP; until then the times that its jobs write \
                 themselves are off by as much",
                behind_ms.unsigned_abs() / 1000
            );
            self.tell(ExecutorEvent::Warning(text));
        }
        self.catch_up(&mut table, &name);
        Ok(Joined { name, number, outgoing, heard_ms })
    }

    /// Brings the runs on a node that has just connected up to date with what its worker reports.
    fn catch_up(&self, table: &mut Table, name: &NodeName) {
        self.end_given_up(table, name);
        let on_it = |run: &RemoteRun| run.rank_on(name).is_some();
        let runs = table.runs.iter().filter(|(_, run)| on_it(run)).map(|(key, _)| *key).collect::<Vec<_>>();
        for key in runs {
            let Some(node) = table.nodes.iter().find(|node| node.name == *name) else { return };
            let Some(run) = table.runs.get_mut(&key) else { continue };
            let Some(rank) = run.rank_on(name) else { continue };
            let gone = RunEnd::Lost(LostCause::DirectoryGone(format!("{name}:{key}").into()));
            if let Some(end) = resolve(&run.parts[rank].state, node.held.get(&key), run, &gone) {
                self.end_part(table, key, rank, end);
                continue;
            }
            match std::mem::replace(&mut run.parts[rank].state, PartState::Unknown) {
                PartState::Unsent(request) => {
                    run.parts[rank].state = if run.parts.len() > 1 {
                        node.send(ToWorker::Prepare(request));
                        PartState::Preparing
                    } else {
                        node.send(ToWorker::Start(request));
                        PartState::Sent
                    };
                    continue;
                }
                PartState::Ended => {
                    run.parts[rank].state = PartState::Ended;
                    continue;
                }
                state => run.parts[rank].state = state,
            }
            if let Some(how) = run.stop.or_else(|| self.mirror.kept_stop(key)) {
                run.stop = Some(how);
                node.send(ToWorker::Stop(key, how));
            }
            node.send(ToWorker::Report(key, self.mirror.place(key, rank)));
        }
    }

    /// Kills what is left of runs that were given up with this node.
    fn end_given_up(&self, table: &mut Table, name: &NodeName) {
        let Some(node) = table.nodes.iter().find(|node| node.name == *name) else { return };
        let count = table.known.given_up.len();
        table.known.given_up.retain(|(on, run, identity)| {
            if on != name.as_str() {
                return true;
            }
            let is_there =
                matches!(node.held.get(run), Some((held, HeldState::Running | HeldState::Unknown)) if held == identity);
            if is_there {
                node.send(ToWorker::Stop(*run, Stop::AtOnce));
            }
            is_there
        });
        if table.known.given_up.len() != count {
            self.remember(table);
        }
    }

    /// Whether a token lets workers in.
    pub(super) fn admits(&self, token: &str) -> bool {
        self.judge.get().is_some_and(|admits| admits(token))
    }

    /// Cuts the connections of workers whose token was revoked or has ended.
    pub(super) fn cut_revoked(&self) {
        for node in &mut self.lock().nodes {
            if node.token.as_ref().is_some_and(|token| !self.admits(token)) {
                node.link = None;
            }
        }
    }

    /// Looks for nodes of which nothing was heard for too long.
    pub(super) fn look_for_lost(&self) {
        let mut table = self.lock();
        let is_silent = |node: &NodeEntry| self.clock.is_silent(node.heard_ms.load(Ordering::Relaxed), self.lost_after);
        let is_lost = |node: &&NodeEntry| node.home.is_none() && !node.is_told_gone && is_silent(node);
        let lost = table.nodes.iter().filter(is_lost).map(|node| node.name.clone()).collect::<Vec<_>>();
        for name in lost {
            if let Some(node) = table.nodes.iter_mut().find(|node| node.name == name) {
                (node.link, node.answers, node.is_told_gone) = (None, false, true);
            }
            let reason = format!("nothing was heard of it for {} s", self.lost_after.as_secs_f64());
            self.tell(ExecutorEvent::NodeGone { node: name.clone(), reason });
            let before_start = |run: &RemoteRun| run.rank_on(&name).filter(|rank| run.parts[*rank].state.is_before_start());
            let runs = table.runs.iter().filter_map(|(key, run)| Some((*key, before_start(run)?))).collect::<Vec<_>>();
            for (key, rank) in runs {
                let why = format!("node {name} was lost before it could be asked");
                self.end_part(&mut table, key, rank, RunEnd::NotLaunched(why));
            }
        }
    }

    /// Tells what was seen on all nodes since it was told last: once for many workers, because each telling has its price.
    pub(super) fn pass_looks_on(&self) {
        self.tell_looks(&mut self.lock());
    }

    fn tell_looks(&self, table: &mut Table) {
        if !table.looks.is_empty() {
            self.tell(ExecutorEvent::Looked(std::mem::take(&mut table.looks)));
        }
    }

    /// A connection is gone. The node is lost only when nothing is heard of it for too long.
    pub(super) fn disconnected(&self, name: &NodeName, number: u64) {
        let mut table = self.lock();
        let is_it = |node: &&mut NodeEntry| node.name == *name && node.link.as_ref().is_some_and(|link| link.number == number);
        if let Some(node) = table.nodes.iter_mut().find(is_it) {
            node.link = None;
        }
    }

    /// Takes in a message of a worker. One that came over a connection that has been replaced is not heard.
    pub(super) fn hear(&self, name: &NodeName, number: u64, message: FromWorker) {
        if let FromWorker::Output { run, place, files_max, bytes } = message {
            let rank = self.lock().runs.get(&run).and_then(|run| run.rank_on(name));
            if let Some(rank) = rank
                && let Err(error) = self.mirror.write(run, rank, place, files_max, &bytes)
            {
                self.tell(ExecutorEvent::Warning(format!("the output of job {} cannot be written: {error}", run.job)));
            }
            return;
        }
        let mut table = self.lock();
        let is_it = |node: &NodeEntry| node.name == *name && node.link.as_ref().is_some_and(|link| link.number == number);
        let Some(index) = table.nodes.iter().position(is_it) else { return };
        match message {
            FromWorker::Running(run) => self.take_running(&mut table, index, run),
            FromWorker::Prepared(run, prepared) => self.take_prepared(&mut table, name, run, prepared),
            FromWorker::Ended(run, identity, mut end) => {
                let node = &mut table.nodes[index];
                correct_times(&mut end, node.clock_behind_ns);
                // Nothing of the run is left: a look from before would show its processes as strangers.
                table.looks.retain(|look| look.owners.iter().all(|owner| owner.job != Some(run.job)));
                let node = &mut table.nodes[index];
                node.held.insert(run, (identity.clone(), HeldState::Ended(end.clone())));
                let given_up = table.known.given_up.len();
                table.known.given_up.retain(|(on, key, held)| on != name.as_str() || *key != run || *held != identity);
                if table.known.given_up.len() != given_up {
                    self.remember(&mut table);
                }
                let rank = table.runs.get(&run).filter(|known| known.identity == identity).and_then(|run| run.rank_on(name));
                if let Some(rank) = rank {
                    self.end_part(&mut table, run, rank, end);
                }
            }
            FromWorker::Unreadable(run, problem) => {
                if table.runs.contains_key(&run) {
                    self.tell(ExecutorEvent::Unreadable { run, problem: format!("node {name}: {problem}") });
                }
            }
            FromWorker::Devices(mut devices) => {
                table.known.number(&mut devices, self.first_index);
                table.nodes[index].devices = devices;
                self.tell(ExecutorEvent::InventoryChanged(table.nodes[index].node()));
                self.remember(&mut table);
            }
            FromWorker::Held(uuid, reason) => {
                let device = DeviceKey { node: name.clone(), uuid };
                self.tell(match reason {
                    Some(reason) => ExecutorEvent::DeviceHeld { device, reason },
                    None => ExecutorEvent::DeviceFree { device },
                });
            }
            FromWorker::Looks(looks) => {
                table.looks.extend(looks);
                // The first looks at a node are waited for: nothing is started there before.
                if !std::mem::replace(&mut table.nodes[index].is_seen, true) {
                    self.tell_looks(&mut table);
                }
            }
            FromWorker::Warning(text) => self.tell(ExecutorEvent::Warning(format!("node {name}: {text}"))),
            FromWorker::Beat | FromWorker::Tunnel(_) | FromWorker::Output { .. } => {}
        }
    }

    fn take_running(&self, table: &mut Table, index: usize, key: RunKey) {
        let name = table.nodes[index].name.clone();
        let Some(run) = table.runs.get_mut(&key) else { return };
        table.nodes[index].held.insert(key, (run.identity.clone(), HeldState::Running));
        let Some(rank) = run.rank_on(&name).filter(|rank| !matches!(run.parts[*rank].state, PartState::Ended)) else { return };
        run.parts[rank].state = PartState::Running;
        if run.is_running() && !std::mem::replace(&mut run.is_told_running, true) {
            self.tell(ExecutorEvent::Running { run: key });
        }
    }

    /// A part of a run on several nodes is ready, or cannot be: all start or none.
    fn take_prepared(&self, table: &mut Table, name: &NodeName, key: RunKey, prepared: Result<u16, String>) {
        let Some(run) = table.runs.get_mut(&key) else { return };
        let Some(rank) = run.rank_on(name).filter(|rank| matches!(run.parts[*rank].state, PartState::Preparing)) else { return };
        match prepared {
            Err(why) => self.end_part(table, key, rank, RunEnd::NotLaunched(format!("node {name}: {why}"))),
            Ok(port) => {
                run.parts[rank].state = PartState::Ready(port);
                let first = run.parts.first().map(|part| &part.state);
                let port = if let (true, Some(PartState::Ready(port))) = (run.is_ready(), first) { *port } else { return };
                for part in &mut run.parts {
                    part.state = PartState::Sent;
                    if let Some(node) = table.nodes.iter().find(|node| node.name == part.node) {
                        node.send(ToWorker::Launch(key, launch_variables(port)));
                    }
                }
            }
        }
    }

    /// A part of a run has ended; the others follow if it did not end well.
    pub(super) fn end_part(&self, table: &mut Table, key: RunKey, rank: usize, end: RunEnd) {
        let Some(run) = table.runs.get_mut(&key) else { return };
        if matches!(run.parts[rank].state, PartState::Ended) {
            return;
        }
        let others_follow = run.end_part(rank, end);
        if others_follow && run.parts.len() > 1 {
            run.stop = Some(Stop::Gentle);
            self.stop_parts(table, key, Stop::Gentle);
        }
        let Some(run) = table.runs.get(&key) else { return };
        if let Some(end) = run.end().cloned() {
            if end.never_ran() {
                table.void.insert(run.identity.clone());
            }
            table.runs.remove(&key);
            self.mirror.forget_stop(key);
            self.tell(ExecutorEvent::Ended { run: key, end });
        }
    }

    /// Tells all parts of a run to stop that have not ended. Those that were not asked to start never do.
    pub(super) fn stop_parts(&self, table: &mut Table, key: RunKey, how: Stop) {
        let ranks = table.runs.get(&key).map_or(0, |run| run.parts.len());
        for rank in 0..ranks {
            let Some(run) = table.runs.get(&key) else { return };
            let part = &run.parts[rank];
            let node = table.nodes.iter().find(|node| node.name == part.node);
            match &part.state {
                PartState::Ended => {}
                state if state.is_before_start() => {
                    if let Some(node) = node {
                        node.send(ToWorker::Discard(key));
                    }
                    self.end_part(table, key, rank, RunEnd::NeverStarted);
                }
                _ => {
                    if !node.is_some_and(|node| node.send(ToWorker::Stop(key, how)))
                        && let Err(error) = self.mirror.keep_stop(key, how)
                    {
                        self.tell(ExecutorEvent::Warning(format!("the stop of job {} cannot be kept: {error}", key.job)));
                    }
                }
            }
        }
    }
}

/// Times by the clock of a node, by the daemon's.
fn correct_times(end: &mut RunEnd, behind_ns: i64) {
    if let RunEnd::Ended(record) = end {
        record.started_unix_ns = record.started_unix_ns.saturating_add_signed(behind_ns);
        record.finished_unix_ns = record.finished_unix_ns.saturating_add_signed(behind_ns);
    }
}
