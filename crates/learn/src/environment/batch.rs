//! The public protocol of `RLScheduler` (SC'20) on a trace in the Standard Workload Format: one pool of processors, sequences of 1,024 jobs,
//! scored by mean bounded slowdown.
//!
//! Two ways to choose. With *commit* (the protocol) the chosen job stays chosen until it fits, even if a better one arrives; jobs may be
//! backfilled meanwhile. Without it the queue is sorted again at every event, and nothing passes the best job. Times are whole seconds of
//! the file. An arrival at the moment of a release comes first.

mod linear;

pub use linear::play as play_linear;

use super::{BadChoice, Environment, Outcome, Step, View};
use crate::features::{self, ClusterFacts, JobFacts};
use rota_core::random::RandomStream;
use rota_policy::{BatchRule, Facts};
use rota_trace::Loaded;
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::sync::Arc;

/// Jobs in one sequence.
const SEQUENCE_JOBS: usize = 1024;
/// Jobs that a chooser sees with commit, as in the protocol.
const ROWS_MAX: usize = 128;
/// The first job of each sequence of the published evaluation, counted from 0.
pub const PUBLISHED_STARTS: [usize; 10] = [1981, 2756, 4299, 8850, 3316, 2714, 5228, 7762, 4022, 7085];

/// Rules beside the scores of [`BatchRule`].
const FCFS: usize = 0;
const SJF: usize = 1;
const SCORED: usize = 2;

/// One job of the trace.
#[derive(Clone, Copy, Debug)]
struct BatchJob {
    submitted: f64,
    run: f64,
    estimate: f64,
    processors: u32,
}

/// A trace that cannot be used here.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BatchError {
    /// Too short for a sequence.
    #[error("{source_name}: has {jobs} jobs; a sequence has {SEQUENCE_JOBS}")]
    TooShort {
        /// The name of the trace file.
        source_name: String,
        /// How many jobs the trace has.
        jobs: usize,
    },
    /// A job that is larger than the machine.
    #[error("{source_name}: job {job} needs {processors} processors; there are {all}")]
    TooWide {
        /// The name of the trace file.
        source_name: String,
        /// The job's position, from 0.
        job: usize,
        /// What it needs.
        processors: u32,
        /// The processors of the machine.
        all: u32,
    },
}

/// A trace and a machine to run it on.
#[derive(Clone, Debug)]
pub struct BatchTrace {
    jobs: Vec<BatchJob>,
    processors: u32,
    /// The features of each job that do not change while it waits, row by row.
    rows: Vec<f32>,
}

impl BatchTrace {
    /// Takes the jobs of a file, for a machine with this many processors.
    pub fn new(loaded: &Loaded, processors: u32) -> Result<Self, BatchError> {
        let source_name = loaded.workload.source.clone();
        let jobs = loaded.workload.jobs.iter().map(|job| BatchJob {
            submitted: job.arrival.seconds() + loaded.zero_second,
            run: job.work.seconds(),
            estimate: job.estimate.unwrap_or(job.work).seconds(),
            processors: job.gpus,
        });
        let jobs = jobs.collect::<Vec<_>>();
        if jobs.len() < SEQUENCE_JOBS {
            return Err(BatchError::TooShort { source_name, jobs: jobs.len() });
        }
        if let Some((job, wide)) = jobs.iter().enumerate().find(|(_, job)| job.processors > processors) {
            return Err(BatchError::TooWide { source_name, job, processors: wide.processors, all: processors });
        }
        let cluster = ClusterFacts { gpus: f64::from(processors), ..ClusterFacts::default() };
        let mut rows = Vec::with_capacity(jobs.len() * features::COUNT);
        for job in &jobs {
            features::push_row(&mut rows, &facts(job), &cluster);
        }
        Ok(Self { jobs, processors, rows })
    }

    /// The row of a job, as it is before the job has waited.
    fn row(&self, job: usize) -> &[f32] {
        &self.rows[job * features::COUNT..(job + 1) * features::COUNT]
    }
}

/// What is known of a job before it waits.
fn facts(job: &BatchJob) -> JobFacts {
    JobFacts {
        submitted_second: job.submitted,
        estimate_seconds: Some(job.estimate),
        remaining_seconds: Some(job.estimate),
        gpus: f64::from(job.processors),
        share: 1.0,
        ..JobFacts::default()
    }
}

