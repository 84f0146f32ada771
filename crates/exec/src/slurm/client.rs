//! Slurm as it is asked: each command with its deadline, `squeue` at a pace, and the version checked first.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use super::allocation::Shape;
use super::command::Calls;
use super::error::SlurmError;
use super::inventory::{self, SlurmNode, read_nodes};
use super::jobs::{EveryJob, OwnJob, every_arguments, own_arguments, read_every_job, read_own_jobs};
use super::times::read_limit;

/// The oldest version whose answers are understood.
pub const VERSION_MIN: (u32, u32) = (20, 11);

/// The shortest time between two calls of `squeue`.
const PACE: Duration = Duration::from_secs(2);
/// The longest time between two calls while the controller is slow or down.
const PACE_MAX: Duration = Duration::from_mins(1);
/// An answer that takes longer than this makes the next question wait longer.
const SLOW: Duration = Duration::from_millis(500);

/// What a site says about its Slurm.
#[derive(Clone, Debug, Default)]
pub struct SlurmSettings {
    /// How the commands are called.
    pub calls: Calls,
    /// The partition; Slurm's own default otherwise.
    pub partition: Option<String>,
    /// The account that allocations are charged to.
    pub account: Option<String>,
    /// The quality of service.
    pub qos: Option<String>,
    /// How long an allocation may last.
    pub time_limit: Option<Duration>,
    /// More options for `sbatch`, as `--mem-per-gpu=32G`.
    pub options: Vec<String>,
}

/// How long Slurm waits between asking processes to end and killing them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KillWait(pub Duration);

/// Slurm, as one user sees it.
#[derive(Debug)]
pub struct SlurmClient {
    settings: SlurmSettings,
    user: u32,
    /// When `squeue` may be called next, and how long after it the time after that.
    next: Instant,
    pace: Duration,
}

impl SlurmClient {
    /// A client for this process's user.
    pub fn new(settings: SlurmSettings) -> Self {
        Self { settings, user: rustix::process::geteuid().as_raw(), next: Instant::now(), pace: PACE }
    }

    /// Whether the commands are there that allocations need.
    pub fn check_commands(&self) -> Result<(), SlurmError> {
        for program in ["sinfo", "squeue", "sbatch", "scancel", "scontrol"] {
            self.settings.calls.call(program, ["--version"], Duration::from_secs(20))?;
        }
        Ok(())
    }

    /// The version, which must be new enough.
    pub fn version(&self) -> Result<(u32, u32), SlurmError> {
        let answer = self.settings.calls.call("sinfo", ["--version"], Duration::from_secs(20))?;
        let version = answer.split_ascii_whitespace().last().unwrap_or_default();
        let mut parts = version.split('.').map(str::parse::<u32>);
        let (Some(Ok(major)), Some(Ok(minor))) = (parts.next(), parts.next()) else {
            let line = answer.trim().to_owned();
            return Err(SlurmError::Answer { program: "sinfo --version".to_owned(), line, wanted: "version such as 22.05.8" });
        };
        if (major, minor) < VERSION_MIN { Err(SlurmError::TooOld { version: version.to_owned() }) } else { Ok((major, minor)) }
    }

    /// The nodes that have GPUs, in the partition that is set or in all.
    pub fn nodes(&self) -> Result<Vec<SlurmNode>, SlurmError> {
        let partition = self.settings.partition.as_deref();
        let answer = self.settings.calls.call("sinfo", inventory::arguments(partition), Duration::from_secs(20))?;
        let mut nodes = read_nodes(&answer)?;
        if nodes.is_empty() {
            let message = match partition {
                Some(partition) => {
                    format!("partition `{partition}` has no nodes: set `engine.slurm.partition` to one of `sinfo -s`")
                }
                None => "Slurm lists no nodes for this user".to_owned(),
            };
            return Err(SlurmError::Nodes(message));
        }
        nodes.retain(|node| !node.gpus.is_empty());
        if nodes.is_empty() {
            let place = partition.map_or_else(String::new, |partition| format!(" of partition `{partition}`"));
            let message = format!("no node{place} has GPUs: `sinfo -N -o '%N %G'` shows what Slurm knows of them");
            return Err(SlurmError::Nodes(message));
        }
        Ok(nodes)
    }

