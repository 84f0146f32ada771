//! A job's time: how much it has, how much is left, and when GPUs come and go. Time is simulated by what batches cost, unless the wall
//! clock is asked for.

use crate::adapt::network::architecture::{Architecture, BlockKind, Leaf, ModelKind};
use std::time::Instant;

/// What a change of GPUs means to a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Allocation {
    /// More GPUs: the network may grow.
    Up,
    /// Fewer GPUs: the network must become smaller.
    Down,
    /// The job keeps the GPUs that it has.
    Same,
}

/// How time passes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cost {
    /// As on the study's GPU, which waited for its data: a deepening costs 3–4 % of an epoch.
    Recorded,
    /// By multiplications: a deepening is paid in full.
    Arithmetic,
    /// By the clock on the wall.
    Wall,
}

/// Seconds of the study's training epoch before any deepening, and of scoring.
const EPOCH_S: f64 = 9.45;
const SCORING_S: f64 = 1.8;

/// The seconds that one more stage adds to an epoch of the study, by model and block.
fn added_s(architecture: &Architecture, block: usize) -> f64 {
    match (architecture.kind, block) {
        (ModelKind::ConvNet2, 0) => 0.27,
        (ModelKind::ConvNet2, 1) => 0.26,
        (ModelKind::ConvNet3, 0) => 0.39,
        (ModelKind::ConvNet3, 1) => 0.22,
        (ModelKind::ConvNet3, 2) => 0.06,
        _ if architecture.block_kind(block) == Some(BlockKind::Convolution) => 0.27,
        _ => 0.13,
    }
}

/// Multiplications for one image.
pub fn multiplications(architecture: &Architecture) -> f64 {
    let (mut height, mut width) = (architecture.input.height, architecture.input.width);
    let mut count = 0.0;
    for leaf in architecture.leaves() {
        match leaf {
            Leaf::Convolution { inputs, outputs, padding } => {
                (height, width) = (height + 2 * padding - 2, width + 2 * padding - 2);
                count += (9 * inputs * outputs * height * width) as f64;
            }
            Leaf::AveragePool => (height, width) = (height / 2, width / 2),
            Leaf::GlobalPool => (height, width) = (1, 1),
            Leaf::Linear { inputs, outputs } => count += (inputs * outputs) as f64,
            Leaf::BatchNorm { .. } | Leaf::Relu => {}
        }
    }
    count
}

impl Cost {
    /// The name, as it is typed and written in tables.
    pub fn name(self) -> &'static str {
        match self {
            Self::Recorded => "recorded",
            Self::Arithmetic => "arithmetic",
            Self::Wall => "wall",
        }
    }

    /// Seconds of one training epoch. An epoch of the network before it grew takes the study's time, whatever the dataset.
    pub fn epoch_s(self, base: &Architecture, grown: &Architecture) -> f64 {
        match self {
            Self::Recorded => {
                let added = grown.stages.iter().filter(|stage| stage.added).filter_map(|stage| stage.block);
                EPOCH_S + added.map(|block| added_s(base, block)).sum::<f64>()
            }
            Self::Arithmetic => EPOCH_S * multiplications(grown) / multiplications(base),
            Self::Wall => 0.0,
        }
    }

    /// Seconds of scoring: a third of a training epoch's arithmetic where that is what counts.
    pub fn scoring_s(self, base: &Architecture, grown: &Architecture) -> f64 {
        match self {
            Self::Recorded => SCORING_S,
            Self::Arithmetic => SCORING_S * multiplications(grown) / multiplications(base),
            Self::Wall => 0.0,
        }
    }
}

/// A clock that cannot be what was asked for.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[expect(missing_docs, reason = "the messages say it")]
pub enum ClockError {
    #[error("a budget of {0} seconds is no time to train in; give more than 0")]
    NoBudget(f64),
    #[error("the change at {at_s} s does not come after the one before it; give changes in the order of their times")]
    Order { at_s: f64 },
    #[error("the GPUs of {at_s} s are taken away before any were given: a `down` needs an `up` before it")]
    DownBeforeUp { at_s: f64 },
}

/// The time of one job: the scheduler's three answers.
#[derive(Clone, Debug)]
pub struct JobClock {
    budget_s: f64,
    changes: Vec<(f64, Allocation)>,
    next: usize,
    simulated_s: f64,
    started: Option<Instant>,
}

