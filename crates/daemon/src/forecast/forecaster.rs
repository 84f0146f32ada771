//! The thread that makes forecasts. It takes at most about a tenth of one processor, and the queue never waits for it.

use crate::api::{EarlierPredictions, Prediction, Predictions};
use crate::clock::rfc3339;
use crate::forecast::changes::thread_time;
use crate::forecast::fork::{QueueFork, wall_of};
use crate::forecast::learned::{Learned, SharedLearned};
use crate::forecast::recent::Recent;
use crate::machine::inventory::CPU;
use crate::machine::platform::Message;
use crate::queue::estimates::Estimates;
use crate::store::Archive;
use crate::store::record::JobRecord;
use crate::view::board::Board;
use rota_core::{Phase, Time};
use rota_forecast::{Calibration, Forecast, ForecastOptions, Fork, Said, TurnedOut};
use std::collections::{HashMap, HashSet};
use std::io;
use std::sync::Arc;
use std::sync::mpsc::{Sender, channel};
use std::time::{Duration, Instant};

/// The thread looks so often whether anything has happened.
const LOOK_EVERY: Duration = Duration::from_millis(500);
/// While the queue changes from look to look, a forecast is made only so often: it would be old before it is read.
const BUSY_EVERY: Duration = Duration::from_secs(5);
/// While nothing happens, a forecast is made anew so often: jobs that run on are believed to be longer and longer.
const RENEW_EVERY: Duration = Duration::from_secs(30);
/// A forecast whose first start has passed without a start is made anew, but no sooner than this after it was made.
const LATE_MIN: Duration = Duration::from_secs(2);
/// The thread rests so many times as long as a forecast took.
const REST: u32 = 9;
/// Draws of one forecast end after so much time on a processor.
const TIME_MAX: Duration = Duration::from_secs(2);
/// On a busy machine the draws end after this time at the latest, and a forecast that has too few of them by twice this time is dropped:
/// it holds a copy of the queue.
const WAIT_MAX: Duration = Duration::from_secs(5);
/// A forecast is dropped when so many events, beside half as many as there are jobs, have made its copy of the queue old.
const EVENTS_MAX: u64 = 500;
/// Longer queues, counting the jobs that run, are not run forward: a copy of them takes memory, and a forecast minutes.
pub const JOBS_MAX: usize = 12_000;
/// The thread gives way to all others.
const NICE: i32 = 10;

/// Why a job does not start when nothing of Rota's is in its way.
pub const GPUS_AWAY: &str = "too many of the GPUs it could use are drained, lost, or held by others than Rota's jobs";

/// Starts the thread. It ends with the daemon.
pub fn start(
    board: Arc<Board>,
    archive: Archive,
    inbox: Sender<Message>,
    learned: SharedLearned,
    estimates: Estimates,
) -> io::Result<()> {
    let forecaster = Forecaster {
        board,
        archive,
        inbox,
        learned,
        lessons: Lessons {
            estimates,
            gpu_types: Vec::new(),
            recent: Recent::default(),
            calibration: Calibration::default(),
            said: HashMap::new(),
        },
        first_start: None,
    };
    std::thread::Builder::new().name("forecasts".to_owned()).spawn(move || forecaster.run()).map(drop)
}

/// What came of asking for a copy of the queue.
enum Asked {
    /// The queue handed out a copy of itself.
    Fork(Box<QueueFork>),
    /// The queue has something else to do first.
    Busy,
    /// The daemon ends.
    Over,
}

struct Forecaster {
    board: Arc<Board>,
    archive: Archive,
    inbox: Sender<Message>,
    learned: SharedLearned,
    lessons: Lessons,
    /// The time from the last forecast to the first start that it expects. When no job has started by then, it is made anew.
    first_start: Option<Duration>,
}

/// What jobs taught beside their lengths.
struct Lessons {
    estimates: Estimates,
    /// The GPU types of this machine, as they were at the last forecast.
    gpu_types: Vec<Box<str>>,
    recent: Recent,
    calibration: Calibration,
    /// What was first said of each job that waits.
    said: HashMap<u64, Said>,
}

impl Lessons {
    /// Takes in a job that waits, runs or is over.
    fn take_in(&mut self, record: &JobRecord, learned: &mut Learned) {
        self.recent.take_in(record, &self.estimates, &self.gpu_types, learned);
        let Some(start) = record.started_at else { return };
        if let Some(said) = self.said.remove(&record.id) {
            self.calibration.learn(&said, Time(start));
        }
    }

