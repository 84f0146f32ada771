//! The task generator of the teaching environment: three types of task with whole-number ranges, many sharing a GPU.

use super::{check_jobs, check_range};
use crate::error::{Fault, Problem};
use rota_core::random::RandomStream;
use rota_core::{Job, MilliGpu, Span, Time, Workload};
use serde::Deserialize;

/// Whole numbers from the first to the last, both included.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
pub struct Range(pub u32, pub u32);

impl Range {
    fn draw(self, stream: &mut RandomStream) -> u32 {
        stream.between(u64::from(self.0), u64::from(self.1)) as u32
    }

    fn check(self, low: u32, high: u32, allowed: &'static str, field: &'static str) -> Result<(), Fault> {
        if low <= self.0 && self.0 <= self.1 && self.1 <= high {
            return Ok(());
        }
        Err(Problem::out_of_range(&format!("[{}, {}]", self.0, self.1), allowed).within(field))
    }
}

/// A type of task.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TaskType {
    /// The name of the task type, which becomes the job type.
    pub name: String,
    /// The share of a GPU that a task needs, in per cent.
    pub gpu_percent: Range,
    /// How much of a GPU's memory it needs, in per cent.
    pub memory_percent: Range,
    /// The length of a task, in steps.
    pub duration_steps: Range,
    /// The range that a task's priority is drawn from.
    pub priority: Range,
}

/// Settings of the model.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Classroom {
    /// How many tasks there are; drawn from the range.
    pub tasks: Range,
    /// A fixed number of tasks instead.
    pub jobs: Option<u32>,
    /// Seconds of one step.
    pub seconds_per_step: f64,
    /// Memory of a GPU, of which tasks need a part.
    pub gpu_memory_mib: u32,
    /// Mean arrivals per hour; 0 lets all arrive at the start.
    pub jobs_per_hour: f64,
    /// The types, each equally likely.
    #[serde(rename = "type")]
    pub types: Vec<TaskType>,
}

impl Default for Classroom {
    fn default() -> Self {
        let kind = |name: &str, gpu_percent, memory_percent, duration_steps, priority| TaskType {
            name: name.to_owned(),
            gpu_percent,
            memory_percent,
            duration_steps,
            priority,
        };
        Self {
            tasks: Range(40, 50),
            jobs: None,
            seconds_per_step: 1.0,
            gpu_memory_mib: 16_384,
            jobs_per_hour: 0.0,
            types: vec![
                kind("image_classification", Range(20, 40), Range(10, 30), Range(5, 10), Range(1, 3)),
                kind("lstm_training", Range(30, 50), Range(40, 60), Range(7, 15), Range(2, 4)),
                kind("cnn_training", Range(50, 80), Range(30, 50), Range(10, 20), Range(3, 5)),
            ],
        }
    }
}

impl Classroom {
    /// Refuses settings that make no sense, naming the one.
    pub(crate) fn check(&self, jobs_max: u32) -> Result<(), Fault> {
        self.tasks.check(1, super::JOBS_MAX, "a range such as `[40, 50]`", "tasks")?;
        check_jobs(self.jobs.unwrap_or(self.tasks.1), jobs_max, if self.jobs.is_some() { "jobs" } else { "tasks" })?;
        check_range(self.seconds_per_step, 1e-3, 86_400.0, "seconds from 0.001 to 86400", "seconds_per_step")?;
        check_range(self.jobs_per_hour, 0.0, 1e9, "a number from 0 to 1e9", "jobs_per_hour")?;
        if self.types.is_empty() {
            return Err(Problem::Missing { wanted: "at least one `[[generate.type]]` table" }.within("type"));
        }
        for kind in &self.types {
            kind.gpu_percent.check(1, 100, "a range within 1 to 100 such as `[20, 40]`", "gpu_percent")?;
            kind.memory_percent.check(0, 100, "a range within 0 to 100 such as `[10, 30]`", "memory_percent")?;
            kind.duration_steps.check(1, 1_000_000, "a range within 1 to 1000000 such as `[5, 10]`", "duration_steps")?;
            kind.priority.check(0, 1_000_000, "a range within 0 to 1000000 such as `[1, 3]`", "priority")?;
        }
        Ok(())
    }
}

/// A task as it is drawn.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ClassroomTask {
    /// The place of its type among the types.
    pub kind: usize,
    /// Seconds after the first task.
    pub arrival_seconds: f64,
    /// The share of a GPU that it needs.
    pub share: MilliGpu,
    /// The memory that it needs.
    pub memory_mib: u32,
    /// How long the task runs.
    pub duration_seconds: f64,
    /// The priority of the task.
    pub priority: i32,
}

