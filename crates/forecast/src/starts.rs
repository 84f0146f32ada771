//! When waiting jobs start: the forked scheduler is run forward with drawn lengths, again and again.

use crate::arrivals::ArrivalPool;
use crate::holds::Holds;
use crate::lengths::{LengthBelief, RunLength};
use crate::world::{Arrival, ArrivingWorld};
use rota_core::event::EventKind;
use rota_core::random::RandomStream;
use rota_core::snapshot::work_done;
use rota_core::{GpuId, GpuList, Job, JobId, Phase, Span, Time};
use rota_engine::{Engine, Pending, Session};
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

/// A job of unknown length runs this much longer than any forecast looks.
pub(crate) const FOR_EVER: Span = Span(u64::MAX / 1024);
/// The part of the draws in which a job must start before its start is said to be known.
const KNOWN_FROM: f64 = 0.9;
/// One draw takes at most so many decisions. Jobs that have not started by then count as later than all.
const DRAW_DECISIONS_MAX: u64 = 20_000;
/// A draw looks so often whether it is still wanted.
const DECISIONS_BETWEEN_LOOKS: u64 = 64;
/// The part of a user's jobs of one size that are taken to be long or short together while too few jobs have ended to tell.
const ALIKE: f64 = 0.5;
/// So many draws are made even if there is no time.
const DRAWS_MIN: usize = 20;
/// At most so many jobs are named as those that a start depends on.
const DEPENDS_MAX: usize = 3;

/// A queue at one moment, to be run forward.
#[derive(Clone)]
pub struct Fork {
    /// State, policy and placement.
    pub engine: Engine,
    /// What the session has not come to yet.
    pub pending: Pending,
    /// The moment from which the queue is run forward.
    pub now: Time,
    /// The number of each row's job.
    pub numbers: Vec<u64>,
    /// What is believed of the length of each row's job.
    pub lengths: Vec<RunLength>,
    /// How long a job that is stopped for others takes to leave.
    pub stop_time: Span,
    /// Jobs that are held for a known time or by a quota, or are stopping for good.
    pub holds: Holds,
    /// The jobs that came lately, from which those to come are drawn; none come if it is not given.
    pub recent: Option<Arc<ArrivalPool>>,
}

/// How a forecast is made.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ForecastOptions {
    /// How often lengths are drawn.
    pub draws: u32,
    /// The seed of the draws.
    pub seed: u64,
    /// Decisions that all draws may take together; the rest of the draws is left out when they are used up.
    pub decisions_max: u64,
}

impl Default for ForecastOptions {
    fn default() -> Self {
        Self { draws: 100, seed: 0, decisions_max: 400_000 }
    }
}

/// What is said of one waiting job. Times are `None` where they depend on jobs of unknown length.
#[derive(Clone, Debug, PartialEq)]
pub struct Forecast {
    /// The number of the job.
    pub number: u64,
    /// Its place among the waiting jobs, counted from 1, by when they start.
    pub position: u32,
    /// The job starts before this moment with a chance of one in ten.
    pub start_p10: Option<Time>,
    /// The job starts before this moment as likely as not.
    pub start_p50: Option<Time>,
    /// The job starts before this moment with a chance of nine in ten. Known without the other two, it is when the job starts at the latest:
    /// sooner if a job of unknown length ends before.
    pub start_p90: Option<Time>,
    /// The job ends before this moment with a chance of one in ten.
    pub end_p10: Option<Time>,
    /// The job ends before this moment as likely as not.
    pub end_p50: Option<Time>,
    /// The job ends before this moment with a chance of nine in ten.
    pub end_p90: Option<Time>,
    /// The jobs whose ends it waits for most often; where its start is unknown, those of unknown length.
    pub depends_on: Vec<u64>,
    /// Whether its start is unknown only because it is further ahead than is looked at.
    pub is_far: bool,
}

/// What one draw showed of one job.
#[derive(Clone, Copy, Default)]
struct Seen {
    start: Option<Time>,
    end: Option<Time>,
    after: Option<u64>,
    /// Whether it could have started sooner if a job of unknown length had ended before: in a draw such a job never ends.
    is_at_latest: bool,
}

