//! The meter of a run: how fast its processes are, and when their first step was done, by what they tell.
//!
//! A speed is the difference between two things that one process told, so that neither the start of the run nor what it does while it
//! saves counts.

use rota_core::{Span, SpeedSample, Time};
use std::collections::BTreeMap;

/// How far a process was, and how long it had run.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Told {
    /// The steps that the process has done.
    pub steps: u64,
    /// Seconds since the process began.
    pub seconds: f64,
}

/// From where steps are counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Counting {
    /// Steps of the whole job, in each process alike, since its first start.
    Job,
    /// Steps of each process in this run, over the seconds that they took, as Gavel's iterator counts.
    Process,
}

/// The meter of one run.
#[derive(Debug)]
pub struct Meter {
    counting: Counting,
    /// Whether what a process tells first is where its measurement begins, however it counts.
    begins_anew: bool,
    /// By process: what the last measurement reached to, and what was told last.
    marks: BTreeMap<u32, (Told, Told)>,
    /// When the first step of the run was done, by the queue's clock.
    first_step: Option<Time>,
}

impl Meter {
    /// The meter of a run that has just begun.
    pub fn new(counting: Counting) -> Self {
        Self { counting, begins_anew: false, marks: BTreeMap::new(), first_step: None }
    }

    /// Another job begins or ends on the same GPUs: steps before and after that are not measured together.
    pub fn begin_anew(&mut self) {
        self.begins_anew = true;
        self.marks.clear();
    }

    /// A process told how far it is; `before` are the steps it began with.
    pub fn note(&mut self, rank: u32, told: Told, before: u64, now: Time) {
        let steps = told.steps.saturating_sub(before);
        if steps == 0 || told.seconds <= 0.0 {
            return;
        }
        // The steps before this moment took the time that was told; the first of them was done after its part of it.
        let since_first = Span::from_seconds(told.seconds * (1.0 - 1.0 / steps as f64)).unwrap_or_default();
        self.first_step.get_or_insert(Time(now.0.saturating_sub(since_first.0)));
        let begin = match self.counting {
            Counting::Process if !self.begins_anew => Told::default(),
            Counting::Job | Counting::Process => told,
        };
        let (_, last) = self.marks.entry(rank).or_insert((begin, told));
        if told.seconds > last.seconds {
            *last = told;
        }
    }

    /// When the first step of the run was done.
    pub fn first_step(&self) -> Option<Time> {
        self.first_step
    }

    /// What was done since the last measurement, if that is at least so many steps.
    pub fn take(&mut self, least_steps: u64) -> Option<SpeedSample> {
        let since = |(mark, last): &(Told, Told)| (last.steps.saturating_sub(mark.steps), last.seconds - mark.seconds);
        let told = self.marks.values().map(since).filter(|(_, seconds)| *seconds > 0.0).collect::<Vec<_>>();
        let (steps, seconds) = match self.counting {
            Counting::Job => told.iter().copied().max_by(|a, b| a.1.total_cmp(&b.1))?,
            Counting::Process if told.len() < self.marks.len() => return None,
            Counting::Process => {
                let seconds = told.iter().map(|(_, seconds)| seconds).sum::<f64>() / told.len().max(1) as f64;
                (told.iter().map(|(steps, _)| steps).sum(), seconds)
            }
        };
        let ran = Span::from_seconds(seconds).filter(|ran| *ran > Span::ZERO)?;
        if steps < least_steps.max(1) {
            return None;
        }
        self.marks.values_mut().for_each(|(mark, last)| *mark = *last);
        Some(SpeedSample { steps, ran })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: u64 = 1_000_000_000;

    #[test]
    fn neither_the_start_nor_a_word_without_a_time_counts() {
        let mut meter = Meter::new(Counting::Job);
        // It loaded for 4 s, then did its first step; then 100 steps in 10 s.
        meter.note(0, Told { steps: 101, seconds: 4.0 }, 100, Time(10 * SECOND));
        assert_eq!((meter.first_step(), meter.take(1)), (Some(Time(10 * SECOND)), None));
        meter.note(0, Told { steps: 201, seconds: 14.0 }, 100, Time(20 * SECOND));
        meter.note(0, Told { steps: 400, seconds: 0.0 }, 100, Time(21 * SECOND));
        assert_eq!(meter.take(101), None, "too few to tell");
        assert_eq!(meter.take(100), Some(SpeedSample { steps: 100, ran: Span::from_whole_seconds(10) }));
        assert_eq!(meter.take(1), None, "nothing is measured twice");
        assert_eq!(meter.first_step(), Some(Time(10 * SECOND)));
    }

    #[test]
    fn steps_before_and_after_another_job_came_are_not_measured_together() {
        for counting in [Counting::Job, Counting::Process] {
            let mut meter = Meter::new(counting);
            meter.note(0, Told { steps: 10, seconds: 1.0 }, 0, Time(SECOND));
            meter.note(0, Told { steps: 20, seconds: 2.0 }, 0, Time(2 * SECOND));
            meter.begin_anew();
            assert_eq!(meter.take(1), None);
            meter.note(0, Told { steps: 28, seconds: 3.0 }, 0, Time(3 * SECOND));
            assert_eq!(meter.take(1), None, "a part of these steps was done before");
            meter.note(0, Told { steps: 33, seconds: 4.0 }, 0, Time(4 * SECOND));
            assert_eq!(meter.take(1), Some(SpeedSample { steps: 5, ran: Span::from_whole_seconds(1) }), "{counting:?}");
        }
    }

    #[test]
    fn the_processes_of_gavel_are_added_up() {
        let mut meter = Meter::new(Counting::Process);
        meter.note(4, Told { steps: 30, seconds: 2.0 }, 0, Time(9 * SECOND));
        meter.note(7, Told { steps: 34, seconds: 2.0 }, 0, Time(9 * SECOND));
        assert_eq!(meter.take(1), Some(SpeedSample { steps: 64, ran: Span::from_whole_seconds(2) }));
        meter.note(4, Told { steps: 60, seconds: 4.0 }, 0, Time(11 * SECOND));
        assert_eq!(meter.take(1), None, "the other one has told nothing since");
        assert_eq!(meter.first_step().map(|at| at.0 / 1_000_000), Some(7066));
    }
}
