//! What goes over the wire between the daemon and its clients. Unknown values are null, never 0; times are RFC 3339 in UTC.

mod past;
mod policy;
mod simulation;
mod submit;

pub use crate::access::{Scope, Session, SignIn, Token, TokenAsk, TokenMade};
use crate::text::Text;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

pub use past::{
    GpuName, GpuUse, Heatmap, HeatmapRow, JobPoint, JobSamples, NamedUse, Timeline, TimelineBar, Usage, Use, WastefulJob,
};
pub use policy::{PolicyChoice, PolicyParameter};
pub use simulation::{Simulation, SimulationAsk, SimulationSource, SimulationStarted, SimulationState};
pub(crate) use submit::plain_submit;
pub use submit::{After, AfterCondition, OneOfMany, Submit, SubmitMany, Submitted, SweepParam};

/// Where a job is in its life.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum State {
    /// For GPUs, or for other jobs.
    Waiting,
    /// Until somebody releases it.
    Held,
    /// Its supervisor is being started.
    Starting,
    /// On its GPUs.
    Running,
    /// Asked to end.
    Stopping,
    /// Ended with exit code 0.
    Done,
    /// Ended otherwise.
    Failed,
    /// Ended because somebody asked.
    Cancelled,
    /// Nobody can say how it ended.
    Lost,
}

impl State {
    /// All of them, by name.
    pub const ALL: [(&'static str, Self); 9] = [
        ("waiting", Self::Waiting),
        ("held", Self::Held),
        ("starting", Self::Starting),
        ("running", Self::Running),
        ("stopping", Self::Stopping),
        ("done", Self::Done),
        ("failed", Self::Failed),
        ("cancelled", Self::Cancelled),
        ("lost", Self::Lost),
    ];

    /// Its name.
    pub fn word(self) -> &'static str {
        Self::ALL.iter().find(|(_, state)| *state == self).map_or("", |(word, _)| word)
    }

    /// The state of a name.
    pub fn from_word(word: &str) -> Option<Self> {
        Self::ALL.iter().find(|(known, _)| *known == word).map(|(_, state)| *state)
    }

    /// Whether nothing more will happen to the job.
    pub fn is_over(self) -> bool {
        matches!(self, Self::Done | Self::Failed | Self::Cancelled | Self::Lost)
    }

    /// Whether it has GPUs.
    pub fn has_gpus(self) -> bool {
        matches!(self, Self::Starting | Self::Running | Self::Stopping)
    }
}

/// A job as its users see it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[expect(missing_docs, reason = "the names are the documentation: they are fixed by the interface")]
pub struct Job {
    pub id: u64,
    pub name: Option<String>,
    pub user: String,
    /// What its GPU time is counted under, beside its user.
    pub project: Option<String>,
    pub state: State,
    pub exit_code: Option<i32>,
    pub signal: Option<i32>,
    /// Why it waits, or why it ended as it did.
    pub reason: Option<String>,
    pub command: Vec<Text>,
    pub cwd: Text,
    pub gpus_requested: u32,
    pub gpu_indices: Option<Vec<u32>>,
    pub gpu_uuids: Option<Vec<String>>,
    pub gpu_types: Vec<String>,
    pub memory_mib: Option<u32>,
    pub peak_memory_mib: Option<u64>,
    /// The class its memory is learned under, if it is.
    pub profile: Option<String>,
    /// What kind of training it is, by its name in the site's table of throughputs.
    pub job_type: Option<String>,
    /// A run that is made to learn how much memory its class needs.
    pub is_profile_run: bool,
    /// How often it had not enough of a GPU's memory.
    pub out_of_memory: u32,
    pub share: Option<f64>,
    pub priority: i32,
    pub submitted_at: String,
    pub started_at: Option<String>,
    pub finished_at: Option<String>,
    pub attempts: u32,
    pub retries: u32,
    pub after: Vec<After>,
    pub estimate_seconds: Option<f64>,
    pub time_limit_seconds: Option<f64>,
    pub preemptible: bool,
    pub energy_wh: Option<f64>,
    pub log_path: Option<String>,
    /// Not a job but a claim on GPUs by a process of its own.
    pub claim: bool,
    /// Where it stands among the waiting, from 1, in order of arrival.
    pub position: Option<u64>,
}

/// What is to be different about a job that waits.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct JobChange {
    /// Higher runs first under the policies that look at it.
    pub priority: i32,
}

/// What is known of the memory that programs of one class need.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Profile {
    /// The program with the arguments that matter, or a name that its user gave it.
    pub class: String,
    /// Whose.
    pub uid: u32,
    /// On which GPU type.
    #[serde(rename = "type")]
    pub kind: String,
    /// Runs that were measured.
    pub runs: u64,
    /// The largest peak remembered.
    pub peak_mib: Option<u32>,
    /// What the next run is given.
    pub predicted_mib: Option<u32>,
    /// It ran out of memory with less than this.
    pub raised_mib: Option<u32>,
    /// When it last changed, RFC 3339.
    pub updated_at: String,
}