/// How choices are used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Choosing {
    /// The chosen job stays chosen until it fits.
    Commit,
    /// The same, and others are backfilled while it waits.
    CommitWithBackfill,
    /// The queue is sorted again at every event.
    Resort,
}

/// Which sequences are played.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sequences {
    /// Those of the published evaluation: seed k is the k-th. After the last, sequences are drawn, none of which is learned from.
    Published,
    /// Drawn from the trace by the seed.
    Drawn,
}

#[derive(Clone, Copy, Debug, PartialEq)]
struct Running {
    end: f64,
    believed_end: f64,
    processors: u32,
}

impl Eq for Running {}

impl PartialOrd for Running {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Running {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        let key = |running: &Self| (running.processors, running.believed_end);
        self.end.total_cmp(&other.end).then_with(|| {
            let ((width, believed), (other_width, other_believed)) = (key(self), key(other));
            width.cmp(&other_width).then(believed.total_cmp(&other_believed))
        })
    }
}

/// The environment: a row is a waiting job, the oldest first.
#[derive(Clone, Debug)]
pub struct Batch {
    trace: Arc<BatchTrace>,
    choosing: Choosing,
    sequences: Sequences,
    /// The jobs of this sequence, as a range of the trace.
    jobs: std::ops::Range<usize>,
    next: usize,
    now: f64,
    free: u32,
    /// Waiting jobs in order of submission.
    queue: Vec<usize>,
    running: BinaryHeap<Reverse<Running>>,
    rows: Vec<f32>,
    legal: Vec<bool>,
    slowdown_sum: f64,
    wait_sum: f64,
    jct_sum: f64,
    last_end: f64,
    started: usize,
    is_done: bool,
}

impl Batch {
    /// An environment on a trace, at the sequence of seed 0.
    pub fn new(trace: Arc<BatchTrace>, choosing: Choosing, sequences: Sequences) -> Self {
        let mut environment = Self::unseen(trace, choosing, sequences);
        environment.reset(0);
        environment
    }

    /// An environment before it was looked at.
    fn unseen(trace: Arc<BatchTrace>, choosing: Choosing, sequences: Sequences) -> Self {
        Self {
            free: trace.processors,
            trace,
            choosing,
            sequences,
            jobs: 0..0,
            next: 0,
            now: 0.0,
            queue: Vec::new(),
            running: BinaryHeap::new(),
            rows: Vec::new(),
            legal: Vec::new(),
            slowdown_sum: 0.0,
            wait_sum: 0.0,
            jct_sum: 0.0,
            last_end: 0.0,
            started: 0,
            is_done: false,
        }
    }

    fn job(&self, job: usize) -> BatchJob {
        self.trace.jobs[job]
    }

    fn fits(&self, job: usize) -> bool {
        self.job(job).processors <= self.free
    }

    fn start(&mut self, job: usize) -> f64 {
        let BatchJob { submitted, run, estimate, processors } = self.job(job);
        self.free -= processors;
        let end = self.now + run;
        self.running.push(Reverse(Running { end, believed_end: self.now + estimate, processors }));
        if let Ok(place) = self.queue.binary_search(&job) {
            self.queue.remove(place);
        }
        let (wait, jct) = (self.now - submitted, end - submitted);
        let slowdown = (jct / run.max(10.0)).max(1.0);
        self.wait_sum += wait;
        self.jct_sum += jct;
        self.slowdown_sum += slowdown;
        self.last_end = self.last_end.max(end);
        self.started += 1;
        slowdown
    }

    /// Goes on to the next arrival or release. Says whether there was one.
    fn next_event(&mut self) -> bool {
        let release = self.running.peek().map(|running| running.0.end);
        let arrival = (self.next < self.jobs.end).then(|| self.job(self.next).submitted);
        match (arrival, release) {
            (Some(arrival), release) if release.is_none_or(|release| arrival <= release) => {
                self.now = self.now.max(arrival);
                self.queue.push(self.next);
                self.next += 1;
                true
            }
            (_, Some(release)) => {
                self.now = self.now.max(release);
                if let Some(Reverse(running)) = self.running.pop() {
                    self.free += running.processors;
                }
                true
            }
            (_, None) => false,
        }
    }

    /// Goes on until a job waits. Says whether one does.
    fn until_waiting(&mut self) -> bool {
        while self.queue.is_empty() {
            if self.next == self.jobs.end || !self.next_event() {
                return false;
            }
        }
        true
    }

