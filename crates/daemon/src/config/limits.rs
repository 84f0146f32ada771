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

#[cfg(test)]
mod tests {
    use crate::config::Config;

    /// The rows of docs/limits.md: the default and the settings of each limit.
    fn rows() -> Vec<(String, Vec<String>)> {
        let text = include_str!("../../../../docs/limits.md");
        let rows = text.lines().map(|line| line.split('|').map(str::trim).collect::<Vec<_>>()).filter(|cells| cells.len() == 6);
        let settings = |cell: &str| cell.split('`').skip(1).step_by(2).map(str::to_owned).collect::<Vec<_>>();
        rows.map(|cells| (cells[2].replace(',', ""), settings(cells[3]))).collect()
    }

    /// The default value of a setting, by its path in the configuration.
    fn default_of(path: &str) -> Option<serde_json::Value> {
        let config = serde_json::to_value(Config::default()).unwrap();
        path.split('.').try_fold(config, |value, key| value.get(key).cloned())
    }

    #[test]
    fn every_limit_is_in_the_documentation_with_its_default() {
        let rows = rows();
        for (setting, value) in default_of("limits").unwrap().as_object().unwrap() {
            let path = format!("limits.{setting}");
            let row = rows.iter().find(|(_, settings)| settings.contains(&path));
            let (default, _) = row.unwrap_or_else(|| panic!("docs/limits.md does not tell of `{path}`"));
            // 2048 KiB are 2 MiB.
            let value = value.as_u64().map(|value| if setting == "command_kib" { value / 1024 } else { value }).unwrap();
            assert!(default.split_whitespace().any(|word| word == value.to_string()), "`{path}` is {value}, not `{default}`");
        }
    }

    #[test]
    fn every_setting_that_the_documentation_names_is_one() {
        let named = rows().into_iter().flat_map(|(_, settings)| settings).filter(|setting| setting.contains('.'));
        let unknown = named.filter(|setting| default_of(setting).is_none()).collect::<Vec<_>>();
        assert!(unknown.is_empty(), "docs/limits.md names settings that there are not: {unknown:?}");
    }
}
