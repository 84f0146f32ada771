//! `rota adapt sweep`: each run that ends is written and synced to a file beside the table, which a later call goes on from.

use super::work;
use crate::args::{AdaptSweepArgs, SimulatedCostWord};
use crate::output::{print, print_json, progress, remark, write_file};
use anyhow::Context;
use rota_learn::adapt::record::table::DECISIONS;
use rota_learn::adapt::train::job::Cost;
use rota_learn::adapt::train::sweep::{SweepRow, SweepSettings, parse_runs, sweep, table_text};
use rota_learn::adapt::train::timing::Timing;
use rota_learn::adapt::train::training::Run;
use serde::Serialize;
use std::collections::BTreeSet;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Mutex;

/// The seconds of a run where none are given: four epochs, then six of any network that grew, or 24 of one that did not.
const RECORDED_S: f64 = 117.6;
const ARITHMETIC_S: f64 = 315.0;

#[derive(Serialize)]
struct Swept {
    runs: usize,
    taken_up: usize,
    epochs_trained: u64,
    table: PathBuf,
}

pub fn run(args: &AdaptSweepArgs) -> anyhow::Result<()> {
    anyhow::ensure!(!args.out.exists(), "`{}` is there already; name another table with --out", args.out.display());
    let timings = timings(args)?;
    let data = work::images(&args.work)?;
    let seeds = (u64::from(args.seeds.0)..=u64::from(args.seeds.1)).collect::<Vec<_>>();
    let run = work::settings(&args.work, timings[0].cost, 0, timings[0].budget_s, Vec::new());
    let settings = SweepSettings { run, timings, opens_s: args.opens, seeds };
    settings.check(data.train.shape)?;
    let words = format!("# {settings:?}; {} images, {} test images", data.train.labels.len(), data.test.labels.len());
    let (journal_path, kept) = journal(&args.out, &words, settings.timings.len())?;
    let done = kept.iter().map(|row| (row.seed, row.triple)).collect::<BTreeSet<_>>();
    let actions = Run::new(settings.run.clone(), data.train.shape)?.base().blocks() + 1;
    let total = settings.seeds.len() * actions.pow(DECISIONS as u32);
    if !done.is_empty() {
        remark(&format!("{} of {total} runs were done before; the sweep goes on", done.len()));
    }
    let bar = progress(total as u64, "runs");
    bar.set_position(done.len() as u64);
    let file = std::fs::OpenOptions::new().append(true).open(&journal_path);
    let file = Mutex::new(file.with_context(|| format!("cannot write `{}`", journal_path.display()))?);
    let rows = Mutex::new((kept, None::<std::io::Error>));
    let epochs = sweep(&settings, &data, &done, &|run| {
        let text = run.iter().flat_map(|row| [row.line.as_str(), "\n"]).collect::<String>();
        let written = file.lock().map_or(Ok(()), |mut file| file.write_all(text.as_bytes()).and_then(|()| file.sync_data()));
        if let Ok(mut rows) = rows.lock() {
            rows.0.extend(run);
            rows.1 = rows.1.take().or(written.err());
        }
        bar.inc(1);
    })?;
    bar.finish_and_clear();
    let (rows, problem) = rows.into_inner().map_err(|_| anyhow::anyhow!("a run of the sweep panicked"))?;
    if let Some(problem) = problem {
        return Err(problem).with_context(|| format!("cannot write `{}`", journal_path.display()));
    }
    write_file(&args.out, |file| Ok(file.write_all(table_text(rows).as_bytes())?))?;
    std::fs::remove_file(&journal_path).with_context(|| format!("cannot remove `{}`", journal_path.display()))?;
    let swept = Swept { runs: total, taken_up: done.len(), epochs_trained: epochs, table: args.out.clone() };
    if args.json {
        return print_json(&swept);
    }
    print(&format!("wrote {}: {total} runs, {epochs} epochs trained after the opening", args.out.display()))
}

/// The ways to count time that were asked for. Where there are two, their tables have the cost in their names.
fn timings(args: &AdaptSweepArgs) -> anyhow::Result<Vec<Timing>> {
    let costs = &args.cost;
    anyhow::ensure!(
        costs.len() == 1 || costs.len() == 2 && costs[0] != costs[1],
        "--cost: give `recorded`, `arithmetic` or both"
    );
    anyhow::ensure!(
        args.budget.is_empty() || args.budget.len() == costs.len(),
        "--budget is given {} times and --cost {} times; give one budget for each cost, or none",
        args.budget.len(),
        costs.len()
    );
    let timing = |(place, word): (usize, &SimulatedCostWord)| {
        let (cost, usual_s) = match word {
            SimulatedCostWord::Recorded => (Cost::Recorded, RECORDED_S),
            SimulatedCostWord::Arithmetic => (Cost::Arithmetic, ARITHMETIC_S),
        };
        let budget_s = args.budget.get(place).copied().unwrap_or(usual_s);
        let alone = costs.len() == 1;
        let scenario = if alone { args.scenario.clone() } else { format!("{}-{}", args.scenario, cost.name()) };
        Timing { scenario, cost, budget_s }
    };
    Ok(costs.iter().enumerate().map(timing).collect())
}

/// The file of runs that have ended, and what an earlier call with the same settings left in it. A last line that was cut is dropped,
/// and so are the other rows of its run.
fn journal(out: &Path, words: &str, timings: usize) -> anyhow::Result<(PathBuf, Vec<SweepRow>)> {
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
    let mut lines = lines.collect::<Vec<_>>();
    if !text.ends_with('\n') {
        lines.pop();
    }
    let rows = parse_runs(lines.into_iter(), timings);
    let kept = std::iter::once(words.to_owned()).chain(rows.iter().map(|row| row.line.clone())).map(|line| line + "\n");
    let kept = kept.collect::<String>();
    write_file(&path, |file| Ok(file.write_all(kept.as_bytes())?))?;
    Ok((path, rows))
}
