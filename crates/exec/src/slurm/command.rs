//! One call of a Slurm command: with a deadline, in a known environment, and its answer as text.

use std::ffi::{OsStr, OsString};
use std::io::{self, Read};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, pidfd_open};

use super::error::{RefusalKind, SlurmError};

/// The most bytes read of one answer.
const ANSWER_BYTES_MAX: u64 = 256 << 20;

/// How Slurm's commands are called.
#[derive(Clone, Debug, Default)]
pub struct Calls {
    /// The folder with the commands; without one they are looked for as shells do.
    pub bin_dir: Option<PathBuf>,
}

impl Calls {
    /// Calls a command and gives what it printed.
    pub fn call<I, S>(&self, program: &str, arguments: I, limit: Duration) -> Result<String, SlurmError>
    where
        I: IntoIterator<Item = S>,
        S: AsRef<OsStr>,
    {
        let path = self.bin_dir.as_ref().map_or_else(|| PathBuf::from(program), |folder| folder.join(program));
        let mut command = Command::new(path);
        command.args(arguments).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        for (name, _) in std::env::vars_os().filter(|(name, _)| changes_answers(name)) {
            command.env_remove(name);
        }
        // Times in the answers are then UTC, in one form.
        command.env("TZ", "UTC0").env("SLURM_TIME_FORMAT", "standard").env("LC_ALL", "C");
        let mut child = command.spawn().map_err(|source| match source.kind() {
            io::ErrorKind::NotFound => SlurmError::Missing { program: program.to_owned() },
            _ => SlurmError::Start { program: program.to_owned(), source },
        })?;
        let failed = |source| SlurmError::Start { program: program.to_owned(), source };
        let (output, errors) = (reader(child.stdout.take()), reader(child.stderr.take()));
        let ended = wait(&child, limit).map_err(failed)?;
        if !ended {
            // It may have ended by itself just now.
            _ = child.kill();
        }
        let status = child.wait().map_err(failed)?;
        if !ended {
            return Err(SlurmError::TimedOut { program: program.to_owned(), limit });
        }
        let (output, errors) = (output.join().unwrap_or_default(), errors.join().unwrap_or_default());
        if status.success() { Ok(output) } else { Err(refusal(program, &errors)) }
    }
}

/// Whether a variable of the environment changes what a command does, or says that this process is in a job.
fn changes_answers(name: &OsString) -> bool {
    let Some(name) = name.to_str() else { return false };
    let kept = ["SLURM_CONF", "SLURM_JWT", "SLURM_CLUSTERS"];
    let prefixes = ["SLURM_", "SBATCH_", "SQUEUE_", "SINFO_", "SCANCEL_", "SCONTROL_", "SACCT_", "SALLOC_", "SRUN_"];
    prefixes.iter().any(|prefix| name.starts_with(prefix)) && !kept.contains(&name)
}

/// Reads a stream to its end, in a thread: a command that prints much must not wait for us.
fn reader(stream: Option<impl Read + Send + 'static>) -> thread::JoinHandle<String> {
    thread::spawn(move || {
        let mut bytes = Vec::new();
        if let Some(stream) = stream {
            // What was read until then is what there is.
            _ = stream.take(ANSWER_BYTES_MAX).read_to_end(&mut bytes);
        }
        String::from_utf8_lossy(&bytes).into_owned()
    })
}

