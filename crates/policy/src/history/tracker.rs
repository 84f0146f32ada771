//! Following the jobs of a snapshot: tells the history when a job begins to run, gets to a further step, or ends.
//!
//! What a job has behind it is measured in seconds on its best GPU type, so that slow GPUs do not make jobs look long. Nothing is
//! learned from a job that never ran, and nothing of a job's length is read before it has ended. A job that others ended teaches how far
//! it got, and no end. A claim teaches nothing.

use super::steps::{STEPS, end_seconds, step_of};
use super::{Belief, History, JobTraits, Lineage};
use rota_core::{JobId, JobView, Phase, Renumbering, Snapshot, Span, Time};
use serde::{Deserialize, Serialize};
use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};

/// A belief is made anew when its own class has changed, or when this much was learned anywhere.
const STALE_AFTER: u64 = 256;

/// A history that learns from the jobs of a run.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Tracker {
    history: History,
    kinds: Vec<Kind>,
    #[serde(skip)]
    kind_of: HashMap<Lineage, u32>,
    jobs: Vec<Track>,
    /// Moments at which running jobs get to their next step; one that no longer holds is dropped when it comes up.
    crossings: BinaryHeap<Reverse<(Time, JobId)>>,
    /// Running jobs that got to a further step in the last look.
    crossed: Vec<JobId>,
    /// Jobs that ran and had ended by themselves at the last look, and the seconds that they had behind them; none in a forecast.
    #[serde(skip)]
    ended: Vec<(JobId, f64)>,
    /// Whether jobs teach nothing any more, because what happens is only a forecast.
    #[serde(skip)]
    is_closed: bool,
}

/// Jobs that share all their classes share what is believed of them.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct Kind {
    lineage: Lineage,
    /// Whether they are jobs of one user. Where users are not known, they may be anybody's.
    is_of_one_user: bool,
    known: Option<Box<Known>>,
}

/// What was found for a kind, and when. It is written down although the history could tell it: it may be a little behind the history, and
/// a tracker that was saved must go on as if it had not been.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(from = "SavedKnown")]
struct Known {
    belief: Belief,
    version: u64,
    is_changed: bool,
    #[serde(skip_serializing)]
    indices: [f64; STEPS],
}

/// The form on the disk: the indices follow from the belief.
#[derive(Deserialize)]
struct SavedKnown {
    belief: Belief,
    version: u64,
    is_changed: bool,
}

impl From<SavedKnown> for Known {
    fn from(saved: SavedKnown) -> Self {
        let indices = saved.belief.indices();
        Self { belief: saved.belief, version: saved.version, is_changed: saved.is_changed, indices }
    }
}

/// How far one job has got.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
struct Track {
    /// Its kind, counted from 1; 0 before it arrived.
    kind: u32,
    /// Steps that were counted as reached in the present attempt.
    reached: u8,
    runs: bool,
    /// How often it was started.
    starts: u32,
    /// Attempts that failed.
    failures: u32,
    crossing: Option<Time>,
    /// Seconds it had behind it at the last look, and the GPU time it had received.
    attained_seconds: f64,
    service: Span,
}

impl Track {
    /// Seconds that a job which left its GPUs for good had behind it, from the GPU time it received since the last look. What it is
    /// said to have done then is no measure: a live job that ended has done all of its work, however long that was believed to be.
    fn attained_at_end(&self, view: &JobView<'_>) -> f64 {
        let gpus = f64::from(view.job.gpus) * view.job.share.fraction();
        let ran_seconds = view.service().minus(self.service).seconds() / gpus;
        self.attained_seconds + ran_seconds * view.state.speed / view.best_speed()
    }
}

/// Seconds that a job has behind it, on its best GPU type.
pub fn attained_seconds(view: &JobView<'_>) -> f64 {
    view.done().at_speed(view.best_speed()).seconds()
}

impl Tracker {
    /// What was learned.
    pub fn history(&self) -> &History {
        &self.history
    }

    /// What the jobs taught that have ended. With it another tracker may begin, which counts the other jobs itself.
    pub fn taught_by_ended(&self) -> History {
        let mut history = self.history.clone();
        for track in self.jobs.iter().filter(|track| track.reached > 0) {
            let lineage = &self.kinds[track.kind as usize - 1].lineage;
            (0..usize::from(track.reached)).for_each(|step| history.take_back(lineage, step));
        }
        history
    }

