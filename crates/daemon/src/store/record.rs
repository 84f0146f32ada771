//! A job as the store and the queue keep it.

use crate::api::text::Text;
use crate::api::{self, JobState, Submit};
use crate::store::extras::ExtraGpu;
use crate::store::groups::Membership;
use crate::store::journal::{Stamp, Submission};
use rota_core::StopCause;
use serde::{Deserialize, Serialize};
use std::ops::Not;
use std::sync::Arc;

/// What a user asked for, after arrays and sweeps were taken apart.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Spec {
    /// As it was submitted, without the environment. The jobs of an array share one copy. It is written apart from the rest, see
    /// `spec_text.rs`.
    #[serde(skip)]
    pub ask: Arc<Submit>,
    /// Group ids it runs with besides the owner's own, for a root daemon.
    pub gid: u32,
    /// Its place in an array.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub array_index: Option<u64>,
    /// Whether the command is that of the whole array or sweep, in which this job's index and values are still to be put.
    #[serde(default, skip_serializing_if = "Not::not")]
    pub is_template: bool,
    /// Its values in a sweep.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub values: Vec<(String, String)>,
    /// Its place in its group, if it is in one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub membership: Option<Membership>,
    /// The process a claim is tied to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub holder: Option<Holder>,
    /// The mark of its program and script: by it lengths are learned.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub program: Option<u64>,
    /// The class its memory is learned under, where that is predicted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub profile: Option<String>,
    /// It is run to learn how much memory its class needs.
    #[serde(default, skip_serializing_if = "Not::not")]
    pub is_profile_run: bool,
    /// What a client of watchmen asked for, if it is one's claim.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub client: Option<crate::watchmen::clients::Wish>,
}

/// The most of a command that lists show.
const COMMAND_SHOWN_BYTES: usize = 4096;

/// The length of a command.
pub fn command_bytes(command: &[Text]) -> usize {
    command.iter().map(|part| part.0.len() + 1).sum()
}

impl Spec {
    /// The command of this job alone.
    pub fn command(&self) -> Vec<Text> {
        self.filled(self.ask.command.to_vec())
    }

    /// Some parts of the command with this job's index and values in them.
    fn filled(&self, mut parts: Vec<Text>) -> Vec<Text> {
        if !self.is_template {
            return parts;
        }
        if let Some(index) = self.array_index {
            parts = fill_in(&parts, "index", &index.to_string());
        }
        for (name, value) in &self.values {
            parts = fill_in(&parts, name, value);
        }
        parts
    }
}

/// The process whose life a claim is tied to.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Holder {
    /// The process id.
    pub pid: u32,
    /// When it started, in clock ticks since boot: tells it from another with the same number.
    pub start_ticks: u64,
    /// In which boot.
    pub boot_id: String,
}

