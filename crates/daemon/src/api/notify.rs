//! Targets of notifications, as they go over the wire.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// The way a target is told about jobs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum NotifyKind {
    /// JSON by POST, signed if there is a secret.
    Webhook,
    /// A mail through the site's server.
    Mail,
    /// A chat hook that takes `{"text": …}`.
    Slack,
    /// A chat hook of `DingTalk`'s, signed if there is a secret.
    Dingtalk,
}

impl NotifyKind {
    /// All values, by name.
    pub const ALL: [(&'static str, Self); 4] =
        [("webhook", Self::Webhook), ("mail", Self::Mail), ("slack", Self::Slack), ("dingtalk", Self::Dingtalk)];

    /// The name it has in JSON and on the command line.
    pub fn word(self) -> &'static str {
        Self::ALL.iter().find(|(_, kind)| *kind == self).map_or("", |(word, _)| word)
    }

    /// The kind with this name.
    pub fn from_word(word: &str) -> Option<Self> {
        Self::ALL.iter().find(|(known, _)| *known == word).map(|(_, kind)| *kind)
    }
}

/// An event that a target can be told of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum NotifyEvent {
    /// A job started for the first time.
    Started,
    /// A job ended with exit code 0.
    Finished,
    /// A job ended otherwise, for good, or its exit status is not known.
    Failed,
    /// A job ended because a user cancelled it.
    Cancelled,
    /// No event: a user asked for a test message.
    Test,
}

impl NotifyEvent {
    /// All values, by name.
    pub const ALL: [(&'static str, Self); 5] = [
        ("started", Self::Started),
        ("finished", Self::Finished),
        ("failed", Self::Failed),
        ("cancelled", Self::Cancelled),
        ("test", Self::Test),
    ];

    /// The name it has in JSON and on the command line.
    pub fn word(self) -> &'static str {
        Self::ALL.iter().find(|(_, event)| *event == self).map_or("", |(word, _)| word)
    }

    /// The event with this name.
    pub fn from_word(word: &str) -> Option<Self> {
        Self::ALL.iter().find(|(known, _)| *known == word).map(|(_, event)| *event)
    }
}

/// A target that a user adds.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct NewNotifyTarget {
    /// The way messages are sent.
    pub kind: NotifyKind,
    /// A URL, or a mail address.
    pub address: String,
    /// What messages are signed with.
    #[serde(default)]
    pub secret: Option<String>,
    /// The events the target is told of; finished and failed if empty.
    #[serde(default)]
    pub on: Vec<NotifyEvent>,
}

/// A target that is told about jobs.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct NotifyTarget {
    /// The target's number.
    pub id: u64,
    /// The target's owner; null for a target of the site, which is told of all jobs.
    pub user: Option<String>,
    /// The way messages are sent.
    pub kind: NotifyKind,
    /// The address; of a hook the host only, because the rest is as good as a password.
    pub address: String,
    /// Whether messages are signed.
    pub is_signed: bool,
    /// The events the target is told of.
    pub on: Vec<NotifyEvent>,
    /// Messages given up since the last that arrived.
    pub given_up: u64,
    /// Why the last try failed.
    pub problem: Option<String>,
}
