//! A job's training under a time budget: epochs, changes of GPUs, decisions, and what they do to the network.
//!
//! A run is a value: it can be cloned and go on in several ways from one point. What is random in an epoch comes from a stream with the
//! epoch's number, so that a run that shares its beginning with another one is bit for bit the run that it would be alone.

use crate::adapt::network::architecture::{Architecture, FinalRelu, InputShape, ModelKind, StructureError};
use crate::adapt::network::growing::{Calibration, GrowingNetwork, Shrinking, SurgeryError};
use crate::adapt::record::table::DECISIONS;
use crate::adapt::train::images::{Dataset, Images};
use crate::adapt::train::job::{Allocation, ClockError, Cost, JobClock};
use crate::adapt::train::timing::ROUNDING_S;
use rota_core::random::RandomStream;
use rota_nn::layers::Mode;
use rota_nn::{cross_entropy, highest, softmax};

/// The study's step size, the part of it that is left after an epoch, and the least.
const RATE: f64 = 0.01;
const RATE_DECAY: f64 = 0.9;
const RATE_LEAST: f64 = 1e-8;
/// Images scored at once.
const SCORED: usize = 250;
/// The weight of the teacher in the first epoch after a network became smaller, and what is left of it after each epoch.
const TEACHER_WEIGHT: f64 = 0.75;
const TEACHER_DECAY: f64 = 0.25;
/// The temperature of the teacher's probabilities.
const TEACHER_TEMPERATURE: f32 = 2.0;

/// Whether a run repeats the study's faults.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Manner {
    /// Optimiser and schedule go on, calibrated layers, no `ReLU` on the scores, a teacher after a loss of GPUs.
    Sound,
    /// As the study: `ReLU` on the scores, a new Adam before every epoch after the opening, fresh layers, frozen layers after a loss.
    Compat,
}

/// What a run is made of.
#[derive(Clone, Debug)]
pub struct RunSettings {
    /// The model that is trained.
    pub model: ModelKind,
    /// The study's way or ours.
    pub manner: Manner,
    /// The seed of everything random.
    pub seed: u64,
    /// Images in a batch.
    pub batch: usize,
    /// How time passes.
    pub cost: Cost,
    /// All seconds of the job.
    pub budget_s: f64,
    /// When GPUs come and go.
    pub changes: Vec<(f64, Allocation)>,
}

/// Why a run cannot begin or go on.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[expect(missing_docs, reason = "the messages say it")]
pub enum RunError {
    #[error(transparent)]
    Clock(#[from] ClockError),
    #[error(transparent)]
    Surgery(#[from] SurgeryError),
    #[error(transparent)]
    Structure(#[from] StructureError),
    #[error("a budget of {budget_s:.1} s is shorter than one scored epoch, which takes {epoch_s:.1} s")]
    TooShort { budget_s: f64, epoch_s: f64 },
    #[error(
        "the network may grow at {opens_s:.1} s, but its time ends at {budget_s:.1} s; give a later end or an earlier opening"
    )]
    OpensTooLate { opens_s: f64, budget_s: f64 },
    #[error("{0}")]
    Vocabulary(String),
    #[error("the policy chooses from {policy} actions, but the model has {model}")]
    Actions { policy: usize, model: usize },
    #[error("the training diverged in epoch {0}: its loss is no number")]
    Diverged(u64),
}

/// A scored epoch.
#[derive(Clone, Debug, PartialEq)]
pub struct ScoredEpoch {
    /// The number of the epoch, from 1; epochs that were broken off have numbers too.
    pub number: u64,
    /// When it ended.
    pub ended_s: f64,
    /// The mean loss of its batches.
    pub loss: f64,
    /// The part of its images that were classified rightly while it trained.
    pub train_accuracy: f64,
    /// The part of the test images that were classified rightly after it.
    pub test_accuracy: f64,
    /// The network's parameters.
    pub parameters: usize,
    /// The step size.
    pub rate: f64,
}

/// What a decision maker is asked about.
pub struct Question<'a> {
    /// The network before it grew.
    pub base: &'a Architecture,
    /// The network now.
    pub now: &'a Architecture,
    /// Actions since the opening.
    pub before: &'a [usize],
    /// The seconds that are left of the job's budget.
    pub left_s: f64,
    /// All seconds of the job.
    pub total_s: f64,
}

