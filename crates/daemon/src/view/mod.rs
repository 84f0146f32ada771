//! What others may see while the queue works: jobs and GPUs ([`board`]), events as they happen ([`relay`]), counters ([`metrics`]), and
//! the reasons why a job waits ([`explain`]).

pub mod board;
pub mod explain;
pub mod metrics;
pub mod relay;
