//! What can be typed to the live queue.

mod cluster;
mod daemon;
mod demo;
mod duration;
mod jobs;
mod machine;
mod select;
mod site;

pub use cluster::{NodeArgs, NodeVerb, WorkerArgs};
pub use daemon::{BackupArgs, DownArgs, PlainArgs, RestoreArgs, StateArgs, UpArgs};
pub use demo::DemoArgs;
pub use duration::{duration, gpu_mebibytes, mebibytes, moment};
pub use jobs::{BatchArgs, ExplainArgs, JobArgs, LogsArgs, Memory, PriorityArgs, QueueArgs, SubmitArgs, WaitArgs};
pub use machine::{
    ClaimArgs, ClaimModeWord, ClaimNames, HistoryArgs, HistoryVerb, ProfilesArgs, RecordArgs, ReportArgs, TopArgs,
};
pub use select::{JobWord, JobsArgs, SelectArgs, verb_examples};
pub use site::{
    ConfigArgs, ConfigVerb, DoctorArgs, DrainArgs, NotifyArgs, NotifyVerb, PolicyArgs, PolicyVerb, ScopeWord, TokenArgs,
    TokenVerb,
};
