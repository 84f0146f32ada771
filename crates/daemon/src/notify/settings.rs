//! The site's settings of notifications: its own targets, its mail server, and how long Rota tries.

use super::target;
use crate::api::{NotifyEvent, NotifyKind};
use serde::{Deserialize, Serialize};
use std::path::PathBuf;

/// The settings of notifications.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Notify {
    /// Whether users' own hooks may be on this machine or a private network; administrators' always may.
    pub allow_private: bool,
    /// Seconds that one message may take.
    pub timeout_seconds: f64,
    /// Seconds before a message that could not be delivered is tried again; doubled each time.
    pub retry_seconds: f64,
    /// The most seconds between two tries.
    pub retry_seconds_max: f64,
    /// Hours after which a message is given up.
    pub give_up_hours: f64,
    /// What happens within so many seconds is told in one mail or chat message.
    pub gather_seconds: f64,
    /// The most targets of one user.
    pub targets_max: usize,
    /// The site's own targets, which are told of all jobs.
    pub site: Vec<SiteTarget>,
}

impl Default for Notify {
    fn default() -> Self {
        Self {
            allow_private: false,
            timeout_seconds: 10.0,
            retry_seconds: 1.0,
            retry_seconds_max: 600.0,
            give_up_hours: 24.0,
            gather_seconds: 10.0,
            targets_max: 16,
            site: Vec::new(),
        }
    }
}

/// A target of the site, which is told of all jobs.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SiteTarget {
    /// The way messages are sent.
    pub kind: NotifyKind,
    /// The URL or mail address messages go to.
    pub address: String,
    /// A file whose first line messages are signed with.
    #[serde(default)]
    pub secret_file: Option<PathBuf>,
    /// The events the target is told of.
    #[serde(default = "target::usual_events")]
    pub on: Vec<NotifyEvent>,
}

/// How mail is kept from being read on its way.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum MailSecurity {
    /// The connection begins in the open and must become encrypted.
    #[default]
    Starttls,
    /// Encrypted from the first octet.
    Tls,
    /// The connection is not encrypted.
    None,
}

/// The site's server for outgoing mail.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Mail {
    /// The mail server's name; empty means that no mail is sent.
    pub server: String,
    /// The port of the mail server.
    pub port: u16,
    /// How the connection is kept private.
    pub security: MailSecurity,
    /// The user to sign in as; empty means without signing in.
    pub user: String,
    /// A file whose first line is the password.
    pub password_file: PathBuf,
    /// The sender's address.
    pub from: String,
    /// A certificate to trust beside the system's.
    pub ca_file: PathBuf,
}

impl Default for Mail {
    fn default() -> Self {
        Self {
            server: String::new(),
            port: 587,
            security: MailSecurity::Starttls,
            user: String::new(),
            password_file: PathBuf::new(),
            from: String::new(),
            ca_file: PathBuf::new(),
        }
    }
}

impl Notify {
    /// Says what cannot be meant: the field, and why.
    pub fn check(&self, mail: &Mail) -> Result<(), (String, String)> {
        let times = [
            ("timeout_seconds", self.timeout_seconds),
            ("retry_seconds", self.retry_seconds),
            ("retry_seconds_max", self.retry_seconds_max),
            ("give_up_hours", self.give_up_hours),
        ];
        for (field, value) in times {
            if !value.is_finite() || value <= 0.0 || value > 1e6 {
                return Err((format!("notify.{field}"), format!("{value} is not a length of time; write a number above 0")));
            }
        }
        if !(0.0..=86_400.0).contains(&self.gather_seconds) {
            return Err(("notify.gather_seconds".to_owned(), format!("{} is not between 0 and a day", self.gather_seconds)));
        }
        for target in &self.site {
            target::check(target.kind, &target.address, None, target::Trust::Administrator, mail)
                .map_err(|problem| ("notify.site".to_owned(), problem))?;
        }
        Ok(())
    }
}

impl Mail {
    /// Says what cannot be meant: the field, and why.
    pub fn check(&self) -> Result<(), (String, String)> {
        if !self.server.is_empty() && self.from.parse::<lettre::message::Mailbox>().is_err() {
            return Err(("mail.from".to_owned(), format!("`{}` is no mail address; write rota@example.org", self.from)));
        }
        if !self.user.is_empty() && self.password_file.as_os_str().is_empty() {
            return Err((
                "mail.password_file".to_owned(),
                "`mail.user` needs one: a file whose first line is the password".to_owned(),
            ));
        }
        if !self.user.is_empty() && self.security == MailSecurity::None {
            return Err(("mail.security".to_owned(), "a password is not sent in the open: write starttls or tls".to_owned()));
        }
        Ok(())
    }
}

/// The first line of a file that holds a secret.
pub fn first_line(path: &std::path::Path) -> std::io::Result<String> {
    let text = std::fs::read_to_string(path)?;
    Ok(text.lines().next().unwrap_or_default().trim().to_owned())
}