/// How an attempt at an epoch ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EpochEnd {
    /// It was trained and scored.
    Scored,
    /// A change of GPUs broke it off; what was learned is kept.
    Changed,
    /// The time is up.
    OutOfTime,
}

/// A run under way.
#[derive(Clone, Debug)]
pub struct Run {
    settings: RunSettings,
    clock: JobClock,
    /// The network as it is now.
    pub network: GrowingNetwork,
    base: Architecture,
    /// Copies from before each growth.
    stored: Vec<GrowingNetwork>,
    teacher: Option<(GrowingNetwork, f64)>,
    /// A change that an epoch met and that is still to be taken.
    pending: Option<Allocation>,
    rate: f64,
    attempts: u64,
    opened: bool,
    /// Actions since the opening.
    pub actions: Vec<usize>,
    /// Seconds left when each of them was asked for.
    pub left_s: Vec<f64>,
    /// The epochs that were trained and scored so far.
    pub epochs: Vec<ScoredEpoch>,
}

impl Run {
    /// A run at its beginning.
    pub fn new(settings: RunSettings, shape: InputShape) -> Result<Self, RunError> {
        let final_relu = if settings.manner == Manner::Compat { FinalRelu::Kept } else { FinalRelu::Dropped };
        let base = Architecture::new(settings.model, shape, final_relu)?;
        let clock = JobClock::new(settings.budget_s, settings.changes.clone(), settings.cost)?;
        let epoch_s = settings.cost.epoch_s(&base, &base) + settings.cost.scoring_s(&base, &base);
        if settings.budget_s < epoch_s {
            return Err(RunError::TooShort { budget_s: settings.budget_s, epoch_s });
        }
        let network = GrowingNetwork::random(base.clone(), &mut RandomStream::new(settings.seed, "weights"))?;
        Ok(Self {
            clock,
            network,
            base,
            stored: Vec::new(),
            teacher: None,
            pending: None,
            rate: RATE,
            attempts: 0,
            opened: false,
            actions: Vec::new(),
            left_s: Vec::new(),
            epochs: Vec::new(),
            settings,
        })
    }

    /// Runs to the end of the budget and asks before each of the first three epochs after an opening.
    pub fn finish(
        &mut self,
        data: &Dataset,
        decide: &mut dyn FnMut(&Question<'_>) -> Result<usize, RunError>,
        tell: &mut dyn FnMut(&Self),
    ) -> Result<(), RunError> {
        loop {
            self.take_changes()?;
            if self.may_decide() {
                let action = decide(&self.question())?;
                self.act(action, data)?;
            }
            match self.epoch(data)? {
                EpochEnd::Scored => tell(self),
                EpochEnd::Changed => {}
                EpochEnd::OutOfTime => return self.ended(),
            }
        }
    }

    /// A run that ended; one without a scored epoch has no accuracy.
    pub fn ended(&self) -> Result<(), RunError> {
        if self.epochs.is_empty() {
            let epoch_s = self.epoch_s();
            return Err(RunError::TooShort { budget_s: self.settings.budget_s, epoch_s });
        }
        Ok(())
    }

    /// Whether a decision is due.
    pub fn may_decide(&self) -> bool {
        self.opened && self.actions.len() < DECISIONS
    }

    /// What a decision maker is asked now.
    pub fn question(&self) -> Question<'_> {
        Question {
            base: &self.base,
            now: &self.network.architecture,
            before: &self.actions,
            left_s: self.clock.time_left(),
            total_s: self.clock.time_budget(),
        }
    }

