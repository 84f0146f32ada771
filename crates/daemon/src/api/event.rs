//! Events and refusals.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// Something that happened in the queue.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct LiveEvent {
    /// The event's number; later events have higher numbers.
    pub seq: u64,
    /// The moment of the event, RFC 3339.
    pub at: String,
    /// The kind of event: `submitted`, `started`, `finished`, …
    pub kind: String,
    /// The job that the event is about; null if it is about none.
    pub job: Option<u64>,
    /// Details, which depend on the kind.
    pub detail: serde_json::Value,
}

/// Details that may hold what a job's owner wrote: a command, a folder, the name of a checkpoint.
const WORDS: [&str; 3] = ["reason", "why", "checkpoint"];

impl LiveEvent {
    /// The same event without what the owner of a job wrote.
    #[must_use]
    pub fn without_words(mut self) -> Self {
        if let Some(detail) = self.detail.as_object_mut().filter(|_| self.job.is_some()) {
            detail.retain(|name, _| !WORDS.contains(&name.as_str()));
        }
        self
    }
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