    /// When enough processors are believed to be free for a job.
    fn believed_start(&self, job: usize) -> f64 {
        let mut ends = self.running.iter().map(|running| (running.0.believed_end, running.0.processors)).collect::<Vec<_>>();
        ends.sort_by(|a, b| a.0.total_cmp(&b.0));
        let mut free = self.free;
        for (end, processors) in ends {
            free += processors;
            if free >= self.job(job).processors {
                return end;
            }
        }
        self.now
    }

    /// Waits until the chosen job fits, then starts it. Gives the sum of slowdowns of all jobs that were started.
    fn commit(&mut self, job: usize) -> f64 {
        let mut slowdowns = 0.0;
        let start = if self.fits(job) { self.now } else { self.believed_start(job) };
        while !self.fits(job) {
            if self.choosing == Choosing::CommitWithBackfill {
                for other in self.queue.clone() {
                    if self.fits(other) && self.now + self.job(other).estimate < start {
                        slowdowns += self.start(other);
                    }
                }
            }
            if !self.next_event() {
                break;
            }
        }
        slowdowns + self.start(job)
    }

    /// Starts the chosen job if it fits; otherwise goes on to the next moment.
    fn try_start(&mut self, job: usize) -> f64 {
        if self.fits(job) {
            return self.start(job);
        }
        self.next_moment();
        0.0
    }

    /// Goes on to the next moment at which some waiting job fits, with all that happens at it.
    fn next_moment(&mut self) {
        loop {
            if !self.next_event() {
                return;
            }
            self.rest_of_moment();
            if self.queue.iter().any(|&job| self.fits(job)) {
                return;
            }
        }
    }

    fn rest_of_moment(&mut self) {
        let is_now = |this: &Self| {
            let release = this.running.peek().is_some_and(|running| running.0.end <= this.now);
            release || (this.next < this.jobs.end && this.job(this.next).submitted <= this.now)
        };
        while is_now(self) && self.next_event() {}
    }

    fn facts(&self, job: usize) -> Facts {
        let BatchJob { submitted, estimate, processors, .. } = self.job(job);
        Facts {
            run_seconds: estimate,
            gpus: f64::from(processors),
            submitted_second: submitted,
            waited_seconds: self.now - submitted,
        }
    }

    fn score(&self, rule: usize, job: usize) -> f64 {
        match rule {
            FCFS => 0.0,
            SJF => self.job(job).estimate,
            _ => BatchRule::ALL.get(rule - SCORED).map_or(BatchRule::Saf, |(_, rule)| *rule).score(self.facts(job)),
        }
    }

    /// When running jobs are believed to end, with the processors that are free then.
    fn free_later(&self, ends: &mut Vec<(f64, u32)>) {
        ends.clear();
        ends.extend(self.running.iter().map(|running| (running.0.believed_end, running.0.processors)));
        ends.sort_by(|a, b| a.0.total_cmp(&b.0));
        let mut free = self.free;
        for (_, processors) in ends {
            free += *processors;
            *processors = free;
        }
    }

    /// Begins the sequence of a seed.
    fn begin(&mut self, seed: u64) {
        let starts = self.trace.jobs.len() - SEQUENCE_JOBS + 1;
        let first = match self.sequences {
            Sequences::Published => match PUBLISHED_STARTS.get(seed as usize) {
                Some(start) => start % starts,
                None => RandomStream::new(seed, "judged sequence").below(starts as u64) as usize,
            },
            Sequences::Drawn => RandomStream::new(seed, "sequence").below(starts as u64) as usize,
        };
        self.jobs = first..first + SEQUENCE_JOBS;
        self.next = first;
        self.now = self.job(first).submitted;
        self.free = self.trace.processors;
        self.queue.clear();
        self.running.clear();
        (self.slowdown_sum, self.wait_sum, self.jct_sum, self.last_end) = (0.0, 0.0, 0.0, 0.0);
        (self.started, self.is_done) = (0, false);
        self.next_event();
        if self.choosing == Choosing::Resort {
            self.rest_of_moment();
        }
    }

