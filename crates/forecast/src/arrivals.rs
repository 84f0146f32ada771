//! Jobs that will come: the site's own recent arrivals come again.
//!
//! A forecast that knows nothing of jobs to come is too early wherever later jobs may pass. Nobody knows which jobs will come, but they
//! will be much like those that came in the last days, at the same times of the day. A draw begins at a moment of the recent past that
//! has the same time of day as now, and lets the jobs come that came from there on.

use crate::lengths::RunLength;
use rota_core::random::RandomStream;
use rota_core::{NewJob, Span, Time};
use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

/// Arrivals older than this say little about the next hours.
const WINDOW: Span = Span::from_whole_seconds(7 * 86_400);
/// At most so many arrivals are kept, and as many come in one draw.
const JOBS_MAX: usize = 5000;
/// With fewer arrivals nothing is drawn.
const JOBS_MIN: usize = 10;
/// Nothing is drawn before arrivals have been seen for this long: a burst when the site begins is not a habit.
const SPAN_MIN: Span = Span::from_whole_seconds(3600);
/// With fewer pairs of jobs that ended it is not known how alike jobs are.
const PAIRS_MIN: usize = 20;
/// No jobs are believed to be more alike than this.
const ALIKE_MAX: f64 = 0.95;
const DAY: Span = Span::from_whole_seconds(86_400);
/// The numbers of drawn jobs begin here, above those of all others.
const FIRST_NUMBER: u64 = 1 << 62;

/// A job that came lately.
#[derive(Clone, Debug)]
struct Recent {
    number: u64,
    at: Time,
    request: Arc<NewJob>,
    length: RecentLength,
}

#[derive(Clone, Debug)]
enum RecentLength {
    /// The job is over, and did so much work; with it the chance, by what was believed when it came, that it is no longer than that.
    Known(Span, Option<f64>),
    /// What was believed when it came, the speed of its best GPU type, and the seconds it has run by now.
    Believed(Arc<RunLength>, f64, f64),
}

/// The jobs that came lately.
#[derive(Clone, Debug, Default)]
pub struct RecentArrivals {
    jobs: VecDeque<Recent>,
}

impl RecentArrivals {
    /// A job came. `length` is what is believed of it, in seconds at the speed `best` of its best GPU type.
    pub fn came(&mut self, number: u64, at: Time, request: impl Into<Arc<NewJob>>, length: impl Into<Arc<RunLength>>, best: f64) {
        let length = RecentLength::Believed(length.into(), best, 0.0);
        self.jobs.push_back(Recent { number, at, request: request.into(), length });
        while self.jobs.len() > JOBS_MAX || self.jobs.front().is_some_and(|first| at.since(first.at) > WINDOW) {
            self.jobs.pop_front();
        }
    }

    /// A job that came lately is over, and did so much work.
    pub fn ended(&mut self, number: u64, work: Span) {
        if let Ok(place) = self.jobs.binary_search_by_key(&number, |job| job.number)
            && let RecentLength::Believed(length, best, _) = &self.jobs[place].length
        {
            let chance = length.learned_chance(work.at_speed(*best).seconds());
            self.jobs[place].length = RecentLength::Known(work.max(Span(1)), chance);
        }
    }

    /// A job that came lately has run for so many seconds: it is no short one.
    pub fn ran(&mut self, number: u64, seconds: f64) {
        if let Ok(place) = self.jobs.binary_search_by_key(&number, |job| job.number)
            && let RecentLength::Believed(_, _, ran) = &mut self.jobs[place].length
        {
            *ran = seconds;
        }
    }

    /// What is drawn from; nothing where too few jobs came.
    pub fn pool(&self, now: Time) -> Option<Arc<ArrivalPool>> {
        let mut jobs = self.jobs.iter().filter(|job| job.at <= now).cloned().collect::<Vec<_>>();
        // A clock that was set back leaves them out of order.
        jobs.sort_by_key(|job| job.at);
        let from = jobs.first()?.at;
        let span = now.since(from);
        if jobs.len() < JOBS_MIN || span < SPAN_MIN {
            return None;
        }
        let alike = alike(&jobs);
        Some(Arc::new(ArrivalPool { jobs, from, now, span, alike }))
    }
}

