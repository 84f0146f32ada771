//! Simulations that users ask the daemon for. Each is a process of its own, this program's `sim`, with low priority and bounded in
//! time and memory. Its user, its time limit or the end of the daemon ends it.

use crate::api::{Simulation, SimulationStarted, SimulationState};
use crate::machine::platform::{Caller, Refusal, RefusalKind};
use rustix::process::{Pid, Resource, Rlimit, Signal};
use std::collections::BTreeMap;
use std::fs::{DirBuilder, File};
use std::io::{self, BufRead, BufReader};
use std::os::unix::fs::DirBuilderExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// The longest one may take.
const TIME_MAX: Duration = Duration::from_mins(10);
/// The most that go on at once.
const RUNNING_MAX: usize = 4;
/// The most that are kept with their results.
const KEPT_MAX: usize = 32;
/// For how long these are kept at least until room is needed, and at most.
const KEPT_FOR: Duration = Duration::from_hours(1);
/// The most memory one may use.
const MEMORY_BYTES_MAX: u64 = 4 << 30;
/// The niceness of the simulations' processes.
const NICENESS: i32 = 10;
/// The most of what one says that is kept.
const WORDS_BYTES_MAX: usize = 4096;
/// The interval at which a process is checked.
const LOOK_EVERY: Duration = Duration::from_millis(20);

/// The file with the jobs, in the folder of a simulation.
pub const TRACE: &str = "trace";
/// The file with the machine.
pub const CLUSTER: &str = "cluster.toml";

/// The file with the events that really happened, one JSON value a line, where the jobs are those of this queue.
pub const HAPPENED_EVENTS: &str = "happened.jsonl";
/// The file with the machine that they happened on.
pub const HAPPENED_CLUSTER: &str = "happened.toml";
/// The file with the summary of what happened, which the simulation writes.
pub const HAPPENED_SUMMARY: &str = "happened.json";

/// Writes something into a folder, or says why it cannot.
pub type Prepare = Box<dyn FnOnce(&Path) -> Result<(), String> + Send>;

/// A simulation that a user asked for.
pub struct SimulationPlan {
    /// The policies to compare.
    pub policies: Vec<String>,
    /// The format of the trace, if that is known.
    pub format: Option<String>,
    /// Speeds of job types, where they are not those that come with Rota.
    pub throughputs: Option<PathBuf>,
    /// The seed of all random numbers.
    pub seed: u64,
    /// Writes [`TRACE`] and [`CLUSTER`] into a folder.
    pub prepare: Prepare,
}

/// The simulations of all users.
pub struct Simulations {
    program: PathBuf,
    /// What the site knows of the speeds of job types beside others.
    pub throughputs: Option<PathBuf>,
    folder: PathBuf,
    all: Mutex<BTreeMap<u64, Arc<Task>>>,
}

struct Task {
    id: u64,
    uid: u32,
    policies: Vec<String>,
    folder: PathBuf,
    status: Mutex<TaskStatus>,
}

/// The state of a simulation.
struct TaskStatus {
    state: SimulationState,
    progress: Option<f64>,
    error: Option<String>,
    results: Vec<serde_json::Value>,
    happened: Option<serde_json::Value>,
    child: Option<Child>,
    ended: Option<Instant>,
}

impl Simulations {
    /// Starts without simulations, and removes the files that an earlier daemon left.
    pub fn new(program: PathBuf, state_dir: &Path, throughputs: Option<&Path>) -> io::Result<Self> {
        let folder = state_dir.join("simulations");
        match std::fs::remove_dir_all(&folder) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        DirBuilder::new().mode(0o700).create(&folder)?;
        // They run in folders of their own.
        let throughputs = throughputs.map(Path::canonicalize).transpose()?;
        Ok(Self { program, throughputs, folder, all: Mutex::default() })
    }

