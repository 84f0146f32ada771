//! Durations learned from the site's own jobs: for each class of jobs, how many reached each step of run time and how many ended in it.
//!
//! Classes go from coarse to fine ([`classes`]), and the chance of ending in a step is shrunk to that of the coarser class: a user with
//! two jobs is believed to be much like the project, one with two hundred like that user. Jobs that still run count for the steps they
//! have got to, so long jobs teach before they end and short ones do not make the rest look short. A [`History`] is a plain value: it can
//! be cloned, saved, and updated job by job; it has no clock and sees nothing but what happened.

pub mod belief;
mod classes;
pub mod steps;
mod table;
mod tracker;

pub use belief::{Belief, Outlook};
pub use classes::{JobTraits, Lineage};
pub use tracker::{Tracker, attained_seconds};

use classes::{ClassKey, Level};
use serde::{Deserialize, Serialize};
use std::collections::HashMap;
use steps::STEPS;
use table::Table;

/// How many jobs of the coarser class a class begins with.
const SHRINKAGE: f64 = 8.0;
/// The chance of ending in a step before anything is known: half of the jobs that live to an age live to twice that age.
const HAZARD_UNKNOWN: f64 = 0.231;

/// What the site's jobs have taught so far.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(from = "Saved", into = "Saved")]
pub struct History {
    classes: Vec<Class>,
    class_of: HashMap<ClassKey, u32>,
    ended: u64,
    version: u64,
}

/// One class of jobs.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Class {
    key: ClassKey,
    table: Table,
}

/// The form on the disk: what can be found again is left out.
#[derive(Clone, Serialize, Deserialize)]
struct Saved {
    classes: Vec<Class>,
    ended: u64,
    version: u64,
}

impl From<History> for Saved {
    fn from(history: History) -> Self {
        Self { classes: history.classes, ended: history.ended, version: history.version }
    }
}

impl From<Saved> for History {
    fn from(saved: Saved) -> Self {
        let class_of = saved.classes.iter().zip(0..).map(|(class, row)| (class.key, row)).collect();
        Self { classes: saved.classes, class_of, ended: saved.ended, version: saved.version }
    }
}

impl History {
    /// The classes of a job, coarse to fine, made if they are new.
    pub fn lineage(&mut self, traits: &JobTraits) -> Lineage {
        let row = |key: ClassKey| {
            *self.class_of.entry(key).or_insert_with(|| {
                self.classes.push(Class { key, table: Table::default() });
                self.classes.len() as u32 - 1
            })
        };
        Lineage(classes::keys(traits).into_iter().map(row).collect())
    }

    /// The classes of a job that are known already. A job that never runs makes none.
    pub fn known_lineage(&self, traits: &JobTraits) -> Lineage {
        Lineage(classes::keys(traits).iter().filter_map(|key| self.class_of.get(key).copied()).collect())
    }

    /// A job ran for so many seconds, and ended by itself or was cut off.
    pub fn ran(&mut self, traits: &JobTraits, seconds: f64, has_ended: bool) {
        let lineage = self.lineage(traits);
        let last = steps::step_of(seconds);
        (0..=last).for_each(|step| self.reach(&lineage, step));
        if has_ended {
            self.end(&lineage, last);
        }
    }

    /// How many classes there are.
    pub fn classes(&self) -> usize {
        self.classes.len()
    }

    /// A job got to a step: it began to run (step 0), or has run through the step before.
    pub fn reach(&mut self, lineage: &Lineage, step: usize) {
        self.version += 1;
        for &row in &lineage.0 {
            let Class { key, table } = &mut self.classes[row as usize];
            table.reach(step, key.level.memory());
        }
    }

    /// A job that reached a step does not count any more.
    fn take_back(&mut self, lineage: &Lineage, step: usize) {
        self.version += 1;
        for &row in &lineage.0 {
            let Class { key, table } = &mut self.classes[row as usize];
            table.take_back(step, key.level.memory());
        }
    }

    /// A job that ran ended in a step that it had reached.
    pub fn end(&mut self, lineage: &Lineage, step: usize) {
        self.version += 1;
        self.ended += 1;
        for &row in &lineage.0 {
            let Class { key, table } = &mut self.classes[row as usize];
            table.end(step, key.level.memory());
        }
    }

    /// How many jobs ended so far.
    pub fn ended(&self) -> u64 {
        self.ended
    }

    /// How many jobs of the job's finest class that was ever seen ended, forgetting included; tells a guess from knowledge.
    pub fn ended_alike(&self, lineage: &Lineage) -> f64 {
        let own = lineage.0.iter().map(|row| &self.classes[*row as usize]).filter(|class| class.key.level.is_own());
        own.map(|class| class.table.ended_sum(class.key.level.memory())).fold(0.0, f64::max)
    }

    /// How many jobs with about the job's estimate ended, whoever's they were; 0 for a job without one.
    pub fn ended_with_estimate(&self, lineage: &Lineage) -> f64 {
        let mut classes = lineage.0.iter().map(|row| &self.classes[*row as usize]);
        let class = classes.find(|class| class.key.level == Level::Estimate);
        class.map_or(0.0, |class| class.table.ended_sum(class.key.level.memory()))
    }

    /// Changes with everything learned.
    pub fn version(&self) -> u64 {
        self.version
    }

    /// What is believed of jobs with these classes.
    pub fn belief(&self, lineage: &Lineage) -> Belief {
        Belief::new(&self.hazards(lineage))
    }

    /// What is believed of a job with these classes that has not run yet: within which seconds it ends with these chances, and more.
    pub fn outlook(&self, lineage: &Lineage, chances: [f64; 2]) -> Outlook {
        Outlook::new(&self.hazards(lineage), chances)
    }

    fn hazards(&self, lineage: &Lineage) -> [f64; STEPS] {
        let mut hazards = [HAZARD_UNKNOWN; STEPS];
        for &row in &lineage.0 {
            let Class { key, table } = &self.classes[row as usize];
            table.shrink(&mut hazards, SHRINKAGE, key.level.memory());
        }
        hazards
    }

    /// Bytes it takes in memory, about.
    pub fn bytes(&self) -> usize {
        let class = |class: &Class| size_of::<Class>() + class.table.bytes() + size_of::<(ClassKey, u32)>() * 8 / 7;
        self.classes.iter().map(class).sum()
    }
}

#[cfg(test)]
mod tests;
