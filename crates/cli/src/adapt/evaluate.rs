//! `rota adapt evaluate`.

use super::policies::open;
use crate::args::AdaptEvaluateArgs;
use crate::output::{print, print_json};
use rota_learn::adapt::evaluation::{Choice, Judged, leave_one_out};
use rota_learn::adapt::table::read_tables;
use std::fmt::Write as _;

pub fn run(args: &AdaptEvaluateArgs) -> anyhow::Result<()> {
    anyhow::ensure!(args.leave_one_out, "give --leave-one-out: each table is judged by what was learned from the others");
    let tables = read_tables(&args.tables)?;
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
