//! Jobs that are submitted, and the answer. A field with its default value is left out where a job is written down.

use crate::api::text::Text;
use rota_core::DependencyCondition;
use serde::{Deserialize, Serialize};
use std::ops::Not;
use std::sync::Arc;
use utoipa::ToSchema;

/// When a dependency is met.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum AfterCondition {
    /// The other job ended with exit code 0.
    #[default]
    Ok,
    /// The dependency ended in any way.
    Any,
}

impl From<AfterCondition> for DependencyCondition {
    fn from(condition: AfterCondition) -> Self {
        match condition {
            AfterCondition::Ok => Self::Ok,
            AfterCondition::Any => Self::Any,
        }
    }
}

/// A job that must end first.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct After {
    /// The other job.
    pub id: u64,
    /// How the dependency must end.
    #[serde(default)]
    pub condition: AfterCondition,
}

/// One parameter of a sweep: `{lr}` in the command is replaced by each value in turn.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct SweepParam {
    /// The parameter's name.
    pub name: String,
    /// The values the parameter takes, one job each.
    pub values: Vec<String>,
}

/// The processes of a job that hear of a notice.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum NoticeReach {
    /// The process that was started, alone.
    #[default]
    Main,
    /// Every process of the job.
    All,
}

/// How a job is told that it must save and leave. It leaves with exit code 85 or by the signal, and goes on later.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct PreemptNotice {
    /// The name of the signal, as `USR1`.
    pub signal: String,
    /// The seconds that the job has to save and leave; in place of `grace_seconds`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub grace_seconds: Option<f64>,
    /// The processes that get the signal.
    #[serde(default)]
    pub to: NoticeReach,
}

/// What Gavel's dispatcher knows of a script.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct GavelScript {
    /// The steps that the job has to do in all, over all its processes.
    pub total_steps: u64,
    /// The option by which the script is told its number of steps.
    pub steps_arg: String,
    /// The folder with the data, which takes the place of `%s` in the command.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub data_dir: Option<Text>,
}

fn is_empty<T>(list: &Arc<Vec<T>>) -> bool {
    list.is_empty()
}

fn one() -> u32 {
    1
}

fn one_weight() -> f64 {
    1.0
}

impl Default for Submit {
    fn default() -> Self {
        plain_submit()
    }
}