/// The luck of the jobs in one draw. Jobs of one user and size often come in bursts that are long or short together: what is
/// believed of each may be right on average, and wrong for all of them today. So some of them share their luck.
/// A job keeps its luck from one forecast to the next, whatever jobs come and end meanwhile: its expected start moves when
/// something has changed for it, and not by chance.
struct Luck {
    own: RandomStream,
    shared: RandomStream,
    /// The part of a user's jobs that share their luck.
    alike: f64,
}

impl Luck {
    fn new(seed: u64, draw: u32, alike: f64) -> Self {
        let stream = |name: &str| RandomStream::new(seed, &format!("{name} {draw}"));
        Self { own: stream("forecast"), shared: stream("shared luck"), alike }
    }

    /// The chance at which the length of a job is drawn: each value is as likely as any other.
    fn chance(&self, number: u64, job: &Job, length: Option<&RunLength>) -> f64 {
        let mut stream = self.own.part(number);
        let own = stream.unit();
        // Where a user says how long each job takes, each is wrong in its own way.
        let is_learned = length.is_some_and(|length| matches!(length.belief, LengthBelief::Learned(_)));
        if !is_learned || stream.unit() >= self.alike {
            return own;
        }
        self.shared.part(u64::from(job.user.index()) << 32 | u64::from(job.gpus)).unit()
    }
}

impl Fork {
    /// The fork with lengths drawn from what is believed; `chance` gives the chance for each job, by its number.
    pub(crate) fn drawn(&self, chance: impl Fn(u64, &Job, Option<&RunLength>) -> f64) -> Engine {
        let mut engine = self.engine.clone();
        let now = self.now;
        let bound = Arc::make_mut(&mut engine.state.bound);
        for (index, state) in engine.state.jobs.iter().enumerate() {
            if state.phase.is_over() || state.phase == Phase::Pending {
                continue;
            }
            let job = JobId::from_index(index);
            let best = bound.best_speed(job);
            let done = work_done(state, now);
            let attained = done.at_speed(best).seconds();
            let length = self.lengths.get(index);
            let chance = chance(self.numbers.get(index).copied().unwrap_or_default(), bound.job(job), length);
            let total = length.and_then(|length| length.total(attained, chance));
            let work = total.map_or(FOR_EVER.work_at_speed(best.max(1.0)), |seconds| {
                let work = Span::from_seconds(seconds).unwrap_or(FOR_EVER).work_at_speed(best);
                work.max(done).max(Span(1))
            });
            bound.set_work(job, work);
        }
        engine.begin_forecast();
        engine
    }

    /// Whether something is known of the length of every job that waits or runs.
    pub fn knows_all_lengths(&self) -> bool {
        let mut jobs = self.engine.state.jobs.iter().zip(&self.lengths);
        jobs.all(|(job, length)| job.phase.is_over() || job.phase == Phase::Pending || !length.is_unknown())
    }

    /// The engine of the fork, where every length is the middle of what is believed.
    pub fn with_median_lengths(&self) -> Engine {
        self.drawn(|_, _, _| 0.5)
    }

    /// Nothing later than this is looked at: only jobs of unknown length are left then.
    pub(crate) fn horizon(&self) -> Time {
        self.now + Span(FOR_EVER.0 / 2)
    }

    /// A session that runs this fork forward.
    pub(crate) fn session(&self, engine: Engine, arrivals: Arc<[Arrival]>) -> Session<ArrivingWorld> {
        let world = ArrivingWorld::going_on(&engine.state, self.now, self.numbers.clone(), arrivals, self.stop_time)
            .with_holds(&self.holds, &engine.state);
        Session::resumed(engine, world, self.pending)
    }

    /// The rows of jobs that wait, or will wait when others have ended.
    fn waiting(&self) -> Vec<JobId> {
        let rows = self.engine.state.jobs.iter().enumerate();
        rows.filter(|(_, state)| matches!(state.phase, Phase::Waiting | Phase::Blocked))
            .map(|(index, _)| JobId::from_index(index))
            .collect()
    }

    /// When each waiting job starts.
    pub fn starts(&self, options: &ForecastOptions) -> Vec<Forecast> {
        self.starts_of(&self.waiting(), options, &|| true)
    }

