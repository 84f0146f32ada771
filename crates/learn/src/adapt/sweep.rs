//! Sweeps: every triple of actions from one trained beginning, for several seeds. Runs that begin alike share their beginning, so that 64
//! runs of six epochs cost 276 epochs and not 384. Each finished run is told at once, so that a sweep can be taken up again; the same
//! settings give the same rows on any number of threads.

use super::images::Dataset;
use super::job::Allocation;
use super::table::{DECISIONS, Triple, triple_at};
use super::training::{EpochEnd, Manner, Run, RunError, RunSettings};
use rayon::prelude::*;
use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::sync::atomic::{AtomicU64, Ordering};

/// Epochs whose mean is a run's settled accuracy.
const SETTLED: usize = 5;

/// The columns of a sweep's table, in the order of [`SweepRow::line`].
pub const COLUMNS: &str = "model,scenario,adapt_start_s,seed,a1,a2,a3,final_test_acc,mean_last_five_acc,timeleft_before_a1,\
timeleft_before_a2,timeleft_before_a3,total_time_s,epochs_completed,best_test_acc,final_params,channels,height,width,final_relu,curve";

/// One run of a sweep.
#[derive(Clone, Debug, PartialEq)]
pub struct SweepRow {
    /// The seed of the run.
    pub seed: u64,
    /// The three actions of the run.
    pub triple: Triple,
    /// The row as it is written, without its end of line.
    pub line: String,
}

/// Settings of a sweep: those of its runs, whose seed and changes it sets.
#[derive(Clone, Debug)]
pub struct SweepSettings {
    /// What runs have in common.
    pub run: RunSettings,
    /// The scenario's name.
    pub scenario: String,
    /// When the network may grow.
    pub opens_s: f64,
    /// The seeds; each triple is run once with every one of them.
    pub seeds: Vec<u64>,
}

/// Runs what is not done yet and tells each run when it has ended. Gives how many epochs were trained after the opening.
pub fn sweep(
    settings: &SweepSettings,
    data: &Dataset,
    done: &BTreeSet<(u64, Triple)>,
    tell: &(dyn Fn(SweepRow) + Sync),
) -> Result<u64, RunError> {
    let epochs = AtomicU64::new(0);
    for &seed in &settings.seeds {
        let changes = vec![(settings.opens_s, Allocation::Up)];
        let mut start = Run::new(RunSettings { seed, changes, ..settings.run.clone() }, data.train.shape)?;
        let actions = start.base().blocks() + 1;
        let left = (0..actions.pow(DECISIONS as u32)).map(|place| triple_at(place, actions));
        let left = left.filter(|triple| !done.contains(&(seed, *triple))).collect::<Vec<_>>();
        if left.is_empty() {
            continue;
        }
        until_open(&mut start, data)?;
        let firsts = prefixes(&left, 1);
        let first_runs = go_on(&firsts, data, &epochs, |_| &start)?;
        let seconds = prefixes(&left, 2);
        let second_runs = go_on(&seconds, data, &epochs, |prefix| parent(&firsts, &first_runs, &prefix[..1], &start))?;
        let tails = left.par_iter().map(|triple| -> Result<(), RunError> {
            let mut run = parent(&seconds, &second_runs, &triple[..2], &start).clone();
            run.act(triple[2], data)?;
            while run.epoch(data)? == EpochEnd::Scored {
                epochs.fetch_add(1, Ordering::Relaxed);
            }
            run.ended()?;
            tell(row(settings, seed, &run));
            Ok(())
        });
        tails.collect::<Result<(), _>>()?;
    }
    Ok(epochs.into_inner())
}

/// The different beginnings of triples.
fn prefixes(triples: &[Triple], length: usize) -> Vec<Vec<usize>> {
    let mut prefixes = triples.iter().map(|triple| triple[..length].to_vec()).collect::<Vec<_>>();
    prefixes.dedup();
    prefixes
}

fn parent<'a>(prefixes: &[Vec<usize>], runs: &'a [Run], wanted: &[usize], otherwise: &'a Run) -> &'a Run {
    prefixes.iter().position(|prefix| prefix == wanted).map_or(otherwise, |place| &runs[place])
}

/// From each parent one decision and one epoch further.
fn go_on<'a>(
    prefixes: &[Vec<usize>],
    data: &Dataset,
    epochs: &AtomicU64,
    from: impl Fn(&[usize]) -> &'a Run + Sync,
) -> Result<Vec<Run>, RunError> {
    let next = |prefix: &Vec<usize>| {
        let mut run = from(prefix).clone();
        run.act(prefix[prefix.len() - 1], data)?;
        if run.epoch(data)? == EpochEnd::Scored {
            epochs.fetch_add(1, Ordering::Relaxed);
        }
        Ok(run)
    };
    prefixes.par_iter().map(next).collect()
}

/// Trains until the network may grow.
fn until_open(run: &mut Run, data: &Dataset) -> Result<(), RunError> {
    run.take_changes()?;
    while !run.may_decide() {
        if run.epoch(data)? == EpochEnd::OutOfTime {
            return run.ended();
        }
        run.take_changes()?;
    }
    Ok(())
}

