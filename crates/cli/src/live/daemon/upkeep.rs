//! `rota backup`, `rota restore`, `rota check`: copies of the database, and whether it agrees with the run directories.

use crate::live::args::{BackupArgs, PlainArgs, RestoreArgs};
use crate::live::client::{Failure, usual_dir};
use crate::output;
use rota_daemon::upkeep::{self, Checked, Level, UpkeepError};
use std::process::ExitCode;

fn failure(error: UpkeepError) -> anyhow::Error {
    match error {
        UpkeepError::NotABackup { .. } | UpkeepError::Exists(_) => anyhow::Error::new(error),
        other => anyhow::Error::new(Failure(other.to_string())),
    }
}

/// Writes a copy of the database.
pub fn backup(args: &BackupArgs) -> anyhow::Result<()> {
    let backup = upkeep::backup(&usual_dir(&args.state), &args.file).map_err(failure)?;
    if args.json {
        return output::print_json(&backup);
    }
    let (file, jobs, kib) = (backup.file.display(), backup.jobs, backup.bytes.div_ceil(1024));
    output::print(&format!(
        "{file}: {jobs} jobs, {kib} KiB. It holds the environments of jobs: keep it as you would keep a password"
    ))
}

/// Puts a backup in place of the database.
pub fn restore(args: &RestoreArgs) -> anyhow::Result<()> {
    let dir = usual_dir(&args.state);
    let restored = upkeep::restore(&dir, &args.file).map_err(failure)?;
    if args.json {
        return output::print_json(&restored);
    }
    let mut lines = vec![format!("{} has the database of {} again", dir.display(), args.file.display())];
    lines.extend(restored.kept.iter().map(|kept| format!("the one before it is kept as {}", kept.display())));
    lines.extend(findings(&restored.checked));
    if restored.drained {
        lines.push(
            "The queue is drained, so that nothing starts before you have looked. After `rota up`, cancel the jobs".to_owned(),
        );
        lines.push("that must not run again, then say `rota resume`.".to_owned());
    }
    output::print(&lines.join("\n"))
}

/// Compares the database with the run directories. Fails if a person should look at something.
pub fn check(args: &PlainArgs) -> anyhow::Result<ExitCode> {
    let dir = usual_dir(&args.state);
    if !dir.join("rota.db").exists() {
        return Err(failure(UpkeepError::NoDatabase(dir)));
    }
    let checked = upkeep::check(&dir).map_err(|error| Failure(error.to_string()))?;
    if args.json {
        output::print_json(&checked)?;
    } else {
        let mut lines = findings(&checked);
        let (jobs, runs) = (checked.jobs, checked.runs);
        lines.push(match checked.findings.len() {
            0 => format!("all is well: {jobs} jobs in the database, {runs} run directories"),
            1 => format!("1 finding among {jobs} jobs and {runs} run directories"),
            count => format!("{count} findings among {jobs} jobs and {runs} run directories"),
        });
        output::print(&lines.join("\n"))?;
    }
    Ok(if checked.has_problems() { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

fn findings(checked: &Checked) -> Vec<String> {
    let mut lines = Vec::new();
    for finding in &checked.findings {
        let word = match finding.level {
            Level::Note => "note   ",
            Level::Problem => "PROBLEM",
        };
        let job = finding.job.map_or_else(String::new, |job| format!("job {job}: "));
        lines.push(format!("{word}  {job}{}", finding.what));
        lines.push(format!("         -> {}", finding.then));
    }
    lines
}
