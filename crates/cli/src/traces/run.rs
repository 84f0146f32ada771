//! `rota trace run`: gives the jobs of a trace to the live queue at their arrival times.

use crate::args::RunTraceArgs;
use crate::inputs::{load_table, load_trace};
use crate::live::client::Client;
use crate::live::jobs::{environment, rlimits};
use crate::output;
use anyhow::{Context, bail};
use rota_core::{Job, Workload};
use rota_daemon::Text;
use rota_daemon::api::{GavelScript, Submit, Submitted};
use rota_trace::Format;
use std::collections::HashMap;
use std::path::Path;
use std::time::{Duration, Instant};

/// The columns of a Gavel trace that say how a job is run.
struct Columns {
    command: usize,
    working_directory: Option<usize>,
    steps_arg: usize,
    needs_data_dir: usize,
}

/// Gives the jobs of a trace to the queue, each at its arrival time.
pub fn run(args: &RunTraceArgs) -> anyhow::Result<()> {
    let table = load_table(args.throughputs.as_deref())?;
    let loaded = load_trace(&args.file, &args.read, &table)?;
    let columns = match loaded.format {
        Format::Gavel10 => Some(Columns { command: 1, working_directory: Some(2), steps_arg: 3, needs_data_dir: 4 }),
        Format::Gavel7 => Some(Columns { command: 1, working_directory: None, steps_arg: 2, needs_data_dir: 3 }),
        _ => None,
    };
    let workload = &loaded.workload;
    let here = std::env::current_dir().context("finding the current directory")?;
    let folder = args.run_dir.as_ref().map_or_else(|| here.clone(), |dir| here.join(dir));
    let submits = match columns {
        Some(columns) => gavel_submits(workload, &args.file, &columns, &folder, args)?,
        None => workload.jobs.iter().map(|job| sleeper(job, workload, &folder, args.speedup)).collect::<anyhow::Result<_>>()?,
    };
    let client = Client::new(&args.state);
    let began = Instant::now();
    let first = workload.jobs.first().map_or(0.0, |job| job.arrival.seconds());
    let mut ids = Vec::new();
    for (job, submit) in workload.jobs.iter().zip(&submits) {
        let at = Duration::from_secs_f64((job.arrival.seconds() - first).max(0.0) / args.speedup);
        std::thread::sleep(at.saturating_sub(began.elapsed()));
        let submitted: Submitted = client.send(&hyper::Method::POST, "/api/v1/jobs", submit)?;
        for id in &submitted.ids {
            if !args.json {
                output::print(&id.to_string())?;
            }
        }
        ids.extend(submitted.ids);
    }
    if args.json { output::print_json(&serde_json::json!({ "ids": ids })) } else { Ok(()) }
}

/// The jobs of a Gavel trace, as Gavel's dispatcher would run them.
fn gavel_submits(
    workload: &Workload,
    file: &Path,
    columns: &Columns,
    folder: &Path,
    args: &RunTraceArgs,
) -> anyhow::Result<Vec<Submit>> {
    let text = std::fs::read_to_string(file).with_context(|| format!("{}: commands are read from plain text", file.display()))?;
    let lines = (1..).zip(text.lines()).map(|(number, line)| (number, line.split('\t').collect::<Vec<_>>()));
    let lines = lines.collect::<HashMap<u32, _>>();
    let one = |job: &Job| -> anyhow::Result<Submit> {
        let fields = lines.get(&job.line).with_context(|| format!("{}:{}: this line is gone", file.display(), job.line))?;
        let field = |column: usize| fields.get(column).copied().unwrap_or("").trim();
        let needs_data = matches!(field(columns.needs_data_dir), "1" | "True" | "true");
        if needs_data && args.data_dir.is_none() {
            bail!("{}:{}: the command needs a folder with data: give one with --data-dir", file.display(), job.line);
        }
        let cwd = columns.working_directory.map_or_else(|| folder.to_owned(), |column| folder.join(field(column)));
        let line = format!("exec {} \"$@\"", field(columns.command));
        let data_dir = args.data_dir.as_ref().filter(|_| needs_data).map(|dir| Text::from(folder.join(dir).as_os_str()));
        Ok(Submit {
            command: ["sh", "-c", &line, "job"].map(Text::from).to_vec().into(),
            gavel: Some(GavelScript {
                // Fractions of a step are not done.
                total_steps: (job.steps.ceil() as u64).max(1),
                steps_arg: field(columns.steps_arg).to_owned(),
                data_dir,
            }),
            ..plain(job, workload, &cwd)
        })
    };
    workload.jobs.iter().map(one).collect()
}

/// A job that does nothing for as long as the trace says.
fn sleeper(job: &Job, workload: &Workload, folder: &Path, speedup: f64) -> anyhow::Result<Submit> {
    let seconds = job.work.seconds() / speedup;
    if seconds <= 0.0 {
        bail!("job {}: it has no length; a table of throughputs turns steps into time (--throughputs)", job.display_id());
    }
    let command = ["sleep", &format!("{seconds:.3}")].map(Text::from).to_vec();
    Ok(Submit { command: command.into(), estimate_seconds: Some(seconds), ..plain(job, workload, folder) })
}

/// What jobs of all traces have in common.
fn plain(job: &Job, workload: &Workload, cwd: &Path) -> Submit {
    let job_type = workload.names.text(job.kind);
    Submit {
        cwd: Text::from(cwd.as_os_str()),
        env: environment().into(),
        rlimits: Some(rlimits()),
        gpus: job.gpus,
        priority: job.priority,
        weight: job.weight,
        preemptible: true,
        exclusive: false,
        job_type: (!job_type.is_empty()).then(|| job_type.to_owned()),
        ..Submit::default()
    }
}
