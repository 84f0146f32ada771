//! The executor of a daemon: its own machine, and other machines where it has workers.

use std::io;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::executor::{
    Adoption, Executor, KnownRun, Node, NodeName, PrepareError, RunIdentity, RunKey, RunRequest, StartError, Started, Stop,
    StopError,
};
use crate::workers::home::SharedExecutor;
use crate::{Identity, LocalExecutor, LocalNode, WorkerExecutor};

/// The executor of a daemon's own machine and of its workers. Runs go to the one that has their nodes.
pub struct CompositeExecutor {
    local: SharedExecutor,
    workers: Option<WorkerExecutor>,
    home: NodeName,
    /// Nodes that could be had and do not answer yet.
    promised: Vec<Node>,
}

impl CompositeExecutor {
    /// The executor of this machine, whose node is called `home`, and of workers. Where there are workers, the events of this machine's
    /// executor must come by [`WorkerExecutor::home_sink`].
    pub fn new(home: NodeName, local: LocalExecutor, mut workers: Option<WorkerExecutor>) -> io::Result<Self> {
        let local = Arc::new(Mutex::new(local));
        if let Some(workers) = &mut workers {
            workers.take_home(home.clone(), &local)?;
        }
        Ok(Self { local, workers, home, promised: Vec::new() })
    }

    /// The same with nodes in its inventory that could be had from a cluster manager. They never answer themselves: workers come in
    /// their place, under names of their own.
    #[must_use]
    pub fn promising(mut self, nodes: Vec<Node>) -> Self {
        self.promised = nodes;
        self
    }

    fn local(&self) -> MutexGuard<'_, LocalExecutor> {
        self.local.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What other threads may ask the executor of this machine, and tell it.
    pub fn node(&self) -> LocalNode {
        self.local().node()
    }

    /// Watches the process that a claim is tied to, in place of the one before. False if the process is gone.
    pub fn watch_holder(&self, claim: RunKey, holder: &Identity) -> bool {
        self.local().watch_holder(claim, holder)
    }

    /// The workers, if they have the run.
    fn workers_with(&mut self, run: RunKey) -> Option<&mut WorkerExecutor> {
        self.workers.as_mut().filter(|workers| workers.is_under_way(run))
    }
}

impl Executor for CompositeExecutor {
    fn inventory(&self) -> Vec<Node> {
        let workers = self.workers.iter().flat_map(WorkerExecutor::inventory);
        let mut nodes = self.local().inventory().into_iter().chain(workers).collect::<Vec<_>>();
        let mut promised = self.promised.clone();
        for device in promised.iter_mut().flat_map(|node| &mut node.devices) {
            // Cards of one type are alike: what is known of those that are here holds for those that are not yet.
            let known = nodes.iter().flat_map(|node| &node.devices).find(|known| known.kind == device.kind);
            device.memory_total_mib = known.map_or(device.memory_total_mib, |known| known.memory_total_mib);
        }
        nodes.append(&mut promised);
        nodes
    }

    fn check_mps(&self) -> Result<(), String> {
        self.local().check_mps()
    }

    fn prepare(&mut self, run: RunKey) -> Result<RunIdentity, PrepareError> {
        // It is not known yet where the run will be, and its directory is here in any case.
        match self.workers_with(run) {
            Some(workers) => workers.prepare(run),
            None => self.local().prepare(run),
        }
    }

    fn start(&mut self, request: RunRequest) -> Result<Started, StartError> {
        let is_here = request.places.iter().all(|place| place.node == self.home);
        match &mut self.workers {
            Some(workers) if !is_here => workers.start(request),
            Some(workers) => {
                workers.forget_places(request.run);
                self.local().start(request)
            }
            None => self.local().start(request),
        }
    }

    fn stop(&mut self, run: RunKey, how: Stop) -> Result<(), StopError> {
        match self.workers_with(run) {
            Some(workers) => workers.stop(run, how),
            None => self.local().stop(run, how),
        }
    }

    fn adopt(&mut self, known: &KnownRun) -> Adoption {
        // A run that was started on other nodes says so in its directory, also when those nodes are not known any more.
        let elsewhere = self.workers.as_mut().and_then(|workers| Some((workers.places_of(known.run)?, workers)));
        match elsewhere {
            Some((places, workers)) => workers.adopt(&KnownRun { places, ..known.clone() }),
            None => self.local().adopt(known),
        }
    }

    fn settle(&mut self) {
        self.local().settle();
        if let Some(workers) = &mut self.workers {
            workers.settle();
        }
    }

    fn log_path(&self, run: RunKey) -> Option<PathBuf> {
        self.local().log_path(run)
    }

    fn log_end(&self, run: RunKey, bytes_max: u64) -> io::Result<Vec<u8>> {
        // The output of runs on other nodes is copied to where it would be here.
        self.local().log_end(run, bytes_max)
    }

    fn give_up(&mut self, run: RunKey) {
        if let Some(workers) = self.workers_with(run) {
            workers.give_up(run);
        }
    }

    fn forget_node(&mut self, node: &NodeName) -> Result<(), String> {
        match &mut self.workers {
            Some(workers) => workers.forget_node(node),
            None => Err(format!("this daemon has no workers, so that there is no node {node} to forget")),
        }
    }

    fn highest_job(&self) -> io::Result<Option<u64>> {
        self.local().highest_job()
    }
}
