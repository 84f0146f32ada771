//! Calls of `nvidia-cuda-mps-control`: each ends within a time, by itself or by being killed.
//!
//! The program has been seen to wait for ever for its daemon's answer, and the daemon it starts may keep its output open. So its input
//! and its output are files in memory, not pipes: nothing here waits for anything but the end of the process it started.

use super::MpsError;
use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::fs::{MemfdFlags, inotify};
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, Signal};
use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, Read, Seek, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

/// What the program says if no daemon listens on the control socket.
const NOT_RUNNING: &str = "Cannot find MPS control daemon process";
/// What it says of a server that ended since it was listed.
const NO_SERVER: &str = "Server not found";
/// The argument that starts a daemon.
const DAEMON: &str = "-d";
/// The daemon's own record of its process id, in the pipe directory.
const PID_FILE: &str = "nvidia-cuda-mps-control.pid";
/// How long a killed process is waited for. One that is stuck in the driver ends later, or never.
const KILLED_WAIT: Duration = Duration::from_secs(1);
/// A socket is there before anyone listens on it, and nothing tells of the second: a silent daemon is asked again this often.
const ASK_AGAIN: Duration = Duration::from_millis(50);
/// As much as is read of what the program says, and as much of it as is shown.
const OUTPUT_BYTES_MAX: u64 = 1 << 20;
const MESSAGE_CHARACTERS_MAX: usize = 500;

/// The control program, told of one GPU's directories.
#[derive(Debug)]
pub(super) struct Control<'a> {
    pub(super) program: &'a Path,
    pub(super) pipe: PathBuf,
    pub(super) log: PathBuf,
    pub(super) timeout: Duration,
}

/// A process that computes through a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Client {
    pub(super) server: u32,
    pub(super) pid: u32,
}

