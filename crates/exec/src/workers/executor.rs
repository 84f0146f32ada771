//! The executor of other machines, as the daemon sees it.

use std::io::{self, Read, Seek, SeekFrom};
use std::net::{SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Duration;

use tokio::sync::mpsc::unbounded_channel;

use super::certificate::WorkerIdentity;
use super::home::{HomeNode, HomeRuns, SharedExecutor};
use super::hub::{Hub, JoinJudge};
use super::listener::Listener;
use super::runner::{Input, Outbox, Runner};
use crate::executor::{
    Adoption, EventSink, Executor, ExecutorEvent, KnownRun, Node, NodeName, Place, PrepareError, RunIdentity, RunKey, RunRequest,
    StartError, Started, Stop, StopError,
};
use crate::local::executor::new_identity;

/// How a daemon has workers.
#[derive(Clone, Debug)]
pub struct WorkersSettings {
    /// The daemon's directory: the output of runs is copied to `jobs`, and the nodes that have joined are in `nodes.json`.
    pub state_dir: PathBuf,
    /// Where workers connect to.
    pub listen: SocketAddr,
    /// A node of which nothing was heard for so long is lost.
    pub lost_after: Duration,
    /// The lowest number that a GPU of a worker may have; those below belong to the daemon's own machine.
    pub first_index: u32,
    /// Where jobs ask about their leases: jobs on other nodes reach it through their worker.
    pub leases: Option<SocketAddr>,
}

/// The executor of other machines.
pub struct WorkerExecutor {
    hub: Arc<Hub>,
    address: SocketAddr,
    token_file: PathBuf,
    leases: Option<SocketAddr>,
    /// The port, until workers are heard.
    port: Option<(TcpListener, WorkerIdentity)>,
    /// Ends with the executor.
    listener: Option<Listener>,
    home_runs: HomeRuns,
    home_inputs: Sender<Input>,
    /// What the daemon's own machine has to do, until it is taken in.
    home_work: Option<Receiver<Input>>,
}

/// What other threads may ask of the workers.
#[derive(Clone)]
pub struct WorkersHandle(Arc<Hub>);

impl WorkersHandle {
    /// A node is gone for good: its runs end as lost, and the node leaves the inventory.
    pub fn forget(&self, node: &NodeName) -> Result<(), String> {
        self.0.forget(node, None)
    }

    /// A node is gone for good, and no process of its runs is left: whoever gave the node says so, and why. The node leaves the inventory.
    pub fn prove_gone(&self, node: &NodeName, reason: &str) -> Result<(), String> {
        self.0.forget(node, Some(reason))
    }

    /// Takes in how the runs on a node have ended, from the file that its worker has left behind.
    pub fn take_left(&self, node: &NodeName, path: &Path) -> io::Result<()> {
        self.0.take_left(node, path)
    }

    /// The nodes and whether they answer.
    pub fn nodes(&self) -> Vec<Node> {
        self.0.inventory()
    }
}

impl WorkerExecutor {
    /// An executor that knows the nodes that have joined before. Its port is open; workers are heard when it is settled.
    pub fn new(settings: WorkersSettings, sink: EventSink) -> io::Result<Self> {
        let identity = WorkerIdentity::of(&settings.state_dir)?;
        let listen = settings.listen;
        let port = TcpListener::bind(listen).map_err(|error| {
            let problem = format!(
                "port {} on {} for workers cannot be had ({error}): choose another with --workers-port, or 0 for any free one",
                listen.port(),
                listen.ip()
            );
            io::Error::new(error.kind(), problem)
        })?;
        let (address, token_file) = (port.local_addr()?, identity.token_file.clone());
        let hub = Arc::new(Hub::new(settings.state_dir, settings.lost_after, settings.first_index, sink)?);
        let (home_inputs, home_work) = channel();
        Ok(Self {
            hub,
            address,
            token_file,
            leases: settings.leases,
            port: Some((port, identity)),
            listener: None,
            home_runs: HomeRuns::default(),
            home_inputs,
            home_work: Some(home_work),
        })
    }

    /// Where the events of the executor of the daemon's own machine are to go, so that this one hears of runs that are there and on
    /// other nodes.
    pub fn home_sink(&self, sink: EventSink) -> EventSink {
        self.home_runs.sink(sink, self.home_inputs.clone())
    }

    /// Takes in the daemon's own machine, for runs that are there and on other nodes. Its events must come by [`Self::home_sink`].
    pub(crate) fn take_home(&mut self, name: NodeName, executor: &SharedExecutor) -> io::Result<()> {
        let Some(inputs) = self.home_work.take() else { return Ok(()) };
        let (sender, mut told) = unbounded_channel();
        let (to_home, mut messages) = unbounded_channel();
        let home = HomeNode { executor: Arc::clone(executor), runs: self.home_runs.clone(), inputs: self.home_inputs.clone() };
        let number = self.hub.join_home(name.clone(), home, to_home);
        let runner = Runner::home(Arc::clone(executor), self.home_runs.clone(), Outbox { sender, queued_bytes: Arc::default() });
        let (hub, to_runner) = (Arc::clone(&self.hub), self.home_inputs.clone());
        let spawn = |name: &str, work: Box<dyn FnOnce() + Send>| std::thread::Builder::new().name(name.to_owned()).spawn(work);
        spawn("home-runs", Box::new(move || runner.run(&inputs)))?;
        let pass_on = move || {
            while let Some(message) = messages.blocking_recv() {
                _ = to_runner.send(Input::Message(message));
            }
        };
        spawn("home-asked", Box::new(pass_on))?;
        let hear = move || {
            while let Some(message) = told.blocking_recv() {
                hub.hear(&name, number, message);
            }
        };
        spawn("home-news", Box::new(hear))?;
        Ok(())
    }

    /// Where workers connect to.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The file that workers need to be let in.
    pub fn token_file(&self) -> &Path {
        &self.token_file
    }

    /// The nodes of a run that was started here, if it was.
    pub(crate) fn places_of(&self, run: RunKey) -> Option<Vec<Place>> {
        self.hub.mirror.places(run)
    }

    /// A run of this number is started on the daemon's own machine.
    pub(crate) fn forget_places(&self, run: RunKey) {
        self.hub.mirror.forget_places(run);
    }

    /// Whether a run was started or adopted here and has not ended.
    pub(crate) fn is_under_way(&self, run: RunKey) -> bool {
        self.hub.is_under_way(run)
    }

    /// The same, which also lets in workers by tokens that are good as long as the judge says so.
    #[must_use]
    pub fn admitting(self, judge: JoinJudge) -> Self {
        _ = self.hub.judge.set(judge);
        self
    }

    /// What other threads may ask of the workers.
    pub fn handle(&self) -> WorkersHandle {
        WorkersHandle(Arc::clone(&self.hub))
    }
}

impl Drop for WorkerExecutor {
    fn drop(&mut self) {
        self.hub.close();
    }
}

impl Executor for WorkerExecutor {
    fn inventory(&self) -> Vec<Node> {
        self.hub.inventory()
    }

    fn check_mps(&self) -> Result<(), String> {
        Err("MPS is checked by each node when a run is started there".to_owned())
    }

    fn prepare(&mut self, run: RunKey) -> Result<RunIdentity, PrepareError> {
        let path = self.hub.mirror.dir(run);
        if self.hub.is_under_way(run) {
            return Err(PrepareError::Occupied { path, supervisor: 0 });
        }
        self.hub.mirror.prepare(run).and_then(|()| new_identity()).map_err(|source| PrepareError::Place { path, source })
    }

    fn start(&mut self, request: RunRequest) -> Result<Started, StartError> {
        self.hub.start(request).map(|()| Started::Taken)
    }

    fn stop(&mut self, run: RunKey, how: Stop) -> Result<(), StopError> {
        self.hub.stop(run, how)
    }

    fn adopt(&mut self, run: &KnownRun) -> Adoption {
        self.hub.adopt(run)
    }

    fn settle(&mut self) {
        let Some((port, identity)) = self.port.take() else { return };
        match Listener::open(port, identity, Arc::clone(&self.hub), self.leases) {
            Ok(listener) => self.listener = Some(listener),
            Err(error) => self.hub.tell(ExecutorEvent::Warning(format!("workers cannot be heard: {error}"))),
        }
    }

    fn log_path(&self, run: RunKey) -> Option<PathBuf> {
        Some(self.hub.mirror.log(run, 0))
    }

    fn log_end(&self, run: RunKey, bytes_max: u64) -> io::Result<Vec<u8>> {
        let mut log = std::fs::File::open(self.hub.mirror.log(run, 0))?;
        let length = log.metadata()?.len();
        log.seek(SeekFrom::Start(length.saturating_sub(bytes_max)))?;
        let mut end = Vec::new();
        log.take(bytes_max).read_to_end(&mut end)?;
        Ok(end)
    }

    fn give_up(&mut self, run: RunKey) {
        self.hub.give_up(run);
    }

    fn forget_node(&mut self, node: &NodeName) -> Result<(), String> {
        self.hub.forget(node, None)
    }

    fn highest_job(&self) -> io::Result<Option<u64>> {
        crate::local::executor::highest_job_in(self.hub.mirror.jobs())
    }
}