    /// Corrects forecasts by how earlier ones turned out, and remembers what is said of jobs for the first time.
    fn calibrate(&mut self, fork: &Fork, forecasts: &mut [Forecast]) {
        for forecast in forecasts.iter_mut() {
            let (Some(low), Some(middle), Some(high)) = (forecast.start_p10, forecast.start_p50, forecast.start_p90) else {
                continue;
            };
            let said = self.calibration.said(fork.now, [low, middle, high]);
            // Each end moves with its start.
            let moved = |end: Option<Time>, place: usize| Some(said.corrected[place] + end?.since(said.drawn[place]));
            forecast.end_p50 = moved(forecast.end_p50, 1);
            forecast.end_p10 = moved(forecast.end_p10, 0).min(forecast.end_p50);
            forecast.end_p90 = moved(forecast.end_p90, 2).max(forecast.end_p50);
            [forecast.start_p10, forecast.start_p50, forecast.start_p90] = said.corrected.map(Some);
            self.said.entry(forecast.number).or_insert(said);
        }
        // Jobs that were cancelled before they started teach nothing.
        let known = fork.numbers.iter().copied().collect::<HashSet<_>>();
        self.said.retain(|number, _| known.contains(number));
        self.said.shrink_to(2 * self.said.len());
    }
}

impl Forecaster {
    fn run(mut self) {
        // Without it the thread is as important as others.
        _ = rustix::process::setpriority_process(None, NICE);
        let (mut seen, mut made_at) = (None, Instant::now());
        let mut looked = self.board.told();
        loop {
            std::thread::sleep(LOOK_EVERY);
            let told = self.board.told();
            let is_quiet = std::mem::replace(&mut looked, told) == told;
            let is_same = seen == Some(told);
            let pause = if is_same { RENEW_EVERY } else { BUSY_EVERY };
            let is_late = is_quiet && is_same && self.first_start.is_some_and(|start| made_at.elapsed() >= start);
            if (is_same || !is_quiet) && !is_late && made_at.elapsed() < pause {
                continue;
            }
            let jobs = self.board.read().jobs.len();
            if jobs > JOBS_MAX {
                let note = format!("{jobs} jobs wait or run: starts are predicted for queues of up to {JOBS_MAX}");
                self.board.predict(Predictions { note: Some(note), ..Predictions::default() });
                seen = Some(told);
                continue;
            }
            let began = thread_time();
            // Most of it before the queue is copied: the copy is held no longer than it is needed.
            if !self.lessons.gpu_types.is_empty() {
                self.read_ended();
            }
            match self.fork() {
                Asked::Fork(fork) => self.forecast(*fork),
                Asked::Busy => continue,
                Asked::Over => return,
            }
            (seen, made_at) = (Some(told), Instant::now());
            std::thread::sleep(thread_time().saturating_sub(began) * REST);
        }
    }

    /// Asks for a copy of the queue.
    fn fork(&self) -> Asked {
        let (asker, answer) = channel();
        if self.inbox.send(Message::Fork(asker)).is_err() {
            return Asked::Over;
        }
        answer.recv().map_or(Asked::Busy, |fork| Asked::Fork(Box::new(fork)))
    }

    /// Learns from the jobs that have ended since the last time. Those that cannot be read now are read next time; what was learned before
    /// still holds.
    fn read_ended(&mut self) {
        let Self { archive, lessons, learned, .. } = self;
        _ = learned.lock().read(archive, |learned, record| lessons.take_in(record, learned));
        archive.rest();
    }

