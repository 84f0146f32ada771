//! What a run of a fake cluster does.

use std::ffi::OsString;
use std::time::Duration;

use crate::{Cause, ExitRecord};

/// What a run does, and so how it ends if nobody stops it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FakeDeed {
    /// `work NANOSECONDS [CODE]`: works so long, then exits with this code, or 0.
    Work(Duration, i32),
    /// `signal NUMBER`: is ended at once by a signal of its own.
    Signal(i32),
    /// `sleep`: runs until it is stopped.
    Sleep,
    /// `stubborn`: runs until it is killed.
    Stubborn,
    /// `print TEXT`: writes a line and exits with 0.
    Print(String),
    /// `missing`: cannot be started, because there is no such program.
    Missing,
}

impl FakeDeed {
    /// The command of a run that does this.
    pub fn command(&self) -> Vec<OsString> {
        let words = match self {
            Self::Work(length, code) => vec!["work".to_owned(), length.as_nanos().to_string(), code.to_string()],
            Self::Signal(signal) => vec!["signal".to_owned(), signal.to_string()],
            Self::Sleep => vec!["sleep".to_owned()],
            Self::Stubborn => vec!["stubborn".to_owned()],
            Self::Print(text) => vec!["print".to_owned(), text.clone()],
            Self::Missing => vec!["missing".to_owned()],
        };
        words.into_iter().map(OsString::from).collect()
    }

    /// What a run with this command does. A program that is not listed above runs until it is stopped, or until
    /// [`FakeCluster::end_at`](super::FakeCluster::end_at) says that it ends.
    pub(crate) fn of(command: &[OsString]) -> Self {
        let word = |index: usize| command.get(index).and_then(|word| word.to_str()).unwrap_or_default();
        match word(0) {
            "work" => Self::Work(Duration::from_nanos(word(1).parse().unwrap_or(0)), word(2).parse().unwrap_or(0)),
            "signal" => Self::Signal(word(1).parse().unwrap_or(9)),
            "stubborn" => Self::Stubborn,
            "print" => Self::Print(word(1).to_owned()),
            "missing" => Self::Missing,
            _ => Self::Sleep,
        }
    }

    /// How long a run that does this takes, and how it ends; `None` if it runs until it is stopped.
    pub(crate) fn end(&self) -> Option<(Duration, FakeExit)> {
        let exit = |code, signal, cause| FakeExit { code, signal, cause };
        match self {
            Self::Work(length, code) => Some((*length, exit(Some(*code), None, Cause::Exited))),
            Self::Signal(signal) => Some((Duration::ZERO, exit(None, Some(*signal), Cause::Exited))),
            Self::Print(_) => Some((Duration::ZERO, exit(Some(0), None, Cause::Exited))),
            Self::Missing => Some((Duration::ZERO, exit(None, None, Cause::CouldNotStart))),
            Self::Sleep | Self::Stubborn => None,
        }
    }
}

/// How a fake run ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FakeExit {
    pub(crate) code: Option<i32>,
    pub(crate) signal: Option<i32>,
    pub(crate) cause: Cause,
}

impl FakeExit {
    /// The record of a run that ended so.
    pub(crate) fn record(self, started_ns: u64, finished_ns: u64) -> ExitRecord {
        ExitRecord {
            code: self.code,
            signal: self.signal,
            cause: self.cause,
            started_unix_ns: started_ns,
            finished_unix_ns: finished_ns,
            duration_ns: finished_ns.saturating_sub(started_ns),
            process: None,
            user_seconds: 0.0,
            system_seconds: 0.0,
            max_rss_kib: 0,
            log_lost_bytes: 0,
            message: (self.cause == Cause::CouldNotStart).then(|| "`missing`: no such file".to_owned()),
        }
    }
}
