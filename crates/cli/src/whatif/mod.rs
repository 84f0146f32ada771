//! `rota whatif`: what other policies, GPUs or habits would have changed about jobs that really ran.
//!
//! The past is first simulated as it was, and compared with what really happened: that says how far the rest can be believed. Then each
//! alternative is simulated, and its waits are compared job by job with those of the simulated past.

mod alternatives;
mod answer;
mod clusters;
mod compare;
mod fidelity;
mod intervals;
pub mod out_file;
mod page;
mod recorded;
mod simulate;
pub mod words;

use crate::args::WhatIfArgs;
use crate::inputs::{known_of_lengths, without_figures};
use crate::output;
use crate::simulate::sim::build_policy;
use alternatives::{Alternative, Past, Source, alternatives, bind};
use compare::compare;
use fidelity::Fidelity;
use intervals::Difference;
use out_file::OutFile;
use rayon::prelude::*;
use recorded::{Recorded, the_past};
use rota_report::Summary;
use serde::Serialize;
use simulate::simulate;

/// What came of it all.
#[derive(Serialize)]
pub struct WhatIf {
    /// The answer, in a sentence.
    pub answer: String,
    pub source: String,
    pub jobs: usize,
    pub cluster: String,
    /// How well the simulator repeats what happened; null where it is not recorded when jobs started.
    pub fidelity: Option<Fidelity>,
    /// What really happened first, then each alternative.
    pub alternatives: Vec<Outcome>,
    pub notes: Vec<String>,
    #[serde(skip)]
    recorded_waits_s: Vec<f64>,
}

/// What came of one alternative.
#[derive(Serialize)]
pub struct Outcome {
    pub name: String,
    /// The figures of `rota sim`. The mean and the 99th percentile of the wait are of the jobs that start both here and in the simulated
    /// past, those that fail included; null if there is none.
    #[serde(flatten)]
    pub summary: Summary,
    /// Jobs that run in the simulated past and do not run here. An alternative that leaves out jobs is never the answer.
    pub jobs_left_out: usize,
    /// The wait of a job minus its wait in the simulated past: mean over the jobs that start in both, and interval.
    pub wait_change: Difference,
    /// The same of the time from arrival to completion, over the jobs that complete in both.
    pub jct_change: Difference,
    #[serde(skip)]
    waits_s: Vec<f64>,
}

/// Runs the command.
pub fn run(args: &WhatIfArgs) -> anyhow::Result<()> {
    let page_file = args.out.as_deref().map(OutFile::create).transpose()?;
    let (past, mut recorded) = the_past(args)?;
    let choices = choices(args, &past, &mut recorded)?;
    let bar = output::progress(choices.len() as u64, "alternatives");
    let simulated = choices.par_iter().map(|choice| {
        let done = simulate(&past, &recorded, choice);
        bar.inc(1);
        done
    });
    let simulated = simulated.collect::<anyhow::Result<Vec<_>>>()?;
    bar.finish_and_clear();
    let whatif = compare(&past, &recorded, &choices, simulated);
    let printed = if args.json { output::print_json(&whatif) } else { output::print(&words::describe(&whatif)) };
    if let (Some(file), Some(path)) = (page_file, &args.out) {
        file.finish(&page::page(&whatif))?;
        output::remark(&format!("wrote {}: open it in a browser", path.display()));
    }
    printed
}

/// The past as it was, and its alternatives. What cannot be simulated is refused before anything is simulated; of the usual alternatives it
/// is only left out.
fn choices(args: &WhatIfArgs, past: &Past, recorded: &mut Recorded) -> anyhow::Result<Vec<Alternative>> {
    let as_it_was = Alternative::as_it_was(&recorded.ran);
    drop(build_policy(&as_it_was.policy, None)?);
    let bound = bind(past, &as_it_was)?.bound;
    let (others, source) = alternatives(args, &recorded.ran, &past.cluster)?;
    let mut choices = vec![as_it_was];
    for other in others {
        drop(build_policy(&other.policy, None)?);
        match bind(past, &other) {
            Ok(_) => choices.push(other),
            Err(why) if source == Source::Usual => recorded.notes.push(format!("not compared: {why:#}")),
            Err(why) => return Err(why),
        }
    }
    let policies = choices.iter().map(|choice| choice.policy.clone()).collect::<Vec<_>>();
    recorded.notes.extend(known_of_lengths(&bound, &policies)?);
    recorded.notes.extend(without_figures(&bound.cluster));
    Ok(choices)
}
