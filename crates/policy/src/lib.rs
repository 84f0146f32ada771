//! The policies: who runs next.
//!
//! A policy only encapsulates the wish; where jobs fit, when they run and what happens to them is other crates' business. It looks at
//! a [`Snapshot`] and answers with a [`Target`]: the ranks of jobs that are new or changed, and a rule for using them. Policies have no
//! clock, no files and no randomness but the stream they are handed, so the simulator and the live queue run the very same code.
//!
//! The rooms: `order` (policies that rank jobs), `share` (policies that divide time by an allocation), `allocation` (the allocations),
//! `lag` (who is behind a fair share), `gavel` (Gavel's other policies). To add one: one file, one line in [`registry`], one scenario.
//! `CONTRIBUTING.md` walks through it.

pub mod allocation;
mod gavel;
pub mod history;
mod lag;
mod memory;
mod order;
mod params;
pub mod registry;
mod share;
mod watch;

pub use lag::weight::GittinsTable;
pub use memory::{MemoryError, Remember};
pub use order::batch_rules::{BatchRule, Facts};
pub use params::{Param, Params, PolicyError};
pub use registry::{Configured, Knows, PolicyInfo, Registry, build, find, with_param};

use rota_core::random::RandomStream;
use rota_core::{Renumbering, Snapshot, Target};

/// What a policy is handed beside the snapshot.
#[derive(Clone)]
pub struct Context {
    /// Its own random stream, named after the policy.
    pub stream: RandomStream,
    /// What the policy could not do, in words for an administrator: a solver that failed, say.
    pub problems: Vec<String>,
}

/// Who runs next. What a policy remembers is plain data that can be cloned and written down ([`Remember`]), so that a queue can be
/// forked for a forecast, and a restart changes no decision.
pub trait Policy: Remember + Send {
    /// Ranks what is new or changed. Called whenever something happened, and when the policy asked to be.
    fn decide(&mut self, snapshot: &Snapshot<'_>, context: &mut Context) -> Target;

    /// Whether running jobs stay until the round ends where time is cut into rounds. Otherwise every arrival and every end is a moment to
    /// stop them, and the ends of rounds are but more of them.
    fn waits_for_rounds(&self) -> bool {
        true
    }

    /// From now on the policy decides in a forecast: lengths of jobs were drawn, and were others before. What happens there is no
    /// experience, so nothing is learned from it.
    fn begin_forecast(&mut self) {}

    /// Where the policy keeps what it learns of jobs' lengths; none if it learns nothing.
    fn trackers(&mut self) -> Vec<&mut history::Tracker> {
        Vec::new()
    }

    /// Jobs have other rows from now on. A policy that remembers something by job moves it.
    fn renumber(&mut self, _rows: &Renumbering) {}
}
