//! What the daemon asks of its workers: to start, stop and adopt runs, and to give up what is gone.

use super::gang::{PartState, RemoteRun, part_request};
use super::hub::{Hub, Table};
use super::nodes::NodeEntry;
use super::protocol::{HeldState, ToWorker};
use crate::executor::{
    Adoption, ExecutorEvent, KnownRun, LostCause, NodeName, RunEnd, RunIdentity, RunKey, RunRequest, StartError, Stop, StopError,
};

impl Hub {
    pub(super) fn is_under_way(&self, run: RunKey) -> bool {
        self.lock().runs.contains_key(&run)
    }

    pub(super) fn start(&self, request: RunRequest) -> Result<(), StartError> {
        let key = request.run;
        check_start(&self.lock(), &request)?;
        // Files take their time, and messages of workers do not wait for it.
        self.mirror.begin(&request).map_err(|error| {
            StartError::NotLaunched(format!("its directory `{}` cannot be made: {error}", self.mirror.dir(key).display()))
        })?;
        let mut table = self.lock();
        check_start(&table, &request)?;
        let has_part = |node: &&NodeEntry| request.places.iter().any(|place| place.node == node.name);
        let first = table.nodes.iter().find(|node| node.name == request.places[0].node);
        // The daemon's own machine is where the others reach it.
        let reached = || table.nodes.iter().filter(has_part).find_map(|node| node.daemon_address);
        let master = first.and_then(|node| node.address).or_else(reached);
        let mut states = Vec::new();
        for rank in 0..request.places.len() {
            let part = Box::new(part_request(&request, rank, master));
            let Some(node) = table.nodes.iter_mut().find(|node| node.name == request.places[rank].node) else { continue };
            node.held.remove(&key);
            states.push(if node.link.is_none() {
                PartState::Unsent(part)
            } else if request.places.len() > 1 {
                node.send(ToWorker::Prepare(part));
                PartState::Preparing
            } else {
                node.send(ToWorker::Start(part));
                PartState::Sent
            });
        }
        let mut states = states.into_iter();
        let mut run = RemoteRun::new(request.identity, &request.places, |_| PartState::Unknown);
        for (part, state) in run.parts.iter_mut().zip(&mut states) {
            part.state = state;
        }
        table.runs.insert(key, run);
        Ok(())
    }

    pub(super) fn stop(&self, key: RunKey, how: Stop) -> Result<(), StopError> {
        let mut table = self.lock();
        let run = table.runs.get_mut(&key).ok_or(StopError::Unknown { run: key })?;
        run.stop = run.stop.max(Some(how));
        self.stop_parts(&mut table, key, how);
        Ok(())
    }

    pub(super) fn adopt(&self, known: &KnownRun) -> Adoption {
        let mut table = self.lock();
        let key = known.run;
        if let Some(run) = table.runs.get(&key) {
            return if run.is_running() { Adoption::Running } else { Adoption::Unknown };
        }
        let identity = known.identity.clone().unwrap_or_else(|| RunIdentity::from_text(""));
        let mut run = RemoteRun::new(identity.clone(), &known.places, |_| PartState::Unknown);
        run.stop = self.mirror.kept_stop(key);
        for (rank, place) in known.places.iter().enumerate() {
            let Some(node) = table.nodes.iter().find(|node| node.name == place.node) else {
                let gone = || LostCause::NodeGone(place.node.to_string());
                let proof = table.known.proof(place.node.as_str());
                run.end_part(rank, RunEnd::Lost(proof.map_or_else(gone, |reason| LostCause::NodeEnded(reason.to_owned()))));
                continue;
            };
            if let Some(home) = &node.home {
                match home.adopt(known) {
                    HeldState::Running => run.parts[rank].state = PartState::Running,
                    HeldState::Unknown => {}
                    HeldState::Ended(end) => _ = run.end_part(rank, end),
                }
                continue;
            }
            if node.link.is_none() {
                continue;
            }
            match node.held.get(&key) {
                None => _ = run.end_part(rank, RunEnd::NeverStarted),
                Some((held, _)) if *held != identity => {
                    _ = run.end_part(rank, RunEnd::Lost(LostCause::AnotherRun(format!("{}:{key}", node.name).into())));
                }
                Some((_, state)) => {
                    node.send(ToWorker::Report(key, self.mirror.place(key, rank)));
                    match state {
                        HeldState::Running => run.parts[rank].state = PartState::Running,
                        HeldState::Unknown => {}
                        HeldState::Ended(end) => _ = run.end_part(rank, end.clone()),
                    }
                }
            }
        }
        if let Some(end) = run.end().cloned() {
            if end.never_ran() {
                table.void.insert(identity);
            }
            return Adoption::Ended(end);
        }
        run.is_told_running = run.is_running();
        let adoption = if run.is_told_running { Adoption::Running } else { Adoption::Unknown };
        table.runs.insert(key, run);
        adoption
    }