    /// The longest time that the partition permits; `None` if it does not limit it.
    pub fn longest(&self) -> Result<Option<Duration>, SlurmError> {
        let mut arguments = vec!["-h", "-o", "%R|%l"];
        if let Some(partition) = &self.settings.partition {
            arguments.extend(["-p", partition]);
        }
        let answer = self.settings.calls.call("sinfo", arguments, Duration::from_secs(20))?;
        let limits =
            answer.lines().filter_map(|line| line.rsplit_once('|')).map(|(_, limit)| read_limit(limit)).collect::<Vec<_>>();
        Ok(if limits.iter().any(Option::is_none) { None } else { limits.into_iter().flatten().max() })
    }

    /// How long Slurm waits before it kills.
    pub fn kill_wait(&self) -> Result<KillWait, SlurmError> {
        let answer = self.settings.calls.call("scontrol", ["show", "config"], Duration::from_secs(20))?;
        let seconds = answer.lines().find_map(|line| {
            let (name, value) = line.split_once('=')?;
            (name.trim() == "KillWait").then(|| value.split_ascii_whitespace().next()?.parse::<u64>().ok())?
        });
        // Slurm's own default.
        Ok(KillWait(Duration::from_secs(seconds.unwrap_or(30))))
    }

    /// How long to wait until `squeue` may be called again.
    pub fn pause(&self) -> Duration {
        self.next.saturating_duration_since(Instant::now())
    }

    /// The jobs of this user. Waits until `squeue` may be called.
    pub fn own_jobs(&mut self) -> Result<Vec<OwnJob>, SlurmError> {
        let arguments = own_arguments(self.user);
        self.squeue(&arguments).map(|answer| read_own_jobs(&answer))
    }

    /// The jobs of everybody. Waits until `squeue` may be called.
    pub fn every_job(&mut self) -> Result<Vec<EveryJob>, SlurmError> {
        let answer = self.squeue(&every_arguments())?;
        read_every_job(&answer)
    }

    fn squeue(&mut self, arguments: &[String]) -> Result<String, SlurmError> {
        std::thread::sleep(self.pause());
        let began = Instant::now();
        let answer = self.settings.calls.call("squeue", arguments, Duration::from_secs(30));
        self.pace = next_pace(self.pace, began.elapsed(), answer.is_ok());
        self.next = Instant::now() + self.pace;
        answer
    }

    /// Submits an allocation and gives Slurm's number of it.
    pub fn submit(&self, shape: &Shape, name: &str, comment: &str, script: &std::path::Path) -> Result<String, SlurmError> {
        let arguments = self.submit_arguments(shape, name, comment, script);
        let answer = self.settings.calls.call("sbatch", arguments, Duration::from_mins(1))?;
        // With several clusters it is `1234;cluster`.
        let id = answer.trim().split(';').next().unwrap_or_default();
        if id.is_empty() || !id.bytes().all(|byte| byte.is_ascii_digit()) {
            let line = answer.trim().to_owned();
            return Err(SlurmError::Answer { program: "sbatch".to_owned(), line, wanted: "number of the job" });
        }
        Ok(id.to_owned())
    }

    fn submit_arguments(&self, shape: &Shape, name: &str, comment: &str, script: &std::path::Path) -> Vec<String> {
        let settings = &self.settings;
        let log = script.with_extension("log");
        let mut arguments = vec![
            "--parsable".to_owned(),
            format!("--nodes={}", shape.nodes),
            "--ntasks-per-node=1".to_owned(),
            format!("--gres={}", shape.gres()),
            "--no-requeue".to_owned(),
            "--signal=B:TERM@120".to_owned(),
            format!("--job-name={name}"),
            format!("--comment={comment}"),
            format!("--output={}", log.display()),
            "--chdir=/".to_owned(),
        ];
        let named = [("--partition", &settings.partition), ("--account", &settings.account), ("--qos", &settings.qos)];
        arguments.extend(named.iter().filter_map(|(option, value)| value.as_ref().map(|value| format!("{option}={value}"))));
        if let Some(limit) = settings.time_limit {
            arguments.push(format!("--time={}", limit.as_secs().div_ceil(60)));
        }
        arguments.extend(settings.options.iter().cloned());
        arguments.push(script.display().to_string());
        arguments
    }