    /// Takes every change whose time has come.
    pub fn take_changes(&mut self) -> Result<(), RunError> {
        loop {
            let change = self.pending.take().unwrap_or_else(|| self.clock.allocation());
            match change {
                Allocation::Same => return Ok(()),
                Allocation::Up => {
                    self.stored.push(self.network.clone());
                    self.opened = true;
                    self.actions.clear();
                    self.left_s.clear();
                }
                Allocation::Down => self.shrink()?,
            }
        }
    }

    fn shrink(&mut self) -> Result<(), RunError> {
        let Some(stored) = self.stored.pop() else {
            return Err(ClockError::DownBeforeUp { at_s: self.clock.elapsed() }.into());
        };
        self.opened = false;
        if stored.architecture == self.network.architecture {
            return Ok(());
        }
        let compat = self.settings.manner == Manner::Compat;
        let small = self.network.shrunk(&stored, if compat { Shrinking::Compat } else { Shrinking::Whole })?;
        let large = std::mem::replace(&mut self.network, small);
        self.teacher = (!compat).then_some((large, TEACHER_WEIGHT));
        Ok(())
    }

    /// Does an action: deepens a block, or nothing.
    pub fn act(&mut self, action: usize, data: &Dataset) -> Result<(), RunError> {
        self.left_s.push(self.clock.time_left());
        if action < self.base.blocks() {
            if self.settings.manner == Manner::Compat {
                self.network.deepen(action, Calibration::None)?;
            } else {
                let (mut images, mut labels) = (Vec::new(), Vec::new());
                let order = self.order(data.train.labels.len());
                let places = &order[..self.settings.batch.min(order.len())];
                data.train.batch(places, &mut images, &mut labels);
                self.network.deepen(action, Calibration::Batch(&images, places.len()))?;
            }
        }
        self.actions.push(action);
        Ok(())
    }

    /// The order of the images in the next epoch.
    fn order(&self, count: usize) -> Vec<usize> {
        let mut stream = RandomStream::new(self.settings.seed, &format!("epoch {}", self.attempts + 1));
        let mut order = (0..count).collect::<Vec<_>>();
        for place in (1..count).rev() {
            order.swap(place, stream.below(place as u64 + 1) as usize);
        }
        order
    }

    /// Seconds of an epoch with its scoring.
    fn epoch_s(&self) -> f64 {
        let (cost, now) = (self.settings.cost, &self.network.architecture);
        cost.epoch_s(&self.base, now) + cost.scoring_s(&self.base, now)
    }

    /// Trains and scores one epoch, unless a change comes or the time ends. An epoch that is sure not to be scored is not begun.
    pub fn epoch(&mut self, data: &Dataset) -> Result<EpochEnd, RunError> {
        let doomed = self.settings.cost != Cost::Wall && self.clock.time_left() < self.epoch_s() - ROUNDING_S;
        let opens_yet =
            self.settings.changes.iter().any(|(at_s, _)| *at_s > self.clock.elapsed() && *at_s < self.settings.budget_s);
        if doomed && !opens_yet {
            return Ok(EpochEnd::OutOfTime);
        }
        let order = self.order(data.train.labels.len());
        self.attempts += 1;
        if self.settings.manner == Manner::Compat && self.opened {
            self.network.stack.forget();
            self.rate = RATE;
        }
        let batches = order.len().div_ceil(self.settings.batch) as f64;
        let step_s = self.settings.cost.epoch_s(&self.base, &self.network.architecture) / batches;
        let (mut loss, mut right) = (0.0, 0);
        let (mut images, mut labels) = (Vec::new(), Vec::new());
        for places in order.chunks(self.settings.batch) {
            let change = self.clock.allocation();
            if change != Allocation::Same {
                self.pending = Some(change);
                return Ok(EpochEnd::Changed);
            }
            if self.clock.time_left() <= 0.0 {
                return Ok(EpochEnd::OutOfTime);
            }
            data.train.batch(places, &mut images, &mut labels);
            let (batch_loss, batch_right) = self.train(&images, &labels);
            if !batch_loss.is_finite() {
                return Err(RunError::Diverged(self.attempts));
            }
            loss += batch_loss * places.len() as f64;
            right += batch_right;
            self.clock.pass(step_s);
        }
        let test_accuracy = self.score(&data.test);
        self.clock.pass(self.settings.cost.scoring_s(&self.base, &self.network.architecture));
        if self.clock.elapsed() > self.settings.budget_s + 1e-6 {
            return Ok(EpochEnd::OutOfTime);
        }
        self.epochs.push(ScoredEpoch {
            number: self.attempts,
            ended_s: self.clock.elapsed(),
            loss: loss / order.len().max(1) as f64,
            train_accuracy: right as f64 / order.len().max(1) as f64,
            test_accuracy,
            parameters: self.network.stack.parameters(),
            rate: self.rate,
        });
        self.rate = (self.rate * RATE_DECAY).max(RATE_LEAST);
        if let Some((_, weight)) = &mut self.teacher {
            *weight *= TEACHER_DECAY;
        }
        Ok(EpochEnd::Scored)
    }

