//! Settings of the HTTP API on a port.

use super::ConfigError;
use serde::de::value::MapAccessDeserializer;
use serde::de::{MapAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize};
use std::fmt;
use std::net::{IpAddr, Ipv4Addr};
use std::path::PathBuf;

/// The callers that may read `/metrics` over the port.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum MetricsAccess {
    /// Every caller that reaches the port, as long as the port is on loopback only.
    #[default]
    Open,
    /// Whoever has a token.
    Token,
}

/// The HTTP API on a port.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Http {
    /// Whether there is one.
    pub enabled: bool,
    /// The address it listens on; others than loopback need a certificate.
    pub bind: IpAddr,
    /// The certificate chain, as PEM; empty means no TLS.
    pub tls_cert: PathBuf,
    /// The key of the certificate, as PEM.
    pub tls_key: PathBuf,
    /// How long a browser stays signed in.
    pub session_hours: f64,
    /// Requests a second that one caller may make in the long run; 0 means any number.
    pub requests_per_second: f64,
    /// Requests that one caller may make at once before that counts.
    pub burst: u32,
    /// Connections at once on the port, of those that `limits.connections_max` allows on all listeners.
    pub connections_max: usize,
    /// A client that takes longer to send a request, or to take the next piece of an answer, is cut off.
    pub patience_seconds: f64,
    /// The callers that may read `/metrics` over the port.
    pub metrics: MetricsAccess,
}

impl Default for Http {
    fn default() -> Self {
        Self {
            enabled: true,
            bind: IpAddr::V4(Ipv4Addr::LOCALHOST),
            tls_cert: PathBuf::new(),
            tls_key: PathBuf::new(),
            session_hours: 12.0,
            requests_per_second: 200.0,
            burst: 1000,
            connections_max: 2048,
            patience_seconds: 30.0,
            metrics: MetricsAccess::default(),
        }
    }
}

impl Http {
    /// `http = false` says as much as a table whose only line is `enabled = false`.
    pub(super) fn or_switch<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Either;
        impl<'de> Visitor<'de> for Either {
            type Value = Http;

            fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                formatter.write_str("true, false, or a table [http]")
            }

            fn visit_bool<E: serde::de::Error>(self, enabled: bool) -> Result<Http, E> {
                Ok(Http { enabled, ..Http::default() })
            }

            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Http, A::Error> {
                Http::deserialize(MapAccessDeserializer::new(map))
            }
        }
        deserializer.deserialize_any(Either)
    }

    /// Whether a certificate is given.
    pub fn has_tls(&self) -> bool {
        !self.tls_cert.as_os_str().is_empty()
    }

    pub(super) fn check(&self) -> Result<(), ConfigError> {
        let wrong = |field: &str, problem: String| Err(ConfigError::Value { field: field.to_owned(), problem });
        if self.has_tls() == self.tls_key.as_os_str().is_empty() {
            return wrong("http.tls_cert", "a certificate and its key go together: give both, or neither".to_owned());
        }
        if self.enabled && !self.bind.is_loopback() && !self.has_tls() {
            let problem = format!(
                "{} can be reached from other machines, and tokens must not cross a network unencrypted: give a certificate with --tls-cert and --tls-key, or bind to 127.0.0.1",
                self.bind
            );
            return wrong("http.bind", problem);
        }
        for (field, value, least, most) in [
            ("http.session_hours", self.session_hours, 1e-4, 10_000.0),
            ("http.requests_per_second", self.requests_per_second, 0.0, 1e9),
            ("http.patience_seconds", self.patience_seconds, 0.1, 1e6),
        ] {
            if !(least..=most).contains(&value) {
                return wrong(field, format!("{value} is not between {least} and {most}"));
            }
        }
        if self.burst == 0 || self.connections_max == 0 {
            return wrong(
                "http.burst",
                "nobody could ask anything: write 1 or more, here and in http.connections_max".to_owned(),
            );
        }
        Ok(())
    }
}
