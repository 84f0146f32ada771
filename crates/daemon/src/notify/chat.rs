//! Chat hooks: notifications that gathered, as one message for people.

use super::DeliveryError;
use super::notification::Notification;
use super::settings::Notify;
use super::target::Target;
use super::webhook::{post, sign};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::json;

/// Tells a hook of Slack's kind.
pub fn send_slack(target: &Target, messages: &[Notification], settings: &Notify) -> Result<(), DeliveryError> {
    // These three begin mentions and links; a job's name must be able to make neither.
    let text = text_of(messages).replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;");
    post(target, &target.address, &[], &json!({ "text": text }).to_string(), settings).map(|_| ())
}

/// Tells a hook of `DingTalk`'s kind, which answers 200 whatever it thinks of a message, and says so in the body.
pub fn send_dingtalk(target: &Target, messages: &[Notification], settings: &Notify) -> Result<(), DeliveryError> {
    let now_ms = jiff::Timestamp::now().as_millisecond();
    let url = match &target.secret {
        Some(secret) => signed(&target.address, secret, now_ms),
        None => target.address.clone(),
    };
    let body = json!({ "msgtype": "text", "text": { "content": text_of(messages) }, "at": { "isAtAll": false } });
    let answer = post(target, &url, &[], &body.to_string(), settings)?;
    let answer: serde_json::Value = serde_json::from_slice(&answer).unwrap_or_default();
    match answer["errcode"].as_i64() {
        None | Some(0) => Ok(()),
        Some(code) => {
            let why = super::notification::plain(answer["errmsg"].as_str().unwrap_or_default());
            Err(DeliveryError::Later(format!("it answered with error {code}: {why}")))
        }
    }
}

/// The address with the moment and its signature.
fn signed(address: &str, secret: &str, now_ms: i64) -> String {
    let signature = STANDARD.encode(sign(secret, &format!("{now_ms}\n{secret}")));
    // Of the letters of base 64 only these three mean something else in a query.
    let signature = signature.replace('+', "%2B").replace('/', "%2F").replace('=', "%3D");
    let joint = if address.contains('?') { '&' } else { '?' };
    format!("{address}{joint}timestamp={now_ms}&sign={signature}")
}

fn text_of(messages: &[Notification]) -> String {
    messages.iter().map(Notification::line).collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_signed_address_keeps_what_it_had() {
        let url = signed("https://chat.example.org/robot/send?access_token=abc", "SECdef", 1_700_000_000_000);
        let (front, signature) = url.split_once("&sign=").unwrap();
        assert_eq!(front, "https://chat.example.org/robot/send?access_token=abc&timestamp=1700000000000");
        assert!(signature.len() > 43 && !signature.contains(['+', '/', '=']), "{signature}");
        assert!(signed("https://chat.example.org/send", "s", 1).contains("/send?timestamp=1&sign="));
    }
}
