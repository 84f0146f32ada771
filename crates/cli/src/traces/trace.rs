//! `rota trace`: look into, convert and generate traces.

use crate::args::{ConvertArgs, GenArgs, InfoArgs, TraceArgs, TraceCommand, WrittenFormat};
use crate::inputs::{load_cluster, load_table, load_trace};
use crate::output::{print, print_json, remark, width, write_file};
use anyhow::Context;
use rota_core::{Span, Workload};
use rota_trace::GavelSteps;
use rota_trace::generate::Generator;
use rota_trace::info::TraceInfo;
use serde::Serialize;
use std::fmt::Write as _;
use std::path::Path;

pub fn run(args: &TraceArgs) -> anyhow::Result<()> {
    match &args.command {
        TraceCommand::Info(args) => info(args),
        TraceCommand::Convert(args) => convert(args),
        TraceCommand::Gen(args) => generate(args),
        TraceCommand::Run(args) => super::run::run(args),
    }
}

#[derive(Serialize)]
struct InfoDocument<'a> {
    format: String,
    notes: &'a [String],
    skipped_lines: u64,
    #[serde(flatten)]
    info: &'a TraceInfo,
}

fn info(args: &InfoArgs) -> anyhow::Result<()> {
    let table = load_table(args.throughputs.as_deref())?;
    let loaded = load_trace(&args.file, &args.read, &table)?;
    let cluster = args.cluster.as_deref().map(|spec| load_cluster(spec, args.gpus_per_node)).transpose()?;
    let info = rota_trace::info::info(&loaded.workload, cluster.as_ref(), &table);
    if args.json {
        return print_json(&InfoDocument {
            format: loaded.format.to_string(),
            notes: &loaded.notes,
            skipped_lines: loaded.skipped_count,
            info: &info,
        });
    }
    let mut text = String::new();
    writeln!(text, "{}: {} format", args.file.display(), loaded.format)?;
    loaded.notes.iter().try_for_each(|note| writeln!(text, "  {note}"))?;
    describe(&mut text, &info)?;
    let lengths = rota_trace::info::lengths(&loaded.workload, cluster.as_ref(), &table);
    plot_durations(&mut text, &lengths)?;
    plot_gangs(&mut text, &info)?;
    print(&text)
}

fn describe(text: &mut String, info: &TraceInfo) -> std::fmt::Result {
    let span = |seconds: f64| Span::from_seconds(seconds).unwrap_or_default().to_string();
    let mut row = |name: &str, value: String| writeln!(text, "  {name:<18} {value}");
    row("jobs", format!("{} of {} users, {} job types", info.jobs, info.users, info.job_types))?;
    row(
        "arrivals",
        match info.arrivals_per_hour {
            Some(rate) => format!("over {}, {rate:.2} an hour", span(info.span_s)),
            None => "all at once".to_owned(),
        },
    )?;
    let length = &info.duration_s;
    row(
        "length",
        format!("{} to {}, median {}, mean {}", span(length.min), span(length.max), span(length.p50), span(length.mean)),
    )?;
    let gpu_seconds = info.gpu_hours * 3600.0;
    row(
        "work",
        if gpu_seconds < 3600.0 { format!("{gpu_seconds:.1} GPU seconds") } else { format!("{:.1} GPU hours", info.gpu_hours) },
    )?;
    if let Some(gpus) = info.gpus_for_load_one {
        row("load", format!("1.0 on {gpus:.1} GPUs"))?;
    }
    if let (Some(load), Some(gpus)) = (info.offered_load, info.cluster_gpus) {
        row("", format!("{load:.3} on the {gpus} GPUs given"))?;
    }
    for (name, count) in [
        ("sharing a GPU", info.sharing_jobs),
        ("ending in failure", info.failing_jobs),
        ("of unknown length", info.jobs_without_length),
    ] {
        if count > 0 {
            row(name, format!("{count} jobs"))?;
        }
    }
    Ok(())
}

/// Where a bar of lengths begins, in seconds: at 1 and 3 times each power of ten.
fn bar_start(bar: i32) -> f64 {
    let (digit, power) = (if bar.rem_euclid(2) == 0 { 1.0 } else { 3.0 }, bar.div_euclid(2));
    // Divided, not multiplied by a part, so that 0.3 is 0.3.
    if power < 0 { digit / 10_f64.powi(-power) } else { digit * 10_f64.powi(power) }
}

