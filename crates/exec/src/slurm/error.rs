//! What can go wrong when Slurm is asked something.

use std::io;
use std::time::Duration;
use thiserror::Error;

/// Why Slurm did not do what it was asked.
#[derive(Debug, Error)]
pub enum SlurmError {
    /// The program is not there.
    #[error("`{program}` was not found: install Slurm's client programs here, or name their folder in `engine.slurm.bin_dir`")]
    Missing {
        /// The program that is missing.
        program: String,
    },
    /// The program could not be started.
    #[error("cannot start `{program}`")]
    Start {
        /// The program of Slurm that was called.
        program: String,
        /// What the system says.
        source: io::Error,
    },
    /// The program did not end in time.
    #[error("`{program}` did not answer within {} s: Slurm's controller may be down", .limit.as_secs())]
    TimedOut {
        /// The program of Slurm that was called.
        program: String,
        /// How long it was waited for.
        limit: Duration,
    },
    /// The controller could not be reached.
    #[error("`{program}` cannot reach Slurm's controller: {message}")]
    NoController {
        /// The program of Slurm that was called.
        program: String,
        /// What the program said.
        message: String,
    },
    /// Slurm refused what it was asked for.
    #[error("`{program}` was refused: {message}{}", .kind.advice())]
    Refused {
        /// The program of Slurm that was called.
        program: String,
        /// What Slurm said.
        message: String,
        /// What the refusal is about.
        kind: RefusalKind,
    },
    /// The answer is not in the form that was asked for.
    #[error("`{program}` answered `{line}`, which has no {wanted}")]
    Answer {
        /// The program of Slurm that was called.
        program: String,
        /// The line of the answer that cannot be read.
        line: String,
        /// What is missing.
        wanted: &'static str,
    },
    /// The version is too old.
    #[error("Slurm {version} is too old: 20.11 or later is needed")]
    TooOld {
        /// The version of Slurm that was found.
        version: String,
    },
    /// No node has GPUs of a known type.
    #[error("{0}")]
    Nodes(String),
}

impl SlurmError {
    /// Whether another try may succeed without anybody changing a setting.
    pub fn is_passing(&self) -> bool {
        matches!(self, Self::TimedOut { .. } | Self::NoController { .. } | Self::Start { .. })
    }
}

/// What a refusal is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RefusalKind {
    /// No such partition, or none that this user may use.
    Partition,
    /// The account or the quality of service.
    Account,
    /// The time limit.
    TimeLimit,
    /// No node has what was asked for.
    Shape,
    /// A limit on jobs or GPUs of the user or the account.
    Limit,
    /// A refusal for another reason.
    Other,
}

impl RefusalKind {
    /// The kind of a refusal, by Slurm's words.
    pub fn of(message: &str) -> Self {
        let text = message.to_ascii_lowercase();
        let has = |words: &[&str]| words.iter().any(|word| text.contains(word));
        if has(&["partition"]) && !has(&["time limit"]) {
            Self::Partition
        } else if has(&["assocgrp", "assocmax", "qosgrp", "qosmax", "job violates accounting", "submit limit"]) {
            Self::Limit
        } else if has(&["account", "qos", "user name"]) {
            Self::Account
        } else if has(&["time limit"]) {
            Self::TimeLimit
        } else if has(&["node configuration", "gres", "generic resource", "node count"]) {
            Self::Shape
        } else {
            Self::Other
        }
    }

    fn advice(self) -> &'static str {
        match self {
            Self::Partition => "; set `engine.slurm.partition` to one of `sinfo -s`",
            Self::Account => "; set `engine.slurm.account` and `engine.slurm.qos` as your site says",
            Self::TimeLimit => "; set `engine.slurm.time_limit_seconds` to what the partition allows",
            Self::Shape => "; no node of the partition has such GPUs, or what `engine.slurm.options` asks for beside them",
            Self::Limit => "; your account's limits allow no more: lower `engine.slurm.gpus_max`",
            Self::Other => "",
        }
    }
}
