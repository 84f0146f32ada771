//! How good forecasts are: a recorded workload is run through the scheduler, forecasts are made on the way, and compared with what happened.
//!
//! The scheduler hears of jobs when they arrive, and lengths are learned from the jobs that ended before. So a forecast knows just what one
//! in a live queue would have known. Two simpler answers are scored beside it: the start of the job if it were the next one, and one
//! run forward in which every job takes the time that its user gave.

use crate::arrivals::RecentArrivals;
use crate::calibration::Calibration;
use crate::lengths::{LengthBelief, Lengths, RunLength};
use crate::starts::{ForecastOptions, Fork};
use crate::world::{Arrival, ArrivingWorld};
use rota_core::event::EventKind;
use rota_core::snapshot::work_done;
use rota_core::{Bound, End, Event, JobId, NewJob, Phase, Span, ThroughputTable, Time};
use rota_engine::{Engine, EngineOptions, Session};
use rota_policy::Configured;
use rota_policy::history::JobTraits;
use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

/// The time limit of jobs whose users gave neither estimate nor limit, in the answer that goes by limits.
const LIMIT_SECONDS: f64 = 86_400.0;

/// How forecasts are scored.
#[derive(Clone, Copy, Debug)]
pub struct ScoreOptions {
    /// Every so-many-th job that has to wait is forecast.
    pub every: u32,
    /// A job that is forecast is forecast again after so long, while it waits.
    pub again: Option<Span>,
    /// How each forecast is made.
    pub forecast: ForecastOptions,
    /// How the scheduler runs.
    pub engine: EngineOptions,
    /// How long a job that is stopped for others takes to leave.
    pub stop_time: Span,
    /// Whether jobs to come are drawn from recent ones.
    pub arrivals: bool,
}

/// What came of the forecasts. Errors are in seconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, serde::Serialize)]
pub struct Score {
    /// Forecasts that were made and could be compared with a start.
    pub jobs: usize,
    /// Forecasts that said the start is not known yet.
    pub unknown: usize,
    /// The part of the starts between the tenth and the ninetieth percentile.
    pub coverage_p10_p90: f64,
    /// The median of what was said minus what happened.
    pub bias_s: f64,
    /// The median of the absolute error of the middle forecast.
    pub error_median_s: f64,
    /// The median of the waits that were forecast.
    pub wait_median_s: f64,
    /// The same error of the start if the job were the next one.
    pub next_error_median_s: f64,
    /// The same error of one run forward by the users' limits.
    pub limits_error_median_s: f64,
}

/// One forecast, until the job has started.
struct Open {
    made_at: Time,
    /// What was said, corrected by how earlier forecasts turned out.
    quantiles: Option<[Time; 3]>,
    /// The same before it was corrected.
    drawn: Option<[Time; 3]>,
    next: Option<Time>,
    limits: Option<Time>,
}

/// Scores forecasts on a workload that is bound to a cluster.
pub fn score(
    bound: &Bound,
    table: &Arc<ThroughputTable>,
    policy: Configured,
    options: &ScoreOptions,
    progress: &mut dyn FnMut(usize),
) -> Score {
    let arrivals = arrivals(bound);
    let empty = Bound::empty(&bound.source, bound.cluster.clone()).with_prices(bound.prices.clone());
    let mut engine = Engine::new(Arc::new(empty), policy, &options.engine);
    engine.state = engine.state.with_throughputs(Arc::clone(table));
    let world = ArrivingWorld::going_on(&engine.state, Time::ZERO, Vec::new(), arrivals, options.stop_time);
    let mut scorer = Scorer {
        options: *options,
        lengths: Lengths::default(),
        recent: RecentArrivals::default(),
        calibration: Calibration::default(),
        open: HashMap::new(),
        again_at: BTreeSet::new(),
        done: Vec::new(),
        waited: 0,
    };
    let mut session = Session::new(engine, world);
    let mut told = Vec::new();
    while session.advance(&mut |event| told.push(event.clone())).is_some() {
        scorer.learn(&session, &told);
        let target = session.ask();
        let mut acted = Vec::new();
        session.hand_in(&target, &mut |event| acted.push(event.clone()));
        scorer.learn(&session, &acted);
        scorer.forecast(&session, &told);
        told.clear();
        if let Some(rows) = session.engine.compact() {
            session.world.renumber(&rows);
        }
        progress(session.world.arrived());
    }
    scorer.summed_up()
}