    /// The same with fewer draws, but some, if time runs out. Nothing if the forecast is not wanted any more, which is asked in the middle
    /// of draws, too.
    pub fn starts_while(
        &self,
        options: &ForecastOptions,
        has_time: &dyn Fn() -> bool,
        is_wanted: &dyn Fn() -> bool,
    ) -> Option<Vec<Forecast>> {
        self.starts_if(&self.waiting(), options, has_time, is_wanted)
    }

    /// When each of these jobs starts. Those that do not wait are left out by their callers.
    pub fn starts_of(&self, waiting: &[JobId], options: &ForecastOptions, has_time: &dyn Fn() -> bool) -> Vec<Forecast> {
        self.starts_if(waiting, options, has_time, &|| true).unwrap_or_default()
    }

    fn starts_if(
        &self,
        waiting: &[JobId],
        options: &ForecastOptions,
        has_time: &dyn Fn() -> bool,
        is_wanted: &dyn Fn() -> bool,
    ) -> Option<Vec<Forecast>> {
        if waiting.is_empty() {
            return Some(Vec::new());
        }
        let place = self.places(waiting);
        // A job of unknown length never ends in a draw: jobs that come would pile up behind it for ever.
        let recent = self.recent.as_ref().filter(|_| self.knows_all_lengths());
        let alike = self.recent.as_ref().and_then(|recent| recent.alike()).unwrap_or(ALIKE);
        let mut draws = Vec::new();
        let mut decisions = 0;
        let mut is_far = false;
        for draw in 0..options.draws.max(1) {
            let luck = Luck::new(options.seed, draw, alike);
            let mut run = Run::new(self, &place, waiting.len());
            run.decisions_max = DRAW_DECISIONS_MAX.min(options.decisions_max);
            run.is_wanted = is_wanted;
            let mut session = self.session(self.drawn(|number, job, length| luck.chance(number, job, length)), Arc::new([]));
            let arrivals = || RandomStream::new(options.seed, &format!("arrivals {draw}"));
            session.world = session.world.with_drawn(recent.map(|pool| pool.drawn(arrivals())));
            decisions += run.go(session);
            if !is_wanted() {
                return None;
            }
            is_far |= run.is_cut;
            draws.push(run.seen);
            if decisions > options.decisions_max || (draws.len() >= DRAWS_MIN && !has_time()) {
                break;
            }
        }
        Some(self.summed_up(waiting, &draws, is_far))
    }

    /// When each of these jobs starts if every length is the middle of what is believed.
    pub fn median_starts(&self, waiting: &[JobId]) -> Vec<Option<Time>> {
        let place = self.places(waiting);
        let mut run = Run::new(self, &place, waiting.len());
        run.decisions_max = DRAW_DECISIONS_MAX;
        run.go(self.session(self.with_median_lengths(), Arc::new([])));
        run.seen.iter().map(|seen| seen.start).collect()
    }

    /// For each row, the place of its job in the list.
    fn places(&self, waiting: &[JobId]) -> Vec<usize> {
        let mut place = vec![usize::MAX; self.engine.state.jobs.len()];
        for (index, job) in waiting.iter().enumerate() {
            place[job.index()] = index;
        }
        place
    }

