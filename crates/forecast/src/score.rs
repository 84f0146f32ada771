//! How good forecasts are: a recorded workload is run through the scheduler, forecasts are made on the way, and compared with what happened.
//!
//! The scheduler hears of jobs when they arrive, and lengths are learned from the jobs that ended before. So a forecast knows just what one
//! in a live queue would have known. Two simpler answers are scored beside it: the start of the job if it were the next one, and one
//! run forward in which every job takes the time that its user gave.

use crate::accuracy::Outcome;
use crate::arrivals::RecentArrivals;
use crate::calibration::{Calibration, Said};
use crate::holds::Holds;
use crate::lengths::{LengthBelief, Lengths, RunLength};
use crate::simpler;
use crate::starts::{ForecastOptions, Fork};
use crate::world::{Arrival, ArrivingWorld};
use rota_core::event::EventKind;
use rota_core::snapshot::work_done;
use rota_core::{Bound, End, Event, JobId, NewJob, Phase, Span, ThroughputTable, Time};
use rota_engine::{Engine, EngineOptions, Session};
use rota_policy::Configured;
use rota_policy::history::JobTraits;
use std::collections::BTreeMap;
use std::sync::Arc;

/// How forecasts are scored.
#[derive(Clone, Debug)]
pub struct ScoreOptions {
    /// Every so-many-th job that has to wait is forecast.
    pub every: u32,
    /// A job that was forecast is forecast again while it waits, whenever so much time has passed since the beginning of the workload: all
    /// that wait then are forecast from the same draws.
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

/// Runs a workload that is bound to a cluster, and forecasts on the way. Gives what came of the forecasts.
pub fn replay(
    bound: &Bound,
    table: &Arc<ThroughputTable>,
    policy: Configured,
    options: &ScoreOptions,
    progress: &mut dyn FnMut(usize),
) -> Vec<Outcome> {
    let arrivals = arrivals(bound);
    let empty = Bound::empty(&bound.source, bound.cluster.clone()).with_prices(bound.prices.clone());
    let mut engine = Engine::new(Arc::new(empty), policy, &options.engine);
    engine.state = engine.state.with_throughputs(Arc::clone(table));
    let world = ArrivingWorld::going_on(&engine.state, Time::ZERO, Vec::new(), arrivals, options.stop_time);
    let mut scorer = Scorer {
        options: options.clone(),
        lengths: Lengths::default(),
        recent: RecentArrivals::default(),
        calibration: Calibration::default(),
        open: BTreeMap::new(),
        again_at: options.again.map(|again| Time::ZERO + again),
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
    scorer.done
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
    /// Forecasts of jobs that have not started, by number; their starts are still to be filled in.
    open: BTreeMap<u64, Vec<Outcome>>,
    /// When jobs that wait are forecast again.
    again_at: Option<Time>,
    done: Vec<Outcome>,
    waited: u32,
}

impl Scorer {
    /// What is known of a job when it is submitted.
    fn traits(session: &Session<ArrivingWorld>, job: JobId) -> JobTraits {
        let bound = &session.engine.state.bound;
        JobTraits::of(bound.job(job), &bound.names, bound.best_speed(job))
    }

    /// Takes in what happened: ends teach, and starts close forecasts.
    fn learn(&mut self, session: &Session<ArrivingWorld>, told: &[Event]) {
        let state = &session.engine.state;
        for event in told {
            match &event.kind {
                EventKind::Started { job, .. } => {
                    let number = session.world.numbers()[job.index()];
                    for mut outcome in self.open.remove(&number).unwrap_or_default() {
                        outcome.start = event.time_ns;
                        if let (Some(drawn), Some(corrected)) = (outcome.drawn, outcome.said) {
                            self.calibration.learn(&Said { made_at: outcome.made_at, drawn, corrected }, outcome.start);
                        }
                        self.done.push(outcome);
                    }
                }
                EventKind::Admitted { job, request } => {
                    let belief = self.lengths.belief(&Self::traits(session, *job));
                    let length = RunLength { belief, limit_seconds: None };
                    let number = session.world.numbers()[job.index()];
                    self.recent.came(number, event.time_ns, (**request).clone(), length, state.bound.best_speed(*job));
                }
                EventKind::Ended { job, end: End::Finished | End::Crashed, .. } => {
                    let done = state.jobs[job.index()].done;
                    let (number, attained) =
                        (session.world.numbers()[job.index()], done.at_speed(state.bound.best_speed(*job)).seconds());
                    self.lengths.ended(number, &Self::traits(session, *job), attained);
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
        let fresh = due.len();
        if let (Some(again), Some(at)) = (self.options.again, self.again_at)
            && at <= now
        {
            let row_of = |number: &u64| session.world.numbers().binary_search(number).ok().map(JobId::from_index);
            due.extend(self.open.keys().filter_map(row_of).filter(|row| is_waiting(*row)));
            self.again_at = Some(Time((now.0 / again.0 + 1) * again.0));
        }
        if !due.is_empty() {
            self.forecast_jobs(session, &due, fresh);
        }
    }

    /// Makes the forecasts of some jobs, of which the first `fresh` have just arrived.
    fn forecast_jobs(&mut self, session: &Session<ArrivingWorld>, due: &[JobId], fresh: usize) {
        let fork = self.fork(session);
        let forecasts = fork.starts_of(due, &self.options.forecast, &|| true);
        let (if_next, by_limits) = (simpler::if_next(&fork, due), simpler::by_limits(&fork, due));
        for (place, forecast) in forecasts.iter().enumerate() {
            let drawn = (|| Some([forecast.start_p10?, forecast.start_p50?, forecast.start_p90?]))();
            self.open.entry(forecast.number).or_default().push(Outcome {
                number: forecast.number,
                made_at: fork.now,
                is_first: place < fresh,
                said: drawn.map(|drawn| self.calibration.said(fork.now, drawn).corrected),
                drawn,
                if_next: if_next[place],
                by_limits: by_limits[place],
                start: fork.now,
            });
        }
    }

    fn fork(&mut self, session: &Session<ArrivingWorld>) -> Fork {
        let state = &session.engine.state;
        let now = rota_engine::World::now(&session.world);
        let numbers = session.world.numbers();
        let active = (0..state.jobs.len()).filter(|row| !state.jobs[*row].phase.is_over()).map(JobId::from_index);
        for job in active.clone().filter(|job| state.jobs[job.index()].phase.has_gpus()) {
            let attained = work_done(&state.jobs[job.index()], now).at_speed(state.bound.best_speed(job)).seconds();
            self.lengths.ran(numbers[job.index()], &Self::traits(session, job), attained);
            self.recent.ran(numbers[job.index()], attained);
        }
        let mut lengths = vec![RunLength { belief: LengthBelief::Unknown, limit_seconds: None }; state.jobs.len()];
        for job in active {
            lengths[job.index()].belief = self.lengths.belief(&Self::traits(session, job));
        }
        Fork {
            engine: session.engine.clone(),
            pending: session.pending(),
            now,
            numbers: numbers.to_vec(),
            lengths,
            stop_time: self.options.stop_time,
            holds: Holds::default(),
            recent: self
                .recent
                .pool(now)
                .map(|pool| if self.options.arrivals { pool } else { Arc::new(pool.without_arrivals()) }),
        }
    }
}