/// A job with all that became of it.
#[derive(Clone, Debug, PartialEq)]
pub struct JobRecord {
    /// Its number, never used again.
    pub id: u64,
    /// The job's owner.
    pub uid: u32,
    /// The owner's name.
    pub user: String,
    /// What was asked for.
    pub spec: Arc<Spec>,
    /// Row of its environment.
    pub env_id: i64,
    /// Where it is.
    pub state: JobState,
    /// Held by its user.
    pub user_hold: bool,
    /// Exit code of the last attempt.
    pub exit_code: Option<i32>,
    /// Signal that ended it.
    pub signal: Option<i32>,
    /// Why it ended as it did, or a lasting reason for waiting.
    pub reason: Option<String>,
    /// UUIDs of its GPUs: of this run, or the last.
    pub gpu_uuids: Vec<String>,
    /// Their indices then.
    pub gpu_indices: Vec<u32>,
    /// Wall-clock times, in nanoseconds since 1970.
    pub submitted_ns: i64,
    /// Of the last attempt.
    pub started_ns: Option<i64>,
    /// Of the end.
    pub finished_ns: Option<i64>,
    /// The queue's own times, in nanoseconds, which no change of the clock touches.
    pub arrived_at: u64,
    /// Of the last attempt.
    pub started_at: Option<u64>,
    /// Starts so far.
    pub attempts: u32,
    /// Attempts that failed.
    pub failures: u32,
    /// Times it lost its GPUs to others.
    pub preemptions: u32,
    /// GPU time of earlier attempts that counts as progress.
    pub service_ns: u64,
    /// Not to be tried again before, in the queue's time.
    pub not_before: Option<u64>,
    /// Somebody asked for its end.
    pub cancel: bool,
    /// Why the job is being stopped, while it is.
    pub stop_cause: Option<StopCause>,
    /// Whether the job waits because its user has as many GPUs as one user may have.
    pub quota_hold: bool,
    /// What tells this run from any other that ever had its directory.
    pub identity: Option<String>,
    /// Memory it is given on each GPU, where that is not what was asked for: predicted, or raised because it was not enough.
    pub memory_mib: Option<u32>,
    /// How often that was not enough.
    pub ooms: u32,
    /// The most memory seen on one of its GPUs.
    pub peak_memory_mib: Option<u64>,
    /// Energy of all attempts.
    pub energy_joules: Option<f64>,
    /// What the job told of its progress.
    pub progress: Progress,
}

/// What a job told of its progress, and what was kept of it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Progress {
    /// Whether the present run asked for its lease: it hears of a stop through it.
    pub is_leased: bool,
    /// Steps at the last commit, since the job's first start.
    pub step: Option<u64>,
    /// The checkpoint of the last commit, below the job's folder for checkpoints.
    pub checkpoint: Option<String>,
    /// Whether the job committed anything: that alone is kept when it loses its GPUs.
    pub has_saved: bool,
    /// Steps the job told when its last run ended, saved or not.
    pub steps_told: Option<u64>,
    /// Work that is kept, in nanoseconds on the reference GPU.
    pub work_ns: u64,
    /// How long the job ran for the work that it has, without its present run, in nanoseconds. `None` until a run of it has ended, and for
    /// jobs that an earlier version of Rota ended.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub run_ns: Option<u64>,
    /// The same at its last commit.
    pub committed_run_ns: u64,
    /// How often the job saved its work and left as it was asked to.
    pub leaves: u32,
    /// How often all work of a run was lost because the job was stopped for others.
    pub losses: u32,
    /// GPUs that the present run has beyond those it asked for.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub extras: Vec<ExtraGpu>,
}

impl Progress {
    /// How long the job ran for the work that it has, without its present run, in nanoseconds. An earlier version of Rota kept only the work.
    pub fn run_time_ns(&self) -> u64 {
        self.run_ns.unwrap_or(self.work_ns)
    }
}

impl JobRecord {
    /// The record of a job that was just accepted.
    pub fn new(id: u64, request: &Submission, stamp: Stamp) -> Self {
        let spec = request.spec.clone().unwrap_or_default();
        Self {
            id,
            uid: request.uid,
            user: request.user.clone(),
            state: if spec.ask.hold { JobState::Held } else { JobState::Waiting },
            user_hold: spec.ask.hold,
            spec,
            env_id: request.env_id,
            exit_code: None,
            signal: None,
            reason: None,
            gpu_uuids: Vec::new(),
            gpu_indices: Vec::new(),
            submitted_ns: stamp.wall_ns,
            started_ns: None,
            finished_ns: None,
            arrived_at: stamp.at,
            started_at: None,
            attempts: 0,
            failures: 0,
            preemptions: 0,
            service_ns: 0,
            not_before: None,
            cancel: false,
            stop_cause: None,
            quota_hold: false,
            identity: None,
            memory_mib: request.memory_mib,
            ooms: 0,
            peak_memory_mib: None,
            energy_joules: None,
            progress: Progress::default(),
        }
    }