impl Control<'_> {
    /// Starts the daemon and returns when it answers.
    pub(super) fn start(&self, cuda_name: &str) -> Result<(), MpsError> {
        let watch = self.watch_pipe();
        let mut command = self.command()?;
        command.arg(DAEMON).env("CUDA_DEVICE_ORDER", "PCI_BUS_ID").env("CUDA_VISIBLE_DEVICES", cuda_name);
        self.run(command, DAEMON, "")?;
        let deadline = Instant::now() + self.timeout;
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            match self.servers() {
                Err(MpsError::NotRunning) if left.is_zero() => {
                    let log = self.log.join("control.log");
                    let message = format!("it started, and did not answer; `{}` may say why", log.display());
                    return Err(MpsError::Failed { command: DAEMON.to_owned(), message });
                }
                Err(MpsError::NotRunning) => wait_for_change(watch.as_ref(), left.min(ASK_AGAIN)),
                answer => return answer.map(drop),
            }
        }
    }

    /// Ends the daemon and returns when it is gone. With clients it would first wait for them.
    pub(super) fn quit(&self) -> Result<(), MpsError> {
        let daemon = self.daemon();
        match self.ask("quit") {
            Ok(_) | Err(MpsError::NotRunning) => {}
            Err(error) => return Err(error),
        }
        match daemon {
            Some(daemon) if !ends_within(&daemon, self.timeout) => {
                Err(MpsError::Timeout { command: "quit".to_owned(), waited_seconds: self.timeout.as_secs_f64() })
            }
            _ => Ok(()),
        }
    }

    /// The servers that run: one, or none before the first client.
    pub(super) fn servers(&self) -> Result<Vec<u32>, MpsError> {
        pids("get_server_list", &self.ask("get_server_list")?)
    }

    /// The processes that compute through the servers.
    pub(super) fn clients(&self) -> Result<Vec<Client>, MpsError> {
        let mut clients = Vec::new();
        for server in self.servers()? {
            clients.extend(self.clients_of(server)?.into_iter().map(|pid| Client { server, pid }));
        }
        Ok(clients)
    }

    fn clients_of(&self, server: u32) -> Result<Vec<u32>, MpsError> {
        let command = format!("get_client_list {server}");
        match self.ask(&command) {
            Ok(answer) if answer.contains(NO_SERVER) => Ok(Vec::new()),
            Ok(answer) => pids(&command, &answer),
            Err(MpsError::Failed { message, .. }) if message.contains(NO_SERVER) => Ok(Vec::new()),
            Err(error) => Err(error),
        }
    }

    /// Takes a client's work off the GPU; whether there was any to take. The process itself lives on.
    pub(super) fn terminate(&self, client: Client) -> Result<bool, MpsError> {
        let command = format!("terminate_client {} {}", client.server, client.pid);
        let problem = match self.ask(&command) {
            Ok(answer) if ["", "0", "CUDA_SUCCESS"].contains(&answer.trim()) => return Ok(true),
            Ok(answer) => MpsError::Answer { command, answer: shown(&answer) },
            Err(error @ MpsError::Failed { .. }) => error,
            Err(error) => return Err(error),
        };
        // It may have ended by itself in between.
        if self.clients_of(client.server)?.contains(&client.pid) { Err(problem) } else { Ok(false) }
    }

    /// Whether the daemon's own record names a process that lives.
    pub(super) fn has_daemon(&self) -> bool {
        self.daemon().is_some_and(|daemon| !ends_within(&daemon, Duration::ZERO))
    }

    /// The daemon's process, if its record names one that lives.
    fn daemon(&self) -> Option<OwnedFd> {
        let text = std::fs::read_to_string(self.pipe.join(PID_FILE)).ok()?;
        let pid = text.trim().parse().ok().and_then(Pid::from_raw)?;
        rustix::process::pidfd_open(pid, PidfdFlags::empty()).ok()
    }

    /// Gives the daemon one command.
    fn ask(&self, command: &str) -> Result<String, MpsError> {
        self.run(self.command()?, command, &format!("{command}\n"))
    }

    /// The program with the environment that both starting and asking need, and nothing else that CUDA listens to: a limit in our
    /// own environment would become every job's.
    fn command(&self) -> Result<Command, MpsError> {
        let mut command = Command::new(find(self.program)?);
        for (name, _) in std::env::vars_os().filter(|(name, _)| name.as_encoded_bytes().starts_with(b"CUDA_")) {
            command.env_remove(name);
        }
        command.env("CUDA_MPS_PIPE_DIRECTORY", &self.pipe).env("CUDA_MPS_LOG_DIRECTORY", &self.log);
        // A group of its own: the daemon it starts must not end by a key pressed in our terminal, nor keep our directory in use.
        command.current_dir("/").process_group(0);
        Ok(command)
    }

    fn run(&self, mut command: Command, words: &str, input: &str) -> Result<String, MpsError> {
        let trouble = |source: io::Error| MpsError::File { action: "run", path: self.program.to_owned(), source };
        let mut stdin = memory_file().map_err(trouble)?;
        stdin.write_all(input.as_bytes()).and_then(|()| stdin.rewind()).map_err(trouble)?;
        let mut output = memory_file().map_err(trouble)?;
        command.stdin(stdin);
        command.stdout(output.try_clone().map_err(trouble)?).stderr(Stdio::from(output.try_clone().map_err(trouble)?));
        let child = command
            .spawn()
            .map_err(|error| MpsError::Program { program: self.program.display().to_string(), problem: error.to_string() })?;
        let Some(status) = end_of(child, self.timeout) else {
            return Err(MpsError::Timeout { command: words.to_owned(), waited_seconds: self.timeout.as_secs_f64() });
        };
        let mut said = Vec::new();
        output.rewind().and_then(|()| output.take(OUTPUT_BYTES_MAX).read_to_end(&mut said)).map_err(trouble)?;
        let said = String::from_utf8_lossy(&said).into_owned();
        if said.contains(NOT_RUNNING) {
            return Err(MpsError::NotRunning);
        }
        if !status.success() {
            let message = if said.trim().is_empty() { format!("{status}, without a word") } else { shown(&said) };
            return Err(MpsError::Failed { command: words.to_owned(), message });
        }
        Ok(said)
    }

    /// Told of what appears in the pipe directory; if that cannot be had, the daemon is only asked again and again.
    fn watch_pipe(&self) -> Option<OwnedFd> {
        let watch = inotify::init(inotify::CreateFlags::CLOEXEC | inotify::CreateFlags::NONBLOCK).ok()?;
        inotify::add_watch(&watch, &self.pipe, inotify::WatchFlags::CREATE).ok()?;
        Some(watch)
    }
}

/// The program itself: as given if the path has a slash, else the first of the name on the `PATH`.
pub(super) fn find(program: &Path) -> Result<PathBuf, MpsError> {
    find_on(program, &std::env::var_os("PATH").unwrap_or_default())
}

fn find_on(program: &Path, path: &OsStr) -> Result<PathBuf, MpsError> {
    let error = |problem: &str| MpsError::Program { program: program.display().to_string(), problem: problem.to_owned() };
    let runs = |file: &Path| file.is_file() && rustix::fs::access(file, rustix::fs::Access::EXEC_OK).is_ok();
    if program.as_os_str().as_encoded_bytes().contains(&b'/') {
        return match program {
            program if runs(program) => Ok(program.to_owned()),
            program if program.exists() => Err(error("it is no program that may be run")),
            _ => Err(error("there is no such file")),
        };
    }
    let found = std::env::split_paths(path).map(|folder| folder.join(program)).find(|file| runs(file));
    found.ok_or_else(|| error("it is in no directory of the `PATH`"))
}