    /// Cancels a job. Cancelling one that is over does no harm.
    pub fn cancel(&self, job: &str) -> Result<(), SlurmError> {
        match self.settings.calls.call("scancel", [job], Duration::from_secs(30)) {
            Ok(_) => Ok(()),
            Err(SlurmError::Refused { message, .. }) if is_over(&message) => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// The folder of the commands, for scripts that call them.
    pub fn bin_dir(&self) -> Option<&PathBuf> {
        self.settings.calls.bin_dir.as_ref()
    }
}

fn is_over(message: &str) -> bool {
    let text = message.to_ascii_lowercase();
    text.contains("invalid job id") || text.contains("already completing") || text.contains("already completed")
}

/// How long to wait before the next question: the usual time after a quick answer, ten times as long as a slow answer took, and
/// twice as long as before after none.
fn next_pace(pace: Duration, took: Duration, is_answered: bool) -> Duration {
    if !is_answered {
        (pace * 2).clamp(PACE, PACE_MAX)
    } else if took > SLOW {
        (took * 10).clamp(PACE, PACE_MAX)
    } else {
        PACE
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;
    use std::path::Path;

    /// A client whose commands are one script, which writes down how it was called.
    fn client(text: &str) -> (tempfile::TempDir, SlurmClient) {
        let folder = tempfile::tempdir().unwrap();
        for name in ["sinfo", "squeue", "sbatch", "scancel", "scontrol"] {
            let path = folder.path().join(name);
            let log = folder.path().join("calls");
            std::fs::write(&path, format!("#!/bin/sh\necho {name} \"$@\" >> '{}'\n{text}\n", log.display())).unwrap();
            std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
        }
        let calls = Calls { bin_dir: Some(folder.path().to_owned()) };
        let settings = SlurmSettings { calls, partition: Some("gpu".to_owned()), ..SlurmSettings::default() };
        (folder, SlurmClient::new(settings))
    }

    #[test]
    fn versions_below_20_11_are_refused() {
        let version = |text: &str| client(&format!("echo '{text}'")).1.version();
        assert_eq!(version("slurm-wlm 22.05.8").unwrap(), (22, 5));
        assert_eq!(version("slurm 20.11.0").unwrap(), (20, 11));
        assert_eq!(version("slurm 25.05.1").unwrap(), (25, 5));
        assert!(version("slurm 20.02.7").unwrap_err().to_string().contains("20.02.7 is too old"));
        assert!(version("slurm").unwrap_err().to_string().contains("version such as"));
    }

    #[test]
    fn an_allocation_is_asked_for_by_name_and_comment() {
        let (folder, client) = client("echo 42");
        let shape = Shape { kind: Some("v100".to_owned()), nodes: 2, gpus_per_node: 4 };
        assert_eq!(client.submit(&shape, "rota-ab-1", "rota:ab:1", Path::new("/s/a1.sh")).unwrap(), "42");
        let calls = std::fs::read_to_string(folder.path().join("calls")).unwrap();
        for part in
            ["--nodes=2", "--gres=gpu:v100:4", "--no-requeue", "--signal=B:TERM@120", "--comment=rota:ab:1", "--partition=gpu"]
        {
            assert!(calls.contains(part), "{calls}");
        }
    }

    #[test]
    fn a_job_that_is_over_can_be_cancelled() {
        let (_folder, over) = client("echo 'scancel: error: Kill job error on job id 7: Invalid job id specified' >&2; exit 1");
        over.cancel("7").unwrap();
        let (_folder, denied) = client("echo 'scancel: error: Kill job error on job id 7: Access/permission denied' >&2; exit 1");
        assert!(denied.cancel("7").is_err());
    }

    #[test]
    fn squeue_is_called_at_most_every_two_seconds_and_less_often_when_it_is_slow() {
        let (_folder, mut client) = client("true");
        client.own_jobs().unwrap();
        assert!(client.pause() > Duration::from_millis(1500), "{:?}", client.pause());
        assert_eq!(next_pace(PACE, Duration::from_millis(20), true), PACE);
        assert_eq!(next_pace(PACE, Duration::from_secs(1), true), Duration::from_secs(10));
        assert_eq!(next_pace(PACE, Duration::from_secs(9), false), PACE * 2);
        assert_eq!(next_pace(PACE_MAX, Duration::from_secs(9), false), PACE_MAX);
    }

    #[test]
    fn an_unknown_partition_is_named() {
        let error = client("true").1.nodes().unwrap_err();
        assert!(error.to_string().contains("partition `gpu` has no nodes"), "{error}");
    }
}