    /// One step on a batch; gives its loss and how many images were right.
    fn train(&mut self, images: &[f32], labels: &[u8]) -> (f64, usize) {
        let (batch, classes) = (labels.len(), self.base.input.classes);
        let mut scores = self.network.stack.forward(images, batch, Mode::Train);
        let taught = self
            .teacher
            .as_mut()
            .map(|(teacher, weight)| (teacher.stack.forward(images, batch, Mode::Evaluate), *weight as f32, scores.clone()));
        let told = cross_entropy(&mut scores, classes, labels);
        if let Some((teacher, weight, own)) = taught {
            let rows = scores.chunks_exact_mut(classes).zip(teacher.chunks_exact(classes)).zip(own.chunks_exact(classes));
            for ((slopes, teacher), own) in rows {
                let (wanted, found) = (soft(teacher), soft(own));
                for (slope, (wanted, found)) in slopes.iter_mut().zip(wanted.iter().zip(&found)) {
                    let lesson = TEACHER_TEMPERATURE * (found - wanted) / batch as f32;
                    *slope = weight * lesson + (1.0 - weight) * *slope;
                }
            }
        }
        self.network.stack.backward(&scores, batch);
        self.network.stack.step(self.rate);
        told
    }

    /// The part of images that are classified rightly.
    pub fn score(&mut self, images: &Images) -> f64 {
        let classes = self.base.input.classes;
        let places = (0..images.labels.len()).collect::<Vec<_>>();
        let (mut batch, mut labels, mut right) = (Vec::new(), Vec::new(), 0);
        for places in places.chunks(SCORED) {
            images.batch(places, &mut batch, &mut labels);
            let scores = self.network.stack.forward(&batch, places.len(), Mode::Evaluate);
            let hit = |(row, label): (&[f32], &u8)| highest(row) == usize::from(*label);
            right += scores.chunks_exact(classes).zip(&labels).filter(|pair| hit(*pair)).count();
        }
        right as f64 / images.labels.len().max(1) as f64
    }

    /// The accuracy after the last scored epoch.
    pub fn accuracy(&self) -> f64 {
        self.epochs.last().map_or(0.0, |epoch| epoch.test_accuracy)
    }

    /// Seconds since the run began.
    pub fn elapsed_s(&self) -> f64 {
        self.clock.elapsed()
    }

    /// The network before it grew.
    pub fn base(&self) -> &Architecture {
        &self.base
    }
}