/// The part of a user's jobs of one size that share their luck. Chances of jobs that have nothing to do with each other differ by a third
/// on average; how much nearer those of neighbours are says how alike they are. The share is larger than that: what is believed of a user
/// was learned from few bursts, and is itself wrong for all jobs of the next.
fn alike(jobs: &[Recent]) -> Option<f64> {
    let mut before = HashMap::new();
    let (mut pairs, mut differences) = (0_usize, 0.0);
    for job in jobs {
        if let RecentLength::Known(_, Some(chance)) = job.length
            && let Some(last) = before.insert((&job.request.user, job.request.job.gpus), chance)
        {
            pairs += 1;
            differences += f64::abs(chance - last);
        }
    }
    (pairs >= PAIRS_MIN).then(|| (1.0 - (3.0 * differences / pairs as f64).min(1.0).powi(3)).min(ALIKE_MAX))
}

/// Recent arrivals at one moment, to draw from.
#[derive(Debug)]
pub struct ArrivalPool {
    jobs: Vec<Recent>,
    from: Time,
    now: Time,
    span: Span,
    alike: Option<f64>,
}

impl ArrivalPool {
    /// The part of a user's jobs of one size that are long or short together, if enough jobs ended to tell.
    pub fn alike(&self) -> Option<f64> {
        self.alike
    }

    /// What is known of bursts, and no jobs to come.
    #[must_use]
    pub fn without_arrivals(&self) -> Self {
        Self { jobs: Vec::new(), ..*self }
    }

    /// The arrivals of one draw.
    pub fn drawn(self: &Arc<Self>, mut stream: RandomStream) -> DrawnArrivals {
        // The same time of day, where there are whole days to choose from.
        let days = self.span.0 / DAY.0;
        let begin = if days >= 2 {
            let today = self.span.0 % DAY.0;
            today + DAY.0 * stream.below(days)
        } else {
            (stream.unit() * self.span.0 as f64) as u64
        };
        let first = self.jobs.partition_point(|job| job.at.since(self.from).0 < begin);
        DrawnArrivals { pool: Arc::clone(self), next: first, begin, rounds: 0, taken: 0, stream }
    }
}

/// The arrivals of one draw, one after the other.
#[derive(Clone)]
pub struct DrawnArrivals {
    pool: Arc<ArrivalPool>,
    next: usize,
    /// The moment of the recent past at which the draw begins, in nanoseconds since its first arrival.
    begin: u64,
    /// How often the recent past has been gone through.
    rounds: u64,
    taken: u64,
    stream: RandomStream,
}

impl DrawnArrivals {
    /// When the next job comes.
    pub fn next_at(&self) -> Option<Time> {
        let (place, rounds) = if self.next < self.pool.jobs.len() { (self.next, self.rounds) } else { (0, self.rounds + 1) };
        // What came in less than a day may have been a burst: it does not come again and again.
        if self.taken >= JOBS_MAX as u64 || (rounds > 0 && self.pool.span < DAY) {
            return None;
        }
        let since_first = self.pool.jobs.get(place)?.at.since(self.pool.from).0;
        let ahead = (since_first + rounds.saturating_mul(self.pool.span.0)).saturating_sub(self.begin);
        Some(self.pool.now + Span(ahead))
    }

