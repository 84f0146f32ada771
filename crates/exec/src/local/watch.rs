//! Runs that are under way on this machine, and the thread that hears of their ends from the kernel.
//!
//! Each run that was started or adopted is in one table until its end is told. An end that cannot be read is read again, with pauses that
//! grow, until it can: whatever keeps it from being read passes or is put right, and a guess would not be taken back.

use std::collections::{BTreeSet, HashMap};
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::Sender;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use rustix::event::{EventfdFlags, Timespec, epoll, eventfd};

use crate::executor::{EventSink, ExecutorEvent, RunEnd, RunIdentity, RunKey, Stop, StopError};
use crate::local::launch::Supervisor;
use crate::local::mps::Work;
use crate::local::processes::identity::Identity;
use crate::local::run_directory::look::{Looked, look};

/// The first pause before a run is looked at again, and the longest.
const LOOK_AGAIN_MIN: Duration = Duration::from_millis(50);
const LOOK_AGAIN_MAX: Duration = Duration::from_secs(5);

/// How often it is tried again to watch the process of a claim.
const HOLD_AGAIN: Duration = Duration::from_secs(1);

/// The number that the bell has among the watched; all others are below.
const BELL: u64 = u64::MAX;

/// What is known of a run that is under way.
enum Phase {
    /// The run is being started, and may have been asked to stop.
    Starting { stop: Option<Stop> },
    /// The run's supervisor is alive.
    Alive(Supervisor),
    /// Whether the run is running, or how it ended, could not be read.
    Unread(Unread),
    /// The run has ended; its GPU is being made ready for others.
    Ending,
}

/// A run that is to be looked at again.
struct Unread {
    pause: Duration,
    /// Why the run's supervisor may never have come, if that is so.
    launch_problem: Option<String>,
    stop: Option<Stop>,
}

struct Tracked {
    phase: Phase,
    /// The device that the run shares through MPS.
    mps_device: Option<String>,
    /// The identity that the caller knows the run by.
    identity: Option<RunIdentity>,
}

/// The process that a claim is tied to.
struct Holder {
    pid: u32,
    token: u64,
    /// Open as long as the process is watched.
    _pidfd: OwnedFd,
}

#[derive(Clone, Copy)]
enum Subject {
    Run(RunKey),
    Holder(RunKey),
}

#[derive(Default)]
struct Table {
    runs: HashMap<RunKey, Tracked>,
    holders: HashMap<RunKey, Holder>,
    /// What each number given to the kernel stands for. Numbers are not used again, so late news cannot be mistaken.
    subjects: HashMap<u64, Subject>,
    next_token: u64,
    /// Runs to be looked at again, by time.
    unread: BTreeSet<(Instant, RunKey)>,
    /// Claims whose process could not be watched, to be tried again.
    unheld: HashMap<RunKey, Identity>,
}

/// Runs that are under way.
pub(crate) struct Watch {
    table: Mutex<Table>,
    epoll: OwnedFd,
    bell: OwnedFd,
    is_closed: AtomicBool,
    sink: EventSink,
    /// Where run directories are.
    jobs: PathBuf,
}

impl Watch {
    /// A watch over runs whose directories are below `jobs`, with a thread that tells of their ends. Ends of runs under MPS go to `works`
    /// first.
    pub(crate) fn start(jobs: PathBuf, sink: EventSink, works: Sender<Work>) -> io::Result<Arc<Self>> {
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        let bell = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        epoll::add(&epoll, &bell, epoll::EventData::new_u64(BELL), epoll::EventFlags::IN)?;
        let watch = Arc::new(Self { table: Mutex::default(), epoll, bell, is_closed: AtomicBool::new(false), sink, jobs });
        let watching = Arc::clone(&watch);
        std::thread::Builder::new().name("exits".to_owned()).spawn(move || watching.run(&works))?;
        Ok(watch)
    }

    /// Tells nothing from now on. Runs go on.
    pub(crate) fn close(&self) {
        self.is_closed.store(true, Ordering::SeqCst);
        self.ring();
    }

    /// Tells the caller something, unless the caller is gone.
    pub(crate) fn tell(&self, event: ExecutorEvent) {
        if !self.is_closed.load(Ordering::SeqCst) {
            (self.sink)(event);
        }
    }