    fn all(&self) -> MutexGuard<'_, BTreeMap<u64, Arc<Task>>> {
        self.all.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Begins a simulation for the caller.
    pub fn begin(&self, plan: SimulationPlan, caller: &Caller) -> Result<SimulationStarted, Refusal> {
        let mut all = self.all();
        make_room(&mut all);
        let running = || all.values().filter(|task| task.status().state == SimulationState::Running);
        if running().any(|task| task.uid == caller.uid) {
            let message = "you have a simulation going on: wait until it is over, or stop it";
            return Err(Refusal::new(RefusalKind::TooMany, message));
        }
        if running().count() >= RUNNING_MAX {
            let message = format!("{RUNNING_MAX} simulations of others go on, which is the most: try again when one is over");
            return Err(Refusal::new(RefusalKind::TooMany, message));
        }
        // A number of an earlier daemon's must not name another one now.
        let now_ms = (crate::clock::wall_ns() / 1_000_000).cast_unsigned();
        let id = all.last_key_value().map_or(now_ms, |(last, _)| now_ms.max(last + 1));
        let folder = self.folder.join(id.to_string());
        let unavailable = |error: io::Error| Refusal::new(RefusalKind::Unavailable, format!("beginning a simulation: {error}"));
        DirBuilder::new().mode(0o700).create(&folder).map_err(unavailable)?;
        let status = TaskStatus {
            state: SimulationState::Running,
            progress: None,
            error: None,
            results: Vec::new(),
            happened: None,
            child: None,
            ended: None,
        };
        let task = Arc::new(Task { id, uid: caller.uid, policies: plan.policies.clone(), folder, status: Mutex::new(status) });
        let (program, runner) = (self.program.clone(), Arc::clone(&task));
        std::thread::Builder::new()
            .name(format!("simulation {id}"))
            .spawn(move || runner.run(&program, plan))
            .map_err(unavailable)?;
        all.insert(id, task);
        Ok(SimulationStarted { id })
    }

    /// A simulation of the caller's; an administrator may see all.
    fn find(&self, id: u64, caller: &Caller) -> Result<Arc<Task>, Refusal> {
        let task = self.all().get(&id).filter(|task| caller.is_admin || task.uid == caller.uid).cloned();
        task.ok_or_else(|| {
            Refusal::new(RefusalKind::NotFound, format!("there is no simulation {id} of yours; results are kept for an hour"))
        })
    }

    /// The state of a simulation, with its results if it is done.
    pub fn show(&self, id: u64, caller: &Caller) -> Result<Simulation, Refusal> {
        let task = self.find(id, caller)?;
        let status = task.status();
        Ok(Simulation {
            id,
            state: status.state,
            progress: status.progress,
            policies: task.policies.clone(),
            error: status.error.clone(),
            results: status.results.clone(),
            happened: status.happened.clone(),
        })
    }

    /// The chart of one of its policies as a picture (`svg`) or as bars (`json`); after the policies comes what really happened.
    pub fn chart(&self, id: u64, index: usize, ending: &str, caller: &Caller) -> Result<Vec<u8>, Refusal> {
        let task = self.find(id, caller)?;
        std::fs::read(task.folder.join(format!("{index}.{ending}"))).map_err(|_| {
            let message = format!(
                "simulation {id} has no chart {index}: it has {} policies, and charts when it is done",
                task.policies.len()
            );
            Refusal::new(RefusalKind::NotFound, message)
        })
    }

    /// Stops a simulation that runs, or forgets one that is over.
    pub fn stop(&self, id: u64, caller: &Caller) -> Result<(), Refusal> {
        let task = self.find(id, caller)?;
        if !task.stop() {
            self.all().remove(&id);
            task.remove_files();
        }
        Ok(())
    }

    /// Stops all simulations, because the daemon ends.
    pub fn stop_all(&self) {
        for task in self.all().values() {
            task.stop();
        }
        // What is left is removed by the next daemon.
        _ = std::fs::remove_dir_all(&self.folder);
    }
}

/// Forgets those that ended long ago, and the oldest where there are too many.
fn make_room(all: &mut BTreeMap<u64, Arc<Task>>) {
    let is_over = |task: &Task| task.status().ended.is_some();
    let is_old = |task: &Task| task.status().ended.is_some_and(|ended| ended.elapsed() > KEPT_FOR);
    let mut gone = all.values().filter(|task| is_old(task)).map(|task| task.id).collect::<Vec<_>>();
    let surplus = (all.len() - gone.len() + 1).saturating_sub(KEPT_MAX);
    let oldest = all.values().filter(|task| is_over(task) && !is_old(task)).map(|task| task.id).take(surplus);
    gone.extend(oldest.collect::<Vec<_>>());
    for id in gone {
        if let Some(task) = all.remove(&id) {
            task.remove_files();
        }
    }
}

