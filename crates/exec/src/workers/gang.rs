//! A run as the daemon knows it: its parts on one node or several, and how their ends become one end.

use std::ffi::OsString;
use std::net::IpAddr;

use super::protocol::HeldState;
use crate::ExitRecord;
use crate::executor::{NodeName, Place, RunEnd, RunIdentity, RunRequest, Stop};

/// What is known of the part of a run on one node.
#[derive(Debug)]
pub(super) enum PartState {
    /// The node was not asked yet, because it is not connected.
    Unsent(Box<RunRequest>),
    /// The node was asked to make the part ready.
    Preparing,
    /// The part is ready, and this port is free on its node.
    Ready(u16),
    /// The node was asked to start the part.
    Sent,
    /// The part is running.
    Running,
    /// The run was started by an earlier daemon, and its node has not told of it.
    Unknown,
    /// The part has ended.
    Ended,
}

impl PartState {
    /// Whether it is certain that the part was not started and that nobody was asked to.
    pub(super) fn is_before_start(&self) -> bool {
        matches!(self, Self::Unsent(_) | Self::Preparing | Self::Ready(_))
    }
}

/// The part of a run on one node.
#[derive(Debug)]
pub(super) struct Part {
    pub(super) node: NodeName,
    pub(super) state: PartState,
}

/// A run that is under way on other nodes.
#[derive(Debug)]
pub(super) struct RemoteRun {
    pub(super) identity: RunIdentity,
    /// The parts by rank.
    pub(super) parts: Vec<Part>,
    /// How the run was asked to stop.
    pub(super) stop: Option<Stop>,
    /// Whether the caller knows that the run is running.
    pub(super) is_told_running: bool,
    /// The end of the whole, as far as its parts have ended.
    end: Option<RunEnd>,
}

impl RemoteRun {
    /// A run on these nodes, in a state.
    pub(super) fn new(identity: RunIdentity, places: &[Place], state: impl Fn(usize) -> PartState) -> Self {
        let parts = places.iter().enumerate().map(|(rank, place)| Part { node: place.node.clone(), state: state(rank) });
        Self { identity, parts: parts.collect(), stop: None, is_told_running: false, end: None }
    }

    /// The part on a node.
    pub(super) fn rank_on(&self, node: &NodeName) -> Option<usize> {
        self.parts.iter().position(|part| part.node == *node)
    }

    /// Whether all parts are ready to be started.
    pub(super) fn is_ready(&self) -> bool {
        self.parts.iter().all(|part| matches!(part.state, PartState::Ready(_)))
    }

    /// Whether all parts are running that have not ended, and at least one is.
    pub(super) fn is_running(&self) -> bool {
        let is_running = |part: &Part| matches!(part.state, PartState::Running);
        let is_fine = |part: &Part| matches!(part.state, PartState::Running | PartState::Ended);
        self.parts.iter().any(is_running) && self.parts.iter().all(is_fine)
    }

    /// Takes in the end of a part. Says whether the other parts must be told to end: one that did not end well takes all with it.
    pub(super) fn end_part(&mut self, rank: usize, end: RunEnd) -> bool {
        self.parts[rank].state = PartState::Ended;
        let is_bad = !is_success(&end);
        self.end = Some(match self.end.take() {
            None => end,
            Some(before) => join(before, end),
        });
        is_bad && self.stop.is_none()
    }

    /// The end of the whole, once all parts have ended.
    pub(super) fn end(&self) -> Option<&RunEnd> {
        self.end.as_ref().filter(|_| self.parts.iter().all(|part| matches!(part.state, PartState::Ended)))
    }
}

