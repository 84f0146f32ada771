//! Gavel's workloads, draw for draw: the same seed gives the jobs that Gavel (OSDI'20) itself would make.
//!
//! Everything is drawn from Python's random numbers ([`Mersenne`]), in Gavel's order and with its roundings; a job's
//! length is drawn as time on a V100 and given in steps, by the throughput of its type there. Last digits rest on the
//! system's `pow` and `log`: those of glibc are the ones Gavel's published results were made with.

use super::gavel_table::{ReferenceSpeeds, TEMPLATES};
use super::{check_jobs, check_range};
use crate::error::{Fault, TraceError};
use rota_core::mersenne::Mersenne;
use rota_core::{Job, Span, ThroughputTable, Time, Workload};
use serde::Deserialize;
use std::collections::{BTreeMap, VecDeque};

/// The longest run time that can be asked for: a year.
const DURATION_SECONDS_MAX: f64 = 365.0 * 86_400.0;

/// Jobs that keep arriving: settings of `gavel-continuous`.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct GavelContinuous {
    /// How many jobs, those of the steady state among them.
    pub jobs: u32,
    /// Mean arrivals per hour; 0 lets all arrive at the start.
    pub jobs_per_hour: f64,
    /// Mean seconds between two arrivals (Gavel's `lam`), instead of the rate.
    pub seconds_between_jobs: Option<f64>,
    /// Whether jobs have 1, 2, 4 or 8 GPUs; if not, one.
    pub multi_gpu: bool,
    /// Whether a fifth of the jobs has weight 5.
    pub multi_priority: bool,
    /// Whether jobs are due after 1.2, 2 or 10 times their run time on a V100.
    pub slo: bool,
    /// The run time of every job on a V100, in seconds, instead of a drawn one.
    pub fixed_duration_s: Option<f64>,
    /// GPUs of each type that jobs already wait for at the start, as many as fill them; none if empty.
    pub steady_state: BTreeMap<String, u32>,
}

impl Default for GavelContinuous {
    fn default() -> Self {
        Self {
            jobs: 5000,
            jobs_per_hour: 2.0,
            seconds_between_jobs: None,
            multi_gpu: false,
            multi_priority: false,
            slo: false,
            fixed_duration_s: None,
            steady_state: BTreeMap::new(),
        }
    }
}

/// Jobs that are all there at the start: settings of `gavel-static`.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct GavelStatic {
    /// The number of jobs.
    pub jobs: u32,
    /// Whether jobs have 1, 2, 4 or 8 GPUs; if not, one.
    pub multi_gpu: bool,
    /// Whether a fifth of the jobs has weight 5.
    pub multi_priority: bool,
    /// Whether jobs are due after 1.2, 2 or 10 times their run time on a V100.
    pub slo: bool,
    /// The run time of every job on a V100, in seconds, instead of a drawn one.
    pub fixed_duration_s: Option<f64>,
}

impl Default for GavelStatic {
    fn default() -> Self {
        Self { jobs: 5000, multi_gpu: false, multi_priority: false, slo: false, fixed_duration_s: None }
    }
}

/// What Gavel's script for traces writes: settings of `gavel-trace`. Durations are a few whole numbers of hours or so.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct GavelTrace {
    /// The number of jobs.
    pub jobs: u32,
    /// Mean arrivals per hour; 0 lets all arrive at the start.
    pub jobs_per_hour: f64,
    /// Mean seconds between two arrivals (Gavel's `lam`), instead of the rate.
    pub seconds_between_jobs: Option<f64>,
    /// Whether jobs of distributed types have 1, 2 or 4 GPUs; if not, one.
    pub multi_gpu: bool,
    /// Whether a fifth of the jobs has weight 5.
    pub multi_priority: bool,
    /// Shortest run time on a V100, in hours.
    pub hours_min: f64,
    /// Longest run time on a V100, in hours.
    pub hours_max: f64,
    /// How many different run times there are, evenly from the shortest to the longest.
    pub durations: u32,
}

