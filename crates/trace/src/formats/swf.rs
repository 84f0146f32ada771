//! The Standard Workload Format of the Parallel Workloads Archive: 18 numbers a line, `;` for the header. A processor is a GPU.

use crate::cell;
use crate::collect::{Collector, LogZero};
use crate::error::{Fault, Problem, TraceError};
use crate::fields::Fields;
use crate::lines::Lines;
use crate::table::{Split, each_row};
use rota_core::{Job, Span, Time};

/// What the columns are, for messages.
const COLUMNS: [&str; 18] = [
    "job number",
    "submit time",
    "wait time",
    "run time",
    "allocated processors",
    "average CPU time",
    "used memory",
    "requested processors",
    "requested time",
    "requested memory",
    "status",
    "user",
    "group",
    "executable",
    "queue",
    "partition",
    "preceding job",
    "think time",
];
const NUMBER: usize = 0;
const SUBMIT: usize = 1;
const WAIT: usize = 2;
const RUN_TIME: usize = 3;
const ALLOCATED: usize = 4;
const REQUESTED: usize = 7;
const REQUESTED_TIME: usize = 8;
const STATUS: usize = 10;
const USER: usize = 11;
const GROUP: usize = 12;

/// Reads the jobs; gives the zero of their times.
pub(crate) fn read(lines: &mut Lines<'_>, collector: &mut Collector) -> Result<LogZero, TraceError> {
    let mut zero = LogZero::Seconds;
    each_row(
        lines,
        collector,
        Split::AtBlanks,
        Some(';'),
        |comment| {
            if let Some((_, text)) = comment.split_once("UnixStartTime:")
                && let Ok(nanos) = cell::nanos(text.trim())
                && nanos > 0
            {
                zero = LogZero::DateAt(nanos);
            }
        },
        row,
    )?;
    Ok(zero)
}

/// A column, unless it says -1, which is "not known".
fn known(fields: &Fields, index: usize) -> Option<&str> {
    Some(fields.get(index)).filter(|text| *text != "-1")
}

fn row(fields: &Fields, collector: &mut Collector) -> Result<(), Fault> {
    fields.expect(COLUMNS.len())?;
    let within = |index: usize| move |problem: Problem| problem.within(COLUMNS[index]);
    let submit = cell::nanos(fields.get(SUBMIT)).map_err(within(SUBMIT))?;
    let Some(run_time) = known(fields, RUN_TIME) else {
        collector.leave_out("without a run time");
        return Ok(());
    };
    let work = cell::span(run_time).map_err(within(RUN_TIME))?;
    let asked = known(fields, REQUESTED).filter(|text| *text != "0");
    let (index, processors) = match asked {
        Some(text) => (REQUESTED, text),
        None => (ALLOCATED, known(fields, ALLOCATED).unwrap_or("0")),
    };
    let gpus = cell::gpus_or_none(processors).map_err(within(index))?;
    if gpus == 0 || work == Span::ZERO {
        collector.leave_out(if gpus == 0 { "without processors" } else { "that ran for no time" });
        return Ok(());
    }
    let mut job = Job { gpus, ..Job::new(Time(submit), work) };
    if let Some(text) = known(fields, REQUESTED_TIME).filter(|text| *text != "0") {
        job.estimate = Some(cell::span_above_zero(text).map_err(within(REQUESTED_TIME))?);
    }
    // 0 is failed, 5 cancelled; 1 is completed and 2 to 4 are parts of a job.
    let status =
        known(fields, STATUS).map(|text| cell::count(text, "a status from 0 to 5")).transpose().map_err(within(STATUS))?;
    job.fails_at = matches!(status, Some(0 | 5)).then_some(work);
    if let Some(user) = known(fields, USER) {
        job.user = collector.names.intern(cell::name(user).map_err(within(USER))?);
    }
    if let Some(group) = known(fields, GROUP) {
        // Users and groups are numbers that have nothing to do with each other.
        job.project = collector.names.intern(&format!("group {}", cell::name(group).map_err(within(GROUP))?));
    }
    if let Some(wait) = known(fields, WAIT) {
        collector.note_wait(cell::span(wait).map_err(within(WAIT))?);
    }
    let id = cell::id(fields.get(NUMBER)).map_err(within(NUMBER))?;
    collector.add_logged(job, Some(id))
}