    /// Begins with what earlier jobs taught. Jobs that run are followed from here on, with what they have behind them.
    pub fn begin_with(&mut self, history: History) {
        *self = Self { history, ..Self::default() };
    }

    /// Nothing is learned from now on. Where jobs are is still followed.
    pub fn close(&mut self) {
        self.is_closed = true;
    }

    /// Takes in what happened since the last look.
    pub fn follow(&mut self, snapshot: &Snapshot<'_>) {
        self.jobs.resize(snapshot.states.len(), Track::default());
        self.crossed.clear();
        self.ended.clear();
        while let Some(&Reverse((at, job))) = self.crossings.peek()
            && at <= snapshot.now
        {
            self.crossings.pop();
            if self.jobs[job.index()].crossing == Some(at) {
                self.settle(&snapshot.view(job), snapshot.now);
                self.crossed.push(job);
            }
        }
        for view in snapshot.changed_jobs() {
            self.settle(&view, snapshot.now);
        }
        for &job in snapshot.repaced {
            self.settle(&snapshot.view(job), snapshot.now);
        }
        self.arrive(snapshot);
    }

    /// Gives new jobs their classes.
    fn arrive(&mut self, snapshot: &Snapshot<'_>) {
        for view in snapshot.changed_jobs() {
            if self.jobs[view.id().index()].kind == 0 && view.state.phase.is_active() {
                self.kind(&view, snapshot);
                self.settle(&view, snapshot.now);
            }
        }
    }

    fn kind(&mut self, view: &JobView<'_>, snapshot: &Snapshot<'_>) {
        let traits = JobTraits::of(view.job, &snapshot.bound.names, view.best_speed());
        let (lineage, is_of_one_user) = (self.history.lineage(&traits), traits.user != 0);
        if self.kind_of.is_empty() {
            self.kind_of = self.kinds.iter().zip(1..).map(|(kind, number)| (kind.lineage.clone(), number)).collect();
        }
        let next = self.kinds.len() as u32 + 1;
        let number = *self.kind_of.entry(lineage).or_insert_with_key(|lineage| {
            self.kinds.push(Kind { lineage: lineage.clone(), is_of_one_user, known: None });
            next
        });
        self.jobs[view.id().index()].kind = number;
    }

    /// Counts the steps that a job has reached, and its end.
    fn settle(&mut self, view: &JobView<'_>, now: Time) {
        let track = self.jobs[view.id().index()];
        if track.kind == 0 {
            return;
        }
        let phase = view.state.phase;
        let (starts, failures) = (view.state.starts, view.state.failures);
        let mut next = Track { crossing: None, runs: phase.has_gpus(), starts, failures, ..track };
        // A job may have been started and have ended between two looks.
        let ran = track.runs || starts > track.starts;
        // A failed attempt that is tried again begins from nothing: its end counts, and then the next beginning.
        let has_left = ran && (phase.is_over() || failures > track.failures);
        let attained = if has_left { track.attained_at_end(view) } else { attained_seconds(view) };
        let step = step_of(attained);
        (next.attained_seconds, next.service) = (if has_left { 0.0 } else { attained }, view.service());
        if (ran || next.runs) && !view.job.is_claim {
            next.reached = if has_left { 0 } else { next.reached.max(step as u8 + 1) };
            if !self.is_closed {
                self.learn(&track, step, has_left && !view.state.was_cut_off);
            }
            if phase.is_over() && has_left && !view.state.was_cut_off && !self.is_closed {
                self.ended.push((view.id(), attained));
            }
        }
        if phase == Phase::Running && step + 1 < STEPS {
            let left = end_seconds(step) - attained;
            let speed = (view.state.speed / view.best_speed()).max(1e-9);
            let from = now.max(view.state.paced_from);
            // One nanosecond more, so that rounding never wakes us just short of the step.
            let at = from + Span::from_seconds(left).unwrap_or_default().at_speed(speed) + Span(1);
            next.crossing = Some(at);
            self.crossings.push(Reverse((at, view.id())));
        }
        self.jobs[view.id().index()] = next;
    }

