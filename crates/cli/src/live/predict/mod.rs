//! `rota predict`: when waiting jobs are expected to start, and how good such predictions were.

mod score;

use crate::args::PredictArgs;
use crate::live::client::{Client, Failure};
use crate::live::text::{clock_time, columns};
use crate::output;
use rota_daemon::api::{Prediction, Predictions};

/// Runs the command.
pub fn run(args: &PredictArgs) -> anyhow::Result<()> {
    if args.score {
        return score::run(args);
    }
    let expected: Predictions = Client::new(&args.state).get("/api/v1/predictions")?;
    let mut jobs = expected.jobs;
    if !args.ids.is_empty() {
        if let Some(id) = args.ids.iter().find(|id| !jobs.iter().any(|job| job.id == **id)) {
            let text = format!("job {id} does not wait, or arrived a moment ago: `rota show {id}` says where it is");
            return Err(anyhow::Error::new(Failure(text)));
        }
        jobs.retain(|job| args.ids.contains(&job.id));
    }
    if args.json {
        return output::print_json(&jobs);
    }
    if jobs.is_empty() {
        return output::print(expected.note.as_deref().unwrap_or("no job waits"));
    }
    let mut rows = vec![["ID", "PLACE", "STARTS ABOUT", "BETWEEN", "AND", "ENDS ABOUT", "AFTER"].map(str::to_owned).to_vec()];
    rows.extend(jobs.iter().map(row));
    output::print(&columns(&rows, output::table_width()))?;
    output::remark(&format!(
        "nine of ten starts come after the first time and nine of ten before the second; lengths are learned from {} ended jobs",
        expected.learned_from
    ));
    Ok(())
}

fn row(job: &Prediction) -> Vec<String> {
    let at = |time: &Option<String>| time.as_deref().map(clock_time).unwrap_or_default();
    let about = job.start_p50.as_deref().map_or_else(|| "not known".to_owned(), clock_time);
    let jobs = job.depends_on.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
    let after = job.note.clone().unwrap_or(jobs);
    vec![job.id.to_string(), job.position.to_string(), about, at(&job.start_p10), at(&job.start_p90), at(&job.end_p50), after]
}
