//! `rota worker`: this machine as a node of a daemon on another one.

use crate::access::users::Names;
use crate::config::Config;
use crate::http::connections::raise_files;
use crate::machine::monitor::{Source, VIRTUAL_BUSY_PERCENT, VIRTUAL_MEMORY_SHARE};
use crate::server::local_settings;
use rota_exec::{DeviceLook, JoinToken, ProcessOwner, PruneRule, WorkError, WorkerSettings};
use rota_gpu::{Device, Load};
use std::collections::HashMap;
use std::io;
use std::net::IpAddr;
use std::path::PathBuf;
use std::time::Duration;

/// Looks between two lists of the GPUs that there are.
const LIST_AGAIN_LOOKS: u32 = 30;

/// What a worker is started with.
pub struct WorkerOptions {
    /// The daemon, as `HOST:PORT`.
    pub join: String,
    /// The file `worker-token` of the daemon's state directory.
    pub token_file: PathBuf,
    /// The name of this node; that of the machine if it is not given.
    pub name: Option<String>,
    /// Invented GPUs in place of real ones.
    pub virtual_gpus: Option<String>,
    /// Whether the worker is in an allocation of a cluster manager, which ends with its jobs.
    pub is_in_allocation: bool,
    /// The file by which the daemon says that it has ended for good.
    pub down_file: Option<PathBuf>,
    /// The only GPUs that are used, by index or UUID; all if there are none.
    pub gpus: Vec<String>,
    /// The type of its GPUs, where it is not what the driver calls them.
    pub gpu_type: Option<String>,
    /// Where workers of this machine keep their things.
    pub state_dir: PathBuf,
    /// The address at which other nodes reach this one.
    pub address: Option<IpAddr>,
    /// The program that supervises jobs when called with `__supervise DIR`.
    pub program: PathBuf,
    /// How long the directories of runs that are over are kept here, in days.
    pub keep_days: f64,
    /// Where remarks for people go.
    pub remark: Box<dyn Fn(&str)>,
}

/// Why a worker cannot start, or cannot go on.
#[derive(Debug, thiserror::Error)]
pub enum WorkerError {
    /// The token file.
    #[error(transparent)]
    Token(io::Error),
    /// The GPUs of this machine cannot be read.
    #[error(transparent)]
    Gpu(#[from] rota_gpu::GpuError),
    /// The daemon, or this machine.
    #[error(transparent)]
    Work(#[from] WorkError),
}

/// Works for a daemon until it is told to end. Jobs run on.
pub fn work(options: WorkerOptions) -> Result<(), WorkerError> {
    let token = JoinToken::read(&options.token_file).map_err(WorkerError::Token)?;
    let files_before = raise_files();
    let host = rustix::system::uname().nodename().to_string_lossy().into_owned();
    let name = options.name.unwrap_or(host);
    let mut source = Source::open_on(options.virtual_gpus.as_deref(), &name)?;
    let (only, gpu_type) = (options.gpus, options.gpu_type);
    let chosen = move |devices: Vec<Device>| chosen(devices, &only, gpu_type.as_deref());
    let (devices, modes) = (chosen(source.list()?), source.modes()?);
    let config = Config::default();
    // Runs of different daemons have the same numbers.
    let state_dir = options.state_dir.join(&name).join(token.daemon());
    let local = local_settings(&name, &state_dir, &options.program, &config, files_before);
    let (mut known, mut names, mut looks) = (devices.clone(), Names::default(), 0_u32);
    let look = move |jobs: &HashMap<u32, u64>, places: &HashMap<u64, Vec<String>>| {
        looks = looks.wrapping_add(1);
        if looks.is_multiple_of(LIST_AGAIN_LOOKS)
            && let Ok(listed) = source.list()
        {
            known = chosen(listed);
        }
        if let Source::Virtual(virtual_devices) = &mut source {
            virtual_devices.set_loads(loads(&known, jobs, places));
        }
        let uuids = known.iter().map(|device| device.uuid.clone()).collect::<Vec<_>>();
        let looks = source.look(&uuids, jobs, &mut names);
        (known.clone(), looks.into_iter().map(|(uuid, look)| told(uuid, look)).collect())
    };
    rota_exec::work(WorkerSettings {
        local,
        devices,
        modes,
        join: options.join,
        token,
        address: options.address,
        is_in_allocation: options.is_in_allocation,
        down_file: options.down_file,
        look: Box::new(look),
        look_every: Duration::from_secs_f64(config.gpus.look_seconds),
        prune: PruneRule::keeping(Duration::from_secs_f64(options.keep_days * 86_400.0)),
        remark: options.remark,
    })?;
    Ok(())
}

/// The GPUs that a worker may use, under the name that their type has at the daemon.
fn chosen(devices: Vec<Device>, only: &[String], gpu_type: Option<&str>) -> Vec<Device> {
    let is_chosen =
        |device: &Device| only.is_empty() || only.iter().any(|name| *name == device.uuid || *name == device.index.to_string());
    let mut devices = devices.into_iter().filter(is_chosen).collect::<Vec<_>>();
    if let Some(kind) = gpu_type {
        for device in &mut devices {
            kind.clone_into(&mut device.kind);
        }
    }
    devices
}

fn told(uuid: String, look: crate::machine::platform::Look) -> DeviceLook {
    let owner = |process: crate::api::GpuProcess| ProcessOwner {
        pid: process.pid,
        user: process.user,
        name: process.name,
        memory_mib: process.memory_mib,
        job: process.job,
    };
    DeviceLook { uuid, reading: look.reading, owners: look.processes.into_iter().map(owner).collect(), is_lost: look.is_lost }
}

/// The real processes of jobs, as if they were on their virtual GPUs.
fn loads(devices: &[Device], jobs: &HashMap<u32, u64>, places: &HashMap<u64, Vec<String>>) -> Vec<Load> {
    let mut loads = Vec::new();
    for (&pid, job) in jobs {
        for uuid in places.get(job).into_iter().flatten() {
            let Some(device) = devices.iter().find(|device| device.uuid == *uuid) else { continue };
            loads.push(Load {
                uuid: uuid.clone(),
                pid,
                memory_mib: (device.memory_total_mib as f64 * VIRTUAL_MEMORY_SHARE) as u64,
                utilisation_percent: VIRTUAL_BUSY_PERCENT as u32,
            });
        }
    }
    loads
}