impl Default for GavelTrace {
    fn default() -> Self {
        Self {
            jobs: 100,
            jobs_per_hour: 0.0,
            seconds_between_jobs: None,
            multi_gpu: false,
            multi_priority: false,
            hours_min: 1.0,
            hours_max: 4.0,
            durations: 4,
        }
    }
}

/// A job as it is drawn, before times are rounded to nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct GavelJob {
    /// The job's type, one of 26.
    pub job_type: &'static str,
    /// The moment the job is submitted.
    pub arrival_seconds: f64,
    /// The job's length on V100 GPUs.
    pub duration_seconds: f64,
    /// The job's gang size.
    pub gpus: u32,
    /// The job's length in steps, with a fraction.
    pub steps: f64,
    /// The job's weight, 1 or 5.
    pub weight: f64,
    /// After how many times its run time it is due.
    pub slo_multiple: Option<f64>,
}

impl GavelContinuous {
    fn options(&self) -> JobOptions {
        let Self { multi_gpu, multi_priority, slo, fixed_duration_s, .. } = *self;
        JobOptions { multi_gpu, multi_priority, slo, fixed_duration_s }
    }

    /// Refuses settings that make no sense, naming the one.
    pub(super) fn check(&self, jobs_max: u32) -> Result<(), Fault> {
        check_jobs(self.jobs, jobs_max, "jobs")?;
        check_arrivals(self.jobs_per_hour, self.seconds_between_jobs)?;
        check_fixed_duration(self.fixed_duration_s)
    }

    /// The jobs of a seed in the order they arrive, one at a time. `table` must know the V100's speeds.
    pub fn draw(&self, seed: u64, table: &ThroughputTable) -> Result<impl Iterator<Item = GavelJob> + use<>, TraceError> {
        let mut draws = JobDraws::new(seed, self.options(), table)?;
        let mut arrivals = Arrivals::new(stream(seed, 3), self.jobs_per_hour, self.seconds_between_jobs);
        let mut to_fill = self.steady_state.values().copied().filter(|&gpus| gpus > 0).collect::<VecDeque<_>>();
        let jobs = std::iter::repeat_with(move || {
            let Some(gpus_left) = to_fill.front_mut() else { return draws.job(arrivals.next()) };
            let job = draws.job(0.0);
            *gpus_left = gpus_left.saturating_sub(job.gpus);
            if *gpus_left == 0 {
                to_fill.pop_front();
            }
            job
        });
        Ok(jobs.take(self.jobs as usize))
    }
}

impl GavelStatic {
    fn options(&self) -> JobOptions {
        let Self { multi_gpu, multi_priority, slo, fixed_duration_s, .. } = *self;
        JobOptions { multi_gpu, multi_priority, slo, fixed_duration_s }
    }

    /// Refuses settings that make no sense, naming the one.
    pub(super) fn check(&self, jobs_max: u32) -> Result<(), Fault> {
        check_jobs(self.jobs, jobs_max, "jobs")?;
        check_fixed_duration(self.fixed_duration_s)
    }

    /// The jobs of a seed, one at a time. `table` must know the V100's speeds.
    pub fn draw(&self, seed: u64, table: &ThroughputTable) -> Result<impl Iterator<Item = GavelJob> + use<>, TraceError> {
        let mut draws = JobDraws::new(seed, self.options(), table)?;
        Ok(std::iter::repeat_with(move || draws.job(0.0)).take(self.jobs as usize))
    }
}

