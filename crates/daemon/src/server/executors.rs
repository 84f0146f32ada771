//! Puts the executors of a daemon together: its own machine, and other machines where the site wants them.

use super::{ServeError, doing};
use crate::clock::wall_ns;
use crate::config::Config;
use crate::machine::platform::Message;
use crate::slurm;
use crate::view::board::Board;
use rota_exec::{CompositeExecutor, EventSink, LocalExecutor, LocalSettings, WorkerExecutor, WorkersHandle, WorkersSettings};
use rota_gpu::{ComputeModes, Device};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::mpsc::Sender;
use std::time::Duration;

/// Where workers connect to, and the token file that they need.
pub(super) type WorkersPort = Option<(SocketAddr, PathBuf)>;

/// The executors of a daemon.
pub(super) struct Executors {
    /// The executor of every machine.
    pub executor: CompositeExecutor,
    /// Where workers connect to, if they may.
    pub workers_port: WorkersPort,
    /// What tells workers' nodes that they are gone, if there may be workers.
    pub workers: Option<WorkersHandle>,
    /// Slurm, where the site wants it.
    pub slurm: Option<slurm::Slurm>,
}

/// Keeps allocations of Slurm from now on, where the site wants it.
pub(super) fn keep_allocations(
    slurm: Option<slurm::Slurm>,
    workers: Option<WorkersHandle>,
    workers_port: &WorkersPort,
    program: PathBuf,
    board: &Arc<Board>,
    inbox: &Sender<Message>,
) -> Result<Option<slurm::KeeperThread>, ServeError> {
    let (Some(slurm), Some(workers), Some((address, token_file))) = (slurm, workers, workers_port.clone()) else {
        return Ok(None);
    };
    slurm.keep(workers, address, token_file, program, Arc::clone(board), inbox.clone()).map(Some)
}

/// Gives back what no job needs, if the daemon was ended by hand. One that is started again soon finds its allocations as they were.
pub(super) fn leave_allocations(allocations: Option<slurm::KeeperThread>, board: &Board) {
    if let Some(allocations) = allocations.filter(|_| board.read().is_down_asked) {
        allocations.close();
    }
}

/// The executor of this machine, with these GPUs, and of workers. Jobs ask about their leases at an address of this machine.
pub(super) fn open_executor(
    settings: LocalSettings,
    config: &Config,
    (devices, modes): (&[Device], Box<dyn ComputeModes + Send>),
    leases: SocketAddr,
    sink: &EventSink,
    board: &Arc<Board>,
) -> Result<Executors, ServeError> {
    let state_dir = settings.state_dir.clone();
    let slurm = slurm::open(config, &state_dir)?;
    let open = |listen| -> Result<WorkerExecutor, ServeError> {
        let settings = WorkersSettings {
            state_dir: state_dir.clone(),
            listen,
            lost_after: Duration::from_secs_f64(config.workers.lost_after_seconds),
            first_index: devices.iter().map(|device| device.index + 1).max().unwrap_or(0),
            leases: Some(leases),
        };
        let board = Arc::clone(board);
        let judge = Arc::new(move |token: &str| board.tokens.admits_worker(token, wall_ns()));
        let workers = WorkerExecutor::new(settings, Arc::clone(sink)).map_err(doing("workers"))?.admitting(judge);
        slurm::keep_port(config, &state_dir, workers.address()).map_err(doing("workers"))?;
        Ok(workers)
    };
    let workers = slurm::listen(config, &state_dir).map(open).transpose()?;
    let handle = workers.as_ref().map(WorkerExecutor::handle);
    let workers_port = workers.as_ref().map(|workers| (workers.address(), workers.token_file().to_owned()));
    let sink = workers.as_ref().map_or_else(|| Arc::clone(sink), |workers| workers.home_sink(Arc::clone(sink)));
    let home = settings.node.clone();
    let local = LocalExecutor::new(settings, devices.to_vec(), modes, sink).map_err(doing("watching processes"))?;
    let executor = CompositeExecutor::new(home, local, workers).map_err(doing("starting threads"))?;
    let executor = executor.promising(slurm.as_ref().map(slurm::Slurm::promised).unwrap_or_default());
    Ok(Executors { executor, workers_port, workers: handle, slurm })
}