/// What a node's report says of a part that the daemon asked for or adopted.
#[expect(clippy::match_same_arms, reason = "the arms are tried in order, each for a reason of its own")]
pub(super) fn resolve(
    state: &PartState,
    held: Option<&(RunIdentity, HeldState)>,
    run: &RemoteRun,
    gone: &RunEnd,
) -> Option<RunEnd> {
    match (state, held) {
        // A worker forgets what it made ready when its connection breaks.
        (PartState::Preparing | PartState::Ready(_), _) => Some(RunEnd::NeverStarted),
        (PartState::Unsent(_) | PartState::Ended, _) => None,
        (_, Some((identity, _))) if *identity == run.identity => None,
        // The request was lost with the connection, and never arrives now.
        (PartState::Sent, _) | (PartState::Unknown, None) => Some(RunEnd::NeverStarted),
        (PartState::Unknown | PartState::Running, _) => Some(gone.clone()),
    }
}

fn is_success(end: &RunEnd) -> bool {
    matches!(end, RunEnd::Ended(record) if record.code == Some(0))
}

/// The end of two parts together: the first that did not end well counts, and one that nobody knows of counts more.
fn join(first: RunEnd, second: RunEnd) -> RunEnd {
    let weight = |end: &RunEnd| match end {
        RunEnd::Ended(record) if record.code == Some(0) => 0,
        RunEnd::NeverStarted => 1,
        RunEnd::Ended(_) => 2,
        RunEnd::NotLaunched(_) => 3,
        RunEnd::Rebooted => 4,
        RunEnd::Lost(_) => 5,
    };
    // A part that ran makes the whole one that ran, even where another part was not launched.
    let ran = |end: &RunEnd| matches!(end, RunEnd::Ended(_));
    match (first, second) {
        (RunEnd::Ended(first), RunEnd::Ended(second)) if first.code == Some(0) && second.code == Some(0) => {
            RunEnd::Ended(Box::new(sum(*first, &second)))
        }
        (RunEnd::NotLaunched(why), other) | (other, RunEnd::NotLaunched(why)) if ran(&other) => match other {
            RunEnd::Ended(mut record) => {
                record.message = Some(format!("a part of it could not be started: {why}"));
                RunEnd::Ended(record)
            }
            other => other,
        },
        (first, second) if weight(&second) > weight(&first) => second,
        (first, _) => first,
    }
}

/// One record for two parts that ended well.
fn sum(first: ExitRecord, second: &ExitRecord) -> ExitRecord {
    ExitRecord {
        started_unix_ns: first.started_unix_ns.min(second.started_unix_ns),
        finished_unix_ns: first.finished_unix_ns.max(second.finished_unix_ns),
        duration_ns: first.duration_ns.max(second.duration_ns),
        user_seconds: first.user_seconds + second.user_seconds,
        system_seconds: first.system_seconds + second.system_seconds,
        max_rss_kib: first.max_rss_kib.max(second.max_rss_kib),
        log_lost_bytes: first.log_lost_bytes + second.log_lost_bytes,
        ..first
    }
}

/// The request for one part of a run. The parts of a run on several nodes know of each other by the variables that `PyTorch`'s launcher
/// sets, with one process on each node.
pub(super) fn part_request(request: &RunRequest, rank: usize, master: Option<IpAddr>) -> RunRequest {
    let place = request.places[rank].clone();
    let mut part = RunRequest { places: vec![place.clone()], ..request.clone() };
    if request.places.len() > 1 {
        let nodes = request.places.len().to_string();
        let names = request.places.iter().map(|place| place.node.as_str()).collect::<Vec<_>>().join(",");
        part.variables.extend(
            [
                ("MASTER_ADDR", master.map(|address| address.to_string()).unwrap_or_default()),
                ("RANK", rank.to_string()),
                ("WORLD_SIZE", nodes.clone()),
                ("NODE_RANK", rank.to_string()),
                ("NNODES", nodes),
                ("LOCAL_RANK", "0".to_owned()),
                ("LOCAL_WORLD_SIZE", "1".to_owned()),
                ("ROTA_NODES", names),
                ("ROTA_NODE_GPUS", place.uuids.len().to_string()),
            ]
            .map(|(name, value)| (OsString::from(name), OsString::from(value))),
        );
    }
    part
}

/// The variable that is known only when all parts are ready.
pub(super) fn launch_variables(port: u16) -> Vec<(OsString, OsString)> {
    vec![("MASTER_PORT".into(), port.to_string().into())]
}