    /// Takes the job at a place of the queue and goes on until the next choice. Gives the slowdowns of the jobs that were started.
    fn go_on(&mut self, place: usize) -> f64 {
        let job = self.queue[place];
        let slowdowns = match self.choosing {
            Choosing::Commit | Choosing::CommitWithBackfill => self.commit(job),
            Choosing::Resort => self.try_start(job),
        };
        let waits = self.until_waiting();
        if waits && self.choosing == Choosing::Resort {
            self.rest_of_moment();
        }
        self.is_done = !waits;
        slowdowns
    }

    /// What the sequence came to so far.
    fn sum_up(&self) -> Outcome {
        let count = self.started.max(1) as f64;
        Outcome {
            reward: -self.slowdown_sum / count,
            wait_mean_s: self.wait_sum / count,
            makespan_s: self.last_end - self.job(self.jobs.start).submitted,
            bsld_mean: self.slowdown_sum / count,
            jct_mean_s: self.jct_sum / count,
            energy_kwh: None,
            lost: 0,
        }
    }

    fn look(&mut self) {
        let seen = if self.choosing == Choosing::Resort { self.queue.len() } else { self.queue.len().min(ROWS_MAX) };
        let all = f64::from(self.trace.processors);
        let cluster = ClusterFacts { free: f64::from(self.free) / all, gpus: all, waiting: self.queue.len() };
        let mut ends = Vec::new();
        self.free_later(&mut ends);
        let mut rows = std::mem::take(&mut self.rows);
        rows.clear();
        for &job in &self.queue[..seen] {
            let BatchJob { submitted, estimate, processors, .. } = self.job(job);
            let later = ends.partition_point(|(_, free)| *free < processors);
            let start = if processors <= self.free { self.now } else { ends.get(later).map_or(self.now, |(end, _)| *end) };
            let facts = JobFacts {
                wait_seconds: self.now - submitted,
                estimate_seconds: Some(estimate),
                fits_now: processors <= self.free,
                earliest_start_seconds: start - self.now,
                ..JobFacts::default()
            };
            let first = rows.len();
            rows.extend_from_slice(self.trace.row(job));
            features::renew(&mut rows[first..], &facts, &cluster);
        }
        self.rows = rows;
        self.legal.clear();
        self.legal.resize(seen, true);
    }
}