fn memory_file() -> io::Result<File> {
    Ok(File::from(rustix::fs::memfd_create("rota-mps", MemfdFlags::CLOEXEC)?))
}

/// Waits for a child; one that takes longer is killed with all it started, and has no end to tell of.
fn end_of(mut child: Child, timeout: Duration) -> Option<ExitStatus> {
    let pid = Pid::from_child(&child);
    // The child has not been waited for: its number is still its own.
    if let Ok(pidfd) = rustix::process::pidfd_open(pid, PidfdFlags::empty()) {
        if ends_within(&pidfd, timeout)
            && let Ok(status) = child.wait()
        {
            return Some(status);
        }
        _ = rustix::process::kill_process_group(pid, Signal::KILL);
        _ = child.kill();
        if ends_within(&pidfd, KILLED_WAIT) {
            _ = child.wait();
            return None;
        }
    } else {
        _ = rustix::process::kill_process_group(pid, Signal::KILL);
        _ = child.kill();
    }
    // Stuck in the driver: someone must wait for it, or it stays in the table of processes.
    std::thread::spawn(move || child.wait());
    None
}

/// Whether a process ends in time.
fn ends_within(pidfd: &OwnedFd, timeout: Duration) -> bool {
    let deadline = Instant::now() + timeout;
    loop {
        let left = deadline.saturating_duration_since(Instant::now());
        match poll_one(pidfd, left) {
            Ok(0) | Err(Errno::INTR) if left.is_zero() => return false,
            Ok(0) | Err(Errno::INTR) => {}
            Ok(_) => return true,
            Err(_) => return false,
        }
    }
}

/// Waits until something happens in a watched directory, or for a while.
fn wait_for_change(watch: Option<&OwnedFd>, pause: Duration) {
    match watch {
        Some(watch) => {
            _ = poll_one(watch, pause);
            // What happened does not matter, only that it is not told again.
            while rustix::io::read(watch, &mut [0_u8; 4096]).is_ok_and(|bytes| bytes > 0) {}
        }
        None => std::thread::sleep(pause),
    }
}

fn poll_one(file: &OwnedFd, timeout: Duration) -> rustix::io::Result<usize> {
    let timeout = Timespec::try_from(timeout).map_err(|_| Errno::INVAL)?;
    rustix::event::poll(&mut [PollFd::from_borrowed_fd(file.as_fd(), PollFlags::IN)], Some(&timeout))
}

/// Process ids, one a line. Any other answer is an error, not an empty list.
fn pids(command: &str, answer: &str) -> Result<Vec<u32>, MpsError> {
    let lines = answer.lines().map(str::trim).filter(|line| !line.is_empty());
    let unexpected = || MpsError::Answer { command: command.to_owned(), answer: shown(answer) };
    lines.map(|line| line.parse().map_err(|_| unexpected())).collect()
}

/// What a program said, in one line that is not too long.
fn shown(said: &str) -> String {
    said.split_whitespace().collect::<Vec<_>>().join(" ").chars().take(MESSAGE_CHARACTERS_MAX).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_is_looked_for_on_the_path_and_must_be_one_that_runs() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::create_dir(folder.path().join("early")).unwrap();
        std::fs::write(folder.path().join("early/sh"), "a file, and no program").unwrap();
        let path = std::env::join_paths([folder.path().join("early"), "/bin".into()]).unwrap();
        assert_eq!(find_on(Path::new("sh"), &path).unwrap(), Path::new("/bin/sh"));
        assert_eq!(find_on(Path::new("/bin/sh"), OsStr::new("")).unwrap(), Path::new("/bin/sh"));

        let words = |program: &Path| find_on(program, &path).unwrap_err().to_string();
        let missing = words(Path::new("nvidia-cuda-mps-control"));
        assert!(missing.contains("`nvidia-cuda-mps-control`: it is in no directory of the `PATH`"), "{missing}");
        assert!(missing.contains("comes with NVIDIA's driver") && missing.contains("do without MPS"), "{missing}");
        assert!(words(Path::new("/nowhere/control")).contains("there is no such file"));
        assert!(words(&folder.path().join("early/sh")).contains("it is no program that may be run"));
    }

    #[test]
    fn an_answer_that_is_no_list_is_not_an_empty_one() {
        assert_eq!(pids("get_server_list", "12\n\n 345 \n").unwrap(), [12, 345]);
        assert_eq!(pids("get_server_list", "").unwrap(), [0_u32; 0]);
        let error = pids("get_server_list", "No idea\nwhat you mean").unwrap_err().to_string();
        assert_eq!(error, "`nvidia-cuda-mps-control` answered `get_server_list` with `No idea what you mean`");
    }

    #[test]
    fn a_long_complaint_is_cut() {
        assert_eq!(shown(&"word ".repeat(1000)).len(), MESSAGE_CHARACTERS_MAX);
    }
}