/// Waits for a process. Says whether it ended in time.
fn wait(child: &Child, limit: Duration) -> io::Result<bool> {
    let pid = i32::try_from(child.id()).ok().and_then(Pid::from_raw).ok_or_else(|| io::Error::other("no process id"))?;
    let pidfd = pidfd_open(pid, PidfdFlags::empty())?;
    let deadline = std::time::Instant::now() + limit;
    loop {
        let left = deadline.saturating_duration_since(std::time::Instant::now());
        let timeout = Timespec { tv_sec: left.as_secs().cast_signed(), tv_nsec: i64::from(left.subsec_nanos()) };
        match poll(&mut [PollFd::new(&pidfd, PollFlags::IN)], Some(&timeout)) {
            Ok(0) => return Ok(false),
            Ok(_) => return Ok(true),
            Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
}

/// What a command's complaint means.
fn refusal(program: &str, errors: &str) -> SlurmError {
    let mut lines = errors.lines().map(str::trim).filter(|line| !line.is_empty()).map(|line| {
        let line = line.strip_prefix(program).map_or(line, |rest| rest.trim_start_matches(':').trim_start());
        line.trim_start_matches("error:").trim_start_matches("fatal:").trim().to_owned()
    });
    let all = lines.by_ref().collect::<Vec<_>>();
    let message = if all.is_empty() { "it gave no reason".to_owned() } else { all.join("; ") };
    let text = message.to_ascii_lowercase();
    let unreachable = ["unable to contact slurm controller", "connection refused", "socket timed out", "configuration source"];
    if unreachable.iter().any(|words| text.contains(words)) {
        return SlurmError::NoController { program: program.to_owned(), message };
    }
    SlurmError::Refused { program: program.to_owned(), kind: RefusalKind::of(&message), message }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;
    use std::time::Instant;

    fn with_program(text: &str) -> (tempfile::TempDir, Calls) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("squeue");
        std::fs::write(&path, format!("#!/bin/sh\n{text}\n")).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
        let calls = Calls { bin_dir: Some(folder.path().to_owned()) };
        (folder, calls)
    }

    #[test]
    fn a_command_that_hangs_is_given_up() {
        let (_folder, calls) = with_program("exec sleep 600");
        let began = Instant::now();
        let error = calls.call("squeue", ["-h"], Duration::from_millis(200)).unwrap_err();
        assert!(matches!(error, SlurmError::TimedOut { .. }), "{error}");
        assert!(began.elapsed() < Duration::from_secs(60));
        assert!(error.is_passing());
    }

    #[test]
    fn answers_longer_than_a_pipe_are_read_whole() {
        let (_folder, calls) = with_program("i=0; while [ $i -lt 20000 ]; do echo 123456789; i=$((i+1)); done");
        assert_eq!(calls.call("squeue", ["-h"], Duration::from_secs(60)).unwrap().len(), 200_000);
    }

    #[test]
    fn complaints_become_kinds() {
        let (_folder, calls) =
            with_program("echo 'squeue: error: Batch job submission failed: Invalid partition name specified' >&2; exit 1");
        let error = calls.call("squeue", ["-h"], Duration::from_secs(60)).unwrap_err();
        assert!(matches!(error, SlurmError::Refused { kind: RefusalKind::Partition, .. }), "{error}");
        assert!(error.to_string().contains("engine.slurm.partition"), "{error}");
        for (text, kind) in [
            ("Batch job submission failed: Invalid account or account/partition combination specified", RefusalKind::Partition),
            ("Batch job submission failed: Invalid qos specification", RefusalKind::Account),
            (
                "Batch job submission failed: Requested time limit is invalid (missing or exceeds some limit)",
                RefusalKind::TimeLimit,
            ),
            ("Batch job submission failed: Requested node configuration is not available", RefusalKind::Shape),
            ("AssocMaxSubmitJobLimit; Batch job submission failed: Job violates accounting/QOS policy", RefusalKind::Limit),
            ("QOSMaxGRESPerUser", RefusalKind::Limit),
        ] {
            assert_eq!(RefusalKind::of(text), kind, "{text}");
        }
        let (_folder, calls) =
            with_program("echo 'slurm_load_jobs error: Unable to contact slurm controller (connect failure)' >&2; exit 1");
        assert!(calls.call("squeue", ["-h"], Duration::from_secs(60)).unwrap_err().is_passing());
    }

    #[test]
    fn a_program_that_is_not_there_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let calls = Calls { bin_dir: Some(folder.path().to_owned()) };
        let error = calls.call("sbatch", ["--version"], Duration::from_secs(5)).unwrap_err();
        assert!(error.to_string().contains("`sbatch` was not found"), "{error}");
    }
}
