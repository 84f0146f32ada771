//! A target: an address that receives notifications, the events it wants, and its place in the journal.

use super::public_addresses;
use super::settings::Mail;
use crate::api::{NotifyEvent, NotifyKind, NotifyTarget};
use axum::http::Uri;

/// The longest address, and the longest secret.
const ADDRESS_LETTERS_MAX: usize = 2048;
const SECRET_LETTERS_MAX: usize = 256;

/// A target of notifications.
#[derive(Clone, Debug, PartialEq)]
pub struct Target {
    /// The target's number, never used again.
    pub id: u64,
    /// The owner of the jobs it is told of; `None` for a target of the site, which is told of all jobs.
    pub uid: Option<u32>,
    /// The user's name; empty for the site's own.
    pub user: String,
    /// The way messages are sent.
    pub kind: NotifyKind,
    /// The URL or mail address messages go to.
    pub address: String,
    /// What messages are signed with.
    pub secret: Option<String>,
    /// The events the target is told of.
    pub on: Vec<NotifyEvent>,
    /// The rights of the user who added it.
    pub trust: Trust,
    /// The last event that it was told of, or that was none of its business.
    pub told: u64,
    /// Messages given up since the last that arrived.
    pub given_up: u64,
    /// Why the last message could not be delivered.
    pub problem: Option<String>,
}

/// The rights of the user who chose a target's address. A user's address must not lead to what only this machine can reach.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Trust {
    /// A user of the machine.
    User,
    /// An administrator, who may do everything on this machine anyway.
    Administrator,
}

/// The events a target is told of if its user names none.
pub fn usual_events() -> Vec<NotifyEvent> {
    vec![NotifyEvent::Finished, NotifyEvent::Failed]
}

impl Target {
    /// What its users see: a hook's path is a password, and is not shown again.
    pub fn view(&self) -> NotifyTarget {
        NotifyTarget {
            id: self.id,
            user: Some(self.user.clone()).filter(|user| !user.is_empty()),
            kind: self.kind,
            address: if self.kind == NotifyKind::Mail { self.address.clone() } else { origin(&self.address) },
            is_signed: self.secret.is_some(),
            on: self.on.clone(),
            given_up: self.given_up,
            problem: self.problem.clone(),
        }
    }

    /// Whether several messages become one: people read these, programs do not.
    pub fn gathers(&self) -> bool {
        self.kind != NotifyKind::Webhook
    }

    /// Which target, in words that anybody may read.
    pub fn label(&self) -> String {
        let whose = if self.user.is_empty() { "the site".to_owned() } else { self.user.clone() };
        format!("number {} of {whose} ({})", self.id, self.kind.word())
    }
}

fn origin(address: &str) -> String {
    let uri: Result<Uri, _> = address.parse();
    let shown = uri.ok().and_then(|uri| Some(format!("{}://{}/…", uri.scheme_str()?, uri.authority()?)));
    shown.unwrap_or_else(|| "…".to_owned())
}

/// Says what cannot be meant.
pub fn check(kind: NotifyKind, address: &str, secret: Option<&str>, trust: Trust, mail: &Mail) -> Result<(), String> {
    if address.len() > ADDRESS_LETTERS_MAX {
        return Err(format!("an address has at most {ADDRESS_LETTERS_MAX} letters"));
    }
    if secret.is_some_and(|secret| secret.is_empty() || secret.len() > SECRET_LETTERS_MAX) {
        return Err(format!("a secret has 1 to {SECRET_LETTERS_MAX} letters"));
    }
    match kind {
        NotifyKind::Mail => {
            if mail.server.is_empty() {
                return Err(
                    "mail is not set up here: an administrator names a server in [mail] of the daemon's settings".to_owned()
                );
            }
            if secret.is_some() {
                return Err("mail is not signed: leave out the secret".to_owned());
            }
            address.parse::<lettre::Address>().map_err(|error| format!("`{address}` is no mail address: {error}"))?;
        }
        NotifyKind::Slack if secret.is_some() => return Err("this kind of hook is not signed: leave out the secret".to_owned()),
        NotifyKind::Webhook | NotifyKind::Slack | NotifyKind::Dingtalk => check_url(address, trust)?,
    }
    Ok(())
}

fn check_url(address: &str, trust: Trust) -> Result<(), String> {
    let uri: Uri = address.parse().map_err(|error| format!("`{address}` is no URL: {error}"))?;
    if !matches!(uri.scheme_str(), Some("http" | "https")) {
        return Err(format!("`{address}` is no URL of a hook: it begins with https:// or http://"));
    }
    let authority = uri.authority().map_or("", |authority| authority.as_str());
    if authority.contains('@') || uri.host().is_none_or(str::is_empty) {
        return Err(format!("`{address}` is no URL of a hook: it names a host, and no user"));
    }
    if trust == Trust::User && uri.host().is_some_and(public_addresses::is_private_host) {
        return Err(public_addresses::REFUSAL.to_owned());
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_cannot_be_meant_is_refused() {
        let mail = Mail { server: "mail.example.org".to_owned(), ..Mail::default() };
        let user = |kind, address: &str| check(kind, address, None, Trust::User, &mail);
        for address in ["", "ftp://example.org", "example.org/hook", "http://", "http://me:pw@example.org/", "http://exa mple/"] {
            assert!(user(NotifyKind::Webhook, address).is_err(), "{address}");
        }
        for address in ["", "nobody", "a@b\r\nBcc: c@d", "a@b, c@d", "<a@b>"] {
            assert!(user(NotifyKind::Mail, address).is_err(), "{address}");
        }
        for address in
            ["http://127.0.0.1:9/", "http://localhost/", "https://[::1]/", "http://169.254.169.254/latest", "http://10.1.2.3/"]
        {
            assert_eq!(user(NotifyKind::Slack, address), Err(public_addresses::REFUSAL.to_owned()), "{address}");
            assert_eq!(check(NotifyKind::Slack, address, None, Trust::Administrator, &mail), Ok(()), "{address}");
        }
        assert!(user(NotifyKind::Mail, "ann@example.org").is_ok());
        assert!(check(NotifyKind::Mail, "ann@example.org", None, Trust::User, &Mail::default()).is_err());
        assert!(user(NotifyKind::Webhook, "https://example.org/hook?a=b").is_ok());
    }

    #[test]
    fn a_hooks_path_is_not_shown() {
        assert_eq!(origin("https://hooks.example.org/services/T0/B0/secret"), "https://hooks.example.org/…");
    }
}