impl GavelTrace {
    /// Refuses settings that make no sense, naming the one.
    pub(super) fn check(&self, jobs_max: u32) -> Result<(), Fault> {
        check_jobs(self.jobs, jobs_max, "jobs")?;
        check_arrivals(self.jobs_per_hour, self.seconds_between_jobs)?;
        check_range(self.hours_min, 0.01, 8760.0, "hours from 0.01 to 8760 (a year)", "hours_min")?;
        check_range(self.hours_max, self.hours_min, 8760.0, "hours from `hours_min` to 8760 (a year)", "hours_max")?;
        check_range(f64::from(self.durations), 1.0, 1e6, "a number from 1 to 1000000", "durations")
    }

    /// The jobs of a seed in the order they arrive, one at a time. `table` must know the V100's speeds.
    pub fn draw(&self, seed: u64, table: &ThroughputTable) -> Result<impl Iterator<Item = GavelJob> + use<>, TraceError> {
        let speeds = ReferenceSpeeds::new(table, if self.multi_gpu { 4 } else { 1 })?;
        let (multi_gpu, multi_priority) = (self.multi_gpu, self.multi_priority);
        let (mut jobs, mut durations, mut gangs) = (stream(seed, 0), stream(seed, 2), stream(seed, 3));
        let mut arrivals = Arrivals::new(stream(seed, 1), self.jobs_per_hour, self.seconds_between_jobs);
        let hours = even_steps(self.hours_min, self.hours_max, self.durations);
        let drawn = std::iter::repeat_with(move || {
            let template = jobs.below(TEMPLATES.len() as u64) as usize;
            let gpus = if multi_gpu && TEMPLATES[template].is_distributed {
                match gangs.unit() {
                    draw if draw < 0.7 => 1,
                    draw if draw <= 0.8 => 2,
                    _ => 4,
                }
            } else {
                1
            };
            let duration_seconds = 3600.0 * durations.choice(&hours).copied().unwrap_or(1.0);
            GavelJob {
                job_type: TEMPLATES[template].job_type,
                arrival_seconds: arrivals.next(),
                duration_seconds,
                gpus,
                steps: duration_seconds * speeds.of(template, gpus),
                weight: draw_weight(multi_priority, &mut jobs),
                slo_multiple: None,
            }
        });
        Ok(drawn.take(self.jobs as usize))
    }
}

/// Jobs that keep arriving, as a workload.
pub fn gavel_continuous(config: &GavelContinuous, seed: u64, table: &ThroughputTable) -> Result<Workload, TraceError> {
    Ok(workload("gavel-continuous", seed, config.draw(seed, table)?))
}

/// Jobs that are all there at the start, as a workload.
pub fn gavel_static(config: &GavelStatic, seed: u64, table: &ThroughputTable) -> Result<Workload, TraceError> {
    Ok(workload("gavel-static", seed, config.draw(seed, table)?))
}

/// What Gavel's script for traces writes, as a workload: the script prints whole steps and seconds, cut off.
pub fn gavel_trace(config: &GavelTrace, seed: u64, table: &ThroughputTable) -> Result<Workload, TraceError> {
    let printed =
        |job: GavelJob| GavelJob { steps: job.steps.trunc().max(1.0), arrival_seconds: job.arrival_seconds.trunc(), ..job };
    Ok(workload("gavel-trace", seed, config.draw(seed, table)?.map(printed)))
}

fn workload(model: &str, seed: u64, jobs: impl Iterator<Item = GavelJob>) -> Workload {
    let mut workload = Workload::new(format!("{model}, seed {seed}"));
    for drawn in jobs.take(super::JOBS_MAX as usize) {
        // A very low rate runs out of the hundred years that times may have.
        let times = Time::from_seconds(drawn.arrival_seconds).zip(Span::from_seconds(drawn.duration_seconds));
        let Some((arrival, work)) = times else { break };
        let kind = workload.names.intern(drawn.job_type);
        let due = drawn.slo_multiple.and_then(|multiple| Span::from_seconds(multiple * drawn.duration_seconds));
        workload.push(Job {
            kind,
            gpus: drawn.gpus,
            steps: drawn.steps,
            weight: drawn.weight,
            deadline: due.map(|span| arrival + span),
            ..Job::new(arrival, work)
        });
    }
    workload.finish();
    workload
}