    /// Counts the steps that a job has reached since the last look, and its end in the last of them.
    fn learn(&mut self, track: &Track, step: usize, has_ended: bool) {
        let kind = &mut self.kinds[track.kind as usize - 1];
        for step in usize::from(track.reached)..=step {
            self.history.reach(&kind.lineage, step);
        }
        if has_ended {
            self.history.end(&kind.lineage, step);
        }
        if let Some(known) = &mut kind.known {
            known.is_changed = true;
        }
    }

    fn known(&mut self, job: JobId) -> Option<&Known> {
        let number = self.jobs.get(job.index())?.kind as usize;
        let kind = self.kinds.get_mut(number.checked_sub(1)?)?;
        let version = self.history.version();
        let is_stale = |known: &Known| known.version != version && (known.is_changed || version - known.version >= STALE_AFTER);
        if kind.known.as_deref().is_none_or(is_stale) {
            let belief = self.history.belief(&kind.lineage);
            let indices = belief.indices();
            kind.known = Some(Box::new(Known { belief, version, is_changed: false, indices }));
        }
        kind.known.as_deref()
    }

    /// The Gittins index of a job that has so many seconds behind it ([`attained_seconds`]): its best chance of ending per second.
    pub fn index(&mut self, job: JobId, attained_seconds: f64) -> f64 {
        self.known(job).map_or(0.0, |known| known.indices[step_of(attained_seconds)])
    }

    /// What is believed of a job's length.
    pub fn belief(&mut self, job: JobId) -> Option<&Belief> {
        self.known(job).map(|known| &known.belief)
    }

    /// A number that a job shares with the jobs of the same user that are alike in every class; `None` if its user is not known.
    pub fn alike(&self, job: JobId) -> Option<usize> {
        let number = (self.jobs.get(job.index())?.kind as usize).checked_sub(1)?;
        self.kinds[number].is_of_one_user.then_some(number)
    }

    /// How many numbers [`Self::alike`] may give.
    pub fn kinds(&self) -> usize {
        self.kinds.len()
    }

    /// Running jobs that got to a further step in the last look.
    pub fn crossed(&self) -> &[JobId] {
        &self.crossed
    }

    /// Jobs that ran and that the last look found to have ended by themselves, and the seconds that they had behind them; none in a forecast.
    pub fn ended(&self) -> &[(JobId, f64)] {
        &self.ended
    }

    /// When the next running job gets to its next step.
    pub fn next_crossing(&mut self) -> Option<Time> {
        while let Some(&Reverse((at, job))) = self.crossings.peek() {
            if self.jobs[job.index()].crossing == Some(at) {
                return Some(at);
            }
            self.crossings.pop();
        }
        None
    }

    /// Jobs have other rows from now on. What they taught stays.
    pub fn renumber(&mut self, rows: &Renumbering) {
        rows.keep(&mut self.jobs);
        self.forget_unused();
        rows.rename(&mut self.crossed);
        self.ended.clear();
        let kept = std::mem::take(&mut self.crossings).into_iter();
        self.crossings = kept.filter_map(|Reverse((at, job))| Some(Reverse((at, rows.new_of(job)?)))).collect();
    }

    /// Drops the kinds without a job. A kind is made anew when another job of it comes, and then its belief, too.
    fn forget_unused(&mut self) {
        let mut numbers = vec![0; self.kinds.len() + 1];
        self.jobs.iter().for_each(|track| numbers[track.kind as usize] = 1);
        numbers[0] = 0;
        let mut number = 0;
        self.kinds.retain(|_| {
            number += 1;
            numbers[number] > 0
        });
        let mut next = 0;
        for number in numbers.iter_mut().filter(|number| **number > 0) {
            next += 1;
            *number = next;
        }
        self.jobs.iter_mut().for_each(|track| track.kind = numbers[track.kind as usize]);
        // It is filled again when the next job comes.
        self.kind_of = HashMap::new();
    }