impl Environment for Batch {
    fn features(&self) -> &'static [&'static str] {
        &features::NAMES
    }

    fn reset(&mut self, seed: u64) {
        self.begin(seed);
        self.look();
    }

    fn view(&self) -> View<'_> {
        View { rows: &self.rows, legal: &self.legal }
    }

    fn step(&mut self, choice: usize) -> Result<Step, BadChoice> {
        // Rules sort the whole queue; a network sees the oldest jobs of it.
        if choice >= self.queue.len() {
            return Err(BadChoice { choice, rows: self.queue.len() });
        }
        let slowdowns = self.go_on(choice);
        self.look();
        Ok(Step { reward: -slowdowns / SEQUENCE_JOBS as f64, done: self.is_done })
    }

    fn choice_of(&self, rule: usize, _: &mut RandomStream) -> usize {
        let scores = self.queue.iter().map(|&job| self.score(rule, job)).enumerate();
        scores.min_by(|a, b| a.1.total_cmp(&b.1).then(a.0.cmp(&b.0))).map_or(0, |(row, _)| row)
    }

    fn rules(&self) -> Vec<&'static str> {
        // Nothing is stopped here, so what remains of a waiting job's area is all of it.
        let scored = BatchRule::ALL.into_iter().map(|(name, _)| name);
        ["fcfs", "sjf"].into_iter().chain(scored).chain(["srsf"]).collect()
    }

    fn outcome(&self) -> Outcome {
        self.sum_up()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::PathBuf;

    /// The reference trace; `None` with a word to the reader where there is none, which CI does not allow.
    fn lublin() -> Option<Arc<BatchTrace>> {
        let root = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../../shared/data");
        if !root.is_dir() {
            assert_ne!(std::env::var("CI").as_deref(), Ok("true"), "the reference data is missing at {}", root.display());
            println!("skipped: no reference data at {}", root.display());
            return None;
        }
        let loaded = rota_trace::read(&root.join("lublin/lublin-2.swf"), &rota_trace::ReadOptions::default()).unwrap();
        Some(Arc::new(BatchTrace::new(&loaded, 256).unwrap()))
    }

    /// A search plays without rows; everybody else sees rows. Both must come to the same.
    #[test]
    fn parity_a_linear_score_plays_alike_with_rows_and_without() {
        let Some(trace) = lublin() else { return };
        let mut stream = RandomStream::new(5, "weights");
        for (number, choosing) in [Choosing::Commit, Choosing::CommitWithBackfill, Choosing::Resort].into_iter().enumerate() {
            for seed in 0..3 {
                let mut network = rota_nn::Network::linear(features::COUNT);
                network.parameters_mut().iter_mut().for_each(|weight| *weight = stream.normal() as f32);
                let area = features::place("log_area");
                network.parameters_mut()[area] = -20.0;
                let mut workspace = rota_nn::Workspace::default();
                let mut environment = Batch::new(Arc::clone(&trace), choosing, Sequences::Drawn);
                environment.reset(seed);
                let mut steps = 0;
                loop {
                    let view = environment.view();
                    let choice = super::super::best_legal(network.forward(view.rows, &mut workspace), view.legal);
                    steps += 1;
                    if environment.step(choice).unwrap().done {
                        break;
                    }
                }
                let (outcome, without) = play_linear(&trace, choosing, Sequences::Drawn, seed, &network).unwrap();
                assert_eq!((outcome, without), (environment.outcome(), steps), "{number} {seed}");
            }
        }
    }

    fn published_mean(trace: &Arc<BatchTrace>, choosing: Choosing, rule: &str) -> f64 {
        let mut environment = Batch::new(Arc::clone(trace), choosing, Sequences::Published);
        let rule = environment.rules().iter().position(|known| *known == rule).unwrap();
        let mut stream = RandomStream::new(0, "rule");
        let means = (0..PUBLISHED_STARTS.len() as u64).map(|sequence| {
            environment.reset(sequence);
            while !environment.step(environment.choice_of(rule, &mut stream)).unwrap().done {}
            assert_eq!(environment.started, SEQUENCE_JOBS);
            environment.outcome().bsld_mean
        });
        means.sum::<f64>() / PUBLISHED_STARTS.len() as f64
    }

    #[test]
    fn sequences_beyond_the_published_ones_are_others() {
        let job = |second| BatchJob { submitted: f64::from(second), run: 1.0, estimate: 1.0, processors: 1 };
        let trace = BatchTrace { jobs: (0..10_000).map(job).collect(), processors: 4, rows: vec![0.0; 10_000 * features::COUNT] };
        let mut environment = Batch::new(Arc::new(trace), Choosing::Commit, Sequences::Published);
        let mut first = |seed| {
            environment.reset(seed);
            environment.jobs.start
        };
        assert_eq!([first(0), first(9)], [PUBLISHED_STARTS[0], PUBLISHED_STARTS[9]]);
        assert!((10..30).all(|seed| !PUBLISHED_STARTS.contains(&first(seed))));
        assert_ne!(first(10), first(11));
    }

    /// The published figures (`fcfs`, `sjf`, `f1`), and those of an independent simulator for the rules whose published figures were
    /// computed with a negative wait.
    #[test]
    fn parity_rules_on_lublin_2_equal_the_published_figures() {
        let Some(trace) = lublin() else { return };
        let commit = [("fcfs", 7842.47), ("sjf", 787.89), ("f1", 698.34), ("wfp3", 807.25), ("unicep", 830.49)];
        let backfill = [("fcfs", 247.61), ("sjf", 91.99), ("f1", 148.25), ("wfp3", 135.12), ("unicep", 111.19)];
        let resort = [("fcfs", 7842.47), ("sjf", 205.88), ("saf", 46.14), ("f1", 117.93), ("f2", 63.07), ("f3", 652.07)];
        let more = [("f4", 392.79), ("wfp3", 469.30), ("unicep", 165.67)];
        let rows = commit.iter().map(|row| (Choosing::Commit, row));
        let rows = rows.chain(backfill.iter().map(|row| (Choosing::CommitWithBackfill, row)));
        let rows = rows.chain(resort.iter().chain(&more).map(|row| (Choosing::Resort, row)));
        let wrong = rows.filter_map(|(choosing, (rule, expected))| {
            let mean = published_mean(&trace, choosing, rule);
            ((mean - expected).abs() > 0.01).then(|| format!("{choosing:?} {rule}: {mean:.4} instead of {expected}"))
        });
        let wrong = wrong.collect::<Vec<_>>();
        assert!(wrong.is_empty(), "{wrong:#?}");
    }
}
