//! What can be typed to the live queue.

mod daemon;
mod duration;
mod jobs;
mod machine;
mod site;

pub use daemon::{BackupArgs, DownArgs, PlainArgs, RestoreArgs, StateArgs, UpArgs};
pub use duration::duration;
pub use jobs::{BatchArgs, JobArgs, JobsArgs, LogsArgs, Memory, PriorityArgs, QueueArgs, SubmitArgs, WaitArgs};
pub use machine::{ClaimArgs, ClaimModeWord, HistoryArgs, HistoryVerb, ProfilesArgs, RecordArgs, ReportArgs, TopArgs};
pub use site::{
    ConfigArgs, ConfigVerb, DoctorArgs, DrainArgs, NotifyArgs, NotifyVerb, PolicyArgs, PolicyVerb, ScopeWord, TokenArgs,
    TokenVerb,
};
