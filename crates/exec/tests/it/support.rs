//! A place to run jobs in, and waiting for things without sleeping and hoping.

use std::ffi::OsString;
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rota_exec::{Adopted, ExitRecord, Launcher, ResourceLimits, RunSpec, Supervisor, adopt};
use rustix::event::{PollFd, PollFlags, Timespec, poll};

/// Longer than anything here takes, however busy the machine is.
pub const FAR: Duration = Duration::from_mins(2);

/// A folder with a run directory for one job.
pub struct Place {
    pub folder: tempfile::TempDir,
}

impl Place {
    pub fn new() -> Self {
        Self { folder: tempfile::tempdir().unwrap() }
    }

    pub fn path(&self) -> &Path {
        self.folder.path()
    }

    pub fn dir(&self) -> PathBuf {
        self.path().join("run")
    }

    /// A specification that runs this in the folder, with a log in the run directory.
    pub fn spec(&self, command: &[&str]) -> RunSpec {
        RunSpec {
            job: 7,
            attempt: 1,
            identity: None,
            command: command.iter().map(OsString::from).collect(),
            cwd: self.path().to_owned(),
            env: vec![("PATH".into(), "/usr/local/bin:/usr/bin:/bin".into())],
            run_as: None,
            log: self.dir().join("log"),
            log_bytes_max: 0,
            log_files_max: 1,
            time_limit: None,
            grace: FAR,
            notice: None,
            memory_max_bytes: None,
            cpus_max: None,
            cgroup: None,
            devices: None,
            resource_limits: ResourceLimits::default(),
            no_new_privileges: false,
        }
    }

    pub fn shell(&self, script: &str) -> RunSpec {
        self.spec(&["sh", "-c", script])
    }

    pub fn launch(&self, spec: &RunSpec) -> Supervisor {
        launcher().launch(&self.dir(), spec).unwrap()
    }

    /// Runs a job to its end.
    pub fn run(&self, spec: &RunSpec) -> ExitRecord {
        let supervisor = self.launch(spec);
        end_of(&supervisor);
        self.record()
    }

    pub fn record(&self) -> ExitRecord {
        match adopt(&self.dir()).unwrap() {
            Adopted::Ended(record) => record,
            other => panic!("expected an end, found {other:?}"),
        }
    }

    pub fn log(&self) -> String {
        std::fs::read_to_string(self.dir().join("log")).unwrap()
    }

    /// What is in a file the job writes, once there is a whole line in it.
    pub fn line(&self, name: &str) -> String {
        let path = self.path().join(name);
        until(name, || std::fs::read_to_string(&path).is_ok_and(|text| text.ends_with('\n')));
        std::fs::read_to_string(&path).unwrap().trim().to_owned()
    }

    pub fn pid(&self, name: &str) -> u32 {
        self.line(name).parse().unwrap()
    }

    /// A pipe with a name, for jobs that are to wait for the test.
    pub fn fifo(&self, name: &str) -> PathBuf {
        let path = self.path().join(name);
        assert!(std::process::Command::new("mkfifo").arg(&path).status().unwrap().success());
        path
    }
}

pub const SUPERVISOR: &str = env!("CARGO_BIN_EXE_rota-supervise");

pub fn launcher() -> Launcher {
    Launcher::new(SUPERVISOR.into(), Vec::new())
}

/// Waits for the supervisor to end.
pub fn end_of(supervisor: &Supervisor) {
    let far = Timespec { tv_sec: FAR.as_secs().cast_signed(), tv_nsec: 0 };
    let ready = poll(&mut [PollFd::from_borrowed_fd(supervisor.pidfd().as_fd(), PollFlags::IN)], Some(&far)).unwrap();
    assert_eq!(ready, 1, "the supervisor does not end");
    assert!(supervisor.has_ended().unwrap());
}

/// Waits for a condition.
pub fn until(what: &str, mut condition: impl FnMut() -> bool) {
    let since = Instant::now();
    while !condition() {
        assert!(since.elapsed() < FAR, "waited too long for: {what}");
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// Whether a process is there and not dead.
pub fn lives(pid: u32) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit_once(") ").is_some_and(|(_, rest)| !rest.starts_with(['Z', 'X']))
}

pub fn signal(pid: u32, signal: rustix::process::Signal) {
    let pid = rustix::process::Pid::from_raw(pid.cast_signed()).unwrap();
    rustix::process::kill_process(pid, signal).unwrap();
}

pub fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}
