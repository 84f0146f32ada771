//! `rota adapt evaluate`.

use super::policies::open;
use crate::args::AdaptEvaluateArgs;
use crate::output::{print, print_json};
use rota_learn::adapt::judge::comparison::{Gain, against_nothing};
use rota_learn::adapt::judge::evaluation::{Choice, Interval, Judged, leave_one_out};
use rota_learn::adapt::record::table::read_tables;
use std::fmt::Write as _;

pub fn run(args: &AdaptEvaluateArgs) -> anyhow::Result<()> {
    let tables = read_tables(&args.tables)?;
    if let Some(path) = &args.on {
        let gains = against_nothing(&tables, &read_tables(path)?, args.seeds);
        return if args.json { print_json(&gains) } else { print(&gain_table(&gains, args.seeds)?) };
    }
    anyhow::ensure!(
        tables.len() > 1,
        "`{}` has one table; leaving it out leaves nothing to learn from: give at least two",
        args.tables.display()
    );
    let judge = |path: &std::path::PathBuf| -> anyhow::Result<Judged> {
        let (network, source) = open(path, args.vocabulary.as_deref())?;
        let name = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        Ok(Judged { name, network, vocabulary: source.open()? })
    };
    let policies = args.policy.iter().map(judge).collect::<anyhow::Result<Vec<_>>>()?;
    let choices = leave_one_out(&tables, args.seeds, &policies)?;
    if args.json { print_json(&choices) } else { print(&table(&choices, tables.len(), args.seeds)?) }
}

fn table(choices: &[Choice], tables: usize, seeds: u64) -> anyhow::Result<String> {
    let mut text = String::new();
    writeln!(
        text,
        "regret in points of accuracy, mean over {tables} tables, each left out in turn; 95 % intervals over tables;"
    )?;
    writeln!(text, "the default decision maker is the mean of {seeds} seeds\n")?;
    let width = choices.iter().map(|choice| choice.choice.chars().count()).max().unwrap_or(6);
    for choice in choices {
        let gain = choice.better_than_random["all"];
        let models = choice.models.iter().map(|(name, regret)| format!("{name} {regret:.2}")).collect::<Vec<_>>().join(", ");
        writeln!(
            text,
            "{:<width$} {:>6.2} [{:>5.2}, {:>5.2}]  {models}; better than random by {:.2} [{:.2}, {:.2}]",
            choice.choice, choice.regret_points_mean, choice.low, choice.high, gain.mean, gain.low, gain.high
        )?;
    }
    Ok(text)
}

fn gain_table(gains: &[Gain], seeds: u64) -> anyhow::Result<String> {
    let mut text = String::new();
    let trained = gains.first().map_or(0, |gain| gain.seeds);
    writeln!(text, "points of accuracy above a network that does not grow, paired by seed; 95 % intervals over {trained} seeds")?;
    writeln!(text, "of training; the default decision maker is the mean of {seeds} seeds\n")?;
    let width = gains.iter().map(|gain| gain.choice.chars().count()).max().unwrap_or(6);
    let points = |interval: Interval| format!("{:>6.2} [{:>6.2}, {:>6.2}]", interval.mean, interval.low, interval.high);
    let mut table = "";
    for gain in gains {
        if gain.table != table {
            table = &gain.table;
            writeln!(text, "{table:<width$}  last epoch               mean of the last five")?;
        }
        let mut triples = gain.triples.clone();
        triples.sort();
        triples.dedup();
        let (last, settled) = (points(gain.last_points), points(gain.settled_points));
        writeln!(text, "{:<width$}  {last}  {settled}  {}", gain.choice, triples.join(" "))?;
    }
    Ok(text)
}
