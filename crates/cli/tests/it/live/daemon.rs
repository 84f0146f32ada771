//! A daemon for one test, on a folder of its own, which takes away everything it started.

use serde_json::Value;
use std::ffi::OsString;
use std::fs::File;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::net::UnixStream;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Output, Stdio};
use std::time::{Duration, Instant};

/// Nothing that is waited for here takes this long, even on a machine that does much else.
pub const PATIENCE: Duration = Duration::from_mins(1);

/// The program under test.
pub fn program() -> PathBuf {
    assert_cmd::cargo::cargo_bin!("rota").to_owned()
}

pub fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

/// Tells whoever reads the tests' output.
pub fn remark(text: &str) {
    // Nobody may be reading.
    _ = writeln!(std::io::stderr(), "{text}");
}

/// Waits until something holds, and says what did not if it never does.
pub fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let since = Instant::now();
    while !holds() {
        assert!(since.elapsed() < PATIENCE, "waited in vain until {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Ends a process of this test by its number.
pub fn kill(pid: u32, signal: rustix::process::Signal) {
    let pid = rustix::process::Pid::from_raw(i32::try_from(pid).unwrap()).unwrap();
    // It may have ended by itself.
    _ = rustix::process::kill_process(pid, signal);
}

/// Whether a process is there and not merely waiting to be asked how it ended.
pub fn is_alive(pid: u32) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit_once(')').is_some_and(|(_, rest)| !matches!(rest.trim_start().chars().next(), Some('Z' | 'X') | None))
}

/// What a file holds, once it holds a whole line.
pub fn line_of(path: &Path) -> String {
    let mut text = String::new();
    until(&format!("{} has a line", path.display()), || {
        text = std::fs::read_to_string(path).unwrap_or_default();
        text.ends_with('\n')
    });
    text.trim_end().to_owned()
}

/// A daemon and its state directory.
pub struct Daemon {
    pub folder: tempfile::TempDir,
    pub state: PathBuf,
    arguments: Vec<OsString>,
    variables: Vec<(OsString, OsString)>,
    /// What runs the daemon with other limits than this process has.
    wrapper: Vec<OsString>,
    child: Option<Child>,
    /// What it said when it was ready.
    pub greeting: String,
}

impl Daemon {
    /// With virtual GPUs.
    pub fn start(gpus: &str) -> Self {
        Self::with(&["--virtual-gpus", gpus], "", &[])
    }

    /// With virtual GPUs and settings.
    pub fn configured(gpus: &str, config: &str) -> Self {
        Self::with(&["--virtual-gpus", gpus], config, &[])
    }

    pub fn with(arguments: &[&str], config: &str, variables: &[(&str, &Path)]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let state = folder.path().join("state");
        let mut daemon = Self::at(folder, state, arguments, config, variables);
        daemon.up();
        daemon
    }

    /// One that is not running yet.
    pub fn at(folder: tempfile::TempDir, state: PathBuf, arguments: &[&str], config: &str, variables: &[(&str, &Path)]) -> Self {
        let mut arguments: Vec<OsString> = arguments.iter().map(OsString::from).collect();
        if !config.is_empty() {
            let path = folder.path().join("config.toml");
            std::fs::write(&path, config).unwrap();
            arguments.extend([OsString::from("--config"), path.into()]);
        }
        let variables = variables.iter().map(|(name, value)| (OsString::from(name), value.as_os_str().to_owned())).collect();
        Self { folder, state, arguments, variables, wrapper: Vec::new(), child: None, greeting: String::new() }
    }

    /// Another argument for the next start.
    pub fn add_argument(&mut self, argument: &str) {
        self.arguments.push(argument.into());
    }

    /// The next daemon finds other virtual GPUs.
    pub fn set_gpus(&mut self, gpus: &str) {
        let at = self.arguments.iter().position(|argument| argument == "--virtual-gpus").unwrap();
        self.arguments[at + 1] = gpus.into();
    }

    /// The next daemon may have so many files open, and no more.
    pub fn limit_files(&mut self, files: u64) {
        self.wrapper = vec!["prlimit".into(), format!("--nofile={files}:{files}").into()];
    }

    /// The next daemon may have so many files open, or as many more as this process may.
    pub fn limit_files_softly(&mut self, files: u64) {
        self.wrapper = vec!["prlimit".into(), format!("--nofile={files}:").into()];
    }

    /// The next daemon is started by this program.
    pub fn start_by(&mut self, words: &[&str]) {
        self.wrapper = words.iter().map(OsString::from).collect();
    }

    /// The daemon's command, to be started by whoever asks.
    pub fn command(&self) -> Command {
        let mut words = self.wrapper.iter().cloned().chain([program().into()]);
        let mut command = Command::new(words.next().unwrap());
        command.args(words);
        command.arg("up").arg("--foreground").arg("--state").arg(&self.state).args(&self.arguments);
        command.envs(self.variables.iter().map(|(name, value)| (name, value))).stdin(Stdio::null());
        command
    }

    /// Starts it, and does not wait until it is ready.
    pub fn launch(&mut self) {
        assert!(self.child.is_none(), "it runs already");
        let log = File::options().create(true).append(true).open(self.folder.path().join("daemon.log")).unwrap();
        self.child = Some(self.command().stdout(Stdio::piped()).stderr(log).spawn().unwrap());
    }

    /// Starts it, and waits until it is ready.
    pub fn up(&mut self) {
        self.launch();
        let stdout = self.child.as_mut().unwrap().stdout.take().unwrap();
        let mut line = String::new();
        BufReader::new(stdout).read_line(&mut line).unwrap();
        assert!(line.starts_with("rota is ready"), "it said: {line}{}", self.said());
        self.greeting = line;
    }

    /// What it wrote to stderr so far.
    pub fn said(&self) -> String {
        std::fs::read_to_string(self.folder.path().join("daemon.log")).unwrap_or_default()
    }

    pub fn pid(&self) -> u32 {
        self.child.as_ref().unwrap().id()
    }

    /// `kill -9`.
    pub fn kill(&mut self) {
        let mut child = self.child.take().unwrap();
        child.kill().unwrap();
        let status = child.wait().unwrap();
        assert_eq!(status.signal(), Some(9), "it had ended by itself: {status}: {}", self.said());
    }

    /// How it ended by itself.
    pub fn ended(&mut self) -> ExitStatus {
        self.child.take().unwrap().wait().unwrap()
    }

    pub fn restart(&mut self) {
        self.kill();
        self.up();
    }

    /// A call of the program about this daemon.
    pub fn call(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(program());
        command.args(arguments).env("ROTA_STATE", &self.state).env("COLUMNS", "100").current_dir(self.folder.path());
        // A job gets the environment it was submitted in.
        command.envs(self.variables.iter().map(|(name, value)| (name, value)));
        command
    }

    pub fn rota(&self, arguments: &[&str]) -> Output {
        self.call(arguments).output().unwrap()
    }

    /// Stdout of a call that must succeed.
    pub fn ok(&self, arguments: &[&str]) -> String {
        let output = self.rota(arguments);
        assert!(output.status.success(), "rota {arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    }

    /// Stderr of a call that must be refused with this exit code, with nothing on stdout.
    pub fn refusal(&self, code: i32, arguments: &[&str]) -> String {
        refused(code, &mut self.call(arguments))
    }

    pub fn json(&self, arguments: &[&str]) -> Value {
        serde_json::from_str(&self.ok(arguments)).unwrap()
    }

    /// Submits, and gives the job's number.
    pub fn submit(&self, arguments: &[&str]) -> u64 {
        let arguments = ["submit", "--json"].iter().chain(arguments).copied().collect::<Vec<_>>();
        self.json(&arguments)["id"].as_u64().unwrap()
    }

    /// Submits a line for the shell.
    pub fn shell(&self, options: &[&str], line: &str) -> u64 {
        let arguments = options.iter().chain(&["--", "sh", "-c", line]).copied().collect::<Vec<_>>();
        self.submit(&arguments)
    }

    pub fn show(&self, id: u64) -> Value {
        self.json(&["show", "--json", &id.to_string()])
    }

    pub fn state_of(&self, id: u64) -> String {
        self.show(id)["state"].as_str().unwrap().to_owned()
    }

    /// Waits until a job is in a state.
    pub fn until_state(&self, id: u64, state: &str) {
        let since = Instant::now();
        while self.state_of(id) != state {
            assert!(since.elapsed() < PATIENCE, "waited in vain until job {id} is {state}: {:#}", self.show(id));
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    /// The jobs when all of them are over.
    pub fn wait(&self, ids: &[u64]) -> Vec<Value> {
        let ids = ids.iter().map(ToString::to_string).collect::<Vec<_>>();
        let mut arguments = vec!["wait", "--json", "--timeout", "60"];
        arguments.extend(ids.iter().map(String::as_str));
        let output = self.rota(&arguments);
        serde_json::from_slice(&output.stdout)
            .unwrap_or_else(|_| panic!("{}\n{}", String::from_utf8_lossy(&output.stderr), self.ok(&["queue", "--all"])))
    }

    pub fn wait_one(&self, id: u64) -> Value {
        self.wait(&[id]).remove(0)
    }

    pub fn explain(&self, id: u64) -> Value {
        self.json(&["explain", "--json", &id.to_string()])
    }

    pub fn log(&self, id: u64) -> String {
        self.ok(&["logs", &id.to_string()])
    }

    /// A file beside the state directory.
    pub fn file(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// The run directory of an attempt.
    pub fn run_dir(&self, id: u64, attempt: u32) -> PathBuf {
        self.state.join("jobs").join(id.to_string()).join(attempt.to_string())
    }

    /// The supervisor of a job that runs.
    pub fn supervisor(&self, id: u64) -> u32 {
        let mut pid = 0;
        until(&format!("job {id} has a supervisor"), || {
            let taken = rota_exec::taken(&self.run_dir(id, 1)).ok().flatten();
            pid = taken.map_or(0, |taken| taken.supervisor.pid);
            pid != 0
        });
        pid
    }

    /// Asks the API for what no command line can ask, and gives the status and the answer.
    pub fn post(&self, path: &str, body: &[u8]) -> (u16, String) {
        self.request("POST", path, body)
    }

    /// The same with any method.
    pub fn request(&self, method: &str, path: &str, body: &[u8]) -> (u16, String) {
        let mut stream = UnixStream::connect(self.state.join("rota.sock")).unwrap();
        let head = format!(
            "{method} {path} HTTP/1.0\r\nhost: rota\r\ncontent-type: application/json\r\ncontent-length: {}\r\nconnection: close\r\n\r\n",
            body.len()
        );
        stream.write_all(head.as_bytes()).unwrap();
        // A daemon that has read enough to refuse may not read the rest.
        _ = stream.write_all(body);
        let mut answer = Vec::new();
        _ = stream.read_to_end(&mut answer);
        let answer = String::from_utf8_lossy(&answer).into_owned();
        let status = answer.split_whitespace().nth(1).and_then(|word| word.parse().ok()).unwrap_or(0);
        (status, answer.split_once("\r\n\r\n").map_or_else(String::new, |(_, body)| body.to_owned()))
    }

    /// Every run directory there is.
    fn run_dirs(&self) -> Vec<PathBuf> {
        let inside = |dir: &Path| {
            std::fs::read_dir(dir).map_or_else(|_| Vec::new(), |entries| entries.flatten().map(|entry| entry.path()).collect())
        };
        inside(&self.state.join("jobs")).iter().flat_map(|job| inside(job)).collect()
    }
}

impl Drop for Daemon {
    /// Nothing of a test may outlive it: first the daemon, which would start more, then the jobs by their supervisors.
    fn drop(&mut self) {
        if let Some(mut child) = self.child.take() {
            _ = child.kill();
            _ = child.wait();
        }
        for dir in self.run_dirs() {
            if let Ok(rota_exec::Adopted::Running(supervisor)) = rota_exec::adopt(&dir) {
                _ = supervisor.kill();
                let since = Instant::now();
                while is_alive(supervisor.identity().pid) && since.elapsed() < Duration::from_secs(10) {
                    std::thread::sleep(Duration::from_millis(2));
                }
            }
            rota_exec::kill_leftovers(&dir);
        }
        if std::thread::panicking() {
            let mut stderr = std::io::stderr().lock();
            _ = writeln!(stderr, "the daemon said: {}", self.said());
        }
    }
}

/// Stderr of a command that must be refused with this exit code, with nothing on stdout.
pub fn refused(code: i32, command: &mut Command) -> String {
    let output = command.output().unwrap();
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(code), "{command:?}: {stderr}");
    assert!(output.stdout.is_empty(), "{command:?} printed data: {}", String::from_utf8_lossy(&output.stdout));
    stderr
}

/// Random numbers of a seed, which a failing test prints.
pub struct Dice(u64);

impl Dice {
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// A number below a bound, by splitmix64.
    pub fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)) % bound
    }
}

/// The number in an environment variable, or another.
pub fn number_in(variable: &str, otherwise: u64) -> u64 {
    std::env::var(variable).ok().and_then(|text| text.parse().ok()).unwrap_or(otherwise)
}