    /// The next job, with a number and a length of its own.
    pub fn take(&mut self) -> Option<(u64, NewJob)> {
        let at = self.next_at()?;
        if self.next >= self.pool.jobs.len() {
            (self.next, self.rounds) = (0, self.rounds + 1);
        }
        let recent = &self.pool.jobs[self.next];
        self.next += 1;
        self.taken += 1;
        let mut request = (*recent.request).clone();
        request.job.arrival = at;
        let chance = self.stream.unit();
        (request.job.steps, request.job.fails_at, request.job.after) = (0.0, None, Box::default());
        request.job.work = match &recent.length {
            RecentLength::Known(work, _) => *work,
            RecentLength::Believed(length, best, ran) => {
                // A job of unknown length takes as long as nothing is known to take: the run forward goes on without it.
                length
                    .total(*ran, chance)
                    .and_then(Span::from_seconds)
                    .map_or(crate::starts::FOR_EVER, |span| span.work_at_speed(*best))
            }
        };
        request.job.work = request.job.work.max(Span(1));
        Some((FIRST_NUMBER + self.taken, request))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::LengthBelief;
    use rota_core::Job;

    fn request(gpus: u32) -> NewJob {
        let job = Job { gpus, ..Job::new(Time::ZERO, Span(1)) };
        NewJob { job, user: "ada".into(), project: "".into(), job_type: "".into(), gpu_types: Vec::new() }
    }

    fn recent(hours: u64) -> RecentArrivals {
        let mut recent = RecentArrivals::default();
        for hour in 0..hours {
            let length = RunLength { belief: LengthBelief::Estimated(60.0), limit_seconds: None };
            recent.came(hour, Time::ZERO + Span::from_whole_seconds(3600 * hour), request(1 + (hour % 24) as u32), length, 1.0);
        }
        recent
    }

    #[test]
    fn the_same_jobs_come_at_the_same_time_of_day_and_for_ever() {
        let now = Time::ZERO + Span::from_whole_seconds(3600 * 72 + 1800);
        let pool = recent(73).pool(now).unwrap();
        for seed in 0..5 {
            let mut drawn = pool.drawn(RandomStream::new(seed, "arrivals"));
            let mut before = now;
            for _ in 0..200 {
                let at = drawn.next_at().unwrap();
                let (number, job) = drawn.take().unwrap();
                assert!(at >= before && number > FIRST_NUMBER, "{at:?} before {before:?}");
                before = at;
                if at.since(now) < Span::from_whole_seconds(3600 * 20) {
                    assert_eq!(
                        u64::from(job.job.gpus) - 1,
                        at.0 / 3_600_000_000_000 % 24,
                        "seed {seed} at {} h",
                        at.seconds() / 3600.0
                    );
                }
            }
        }
    }

    #[test]
    fn what_ended_takes_as_long_as_it_took_and_too_few_jobs_are_no_pool() {
        let mut few = recent(9);
        assert!(few.pool(Time::ZERO + Span::from_whole_seconds(3600 * 9)).is_none());
        few = recent(30);
        (0..30).for_each(|number| few.ended(number, Span::from_whole_seconds(77)));
        let pool = few.pool(Time::ZERO + Span::from_whole_seconds(3600 * 30)).unwrap();
        let mut drawn = pool.drawn(RandomStream::new(1, "arrivals"));
        assert!((0..50).all(|_| drawn.take().unwrap().1.job.work == Span::from_whole_seconds(77)));
    }

    #[test]
    fn bursts_are_told_from_jobs_that_have_nothing_to_do_with_each_other() {
        let mut lengths = crate::Lengths::default();
        let traits = rota_policy::history::JobTraits { user: rota_core::mark("ada"), gpus: 1, ..Default::default() };
        let mut stream = RandomStream::new(3, "lengths");
        (0..500).for_each(|number| lengths.ended(number, &traits, 100.0 * stream.normal().exp()));
        let belief = lengths.belief(&traits);
        let mut alike_of = |burst: u64| {
            let mut recent = RecentArrivals::default();
            let mut seconds = 0.0;
            for number in 0..400 {
                let at = Time::ZERO + Span::from_whole_seconds(60 * number);
                recent.came(number, at, request(1), RunLength { belief: belief.clone(), limit_seconds: None }, 1.0);
                if number % burst == 0 {
                    seconds = 100.0 * stream.normal().exp();
                }
                recent.ended(number, Span::from_seconds(seconds).unwrap());
            }
            recent.pool(Time::ZERO + Span::from_whole_seconds(60 * 400)).unwrap().alike().unwrap()
        };
        let (alone, bursts) = (alike_of(1), alike_of(20));
        assert!(alone < 0.4 && bursts > 0.85, "{alone} {bursts}");
    }

    #[test]
    fn old_arrivals_are_forgotten() {
        let recent = recent(24 * 10);
        assert!(recent.jobs.len() <= 24 * 7 + 1, "{}", recent.jobs.len());
    }
}