/// A job that is given to the queue.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[expect(clippy::struct_excessive_bools, reason = "each is a question of its own")]
pub struct Submit {
    /// The program and its arguments. The jobs of an array share one copy.
    #[schema(value_type = Vec<Text>)]
    pub command: Arc<Vec<Text>>,
    /// The directory it runs in.
    pub cwd: Text,
    /// The job's whole environment; Rota adds its own variables.
    #[serde(default, skip_serializing_if = "is_empty")]
    #[schema(value_type = Vec<(Text, Text)>)]
    pub env: Arc<Vec<(Text, Text)>>,
    /// Limits of the job's resources, as `core=0:unlimited,nofile=1024:4096`: soft and hard. None is above the daemon's own hard limit;
    /// what is not named is limited as for the daemon. `rota submit` sends those of its shell.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>)]
    pub rlimits: Option<Arc<str>>,
    /// GPUs it needs at once; 0 runs it on the processor alone.
    #[serde(default = "one")]
    pub gpus: u32,
    /// The only GPUs it may use, by index.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub gpu_ids: Vec<u32>,
    /// GPU types it accepts; empty means any.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub gpu_types: Vec<String>,
    /// Whether the GPUs of its gang may be of several types. One type is preferred where it has enough GPUs.
    #[serde(default, skip_serializing_if = "Not::not")]
    pub any_type: bool,
    /// Memory it needs on each GPU.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory_mib: Option<u32>,
    /// Memory is predicted from earlier runs of the same program; the first has a GPU to itself.
    #[serde(default, skip_serializing_if = "Not::not")]
    pub memory_auto: bool,
    /// Memory to add to what is predicted, in place of the machine's setting.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub buffer_mib: Option<u32>,
    /// The class its memory is learned under, in place of the one made from its command.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub profile_as: Option<String>,
    /// With `memory_auto`: a program that was never measured is first run by itself for so many epochs, as `--epochs=N`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub profile_epochs: Option<u32>,
    /// An argument that is added to the command with the job's number behind it, as `--id=`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub number_argument: Option<String>,
    /// What kind of training it is, by its name in the site's table of throughputs: its speed beside others is known by it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub job_type: Option<String>,
    /// Share of each GPU, above 0 and at most 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub share: Option<f64>,
    /// The job shares its GPUs with no other job, even if memory or share are given.
    #[serde(default, skip_serializing_if = "Not::not")]
    pub exclusive: bool,
    /// Higher runs first under the policies that look at it.
    #[serde(default)]
    pub priority: i32,
    /// Fair share weight.
    #[serde(default = "one_weight")]
    pub weight: f64,
    /// The job's tickets under the policy `lottery`.
    #[serde(default = "one")]
    pub tickets: u32,
    /// The run time that the user expects.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub estimate_seconds: Option<f64>,
    /// The moment the job should be finished by, RFC 3339.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deadline: Option<String>,
    /// The longest run time; the job is ended after it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub time_limit_seconds: Option<f64>,
    /// Jobs that must end first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub after: Vec<After>,
    /// How often the job is tried again after a failure.
    #[serde(default)]
    pub retries: u32,
    /// Wait before the first of these; doubled each time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry_delay_seconds: Option<f64>,
    /// A name for people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// The project that the job's GPU time is counted under, beside its user.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub project: Option<String>,
    /// A repeated submit with the same key returns the same job.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
    /// Part of the GPU's threads it may use under MPS.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub threads_percent: Option<u32>,
    /// It shares its GPU through NVIDIA's MPS, with jobs of the same user only. Implied by `threads_percent`.
    #[serde(default, skip_serializing_if = "Not::not")]
    pub mps: bool,
    /// Whether the job may be stopped for others and started again later.
    #[serde(default, skip_serializing_if = "Not::not")]
    pub preemptible: bool,
    /// The job saves its progress when it is stopped, within its grace time, and goes on from there when it is started again.
    #[serde(default, skip_serializing_if = "Not::not")]
    pub saves_progress: bool,
    /// How the job is told that it must save and leave, where it has a way of its own. It implies `preemptible` and `saves_progress`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub preempt: Option<PreemptNotice>,
    /// An argument that is added to the command when the job goes on with what it saved.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resume_arg: Option<Text>,
    /// The job is a script with Gavel's iterator, and is run as Gavel's dispatcher would. It implies `preemptible`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gavel: Option<GavelScript>,
    /// How long the job trains, in seconds, in all its runs together. It is told to the job, which ends by itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub budget_seconds: Option<f64>,
    /// The most GPUs that the job may be offered beyond those it asked for, while nobody waits for them. It is asked to give them back.
    #[serde(default)]
    pub extra_gpus: u32,
    /// Whether the job is held: it does not start before it is released.
    #[serde(default, skip_serializing_if = "Not::not")]
    pub hold: bool,
    /// Time between asking it to stop and killing it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub grace_seconds: Option<f64>,
    /// Memory of the machine it may use, where control groups are permitted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub host_memory_mib: Option<u64>,
    /// Processors it may use, where control groups are permitted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpus: Option<f64>,
    /// One job for each of these indices, as `ROTA_ARRAY_INDEX` and `{index}` in the command.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub array: Vec<u64>,
    /// The group that the job joins, by its number: an array, a sweep or a batch of the same user. 0 begins a new group, which has the
    /// job's own number. Arrays and sweeps that name no group are one by themselves.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub group: Option<u64>,
    /// A name for the group, where it is not the job's own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub group_name: Option<String>,
    /// One job for each combination of values.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub params: Vec<SweepParam>,
}

/// The answer to a submit.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Submitted {
    /// The jobs, in order.
    pub ids: Vec<u64>,
    /// Whether jobs with this key were in the queue already.
    pub existing: bool,
    /// The group that the jobs are in; left out if they are in none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub group: Option<u64>,
}

/// Many submits at once, which reach the queue in their order.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct SubmitMany {
    /// The environment of all that have none of their own.
    #[serde(default)]
    #[schema(value_type = Vec<(Text, Text)>)]
    pub env: Arc<Vec<(Text, Text)>>,
    /// The jobs to submit.
    pub submits: Vec<Submit>,
}

/// The outcome of one of many submits.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct OneOfMany {
    /// The numbers of the new jobs.
    pub ids: Vec<u64>,
    /// Why the submit was refused, if it was.
    pub refusal: Option<String>,
}

/// A submit that asks for nothing but one GPU.
pub(crate) fn plain_submit() -> Submit {
    Submit {
        command: Arc::new(vec![Text::from("claim")]),
        cwd: Text::from("/"),
        env: Arc::default(),
        rlimits: None,
        gpus: 1,
        gpu_ids: Vec::new(),
        gpu_types: Vec::new(),
        any_type: false,
        memory_mib: None,
        memory_auto: false,
        buffer_mib: None,
        profile_as: None,
        job_type: None,
        profile_epochs: None,
        number_argument: None,
        share: None,
        exclusive: true,
        saves_progress: false,
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
        preempt: None,
        resume_arg: None,
        gavel: None,
        budget_seconds: None,
        extra_gpus: 0,
        hold: false,
        grace_seconds: None,
        host_memory_mib: None,
        cpus: None,
        array: Vec::new(),
        group: None,
        group_name: None,
        params: Vec::new(),
    }
}