impl Task {
    fn status(&self) -> MutexGuard<'_, TaskStatus> {
        self.status.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn remove_files(&self) {
        // What cannot be removed now is removed by the next daemon.
        _ = std::fs::remove_dir_all(&self.folder);
    }

    /// Stops the simulation; says whether it was still running.
    fn stop(&self) -> bool {
        let mut status = self.status();
        let goes_on = status.state == SimulationState::Running;
        if goes_on {
            status.state = SimulationState::Cancelled;
            status.end();
        }
        goes_on
    }

    /// Runs the simulation, and keeps its results or its error.
    fn run(&self, program: &Path, plan: SimulationPlan) {
        let outcome = self.simulate(program, plan);
        let mut status = self.status();
        status.child = None;
        status.ended = Some(Instant::now());
        if status.state == SimulationState::Running {
            match outcome {
                Ok(results) => {
                    status.state = SimulationState::Done;
                    status.progress = Some(1.0);
                    status.results = results;
                    let happened = std::fs::read(self.folder.join(HAPPENED_SUMMARY)).ok();
                    status.happened = happened.and_then(|text| serde_json::from_slice(&text).ok());
                }
                Err(problem) => {
                    status.state = SimulationState::Failed;
                    status.error = Some(problem);
                }
            }
        }
        // Only the charts are asked for again.
        for file in [TRACE, CLUSTER, "results.json", HAPPENED_EVENTS, HAPPENED_CLUSTER, HAPPENED_SUMMARY] {
            _ = std::fs::remove_file(self.folder.join(file));
        }
    }

    fn simulate(&self, program: &Path, plan: SimulationPlan) -> Result<Vec<serde_json::Value>, String> {
        let begun = Instant::now();
        (plan.prepare)(&self.folder)?;
        self.hand_over().map_err(|error| format!("its folder: {error}"))?;
        let results = self.folder.join("results.json");
        let output = File::create(&results).map_err(|error| error.to_string())?;
        let mut command = Command::new(program);
        command.arg("sim").args(["--json", "--served", ".", "--trace", TRACE, "--cluster", CLUSTER, "--jobs-parallel", "2"]);
        command.arg("--seed").arg(plan.seed.to_string());
        // A policy or a format must not be taken for an option.
        command.args(plan.policies.iter().map(|policy| format!("--policy={policy}")));
        command.args(plan.format.iter().map(|format| format!("--format={format}")));
        command.args(plan.throughputs.iter().flat_map(|table| [std::ffi::OsStr::new("--throughputs"), table.as_os_str()]));
        command.env_clear().current_dir(&self.folder).process_group(0);
        command.stdin(Stdio::piped()).stdout(output).stderr(Stdio::piped());
        let words = {
            let mut status = self.status();
            if status.state != SimulationState::Running {
                return Err("it was stopped".to_owned());
            }
            let mut child = command.spawn().map_err(|error| format!("{}: {error}", program.display()))?;
            restrain(&child);
            let words = child.stderr.take();
            status.child = Some(child);
            words
        };
        let said = std::thread::scope(|scope| {
            let reader = words.map(|words| scope.spawn(|| self.listen(BufReader::new(words))));
            let ended = self.wait(begun);
            let said = reader.and_then(|reader| reader.join().ok()).unwrap_or_default();
            ended.map(|status| (status, said))
        });
        let (status, said) = said?;
        if !status.success() {
            return Err(complaint(&said, status));
        }
        let text = std::fs::read(&results).map_err(|error| error.to_string())?;
        let value = serde_json::from_slice(&text).map_err(|error| format!("its results cannot be read: {error}"))?;
        Ok(match value {
            serde_json::Value::Array(results) => results,
            single => vec![single],
        })
    }

    /// Gives the folder to the user who asked: the process of a root daemon goes on with the rights of the folder's owner.
    fn hand_over(&self) -> io::Result<()> {
        if rustix::process::geteuid().is_root() && self.uid != 0 {
            for entry in std::fs::read_dir(&self.folder)? {
                std::os::unix::fs::lchown(entry?.path(), Some(self.uid), None)?;
            }
            std::os::unix::fs::lchown(&self.folder, Some(self.uid), None)?;
        }
        Ok(())
    }

