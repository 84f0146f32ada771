//! `rota import sacct`: what Slurm's accounting has recorded, as a trace.

use super::fidelity::{Fidelity, measure, smallest_cluster};
use crate::args::{ImportArgs, ImportSource, SacctArgs};
use crate::inputs::{load_cluster, remark_skipped, usual_policy};
use crate::output::{print_json, remark};
use anyhow::Context;
use rota_exec::slurm::{Calls, SlurmError};
use rota_trace::{Format, GavelSteps, Loaded, ReadOptions};
use serde::Serialize;
use std::time::Duration;

/// What `sacct` is asked for.
const COLUMNS: &str = "JobID,User,Account,State,Submit,Eligible,Start,End,ElapsedRaw,TimelimitRaw,AllocTRES,ReqTRES,Priority";
/// How long a year of jobs may take to come out of the database.
const SACCT_SECONDS_MAX: u64 = 600;

#[derive(Serialize)]
struct Document<'a> {
    fidelity: Option<&'a Fidelity>,
    jobs: usize,
    notes: &'a [String],
    skipped_lines: u64,
}

/// Imports a log.
pub fn run(args: &ImportArgs) -> anyhow::Result<()> {
    let ImportSource::Sacct(args) = &args.source;
    let loaded = load(args)?;
    remark_skipped("lines", loaded.skipped_count as usize, &loaded.skipped);
    let cluster = match &args.cluster {
        Some(spec) => load_cluster(spec, args.gpus_per_node)?,
        None => smallest_cluster(&loaded.workload, &loaded.waits, args.gpus_per_node)?,
    };
    let fidelity = if cluster.gpus.is_empty() {
        None
    } else {
        measure(loaded.workload.clone(), &loaded.waits, cluster, usual_policy(&loaded.workload))?
    };
    let text = fidelity
        .as_ref()
        .map_or_else(|| "fidelity of a replay: unknown, because the log has no column `Start`".to_owned(), Fidelity::describe);
    remark(&text);
    crate::traces::write(&loaded.workload, &args.output, None, GavelSteps::Exact)?;
    if args.json {
        return print_json(&Document {
            fidelity: fidelity.as_ref(),
            jobs: loaded.workload.jobs.len(),
            notes: &loaded.notes,
            skipped_lines: loaded.skipped_count,
        });
    }
    loaded.notes.iter().for_each(|note| remark(note));
    remark(&format!("wrote {} jobs to {}", loaded.workload.jobs.len(), args.output.display()));
    Ok(())
}

fn load(args: &SacctArgs) -> anyhow::Result<Loaded> {
    let options = ReadOptions { format: Some(Format::Sacct), skip_bad: args.skip_bad, ..ReadOptions::default() };
    if let Some(file) = &args.file {
        return Ok(rota_trace::read(file, &options)?);
    }
    let text = ask(args)?;
    Ok(rota_trace::parse("sacct", text.as_bytes(), &options)?)
}

/// Asks Slurm's accounting for the jobs of everybody, as far as this user may see them.
fn ask(args: &SacctArgs) -> anyhow::Result<String> {
    let calls = Calls { bin_dir: args.bin_dir.clone() };
    let (since, until) = (format!("--starttime={}", args.since), format!("--endtime={}", args.until));
    let format = format!("--format={COLUMNS}");
    let arguments = ["--allusers", "--duplicates", "--allocations", "--parsable2", &since, &until, &format];
    let refused = |error: SlurmError| {
        let advice = match &error {
            SlurmError::Refused { message, .. } if message.contains("accounting storage is disabled") => {
                "this site keeps no accounts; `rota up --engine slurm --shadow` records what happens from now on"
            }
            _ => "run sacct where it works, and give its output as FILE",
        };
        anyhow::Error::new(error).context(advice)
    };
    calls.call("sacct", arguments, Duration::from_secs(SACCT_SECONDS_MAX)).map_err(refused).context("import sacct")
}
