//! `rota record`: GPU use as the six columns of nvidia-smi, for scripts that read those.

use crate::live::args::RecordArgs;
use crate::live::client::{Client, state_dir};
use crate::output;
use anyhow::Context;
use rota_daemon::api::Gpu;
use rota_gpu::{Devices, Nvml};
use std::io::Write;
use std::time::{Duration, Instant};

const HEADER: &str = "index, timestamp, name, utilization.gpu [%], utilization.memory [%], power.draw [W]";

/// What one line says.
struct Row {
    index: u32,
    name: String,
    utilisation_percent: Option<u32>,
    memory_utilisation_percent: Option<u32>,
    power_watts: Option<f64>,
}

/// Writes a line a GPU at every interval, until it is stopped or has written enough.
pub fn record(args: &RecordArgs) -> anyhow::Result<()> {
    let mut look = source(args)?;
    let mut out: Box<dyn Write> = match &args.out {
        Some(path) => Box::new(std::fs::File::create(path).with_context(|| format!("writing {}", path.display()))?),
        None => Box::new(std::io::stdout()),
    };
    writeln!(out, "{HEADER}")?;
    let every = Duration::from_secs_f64(args.interval);
    let mut next = Instant::now();
    let mut written = 0;
    loop {
        let time = jiff::Zoned::now().strftime("%Y/%m/%d %H:%M:%S%.3f").to_string();
        for row in look()? {
            writeln!(
                out,
                "{}, {time}, {}, {}, {}, {}",
                row.index,
                row.name,
                or_not_supported(row.utilisation_percent, |percent| format!("{percent} %")),
                or_not_supported(row.memory_utilisation_percent, |percent| format!("{percent} %")),
                or_not_supported(row.power_watts, |watts| format!("{watts:.2} W")),
            )?;
        }
        out.flush()?;
        written += 1;
        if args.count == Some(written) {
            return Ok(());
        }
        next += every;
        std::thread::sleep(next.saturating_duration_since(Instant::now()));
    }
}

fn or_not_supported<T>(value: Option<T>, say: impl Fn(T) -> String) -> String {
    value.map_or_else(|| "[N/A]".to_owned(), say)
}

/// The daemon's GPUs, virtual ones too; the driver's where there is no daemon.
fn source(args: &RecordArgs) -> anyhow::Result<Box<dyn FnMut() -> anyhow::Result<Vec<Row>>>> {
    if state_dir(&args.state).join("rota.sock").exists() {
        let client = Client::new(&args.state);
        if client.get::<Vec<Gpu>>("/api/v1/gpus").is_ok() {
            return Ok(Box::new(move || {
                let gpus: Vec<Gpu> = client.get("/api/v1/gpus")?;
                let row = |gpu: Gpu| Row {
                    index: gpu.index,
                    name: gpu.name,
                    utilisation_percent: gpu.utilisation_percent,
                    memory_utilisation_percent: gpu.memory_utilisation_percent,
                    power_watts: gpu.power_watts,
                };
                Ok(gpus.into_iter().map(row).collect())
            }));
        }
    }
    let mut nvml = Nvml::open().context("no daemon runs here, and there is no driver to ask")?;
    output::remark("no daemon runs here: the driver is asked");
    Ok(Box::new(move || {
        let devices = nvml.list()?;
        let readings = nvml.read(&devices.iter().map(|device| device.uuid.as_str()).collect::<Vec<_>>());
        let row = |(device, reading): (rota_gpu::Device, Result<rota_gpu::Reading, rota_gpu::ReadError>)| {
            let reading = reading.ok();
            Row {
                index: device.index,
                name: device.name,
                utilisation_percent: reading.as_ref().and_then(|reading| reading.utilisation_percent),
                memory_utilisation_percent: reading.as_ref().and_then(|reading| reading.memory_utilisation_percent),
                power_watts: reading.and_then(|reading| reading.power_watts),
            }
        };
        Ok(devices.into_iter().zip(readings).map(row).collect())
    }))
}
