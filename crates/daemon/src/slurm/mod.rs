//! Slurm as an engine: allocations are asked for while jobs wait, hold workers of ours, and are given back when they are idle.
//!
//! One thread asks Slurm and decides ([`keeper`]); what to ask for is a function of its own ([`demand`]). The queue's thread never
//! waits for Slurm. The workers in an allocation join the daemon by themselves, and what happens to jobs is told by them.

pub(crate) mod demand;
mod keeper;
mod keeper_thread;
pub(crate) mod nodes;
mod occupancy;

use crate::config::{Config, EngineKind};
use crate::machine::platform::Message;
use crate::server::ServeError;
use crate::view::board::Board;
use keeper::{Keeper, KeeperParts};
pub(crate) use keeper_thread::KeeperThread;
use rota_exec::slurm::{SlurmClient, SlurmNode};
use rota_exec::{Node, WorkersHandle};
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::Sender;

/// Slurm, asked once at the daemon's start: it is there, new enough, and has GPUs.
pub(crate) struct Slurm {
    client: SlurmClient,
    nodes: Vec<SlurmNode>,
    settings: crate::config::SlurmEngine,
    state_dir: PathBuf,
}

/// Asks Slurm for its version and its nodes, if it is the engine.
pub(crate) fn open(config: &Config, state_dir: &Path) -> Result<Option<Slurm>, ServeError> {
    if config.engine.kind != EngineKind::Slurm {
        return Ok(None);
    }
    let settings = config.engine.slurm.clone();
    let client = SlurmClient::new(settings.settings());
    let wrong = |error: rota_exec::slurm::SlurmError| ServeError::Slurm(error.to_string());
    client.check_commands().map_err(wrong)?;
    client.version().map_err(wrong)?;
    let nodes = client.nodes().map_err(wrong)?;
    if let Some(longest) = client.longest().map_err(wrong)?.filter(|longest| longest.as_secs_f64() < settings.time_limit_seconds)
    {
        let seconds = longest.as_secs();
        return Err(ServeError::Slurm(format!(
            "`engine.slurm.time_limit_seconds` is {}, and the partition permits {seconds} s: allocations would wait for ever; write {seconds} or less",
            settings.time_limit_seconds
        )));
    }
    Ok(Some(Slurm { client, nodes, settings, state_dir: state_dir.to_owned() }))
}

impl Slurm {
    /// The nodes that could be had.
    pub fn promised(&self) -> Vec<Node> {
        nodes::promised(&self.nodes)
    }

    /// Keeps allocations from now on, until the thread is closed or the daemon ends.
    pub fn keep(
        self,
        workers: WorkersHandle,
        address: SocketAddr,
        token_file: PathBuf,
        program: PathBuf,
        board: Arc<Board>,
        inbox: Sender<Message>,
    ) -> Result<KeeperThread, ServeError> {
        let host = match self.settings.address.as_str() {
            "" => rustix::system::uname().nodename().to_string_lossy().into_owned(),
            host => host.to_owned(),
        };
        let address = if host.contains(':') { host } else { format!("{host}:{}", address.port()) };
        let Self { client, nodes, settings, state_dir } = self;
        let parts = KeeperParts { settings, client, nodes, workers, address, token_file, program, state_dir, board, inbox };
        let keeper = Keeper::new(parts).map_err(|error| ServeError::Slurm(error.to_string()))?;
        keeper.start().map_err(|source| ServeError::Io { what: "slurm".to_owned(), source })
    }
}

/// Where the daemon hears workers. With Slurm it always does, on the port it had before: the scripts of running allocations name it.
pub(crate) fn listen(config: &Config, state_dir: &Path) -> Option<SocketAddr> {
    if config.engine.kind != EngineKind::Slurm {
        return config.workers.listen;
    }
    let mut listen = config.workers.listen.unwrap_or_else(|| SocketAddr::from((Ipv4Addr::UNSPECIFIED, 0)));
    if listen.port() == 0 {
        let kept = std::fs::read_to_string(port_path(state_dir)).ok().and_then(|text| text.trim().parse().ok());
        listen.set_port(kept.unwrap_or(0));
    }
    Some(listen)
}

/// Writes the port down for the next start.
pub(crate) fn keep_port(config: &Config, state_dir: &Path, address: SocketAddr) -> io::Result<()> {
    if config.engine.kind != EngineKind::Slurm {
        return Ok(());
    }
    let path = port_path(state_dir);
    if let Some(folder) = path.parent() {
        std::fs::create_dir_all(folder)?;
    }
    std::fs::write(path, format!("{}\n", address.port()))
}

fn port_path(state_dir: &Path) -> PathBuf {
    state_dir.join("slurm").join("port")
}
