//! `rota predict`: when waiting jobs are expected to start, and how good such predictions were.

mod score;

use crate::args::PredictArgs;
use crate::live::client::{Client, Failure};
use crate::live::text::{clock_time, columns};
use crate::output;
use crate::whatif::words::duration;
use rota_daemon::api::{EarlierPredictions, JobState, Prediction, Predictions};

/// What is said between the start of a daemon and its first forecast.
const NOT_YET: &str = "no prediction has been made yet; try again in a few seconds";

/// Runs the command.
pub fn run(args: &PredictArgs) -> anyhow::Result<()> {
    if args.score {
        return score::run(args);
    }
    let client = Client::new(&args.state);
    let expected: Predictions = client.get("/api/v1/predictions")?;
    let nothing = why_nothing(&expected);
    let mut jobs = expected.jobs;
    if !args.ids.is_empty() {
        if let Some(id) = args.ids.iter().find(|id| !jobs.iter().any(|job| job.id == **id)) {
            // The daemon refuses a job that is not there.
            let job: JobInBrief = client.get(&format!("/api/v1/jobs/{id}"))?;
            return Err(anyhow::Error::new(Failure(nothing.unwrap_or_else(|| why_not(*id, job.state)))));
        }
        jobs.retain(|job| args.ids.contains(&job.id));
    }
    if args.json {
        // An empty list alone would say that no job waits.
        if let Some(why) = nothing {
            output::remark(&why);
        }
        return output::print_json(&jobs);
    }
    if jobs.is_empty() {
        return output::print(nothing.as_deref().unwrap_or("no job waits"));
    }
    let mut rows = vec![["ID", "PLACE", "STARTS ABOUT", "BETWEEN", "AND", "ENDS ABOUT", "AFTER"].map(str::to_owned).to_vec()];
    rows.extend(jobs.iter().map(row));
    output::print(&columns(&rows, output::table_width()))?;
    let ended = expected.learned_from;
    output::remark(&format!(
        "nine of ten jobs start after BETWEEN, and nine of ten before AND; lengths are learned from {ended} ended job{}",
        if ended == 1 { "" } else { "s" }
    ));
    if let Some(earlier) = expected.earlier {
        output::remark(&how_earlier_ones_were(&earlier));
    }
    Ok(())
}

fn how_earlier_ones_were(earlier: &EarlierPredictions) -> String {
    let EarlierPredictions { jobs, coverage_p10_p90, error_median_s } = *earlier;
    format!(
        "of the last {jobs} jobs whose start was predicted, {:.0} % started between the two, and half of them within {} of STARTS ABOUT",
        100.0 * coverage_p10_p90,
        duration(error_median_s)
    )
}

/// Why nothing is predicted of any job, where that is so.
fn why_nothing(expected: &Predictions) -> Option<String> {
    expected.note.clone().or_else(|| expected.made_at.is_none().then(|| NOT_YET.to_owned()))
}

/// What is asked of a job that nothing is predicted of.
#[derive(serde::Deserialize)]
struct JobInBrief {
    state: JobState,
}

/// Why nothing is predicted of one job.
fn why_not(id: u64, state: JobState) -> String {
    match state {
        JobState::Waiting | JobState::Held => format!("job {id} arrived a moment ago; try again in a few seconds"),
        _ => format!("job {id} does not wait: it is {}", state.word()),
    }
}

fn row(job: &Prediction) -> Vec<String> {
    let at = |time: &Option<String>| time.as_deref().map(clock_time).unwrap_or_default();
    let about = job.start_p50.as_deref().map_or_else(|| "not known".to_owned(), clock_time);
    let jobs = job.depends_on.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
    // The column before says that it is not known.
    let why = |note: &String| note.trim_start_matches("not known").trim_start_matches([':', ' ']).to_owned();
    let after = job.note.as_ref().map_or(jobs, why);
    let position = if job.start_p50.is_some() { job.position.to_string() } else { "-".to_owned() };
    vec![job.id.to_string(), position, about, at(&job.start_p10), at(&job.start_p90), at(&job.end_p50), after]
}