/// A stream of a run: Gavel numbers them from the seed.
fn stream(seed: u64, number: u8) -> Mersenne {
    Mersenne::new(u128::from(seed) + u128::from(number))
}

/// What the jobs of one run have in common.
#[derive(Clone, Copy)]
struct JobOptions {
    multi_gpu: bool,
    multi_priority: bool,
    slo: bool,
    fixed_duration_s: Option<f64>,
}

/// Draws everything about a job but its arrival.
struct JobDraws {
    jobs: Mersenne,
    slos: Option<Mersenne>,
    options: JobOptions,
    speeds: ReferenceSpeeds,
}

impl JobDraws {
    fn new(seed: u64, options: JobOptions, table: &ThroughputTable) -> Result<Self, TraceError> {
        let speeds = ReferenceSpeeds::new(table, if options.multi_gpu { 8 } else { 1 })?;
        let slos = options.slo.then(|| stream(seed, 6));
        Ok(Self { jobs: stream(seed, 2), slos, options, speeds })
    }

    /// The next job; the order of the draws is Gavel's.
    fn job(&mut self, arrival_seconds: f64) -> GavelJob {
        // Drawn even where every job has one GPU, so that both kinds of workload have the same durations.
        let gang_draw = self.jobs.unit();
        let gpus = match gang_draw {
            _ if !self.options.multi_gpu => 1,
            draw if draw < 0.7 => 1,
            draw if draw <= 0.8 => 2,
            draw if draw <= 0.95 => 4,
            _ => 8,
        };
        let duration_seconds = self.options.fixed_duration_s.unwrap_or_else(|| draw_duration(&mut self.jobs));
        let template = loop {
            let drawn = self.jobs.below(TEMPLATES.len() as u64) as usize;
            if gpus == 1 || TEMPLATES[drawn].is_distributed {
                break drawn;
            }
        };
        GavelJob {
            job_type: TEMPLATES[template].job_type,
            arrival_seconds,
            duration_seconds,
            gpus,
            steps: duration_seconds * self.speeds.of(template, gpus),
            weight: draw_weight(self.options.multi_priority, &mut self.jobs),
            slo_multiple: self.slos.as_mut().map(|slos| match slos.unit() {
                draw if draw < 0.33 => 1.2,
                draw if draw < 0.67 => 2.0,
                _ => 10.0,
            }),
        }
    }
}

/// Half an hour to 17 hours for four jobs of five, up to a week for the fifth, both even in the logarithm.
fn draw_duration(stream: &mut Mersenne) -> f64 {
    let exponent = if stream.unit() >= 0.8 { stream.uniform(3.0, 4.0) } else { stream.uniform(1.5, 3.0) };
    // Hidden, the base stays an argument of `pow`: an optimiser may replace the power of a known base by a function that
    // rounds otherwise.
    60.0 * std::hint::black_box(10.0_f64).powf(exponent)
}

fn draw_weight(multi_priority: bool, stream: &mut Mersenne) -> f64 {
    if multi_priority && stream.unit() <= 0.2 { 5.0 } else { 1.0 }
}

/// The times of arrival: the first at zero.
struct Arrivals {
    stream: Mersenne,
    seconds_between_jobs: f64,
    latest: Option<f64>,
}

impl Arrivals {
    fn new(stream: Mersenne, jobs_per_hour: f64, seconds_between_jobs: Option<f64>) -> Self {
        let from_rate = if jobs_per_hour > 0.0 { 3600.0 / jobs_per_hour } else { 0.0 };
        Self { stream, seconds_between_jobs: seconds_between_jobs.unwrap_or(from_rate), latest: None }
    }

