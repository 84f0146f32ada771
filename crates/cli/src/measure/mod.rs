//! `rota throughputs measure`: how fast workloads run on the GPUs of this machine, alone, in pairs and in gangs.
//!
//! GPUs are claimed from the queue, so that nothing else runs on them. The workloads are this process's own children, and it is their lease
//! service: so it learns their steps. What was measured is written down after every measurement.

mod interrupt;
mod leases;
mod plan;
mod trial;
mod workloads;

use crate::args::MeasureThroughputsArgs;
use crate::live::client::{Client, Failure};
use crate::output::{print, print_json, progress, remark, write_file};
use crate::traces::writer_of;
use anyhow::bail;
use hyper::Method;
use interrupt::Interrupt;
use leases::Leases;
use plan::Trial;
use rota_core::ThroughputTable;
use rota_daemon::api::{ClaimMode, Gpu, GpuClaim, Job, JobState, Submitted};
use serde::Serialize;
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::PathBuf;
use std::time::Duration;
use trial::{Room, Times};
use workloads::Workload;

/// A measurement as it is told.
#[derive(Serialize)]
struct Measurement {
    gpu_type: String,
    gpus: u32,
    job_types: Vec<String>,
    /// Steps per second of each; 0 where one of them failed.
    steps_per_second: Vec<f64>,
    /// Why there is no speed.
    failure: Option<String>,
}

pub fn run(args: &MeasureThroughputsArgs) -> anyhow::Result<()> {
    let writer = writer_of(&args.output)?;
    let workloads = workloads::read(&args.workloads, &args.only)?;
    let mut table = begun(args)?;
    let client = Client::new(&args.state);
    let gpus = by_type(&client.get::<Vec<Gpu>>("/api/v1/gpus")?, &args.gpu_type)?;
    let trials = plan::trials(&workloads, &gpus, &args.kinds, &args.gangs, &table);
    if trials.is_empty() {
        bail!("there is nothing to measure: no workload of the right kind, or everything is in `{}`", args.output.display());
    }
    let lease_seconds = (args.seconds / 20.0).clamp(0.1, 5.0);
    let leases = Leases::start(lease_seconds)?;
    let scratch = Scratch::new()?;
    let interrupt = Interrupt::watch();
    let seconds = Duration::from_secs_f64;
    let times = Times {
        start_timeout: seconds(args.start_timeout),
        warm_up: seconds(args.warm_up),
        measured: seconds(args.seconds.max(lease_seconds * 3.0)),
    };
    remark(&format!("{} measurements of {} s each, after a warm-up of {} s", trials.len(), args.seconds, args.warm_up));
    let bar = progress(trials.len() as u64, "measurements");
    let mut measurements = Vec::new();
    for group in trials.chunk_by(|one, next| (&one.gpu_type, one.gpus) == (&next.gpu_type, next.gpus)) {
        let claimed = Claimed::new(&client, &interrupt, &gpus[&group[0].gpu_type], group[0].gpus)?;
        for trial in group {
            bar.set_message(workloads[trial.jobs[0]].job_type.clone());
            let folder = scratch.0.join(measurements.len().to_string());
            let room = Room { leases: &leases, folder: &folder, gpus: &claimed.uuids, times, interrupt: &interrupt };
            let measurement = measured(trial, &workloads, &room)?;
            record(&mut table, &measurement);
            write_file(&args.output, |output| writer(&table, output))?;
            if let Some(failure) = &measurement.failure {
                bar.suspend(|| remark(&format!("failed on {} x {}: {failure}", measurement.gpus, measurement.gpu_type)));
            }
            measurements.push(measurement);
            _ = std::fs::remove_dir_all(&folder);
            bar.inc(1);
        }
    }
    bar.finish_and_clear();
    tell(args, &measurements)
}

/// The table to go on with.
fn begun(args: &MeasureThroughputsArgs) -> anyhow::Result<ThroughputTable> {
    let shown = args.output.display();
    match (args.output.exists(), args.resume) {
        (true, true) => Ok(rota_trace::read_throughputs(&args.output)?),
        (true, false) => bail!("`{shown}` is there already; go on with it by --resume, or name another file"),
        (false, _) => Ok(ThroughputTable::new(shown.to_string())),
    }
}

/// Indices of the GPUs by type.
fn by_type(gpus: &[Gpu], only: &[String]) -> anyhow::Result<BTreeMap<String, Vec<u32>>> {
    let mut types = BTreeMap::<String, Vec<u32>>::new();
    for gpu in gpus {
        types.entry(gpu.kind.clone()).or_default().push(gpu.index);
    }
    if let Some(missing) = only.iter().find(|name| !types.contains_key(*name)) {
        let known = types.keys().cloned().collect::<Vec<_>>().join(", ");
        bail!("there is no GPU of type `{missing}` here; there are: {known}");
    }
    types.retain(|name, _| only.is_empty() || only.contains(name));
    if types.is_empty() {
        bail!("there is no GPU here; `rota up --virtual-gpus a100:2` invents some");
    }
    Ok(types)
}

