//! Settings of other machines whose GPUs are used.

use super::ConfigError;
use serde::{Deserialize, Serialize};
use std::net::SocketAddr;

/// Other machines whose GPUs are used.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Workers {
    /// Where `rota worker` connects to; nowhere if it is not given.
    pub listen: Option<SocketAddr>,
    /// A node of which nothing was heard for so long is lost.
    pub lost_after_seconds: f64,
}

impl Default for Workers {
    fn default() -> Self {
        Self { listen: None, lost_after_seconds: 30.0 }
    }
}

impl Workers {
    pub(super) fn check(&self) -> Result<(), ConfigError> {
        let seconds = self.lost_after_seconds;
        if (0.2..=86_400.0).contains(&seconds) {
            return Ok(());
        }
        let problem = format!("{seconds} is not between 0.2 and 86400 seconds");
        Err(ConfigError::Value { field: "workers.lost_after_seconds".to_owned(), problem })
    }
}
