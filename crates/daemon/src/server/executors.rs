//! Puts the executors of a daemon together: its own machine, and other machines where the site wants them.

use super::{ServeError, doing};
use crate::config::Config;
use crate::slurm;
use rota_exec::{CompositeExecutor, EventSink, LocalExecutor, LocalSettings, WorkerExecutor, WorkersHandle, WorkersSettings};
use rota_gpu::{ComputeModes, Device};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
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
}

/// The executor of this machine, with these GPUs, and of workers. Jobs ask about their leases at an address of this machine.
pub(super) fn open_executor(
    settings: LocalSettings,
    config: &Config,
    (devices, modes): (&[Device], Box<dyn ComputeModes + Send>),
    leases: SocketAddr,
    sink: &EventSink,
) -> Result<Executors, ServeError> {
    let state_dir = settings.state_dir.clone();
    let open = |listen| -> Result<WorkerExecutor, ServeError> {
        let settings = WorkersSettings {
            state_dir: state_dir.clone(),
            listen,
            lost_after: Duration::from_secs_f64(config.workers.lost_after_seconds),
            first_index: devices.iter().map(|device| device.index + 1).max().unwrap_or(0),
            leases: Some(leases),
        };
        let workers = WorkerExecutor::new(settings, Arc::clone(sink)).map_err(doing("workers"))?;
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
    Ok(Executors { executor, workers_port, workers: handle })
}