fn measured(trial: &Trial, workloads: &[Workload], room: &Room<'_>) -> anyhow::Result<Measurement> {
    let jobs = trial.jobs.iter().map(|job| &workloads[*job]).collect::<Vec<_>>();
    let (mut speeds, failure) = match trial::measure(&jobs, room)? {
        Ok(speeds) => (speeds, None),
        Err(failure) => (vec![0.0; jobs.len()], Some(failure)),
    };
    // Two of a kind are equally fast; what differs between them is chance.
    if let [first, second] = trial.jobs[..]
        && first == second
    {
        let mean = f64::midpoint(speeds[0], speeds[1]);
        speeds = vec![mean, mean];
    }
    Ok(Measurement {
        gpu_type: trial.gpu_type.clone(),
        gpus: trial.gpus,
        job_types: jobs.iter().map(|job| job.job_type.clone()).collect(),
        steps_per_second: speeds,
        failure,
    })
}

fn record(table: &mut ThroughputTable, measurement: &Measurement) {
    let gang = |number: usize| (measurement.job_types[number].as_str(), measurement.gpus);
    match measurement.steps_per_second[..] {
        [alone] => table.insert(gang(0).0, measurement.gpus, &measurement.gpu_type, alone),
        [one, other] => table.insert_pair(gang(0), gang(1), &measurement.gpu_type, (one, other)),
        _ => {}
    }
}

fn tell(args: &MeasureThroughputsArgs, measurements: &[Measurement]) -> anyhow::Result<()> {
    let failed = measurements.iter().filter(|measurement| measurement.failure.is_some()).count();
    if args.json {
        print_json(&measurements)?;
    } else {
        let mut lines = String::new();
        for one in measurements {
            let speeds = one.job_types.iter().zip(&one.steps_per_second).map(|(name, speed)| format!("{name} {speed:.3}"));
            writeln!(lines, "{} x {}  {}", one.gpus, one.gpu_type, speeds.collect::<Vec<_>>().join("  beside  "))?;
        }
        print(&format!("{lines}steps per second; written to {}", args.output.display()))?;
    }
    if failed == measurements.len() {
        return Err(anyhow::Error::new(Failure(format!("all {failed} measurements failed"))));
    }
    Ok(())
}

/// GPUs that are this process's until it lets them go or ends.
struct Claimed<'c> {
    client: &'c Client,
    id: u64,
    uuids: Vec<String>,
}

impl<'c> Claimed<'c> {
    /// Waits until so many of these GPUs are free.
    fn new(client: &'c Client, interrupt: &Interrupt, from: &[u32], gpus: u32) -> anyhow::Result<Self> {
        let ask = GpuClaim {
            gpus,
            from: from.to_vec(),
            mode: ClaimMode::Schedule,
            pid: std::process::id(),
            name: Some("throughputs measure".to_owned()),
        };
        let submitted: Submitted = client.send(&Method::POST, "/api/v1/claims", &ask)?;
        let mut claimed = Self { client, id: submitted.ids.first().copied().unwrap_or_default(), uuids: Vec::new() };
        loop {
            interrupt.check()?;
            let job: Job = client.get(&format!("/api/v1/jobs/{}/wait?started=true&timeout=1", claimed.id))?;
            match job.state {
                JobState::Running => {
                    claimed.uuids = job.gpu_uuids.unwrap_or_default();
                    return Ok(claimed);
                }
                state if state.is_over() => {
                    let why = job.reason.unwrap_or_default();
                    return Err(anyhow::Error::new(Failure(format!("the claim of GPUs is {}: {why}", state.word()))));
                }
                _ => {}
            }
        }
    }
}

impl Drop for Claimed<'_> {
    fn drop(&mut self) {
        // Without a daemon the claim ends with this process.
        _ = self.client.post::<Vec<u64>>(&format!("/api/v1/jobs/{}/cancel", self.id));
    }
}

/// A temporary folder.
struct Scratch(PathBuf);

impl Scratch {
    fn new() -> anyhow::Result<Self> {
        let path = std::env::temp_dir().join(format!("rota-measure-{}", std::process::id()));
        std::fs::create_dir(&path)?;
        Ok(Self(path))
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        _ = std::fs::remove_dir_all(&self.0);
    }
}
