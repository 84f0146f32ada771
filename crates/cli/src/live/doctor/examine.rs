//! The examination: runs all checks and prints what they found.

use super::{daemon, gpus, state, system};
use crate::live::args::DoctorArgs;
use crate::live::client::{Client, state_dir};
use crate::output;
use rota_daemon::api::Status;
use serde::Serialize;
use std::path::PathBuf;
use std::process::ExitCode;

/// How serious a finding is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Level {
    Ok,
    Warn,
    Fail,
}

/// The result of one check.
#[derive(Clone, Debug, Serialize)]
pub struct Finding {
    /// The name of the check.
    pub check: &'static str,
    pub level: Level,
    pub text: String,
    /// What the administrator should do.
    pub remedy: Option<String>,
}

impl Finding {
    pub fn ok(check: &'static str, text: impl Into<String>) -> Self {
        Self { check, level: Level::Ok, text: text.into(), remedy: None }
    }

    pub fn warn(check: &'static str, text: impl Into<String>, remedy: impl Into<String>) -> Self {
        Self { check, level: Level::Warn, text: text.into(), remedy: Some(remedy.into()) }
    }

    pub fn fail(check: &'static str, text: impl Into<String>, remedy: impl Into<String>) -> Self {
        Self { check, level: Level::Fail, text: text.into(), remedy: Some(remedy.into()) }
    }
}

/// The daemon and the machine that are examined.
pub struct Examined {
    /// The state directory.
    pub dir: PathBuf,
    /// What the daemon says of itself, or why it says nothing.
    pub status: Result<Status, String>,
    /// The settings, if there is a file.
    pub config: Option<PathBuf>,
}

/// Looks at everything, and fails if anything is broken.
pub fn doctor(args: &DoctorArgs) -> anyhow::Result<ExitCode> {
    let asked = Client::new(&args.state).get::<Status>("/api/v1/status");
    let usual = PathBuf::from("/etc/rota.toml");
    let examined = Examined {
        dir: state_dir(&args.state),
        status: asked.map_err(|error| format!("{error:#}")),
        config: args.config.clone().or_else(|| usual.exists().then_some(usual)),
    };
    let mut findings = daemon::look(&examined);
    findings.extend(state::look(&examined));
    findings.extend(gpus::look(&examined));
    findings.extend(system::look(&examined));
    if args.json {
        output::print_json(&findings)?;
    } else {
        output::print(&text_of(&findings))?;
    }
    let is_broken = findings.iter().any(|finding| finding.level == Level::Fail);
    Ok(if is_broken { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

fn text_of(findings: &[Finding]) -> String {
    let mut lines = Vec::new();
    for finding in findings {
        let word = match finding.level {
            Level::Ok => "ok  ",
            Level::Warn => "WARN",
            Level::Fail => "FAIL",
        };
        lines.push(format!("{word}  {:<12} {}", finding.check, finding.text));
        lines.extend(finding.remedy.iter().map(|remedy| format!("{:>19}-> {remedy}", "")));
    }
    let count = |level: Level| findings.iter().filter(|finding| finding.level == level).count();
    lines.push(String::new());
    lines.push(match (count(Level::Fail), count(Level::Warn)) {
        (0, 0) => "all is well".to_owned(),
        (0, warnings) => format!("{warnings} to look at, none of which keeps jobs from running"),
        (failures, warnings) => format!("{failures} to fix, {warnings} to look at"),
    });
    lines.join("\n")
}
