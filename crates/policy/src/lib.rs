//! The policies: who runs next.
//!
//! A policy only encapsulates the wish; where jobs fit, when they run and what happens to them is other crates' business. It looks at
//! a [`Snapshot`] and answers with a [`Target`]: the ranks of jobs that are new or changed, and a rule for using them. Policies have no
//! clock, no files and no randomness but the stream they are handed, so the simulator and the live queue run the very same code.
//!
//! To add one: one file here, one line in [`registry`], one scenario. `CONTRIBUTING.md` walks through it.

pub mod allocation;
mod allox;
mod credit;
mod entities;
mod fcfs;
mod fifo;
mod gandiva;
mod gittins;
mod lag;
mod lag_weight;
mod las;
mod levels;
mod lottery;
mod pairing;
mod params;
mod priority;
pub mod registry;
mod rr;
mod share;
mod sjf;
mod srtf;
mod watch;
mod wfq;

pub use params::{Param, Params, PolicyError};
pub use registry::{PolicyInfo, build, find, with_param};

use rota_core::random::RandomStream;
use rota_core::{Snapshot, Target};

/// What a policy is handed beside the snapshot.
pub struct Context {
    /// Its own random stream, named after the policy.
    pub stream: RandomStream,
}

/// Who runs next.
pub trait Policy: Send {
    /// Ranks what is new or changed. Called whenever something happened, and when the policy asked to be.
    fn decide(&mut self, snapshot: &Snapshot<'_>, context: &mut Context) -> Target;

    /// Whether running jobs stay until the round ends where time is cut into rounds. Otherwise every arrival and every end is a moment to
    /// stop them, and the ends of rounds are but more of them.
    fn waits_for_rounds(&self) -> bool {
        true
    }
}