/// The bar that a length belongs to. Lengths below a millisecond are in its bar.
fn bar_of(seconds: f64) -> i32 {
    let seconds = seconds.max(1e-3);
    let below = 2 * seconds.log10().floor() as i32 - 1;
    (below..below + 5).rev().find(|bar| bar_start(*bar) <= seconds).unwrap_or(below)
}

/// Jobs by length, two bars a factor of ten.
fn plot_durations(text: &mut String, seconds: &[f64]) -> std::fmt::Result {
    let Some(first) = seconds.iter().map(|length| bar_of(*length)).min() else { return Ok(()) };
    let last = seconds.iter().map(|length| bar_of(*length)).max().unwrap_or(first);
    let mut counts = vec![0_usize; (last - first + 1) as usize];
    for length in seconds {
        counts[(bar_of(*length) - first) as usize] += 1;
    }
    let label = |bar: i32| Span::from_seconds(bar_start(bar)).unwrap_or_default().to_string();
    let rows = counts.iter().zip(first..).map(|(&count, bar)| (format!("from {}", label(bar)), count));
    bars(text, "\n  jobs by length", &rows.collect::<Vec<_>>())
}

fn plot_gangs(text: &mut String, info: &TraceInfo) -> std::fmt::Result {
    let rows = info.gangs.iter().map(|(gpus, count)| (format!("{gpus} GPU{}", if *gpus == 1 { "" } else { "s" }), *count));
    bars(text, "\n  jobs by gang size", &rows.collect::<Vec<_>>())
}

/// Horizontal bars with their counts; a count above zero is never an empty bar.
fn bars(text: &mut String, title: &str, rows: &[(String, usize)]) -> std::fmt::Result {
    writeln!(text, "{title}")?;
    let most = rows.iter().map(|(_, count)| *count).max().unwrap_or(0).max(1);
    let room = width().saturating_sub(36);
    for (label, count) in rows {
        let eighths = (count * room * 8).div_ceil(most).max(usize::from(*count > 0));
        let mut bar = "█".repeat(eighths / 8);
        bar.extend([' ', '▏', '▎', '▍', '▌', '▋', '▊', '▉'].get(eighths % 8).filter(|_| eighths % 8 > 0));
        writeln!(text, "  {label:>14} {count:>9} {bar}")?;
    }
    Ok(())
}

fn convert(args: &ConvertArgs) -> anyhow::Result<()> {
    let loaded = load_trace(&args.file, &args.read, &load_table(None)?)?;
    write(&loaded.workload, &args.output, args.to, steps(args.whole_steps))?;
    remark(&format!("wrote {} jobs to {}", loaded.workload.jobs.len(), args.output.display()));
    Ok(())
}

fn generate(args: &GenArgs) -> anyhow::Result<()> {
    let mut generator = match (&args.config, args.model.as_deref()) {
        (Some(path), _) => rota_trace::generate::read(path)?,
        (None, model) => Generator::named(model.unwrap_or_default()).context("give --model or --config")?,
    };
    adjust(&mut generator, args)?;
    generator.validate()?;
    let workload = generator.run_with(&load_table(args.throughputs.as_deref())?)?;
    write(&workload, &args.output, args.to, steps(args.whole_steps))?;
    remark(&format!("wrote {} jobs to {}", workload.jobs.len(), args.output.display()));
    Ok(())
}

