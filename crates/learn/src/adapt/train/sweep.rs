//! Sweeps: every triple of actions from one trained beginning, for several seeds. Runs that begin alike share their beginning, so that 64
//! runs of six epochs cost 276 epochs and not 384; and one training serves every way to count its time. Each finished run is told at once,
//! so that a sweep can be taken up again; the same settings give the same rows on any number of threads.

use crate::adapt::network::architecture::{Architecture, InputShape};
use crate::adapt::record::table::{DECISIONS, Triple, triple_at};
use crate::adapt::train::images::Dataset;
use crate::adapt::train::job::{Allocation, Cost};
use crate::adapt::train::timing::{Timing, epochs_wanted, padded};
use crate::adapt::train::training::{EpochEnd, Manner, Run, RunError, RunSettings};
use rayon::prelude::*;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::sync::atomic::{AtomicU64, Ordering};

/// Epochs whose mean is a run's settled accuracy.
const SETTLED: usize = 5;
/// Seconds that no run of a sweep uses up: where it ends is the business of its timings.
const ENDLESS_S: f64 = 1e12;

/// The columns of a sweep's table, in the order of [`SweepRow::line`].
pub const COLUMNS: &str = "model,scenario,adapt_start_s,seed,a1,a2,a3,final_test_acc,mean_last_five_acc,timeleft_before_a1,\
timeleft_before_a2,timeleft_before_a3,total_time_s,epochs_completed,best_test_acc,final_params,channels,height,width,final_relu,cost,curve";

/// One run of a sweep, as one timing counts it.
#[derive(Clone, Debug, PartialEq)]
pub struct SweepRow {
    /// The name of the scenario.
    pub scenario: String,
    /// The seed of the run.
    pub seed: u64,
    /// The three actions of the run.
    pub triple: Triple,
    /// The row as it is written, without its end of line.
    pub line: String,
}

/// Settings of a sweep.
#[derive(Clone, Debug)]
pub struct SweepSettings {
    /// What runs have in common. Their seed, changes, cost and budget are set by the sweep.
    pub run: RunSettings,
    /// The ways to count their time; each gives a table.
    pub timings: Vec<Timing>,
    /// When the network may grow.
    pub opens_s: f64,
    /// The seeds; each triple is run once with every one of them.
    pub seeds: Vec<u64>,
}

impl SweepSettings {
    /// Refuses timings that no run can keep to.
    pub fn check(&self, shape: InputShape) -> Result<(), RunError> {
        for timing in &self.timings {
            if timing.budget_s <= self.opens_s {
                return Err(RunError::OpensTooLate { opens_s: self.opens_s, budget_s: timing.budget_s });
            }
            let run = RunSettings { cost: timing.cost, budget_s: timing.budget_s, changes: Vec::new(), ..self.run.clone() };
            Run::new(run, shape)?;
        }
        Ok(())
    }
}

/// The moment at which the network may grow.
struct Opening {
    base: Architecture,
    at_s: f64,
    epochs: usize,
}

/// Runs what is not done yet and tells each run when it has ended, with a row for each timing. Gives how many epochs were trained after
/// the opening.
pub fn sweep(
    settings: &SweepSettings,
    data: &Dataset,
    done: &BTreeSet<(u64, Triple)>,
    tell: &(dyn Fn(Vec<SweepRow>) + Sync),
) -> Result<u64, RunError> {
    settings.check(data.train.shape)?;
    let trained = AtomicU64::new(0);
    for &seed in &settings.seeds {
        let changes = vec![(settings.opens_s, Allocation::Up)];
        let run = RunSettings { seed, changes, cost: Cost::Recorded, budget_s: ENDLESS_S, ..settings.run.clone() };
        let mut start = Run::new(run, data.train.shape)?;
        let actions = start.base().blocks() + 1;
        let left = (0..actions.pow(DECISIONS as u32)).map(|place| triple_at(place, actions));
        let left = left.filter(|triple| !done.contains(&(seed, *triple))).collect::<Vec<_>>();
        if left.is_empty() {
            continue;
        }
        until_open(&mut start, data)?;
        let opening = Opening { base: start.base().clone(), at_s: start.elapsed_s(), epochs: start.epochs.len() };
        let trunk = Trunk { settings, data, opening: &opening, trained: &trained };
        let firsts = prefixes(&left, 1);
        let first_runs = trunk.go_on(&firsts, |_| &start)?;
        let seconds = prefixes(&left, 2);
        let second_runs = trunk.go_on(&seconds, |prefix| parent(&firsts, &first_runs, &prefix[..1], &start))?;
        let tails = left.par_iter().map(|triple| -> Result<(), RunError> {
            let run = trunk.next(parent(&seconds, &second_runs, &triple[..2], &start), triple)?;
            let rows = settings.timings.iter().map(|timing| row(settings, timing, seed, &run, &opening));
            tell(rows.collect::<Result<Vec<_>, _>>()?);
            Ok(())
        });
        tails.collect::<Result<(), _>>()?;
    }
    Ok(trained.into_inner())
}

