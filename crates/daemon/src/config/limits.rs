//! Limits that keep one user from harming another: connections, streams, and what a submit may hold. docs/limits.md lists them all.

use super::ConfigError;
use serde::{Deserialize, Serialize};

/// What the daemon gives to its callers at most.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Limits {
    /// Connections at once on all listeners; fewer where the daemon may have too few files open.
    pub connections_max: usize,
    /// Connections at once of one user of this machine, or of one address of another; never more than half of all.
    pub connections_per_user: usize,
    /// Files that are kept for the scheduler's own work, whatever callers do.
    pub files_reserve: usize,
    /// Streams of events and of logs at once.
    pub streams_max: usize,
    /// Streams at once of one user.
    pub streams_per_user: usize,
    /// The largest request, in MiB.
    pub request_mib: usize,
    /// The longest command with its environment, in KiB.
    pub command_kib: usize,
    /// The most jobs that one array or sweep may make.
    pub array_max: usize,
    /// What commands, environments and jobs of one user may hold while they are not over, in MiB.
    pub user_mib: u64,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            connections_max: 4096,
            connections_per_user: 512,
            files_reserve: 256,
            streams_max: 1024,
            streams_per_user: 256,
            request_mib: 16,
            command_kib: 2048,
            array_max: 100_000,
            user_mib: 256,
        }
    }
}

impl Limits {
    /// Says what cannot be meant.
    pub(super) fn check(&self) -> Result<(), ConfigError> {
        let fields = [
            ("connections_max", self.connections_max as u64, 4, 1_000_000),
            ("connections_per_user", self.connections_per_user as u64, 1, 1_000_000),
            ("files_reserve", self.files_reserve as u64, 64, 1_000_000),
            ("streams_max", self.streams_max as u64, 1, 1_000_000),
            ("streams_per_user", self.streams_per_user as u64, 1, 1_000_000),
            ("request_mib", self.request_mib as u64, 1, 1024),
            ("command_kib", self.command_kib as u64, 1, 2048),
            ("array_max", self.array_max as u64, 1, 1_000_000),
            ("user_mib", self.user_mib, 1, 1 << 20),
        ];
        for (field, value, least, most) in fields {
            if !(least..=most).contains(&value) {
                let problem = format!("{value} is not between {least} and {most}");
                return Err(ConfigError::Value { field: format!("limits.{field}"), problem });
            }
        }
        Ok(())
    }
}