    /// Gives up the parts of a run that are on nodes that do not answer, and kills the others.
    pub(super) fn give_up(&self, key: RunKey) {
        let mut table = self.lock();
        let answers = |name: &NodeName| table.nodes.iter().any(|node| node.name == *name && node.answers);
        let Some(run) = table.runs.get(&key) else { return };
        let gone = (0..run.parts.len()).filter(|rank| !answers(&run.parts[*rank].node)).collect::<Vec<_>>();
        if gone.is_empty() {
            return;
        }
        let given = gone.iter().map(|rank| (run.parts[*rank].node.to_string(), key, run.identity.clone())).collect::<Vec<_>>();
        table.known.given_up.extend(given);
        self.remember(&mut table);
        self.lose_parts(&mut table, key, &gone, None);
    }

    fn lose_parts(&self, table: &mut Table, key: RunKey, ranks: &[usize], proof: Option<&str>) {
        if let Some(run) = table.runs.get_mut(&key) {
            run.stop = Some(Stop::AtOnce);
        }
        for rank in ranks {
            let Some(run) = table.runs.get(&key) else { return };
            let node = || run.parts[*rank].node.to_string();
            let cause = proof.map_or_else(|| LostCause::NodeGone(node()), |reason| LostCause::NodeEnded(reason.to_owned()));
            self.end_part(table, key, *rank, RunEnd::Lost(cause));
        }
        self.stop_parts(table, key, Stop::AtOnce);
    }

    /// A node is gone for good: its runs end, and it leaves the inventory. A proof says why no process of them can be left.
    pub(super) fn forget(&self, name: &NodeName, proof: Option<&str>) -> Result<(), String> {
        let mut table = self.lock();
        let Some(index) = table.nodes.iter().position(|node| node.name == *name) else {
            let known = table.nodes.iter().map(|node| node.name.to_string()).collect::<Vec<_>>().join(", ");
            return Err(format!("there is no node {name} that could be forgotten; there are: {known}"));
        };
        if table.nodes[index].link.is_some() {
            return Err(format!("node {name} is connected: stop `rota worker` there first"));
        }
        table.nodes.remove(index);
        let on_it = table.runs.iter().filter_map(|(key, run)| Some((*key, run.rank_on(name)?, run.identity.clone())));
        let on_it = on_it.collect::<Vec<_>>();
        for (key, rank, identity) in on_it {
            table.known.given_up.push((name.to_string(), key, identity));
            self.lose_parts(&mut table, key, &[rank], proof);
        }
        table.known.forget(name.as_str());
        if let Some(reason) = proof {
            table.known.prove_gone(name.as_str(), reason);
        }
        self.remember(&mut table);
        self.tell(ExecutorEvent::NodeRemoved { node: name.clone() });
        Ok(())
    }
}

/// Whether a run may be started on its nodes.
fn check_start(table: &Table, request: &RunRequest) -> Result<(), StartError> {
    let key = request.run;
    let refused = |problem: String| StartError::Place { run: key, problem };
    if request.places.is_empty() {
        return Err(refused("it has no node".to_owned()));
    }
    let mut is_held = table.runs.contains_key(&key) || table.void.contains(&request.identity);
    for place in &request.places {
        let node = table.nodes.iter().find(|node| node.name == place.node);
        let node = node.ok_or_else(|| refused(format!("there is no node {}", place.node)))?;
        is_held |= node.held.get(&key).is_some_and(|(identity, _)| *identity == request.identity);
        if !node.answers {
            return Err(refused(format!("node {} does not answer", place.node)));
        }
    }
    if is_held { Err(StartError::Duplicate { run: key }) } else { Ok(()) }
}