/// Why a job waits, in full.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Explanation {
    /// The job.
    pub id: u64,
    /// Its state.
    pub state: State,
    /// The reason in one sentence with numbers.
    pub reason: String,
    /// Everything that stands in its way.
    pub blockers: Vec<Blocker>,
    /// The earliest start that is known, RFC 3339; null if nobody can say.
    pub earliest_start: Option<String>,
}

/// One thing that stands in a job's way.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Blocker {
    /// What kind: `gpu`, `dependency`, `hold`, `quota`, `drain`, `retry`, `order`, `disk`.
    pub kind: String,
    /// In words, with numbers.
    pub text: String,
    /// The GPU it is about.
    pub gpu: Option<u32>,
    /// The job it is about.
    pub job: Option<u64>,
    /// The process it is about.
    pub pid: Option<u32>,
}

/// Whose a GPU is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum GpuState {
    /// Nobody's.
    Free,
    /// Has jobs, and room.
    Shared,
    /// Has no room.
    Full,
    /// A process Rota did not start holds it.
    Stranger,
    /// Gets no new jobs.
    Drained,
    /// Does not answer.
    Lost,
}

/// A GPU as its users see it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[expect(missing_docs, reason = "the names are the documentation: they are fixed by the interface")]
pub struct Gpu {
    pub index: u32,
    pub uuid: String,
    pub name: String,
    #[serde(rename = "type")]
    pub kind: String,
    pub node: String,
    pub state: GpuState,
    pub memory_total_mib: u64,
    pub memory_used_mib: Option<u64>,
    pub utilisation_percent: Option<u32>,
    pub memory_utilisation_percent: Option<u32>,
    pub power_watts: Option<f64>,
    pub temperature_c: Option<u32>,
    pub jobs: Vec<u64>,
    pub processes: Vec<GpuProcess>,
}

/// A process on a GPU.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[expect(missing_docs, reason = "the names are the documentation: they are fixed by the interface")]
pub struct GpuProcess {
    pub pid: u32,
    pub user: Option<String>,
    pub name: Option<String>,
    pub memory_mib: Option<u64>,
    /// The job it belongs to; null for a stranger's.
    pub job: Option<u64>,
}

/// The whole state at a glance.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[expect(missing_docs, reason = "the names are the documentation")]
pub struct Status {
    pub version: String,
    pub pid: u32,
    pub state_dir: String,
    pub socket: String,
    pub http: Option<String>,
    pub started_at: String,
    pub driver: String,
    pub policy: String,
    pub draining: bool,
    pub waiting: u64,
    pub held: u64,
    pub running: u64,
    pub gpus: Vec<Gpu>,
    /// Decisions of the scheduler since the daemon started, and the longest of them.
    pub decisions: u64,
    pub decision_seconds_max: f64,
    /// What an administrator should look at.
    pub warnings: Vec<String>,
}

/// A change of policy.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct PolicyChange {
    /// `name:key=value,…`.
    pub policy: String,
}

/// What to drain or to take into use again.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Drain {
    /// These GPUs; empty means everything.
    #[serde(default)]
    pub gpus: Vec<u32>,
    /// Stop the daemon when nothing runs any more.
    #[serde(default)]
    pub then_exit: bool,
}

/// How GPUs are claimed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum ClaimMode {
    /// All of the GPUs named.
    #[default]
    Queue,
    /// So many of the GPUs named.
    Schedule,
}

/// A process asks for GPUs for itself.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Claim {
    /// How many.
    pub gpus: u32,
    /// Of these; empty means all.
    #[serde(default)]
    pub from: Vec<u32>,
    /// Exactly these, or any of them.
    #[serde(default)]
    pub mode: ClaimMode,
    /// The process whose life the grant is tied to.
    pub pid: u32,
    /// A name for people.
    #[serde(default)]
    pub name: Option<String>,
}

/// Something that happened.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct LiveEvent {
    /// Number, growing.
    pub seq: u64,
    /// When.
    pub at: String,
    /// What: `submitted`, `started`, `finished`, …
    pub kind: String,
    /// Whose.
    pub job: Option<u64>,
    /// More, by kind.
    pub detail: serde_json::Value,
}

/// What went wrong, in the form of RFC 9457.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Problem {
    /// A word for programs.
    #[serde(rename = "type")]
    pub kind: String,
    /// The HTTP status.
    pub status: u16,
    /// For people: what is wrong and what to do.
    pub title: String,
}

