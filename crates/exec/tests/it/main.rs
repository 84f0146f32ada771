//! Jobs run by a real supervisor process, as the daemon would have them run.
#![expect(clippy::unwrap_used, clippy::print_stderr, reason = "a test that cannot go on has failed, one that cannot run says so")]

mod adoption;
mod contract;
mod ends;
mod failures;
mod fake;
mod gangs;
mod join_tokens;
mod limits;
mod local_executor;
mod output;
mod proofs;
mod pruning;
mod race;
mod slurm_place;
mod stops;
mod support;
mod trees;
mod users;
mod worker_place;