    fn next(&mut self) -> f64 {
        let next = match self.latest {
            // The reciprocal is rounded before it divides: multiplying instead differs in the last digit.
            Some(latest) if self.seconds_between_jobs > 0.0 => self.stream.exponential(1.0 / self.seconds_between_jobs) + latest,
            _ => 0.0,
        };
        self.latest = Some(next);
        next
    }
}

/// Numbers evenly from `low` to `high`, both included, rounded as numpy's `linspace` does.
fn even_steps(low: f64, high: f64, count: u32) -> Vec<f64> {
    let step = if count > 1 { (high - low) / f64::from(count - 1) } else { 0.0 };
    let mut steps = (0..count).map(|position| f64::from(position) * step + low).collect::<Vec<_>>();
    if let Some(last) = steps.get_mut(1..).and_then(<[f64]>::last_mut) {
        *last = high;
    }
    steps
}

fn check_arrivals(jobs_per_hour: f64, seconds_between_jobs: Option<f64>) -> Result<(), Fault> {
    check_range(jobs_per_hour, 0.0, 1e9, "a number from 0 to 1e9", "jobs_per_hour")?;
    let seconds = seconds_between_jobs.unwrap_or(0.0);
    check_range(seconds, 0.0, DURATION_SECONDS_MAX, "seconds from 0 to 31536000 (a year)", "seconds_between_jobs")
}

