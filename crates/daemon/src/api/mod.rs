//! What goes over the wire between the daemon and its clients. Unknown values are null, never 0; times are RFC 3339 in UTC.

mod access;
mod event;
mod group;
mod history;
mod job;
mod machine;
mod notify;
mod past;
mod policy;
mod prediction;
mod simulation;
mod submit;
pub(crate) mod text;

pub use access::{Scope, Session, SignIn, SignInLink, Token, TokenAsk, TokenMade};
pub use event::{LiveEvent, Problem};
pub use group::{Group, GroupCounts, GroupDetail, GroupMember, JobRefused, JobVerb, JobsActed, JobsAction};
pub use history::{GpuSample, History, PastJob, PastRun, SchedulerSettings};
pub use job::{
    Blocker, ClaimMode, Counterfactual, Delay, DryRun, Explanation, GpuClaim, Job, JobChange, JobState, Profile, TypeOutcome,
};
pub use machine::{Drain, Gpu, GpuProcess, GpuState, NodeView, PolicyChange, Speed, Status};
pub use notify::{NewNotifyTarget, NotifyEvent, NotifyKind, NotifyTarget};
pub use past::{
    GpuName, GpuUse, Heatmap, HeatmapRow, JobPoint, JobSamples, NamedUse, Timeline, TimelineBar, Usage, Use, WastefulJob,
};
pub use policy::{PolicyChoice, PolicyParameter};
pub use prediction::{EarlierPredictions, Prediction, Predictions};
pub use simulation::{
    ScheduleBar, ScheduleBars, ScheduleEnd, Simulation, SimulationAsk, SimulationSource, SimulationStarted, SimulationState,
};
pub(crate) use submit::plain_submit;
pub use submit::{
    After, AfterCondition, GavelScript, NoticeReach, OneOfMany, PreemptNotice, Submit, SubmitMany, Submitted, SweepParam,
};
