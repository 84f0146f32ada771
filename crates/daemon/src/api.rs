//! What goes over the wire between the daemon and its clients. Unknown values are null, never 0; times are RFC 3339 in UTC.

mod past;
mod policy;
mod simulation;

pub use crate::access::{Scope, Session, SignIn, Token, TokenAsk, TokenMade};
use crate::text::Text;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

pub use past::{
    GpuName, GpuUse, Heatmap, HeatmapRow, JobPoint, JobSamples, NamedUse, Timeline, TimelineBar, Usage, Use, WastefulJob,
};
pub use policy::{PolicyChoice, PolicyParameter};
pub use simulation::{Simulation, SimulationAsk, SimulationSource, SimulationStarted, SimulationState};

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

/// When a dependency is met.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum AfterCondition {
    /// The other job ended with exit code 0.
    #[default]
    Ok,
    /// It ended, however.
    Any,
}

/// A job that must end first.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct After {
    /// The other job.
    pub id: u64,
    /// How it must end.
    #[serde(default)]
    pub condition: AfterCondition,
}

/// One parameter of a sweep: `{lr}` in the command is replaced by each value in turn.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct SweepParam {
    /// Its name.
    pub name: String,
    /// Its values.
    pub values: Vec<String>,
}

fn one() -> u32 {
    1
}

fn one_weight() -> f64 {
    1.0
}

/// What is asked of the queue.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[expect(clippy::struct_excessive_bools, reason = "each is a question of its own")]
pub struct Submit {
    /// The program and its arguments.
    pub command: Vec<Text>,
    /// The directory it runs in.
    pub cwd: Text,
    /// Its whole environment; Rota adds its own variables.
    #[serde(default)]
    pub env: Vec<(Text, Text)>,
    /// GPUs it needs at once; 0 runs it on the processor alone.
    #[serde(default = "one")]
    pub gpus: u32,
    /// The only GPUs it may use, by index.
    #[serde(default)]
    pub gpu_ids: Vec<u32>,
    /// GPU types it accepts; empty means any.
    #[serde(default)]
    pub gpu_types: Vec<String>,
    /// Memory it needs on each GPU.
    #[serde(default)]
    pub memory_mib: Option<u32>,
    /// Memory is predicted from earlier runs of the same program; the first has a GPU to itself.
    #[serde(default)]
    pub memory_auto: bool,
    /// Memory to add to what is predicted, in place of the machine's setting.
    #[serde(default)]
    pub buffer_mib: Option<u32>,
    /// The class its memory is learned under, in place of the one made from its command.
    #[serde(default)]
    pub profile_as: Option<String>,
    /// With `memory_auto`: a program that was never measured is first run by itself for so many epochs, as `--epochs=N`.
    #[serde(default)]
    pub profile_epochs: Option<u32>,
    /// An argument that is added to the command with the job's number behind it, as `--id=`.
    #[serde(default)]
    pub number_argument: Option<String>,
    /// What kind of training it is, by its name in the site's table of throughputs: its speed beside others is known by it.
    #[serde(default)]
    pub job_type: Option<String>,
    /// Share of each GPU, above 0 and at most 1.
    #[serde(default)]
    pub share: Option<f64>,
    /// Nobody else on its GPUs, even if memory or share are given.
    #[serde(default)]
    pub exclusive: bool,
    /// Higher runs first under the policies that look at it.
    #[serde(default)]
    pub priority: i32,
    /// Fair share weight.
    #[serde(default = "one_weight")]
    pub weight: f64,
    /// Lottery tickets.
    #[serde(default = "one")]
    pub tickets: u32,
    /// How long its user believes it will run.
    #[serde(default)]
    pub estimate_seconds: Option<f64>,
    /// When it should be finished, RFC 3339.
    #[serde(default)]
    pub deadline: Option<String>,
    /// It is ended after so long.
    #[serde(default)]
    pub time_limit_seconds: Option<f64>,
    /// Jobs that must end first.
    #[serde(default)]
    pub after: Vec<After>,
    /// How often it is tried again after a failure.
    #[serde(default)]
    pub retries: u32,
    /// Wait before the first of these; doubled each time.
    #[serde(default)]
    pub retry_delay_seconds: Option<f64>,
    /// A name for people.
    #[serde(default)]
    pub name: Option<String>,
    /// What its GPU time is counted under, beside its user.
    #[serde(default)]
    pub project: Option<String>,
    /// A repeated submit with the same key returns the same job.
    #[serde(default)]
    pub key: Option<String>,
    /// Part of the GPU's threads it may use under MPS.
    #[serde(default)]
    pub threads_percent: Option<u32>,
    /// It shares its GPU through NVIDIA's MPS, with jobs of the same user only. Implied by `threads_percent`.
    #[serde(default)]
    pub mps: bool,
    /// It may be stopped for others and started again later.
    #[serde(default)]
    pub preemptible: bool,
    /// Not to be started before it is released.
    #[serde(default)]
    pub hold: bool,
    /// Time between asking it to stop and killing it.
    #[serde(default)]
    pub grace_seconds: Option<f64>,
    /// Memory of the machine it may use, where control groups are permitted.
    #[serde(default)]
    pub host_memory_mib: Option<u64>,
    /// Processors it may use, where control groups are permitted.
    #[serde(default)]
    pub cpus: Option<f64>,
    /// One job for each of these indices, as `ROTA_ARRAY_INDEX` and `{index}` in the command.
    #[serde(default)]
    pub array: Vec<u64>,
    /// One job for each combination of values.
    #[serde(default)]
    pub params: Vec<SweepParam>,
}

/// The answer to a submit.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Submitted {
    /// The jobs, in order.
    pub ids: Vec<u64>,
    /// They were there already, by their key.
    pub existing: bool,
}

/// Many submits at once, which reach the queue in their order.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct SubmitMany {
    /// The environment of all that have none of their own.
    #[serde(default)]
    pub env: Vec<(Text, Text)>,
    /// What is asked for.
    pub submits: Vec<Submit>,
}

/// What became of one of many submits.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct OneOfMany {
    /// Its jobs.
    pub ids: Vec<u64>,
    /// Why it was refused, if it was.
    pub refusal: Option<String>,
}

/// A submit that asks for nothing but one GPU.
pub(crate) fn plain_submit() -> Submit {
    Submit {
        command: vec![Text::from("claim")],
        cwd: Text::from("/"),
        env: Vec::new(),
        gpus: 1,
        gpu_ids: Vec::new(),
        gpu_types: Vec::new(),
        memory_mib: None,
        memory_auto: false,
        buffer_mib: None,
        profile_as: None,
        job_type: None,
        profile_epochs: None,
        number_argument: None,
        share: None,
        exclusive: true,
        priority: 0,
        weight: 1.0,
        tickets: 1,
        estimate_seconds: None,
        deadline: None,
        time_limit_seconds: None,
        after: Vec::new(),
        retries: 0,
        retry_delay_seconds: None,
        name: None,
        project: None,
        key: None,
        threads_percent: None,
        mps: false,
        preemptible: false,
        hold: false,
        grace_seconds: None,
        host_memory_mib: None,
        cpus: None,
        array: Vec::new(),
        params: Vec::new(),
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
