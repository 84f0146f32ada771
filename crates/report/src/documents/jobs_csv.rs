//! One line a job, for spreadsheets and scripts. A cell is empty where there is nothing to say.

use crate::record::Run;
use rota_core::{Bound, Span, Time};
use std::io::Write;

/// The columns, which scripts rely on.
const COLUMNS: [&str; 13] = [
    "job_id",
    "job_type",
    "gpus",
    "priority",
    "arrival_s",
    "start_s",
    "finish_s",
    "jct_s",
    "wait_s",
    "service_gpu_s",
    "preemptions",
    "energy_wh",
    "status",
];

/// Writes every job of a run. `jct_s` and `wait_s` are filled for completed jobs only, so that a column's mean is
/// the mean in the summary.
pub fn write_jobs_csv(run: &Run, bound: &Bound, output: impl Write) -> Result<(), csv::Error> {
    let mut writer = csv::Writer::from_writer(output);
    writer.write_record(COLUMNS)?;
    for (record, job) in run.jobs.iter().zip(&bound.jobs) {
        let moment = |time: Option<Time>| time.map(|time| number(time.seconds())).unwrap_or_default();
        let span = |span: Option<Span>| span.map(|span| number(span.seconds())).unwrap_or_default();
        writer.write_record([
            job.display_id().as_str(),
            bound.names.text(job.kind),
            &job.gpus.to_string(),
            &job.priority.to_string(),
            &number(job.arrival.seconds()),
            &moment(record.first_start),
            &moment(record.end),
            &span(record.jct(job.arrival)),
            &span(record.wait(job.arrival)),
            &number(record.service.seconds()),
            &record.preemptions.to_string(),
            &number(record.energy_joules / 3600.0),
            record.status.word(),
        ])?;
    }
    writer.flush()?;
    Ok(())
}

/// Microseconds are enough for people, and keep floating-point dust out of files.
fn number(value: f64) -> String {
    let text = format!("{value:.6}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}
