//! `rota throughputs`: look into and convert throughput tables, and estimate pairs that were not measured.

use crate::args::{ConvertThroughputsArgs, EstimateThroughputsArgs, ShowThroughputsArgs, ThroughputsArgs, ThroughputsCommand};
use crate::inputs::load_table;
use crate::output::{print, print_json, remark, write_file};
use rota_core::ThroughputTable;
use rota_trace::estimate::{Errors, Estimate, EstimateOptions, cross_validate, estimate};
use serde::Serialize;
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io::Write;
use std::path::Path;

pub fn run(args: &ThroughputsArgs) -> anyhow::Result<()> {
    match &args.command {
        ThroughputsCommand::Show(args) => show(args),
        ThroughputsCommand::Convert(args) => convert(args),
        ThroughputsCommand::Estimate(args) => run_estimate(args),
        ThroughputsCommand::Live(args) => crate::live::past::speeds::speeds(args),
        ThroughputsCommand::Measure(args) => crate::measure::run(args),
    }
}

/// What a table knows, in numbers.
#[derive(Serialize)]
struct TableInfo<'t> {
    source: &'t str,
    gpu_types: Vec<&'t str>,
    job_types: Vec<JobTypeInfo<'t>>,
    pairs: usize,
}

#[derive(Serialize)]
struct JobTypeInfo<'t> {
    job_type: &'t str,
    gpus: u32,
    /// Steps per second alone by GPU type.
    steps_per_second: BTreeMap<&'t str, f64>,
    /// Other gangs it is known beside.
    partners: usize,
}

fn show(args: &ShowThroughputsArgs) -> anyhow::Result<()> {
    let table = load_table(args.file.as_deref())?;
    let (gpu_types, pairs) = (table.gpu_types(), table.pairs());
    let of_gang = |(job_type, gpus): (&'_ str, u32)| {
        let partners = pairs.iter().filter(|(first, second)| *first == (job_type, gpus) || *second == (job_type, gpus)).count();
        let known = gpu_types.iter().filter_map(|gpu_type| Some((*gpu_type, table.get(job_type, gpus, gpu_type)?)));
        (gpus, known.collect(), partners)
    };
    let rows = table.gangs().into_iter().map(|gang| {
        let (gpus, steps_per_second, partners) = of_gang(gang);
        JobTypeInfo { job_type: gang.0, gpus, steps_per_second, partners }
    });
    let info = TableInfo {
        source: &table.source,
        gpu_types: gpu_types.iter().copied().collect(),
        job_types: rows.collect(),
        pairs: pairs.len(),
    };
    if args.json {
        return print_json(&info);
    }
    let mut text = format!("{}: {} job types, {} pairs\n", info.source, table.job_types().len(), info.pairs);
    let width = info.job_types.iter().map(|row| row.job_type.chars().count()).max().unwrap_or(0).max(8);
    write!(text, "{:<width$}  gpus", "job type")?;
    info.gpu_types.iter().try_for_each(|gpu_type| write!(text, "  {gpu_type:>10}"))?;
    text.push_str("  partners\n");
    for row in &info.job_types {
        write!(text, "{:<width$}  {:>4}", row.job_type, row.gpus)?;
        for gpu_type in &info.gpu_types {
            let speed = row.steps_per_second.get(gpu_type).map(|speed| format!("{speed:.3}"));
            write!(text, "  {:>10}", speed.unwrap_or_else(|| "–".to_owned()))?;
        }
        writeln!(text, "  {:>8}", row.partners)?;
    }
    print(&text)
}

fn convert(args: &ConvertThroughputsArgs) -> anyhow::Result<()> {
    let writer = writer_of(&args.output)?;
    let table = rota_trace::read_throughputs(&args.file)?;
    write_file(&args.output, |output| writer(&table, output))?;
    remark(&format!(
        "wrote {} job types and {} pairs to {}",
        table.job_types().len(),
        table.pairs().len(),
        args.output.display()
    ));
    Ok(())
}

pub type TableWriter = fn(&ThroughputTable, &mut dyn Write) -> anyhow::Result<()>;

/// How to write a table, by the ending of its file.
pub fn writer_of(path: &Path) -> anyhow::Result<TableWriter> {
    match path.extension().and_then(|ending| ending.to_str()) {
        Some("csv") => Ok(|table, output| Ok(rota_trace::write_throughputs_csv(table, output)?)),
        Some("toml") => Ok(|table, output| Ok(rota_trace::write_throughputs_toml(table, output)?)),
        Some("json") => Ok(|table, output| Ok(rota_trace::write_throughputs_json(table, output)?)),
        _ => anyhow::bail!("`{}` does not tell its format; end it in .csv, .toml or .json (Gavel's)", path.display()),
    }
}