/// The jobs of a bound workload as arrivals.
fn arrivals(bound: &Bound) -> Arc<[Arrival]> {
    let name = |name| Box::from(bound.names.text(name));
    let jobs = bound.jobs.iter().map(|job| {
        let whole = bound.whole_job(job.id);
        Arrival {
            number: u64::from(job.id.0),
            after: whole.after.iter().map(|dependency| (u64::from(dependency.job.0), dependency.condition)).collect(),
            request: NewJob {
                user: name(job.user),
                project: name(job.project),
                job_type: name(job.kind),
                gpu_types: job.gpu_types.iter().map(|kind| name(*kind)).collect(),
                job: rota_core::Job { after: Box::default(), ..whole },
            },
        }
    });
    jobs.collect()
}

struct Scorer {
    options: ScoreOptions,
    lengths: Lengths,
    recent: RecentArrivals,
    calibration: Calibration,
    /// Forecasts of jobs that have not started, by number.
    open: HashMap<u64, Vec<Open>>,
    /// Jobs that are to be forecast again, by when.
    again_at: BTreeSet<(Time, u64)>,
    done: Vec<(Open, Time)>,
    waited: u32,
}

fn traits(session: &Session<ArrivingWorld>, job: JobId) -> JobTraits<'_> {
    let bound = &session.engine.state.bound;
    JobTraits::of(bound.job(job), &bound.names, bound.best_speed(job))
}

impl Scorer {
    /// Takes in what happened: ends teach, and starts close forecasts.
    fn learn(&mut self, session: &Session<ArrivingWorld>, told: &[Event]) {
        let state = &session.engine.state;
        for event in told {
            match &event.kind {
                EventKind::Started { job, .. } => {
                    let number = session.world.numbers()[job.index()];
                    let forecasts = self.open.remove(&number).unwrap_or_default();
                    for open in &forecasts {
                        if let Some(drawn) = open.drawn {
                            self.calibration.learn(open.made_at, drawn, event.time_ns);
                        }
                    }
                    self.done.extend(forecasts.into_iter().map(|open| (open, event.time_ns)));
                }
                EventKind::Admitted { job, request } if self.options.arrivals => {
                    let belief = self.lengths.belief(&traits(session, *job));
                    let length = RunLength { belief, limit_seconds: None };
                    let number = session.world.numbers()[job.index()];
                    self.recent.came(number, event.time_ns, (**request).clone(), length, state.bound.best_speed(*job));
                }
                EventKind::Ended { job, end: End::Finished | End::Crashed, .. } => {
                    let done = state.jobs[job.index()].done;
                    let (number, attained) =
                        (session.world.numbers()[job.index()], done.at_speed(state.bound.best_speed(*job)).seconds());
                    self.lengths.ended(number, &traits(session, *job), attained);
                    self.recent.ended(number, done);
                }
                _ => {}
            }
        }
    }

    /// Makes the forecasts that are due: of jobs that have just arrived and wait, and of those that have waited for long.
    fn forecast(&mut self, session: &Session<ArrivingWorld>, told: &[Event]) {
        let now = rota_engine::World::now(&session.world);
        let is_waiting =
            |job: JobId| session.engine.state.jobs.get(job.index()).is_some_and(|state| state.phase == Phase::Waiting);
        let mut due = Vec::new();
        for event in told {
            if let EventKind::Admitted { job, .. } = event.kind
                && is_waiting(job)
            {
                self.waited += 1;
                if self.waited.is_multiple_of(self.options.every.max(1)) {
                    due.push(job);
                }
            }
        }
        while let Some(&(at, number)) = self.again_at.first()
            && at <= now
        {
            self.again_at.pop_first();
            let row = session.world.numbers().iter().position(|known| *known == number).map(JobId::from_index);
            due.extend(row.filter(|row| is_waiting(*row)));
        }
        if due.is_empty() {
            return;
        }
        due.sort_unstable();
        due.dedup();
        let fork = self.fork(session);
        let forecasts = fork.starts_of(&due, &self.options.forecast);
        for job in due {
            let number = fork.numbers[job.index()];
            let drawn = forecasts
                .iter()
                .find(|forecast| forecast.number == number)
                .and_then(|forecast| Some([forecast.start_p10?, forecast.start_p50?, forecast.start_p90?]));
            let quantiles = drawn.map(|drawn| self.calibration.corrected(fork.now, drawn));
            let (next, limits) = (if_next(&fork, job), by_limits(&fork, job));
            self.open.entry(number).or_default().push(Open { made_at: fork.now, quantiles, drawn, next, limits });
            if let Some(again) = self.options.again {
                self.again_at.insert((fork.now + again, number));
            }
        }
    }