    fn summed_up(&self, waiting: &[JobId], draws: &[Vec<Seen>], is_far: bool) -> Vec<Forecast> {
        let mut forecasts = Vec::with_capacity(waiting.len());
        for (place, job) in waiting.iter().enumerate() {
            let seen = || draws.iter().map(|draw| &draw[place]);
            let mut starts = seen().filter_map(|seen| seen.start).collect::<Vec<_>>();
            let mut ends = seen().filter_map(|seen| seen.end).collect::<Vec<_>>();
            starts.sort_unstable();
            ends.sort_unstable();
            let is_bounded = starts.len() as f64 >= KNOWN_FROM * draws.len() as f64;
            let at_latest = seen().filter(|seen| seen.is_at_latest).count();
            let is_known = is_bounded && at_latest as f64 <= (1.0 - KNOWN_FROM) * draws.len() as f64;
            let at = |times: &[Time], chance| quantile(times, draws.len(), chance).filter(|_| is_known);
            let mut awaited = BTreeMap::<u64, usize>::new();
            for number in seen().filter_map(|seen| seen.after) {
                *awaited.entry(number).or_default() += 1;
            }
            let mut awaited = awaited.into_iter().collect::<Vec<_>>();
            awaited.sort_by_key(|(number, count)| (std::cmp::Reverse(*count), *number));
            let depends_on = if is_known {
                awaited.into_iter().take(DEPENDS_MAX).map(|(number, _)| number).collect()
            } else {
                self.unknown_in_the_way_of(*job)
            };
            let is_far = !is_bounded && depends_on.is_empty() && is_far;
            forecasts.push(Forecast {
                number: self.numbers[job.index()],
                position: 0,
                start_p10: at(&starts, 0.1),
                start_p50: at(&starts, 0.5),
                start_p90: quantile(&starts, draws.len(), 0.9).filter(|_| is_bounded),
                end_p10: at(&ends, 0.1),
                end_p50: at(&ends, 0.5),
                end_p90: at(&ends, 0.9),
                depends_on,
                is_far,
            });
        }
        let mut order = (0..forecasts.len()).collect::<Vec<_>>();
        order.sort_by_key(|&place| {
            let Forecast { start_p50, start_p90, number, .. } = forecasts[place];
            (start_p50.is_none(), start_p50, start_p90.is_none(), start_p90, number)
        });
        for (position, place) in (1..).zip(order) {
            forecasts[place].position = position;
        }
        forecasts
    }

    /// Whether a job could use one of these GPUs.
    fn could_use(&self, job: JobId, gpus: &[GpuId]) -> bool {
        let bound = &self.engine.state.bound;
        let shape = bound.shape(job);
        let only = bound.only(shape);
        let could_use = |gpu: &GpuId| {
            shape.types.contains(bound.cluster.gpus[gpu.index()].gpu_type) && only.is_none_or(|only| only.contains(gpu))
        };
        gpus.iter().any(could_use)
    }

    /// Jobs of unknown length that hold GPUs which a job could use, or that it waits for; where there are none, those that wait.
    fn unknown_in_the_way_of(&self, job: JobId) -> Vec<u64> {
        let state = &self.engine.state;
        let is_unknown = |row: &JobId| self.lengths.get(row.index()).is_none_or(RunLength::is_unknown);
        let awaited = state.bound.job(job).after.iter().map(|dependency| dependency.job);
        let mut rows = awaited.filter(|row| !state.jobs[row.index()].phase.is_over() && is_unknown(row)).collect::<Vec<_>>();
        let all = || (0..state.jobs.len()).map(JobId::from_index).filter(|row| *row != job);
        rows.extend(all().filter(|row| {
            let other = &state.jobs[row.index()];
            other.phase.has_gpus() && is_unknown(row) && self.could_use(job, &other.gpus)
        }));
        if rows.is_empty() {
            // Those that came before it; where there are none, a policy may let later ones pass.
            let waits = |row: &JobId| matches!(state.jobs[row.index()].phase, Phase::Waiting | Phase::Blocked) && is_unknown(row);
            let (earlier, later) = all().filter(waits).partition::<Vec<_>, _>(|row| *row < job);
            rows = if earlier.is_empty() { later } else { earlier };
        }
        rows.sort_unstable();
        rows.dedup();
        rows.truncate(DEPENDS_MAX);
        rows.iter().map(|row| self.numbers[row.index()]).collect()
    }
}

/// The value that so many of `count` draws do not exceed. Draws in which it did not happen count as later than all.
fn quantile(sorted: &[Time], count: usize, chance: f64) -> Option<Time> {
    let place = (chance * count as f64).ceil().max(1.0) as usize - 1;
    sorted.get(place.min(count - 1)).copied()
}

/// One draw, run forward until every waiting job has started, or only jobs of unknown length are left.
struct Run<'a> {
    place: &'a [usize],
    seen: Vec<Seen>,
    left: usize,
    /// The GPUs of each job that runs.
    on: HashMap<JobId, GpuList>,
    /// The job that left each GPU last, and when.
    left_by: Vec<Option<(Time, JobId)>>,
    fork: &'a Fork,
    /// Whether there are jobs of unknown length.
    has_unknown: bool,
    horizon: Time,
    decisions_max: u64,
    /// Whether the draw ended before everything had happened that will.
    is_cut: bool,
    /// Whether the forecast is still wanted.
    is_wanted: &'a dyn Fn() -> bool,
}

