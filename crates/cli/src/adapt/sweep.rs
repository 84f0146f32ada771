//! `rota adapt sweep`: each run that ends is written and synced to a file beside the table, which a later call goes on from.

use super::work;
use crate::args::AdaptSweepArgs;
use crate::output::{print, print_json, progress, remark, write_file};
use anyhow::Context;
use rota_learn::adapt::sweep::{SweepRow, SweepSettings, parse_row, sweep, table_text};
use rota_learn::adapt::table::DECISIONS;
use rota_learn::adapt::training::Run;
use serde::Serialize;
use std::collections::BTreeSet;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Mutex;

#[derive(Serialize)]
struct Swept {
    runs: usize,
    taken_up: usize,
    epochs_trained: u64,
    table: PathBuf,
}

pub fn run(args: &AdaptSweepArgs) -> anyhow::Result<()> {
    anyhow::ensure!(!args.out.exists(), "`{}` is there already; name another table with --out", args.out.display());
    let data = work::images(&args.work)?;
    let seeds = (u64::from(args.seeds.0)..=u64::from(args.seeds.1)).collect::<Vec<_>>();
    let run = work::settings(&args.work, work::cost(args.cost), 0, args.budget, Vec::new());
    let settings = SweepSettings { run, scenario: args.scenario.clone(), opens_s: args.opens, seeds };
    let words = format!("# {settings:?}; {} images, {} test images", data.train.labels.len(), data.test.labels.len());
    let (journal_path, kept) = journal(&args.out, &words)?;
    let done = kept.iter().map(|row| (row.seed, row.triple)).collect::<BTreeSet<_>>();
    let actions = Run::new(settings.run.clone(), data.train.shape)?.base().blocks() + 1;
    let total = settings.seeds.len() * actions.pow(DECISIONS as u32);
    if !kept.is_empty() {
        remark(&format!("{} of {total} runs were done before; the sweep goes on", kept.len()));
    }
    let bar = progress(total as u64, "runs");
    bar.set_position(kept.len() as u64);
    let file = std::fs::OpenOptions::new().append(true).open(&journal_path);
    let file = Mutex::new(file.with_context(|| format!("cannot write `{}`", journal_path.display()))?);
    let rows = Mutex::new((kept.clone(), None::<std::io::Error>));
    let epochs = sweep(&settings, &data, &done, &|row| {
        let written = file
            .lock()
            .map_or(Ok(()), |mut file| file.write_all(format!("{}\n", row.line).as_bytes()).and_then(|()| file.sync_data()));
        if let Ok(mut rows) = rows.lock() {
            rows.0.push(row);
            rows.1 = rows.1.take().or(written.err());
        }
        bar.inc(1);
    })?;
    bar.finish_and_clear();
    let (rows, problem) = rows.into_inner().map_err(|_| anyhow::anyhow!("a run of the sweep panicked"))?;
    if let Some(problem) = problem {
        return Err(problem).with_context(|| format!("cannot write `{}`", journal_path.display()));
    }
    let runs = rows.len();
    write_file(&args.out, |file| Ok(file.write_all(table_text(rows).as_bytes())?))?;
    std::fs::remove_file(&journal_path).with_context(|| format!("cannot remove `{}`", journal_path.display()))?;
    let swept = Swept { runs, taken_up: kept.len(), epochs_trained: epochs, table: args.out.clone() };
    if args.json {
        return print_json(&swept);
    }
    print(&format!("wrote {}: {runs} runs, {epochs} epochs trained after the opening", args.out.display()))
}

/// The file of runs that have ended, and what an earlier call with the same settings left in it. A last line that was cut is dropped.
fn journal(out: &Path, words: &str) -> anyhow::Result<(PathBuf, Vec<SweepRow>)> {
    let mut name = out.file_name().unwrap_or_default().to_owned();
    name.push(".runs");
    let path = out.with_file_name(name);
    let text = match std::fs::read_to_string(&path) {
        Ok(text) => text,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => String::new(),
        Err(error) => return Err(error).with_context(|| format!("cannot read `{}`", path.display())),
    };
    let mut lines = text.lines();
    if let Some(first) = lines.next() {
        anyhow::ensure!(
            first == words,
            "`{}` holds runs of another sweep; remove it, or name another table with --out",
            path.display()
        );
    }
    let whole = text.ends_with('\n');
    let mut rows = lines.map(parse_row).collect::<Vec<_>>();
    if !whole {
        rows.pop();
    }
    let rows = rows.into_iter().flatten().collect::<Vec<_>>();
    let kept = std::iter::once(words.to_owned()).chain(rows.iter().map(|row| row.line.clone())).map(|line| line + "\n");
    let kept = kept.collect::<String>();
    write_file(&path, |file| Ok(file.write_all(kept.as_bytes())?))?;
    Ok((path, rows))
}