fn row(settings: &SweepSettings, seed: u64, run: &Run) -> SweepRow {
    let base = run.base();
    let accuracies = run.epochs.iter().map(|epoch| epoch.test_accuracy).collect::<Vec<_>>();
    let last = &accuracies[accuracies.len().saturating_sub(SETTLED)..];
    let settled = last.iter().sum::<f64>() / last.len().max(1) as f64;
    let best = accuracies.iter().copied().fold(0.0, f64::max);
    let triple: Triple = std::array::from_fn(|step| run.actions.get(step).copied().unwrap_or(base.blocks()));
    let left: [f64; DECISIONS] = std::array::from_fn(|step| run.left_s.get(step).copied().unwrap_or(0.0));
    let [a, b, c] = triple;
    let mut line = format!("{},{},{},{seed},{a},{b},{c},", base.kind.name(), settings.scenario, settings.opens_s);
    let _ = write!(line, "{:.6},{settled:.6},{:.3},{:.3},{:.3},", run.accuracy(), left[0], left[1], left[2]);
    let relu = u8::from(settings.run.manner == Manner::Compat);
    let (channels, height, width) = (base.input.channels, base.input.height, base.input.width);
    let _ = write!(line, "{},{},{best:.6},{},", settings.run.budget_s, accuracies.len(), run.network.stack.parameters());
    let curve = accuracies.iter().map(|accuracy| format!("{accuracy:.4}")).collect::<Vec<_>>().join(" ");
    let _ = write!(line, "{channels},{height},{width},{relu},{curve}");
    SweepRow { seed, triple, line }
}

/// The rows of a finished sweep as a table, in the order of seeds and triples.
pub fn table_text(mut rows: Vec<SweepRow>) -> String {
    rows.sort_by_key(|row| (row.seed, row.triple));
    let lines = rows.into_iter().map(|row| row.line + "\n");
    std::iter::once(format!("{COLUMNS}\n")).chain(lines).collect()
}

/// A row that an earlier sweep wrote; a line that is not whole is none.
pub fn parse_row(line: &str) -> Option<SweepRow> {
    let fields = line.split(',').collect::<Vec<_>>();
    if fields.len() != COLUMNS.split(',').count() {
        return None;
    }
    let number = |place: usize| fields[place].parse::<usize>().ok();
    let triple = [number(4)?, number(5)?, number(6)?];
    fields[7].parse::<f64>().ok()?;
    Some(SweepRow { seed: fields[3].parse().ok()?, triple, line: line.to_owned() })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::adapt::architecture::ModelKind;
    use crate::adapt::images::{Portion, tests::folder};
    use crate::adapt::job::Cost;
    use std::sync::Mutex;

    fn settings() -> SweepSettings {
        let (model, manner, cost) = (ModelKind::ConvNet2, Manner::Sound, Cost::Recorded);
        let run = RunSettings { model, manner, seed: 0, batch: 8, cost, budget_s: 11.25 + 72.6, changes: vec![] };
        SweepSettings { run, scenario: "test".to_owned(), opens_s: 11.2, seeds: vec![7] }
    }

    fn swept(data: &Dataset, done: &BTreeSet<(u64, Triple)>) -> (u64, Vec<SweepRow>) {
        let rows = Mutex::new(Vec::new());
        let epochs = sweep(&settings(), data, done, &|row| rows.lock().unwrap().push(row)).unwrap();
        (epochs, rows.into_inner().unwrap())
    }

    #[test]
    fn a_sweep_shares_beginnings_is_taken_up_again_and_does_not_depend_on_threads() {
        let data = Dataset::read(folder(8, 8).path(), Portion::default()).unwrap();
        let alone = rayon::ThreadPoolBuilder::new().num_threads(1).build().unwrap();
        let (epochs, rows) = alone.install(|| swept(&data, &BTreeSet::new()));
        assert_eq!((epochs, rows.len()), (276, 64));
        let whole = table_text(rows.clone());
        let four = rayon::ThreadPoolBuilder::new().num_threads(4).build().unwrap();
        assert_eq!(table_text(four.install(|| swept(&data, &BTreeSet::new())).1), whole);
        // Killed after 50 runs, and taken up from what was written.
        let kept = rows[..50].iter().map(|row| parse_row(&row.line).unwrap()).collect::<Vec<_>>();
        let done = kept.iter().map(|row| (row.seed, row.triple)).collect();
        let (_, rest) = swept(&data, &done);
        assert_eq!(rest.len(), 14);
        assert_eq!(table_text([kept, rest].concat()), whole);
        // One triple alone gives the row that it has in the sweep.
        let changes = vec![(11.2, Allocation::Up)];
        let mut run = Run::new(RunSettings { seed: 7, changes, ..settings().run }, data.train.shape).unwrap();
        run.finish(&data, &mut |question| Ok([0, 1, 3][question.before.len()]), &mut |_| {}).unwrap();
        assert!(whole.contains(&row(&settings(), 7, &run).line));
        assert_eq!(run.epochs.len(), 7);
    }
}
