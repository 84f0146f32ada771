//! Gavel's simulator (OSDI 2020) as it is, defects included, so that its published results can be compared with.
//!
//! Nothing else in Rota uses this: the rounds of `rota-sim` are ours, these are Gavel's. A job waits for the end of a round to
//! be admitted and up to half an hour for a share, a gang that has fewer steps left than GPUs fails, and so on; where a
//! comment says "as Gavel does" the behaviour is a defect that is kept. Time and progress are 64-bit floating-point seconds and
//! steps and sums are taken in Gavel's order, because its schedules depend on the last bit; only events carry nanoseconds.
//!
//! [`simulate`] runs one policy; [`check_policy`] says whether a name is one, [`POLICY_NAMES`] lists them.

mod events;
mod name;
mod options;
mod policies;
mod rounds;
mod setting;
mod simulate;

pub use name::{POLICY_NAMES, check_policy};
pub use options::{GavelError, GavelOptions, Prices};
pub use simulate::{GavelTally, simulate};
