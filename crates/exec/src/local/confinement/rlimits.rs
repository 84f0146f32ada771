//! The limits that a user's shell sets on its own resources (`ulimit`), which a job takes with it from where it was submitted.

use std::fmt;
use std::str::FromStr;

use rustix::process::{Resource, Rlimit, getrlimit};
use serde::{Deserialize, Serialize};
use thiserror::Error;

/// Every limited resource by its name, as `prlimit` calls it.
const RESOURCES: [(&str, Resource); 16] = [
    ("as", Resource::As),
    ("core", Resource::Core),
    ("cpu", Resource::Cpu),
    ("data", Resource::Data),
    ("fsize", Resource::Fsize),
    ("locks", Resource::Locks),
    ("memlock", Resource::Memlock),
    ("msgqueue", Resource::Msgqueue),
    ("nice", Resource::Nice),
    ("nofile", Resource::Nofile),
    ("nproc", Resource::Nproc),
    ("rss", Resource::Rss),
    ("rtprio", Resource::Rtprio),
    ("rttime", Resource::Rttime),
    ("sigpending", Resource::Sigpending),
    ("stack", Resource::Stack),
];

/// The word for a limit that is none.
const UNLIMITED: &str = "unlimited";

/// Limits of resources, as text such as `core=0:unlimited,nofile=1024:4096`: the soft limit, then the hard one. A resource that is not
/// named is limited as it is for the supervisor.
#[derive(Clone, Debug, Default, Eq, PartialEq, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub struct ResourceLimits(Vec<ResourceLimit>);

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
struct ResourceLimit {
    /// The place of the resource in [`RESOURCES`].
    resource: usize,
    /// `None` for no limit.
    soft: Option<u64>,
    hard: Option<u64>,
}

/// A text that names no limits.
#[derive(Clone, Debug, Eq, Error, PartialEq)]
#[error("`{part}` is not a limit such as nofile=1024:4096 or core=0:unlimited, of one of {}", names())]
pub struct ResourceLimitError {
    part: String,
}

fn names() -> String {
    RESOURCES.map(|(name, _)| name).join(", ")
}

impl ResourceLimits {
    /// The limits of this process.
    pub fn of_this_process() -> Self {
        let one = |(resource, (_, kind)): (usize, &(&str, Resource))| {
            let Rlimit { current, maximum } = getrlimit(*kind);
            ResourceLimit { resource, soft: current, hard: maximum }
        };
        Self(RESOURCES.iter().enumerate().map(one).collect())
    }

    /// Those limits that others do not have.
    #[must_use]
    pub fn without(&self, others: &Self) -> Self {
        Self(self.0.iter().filter(|limit| !others.0.contains(limit)).copied().collect())
    }

    /// Whether no limit is named.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The limits as the kernel takes them, none of them above a hard limit of this process.
    pub(crate) fn capped(&self) -> Vec<(Resource, Rlimit)> {
        let lower = |one: Option<u64>, other: Option<u64>| match (one, other) {
            (Some(one), Some(other)) => Some(one.min(other)),
            (limit, None) | (None, limit) => limit,
        };
        let one = |limit: &ResourceLimit| {
            let kind = RESOURCES[limit.resource].1;
            let hard = lower(limit.hard, getrlimit(kind).maximum);
            (kind, Rlimit { current: lower(limit.soft, hard), maximum: hard })
        };
        self.0.iter().map(one).collect()
    }
}

impl fmt::Display for ResourceLimits {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let word = |limit: Option<u64>| limit.map_or_else(|| UNLIMITED.to_owned(), |limit| limit.to_string());
        for (place, limit) in self.0.iter().enumerate() {
            let comma = if place == 0 { "" } else { "," };
            write!(formatter, "{comma}{}={}:{}", RESOURCES[limit.resource].0, word(limit.soft), word(limit.hard))?;
        }
        Ok(())
    }
}

impl FromStr for ResourceLimits {
    type Err = ResourceLimitError;

    fn from_str(text: &str) -> Result<Self, ResourceLimitError> {
        let mut limits: Vec<ResourceLimit> = Vec::new();
        for part in text.split(',').filter(|part| !part.is_empty()) {
            let limit = limit_of(part).ok_or_else(|| ResourceLimitError { part: part.chars().take(100).collect() })?;
            // Of a resource named twice the last limit counts.
            limits.retain(|known| known.resource != limit.resource);
            limits.push(limit);
        }
        Ok(Self(limits))
    }
}

fn limit_of(part: &str) -> Option<ResourceLimit> {
    let (name, limits) = part.split_once('=')?;
    let (soft, hard) = limits.split_once(':')?;
    let resource = RESOURCES.iter().position(|(known, _)| *known == name)?;
    let number = |word: &str| if word == UNLIMITED { Some(None) } else { word.parse().ok().map(Some) };
    Some(ResourceLimit { resource, soft: number(soft)?, hard: number(hard)? })
}

impl From<ResourceLimits> for String {
    fn from(limits: ResourceLimits) -> Self {
        limits.to_string()
    }
}

impl TryFrom<String> for ResourceLimits {
    type Error = ResourceLimitError;

    fn try_from(text: String) -> Result<Self, ResourceLimitError> {
        text.parse()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_are_read_as_they_are_written() {
        let own = ResourceLimits::of_this_process();
        assert_eq!(own.to_string().parse(), Ok(own.clone()));
        assert!(own.without(&own).is_empty());
        let asked: ResourceLimits = "nofile=1:2,core=0:unlimited,nofile=3:4".parse().unwrap();
        assert_eq!(asked.to_string(), "core=0:unlimited,nofile=3:4");
        for wrong in ["nofile", "nofile=1", "files=1:2", "nofile=-1:2", "nofile=1:2:3", "nofile=1 : 2"] {
            let error = wrong.parse::<ResourceLimits>().unwrap_err();
            assert!(error.to_string().contains("nofile, nproc"), "{wrong}: {error}");
        }
    }

    #[test]
    fn no_limit_is_above_the_hard_limit_of_this_process() {
        let hard = getrlimit(Resource::Nofile).maximum;
        let asked: ResourceLimits = "nofile=unlimited:unlimited".parse().unwrap();
        let (kind, limit) = asked.capped()[0];
        assert!(kind == Resource::Nofile && limit.current == hard && limit.maximum == hard);
        let asked: ResourceLimits = "nofile=7:9".parse().unwrap();
        let (_, limit) = asked.capped()[0];
        assert!((limit.current, limit.maximum) == (Some(7), Some(9)));
    }
}