impl Classroom {
    /// Draws the tasks of a seed, one after the other.
    pub fn each_task(&self, seed: u64, mut take: impl FnMut(ClassroomTask)) {
        let mut tasks = RandomStream::new(seed, "tasks");
        let mut arrivals = (self.jobs_per_hour > 0.0).then(|| RandomStream::new(seed, "arrivals"));
        let count = self.jobs.unwrap_or_else(|| self.tasks.draw(&mut RandomStream::new(seed, "count")));
        let mut arrival_seconds = 0.0;
        for position in 0..count.min(super::JOBS_MAX) {
            let index = tasks.below(self.types.len() as u64) as usize;
            let Some(kind) = self.types.get(index) else { break };
            if let Some(arrivals) = arrivals.as_mut().filter(|_| position > 0) {
                arrival_seconds += arrivals.exponential(3600.0 / self.jobs_per_hour);
            }
            let gpu_percent = kind.gpu_percent.draw(&mut tasks).clamp(1, 100);
            let memory_percent = kind.memory_percent.draw(&mut tasks).min(100);
            let duration_seconds = f64::from(kind.duration_steps.draw(&mut tasks)) * self.seconds_per_step;
            let priority = kind.priority.draw(&mut tasks);
            take(ClassroomTask {
                kind: index,
                arrival_seconds,
                share: MilliGpu(gpu_percent as u16 * 10),
                // Rounded down, so that shares of a whole GPU never need more than it has.
                memory_mib: (u64::from(self.gpu_memory_mib) * u64::from(memory_percent) / 100) as u32,
                duration_seconds,
                priority: i32::try_from(priority).unwrap_or(i32::MAX),
            });
        }
    }
}

/// Makes the tasks of a seed, in the order they are drawn.
pub fn classroom(config: &Classroom, seed: u64) -> Workload {
    let mut workload = Workload::new(format!("classroom, seed {seed}"));
    let names = config.types.iter().map(|kind| workload.names.intern(&kind.name)).collect::<Vec<_>>();
    let mut is_whole = true;
    config.each_task(seed, |task| {
        let times = Time::from_seconds(task.arrival_seconds).zip(Span::from_seconds(task.duration_seconds));
        let Some((arrival, work)) = times.filter(|_| is_whole) else {
            is_whole = false;
            return;
        };
        workload.push(Job {
            kind: names[task.kind],
            share: task.share,
            memory_mib: task.memory_mib,
            priority: task.priority,
            ..Job::new(arrival, work)
        });
    });
    workload.finish();
    workload
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tasks_stay_within_the_ranges_of_their_type_and_reach_the_ends() {
        let config = Classroom { jobs: Some(20_000), ..Classroom::default() };
        let workload = classroom(&config, 3);
        for (kind, expected) in config.types.iter().zip([0.33, 0.33, 0.33]) {
            let of_kind = workload.jobs.iter().filter(|job| workload.names.text(job.kind) == kind.name).collect::<Vec<_>>();
            assert!((of_kind.len() as f64 / 20_000.0 - expected).abs() < 0.02);
            let ends = |values: Vec<u32>| Range(values.iter().copied().min().unwrap(), values.iter().copied().max().unwrap());
            assert_eq!(ends(of_kind.iter().map(|job| u32::from(job.share.0) / 10).collect()), kind.gpu_percent);
            assert_eq!(ends(of_kind.iter().map(|job| job.work.seconds() as u32).collect()), kind.duration_steps);
            assert_eq!(ends(of_kind.iter().map(|job| job.priority as u32).collect()), kind.priority);
            assert_eq!(ends(of_kind.iter().map(|job| (job.memory_mib * 100).div_ceil(16_384)).collect()), kind.memory_percent);
        }
        assert!(workload.jobs.iter().all(|job| job.arrival == Time::ZERO && job.gpus == 1));
    }

    #[test]
    fn the_number_of_tasks_is_drawn() {
        let counts =
            (0..200).map(|seed| classroom(&Classroom::default(), seed).jobs.len()).collect::<std::collections::BTreeSet<_>>();
        assert_eq!(counts.into_iter().collect::<Vec<_>>(), (40..=50).collect::<Vec<_>>());
    }

    #[test]
    fn a_rate_spreads_the_arrivals() {
        let config = Classroom { jobs: Some(10_000), jobs_per_hour: 60.0, ..Classroom::default() };
        let workload = classroom(&config, 1);
        let mean = workload.jobs.last().unwrap().arrival.seconds() / 9999.0;
        assert!((mean - 60.0).abs() < 2.0, "{mean}");
    }
}
