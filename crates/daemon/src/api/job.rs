//! Jobs as their users see them, and why they wait.

use super::submit::After;
use super::text::Text;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use utoipa::ToSchema;

/// The state of a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
#[schema(as = State)]
pub enum JobState {
    /// The job waits for GPUs, or for other jobs.
    Waiting,
    /// The job waits until a user releases it.
    Held,
    /// The job's supervisor is being started.
    Starting,
    /// The job runs on its GPUs.
    Running,
    /// The job was asked to end.
    Stopping,
    /// The job ended with exit code 0.
    Done,
    /// Ended with another exit code, or by a signal.
    Failed,
    /// The job ended because a user cancelled it.
    Cancelled,
    /// The job ended, and its exit status is not known.
    Lost,
}

impl JobState {
    /// All states, by name.
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

    /// The state's name.
    pub fn word(self) -> &'static str {
        Self::ALL.iter().find(|(_, state)| *state == self).map_or("", |(word, _)| word)
    }

    /// The state with this name.
    pub fn from_word(word: &str) -> Option<Self> {
        Self::ALL.iter().find(|(known, _)| *known == word).map(|(_, state)| *state)
    }

    /// Whether nothing more will happen to the job.
    pub fn is_over(self) -> bool {
        matches!(self, Self::Done | Self::Failed | Self::Cancelled | Self::Lost)
    }

    /// Whether the job has GPUs.
    pub fn has_gpus(self) -> bool {
        matches!(self, Self::Starting | Self::Running | Self::Stopping)
    }
}

/// A job as its users see it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[expect(clippy::struct_excessive_bools, reason = "each is a fact of its own")]
#[expect(missing_docs, reason = "the names are the documentation: they are fixed by the interface")]
pub struct Job {
    pub id: u64,
    /// The job's name; in an array or a sweep with its index or its parameters, as `bert[lr=0.1,seed=2]`.
    pub name: Option<String>,
    /// The group that the job belongs to: an array, a sweep or a batch.
    pub group: Option<u64>,
    /// The job's index in an array.
    pub array_index: Option<u64>,
    /// The job's parameters in a sweep.
    #[serde(default)]
    pub params: BTreeMap<String, String>,
    pub user: String,
    /// The project that the job's GPU time is counted under, beside its user.
    pub project: Option<String>,
    pub state: JobState,
    pub exit_code: Option<i32>,
    pub signal: Option<i32>,
    /// Why the job waits, or why it ended as it did.
    pub reason: Option<String>,
    pub command: Vec<Text>,
    pub cwd: Text,
    pub gpus_requested: u32,
    pub gpu_indices: Option<Vec<u32>>,
    pub gpu_uuids: Option<Vec<String>>,
    pub gpu_types: Vec<String>,
    /// Numbers of the only GPUs that the job may have, if it named them.
    #[serde(default)]
    pub gpu_ids: Vec<u32>,
    /// Whether the GPUs of the job may be of several types.
    #[serde(default)]
    pub any_type: bool,
    pub memory_mib: Option<u32>,
    pub peak_memory_mib: Option<u64>,
    /// The class that the job's memory is learned under, if it is.
    pub profile: Option<String>,
    /// What kind of training it is, by its name in the site's table of throughputs.
    pub job_type: Option<String>,
    /// A run that is made to learn how much memory its class needs.
    pub is_profile_run: bool,
    /// How often the job ran out of GPU memory.
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
    /// Steps that the job has saved, since its first start.
    pub steps_done: Option<u64>,
    /// How often the job lost its GPUs to others.
    pub preemptions: u32,
    pub log_path: Option<String>,
    /// Whether this is a claim of GPUs by a process that Rota did not start.
    pub claim: bool,
    /// The job's place among the waiting jobs, from 1, in order of arrival.
    pub position: Option<u64>,
    /// A waiting job starts before this moment with a chance of one in ten.
    pub start_p10: Option<String>,
    /// A waiting job starts before this moment as likely as not.
    pub start_p50: Option<String>,
    /// A waiting job starts before this moment with a chance of nine in ten.
    pub start_p90: Option<String>,
}

/// A change of a waiting job.
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
    /// The user id of the programs' owner.
    pub uid: u32,
    /// The GPU type that the programs ran on.
    #[serde(rename = "type")]
    pub kind: String,
    /// Runs that were measured.
    pub runs: u64,
    /// The largest peak remembered.
    pub peak_mib: Option<u32>,
    /// The memory that the next run is given.
    pub predicted_mib: Option<u32>,
    /// A run with less memory than this ran out of it.
    pub raised_mib: Option<u32>,
    /// The moment of the last change, RFC 3339.
    pub updated_at: String,
}

