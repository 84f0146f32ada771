//! Growing a network while it trains: which block to deepen when a job is given more GPUs for the rest of its time.
//!
//! The path: a network's [`architecture`] and the time left become a state ([`vocabulary`], [`policy`]); recorded runs are a [`table`],
//! and a table is a [`game`] of three decisions; [`reinforce`] and [`exact`] learn a policy on it. The default decision maker is a
//! [`forecast`] from all tables; [`evaluation`] compares ways of choosing, with each table left out in turn, and
//! [`comparison`] judges them on tables of other runs.
//! Tables come from [`sweep`]s: a [`job`]'s time and [`images`] are what a run of [`training`] has, a [`network`] is
//! what changes, and a [`timing`] says where a run ends.

pub mod architecture;
pub mod comparison;
pub mod decision;
pub mod evaluation;
pub mod exact;
pub mod forecast;
pub mod game;
pub mod images;
pub mod job;
pub mod network;
pub mod noise;
pub mod policy;
pub mod policy_file;
pub mod reinforce;
pub mod reward;
pub mod sweep;
pub mod table;
pub mod timing;
pub mod training;
pub mod vocabulary;
pub mod weights;
