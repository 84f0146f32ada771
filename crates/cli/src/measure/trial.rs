//! One measurement: workloads are started on GPUs that are claimed for them, run for a while, and are ended.

use super::interrupt::Interrupt;
use super::leases::{Leases, Sample};
use super::workloads::Workload;
use anyhow::Context;
use rustix::process::{Pid, Signal, kill_process_group};
use std::fs::File;
use std::net::TcpListener;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

const LOOK_INTERVAL: Duration = Duration::from_millis(20);

/// How long things last.
#[derive(Clone, Copy)]
pub struct Times {
    pub start_timeout: Duration,
    pub warm_up: Duration,
    pub measured: Duration,
}

/// Where a measurement runs.
pub struct Room<'r> {
    pub leases: &'r Leases,
    /// A folder for logs and checkpoints, emptied afterwards.
    pub folder: &'r Path,
    /// UUIDs of the GPUs.
    pub gpus: &'r [String],
    pub times: Times,
    pub interrupt: &'r Interrupt,
}

/// The speeds of workloads that run at the same time on the same GPUs, or why one of them has none.
pub fn measure(workloads: &[&Workload], room: &Room<'_>) -> anyhow::Result<Result<Vec<f64>, String>> {
    let mut runs = Vec::new();
    for (number, workload) in workloads.iter().enumerate() {
        match Run::start(workload, number, room)? {
            Ok(run) => runs.push(run),
            Err(reason) => return Ok(Err(reason)),
        }
    }
    let found = observe(&mut runs, room);
    for run in &runs {
        room.leases.dismiss(&run.token);
    }
    room.interrupt.check()?;
    Ok(found)
}

fn observe(runs: &mut [Run], room: &Room<'_>) -> Result<Vec<f64>, String> {
    // All of them have done a step before any of them is measured.
    let deadline = Instant::now() + room.times.start_timeout;
    let has_begun = |run: &Run| room.leases.samples(&run.token).iter().any(|sample| sample.steps > 0);
    while !runs.iter().all(has_begun) {
        if let Some(late) = (Instant::now() >= deadline).then(|| runs.iter().find(|run| !has_begun(run))).flatten() {
            return Err(format!("`{}` told of no step within {} s", late.job_type, room.times.start_timeout.as_secs_f64()));
        }
        still_running(runs, room)?;
        std::thread::sleep(LOOK_INTERVAL);
    }
    run_for(room.times.warm_up, runs, room)?;
    let from = Instant::now();
    run_for(room.times.measured, runs, room)?;
    runs.iter().map(|run| speed(&room.leases.samples(&run.token), from).ok_or_else(|| run.too_slow())).collect()
}

fn run_for(time: Duration, runs: &mut [Run], room: &Room<'_>) -> Result<(), String> {
    let until = Instant::now() + time;
    while Instant::now() < until {
        still_running(runs, room)?;
        std::thread::sleep(LOOK_INTERVAL.min(until.saturating_duration_since(Instant::now())));
    }
    Ok(())
}

fn still_running(runs: &mut [Run], room: &Room<'_>) -> Result<(), String> {
    // What ends the whole command is told by `measure`.
    room.interrupt.check().map_err(|error| error.to_string())?;
    runs.iter_mut().try_for_each(Run::still_runs)
}

/// Steps per second between the first and the last sample since a moment.
fn speed(samples: &[Sample], from: Instant) -> Option<f64> {
    let mut within = samples.iter().filter(|sample| sample.at >= from);
    let (first, last) = (within.next()?, within.next_back()?);
    let seconds = last.seconds - first.seconds;
    let steps = last.steps.checked_sub(first.steps)?;
    (seconds > 0.0 && steps > 0).then(|| steps as f64 / seconds)
}

/// A workload that runs: one process, or one a GPU. Dropped, all of it is ended.
struct Run {
    job_type: String,
    token: String,
    processes: Vec<Child>,
    log: PathBuf,
}

