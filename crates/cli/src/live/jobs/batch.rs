//! `rota batch`: a table of trainings, packed onto the GPUs by what they need of their memory.
//!
//! Every row has a key made of what it says, so that the same file given again goes on where it stopped.

use crate::live::args::{BatchArgs, JobWord, ReportArgs};
use crate::live::client::Client;
use crate::live::jobs::batch_file::{self, Header, Row};
use crate::live::jobs::submit::{environment, rlimits};
use crate::live::jobs::wait::wait_for;
use crate::live::text::columns;
use crate::output;
use anyhow::Context;
use rota_daemon::Text;
use rota_daemon::api::{Job, JobState, OneOfMany, Submit, SubmitMany};
use sha2::{Digest, Sha256};
use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Rows that are given to the queue at once: it writes what comes together with one flush.
const AT_ONCE: usize = 500;

/// A row with the job it became, or why it did not.
struct Entry {
    row: Row,
    key: String,
    outcome: Result<u64, String>,
}

/// Runs a file, or only checks it.
pub fn batch(args: &BatchArgs) -> anyhow::Result<ExitCode> {
    let rows = batch_file::read(&args.file, header(&args.header)?)?;
    if args.check {
        output::print(&format!("{}: {} rows, nothing wrong", args.file.display(), rows.len()))?;
        return Ok(ExitCode::SUCCESS);
    }
    let client = Client::new(&args.state);
    let keys = keys(&args.file, &args.run, &rows)?;
    let mut entries: Vec<Entry> =
        rows.into_iter().zip(keys).map(|(row, key)| Entry { row, key, outcome: Err(String::new()) }).collect();
    let size = args.num.map_or(entries.len(), |num| num as usize).max(1);
    let bar = output::progress(entries.len() as u64, "jobs");
    let mut jobs = Vec::new();
    let mut group = None;
    for part in entries.chunks_mut(size) {
        // Lower first; equal ones in the order of the file.
        part.sort_by_key(|entry| (entry.row.priority, entry.row.line));
        submit(&client, args, part, &mut group)?;
        if args.no_wait {
            continue;
        }
        for entry in part.iter() {
            if let Ok(id) = entry.outcome {
                jobs.push(wait_for(&client, id, None)?.context("a job without an end")?);
            }
            bar.inc(1);
        }
    }
    bar.finish_and_clear();
    let refused = entries.iter().filter_map(|entry| Some((entry, entry.outcome.as_ref().err()?))).collect::<Vec<_>>();
    for (entry, why) in &refused {
        output::remark(&format!("{}:{}: refused: {why}", args.file.display(), entry.row.line));
    }
    if args.no_wait {
        show_submitted(&entries, args.json)?;
    } else {
        show_results(args, &entries, &jobs)?;
        write_report(args, &jobs)?;
    }
    let all_well = refused.is_empty() && jobs.iter().all(|job| job.state == JobState::Done);
    Ok(if all_well { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn header(text: &str) -> anyhow::Result<Header> {
    if text.eq_ignore_ascii_case("none") {
        return Ok(Header::None);
    }
    text.parse().map(Header::Row).ok().with_context(|| format!("--header: `{text}` is neither a row number from 0 nor `none`"))
}

/// A key for each row: what it says, and which of those that say the same it is. Rows may be added and moved.
fn keys(file: &Path, run: &str, rows: &[Row]) -> anyhow::Result<Vec<String>> {
    let file = file.canonicalize().with_context(|| file.display().to_string())?;
    let mut seen: HashMap<Row, u64> = HashMap::new();
    let mut keys = Vec::with_capacity(rows.len());
    for row in rows {
        let count = seen.entry(Row { line: 0, ..row.clone() }).or_default();
        *count += 1;
        let said = serde_json::to_vec(&(
            &file,
            run,
            row.directory.canonicalize()?,
            &row.executable,
            &row.filename,
            row.epochs,
            row.priority,
            *count,
        ))?;
        let mut digest = [0; 16];
        digest.copy_from_slice(&Sha256::digest(&said)[..16]);
        keys.push(format!("batch-{:032x}", u128::from_be_bytes(digest)));
    }
    Ok(keys)
}

/// Gives rows to the queue. All rows of a file are one group, which the first of them makes.
fn submit(client: &Client, args: &BatchArgs, entries: &mut [Entry], group: &mut Option<u64>) -> anyhow::Result<()> {
    let env = std::sync::Arc::new(environment());
    let mut left = entries;
    while !left.is_empty() {
        let size = if group.is_some() { AT_ONCE.min(left.len()) } else { 1 };
        let (part, rest) = left.split_at_mut(size);
        left = rest;
        let submits = part.iter().map(|entry| ask(args, entry, *group)).collect::<anyhow::Result<Vec<_>>>()?;
        let many = SubmitMany { env: env.clone(), submits };
        let answers: Vec<OneOfMany> = client.send(&hyper::Method::POST, "/api/v1/jobs/many", &many)?;
        for (entry, answer) in part.iter_mut().zip(answers) {
            entry.outcome = match answer.refusal {
                Some(refusal) => Err(refusal),
                None => answer.ids.first().copied().ok_or_else(|| "the daemon gave it no number".to_owned()),
            };
        }
        if let (None, Some(Entry { outcome: Ok(id), .. })) = (&group, part.first()) {
            *group = client.get::<Job>(&format!("/api/v1/jobs/{id}"))?.group;
        }
    }
    Ok(())
}

fn ask(args: &BatchArgs, entry: &Entry, group: Option<u64>) -> anyhow::Result<Submit> {
    let Row { directory, filename, priority, line, .. } = &entry.row;
    let directory = directory.canonicalize()?;
    let ask = serde_json::json!({
        "command": entry.row.command().iter().map(|word| Text::from(word.as_str())).collect::<Vec<_>>(),
        "cwd": Text::from(directory.as_os_str()),
        "memory_auto": true,
        "buffer_mib": args.buffer,
        "profile_epochs": args.profile_epochs,
        "number_argument": "--id=",
        "priority": priority.saturating_neg(),
        "threads_percent": args.thread_percentage,
        "mps": args.mps,
        "name": format!("{filename} (row {line})"),
        "key": entry.key,
        "rlimits": rlimits(),
        "group": group.unwrap_or(0),
        "group_name": args.file.file_name().map(|name| name.to_string_lossy()),
    });
    Ok(serde_json::from_value(ask)?)
}

fn show_submitted(entries: &[Entry], as_json: bool) -> anyhow::Result<()> {
    let ids = entries.iter().filter_map(|entry| entry.outcome.as_ref().ok()).collect::<Vec<_>>();
    if as_json {
        return output::print_json(&serde_json::json!({ "ids": ids }));
    }
    output::print(&format!("{} jobs in the queue; `rota queue` shows them, the same `rota batch` waits for them", ids.len()))
}

fn show_results(args: &BatchArgs, entries: &[Entry], jobs: &[Job]) -> anyhow::Result<()> {
    if args.json {
        return output::print_json(&jobs);
    }
    let lines: HashMap<u64, u64> =
        entries.iter().filter_map(|entry| Some((*entry.outcome.as_ref().ok()?, entry.row.line))).collect();
    let titles = ["ROW", "JOB", "STATE", "EXIT", "DURATION", "PEAK", "GPU", "ENERGY", "COMMAND"];
    let mut table = vec![titles.map(str::to_owned).to_vec()];
    let unknown = || "-".to_owned();
    for job in jobs {
        let exit = job.exit_code.map(|code| code.to_string()).or_else(|| job.signal.map(|signal| format!("signal {signal}")));
        let gpus = job.gpu_indices.iter().flatten().map(ToString::to_string).collect::<Vec<_>>().join(",");
        table.push(vec![
            lines.get(&job.id).map_or_else(unknown, ToString::to_string),
            job.id.to_string(),
            job.state.word().to_owned(),
            exit.unwrap_or_else(unknown),
            seconds(job).map_or_else(unknown, |seconds| format!("{seconds:.1} s")),
            job.peak_memory_mib.map_or_else(unknown, |peak| format!("{peak} MiB")),
            if gpus.is_empty() { unknown() } else { gpus },
            job.energy_wh.map_or_else(unknown, |energy| format!("{energy:.2} Wh")),
            crate::live::text::command_line(&job.command),
        ]);
    }
    output::print(&columns(&table, output::table_width()))?;
    for job in jobs.iter().filter(|job| job.state != JobState::Done) {
        output::remark(&format!("job {}: {}", job.id, job.reason.as_deref().unwrap_or(job.state.word())));
    }
    Ok(())
}

/// How long the last attempt ran.
fn seconds(job: &Job) -> Option<f64> {
    let moment = |text: &Option<String>| text.as_ref()?.parse::<jiff::Timestamp>().ok();
    Some((moment(&job.finished_at)? - moment(&job.started_at)?).total(jiff::Unit::Second).ok()?.max(0.0))
}

fn write_report(args: &BatchArgs, jobs: &[Job]) -> anyhow::Result<()> {
    let ids = jobs.iter().filter(|job| job.started_at.is_some()).map(|job| job.id).collect::<Vec<_>>();
    if ids.is_empty() {
        return Ok(());
    }
    let page = args.report.clone().unwrap_or_else(|| {
        let stem = args.file.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        PathBuf::from(format!("{stem}-report.html"))
    });
    let what = ids.into_iter().map(JobWord::Job).collect();
    crate::live::past::report(&ReportArgs { state: args.state.clone(), what, since: None, out: page })
}