/// What really happened, for reports and for the simulator.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct History {
    /// The machine's name.
    pub host: String,
    /// Its GPUs.
    pub gpus: Vec<Gpu>,
    /// Jobs that are over and were there in the time asked for, in order of arrival.
    pub jobs: Vec<PastJob>,
    /// Use and power of the GPUs over that time.
    pub samples: Vec<GpuSample>,
}

/// A job that is over, with all its runs.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct PastJob {
    /// As its users see it.
    pub job: Job,
    /// What was asked for, without the environment.
    pub ask: Submit,
    /// When it arrived, in nanoseconds of the queue's own time.
    pub arrived_at_ns: u64,
    /// How long it was believed to run.
    pub believed_seconds: f64,
    /// Share of each GPU it was given, in thousandths.
    pub share_milli: u16,
    /// Memory on each GPU it was counted with.
    pub memory_mib: u32,
    /// Its runs, in order.
    pub runs: Vec<PastRun>,
}

/// One stay on GPUs.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct PastRun {
    /// UUIDs of its GPUs.
    pub gpu_uuids: Vec<String>,
    /// From, in nanoseconds of the queue's own time.
    pub start_ns: u64,
    /// Until.
    pub end_ns: u64,
    /// What was done in that time, in seconds of a job that is alone on its GPUs: less than it took where others were in its way.
    pub work_seconds: f64,
    /// How it ended: `finished`, `failed`, `preempted`, `evicted`, `retried`, `cancelled`, `lost`.
    pub end: String,
}

/// What a GPU did over some seconds.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct GpuSample {
    /// Which.
    pub uuid: String,
    /// The end of the time it stands for.
    pub at: String,
    /// Its length.
    pub span_seconds: u32,
    /// How busy it was.
    pub utilisation_percent: Option<f64>,
    /// Memory in use.
    pub memory_used_mib: Option<f64>,
    /// Power drawn.
    pub power_watts: Option<f64>,
}

/// How somebody is told about jobs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum NotifyKind {
    /// JSON by POST, signed if there is a secret.
    Webhook,
    /// By mail.
    Mail,
    /// A chat hook that takes `{"text": …}`.
    Slack,
    /// A chat hook of `DingTalk`'s, signed if there is a secret.
    Dingtalk,
}

impl NotifyKind {
    /// All of them, by name.
    pub const ALL: [(&'static str, Self); 4] =
        [("webhook", Self::Webhook), ("mail", Self::Mail), ("slack", Self::Slack), ("dingtalk", Self::Dingtalk)];

    /// Its name.
    pub fn word(self) -> &'static str {
        Self::ALL.iter().find(|(_, kind)| *kind == self).map_or("", |(word, _)| word)
    }

    /// The kind of a name.
    pub fn from_word(word: &str) -> Option<Self> {
        Self::ALL.iter().find(|(known, _)| *known == word).map(|(_, kind)| *kind)
    }
}

/// What somebody is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum NotifyEvent {
    /// A job started for the first time.
    Started,
    /// It ended with exit code 0.
    Finished,
    /// It ended otherwise, for good, or nobody can say how.
    Failed,
    /// It ended because somebody asked.
    Cancelled,
    /// Nothing: somebody asked for a test.
    Test,
}

impl NotifyEvent {
    /// All of them, by name.
    pub const ALL: [(&'static str, Self); 5] = [
        ("started", Self::Started),
        ("finished", Self::Finished),
        ("failed", Self::Failed),
        ("cancelled", Self::Cancelled),
        ("test", Self::Test),
    ];

    /// Its name.
    pub fn word(self) -> &'static str {
        Self::ALL.iter().find(|(_, event)| *event == self).map_or("", |(word, _)| word)
    }

    /// The event of a name.
    pub fn from_word(word: &str) -> Option<Self> {
        Self::ALL.iter().find(|(known, _)| *known == word).map(|(_, event)| *event)
    }
}

/// Where somebody wants to be told about their jobs.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct NewNotifyTarget {
    /// How.
    pub kind: NotifyKind,
    /// A URL, or a mail address.
    pub address: String,
    /// What messages are signed with.
    #[serde(default)]
    pub secret: Option<String>,
    /// Of what; finished and failed if empty.
    #[serde(default)]
    pub on: Vec<NotifyEvent>,
}

/// Where somebody is told about their jobs.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct NotifyTarget {
    /// Its number.
    pub id: u64,
    /// Whose; null for one that the site has set, which is told of everybody's jobs.
    pub user: Option<String>,
    /// How.
    pub kind: NotifyKind,
    /// Where; of a hook the host only, because the rest is as good as a password.
    pub address: String,
    /// Whether messages are signed.
    pub is_signed: bool,
    /// Of what.
    pub on: Vec<NotifyEvent>,
    /// Messages given up since the last that arrived.
    pub given_up: u64,
    /// Why the last try failed.
    pub problem: Option<String>,
}