    /// How much was learned so far; changes with everything learned.
    pub fn version(&self) -> u64 {
        self.history.version()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rota_core::bind::BadJobs;
    use rota_core::{Bound, Cluster, Durations, Job, JobState, MilliGpu, RestartCosts, ThroughputTable, Workload};

    /// A look at jobs that have all changed.
    fn look(tracker: &mut Tracker, bound: &Bound, states: &[JobState], second: u64) {
        let changed = (0..states.len()).map(JobId::from_index).collect::<Vec<_>>();
        tracker.follow(&Snapshot {
            now: Time(second * 1_000_000_000),
            round: None,
            is_tick: false,
            bound,
            states,
            nodes_up: &[true],
            gpu_busy: &[Span::ZERO; 3],
            outside: &[],
            outside_changes: 0,
            restart_cost: Span::ZERO,
            restart_costs: &RestartCosts::default(),
            min_run: Span::ZERO,
            min_run_restarts: None,
            speed_changes: 0,
            durations: Durations::Hidden,
            changed: &changed,
            lengths: &[],
            repaced: &[],
        });
    }

    #[test]
    fn a_job_that_others_ended_teaches_how_far_it_got_and_a_claim_teaches_nothing() {
        let mut workload = Workload::new("ends");
        let plain = Job { share: MilliGpu::WHOLE, ..Job::new(Time::ZERO, Span::from_whole_seconds(100)) };
        workload.push(plain.clone());
        workload.push(plain.clone());
        workload.push(Job { is_claim: true, ..plain });
        workload.finish();
        let cluster = Cluster::from_spec("gpu:3", 8).unwrap();
        let bound = Bound::new(workload, cluster, &ThroughputTable::default(), BadJobs::Refuse).unwrap();
        let runs = JobState { phase: Phase::Running, starts: 1, speed: 1.0, ..JobState::default() };
        let mut tracker = Tracker::default();
        look(&mut tracker, &bound, &[runs.clone(), runs.clone(), runs], 0);
        let service = Span::from_whole_seconds(15);
        let ended = JobState { phase: Phase::Failed, starts: 1, speed: 1.0, service, ..JobState::default() };
        let cut_off = JobState { was_cut_off: true, ..ended.clone() };
        look(&mut tracker, &bound, &[ended.clone(), cut_off, ended], 15);
        assert_eq!(tracker.ended(), [(JobId(0), 15.0)]);
        let mut expected = History::default();
        let traits = JobTraits::of(bound.job(JobId(0)), &bound.names, 1.0);
        expected.ran(&traits, 15.0, true);
        expected.ran(&traits, 15.0, false);
        let lineage = expected.lineage(&traits);
        assert_eq!(tracker.history().ended(), 1);
        assert_eq!(tracker.history().belief(&lineage), expected.belief(&lineage));
        assert_eq!(tracker.taught_by_ended().belief(&lineage), expected.belief(&lineage), "it is over");
    }

    #[test]
    fn kinds_without_a_job_are_dropped() {
        let mut tracker = Tracker::default();
        for user in 1..=4 {
            let traits = JobTraits { user, gpus: 1, ..JobTraits::default() };
            tracker.history.ran(&traits, 100.0 * user as f64, true);
            let lineage = tracker.history.lineage(&traits);
            tracker.kinds.push(Kind { lineage, is_of_one_user: user > 2, known: None });
        }
        // Two jobs are of the third kind; the last has not arrived.
        let tracks = [1, 2, 3, 4, 3, 0].map(|kind| Track { kind, ..Track::default() });
        tracker.jobs = tracks.to_vec();
        let lineages = [2, 1, 2].map(|kind: usize| tracker.kinds[kind].lineage.clone());
        let beliefs = [2, 1, 4].map(|job| tracker.belief(JobId(job)).cloned());
        tracker.renumber(&Renumbering::keeping(6, |job| [1, 2, 4, 5].contains(&job.0)));
        assert_eq!(tracker.kinds(), 2);
        let kept = [1, 0, 2].map(|job| tracker.kinds[tracker.jobs[job].kind as usize - 1].lineage.clone());
        assert_eq!(kept, lineages);
        assert_eq!([1, 0, 2].map(|job| tracker.belief(JobId(job)).cloned()), beliefs);
        assert_eq!([0, 1, 2, 3].map(|job| tracker.alike(JobId(job))), [None, Some(1), Some(1), None]);
    }
}
