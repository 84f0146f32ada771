//! The classes that a job belongs to, from coarse to fine.
//!
//! A user's estimate or limit is a class like the others, by its half octave, and never trusted as such. It comes first, because it
//! tells more than all the rest where there is one: on the log of KTH (28,481 jobs, 100 nodes, load 0.92) `lag-history` has a mean JCT of
//! about 17,000 s with the estimate first and of 20,048 s with the estimate last. Where it is given, it takes the place of the gang size beside
//! users and projects: jobs are then told apart finely enough, and classes must not multiply. Only the finest class forgets, gang size and
//! all. Counting the same jobs in two classes that forget makes the belief too sure of itself: on Philly (400 GPUs) the mean JCT is
//! 34,468 s with one such class and 35,873 s with two.

use super::table::Memory;
use rota_core::{Job, Names, mark};
use serde::{Deserialize, Serialize};
use smallvec::SmallVec;

/// What tells one class from another. The order is that of the shrinking: each is finer or more recent than those before.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub(super) enum Level {
    All,
    Estimate,
    Gang,
    Project,
    ProjectGang,
    User,
    UserGang,
    Program,
    Recent,
}

impl Level {
    /// Whether old jobs count less and less.
    pub(super) fn memory(self) -> Memory {
        if self == Self::Recent { Memory::Short } else { Memory::Long }
    }

    /// Whether it says more of a job than what anybody's jobs do.
    pub(super) fn is_own(self) -> bool {
        !matches!(self, Self::All | Self::Estimate | Self::Gang)
    }
}

/// One class: its level, and what its jobs have in common. What the level does not ask for is 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub(super) struct ClassKey {
    pub(super) level: Level,
    /// Estimate in half octaves of a second, plus 1.
    estimate: u8,
    /// Gang size in half octaves.
    gang: u8,
    /// The mark of the user or project.
    owner: u64,
    /// The mark of the program.
    program: u64,
}

/// What is known of a job when it is submitted. Names are given by their [marks](mark): 0 is not known.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct JobTraits {
    /// Its user.
    pub user: u64,
    /// Its project, virtual cluster or account.
    pub project: u64,
    /// Its job type, program or name.
    pub program: u64,
    /// The number of GPUs that the job needs at once.
    pub gpus: u32,
    /// How long its user says it runs, in seconds on its best GPU type.
    pub estimate_seconds: Option<f64>,
}

impl JobTraits {
    /// The traits of a job; `best_speed` is that of its best GPU type.
    pub fn of(job: &Job, names: &Names, best_speed: f64) -> Self {
        Self {
            user: mark(names.text(job.user)),
            project: mark(names.text(job.project)),
            program: if job.program == 0 { mark(names.text(job.kind)) } else { job.program },
            gpus: job.gpus,
            estimate_seconds: job.estimate.map(|estimate| estimate.at_speed(best_speed).seconds()),
        }
    }
}

/// The classes of one job, as rows of a [`History`](super::History).
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Lineage(pub(super) SmallVec<[u32; 10]>);

/// A positive number in half octaves.
fn half_octave(value: f64) -> u8 {
    (2.0 * value.max(1.0).log2()).round().min(254.0) as u8
}

/// The classes of a job. What is not known of it has no class.
pub(super) fn keys(traits: &JobTraits) -> SmallVec<[ClassKey; 10]> {
    let estimate = traits.estimate_seconds.map_or(0, |seconds| half_octave(seconds) + 1);
    let gang = half_octave(f64::from(traits.gpus));
    let (user, program) = (traits.user, traits.program);
    let mut keys = SmallVec::new();
    let all = ClassKey { level: Level::All, estimate: 0, gang: 0, owner: 0, program: 0 };
    keys.push(all);
    if estimate > 0 {
        keys.push(ClassKey { level: Level::Estimate, estimate, ..all });
    }
    keys.push(ClassKey { level: Level::Gang, estimate, gang, ..all });
    if traits.project != 0 && traits.project != user {
        let project = ClassKey { level: Level::Project, estimate, owner: traits.project, ..all };
        keys.push(project);
        if estimate == 0 {
            keys.push(ClassKey { level: Level::ProjectGang, gang, ..project });
        }
    }
    if user != 0 {
        let user = ClassKey { level: Level::User, estimate, owner: user, ..all };
        keys.push(user);
        if estimate == 0 {
            keys.push(ClassKey { level: Level::UserGang, gang, ..user });
        }
    }
    if program != 0 {
        keys.push(ClassKey { level: Level::Program, estimate, owner: user, program, ..all });
    }
    if user != 0 || program != 0 {
        keys.push(ClassKey { level: Level::Recent, estimate, gang, owner: user, program });
    }
    keys
}