    /// Whether it is a claim.
    pub fn is_claim(&self) -> bool {
        self.spec.holder.is_some() || self.spec.client.is_some()
    }

    /// Whether it runs under MPS.
    pub fn is_under_mps(&self) -> bool {
        self.spec.ask.mps || self.spec.ask.threads_percent.is_some()
    }

    /// Memory it is given on each GPU; `None` if it has its GPUs to itself.
    pub fn memory(&self) -> Option<u32> {
        self.memory_mib.or(self.spec.ask.memory_mib)
    }

    /// What is run: as it was submitted, with its own index and values, and its number behind it where that was asked for.
    pub fn command(&self) -> Vec<Text> {
        let number = self.spec.ask.number_argument.as_ref().map(|argument| Text::from(format!("{argument}{}", self.id).as_str()));
        let resume = self.spec.ask.resume_arg.clone().filter(|_| self.resumes());
        self.spec.command().into_iter().chain(number).chain(resume).collect()
    }

    /// How long the job has between the word that it must leave and its end, in seconds.
    pub fn notice_grace(&self, usual: f64) -> f64 {
        let ask = &self.spec.ask;
        ask.preempt.as_ref().and_then(|preempt| preempt.grace_seconds).or(ask.grace_seconds).unwrap_or(usual)
    }

    /// Whether the job goes on where it was when it is started again: it has saved its work before.
    pub fn resumes(&self) -> bool {
        self.progress.has_saved || self.progress.leaves > 0
    }

    /// The beginning of the command, for lists: thousands of long commands would be too much for one answer.
    pub fn command_in_short(&self) -> Vec<Text> {
        let ask = &self.spec.ask;
        if command_bytes(&ask.command) <= COMMAND_SHOWN_BYTES {
            return self.command();
        }
        let mut left = COMMAND_SHOWN_BYTES;
        let mut parts = Vec::new();
        for part in ask.command.iter() {
            let length = part.0.len().min(left);
            parts.push(Text(part.0[..length].to_vec()));
            left -= length;
            if left == 0 {
                break;
            }
        }
        let mut short = self.spec.filled(parts);
        short.push(Text::from(format!("… ({} bytes in all)", command_bytes(&ask.command)).as_str()));
        short
    }

    /// Where the files of an attempt are, below the state directory.
    pub fn run_dir(&self, state_dir: &std::path::Path) -> std::path::PathBuf {
        state_dir.join("jobs").join(self.id.to_string()).join(self.attempts.to_string())
    }

    /// Where its output is.
    pub fn log_path(&self, state_dir: &std::path::Path) -> Option<std::path::PathBuf> {
        (self.attempts > 0 && !self.is_claim()).then(|| self.run_dir(state_dir).join("log"))
    }

