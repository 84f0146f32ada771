//! Mail: notifications that gathered, as one plain text through the site's server.

use super::DeliveryError;
use super::notification::{Notification, plain};
use super::settings::{Mail, MailSecurity, Notify, first_line};
use super::target::Target;
use crate::api::NotifyEvent;
use lettre::message::header::{ContentType, HeaderName, HeaderValue};
use lettre::message::{Mailbox, Message as Letter};
use lettre::transport::smtp::authentication::Credentials;
use lettre::transport::smtp::client::{Certificate, Tls, TlsParameters};
use lettre::transport::smtp::response::Category;
use lettre::{SmtpTransport, Transport};
use std::time::Duration;

/// Sends what gathered.
pub fn send(target: &Target, messages: &[Notification], settings: &Notify, mail: &Mail) -> Result<(), DeliveryError> {
    let letter = letter(target, messages, mail).map_err(DeliveryError::Refused)?;
    let transport = transport(settings, mail).map_err(DeliveryError::Later)?;
    match transport.send(&letter) {
        Ok(_) => Ok(()),
        // The server will not have this letter, ever; what it says of us, as that the password is wrong, can be mended.
        Err(error) if error.is_permanent() && is_about_the_letter(&error) => Err(DeliveryError::Refused(say(&error))),
        Err(error) => Err(DeliveryError::Later(say(&error))),
    }
}

fn is_about_the_letter(error: &lettre::transport::smtp::Error) -> bool {
    error.status().is_some_and(|code| code.category == Category::MailSystem)
}

fn say(error: &lettre::transport::smtp::Error) -> String {
    use std::error::Error;
    let cause = error.source().map_or_else(String::new, |cause| format!(": {cause}"));
    plain(&format!("mail server: {error}{}", if error.to_string().ends_with(&cause) { "" } else { &cause }))
}

fn letter(target: &Target, messages: &[Notification], mail: &Mail) -> Result<Letter, String> {
    let from: Mailbox = mail.from.parse().map_err(|error| format!("mail.from: {error}"))?;
    let to: lettre::Address = target.address.parse().map_err(|error| format!("`{}`: {error}", target.address))?;
    let first = messages.first().ok_or_else(|| "nothing to say".to_owned())?;
    let domain = from.email.domain().to_owned();
    // Mail programs must not answer this mail automatically.
    let automatic = HeaderValue::new(HeaderName::new_from_ascii_str("Auto-Submitted"), "auto-generated".to_owned());
    Letter::builder()
        .from(from)
        .to(Mailbox::new(None, to))
        .subject(format!("[rota {}] {}", plain(&first.host), subject(messages)))
        .message_id(Some(format!("<{}@{domain}>", first.id)))
        .raw_header(automatic)
        .header(ContentType::TEXT_PLAIN)
        .body(messages.iter().map(Notification::paragraph).collect::<Vec<_>>().join("\n\n") + "\n")
        .map_err(|error| error.to_string())
}

fn subject(messages: &[Notification]) -> String {
    if let [only] = messages {
        return only.headline();
    }
    let count = |event: NotifyEvent| messages.iter().filter(|message| message.event == event).count();
    let counts = NotifyEvent::ALL.map(|(word, event)| (count(event), word));
    let counts = counts.into_iter().filter(|(count, _)| *count > 0).map(|(count, word)| format!("{count} {word}"));
    format!("jobs: {}", counts.collect::<Vec<_>>().join(", "))
}

fn transport(settings: &Notify, mail: &Mail) -> Result<SmtpTransport, String> {
    let mut parameters = TlsParameters::builder(mail.server.clone());
    if !mail.ca_file.as_os_str().is_empty() {
        let pem = std::fs::read(&mail.ca_file).map_err(|error| format!("mail.ca_file: {error}"))?;
        parameters =
            parameters.add_root_certificate(Certificate::from_pem(&pem).map_err(|error| format!("mail.ca_file: {error}"))?);
    }
    let parameters = || parameters.build_rustls().map_err(|error| format!("the mail server's encryption: {error}"));
    let tls = match mail.security {
        MailSecurity::Starttls => Tls::Required(parameters()?),
        MailSecurity::Tls => Tls::Wrapper(parameters()?),
        MailSecurity::None => Tls::None,
    };
    let mut transport = SmtpTransport::builder_dangerous(&mail.server)
        .port(mail.port)
        .tls(tls)
        .timeout(Some(Duration::from_secs_f64(settings.timeout_seconds)));
    if !mail.user.is_empty() {
        let password = first_line(&mail.password_file).map_err(|error| format!("mail.password_file: {error}"))?;
        transport = transport.credentials(Credentials::new(mail.user.clone(), password));
    }
    Ok(transport.build())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::NotifyKind;
    use crate::notify::target::{Trust, usual_events};

    #[test]
    fn a_name_cannot_add_headers() {
        let target = Target {
            id: 1,
            uid: Some(0),
            user: "ann".to_owned(),
            kind: NotifyKind::Mail,
            address: "ann@example.org".to_owned(),
            secret: None,
            on: usual_events(),
            trust: Trust::User,
            told: 0,
            given_up: 0,
            problem: None,
        };
        let message = Notification {
            id: "1-2-3".to_owned(),
            event: NotifyEvent::Test,
            at: String::new(),
            host: "box\r\nBcc: eve@example.org\r\n\r\n".to_owned(),
            job: None,
            seq: 0,
            wall_ns: 0,
        };
        let mail = Mail { server: "mail.example.org".to_owned(), from: "Rota <rota@example.org>".to_owned(), ..Mail::default() };
        let text = String::from_utf8(letter(&target, &[message], &mail).unwrap().formatted()).unwrap();
        let (head, _) = text.split_once("\r\n\r\n").unwrap();
        assert!(!head.lines().any(|line| line.starts_with("Bcc")), "{head}");
        assert!(head.contains("Message-ID: <1-2-3@example.org>"), "{head}");
    }
}
