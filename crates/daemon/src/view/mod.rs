//! What others may see while the queue works: jobs and GPUs ([`board`]), how the last ones ended ([`recent_ends`]), events as they happen
//! ([`relay`]), counters ([`metrics`]), and the reasons why a job waits ([`explain`]).

pub mod board;
pub mod explain;
pub mod metrics;
pub mod recent_ends;
pub mod relay;