    /// Where the files of a run are.
    pub(crate) fn dir(&self, run: RunKey) -> PathBuf {
        dir_in(&self.jobs, run)
    }

    fn lock(&self) -> MutexGuard<'_, Table> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn ring(&self) {
        // A bell that is full has been rung.
        _ = rustix::io::write(&self.bell, &1_u64.to_ne_bytes());
    }

    /// Takes a run into the table; false if it is there already.
    pub(crate) fn reserve(&self, run: RunKey, mps_device: Option<String>, identity: Option<RunIdentity>) -> bool {
        match self.lock().runs.entry(run) {
            std::collections::hash_map::Entry::Occupied(_) => false,
            std::collections::hash_map::Entry::Vacant(entry) => {
                entry.insert(Tracked { phase: Phase::Starting { stop: None }, mps_device, identity });
                true
            }
        }
    }

    /// Takes a run out of the table: it was not started.
    pub(crate) fn forget(&self, run: RunKey) {
        self.lock().runs.remove(&run);
    }

    /// Whether a run that is being started has been asked to stop.
    pub(crate) fn is_to_stop(&self, run: RunKey) -> bool {
        self.lock().runs.get(&run).is_some_and(|tracked| matches!(tracked.phase, Phase::Starting { stop: Some(_) }))
    }

    /// Watches the supervisor of a run of the table, and passes on to it a stop that came before. False if the kernel cannot watch it now:
    /// then the run is looked at again.
    pub(crate) fn follow(&self, run: RunKey, supervisor: Supervisor) -> bool {
        let mut table = self.lock();
        if self.add(&mut table, Subject::Run(run), supervisor.pidfd()).is_err() {
            drop(table);
            self.look_later(run, None);
            return false;
        }
        let Some(tracked) = table.runs.get_mut(&run) else { return true };
        let stop = match &tracked.phase {
            Phase::Starting { stop } => *stop,
            Phase::Unread(unread) => unread.stop,
            Phase::Alive(_) | Phase::Ending => None,
        };
        if let Some(how) = stop {
            // A supervisor that is gone has ended, which its record tells.
            _ = signal(&supervisor, how);
        }
        tracked.phase = Phase::Alive(supervisor);
        true
    }

    fn add(&self, table: &mut Table, subject: Subject, pidfd: impl AsFd) -> rustix::io::Result<u64> {
        let token = table.next_token;
        epoll::add(&self.epoll, pidfd, epoll::EventData::new_u64(token), epoll::EventFlags::IN | epoll::EventFlags::ONESHOT)?;
        table.next_token += 1;
        table.subjects.insert(token, subject);
        Ok(token)
    }

    /// Has a run of the table looked at again. `launch_problem` says why its supervisor may never have come.
    pub(crate) fn look_later(&self, run: RunKey, launch_problem: Option<String>) {
        let mut table = self.lock();
        let Table { runs, unread, .. } = &mut *table;
        let Some(tracked) = runs.get_mut(&run) else { return };
        let (pause, launch_problem, stop) = match &mut tracked.phase {
            Phase::Unread(before) => {
                ((before.pause * 2).min(LOOK_AGAIN_MAX), launch_problem.or(before.launch_problem.take()), before.stop)
            }
            Phase::Starting { stop } => (LOOK_AGAIN_MIN, launch_problem, *stop),
            Phase::Alive(_) | Phase::Ending => (LOOK_AGAIN_MIN, launch_problem, None),
        };
        let due = Instant::now() + pause;
        tracked.phase = Phase::Unread(Unread { pause, launch_problem, stop });
        unread.insert((due, run));
        drop(table);
        self.ring();
    }

    /// Asks a run to stop. Gives back the device that the run has to leave first, if it is under MPS.
    pub(crate) fn stop(&self, run: RunKey, how: Stop) -> Result<Option<String>, StopError> {
        let mut table = self.lock();
        let tracked = table.runs.get_mut(&run).ok_or(StopError::Unknown { run })?;
        match &mut tracked.phase {
            // A run that is told to leave leaves MPS by itself.
            Phase::Alive(_) if tracked.mps_device.is_some() && matches!(how, Stop::Gentle | Stop::AtOnce) => {
                return Ok(tracked.mps_device.clone());
            }
            Phase::Alive(supervisor) => signal(supervisor, how).map_err(|source| StopError::Unreached { run, source })?,
            Phase::Starting { stop } | Phase::Unread(Unread { stop, .. }) => {
                *stop = Some(if *stop == Some(Stop::AtOnce) { Stop::AtOnce } else { how });
            }
            Phase::Ending => {}
        }
        Ok(None)
    }

    /// Asks the supervisor of a run under MPS to stop it, after the run's processes were taken off the server.
    pub(crate) fn stop_now(&self, run: RunKey, how: Stop) {
        if let Some(Tracked { phase: Phase::Alive(supervisor), .. }) = self.lock().runs.get(&run) {
            // A supervisor that is gone has ended, which its record tells.
            _ = signal(supervisor, how);
        }
    }

    /// Whether a run is known to be running.
    pub(crate) fn is_alive(&self, run: RunKey) -> bool {
        self.lock().runs.get(&run).is_some_and(|tracked| matches!(tracked.phase, Phase::Alive(_)))
    }

    /// Whether a run that has not ended shares a device through MPS.
    pub(crate) fn is_shared(&self, uuid: &str) -> bool {
        let is_on = |tracked: &Tracked| tracked.mps_device.as_deref() == Some(uuid) && !matches!(tracked.phase, Phase::Ending);
        self.lock().runs.values().any(is_on)
    }

    /// The job that each watched process belongs to.
    pub(crate) fn jobs_by_pid(&self) -> HashMap<u32, u64> {
        let table = self.lock();
        let mut jobs = HashMap::new();
        let runs = table.runs.iter().filter_map(|(run, tracked)| match &tracked.phase {
            Phase::Alive(supervisor) => Some((supervisor.identity().pid, run.job)),
            _ => None,
        });
        for (pid, job) in runs.chain(table.holders.iter().map(|(run, holder)| (holder.pid, run.job))) {
            // A process may claim again what it gave back: the last claim counts.
            let last = jobs.entry(pid).or_insert(job);
            *last = (*last).max(job);
        }
        jobs
    }

    /// Watches the process that a claim is tied to, in place of the one before. False if the process is gone.
    pub(crate) fn hold(&self, run: RunKey, identity: &Identity) -> bool {
        let is_there = self.try_hold(run, identity);
        if self.lock().unheld.contains_key(&run) {
            self.ring();
        }
        is_there
    }

    /// A process that cannot be watched now is taken to be there, and tried again.
    fn try_hold(&self, run: RunKey, identity: &Identity) -> bool {
        let opened = identity.open();
        let mut table = self.lock();
        table.unheld.remove(&run);
        table.holders.remove(&run);
        let watched = match opened {
            Ok(None) => return false,
            Ok(Some(pidfd)) => {
                self.add(&mut table, Subject::Holder(run), &pidfd).map(|token| (token, pidfd)).map_err(io::Error::from)
            }
            Err(error) => Err(error),
        };
        if let Ok((token, pidfd)) = watched {
            table.holders.insert(run, Holder { pid: identity.pid, token, _pidfd: pidfd });
        } else {
            table.unheld.insert(run, identity.clone());
        }
        true
    }

    /// Tries again to watch the processes that could not be watched.
    fn hold_again(&self) {
        let unheld = std::mem::take(&mut self.lock().unheld);
        for (run, identity) in unheld {
            if !self.try_hold(run, &identity) {
                self.tell(ExecutorEvent::HolderGone { run });
            }
        }
    }

    fn run(&self, works: &Sender<Work>) {
        let mut events = Vec::with_capacity(256);
        loop {
            events.clear();
            let timeout = self
                .next_look()
                .map(|left| Timespec { tv_sec: left.as_secs().cast_signed(), tv_nsec: left.subsec_nanos().into() });
            match epoll::wait(&self.epoll, rustix::buffer::spare_capacity(&mut events), timeout.as_ref()) {
                Ok(_) | Err(rustix::io::Errno::INTR) => {}
                // A kernel without memory for this has some later; the ends wait.
                Err(_) => std::thread::sleep(LOOK_AGAIN_MIN),
            }
            if self.is_closed.load(Ordering::SeqCst) {
                return;
            }
            for event in &events {
                self.hear(event.data.u64(), works);
            }
            for run in self.take_due() {
                self.look(run, works);
            }
            self.hold_again();
        }
    }

    fn next_look(&self) -> Option<Duration> {
        let table = self.lock();
        let look = table.unread.first().map(|(due, _)| due.saturating_duration_since(Instant::now()));
        let hold = (!table.unheld.is_empty()).then_some(HOLD_AGAIN);
        look.into_iter().chain(hold).min()
    }

    fn take_due(&self) -> Vec<RunKey> {
        let mut table = self.lock();
        let now = Instant::now();
        let mut due = Vec::new();
        while let Some((_, run)) = table.unread.first().copied().filter(|(at, _)| *at <= now) {
            table.unread.pop_first();
            due.push(run);
        }
        due
    }

    fn hear(&self, token: u64, works: &Sender<Work>) {
        if token == BELL {
            let mut count = [0; 8];
            _ = rustix::io::read(&self.bell, &mut count);
            return;
        }
        let subject = self.lock().subjects.remove(&token);
        match subject {
            Some(Subject::Run(run)) => self.look(run, works),
            Some(Subject::Holder(run)) => {
                let mut table = self.lock();
                // A claim that was handed on has another process now.
                if table.holders.get(&run).is_some_and(|holder| holder.token == token) {
                    table.holders.remove(&run);
                    drop(table);
                    self.tell(ExecutorEvent::HolderGone { run });
                }
            }
            None => {}
        }
    }

    /// Sees what has become of a run whose supervisor is gone, or was never seen.
    fn look(&self, run: RunKey, works: &Sender<Work>) {
        let table = self.lock();
        let Some(tracked) = table.runs.get(&run) else { return };
        // Told at first, and then now and again.
        let (was_alive, launch_problem, is_to_be_told) = match &tracked.phase {
            Phase::Alive(_) => (true, None, true),
            Phase::Unread(unread) => {
                let is_to_be_told = unread.pause <= LOOK_AGAIN_MIN || unread.pause >= LOOK_AGAIN_MAX;
                (false, unread.launch_problem.clone(), is_to_be_told)
            }
            Phase::Starting { .. } | Phase::Ending => return,
        };
        let identity = tracked.identity.clone().filter(|_| !was_alive);
        drop(table);
        match look(&self.dir(run), identity.as_ref()) {
            Looked::Ended(RunEnd::NeverStarted) if launch_problem.is_some() => {
                self.finish(run, RunEnd::NotLaunched(launch_problem.unwrap_or_default()), works);
            }
            Looked::Ended(end) => self.finish(run, end, works),
            Looked::Alive(supervisor) if !was_alive => {
                if self.follow(run, supervisor) {
                    self.tell(ExecutorEvent::Running { run });
                }
            }
            Looked::Alive(_) => self.look_later(run, None),
            Looked::Later(problem) => {
                self.look_later(run, None);
                if is_to_be_told {
                    self.tell(ExecutorEvent::Unreadable { run, problem });
                }
            }
        }
    }

    /// Takes a run that has ended out of the table and tells of its end; a run under MPS leaves its GPU first.
    pub(crate) fn finish(&self, run: RunKey, end: RunEnd, works: &Sender<Work>) {
        let mut table = self.lock();
        let Some(tracked) = table.runs.get_mut(&run) else { return };
        if let Some(uuid) = tracked.mps_device.clone() {
            tracked.phase = Phase::Ending;
            drop(table);
            // Only a closed watch has nobody to send it to, and then nobody is told.
            _ = works.send(Work::Ended(run, end, uuid));
        } else {
            table.runs.remove(&run);
            drop(table);
            self.tell(ExecutorEvent::Ended { run, end });
        }
    }
}

/// Where the files of a run are, below the directory of all jobs.
pub(crate) fn dir_in(jobs: &Path, run: RunKey) -> PathBuf {
    jobs.join(run.job.to_string()).join(run.attempt.to_string())
}

fn signal(supervisor: &Supervisor, how: Stop) -> io::Result<()> {
    let sent = match how {
        Stop::Gentle => supervisor.stop(),
        Stop::AtOnce => supervisor.kill(),
        Stop::Notice => supervisor.notify(),
        Stop::Told => supervisor.begin_grace(),
    };
    match sent {
        // It has ended, which its record tells.
        Err(error) if error.raw_os_error() == Some(libc::ESRCH) => Ok(()),
        sent => sent,
    }
}