/// The whole answer of `estimate` as JSON.
#[derive(Serialize)]
struct EstimateDocument<'e> {
    table: String,
    observed: Option<String>,
    seed: u64,
    holdout: f64,
    #[serde(flatten)]
    estimate: &'e Estimate,
}

fn run_estimate(args: &EstimateThroughputsArgs) -> anyhow::Result<()> {
    let writer = args.output.as_deref().map(writer_of).transpose()?;
    let table = rota_trace::read_throughputs(&args.table)?;
    let options = EstimateOptions { seed: args.seed, references: args.references, holdout: args.holdout };
    let found = match &args.observed {
        None => cross_validate(&table, &options)?,
        Some(path) => estimate(&table, &rota_trace::read_throughputs_beside(path, table.clone())?, &options)?,
    };
    if let (Some(writer), Some(path)) = (writer, &args.output) {
        write_file(path, |output| writer(&found.table, output))?;
        remark(&format!("wrote the table with {} estimated pairs to {}", found.pairs.len(), path.display()));
    }
    if args.json {
        return print_json(&EstimateDocument {
            table: args.table.display().to_string(),
            observed: args.observed.as_ref().map(|path| path.display().to_string()),
            seed: args.seed,
            holdout: args.holdout,
            estimate: &found,
        });
    }
    let report = describe(&found)?;
    if args.observed.is_some() && args.output.is_none() {
        // Stdout is the table, for a file or the next command; the words go beside it.
        remark(report.trim_end());
        let mut csv = Vec::new();
        rota_trace::write_throughputs_csv(&found.table, &mut csv)?;
        return print(&String::from_utf8(csv)?);
    }
    print(&report)
}

fn describe(found: &Estimate) -> anyhow::Result<String> {
    let mut text = String::new();
    for (gpus, names) in &found.references {
        writeln!(text, "{} reference models with {gpus} GPUs", names.len())?;
    }
    let width = found.types.iter().map(|row| row.job_type.chars().count()).max().unwrap_or(0).max(8);
    let reference_width = found.types.iter().map(|row| row.reference.chars().count()).max().unwrap_or(0).max(7);
    writeln!(
        text,
        "{:<width$}  gpus  {:<reference_width$}  distance  measured  estimated  error mean  worst  guess mean  worst",
        "job type", "is like"
    )?;
    for row in &found.types {
        write!(
            text,
            "{:<width$}  {:>4}  {:<reference_width$}  {:>8.4}  {:>8}  {:>9}",
            row.job_type, row.gpus, row.reference, row.distance, row.measured, row.estimated
        )?;
        text.push_str(&error_cells(row.errors)?);
    }
    for &gpus in found.references.keys() {
        let rows = || found.types.iter().filter(|row| row.gpus == gpus);
        let (measured, estimated) = rows().fold((0, 0), |sum, row| (sum.0 + row.measured, sum.1 + row.estimated));
        write!(text, "{:<width$}  {gpus:>4}  {:<reference_width$}  {:>8}  {measured:>8}  {estimated:>9}", "all", "", "")?;
        text.push_str(&error_cells(pooled(rows().filter_map(|row| row.errors)))?);
    }
    text.push_str(
        "errors: of speeds beside another job, over the speed alone, on pairs held out; guess: the mean of all that is known\n",
    );
    Ok(text)
}

/// The errors of several job types as one.
fn pooled(errors: impl Iterator<Item = Errors>) -> Option<Errors> {
    errors.reduce(|sum, next| {
        let (before, now) = (f64::from(sum.held_out), f64::from(next.held_out));
        let mean = |one: f64, other: f64| (one * before + other * now) / (before + now);
        Errors {
            held_out: sum.held_out + next.held_out,
            mean: mean(sum.mean, next.mean),
            worst: sum.worst.max(next.worst),
            guess_mean: mean(sum.guess_mean, next.guess_mean),
            guess_worst: sum.guess_worst.max(next.guess_worst),
        }
    })
}

fn error_cells(errors: Option<Errors>) -> anyhow::Result<String> {
    let mut text = String::new();
    match errors {
        None => writeln!(text, "  {:>10}  {:>5}  {:>10}  {:>5}", "–", "–", "–", "–")?,
        Some(errors) => writeln!(
            text,
            "  {:>10.4}  {:>5.2}  {:>10.4}  {:>5.2}",
            errors.mean, errors.worst, errors.guess_mean, errors.guess_worst
        )?,
    }
    Ok(text)
}