    /// Waits for the end of the process, and sees to its coming in time.
    fn wait(&self, begun: Instant) -> Result<ExitStatus, String> {
        let mut is_late = false;
        loop {
            {
                let mut status = self.status();
                let child = status.child.as_mut().ok_or("its process is gone")?;
                match child.try_wait() {
                    Ok(Some(_)) if is_late => {
                        return Err(format!("it took longer than the {} minutes it may take", TIME_MAX.as_secs() / 60));
                    }
                    Ok(Some(status)) => return Ok(status),
                    Ok(None) => {}
                    Err(error) => return Err(error.to_string()),
                }
                if !is_late && begun.elapsed() > TIME_MAX {
                    is_late = true;
                    status.end();
                }
            }
            std::thread::sleep(LOOK_EVERY);
        }
    }

    /// Takes in progress, and returns the end of whatever else is said.
    fn listen(&self, words: impl BufRead) -> String {
        let mut said = String::new();
        for line in words.split(b'\n').map_while(Result::ok) {
            let line = String::from_utf8_lossy(&line);
            match serde_json::from_str::<serde_json::Value>(&line).ok().and_then(|value| value.get("progress")?.as_f64()) {
                Some(progress) => self.status().progress = Some(progress.clamp(0.0, 1.0)),
                None => said = shortened(&(said + &line + "\n")),
            }
        }
        said
    }
}

impl TaskStatus {
    /// Kills the process. Its number cannot belong to another process before it has been waited for.
    fn end(&mut self) {
        if let Some(child) = &self.child {
            _ = rustix::process::kill_process_group(Pid::from_child(child), Signal::KILL);
        }
    }
}

/// Lowers the priority of a process and limits its memory. Where the system refuses, its time is bounded all the same.
fn restrain(child: &Child) {
    let pid = Pid::from_child(child);
    _ = rustix::process::setpriority_process(Some(pid), NICENESS);
    let limit = Rlimit { current: Some(MEMORY_BYTES_MAX), maximum: Some(MEMORY_BYTES_MAX) };
    _ = rustix::process::prlimit(Some(pid), Resource::As, limit);
}

/// The end of a text, from the beginning of a line where there is one.
fn shortened(text: &str) -> String {
    if text.len() <= WORDS_BYTES_MAX {
        return text.to_owned();
    }
    let mut from = text.len() - WORDS_BYTES_MAX;
    while !text.is_char_boundary(from) {
        from += 1;
    }
    let rest = &text[from..];
    rest.split_once('\n').filter(|(_, rest)| !rest.is_empty()).map_or(rest, |(_, rest)| rest).to_owned()
}

/// Why a process failed: what it said last, without what it remarked before.
fn complaint(said: &str, status: ExitStatus) -> String {
    let from = said.rfind("rota: ").map(|at| at + "rota: ".len());
    let words = from.map_or(said, |from| &said[from..]).trim();
    if words.contains("memory allocation of") {
        return format!(
            "it needs more than the {} GiB of memory it may use: take a smaller trace or cluster",
            MEMORY_BYTES_MAX >> 30
        );
    }
    if words.is_empty() { format!("the simulation ended without a word: {status}") } else { words.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::process::ExitStatusExt;

    #[test]
    fn what_went_wrong_is_said_without_remarks() {
        let status = ExitStatus::from_raw(2 << 8);
        assert_eq!(complaint("skipped 2 bad lines:\nrota: trace: line 3: no\n  more\n", status), "trace: line 3: no\n  more");
        assert_eq!(complaint("thread panicked\n", status), "thread panicked");
        assert!(complaint("", status).contains("exit status: 2"));
        assert!(complaint("memory allocation of 99 bytes failed", status).contains("4 GiB"));
    }

    #[test]
    fn only_the_end_of_a_long_speech_is_kept() {
        let long = "x".repeat(WORDS_BYTES_MAX) + "\nthe end\n";
        assert_eq!(shortened(&long), "the end\n");
        assert_eq!(shortened("short"), "short");
        assert!(shortened(&"é".repeat(WORDS_BYTES_MAX)).len() <= WORDS_BYTES_MAX);
    }
}
