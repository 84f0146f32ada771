//! The thread that looks at the GPUs, at a set interval, and tells the queue what it saw.

use crate::access::users::Names;
use crate::machine::platform::{Look, Message};
use crate::machine::process_owners::owners;
use crate::view::board::Board;
use rota_gpu::{ComputeModes, Device, Devices, Load, Nvml, ReadError, Virtual};
use std::collections::HashMap;
use std::io;
use std::sync::Arc;
use std::sync::mpsc::Sender;
use std::time::{Duration, Instant};

/// Share of a virtual GPU's memory that a job is shown with if it does not say how much it needs.
pub const VIRTUAL_MEMORY_SHARE: f64 = 0.3;
/// How busy a virtual GPU is shown to be with a job that has all of it.
pub const VIRTUAL_BUSY_PERCENT: f64 = 90.0;

/// Where GPUs are found.
pub enum Source {
    /// GPUs that NVIDIA's driver tells of.
    Nvml(Box<Nvml>),
    /// Invented ones, with the real processes of jobs on them.
    Virtual(Virtual),
    /// None: the machine has no driver, and says why.
    None(String),
}

impl Source {
    /// Looks for the driver, or takes the virtual GPUs asked for.
    pub fn open(virtual_gpus: Option<&str>) -> Result<Self, rota_gpu::GpuError> {
        Self::open_on(virtual_gpus, "")
    }

    /// The same on a node of a cluster: virtual GPUs of different nodes have different UUIDs.
    pub fn open_on(virtual_gpus: Option<&str>, node: &str) -> Result<Self, rota_gpu::GpuError> {
        if let Some(spec) = virtual_gpus {
            return Ok(Self::Virtual(Virtual::on_node(&rota_gpu::parse_virtual(spec)?, node)));
        }
        match Nvml::open() {
            Ok(nvml) => Ok(Self::Nvml(Box::new(nvml))),
            // A library that was asked for by name must work.
            Err(error) if std::env::var_os("ROTA_NVML_LIB").is_some() => Err(error),
            Err(error) => Ok(Self::None(error.to_string())),
        }
    }

    /// The devices now.
    pub fn list(&mut self) -> Result<Vec<Device>, rota_gpu::GpuError> {
        match self {
            Self::Nvml(nvml) => nvml.list(),
            Self::Virtual(devices) => devices.list(),
            Self::None(_) => Ok(Vec::new()),
        }
    }

    /// A second handle on these devices, which sets their compute modes.
    pub fn modes(&self) -> Result<Box<dyn ComputeModes + Send>, rota_gpu::GpuError> {
        Ok(match self {
            Self::Nvml(_) => Box::new(Nvml::open()?),
            Self::Virtual(devices) => Box::new(devices.modes()),
            Self::None(_) => Box::new(Virtual::new(&[]).modes()),
        })
    }

    /// One look at each of these devices, and the owners of their processes.
    pub fn look(&mut self, uuids: &[String], jobs: &HashMap<u32, u64>, names: &mut Names) -> Vec<(String, Look)> {
        let asked = uuids.iter().map(String::as_str).collect::<Vec<_>>();
        let readings = match self {
            Self::None(_) => return Vec::new(),
            Self::Virtual(devices) => devices.read(&asked),
            Self::Nvml(nvml) => {
                let readings = nvml.read(&asked);
                if readings.iter().any(Result::is_err) {
                    // A driver that was reset must be asked for its devices before they answer again.
                    _ = nvml.list();
                }
                readings
            }
        };
        let look = |reading: Result<rota_gpu::Reading, ReadError>| match reading {
            Ok(reading) => {
                let processes = owners(&reading.processes, jobs, names);
                Look { processes, reading: Some(reading), is_lost: false }
            }
            Err(error) => Look { processes: Vec::new(), reading: None, is_lost: matches!(error, ReadError::Lost) },
        };
        uuids.iter().cloned().zip(readings.into_iter().map(look)).collect()
    }

    /// The driver's name and version.
    pub fn driver(&self) -> String {
        match self {
            Self::Nvml(nvml) => nvml.driver(),
            Self::Virtual(devices) => devices.driver(),
            Self::None(why) => format!("no GPU: {why}"),
        }
    }
}

/// Looks at once, and then at every interval.
pub fn start(
    mut source: Source,
    devices: Vec<Device>,
    every: Duration,
    board: Arc<Board>,
    node: rota_exec::LocalNode,
    inbox: Sender<Message>,
) -> io::Result<()> {
    let uuids = devices.iter().map(|device| device.uuid.clone()).collect::<Vec<_>>();
    let look = move || {
        let mut names = Names::default();
        let mut next = Instant::now();
        loop {
            let jobs = node.jobs_by_pid();
            if matches!(source, Source::None(_)) {
                return;
            }
            if let Source::Virtual(virtual_devices) = &mut source {
                virtual_devices.set_loads(loads(&devices, &board, &jobs));
            }
            let looks = source.look(&uuids, &jobs, &mut names);
            if inbox.send(Message::Looked(looks)).is_err() {
                return;
            }
            next += every;
            let now = Instant::now();
            if next < now {
                next = now + every;
            }
            std::thread::sleep(next - now);
        }
    };
    std::thread::Builder::new().name("gpus".to_owned()).spawn(look)?;
    Ok(())
}

/// The real processes of jobs, as if they were on their virtual GPUs.
fn loads(devices: &[Device], board: &Board, jobs: &HashMap<u32, u64>) -> Vec<Load> {
    let view = board.read();
    let mut loads = Vec::new();
    for (&pid, job) in jobs {
        let Some(record) = view.jobs.get(job).filter(|record| record.state.has_gpus()) else { continue };
        let ask = &record.spec.ask;
        for uuid in &record.gpu_uuids {
            let Some(device) = devices.iter().find(|device| device.uuid == *uuid) else { continue };
            let guess = (device.memory_total_mib as f64 * VIRTUAL_MEMORY_SHARE) as u64;
            loads.push(Load {
                uuid: uuid.clone(),
                pid,
                memory_mib: ask.memory_mib.map_or(guess, u64::from),
                utilisation_percent: (VIRTUAL_BUSY_PERCENT * ask.share.unwrap_or(1.0)) as u32,
            });
        }
    }
    loads
}
