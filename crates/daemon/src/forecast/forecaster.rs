//! The thread that makes forecasts. It takes at most about a tenth of one processor, and the queue never waits for it.

use crate::api::{Prediction, Predictions};
use crate::clock::rfc3339;
use crate::forecast::changes::thread_time;
use crate::forecast::fork::QueueFork;
use crate::forecast::learned::{Learned, SharedLearned};
use crate::forecast::recent::Recent;
use crate::machine::inventory::CPU;
use crate::machine::platform::Message;
use crate::queue::estimates::Estimates;
use crate::store::Archive;
use crate::store::record::JobRecord;
use crate::view::board::Board;
use rota_core::{Phase, Time};
use rota_forecast::{Calibration, Forecast, ForecastOptions, Fork};
use std::collections::{HashMap, HashSet};
use std::io;
use std::sync::Arc;
use std::sync::mpsc::{Sender, channel};
use std::time::{Duration, Instant};

/// The thread looks so often whether anything has happened.
const LOOK_EVERY: Duration = Duration::from_millis(500);
/// While nothing happens, a forecast is made anew so often: jobs that run on are believed to be longer and longer.
const RENEW_EVERY: Duration = Duration::from_secs(30);
/// The thread rests so many times as long as a forecast took.
const REST: u32 = 9;
/// Draws of one forecast end after so much time on a processor.
const TIME_MAX: Duration = Duration::from_secs(2);
/// Longer queues are not run forward: a copy of them takes memory, and a forecast minutes.
pub const JOBS_MAX: usize = 10_000;
/// The thread gives way to all others.
const NICE: i32 = 10;

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
        estimates,
        recent: Recent::default(),
        calibration: Calibration::default(),
        said: HashMap::new(),
        seed: 0,
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
    estimates: Estimates,
    recent: Recent,
    calibration: Calibration,
    /// Jobs that wait: when their start was first said, and what was said before it was corrected.
    said: HashMap<u64, (Time, [Time; 3])>,
    seed: u64,
}

impl Forecaster {
    fn run(mut self) {
        // Without it the thread is as important as others.
        _ = rustix::process::setpriority_process(None, NICE);
        let (mut seen, mut made_at) = (None, Instant::now());
        loop {
            std::thread::sleep(LOOK_EVERY);
            let told = self.board.told();
            if seen == Some(told) && made_at.elapsed() < RENEW_EVERY {
                continue;
            }
            let jobs = self.board.read().jobs.len();
            if jobs > JOBS_MAX {
                let note = format!("{jobs} jobs wait or run: starts are predicted for queues of up to {JOBS_MAX}");
                self.board.predict(Predictions { note: Some(note), ..Predictions::default() });
                seen = Some(told);
                continue;
            }
            let before = Instant::now();
            match self.fork() {
                Asked::Fork(fork) => self.forecast(&fork),
                Asked::Busy => continue,
                Asked::Over => return,
            }
            (seen, made_at) = (Some(told), Instant::now());
            std::thread::sleep(before.elapsed() * REST);
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

    fn forecast(&mut self, queue: &QueueFork) {
        // What cannot be read now is read next time; what was learned before still holds.
        let (fork, learned_from) = {
            let mut learned = self.learned.lock();
            let types = queue.engine.state.bound.cluster.types.iter().map(|kind| kind.name.as_str());
            let types = types.filter(|name| *name != CPU).map(Box::from).collect::<Vec<Box<str>>>();
            let Self { archive, recent, estimates, said, calibration, .. } = self;
            let mut take_in = |learned: &mut Learned, record: &JobRecord| {
                recent.take_in(record, estimates, &types, learned);
                if let (Some(start), Some((made_at, said))) =
                    (record.started_at, record.started_at.and_then(|_| said.remove(&record.id)))
                {
                    calibration.learn(made_at, said, Time(start));
                }
            };
            _ = learned.read(archive, &mut take_in);
            archive.rest();
            queue.records.iter().flatten().for_each(|record| take_in(&mut learned, record));
            let fork = Fork { recent: self.recent.pool(queue.now), ..queue.believed(&mut learned) };
            (fork, learned.jobs())
        };
        let options = ForecastOptions { seed: self.seed, ..ForecastOptions::default() };
        let began = thread_time();
        let mut forecasts = fork.starts_while(&options, &|| thread_time().saturating_sub(began) < TIME_MAX);
        self.calibrate(queue, &mut forecasts);
        let when = |time: Time| rfc3339(queue.wall(time));
        let mut jobs = forecasts.iter().map(|forecast| prediction(queue, forecast, &when)).collect::<Vec<_>>();
        jobs.sort_by_key(|job| job.position);
        let predictions = Predictions { made_at: Some(rfc3339(queue.wall_ns)), learned_from, note: None, jobs };
        self.board.predict(predictions);
        self.seed += 1;
    }

    /// Corrects forecasts by how earlier ones turned out, and remembers what is said of jobs for the first time.
    fn calibrate(&mut self, queue: &QueueFork, forecasts: &mut [Forecast]) {
        for forecast in forecasts.iter_mut() {
            let (Some(low), Some(middle), Some(high)) = (forecast.start_p10, forecast.start_p50, forecast.start_p90) else {
                continue;
            };
            let said = [low, middle, high];
            let corrected = self.calibration.corrected(queue.now, said);
            // The end moves with the start.
            forecast.end_p50 = forecast.end_p50.map(|end| corrected[1] + end.since(middle));
            [forecast.start_p10, forecast.start_p50, forecast.start_p90] = corrected.map(Some);
            self.said.entry(forecast.number).or_insert((queue.now, said));
        }
        // Jobs that were cancelled before they started teach nothing.
        let known = queue.numbers.iter().copied().collect::<HashSet<_>>();
        self.said.retain(|number, _| known.contains(number));
        self.said.shrink_to(2 * self.said.len());
    }
}

fn prediction(queue: &QueueFork, forecast: &Forecast, when: &dyn Fn(Time) -> String) -> Prediction {
    let note = forecast.start_p50.is_none().then(|| why_unknown(queue, forecast));
    Prediction {
        id: forecast.number,
        position: forecast.position,
        start_p10: forecast.start_p10.map(when),
        start_p50: forecast.start_p50.map(when),
        start_p90: forecast.start_p90.map(when),
        end_p50: forecast.end_p50.map(when),
        depends_on: forecast.depends_on.clone(),
        note,
    }
}

/// Why the start of a job is not known, in words.
fn why_unknown(queue: &QueueFork, forecast: &Forecast) -> String {
    let state = &queue.engine.state;
    let row = queue.numbers.iter().position(|number| *number == forecast.number);
    let record = row.and_then(|row| queue.records[row].as_deref());
    let is_held = |record: &JobRecord| record.user_hold || record.quota_hold;
    if state.is_drained {
        return "not known: the queue is drained".to_owned();
    }
    if record.is_some_and(is_held) {
        return "not known: the job is held".to_owned();
    }
    match forecast.depends_on.as_slice() {
        [] if row.is_some_and(|row| state.jobs[row].phase == Phase::Blocked) => {
            "not known: the job waits for something else than GPUs".to_owned()
        }
        [] => "not known: the GPUs it could use are held by others than Rota's jobs".to_owned(),
        [only] => format!("not known until job {only}, whose length is not known, ends"),
        several => {
            let names = several.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
            format!("not known until jobs {names}, whose lengths are not known, end")
        }
    }
}