/// Why a job waits, in full.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Explanation {
    /// The job's number.
    pub id: u64,
    /// The job's state.
    pub state: JobState,
    /// The reason in one sentence with numbers.
    pub reason: String,
    /// Everything that stands in its way.
    pub blockers: Vec<Blocker>,
    /// The job starts before this moment with a chance of one in ten, RFC 3339; null if that is not known.
    pub earliest_start: Option<String>,
    /// The job starts before this moment as likely as not.
    #[serde(default)]
    pub start_p50: Option<String>,
    /// The job starts before this moment with a chance of nine in ten.
    #[serde(default)]
    pub start_p90: Option<String>,
    /// Why its start is not known, in words.
    #[serde(default)]
    pub start_note: Option<String>,
    /// What keeps it waiting most, in words.
    #[serde(default)]
    pub cause: Option<String>,
    /// The smallest changes that would start it now or sooner.
    #[serde(default)]
    pub counterfactuals: Vec<Counterfactual>,
}

impl Explanation {
    /// The state of a job and why it is in it, and nothing more.
    pub fn plain(id: u64, state: JobState, reason: String) -> Self {
        Self {
            id,
            state,
            reason,
            blockers: Vec::new(),
            earliest_start: None,
            start_p50: None,
            start_p90: None,
            start_note: None,
            cause: None,
            counterfactuals: Vec::new(),
        }
    }
}

/// A change that would start a job now or sooner, and what it would cost others.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Counterfactual {
    /// The options of `rota submit` to give instead.
    pub change: String,
    /// When the job would start with them, by the middle of what is believed of lengths, RFC 3339.
    pub start: String,
    /// Whether that is at once.
    pub is_now: bool,
    /// The jobs that would start later because of it, those that lose most first.
    pub delays: Vec<Delay>,
}

/// A job that starts later because of another.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Delay {
    /// The job that is delayed.
    pub id: u64,
    /// By how long.
    pub seconds: f64,
}

/// What would become of a job that is not submitted. Times are RFC 3339, by the middle of what is believed of lengths; null where they
/// are not known.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct DryRun {
    /// How many jobs the submit would make. What is said is about the first of them.
    pub jobs: u32,
    /// Why the start is not known, why the job would not start by itself, or that its user's quota would hold it at first.
    pub note: Option<String>,
    /// Whether the job would start at once.
    pub starts_now: bool,
    /// When it would start.
    pub start: Option<String>,
    /// When it would end.
    pub end: Option<String>,
    /// The GPU type on which it would be done first.
    pub first_done: Option<String>,
    /// Its start and end on each GPU type, the type on which it is done first at the top.
    pub gpu_types: Vec<TypeOutcome>,
    /// The smallest changes that would start it now or sooner.
    pub counterfactuals: Vec<Counterfactual>,
}

/// When a job would start and end on one GPU type.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct TypeOutcome {
    /// The GPU type.
    pub gpu_type: String,
    /// The start of the job there.
    pub start: Option<String>,
    /// The end of the job there.
    pub end: Option<String>,
}

/// One thing that stands in a job's way.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Blocker {
    /// What kind: `gpu`, `dependency`, `hold`, `quota`, `drain`, `retry`, `order`, `disk`.
    pub kind: String,
    /// The reason in words, with numbers.
    pub text: String,
    /// The GPU it is about.
    pub gpu: Option<u32>,
    /// The job it is about.
    pub job: Option<u64>,
    /// The process it is about.
    pub pid: Option<u32>,
}

/// How GPUs are claimed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum ClaimMode {
    /// All of the GPUs named.
    #[default]
    Queue,
    /// As many of the named GPUs as asked for.
    Schedule,
}

/// A claim: a process asks for GPUs for itself.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = Claim)]
pub struct GpuClaim {
    /// The number of GPUs wanted.
    pub gpus: u32,
    /// The GPUs to choose from; empty means all.
    #[serde(default)]
    pub from: Vec<u32>,
    /// All GPUs of `from`, or `gpus` of them.
    #[serde(default)]
    pub mode: ClaimMode,
    /// The process whose life the grant is tied to.
    pub pid: u32,
    /// A name for people.
    #[serde(default)]
    pub name: Option<String>,
}