    fn fork(&mut self, session: &Session<ArrivingWorld>) -> Fork {
        let state = &session.engine.state;
        let now = rota_engine::World::now(&session.world);
        let numbers = session.world.numbers();
        let active = (0..state.jobs.len()).filter(|row| !state.jobs[*row].phase.is_over()).map(JobId::from_index);
        for job in active.clone().filter(|job| state.jobs[job.index()].phase.has_gpus()) {
            let attained = work_done(&state.jobs[job.index()], now).at_speed(state.bound.best_speed(job)).seconds();
            self.lengths.ran(numbers[job.index()], &traits(session, job), attained);
        }
        let mut lengths = vec![RunLength { belief: LengthBelief::Unknown, limit_seconds: None }; state.jobs.len()];
        for job in active {
            lengths[job.index()].belief = self.lengths.belief(&traits(session, job));
        }
        Fork {
            engine: session.engine.clone(),
            pending: session.pending(),
            now,
            numbers: numbers.to_vec(),
            lengths,
            stop_time: self.options.stop_time,
            recent: self.recent.pool(now).filter(|_| self.options.arrivals),
        }
    }

    fn summed_up(self) -> Score {
        let known = self.done.iter().filter_map(|(open, start)| Some((open, open.quantiles?, *start))).collect::<Vec<_>>();
        if known.is_empty() {
            return Score { unknown: self.done.len(), ..Score::default() };
        }
        let seconds = |time: Time| time.0 as f64 / 1e9;
        let inside = known.iter().filter(|(_, [low, _, high], start)| low <= start && start <= high).count();
        let error = |said: Time, start: Time| seconds(said) - seconds(start);
        let absolute = |said: &dyn Fn(&Open) -> Option<Time>| {
            median(known.iter().filter_map(|(open, _, start)| Some(error(said(open)?, *start).abs())).collect())
        };
        Score {
            jobs: known.len(),
            unknown: self.done.len() - known.len(),
            coverage_p10_p90: inside as f64 / known.len() as f64,
            bias_s: median(known.iter().map(|(_, [_, middle, _], start)| error(*middle, *start)).collect()),
            error_median_s: median(known.iter().map(|(_, [_, middle, _], start)| error(*middle, *start).abs()).collect()),
            wait_median_s: median(known.iter().map(|(open, _, start)| seconds(*start) - seconds(open.made_at)).collect()),
            next_error_median_s: absolute(&|open| open.next),
            limits_error_median_s: absolute(&|open| open.limits),
        }
    }
}

/// When the job would start if no other waited, by the middle of what is believed.
fn if_next(fork: &Fork, job: JobId) -> Option<Time> {
    let mut alone = fork.clone();
    for (index, state) in fork.engine.state.jobs.iter().enumerate() {
        if index != job.index() && matches!(state.phase, Phase::Waiting | Phase::Blocked) {
            alone.engine.record(&Event::at(fork.now, EventKind::ended(JobId::from_index(index), End::Cancelled)));
        }
    }
    alone.median_start(job)
}

/// When the job would start if every job took the time that its user gave.
fn by_limits(fork: &Fork, job: JobId) -> Option<Time> {
    let mut limited = fork.clone();
    for (row, length) in limited.lengths.iter_mut().enumerate() {
        let job = JobId::from_index(row);
        let bound = &fork.engine.state.bound;
        let estimate = bound.job(job).estimate.map(|span| span.at_speed(bound.best_speed(job)).seconds());
        length.limit_seconds = Some(estimate.unwrap_or(LIMIT_SECONDS));
        length.belief = LengthBelief::Estimated(f64::MAX);
    }
    limited.median_start(job)
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(0.0)
}