/// What all runs from one opening have in common.
struct Trunk<'a> {
    settings: &'a SweepSettings,
    data: &'a Dataset,
    opening: &'a Opening,
    trained: &'a AtomicU64,
}

impl Trunk<'_> {
    /// From each parent one decision further.
    fn go_on<'a>(&self, prefixes: &[Vec<usize>], from: impl Fn(&[usize]) -> &'a Run + Sync) -> Result<Vec<Run>, RunError> {
        prefixes.par_iter().map(|prefix| self.next(from(prefix), prefix)).collect()
    }

    /// A run after the last of these actions and the epochs that follow it: one, or all that any timing wants after the last decision.
    fn next(&self, parent: &Run, actions: &[usize]) -> Result<Run, RunError> {
        let Opening { base, at_s, epochs } = self.opening;
        let mut run = parent.clone();
        run.act(actions[actions.len() - 1], self.data)?;
        let mut wanted = epochs_wanted(&self.settings.timings, base, *at_s, actions)?;
        if actions.len() < DECISIONS {
            wanted = wanted.min(actions.len());
        }
        while run.epochs.len() < epochs + wanted {
            run.epoch(self.data)?;
            self.trained.fetch_add(1, Ordering::Relaxed);
        }
        Ok(run)
    }
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

fn row(settings: &SweepSettings, timing: &Timing, seed: u64, run: &Run, opening: &Opening) -> Result<SweepRow, RunError> {
    let base = run.base();
    let triple = padded(&run.actions, base);
    let cut = timing.cut(base, opening.at_s, &triple)?;
    let accuracies = run.epochs[..opening.epochs + cut.epochs].iter().map(|epoch| epoch.test_accuracy).collect::<Vec<_>>();
    let Some(accuracy) = accuracies.last() else {
        let epoch_s = timing.cost.epoch_s(base, base) + timing.cost.scoring_s(base, base);
        return Err(RunError::TooShort { budget_s: timing.budget_s, epoch_s });
    };
    let last = &accuracies[accuracies.len().saturating_sub(SETTLED)..];
    let settled = last.iter().sum::<f64>() / last.len() as f64;
    let best = accuracies.iter().copied().fold(0.0, f64::max);
    let ([a, b, c], left) = (triple, cut.left_s);
    let mut line = format!("{},{},{},{seed},{a},{b},{c},", base.kind.name(), timing.scenario, settings.opens_s);
    let _ = write!(line, "{accuracy:.6},{settled:.6},{:.3},{:.3},{:.3},", left[0], left[1], left[2]);
    let relu = u8::from(settings.run.manner == Manner::Compat);
    let (channels, height, width) = (base.input.channels, base.input.height, base.input.width);
    let _ = write!(line, "{},{},{best:.6},{},", timing.budget_s, accuracies.len(), run.network.stack.parameters());
    let curve = accuracies.iter().map(|accuracy| format!("{accuracy:.4}")).collect::<Vec<_>>().join(" ");
    let _ = write!(line, "{channels},{height},{width},{relu},{},{curve}", timing.cost.name());
    Ok(SweepRow { scenario: timing.scenario.clone(), seed, triple, line })
}

/// The rows of a finished sweep as tables, in the order of scenarios, seeds and triples.
pub fn table_text(mut rows: Vec<SweepRow>) -> String {
    rows.sort_by(|one, other| {
        (one.scenario.as_str(), one.seed, one.triple).cmp(&(other.scenario.as_str(), other.seed, other.triple))
    });
    let lines = rows.into_iter().map(|row| row.line + "\n");
    std::iter::once(format!("{COLUMNS}\n")).chain(lines).collect()
}

/// A row that an earlier sweep wrote; a line that is not whole is none.
fn parse_row(line: &str) -> Option<SweepRow> {
    let fields = line.split(',').collect::<Vec<_>>();
    if fields.len() != COLUMNS.split(',').count() {
        return None;
    }
    let number = |place: usize| fields[place].parse::<usize>().ok();
    let triple = [number(4)?, number(5)?, number(6)?];
    fields[7].parse::<f64>().ok()?;
    Some(SweepRow { scenario: fields[1].to_owned(), seed: fields[3].parse().ok()?, triple, line: line.to_owned() })
}