impl JobClock {
    /// A clock with this budget and these changes, in the order of their times.
    pub fn new(budget_s: f64, changes: Vec<(f64, Allocation)>, cost: Cost) -> Result<Self, ClockError> {
        if !(budget_s.is_finite() && budget_s > 0.0) {
            return Err(ClockError::NoBudget(budget_s));
        }
        let (mut before_s, mut given) = (0.0, 0_i64);
        for &(at_s, change) in &changes {
            if !(at_s.is_finite() && at_s >= before_s) {
                return Err(ClockError::Order { at_s });
            }
            given += if change == Allocation::Up { 1 } else { -1 };
            if given < 0 {
                return Err(ClockError::DownBeforeUp { at_s });
            }
            before_s = at_s;
        }
        let started = (cost == Cost::Wall).then(Instant::now);
        Ok(Self { budget_s, changes, next: 0, simulated_s: 0.0, started })
    }

    /// All the seconds of the job.
    pub fn time_budget(&self) -> f64 {
        self.budget_s
    }

    /// Seconds since the job began.
    pub fn elapsed(&self) -> f64 {
        self.started.map_or(self.simulated_s, |started| started.elapsed().as_secs_f64())
    }

    /// The seconds that are left of the job's budget.
    pub fn time_left(&self) -> f64 {
        (self.budget_s - self.elapsed()).max(0.0)
    }

    /// The next change, if its time has come; each is told once.
    pub fn allocation(&mut self) -> Allocation {
        match self.changes.get(self.next) {
            Some(&(at_s, change)) if self.elapsed() >= at_s => {
                self.next += 1;
                change
            }
            _ => Allocation::Same,
        }
    }

    /// Lets simulated time pass.
    pub fn pass(&mut self, seconds: f64) {
        self.simulated_s += seconds;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::adapt::network::architecture::{FinalRelu, InputShape};

    #[test]
    fn multiplications_are_the_studys() {
        let million = |kind, side, channels, actions: &[usize]| {
            let input = InputShape { channels, height: side, width: side, classes: 10 };
            let base = Architecture::new(kind, input, FinalRelu::Kept).unwrap();
            multiplications(&base.after(actions).unwrap()) / 1e6
        };
        for (kind, side, channels, actions, wanted) in [
            (ModelKind::ConvNet2, 32, 3, &[][..], 2.34),
            (ModelKind::ConvNet2, 28, 1, &[], 1.31),
            (ModelKind::ConvNet2, 32, 3, &[0, 0, 0], 27.2),
            (ModelKind::ConvNet2, 14, 1, &[0, 0, 0], 4.2),
            (ModelKind::ConvNet3, 32, 3, &[], 16.0),
            (ModelKind::ConvNet3, 28, 1, &[0, 0, 0], 85.8),
        ] {
            let found = million(kind, side, channels, actions);
            assert!((found / wanted - 1.0).abs() < 0.01, "{kind:?} {side} {actions:?}: {found}");
        }
    }

    #[test]
    fn the_clock_answers_the_three_questions() {
        let changes = vec![(10.0, Allocation::Up), (20.0, Allocation::Down)];
        let mut clock = JobClock::new(30.0, changes, Cost::Recorded).unwrap();
        assert_eq!((clock.allocation(), clock.time_left()), (Allocation::Same, 30.0));
        clock.pass(25.0);
        assert_eq!(
            [clock.allocation(), clock.allocation(), clock.allocation()],
            [Allocation::Up, Allocation::Down, Allocation::Same]
        );
        clock.pass(25.0);
        assert!(clock.time_left().abs() < 1e-12 && (clock.time_budget() - 30.0).abs() < 1e-12);
    }

    #[test]
    fn impossible_times_are_refused() {
        let clock = |budget, changes| JobClock::new(budget, changes, Cost::Recorded).unwrap_err().to_string();
        assert!(clock(0.0, vec![]).contains("no time to train in"));
        assert!(clock(9.0, vec![(2.0, Allocation::Down)]).contains("a `down` needs an `up` before it"));
        assert!(clock(9.0, vec![(2.0, Allocation::Up), (1.0, Allocation::Up)]).contains("order of their times"));
    }
}