fn check_fixed_duration(seconds: Option<f64>) -> Result<(), Fault> {
    let allowed = "seconds from 0.001 to 31536000 (a year)";
    seconds.map_or(Ok(()), |seconds| check_range(seconds, 1e-3, DURATION_SECONDS_MAX, allowed, "fixed_duration_s"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::default_throughputs;

    fn continuous(config: &GavelContinuous, seed: u64) -> Vec<GavelJob> {
        config.draw(seed, &default_throughputs()).unwrap().collect()
    }

    #[test]
    fn options_change_only_what_they_are_about() {
        let plain = GavelContinuous { jobs: 400, ..GavelContinuous::default() };
        let jobs = continuous(&plain, 3);
        assert!(jobs.iter().all(|job| job.gpus == 1 && job.slo_multiple.is_none() && job.weight.to_bits() == 1.0_f64.to_bits()));
        let with_slo = continuous(&GavelContinuous { slo: true, ..plain.clone() }, 3);
        for (job, due) in jobs.iter().zip(&with_slo) {
            assert_eq!(GavelJob { slo_multiple: None, ..*due }, *job);
        }
        let static_jobs = GavelStatic { jobs: 400, ..GavelStatic::default() };
        let at_once = static_jobs.draw(3, &default_throughputs()).unwrap();
        assert!(at_once.zip(&jobs).all(|(static_job, job)| static_job == GavelJob { arrival_seconds: 0.0, ..*job }));
        let fixed = continuous(&GavelContinuous { fixed_duration_s: Some(60.0), ..plain.clone() }, 3);
        assert!(fixed.iter().all(|job| job.duration_seconds.to_bits() == 60.0_f64.to_bits()));
        assert!(fixed.iter().zip(&jobs).all(|(fixed, job)| fixed.arrival_seconds.to_bits() == job.arrival_seconds.to_bits()));
        let by_gap = GavelContinuous { jobs_per_hour: 9.0, seconds_between_jobs: Some(1800.0), ..plain };
        assert_eq!(continuous(&by_gap, 3), jobs);
    }

    /// Worked out with Python's `random` by the rules of the simulator.
    #[test]
    fn all_options_together_are_drawn_in_the_order_of_gavel() {
        let config = GavelContinuous {
            jobs: 300,
            jobs_per_hour: 1.5,
            multi_gpu: true,
            multi_priority: true,
            slo: true,
            ..GavelContinuous::default()
        };
        let jobs = continuous(&config, 7);
        for (position, expected) in [
            (
                1,
                GavelJob {
                    job_type: "LM (batch size 40)",
                    arrival_seconds: 2_033.369_399_601_260_3,
                    duration_seconds: 72_271.305_123_165_69,
                    gpus: 1,
                    steps: 3_269_363.882_420_790_4,
                    weight: 1.0,
                    slo_multiple: Some(10.0),
                },
            ),
            (
                150,
                GavelJob {
                    job_type: "Recommendation (batch size 2048)",
                    arrival_seconds: 353_240.521_568_678_8,
                    duration_seconds: 2_157.767_115_893_064_3,
                    gpus: 1,
                    steps: 16_117.726_428_687_554,
                    weight: 5.0,
                    slo_multiple: Some(10.0),
                },
            ),
            (
                299,
                GavelJob {
                    job_type: "ResNet-18 (batch size 32)",
                    arrival_seconds: 750_296.089_772_819_5,
                    duration_seconds: 26_233.468_674_093_56,
                    gpus: 1,
                    steps: 785_617.814_159_890_4,
                    weight: 1.0,
                    slo_multiple: Some(2.0),
                },
            ),
        ] {
            assert_eq!(jobs[position], expected);
        }
        assert_eq!(jobs.iter().map(|job| job.gpus).sum::<u32>(), 532);
        assert_eq!(jobs.iter().filter(|job| job.weight > 1.0).count(), 68);
    }

    #[test]
    fn shares_are_those_of_the_model() {
        let config =
            GavelContinuous { jobs: 40_000, multi_gpu: true, multi_priority: true, slo: true, ..GavelContinuous::default() };
        let jobs = continuous(&config, 1);
        let share = |is_one: &dyn Fn(&GavelJob) -> bool| jobs.iter().filter(|job| is_one(job)).count() as f64 / 40_000.0;
        for (gpus, expected) in [(1, 0.7), (2, 0.1), (4, 0.15), (8, 0.05)] {
            assert!((share(&|job| job.gpus == gpus) - expected).abs() < 0.01, "{gpus}");
        }
        assert!((share(&|job| job.weight > 1.0) - 0.2).abs() < 0.01);
        assert!((share(&|job| job.duration_seconds >= 60_000.0) - 0.2).abs() < 0.01);
        for (multiple, expected) in [(1.2, 0.33), (2.0, 0.34), (10.0, 0.33)] {
            assert!((share(&|job| job.slo_multiple == Some(multiple)) - expected).abs() < 0.01, "{multiple}");
        }
        let mean = jobs.last().unwrap().arrival_seconds / 39_999.0;
        assert!((mean / 1800.0 - 1.0).abs() < 0.02, "{mean}");
    }

    #[test]
    fn the_steady_state_fills_each_type_at_the_start() {
        let steady_state = BTreeMap::from([("v100".to_owned(), 9), ("k80".to_owned(), 0), ("p100".to_owned(), 16)]);
        let config = GavelContinuous { jobs: 60, multi_gpu: true, steady_state, ..GavelContinuous::default() };
        let jobs = continuous(&config, 5);
        let mut left = jobs.iter();
        for gpus in [16, 9] {
            let mut filled = 0;
            while filled < gpus {
                let job = left.next().unwrap();
                assert!(job.arrival_seconds <= 0.0);
                filled += job.gpus;
            }
        }
        assert!(left.next().unwrap().arrival_seconds <= 0.0, "the first that arrives does so at the start");
        assert!(left.next().unwrap().arrival_seconds > 0.0);
        let without = GavelContinuous { steady_state: BTreeMap::new(), ..config };
        let kinds = |jobs: &[GavelJob]| jobs.iter().map(|job| (job.job_type, job.gpus)).collect::<Vec<_>>();
        assert_eq!(kinds(&jobs), kinds(&continuous(&without, 5)), "the same jobs, only earlier");
    }

    /// Worked out with Python's `random` by the rules of the script.
    #[test]
    fn the_script_for_traces_draws_its_own_way() {
        let config = GavelTrace {
            jobs: 7,
            seconds_between_jobs: Some(600.0),
            multi_gpu: true,
            multi_priority: true,
            ..GavelTrace::default()
        };
        let table = default_throughputs();
        let jobs = config.draw(2, &table).unwrap().collect::<Vec<_>>();
        assert_eq!(jobs.len(), 7);
        let expected = [
            ("ResNet-18 (batch size 32)", 1, 0.0, 2.0, 5.0),
            ("Transformer (batch size 64)", 2, 163.057_381_940_201, 3.0, 1.0),
            ("Recommendation (batch size 8192)", 1, 634.516_551_686_063_8, 1.0, 1.0),
            ("Transformer (batch size 16)", 2, 911.695_130_437_591_6, 4.0, 1.0),
            ("ResNet-50 (batch size 32)", 4, 1_467.378_629_662_247, 4.0, 1.0),
            ("LM (batch size 80)", 2, 2_057.029_776_316_003_3, 2.0, 1.0),
            ("Transformer (batch size 256)", 4, 2_097.694_497_060_973, 1.0, 1.0),
        ];
        for (job, (job_type, gpus, arrival_seconds, hours, weight)) in jobs.iter().zip(expected) {
            let steps = 3600.0 * hours * table.get(job_type, gpus, "v100").unwrap();
            let expected =
                GavelJob { job_type, arrival_seconds, duration_seconds: 3600.0 * hours, gpus, steps, weight, slo_multiple: None };
            assert_eq!(*job, expected);
        }
        let workload = gavel_trace(&config, 2, &table).unwrap();
        assert!(workload.jobs.iter().all(|job| job.arrival.0 % 1_000_000_000 == 0 && job.steps.fract() <= 0.0));
    }

    #[test]
    fn even_steps_end_where_they_should() {
        assert_eq!(even_steps(1.0, 4.0, 4), [1.0, 2.0, 3.0, 4.0]);
        assert_eq!(even_steps(0.1, 0.8, 4), [0.1, 0.333_333_333_333_333_37, 0.566_666_666_666_666_8, 0.8]);
        assert_eq!(even_steps(2.0, 5.0, 1), [2.0]);
    }

    #[test]
    fn jobs_have_all_that_was_drawn() {
        let config = GavelContinuous { jobs: 50, slo: true, multi_priority: true, multi_gpu: true, ..GavelContinuous::default() };
        let workload = gavel_continuous(&config, 0, &default_throughputs()).unwrap();
        for (job, drawn) in workload.jobs.iter().zip(continuous(&config, 0)) {
            assert_eq!((workload.names.text(job.kind), job.gpus), (drawn.job_type, drawn.gpus));
            assert_eq!((job.steps.to_bits(), job.weight.to_bits()), (drawn.steps.to_bits(), drawn.weight.to_bits()));
            assert_eq!(
                Some((job.arrival, job.work)),
                Time::from_seconds(drawn.arrival_seconds).zip(Span::from_seconds(drawn.duration_seconds))
            );
            let multiple = job.deadline.unwrap().since(job.arrival).seconds() / job.work.seconds();
            assert!((multiple - drawn.slo_multiple.unwrap()).abs() < 1e-9);
        }
    }

    #[test]
    fn a_table_without_the_speeds_is_refused() {
        let mut table = ThroughputTable::new("mine.csv");
        for template in &TEMPLATES {
            table.insert(template.job_type, 1, "v100", 2.0);
        }
        let config = GavelStatic { jobs: 5, ..GavelStatic::default() };
        assert!(gavel_static(&config, 0, &table).is_ok());
        let message = gavel_static(&GavelStatic { multi_gpu: true, ..config }, 0, &table).unwrap_err().to_string();
        assert_eq!(
            message,
            "mine.csv: ResNet-18 (batch size 16) with 2 GPUs on v100: is missing: give a speed above 0, from which the model \
             makes the steps of its jobs"
        );
    }
}