    /// What its users see.
    pub fn view(&self, state_dir: &std::path::Path, reason: Option<String>, position: Option<u64>) -> api::Job {
        let ask = &self.spec.ask;
        // A job that waits for another attempt has left the GPUs of the last one.
        let waits = matches!(self.state, JobState::Waiting | JobState::Held);
        let has_gpus = !waits && (!self.gpu_indices.is_empty() || (self.state.has_gpus() && ask.gpus == 0));
        api::Job {
            id: self.id,
            name: self.spec.label(),
            group: self.spec.membership.map(|membership| membership.group),
            array_index: self.spec.array_index,
            params: self.spec.values.iter().cloned().collect(),
            user: self.user.clone(),
            project: ask.project.clone(),
            state: self.state,
            exit_code: self.exit_code,
            signal: self.signal,
            reason: reason.or_else(|| self.reason.clone()),
            command: self.command_in_short(),
            cwd: ask.cwd.clone(),
            gpus_requested: ask.gpus,
            gpu_indices: has_gpus.then(|| self.gpu_indices.clone()),
            gpu_uuids: has_gpus.then(|| self.gpu_uuids.clone()),
            gpu_types: ask.gpu_types.clone(),
            gpu_ids: ask.gpu_ids.clone(),
            any_type: ask.any_type,
            memory_mib: self.memory(),
            peak_memory_mib: self.peak_memory_mib,
            profile: self.spec.profile.clone(),
            job_type: self.spec.ask.job_type.clone(),
            is_profile_run: self.spec.is_profile_run,
            out_of_memory: self.ooms,
            share: ask.share,
            priority: ask.priority,
            submitted_at: crate::clock::rfc3339(self.submitted_ns),
            started_at: self.started_ns.map(crate::clock::rfc3339),
            finished_at: self.finished_ns.map(crate::clock::rfc3339),
            attempts: self.attempts,
            retries: ask.retries,
            after: ask.after.clone(),
            estimate_seconds: ask.estimate_seconds,
            time_limit_seconds: ask.time_limit_seconds,
            preemptible: ask.preemptible,
            energy_wh: self.energy_joules.map(|joules| joules / 3600.0),
            steps_done: self.progress.step,
            preemptions: self.preemptions,
            log_path: self.log_path(state_dir).map(|path| path.to_string_lossy().into_owned()),
            claim: self.is_claim(),
            position,
            start_p10: None,
            start_p50: None,
            start_p90: None,
        }
    }
}

/// Puts one value in the place of `{name}` everywhere in a command.
pub fn fill_in(command: &[Text], name: &str, value: &str) -> Vec<Text> {
    let mark = format!("{{{name}}}").into_bytes();
    let fill = |text: &Text| {
        let mut filled = Vec::with_capacity(text.0.len());
        let mut rest = text.0.as_slice();
        while let Some(at) = position_of(rest, &mark) {
            filled.extend_from_slice(&rest[..at]);
            filled.extend_from_slice(value.as_bytes());
            rest = &rest[at + mark.len()..];
        }
        filled.extend_from_slice(rest);
        Text(filled)
    };
    command.iter().map(fill).collect()
}

/// Where a mark, which begins with a brace, is found first.
fn position_of(text: &[u8], mark: &[u8]) -> Option<usize> {
    let mut from = 0;
    while let Some(at) = text[from..].iter().position(|byte| *byte == b'{') {
        if text[from + at..].starts_with(mark) {
            return Some(from + at);
        }
        from += at + 1;
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(command: &[&str], index: u64) -> JobRecord {
        let ask = Submit { command: Arc::new(command.iter().map(|part| Text::from(*part)).collect()), ..Submit::default() };
        let values = vec![("lr".to_owned(), "0.1".to_owned())];
        let spec = Spec { ask: Arc::new(ask), is_template: true, array_index: Some(index), values, ..Spec::default() };
        let request = Submission {
            uid: 1,
            user: "ann".to_owned(),
            gpus: 1,
            env_id: 0,
            memory_mib: None,
            group: None,
            spec: Some(Arc::new(spec)),
        };
        JobRecord::new(7, &request, Stamp { at: 0, wall_ns: 0 })
    }

    #[test]
    fn the_jobs_of_an_array_share_a_command_and_each_runs_its_own() {
        let record = record(&["run{index}", "{{index}}", "--lr={lr}", "{other}", "{"], 3);
        let shown = |parts: Vec<Text>| parts.iter().map(Text::lossy).collect::<Vec<_>>();
        assert_eq!(shown(record.command()), ["run3", "{3}", "--lr=0.1", "{other}", "{"]);
        assert_eq!(shown(record.command_in_short()), shown(record.command()));
    }

    #[test]
    fn a_long_command_is_listed_in_short() {
        let record = record(&["run", &"{index} ".repeat(10_000), "end"], 12);
        assert_eq!(record.command()[1].0.len(), 30_000);
        let short = record.command_in_short();
        assert!(command_bytes(&short) < 5000 && short[1].lossy().starts_with("12 12 "));
        assert_eq!(short.last().unwrap().lossy(), "… (80009 bytes in all)");
    }
}