fn soft(scores: &[f32]) -> Vec<f32> {
    let mut soft = scores.iter().map(|score| score / TEACHER_TEMPERATURE).collect::<Vec<_>>();
    softmax(&mut soft);
    soft
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::adapt::train::images::{Portion, tests::folder};

    fn data() -> Dataset {
        Dataset::read(folder(48, 12).path(), Portion::default()).unwrap()
    }

    fn settings(changes: Vec<(f64, Allocation)>) -> RunSettings {
        let (model, manner, cost) = (ModelKind::ConvNet2, Manner::Sound, Cost::Recorded);
        RunSettings { model, manner, seed: 1, batch: 16, cost, budget_s: 100.0, changes }
    }

    fn finished(settings: RunSettings, actions: [usize; 3]) -> Run {
        let data = data();
        let mut run = Run::new(settings, data.train.shape).unwrap();
        run.finish(&data, &mut |question| Ok(actions[question.before.len()]), &mut |_| {}).unwrap();
        run
    }

    #[test]
    fn a_job_learns_grows_and_ends_inside_its_budget() {
        // Asked before every batch: the third epoch is broken off, keeps what it learned and is not scored.
        let run = finished(settings(vec![(25.0, Allocation::Up)]), [0, 1, 3]);
        assert_eq!((run.actions.as_slice(), run.network.stack.parameters()), (&[0, 1, 3][..], 10_026 + 2 * 9312));
        assert_eq!(run.epochs.iter().map(|epoch| epoch.number).collect::<Vec<_>>(), [1, 2, 4, 5, 6, 7, 8, 9]);
        let last = run.epochs.last().unwrap();
        assert!(last.ended_s <= 100.0 && last.test_accuracy > 0.9, "{last:?}");
        // The schedule goes on over the opening.
        assert!((last.rate - 0.01 * 0.9_f64.powi(7)).abs() < 1e-12);
        assert!(run.left_s[0] < 75.0 && run.left_s[0] > 74.0 && run.left_s[1] < run.left_s[0]);
    }

    #[test]
    fn the_same_seed_gives_the_same_bits_and_another_does_not() {
        let scores = |seed| {
            let settings = RunSettings { seed, ..settings(vec![(20.0, Allocation::Up)]) };
            finished(settings, [1, 3, 3]).epochs.iter().map(|epoch| epoch.loss.to_bits()).collect::<Vec<_>>()
        };
        assert_eq!(scores(1), scores(1));
        assert_ne!(scores(1), scores(2));
    }

    #[test]
    fn after_a_loss_of_gpus_the_small_network_learns_from_the_large_one() {
        let changes = vec![(20.0, Allocation::Up), (70.0, Allocation::Down)];
        let run = finished(settings(changes.clone()), [0, 0, 3]);
        assert_eq!(run.network.architecture, *run.base());
        assert_eq!(run.network.trainable(), 10_026);
        let (_, weight) = run.teacher.as_ref().unwrap();
        assert!(*weight < TEACHER_WEIGHT && *weight > 0.0);
        assert!(run.accuracy() > 0.9, "{}", run.accuracy());
        let compat = finished(RunSettings { manner: Manner::Compat, ..settings(changes) }, [0, 0, 3]);
        assert_eq!((compat.network.trainable(), compat.teacher.is_none()), (128, true));
    }

    #[test]
    fn the_study_rebuilds_adam_and_keeps_its_step_size_after_the_opening() {
        let settings = RunSettings { manner: Manner::Compat, ..settings(vec![(25.0, Allocation::Up)]) };
        let run = finished(settings, [3, 3, 3]);
        let rates = run.epochs.iter().map(|epoch| epoch.rate).collect::<Vec<_>>();
        assert!((rates[1] - 0.009).abs() < 1e-12 && rates[2..].iter().all(|rate| (rate - 0.01).abs() < 1e-12), "{rates:?}");
    }

    #[test]
    fn a_budget_below_one_epoch_is_refused() {
        let settings = RunSettings { budget_s: 5.0, ..settings(vec![]) };
        let error = Run::new(settings, data().train.shape).unwrap_err().to_string();
        assert!(error.contains("shorter than one scored epoch"), "{error}");
    }
}
