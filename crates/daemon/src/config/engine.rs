//! Where jobs run beside this machine: the settings of engines. docs/slurm.md explains those of Slurm.

use super::ConfigError;
use rota_exec::slurm::{Calls, SlurmSettings};
use serde::{Deserialize, Serialize};
use std::path::PathBuf;
use std::time::Duration;

/// The shortest time limit of an allocation: its last two minutes are for saving.
const TIME_LIMIT_SECONDS_MIN: f64 = 300.0;

/// Where jobs run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Engine {
    /// What gives GPUs beside those of this machine.
    pub kind: EngineKind,
    /// Slurm, with the rights of an ordinary user.
    pub slurm: SlurmEngine,
}

/// What gives GPUs beside those of this machine.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum EngineKind {
    /// No cluster manager: jobs run on this machine and on workers.
    #[default]
    Local,
    /// Slurm lends the nodes that workers run on.
    Slurm,
}

/// How Slurm is used.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct SlurmEngine {
    /// The partition; empty means Slurm's default.
    pub partition: String,
    /// The account; empty means the user's default.
    pub account: String,
    /// The quality of service; empty means the account's default.
    pub qos: String,
    /// The most GPUs that are held or asked for at once.
    pub gpus_max: u32,
    /// The most nodes of one allocation.
    pub nodes_max: u32,
    /// The most allocations that wait in Slurm's queue at once.
    pub waiting_max: u32,
    /// An allocation without jobs is given back after this long.
    pub idle_seconds: f64,
    /// How long an allocation lasts at most.
    pub time_limit_seconds: f64,
    /// More options for `sbatch`, such as `--mem-per-gpu=32G`.
    pub options: Vec<String>,
    /// The folder with Slurm's programs; empty means that they are found as shells find them.
    pub bin_dir: String,
    /// Where workers on the nodes reach this machine; empty means its name.
    pub address: String,
    /// Invented GPUs in place of the nodes' own, for trying it out.
    pub virtual_gpus: bool,
}

impl Default for SlurmEngine {
    fn default() -> Self {
        Self {
            partition: String::new(),
            account: String::new(),
            qos: String::new(),
            gpus_max: 8,
            nodes_max: 4,
            waiting_max: 4,
            idle_seconds: 300.0,
            time_limit_seconds: 86_400.0,
            options: Vec::new(),
            bin_dir: String::new(),
            address: String::new(),
            virtual_gpus: false,
        }
    }
}

impl SlurmEngine {
    /// How Slurm's commands are called.
    pub fn settings(&self) -> SlurmSettings {
        let given = |text: &String| (!text.is_empty()).then(|| text.clone());
        SlurmSettings {
            calls: Calls { bin_dir: given(&self.bin_dir).map(PathBuf::from) },
            partition: given(&self.partition),
            account: given(&self.account),
            qos: given(&self.qos),
            time_limit: Some(Duration::from_secs_f64(self.time_limit_seconds)),
            options: self.options.clone(),
        }
    }
}

impl Engine {
    /// Says what cannot be meant. `round_seconds` is the length of a round, if time is cut into rounds.
    pub(super) fn check(&self, round_seconds: Option<f64>) -> Result<(), ConfigError> {
        let slurm = &self.slurm;
        let wrong = |field: &str, problem: String| Err(ConfigError::Value { field: format!("engine.slurm.{field}"), problem });
        for (field, value) in [("gpus_max", slurm.gpus_max), ("nodes_max", slurm.nodes_max), ("waiting_max", slurm.waiting_max)] {
            if value == 0 || value > 100_000 {
                return wrong(field, format!("{value} is not between 1 and 100000"));
            }
        }
        if !(0.0..=1e9).contains(&slurm.idle_seconds) {
            return wrong("idle_seconds", format!("{} is not a length of time; write 0 or more", slurm.idle_seconds));
        }
        let limit = slurm.time_limit_seconds;
        if !(TIME_LIMIT_SECONDS_MIN..=1e9).contains(&limit) {
            return wrong(
                "time_limit_seconds",
                format!("{limit} is too short: its last two minutes are for saving; write 300 or more"),
            );
        }
        if let Some(round) = round_seconds.filter(|round| limit < round + 120.0) {
            let problem = format!("{limit} s are shorter than a round of {round} s and the two minutes for saving");
            return wrong("time_limit_seconds", problem);
        }
        if let Some(option) = slurm.options.iter().find(|option| !option.starts_with('-')) {
            return wrong("options", format!("`{option}` is not an option of sbatch; write it as `--name=value`"));
        }
        let texts = [("partition", &slurm.partition), ("account", &slurm.account), ("qos", &slurm.qos)];
        for (field, text) in texts {
            if text.starts_with('-') || text.contains(char::is_whitespace) {
                return wrong(field, format!("`{text}` is not a name"));
            }
        }
        Ok(())
    }
}
