//! Policies that rank jobs: the smallest rank runs first, and a rule says how ranks are used.

pub mod batch_rules;
pub(crate) mod by_history;
pub(crate) mod fcfs;
pub(crate) mod gittins;
pub(crate) mod las;
mod levels;
pub(crate) mod lottery;
pub(crate) mod priority;
pub(crate) mod rr;
pub(crate) mod sjf;
pub(crate) mod srsf;
pub(crate) mod srtf;
pub(crate) mod wfq;
