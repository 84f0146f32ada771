//! Hooks of all kinds: one POST with a small body, without redirects, and with a short limit of time.

use super::DeliveryError;
use super::notification::Notification;
use super::public_addresses::PublicOnly;
use super::settings::Notify;
use super::target::{Target, Trust};
use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;
use std::fmt::Write as _;
use std::io::Read;
use std::sync::Arc;
use std::time::Duration;
use ureq::Agent;
use ureq::tls::{RootCerts, TlsConfig};
use ureq::unversioned::resolver::DefaultResolver;
use ureq::unversioned::transport::DefaultConnector;

/// As much of an answer as is read.
const ANSWER_BYTES_MAX: u64 = 16 << 10;

/// Tells a program, in a body that it can check.
pub fn send(target: &Target, message: &Notification, settings: &Notify) -> Result<(), DeliveryError> {
    let body = serde_json::to_string(message).map_err(|error| DeliveryError::Refused(error.to_string()))?;
    let timestamp = jiff::Timestamp::now().as_second().to_string();
    let mut headers = vec![
        ("x-rota-id", message.id.clone()),
        ("x-rota-event", message.event.word().to_owned()),
        ("x-rota-timestamp", timestamp.clone()),
    ];
    if let Some(secret) = &target.secret {
        headers.push(("x-rota-signature", format!("sha256={}", hex(&sign(secret, &format!("{timestamp}.{body}"))))));
    }
    post(target, &target.address, &headers, &body, settings).map(|_| ())
}

/// Posts a body and gives the beginning of the answer.
pub fn post(
    target: &Target,
    url: &str,
    headers: &[(&'static str, String)],
    body: &str,
    settings: &Notify,
) -> Result<Vec<u8>, DeliveryError> {
    let mut request = agent(target, settings).post(url).header("content-type", "application/json");
    for (name, value) in headers {
        request = request.header(*name, value);
    }
    let answer = request.send(body).map_err(|error| DeliveryError::Later(say(&error)))?;
    let status = answer.status();
    let mut beginning = Vec::new();
    // An answer that breaks off has said what counts: its status.
    _ = answer.into_body().into_reader().take(ANSWER_BYTES_MAX).read_to_end(&mut beginning);
    match status.as_u16() {
        200..300 => Ok(beginning),
        300..400 => Err(DeliveryError::Later(format!("it answered {status}, and redirects are not followed"))),
        // Another try of the same would find the same.
        400 | 413 | 422 => Err(DeliveryError::Refused(format!("it answered {status}"))),
        _ => Err(DeliveryError::Later(format!("it answered {status}"))),
    }
}

fn agent(target: &Target, settings: &Notify) -> Agent {
    let tls = TlsConfig::builder()
        .root_certs(RootCerts::PlatformVerifier)
        .unversioned_rustls_crypto_provider(Arc::new(rustls::crypto::ring::default_provider()))
        .build();
    let config = Agent::config_builder()
        .tls_config(tls)
        .timeout_global(Some(Duration::from_secs_f64(settings.timeout_seconds)))
        .http_status_as_error(false)
        .max_redirects(0)
        .max_redirects_will_error(false)
        .max_idle_connections(0)
        .user_agent(concat!("rota/", env!("CARGO_PKG_VERSION")));
    if target.trust == Trust::User && !settings.allow_private {
        // A proxy would look names up by itself, and reach what we refuse.
        return Agent::with_parts(config.proxy(None).build(), DefaultConnector::default(), PublicOnly::default());
    }
    Agent::with_parts(config.build(), DefaultConnector::default(), DefaultResolver::default())
}

/// What went wrong, without the address, which is a password.
fn say(error: &ureq::Error) -> String {
    match error {
        ureq::Error::Timeout(_) => "it took too long to answer".to_owned(),
        ureq::Error::HostNotFound => "its host cannot be found".to_owned(),
        ureq::Error::Io(error) => error.to_string(),
        ureq::Error::BadUri(_) => "its URL cannot be understood".to_owned(),
        other => other.to_string(),
    }
}

/// The signature of a text: its HMAC-SHA256 under the secret.
pub fn sign(secret: &str, text: &str) -> Vec<u8> {
    // A key of any length will do.
    let Ok(mut mac) = Hmac::<Sha256>::new_from_slice(secret.as_bytes()) else { return Vec::new() };
    mac.update(text.as_bytes());
    mac.finalize().into_bytes().to_vec()
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        _ = write!(text, "{byte:02x}");
        text
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn signatures_are_those_of_the_standard() {
        // Test case 2 of RFC 4231.
        let expected = "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843";
        assert_eq!(hex(&sign("Jefe", "what do ya want for nothing?")), expected);
    }
}