impl Run {
    /// Starts a workload; a program that cannot be started is a failure of the workload.
    fn start(workload: &Workload, number: usize, room: &Room<'_>) -> anyhow::Result<Result<Self, String>> {
        let token = room.leases.admit()?;
        let own = room.folder.join(number.to_string());
        std::fs::create_dir_all(&own).with_context(|| format!("cannot make the folder `{}`", own.display()))?;
        let log = own.join("log");
        let port = TcpListener::bind(("127.0.0.1", 0))?.local_addr()?.port();
        let mut run = Self { job_type: workload.job_type.clone(), token, processes: Vec::new(), log };
        let output = File::create(&run.log)?;
        for rank in 0..room.gpus.len() {
            let mut command = Command::new(&workload.command[0]);
            command.args(&workload.command[1..]).current_dir(&workload.directory).process_group(0);
            command.stdin(Stdio::null()).stdout(output.try_clone()?).stderr(output.try_clone()?);
            command.env("CUDA_DEVICE_ORDER", "PCI_BUS_ID").env("CUDA_VISIBLE_DEVICES", room.gpus.join(","));
            command.env("ROTA_GPUS", room.gpus.len().to_string()).env("ROTA_CHECKPOINT_DIR", own.join("checkpoints"));
            command.env("ROTA_LEASE", "1").env("ROTA_LEASE_ADDR", room.leases.address.to_string());
            command.env("ROTA_LEASE_TOKEN", &run.token).env_remove("ROTA_RESUME_FROM").env_remove("ROTA_JOB_ID");
            command.env("RANK", rank.to_string()).env("LOCAL_RANK", rank.to_string());
            command.env("WORLD_SIZE", room.gpus.len().to_string());
            command.env("MASTER_ADDR", "127.0.0.1").env("MASTER_PORT", port.to_string());
            match command.spawn() {
                Ok(process) => run.processes.push(process),
                Err(error) => {
                    return Ok(Err(format!("`{}`: cannot start `{}`: {error}", run.job_type, workload.command[0])));
                }
            }
        }
        Ok(Ok(run))
    }

    fn still_runs(&mut self) -> Result<(), String> {
        for process in &mut self.processes {
            let ended = process.try_wait().map_err(|error| format!("`{}` cannot be watched: {error}", self.job_type))?;
            if let Some(status) = ended {
                let said = std::fs::read(&self.log).unwrap_or_default();
                let said = String::from_utf8_lossy(&said);
                let last = said.lines().rev().find(|line| !line.trim().is_empty()).unwrap_or("it said nothing").trim();
                return Err(format!("`{}` ended too early ({status}): {last}", self.job_type));
            }
        }
        Ok(())
    }

    fn too_slow(&self) -> String {
        format!("`{}` did not finish a step while it was measured; give it more --seconds", self.job_type)
    }
}

impl Drop for Run {
    fn drop(&mut self) {
        for process in &mut self.processes {
            if let Some(group) = i32::try_from(process.id()).ok().and_then(Pid::from_raw) {
                // It may have ended by itself; its children may not have.
                _ = kill_process_group(group, Signal::KILL);
            }
        }
        for process in &mut self.processes {
            _ = process.wait();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_speed_is_taken_between_samples_of_the_measured_time() {
        let begin = Instant::now();
        let sample = |second: u64, steps: u64| Sample {
            at: begin + Duration::from_secs(second),
            steps,
            seconds: f64::from(u32::try_from(second).unwrap()) + 0.5,
        };
        let samples = [sample(1, 1), sample(5, 10), sample(9, 20), sample(15, 40)];
        assert_eq!(speed(&samples, begin + Duration::from_secs(4)), Some(3.0));
        assert_eq!(speed(&samples, begin + Duration::from_secs(12)), None);
        assert_eq!(speed(&[sample(5, 7), sample(9, 7)], begin), None);
    }
}