impl<'a> Run<'a> {
    fn new(fork: &'a Fork, place: &'a [usize], waiting: usize) -> Self {
        let running = fork.engine.state.jobs.iter().enumerate().filter(|(_, job)| job.phase.has_gpus());
        Self {
            place,
            seen: vec![Seen::default(); waiting],
            left: waiting,
            on: running.map(|(row, job)| (JobId::from_index(row), job.gpus.clone())).collect(),
            left_by: vec![None; fork.engine.state.bound.cluster.gpus.len()],
            fork,
            has_unknown: !fork.knows_all_lengths(),
            horizon: fork.horizon(),
            decisions_max: u64::MAX,
            is_cut: false,
            is_wanted: &|| true,
        }
    }

    /// Runs it; gives the number of decisions.
    fn go(&mut self, mut session: Session<ArrivingWorld>) -> u64 {
        while self.left > 0 {
            let moment = session.advance(&mut |event| self.note(event));
            let decisions = session.tally.decisions;
            let is_dropped = decisions.is_multiple_of(DECISIONS_BETWEEN_LOOKS) && !(self.is_wanted)();
            let is_enough = decisions >= self.decisions_max || is_dropped;
            let Some(moment) = moment else { break };
            if moment.now >= self.horizon || is_enough {
                self.is_cut = true;
                break;
            }
            let target = session.ask();
            session.hand_in(&target, &mut |event| self.note(event));
        }
        self.find_ends(&session);
        session.tally.decisions
    }

    fn note(&mut self, event: &rota_core::Event) {
        match &event.kind {
            EventKind::Started { job, gpus, .. } => {
                let place = self.place.get(job.index()).copied().unwrap_or(usize::MAX);
                if self.seen.get(place).is_some_and(|seen| seen.start.is_none()) {
                    // A gang waited for the job that left last.
                    let last = gpus.iter().filter_map(|gpu| self.left_by[gpu.index()]).max();
                    let seen = Seen {
                        start: Some(event.time_ns),
                        after: last.and_then(|(_, row)| self.fork.numbers.get(row.index()).copied()),
                        is_at_latest: event.time_ns > self.fork.now && self.is_beside_unknown(*job),
                        ..self.seen[place]
                    };
                    self.seen[place] = seen;
                    self.left -= 1;
                }
                self.on.insert(*job, gpus.clone());
            }
            EventKind::Ended { job, end, .. } => {
                for gpu in self.on.remove(job).unwrap_or_default() {
                    self.left_by[gpu.index()] = Some((event.time_ns, *job));
                }
                if !end.is_over() {
                    return;
                }
                let place = self.place.get(job.index()).copied().unwrap_or(usize::MAX);
                if let Some(seen) = self.seen.get_mut(place) {
                    // The end of a job of unknown length is not known either.
                    seen.end = Some(event.time_ns).filter(|end| *end < self.horizon);
                    // A job that can never run is not waited for.
                    if seen.start.is_none() {
                        self.left -= 1;
                    }
                }
            }
            _ => {}
        }
    }

    /// Whether a job of unknown length has GPUs that this one could use.
    fn is_beside_unknown(&self, job: JobId) -> bool {
        let is_unknown = |row: &JobId| self.fork.lengths.get(row.index()).is_some_and(RunLength::is_unknown);
        self.has_unknown && self.on.iter().any(|(row, gpus)| *row != job && is_unknown(row) && self.fork.could_use(job, gpus))
    }

    /// The ends of jobs that were still at work when the last of them had started.
    fn find_ends(&mut self, session: &Session<ArrivingWorld>) {
        let state = &session.engine.state;
        for (row, place) in self.place.iter().enumerate() {
            if let Some(seen) = self.seen.get_mut(*place)
                && seen.end.is_none()
                && state.jobs[row].phase == Phase::Running
            {
                let end = state.end_of_run(JobId::from_index(row));
                seen.end = Some(end).filter(|end| *end < self.horizon);
            }
        }
    }
}