/// The runs that an earlier sweep wrote, without those that lack the row of one of its timings.
pub fn parse_runs<'a>(lines: impl Iterator<Item = &'a str>, timings: usize) -> Vec<SweepRow> {
    let mut runs: BTreeMap<(u64, Triple), Vec<SweepRow>> = BTreeMap::new();
    for row in lines.filter_map(parse_row) {
        runs.entry((row.seed, row.triple)).or_default().push(row);
    }
    runs.into_values().filter(|rows| rows.len() == timings).flatten().collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::adapt::network::architecture::ModelKind;
    use crate::adapt::train::images::{Portion, tests::folder};
    use std::sync::Mutex;

    /// When the first epoch has ended, and six epochs of the largest network later.
    const OPENS_S: f64 = 11.2;
    const RECORDED_S: f64 = 11.25 + 72.6;

    fn timing(cost: Cost) -> Timing {
        let budget_s = if cost == Cost::Recorded { RECORDED_S } else { 11.25 * 9.0 };
        Timing { scenario: cost.name().to_owned(), cost, budget_s }
    }

    fn settings(costs: &[Cost]) -> SweepSettings {
        let (model, manner, cost) = (ModelKind::ConvNet2, Manner::Sound, Cost::Recorded);
        let run = RunSettings { model, manner, seed: 0, batch: 8, cost, budget_s: 0.0, changes: vec![] };
        SweepSettings { run, timings: costs.iter().map(|cost| timing(*cost)).collect(), opens_s: OPENS_S, seeds: vec![7] }
    }

    fn swept(costs: &[Cost], data: &Dataset, done: &BTreeSet<(u64, Triple)>) -> (u64, Vec<SweepRow>) {
        let rows = Mutex::new(Vec::new());
        let epochs = sweep(&settings(costs), data, done, &|run| rows.lock().unwrap().extend(run)).unwrap();
        (epochs, rows.into_inner().unwrap())
    }

    #[test]
    fn a_sweep_shares_beginnings_is_taken_up_again_and_does_not_depend_on_threads() {
        let data = Dataset::read(folder(8, 8).path(), Portion::default()).unwrap();
        let alone = rayon::ThreadPoolBuilder::new().num_threads(1).build().unwrap();
        let costs = [Cost::Recorded];
        let (epochs, rows) = alone.install(|| swept(&costs, &data, &BTreeSet::new()));
        assert_eq!((epochs, rows.len()), (276, 64));
        let whole = table_text(rows.clone());
        let four = rayon::ThreadPoolBuilder::new().num_threads(4).build().unwrap();
        assert_eq!(table_text(four.install(|| swept(&costs, &data, &BTreeSet::new())).1), whole);
        // Killed after 50 runs, and taken up from what was written.
        let kept = parse_runs(rows[..50].iter().map(|row| row.line.as_str()).chain(["ConvNet2,rec"]), 1);
        let done = kept.iter().map(|row| (row.seed, row.triple)).collect();
        let (_, rest) = swept(&costs, &data, &done);
        assert_eq!(rest.len(), 14);
        assert_eq!(table_text([kept, rest].concat()), whole);
    }

    #[test]
    fn one_training_serves_both_costs_and_each_row_is_that_of_the_run_alone() {
        let data = Dataset::read(folder(8, 8).path(), Portion::default()).unwrap();
        let costs = [Cost::Recorded, Cost::Arithmetic];
        let (together, rows) = swept(&costs, &data, &BTreeSet::new());
        let apart = costs.map(|cost| swept(&[cost], &data, &BTreeSet::new()));
        assert_eq!(table_text(rows.clone()), table_text([apart[0].1.clone(), apart[1].1.clone()].concat()));
        assert!(together < apart[0].0 + apart[1].0, "{together} epochs, {} and {} apart", apart[0].0, apart[1].0);
        // A run that lacks a row is not done.
        assert_eq!(parse_runs(rows[1..].iter().map(|row| row.line.as_str()), 2).len(), rows.len() - 2);
        for timing in settings(&costs).timings {
            for triple in [[0, 1, 3], [3, 3, 3], [0, 0, 0], [1, 1, 1]] {
                let changes = vec![(OPENS_S, Allocation::Up)];
                let (cost, budget_s) = (timing.cost, timing.budget_s);
                let run = RunSettings { seed: 7, changes, cost, budget_s, ..settings(&costs).run };
                let mut run = Run::new(run, data.train.shape).unwrap();
                run.finish(&data, &mut |question| Ok(triple[question.before.len()]), &mut |_| {}).unwrap();
                let row = rows.iter().find(|row| (&row.scenario, row.triple) == (&timing.scenario, triple)).unwrap();
                let fields = row.line.split(',').collect::<Vec<_>>();
                let curve = run.epochs.iter().map(|epoch| format!("{:.4}", epoch.test_accuracy)).collect::<Vec<_>>();
                assert_eq!(fields[21], curve.join(" "), "{timing:?} {triple:?}");
                for (step, left_s) in run.left_s.iter().enumerate() {
                    assert_eq!(fields[9 + step], format!("{left_s:.3}"), "{timing:?} {triple:?}");
                }
            }
        }
    }

    #[test]
    fn a_network_that_may_grow_after_its_time_is_refused() {
        let data = Dataset::read(folder(8, 8).path(), Portion::default()).unwrap();
        let late = SweepSettings { opens_s: 100.0, ..settings(&[Cost::Recorded]) };
        let error = sweep(&late, &data, &BTreeSet::new(), &|_| {}).unwrap_err().to_string();
        assert_eq!(error, "the network may grow at 100.0 s, but its time ends at 83.8 s; give a later end or an earlier opening");
    }
}