/// Puts the flags over the settings.
fn adjust(generator: &mut Generator, args: &GenArgs) -> anyhow::Result<()> {
    // A file's own word on gangs holds unless the flag adds to it; a model by name has single GPUs without the flag.
    let by_name = args.config.is_none();
    match generator {
        Generator::Classroom(seeded) => {
            if args.multi_gpu || args.multi_priority || args.slo {
                anyhow::bail!(
                    "classroom tasks have one GPU, their own priorities and no deadlines: leave out --multi-gpu, --multi-priority and --slo"
                );
            }
            seeded.seed = args.seed.unwrap_or(seeded.seed);
            seeded.settings.jobs = args.jobs.or(seeded.settings.jobs);
            seeded.settings.jobs_per_hour = args.rate.unwrap_or(seeded.settings.jobs_per_hour);
        }
        Generator::Poisson(seeded) => {
            let settings = &mut seeded.settings;
            seeded.seed = args.seed.unwrap_or(seeded.seed);
            settings.jobs = args.jobs.unwrap_or(settings.jobs);
            settings.jobs_per_hour = args.rate.unwrap_or(settings.jobs_per_hour);
            settings.multi_gpu = args.multi_gpu || (settings.multi_gpu && !by_name);
            if args.multi_priority {
                settings.high_priority_fraction = 0.2;
            }
            if args.slo {
                settings.deadline_multiples = vec![1.2, 2.0, 10.0];
            }
        }
        Generator::GavelContinuous(seeded) => {
            let settings = &mut seeded.settings;
            seeded.seed = args.seed.unwrap_or(seeded.seed);
            settings.jobs = args.jobs.unwrap_or(settings.jobs);
            if let Some(rate) = args.rate {
                (settings.jobs_per_hour, settings.seconds_between_jobs) = (rate, None);
            }
            settings.multi_gpu |= args.multi_gpu;
            settings.multi_priority |= args.multi_priority;
            settings.slo |= args.slo;
        }
        Generator::GavelStatic(seeded) => {
            anyhow::ensure!(args.rate.is_none(), "all jobs of gavel-static arrive at once: leave out --rate");
            let settings = &mut seeded.settings;
            seeded.seed = args.seed.unwrap_or(seeded.seed);
            settings.jobs = args.jobs.unwrap_or(settings.jobs);
            settings.multi_gpu |= args.multi_gpu;
            settings.multi_priority |= args.multi_priority;
            settings.slo |= args.slo;
        }
        Generator::GavelTrace(seeded) => {
            anyhow::ensure!(!args.slo, "gavel-trace jobs have no deadlines: leave out --slo");
            let settings = &mut seeded.settings;
            seeded.seed = args.seed.unwrap_or(seeded.seed);
            settings.jobs = args.jobs.unwrap_or(settings.jobs);
            if let Some(rate) = args.rate {
                (settings.jobs_per_hour, settings.seconds_between_jobs) = (rate, None);
            }
            settings.multi_gpu |= args.multi_gpu;
            settings.multi_priority |= args.multi_priority;
        }
    }
    Ok(())
}

fn steps(whole: bool) -> GavelSteps {
    if whole { GavelSteps::Whole } else { GavelSteps::Exact }
}

/// Writes a workload in a format, or in that of the file's ending.
pub fn write(workload: &Workload, path: &Path, format: Option<WrittenFormat>, steps: GavelSteps) -> anyhow::Result<()> {
    let by_ending = || match path.extension().and_then(|ending| ending.to_str()) {
        Some("csv") => Some(WrittenFormat::Csv),
        Some("toml") => Some(WrittenFormat::Toml),
        Some("trace" | "tsv") => Some(WrittenFormat::Gavel),
        Some("swf") => Some(WrittenFormat::Swf),
        _ => None,
    };
    let format = format.or_else(by_ending).with_context(|| {
        format!("`{}` does not tell its format; end it in .csv, .toml, .trace or .swf, or give --to", path.display())
    })?;
    write_file(path, |output| {
        match format {
            WrittenFormat::Csv => rota_trace::write_csv(workload, output)?,
            WrittenFormat::Toml => rota_trace::write_toml(workload, output)?,
            WrittenFormat::Gavel => rota_trace::write_gavel(workload, steps, output)?,
            WrittenFormat::Swf => rota_trace::write_swf(workload, output)?,
        }
        Ok(())
    })?;
    let parts = workload.jobs.iter().filter(|job| job.steps.fract() > 0.0).count();
    if format == WrittenFormat::Gavel && steps == GavelSteps::Exact && parts > 0 {
        remark(&format!(
            "the steps of {parts} jobs are not whole, which Gavel's own reader refuses: --whole-steps cuts them off"
        ));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_job_is_shorter_than_the_label_of_its_bar() {
        for (seconds, label) in
            [(3.17, "3.0s"), (2.99, "1.0s"), (1000.0, "16m40s"), (999.9, "5m00s"), (0.3, "0.3s"), (0.0, "0.0s")]
        {
            let mut text = String::new();
            plot_durations(&mut text, &[seconds, 1e4]).unwrap();
            let first = text.lines().find(|line| line.contains("from")).unwrap();
            assert!(first.contains(&format!("from {label} ")), "{seconds}: {first}");
        }
    }
}
