//! The leases of a daemon's jobs: the service that jobs ask about them.

use super::{ServeError, doing};
use crate::clock::SystemClock;
use crate::config::Config;
use crate::lease::routes::LeaseService;
use crate::lease::running_leases::{Checkpoints, RunningLeases};
use crate::lease::token::LeaseKey;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;
use std::sync::Arc;
use tokio::net::TcpListener;

/// The leases of jobs, and the port of the service that jobs ask about them.
pub(super) fn open_leases(
    state_dir: &Path,
    config: &Config,
    clock: SystemClock,
) -> Result<(Arc<RunningLeases>, std::net::TcpListener), ServeError> {
    let key = LeaseKey::of(state_dir).map_err(doing("lease-key"))?;
    let address = SocketAddr::from((Ipv4Addr::LOCALHOST, config.lease_port));
    let port = crate::lease::port::open(state_dir, config.lease_port).map_err(|source| ServeError::Port { address, source })?;
    let address = port.local_addr().map_err(doing("lease port"))?;
    let checkpoints = Checkpoints::new(state_dir, config);
    Ok((Arc::new(RunningLeases::new(key, address, checkpoints, clock, config)), port))
}

/// Answers jobs that ask about their leases.
pub(super) fn serve_leases(runtime: &tokio::runtime::Runtime, port: TcpListener, service: LeaseService) {
    let routes = crate::lease::routes::routes(Arc::new(service)).into_make_service_with_connect_info::<SocketAddr>();
    runtime.spawn(axum::serve(port, routes).into_future());
}