    fn forecast(&mut self, queue: QueueFork) {
        let (told, began, since) = (self.board.told(), thread_time(), Instant::now());
        let types = queue.engine.state.bound.cluster.types.iter().map(|kind| kind.name.as_str());
        let is_first = self.lessons.gpu_types.is_empty();
        self.lessons.gpu_types = types.filter(|name| *name != CPU).map(Box::from).collect();
        // Later, jobs that ended since the queue was copied are read before the next copy: here they still run.
        if is_first {
            self.read_ended();
        }
        let lengths = {
            let mut learned = self.learned.lock();
            queue.records.iter().flatten().for_each(|record| self.lessons.take_in(record, &mut learned));
            for (record, seconds) in queue.running() {
                learned.ran(record, seconds);
                self.lessons.recent.runs(record.id, seconds);
            }
            queue.lengths(&learned)
        };
        let recent = self.lessons.recent.pool(queue.now);
        let (now, wall_ns, records) = (queue.now, queue.wall_ns, queue.records.clone());
        let fork = queue.into_fork(lengths, recent);
        let has_time = || thread_time().saturating_sub(began) < TIME_MAX && since.elapsed() < WAIT_MAX;
        let is_wanted = || is_current(self.board.told() - told, records.len(), since.elapsed());
        let Some(mut forecasts) = fork.starts_while(&ForecastOptions::default(), &has_time, &is_wanted) else { return };
        self.lessons.calibrate(&fork, &mut forecasts);
        let first = forecasts.iter().filter_map(|forecast| forecast.start_p50).min();
        self.first_start = first.map(|start| Duration::from_nanos(start.since(now).0).max(LATE_MIN));
        let when = |time: Time| rfc3339(wall_of(time, now, wall_ns));
        let mut jobs = forecasts.iter().map(|forecast| prediction(&fork, &records, forecast, &when)).collect::<Vec<_>>();
        jobs.sort_by_key(|job| job.position);
        let learned_from = self.learned.lock().jobs();
        let earlier = self.lessons.calibration.turned_out().map(|TurnedOut { jobs, coverage_p10_p90, error_median_s }| {
            EarlierPredictions { jobs, coverage_p10_p90, error_median_s }
        });
        self.board.predict(Predictions { made_at: Some(rfc3339(wall_ns)), learned_from, earlier, note: None, jobs });
    }
}

/// Whether a forecast is still worth its copy of the queue, after so many events and so much time.
fn is_current(events: u64, jobs: usize, waited: Duration) -> bool {
    events <= EVENTS_MAX + jobs as u64 / 2 && waited < WAIT_MAX * 2
}

type Records = [Option<Arc<JobRecord>>];

fn prediction(fork: &Fork, records: &Records, forecast: &Forecast, when: &dyn Fn(Time) -> String) -> Prediction {
    let note = forecast.start_p50.is_none().then(|| why_unknown(fork, records, forecast));
    Prediction {
        id: forecast.number,
        position: forecast.position,
        start_p10: forecast.start_p10.map(when),
        start_p50: forecast.start_p50.map(when),
        start_p90: forecast.start_p90.map(when),
        end_p10: forecast.end_p10.map(when),
        end_p50: forecast.end_p50.map(when),
        end_p90: forecast.end_p90.map(when),
        depends_on: forecast.depends_on.clone(),
        note,
    }
}

/// Why the start of a job is not known, in words.
fn why_unknown(fork: &Fork, records: &Records, forecast: &Forecast) -> String {
    let state = &fork.engine.state;
    let row = fork.numbers.iter().position(|number| *number == forecast.number);
    let record = row.and_then(|row| records[row].as_deref());
    if state.is_drained {
        return "not known: the queue is drained".to_owned();
    }
    if let Some(record) = record.filter(|record| record.quota_hold) {
        return format!("not known: {} has as many GPUs as it may have at once", record.user);
    }
    if record.is_some_and(|record| record.user_hold) {
        return "not known: the job is held".to_owned();
    }
    // Its own turn comes after the jobs that it waits for, whatever keeps those.
    let awaits = record.iter().flat_map(|record| &record.spec.ask.after).find_map(|after| {
        let row = fork.numbers.iter().position(|number| *number == after.id)?;
        Some((after.id, state.jobs[row].phase, records[row].as_deref()?))
    });
    if let Some((id, phase, awaited)) = awaits {
        return match phase {
            _ if awaited.user_hold => format!("not known: it waits for job {id}, which is held"),
            phase if phase.has_gpus() => format!("not known until job {id}, for which it waits, ends"),
            _ => format!("not known: it waits for job {id}, whose start is not known"),
        };
    }
    if forecast.is_far {
        return "not known: it is further ahead than is looked at".to_owned();
    }
    match forecast.depends_on.as_slice() {
        [] if row.is_some_and(|row| state.jobs[row].phase == Phase::Blocked) => {
            "not known: the job waits for something else than GPUs".to_owned()
        }
        [] => format!("not known: {GPUS_AWAY}"),
        [only] => format!("not known until job {only}, whose length is not known, ends"),
        several => {
            let names = several.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
            format!("not known until jobs {names}, whose lengths are not known, end")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_forecast_is_dropped_when_its_queue_has_changed_or_it_gets_no_processor() {
        let second = Duration::from_secs(1);
        assert!(is_current(0, 0, second) && is_current(5000, 10_000, second));
        assert!(!is_current(6000, 10_000, second), "more than half of the jobs have come or gone");
        assert!(!is_current(501, 0, second) && !is_current(0, 10_000, second * 10));
    }
}
