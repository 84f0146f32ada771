//! Puts the executors of a daemon together: its own machine, and other machines where the site wants them.

use super::{ServeError, doing};
use crate::config::Config;
use rota_exec::{CompositeExecutor, EventSink, LocalExecutor, LocalSettings, WorkerExecutor, WorkersSettings};
use rota_gpu::{ComputeModes, Device};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

/// Where workers connect to, and the token file that they need.
pub(super) type WorkersPort = Option<(SocketAddr, PathBuf)>;

/// The executor of this machine, with these GPUs, and of workers. Jobs ask about their leases at an address of this machine.
pub(super) fn open_executor(
    settings: LocalSettings,
    config: &Config,
    (devices, modes): (&[Device], Box<dyn ComputeModes + Send>),
    leases: SocketAddr,
    sink: &EventSink,
) -> Result<(CompositeExecutor, WorkersPort), ServeError> {
    let open = |listen| {
        let settings = WorkersSettings {
            state_dir: settings.state_dir.clone(),
            listen,
            lost_after: Duration::from_secs_f64(config.workers.lost_after_seconds),
            first_index: devices.iter().map(|device| device.index + 1).max().unwrap_or(0),
            leases: Some(leases),
        };
        WorkerExecutor::new(settings, Arc::clone(sink)).map_err(doing("workers"))
    };
    let workers = config.workers.listen.map(open).transpose()?;
    let port = workers.as_ref().map(|workers| (workers.address(), workers.token_file().to_owned()));
    let sink = workers.as_ref().map_or_else(|| Arc::clone(sink), |workers| workers.home_sink(Arc::clone(sink)));
    let home = settings.node.clone();
    let local = LocalExecutor::new(settings, devices.to_vec(), modes, sink).map_err(doing("watching processes"))?;
    let executor = CompositeExecutor::new(home, local, workers).map_err(doing("starting threads"))?;
    Ok((executor, port))
}
