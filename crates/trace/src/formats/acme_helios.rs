//! Job logs of the Helios clusters (Venus, Earth, Saturn, Uranus; 2020) and of Acme (Shanghai AI Lab, 2023), both from Slurm-like schedulers.

use crate::cell;
use crate::clock::{is_unknown, moment};
use crate::collect::Collector;
use crate::error::{Fault, Problem, TraceError};
use crate::fields::{Fields, Header};
use crate::lines::Lines;
use crate::table::each_record;
use rota_core::{Job, Span, Time};

struct Columns {
    id: Option<usize>,
    user: Option<usize>,
    project: Option<usize>,
    kind: Option<usize>,
    gpus: usize,
    state: Option<usize>,
    submit: usize,
    start: Option<usize>,
    end: Option<usize>,
    duration: Option<usize>,
}

fn bind(header: &Header) -> Result<Columns, Fault> {
    let columns = Columns {
        id: header.find(&["job_id"]),
        user: header.find(&["user", "vc"]),
        project: header.find(&["vc"]),
        kind: header.find(&["type"]),
        gpus: header.require(&["gpu_num"], "how many GPUs a job has")?,
        state: header.find(&["state"]),
        submit: header.require(&["submit_time"], "when a job is submitted")?,
        start: header.find(&["start_time"]),
        end: header.find(&["end_time"]),
        duration: header.find(&["duration"]),
    };
    if columns.duration.is_none() && (columns.start.is_none() || columns.end.is_none()) {
        return Err(Problem::MissingColumn { wanted: "how long a job runs (or `start_time` and `end_time`)" }.within("duration"));
    }
    Ok(columns)
}

pub(crate) fn read(lines: &mut Lines<'_>, collector: &mut Collector) -> Result<(), TraceError> {
    each_record(lines, collector, b',', bind, |columns, fields, collector| {
        let submit = moment(fields.get(columns.submit)).map_err(|problem| problem.within("submit_time"))?;
        let gpus = cell::gpus_or_none(fields.get(columns.gpus)).map_err(|problem| problem.within("gpu_num"))?;
        let state = fields.optional(columns.state).unwrap_or_default().to_ascii_uppercase();
        let is_over = !matches!(state.as_str(), "RUNNING" | "PENDING" | "SUSPENDED");
        let work = if is_over { length(columns, fields)? } else { None };
        let reason = match work {
            _ if gpus == 0 => "without GPUs",
            _ if !is_over => "that had not ended",
            None => "without an end",
            Some(Span::ZERO) => "that ran for no time",
            Some(work) => {
                let id = fields.optional(columns.id).map(cell::id).transpose().map_err(|problem| problem.within("job_id"))?;
                let user =
                    cell::name(fields.optional(columns.user).unwrap_or_default()).map_err(|problem| problem.within("user"))?;
                let kind =
                    cell::name(fields.optional(columns.kind).unwrap_or_default()).map_err(|problem| problem.within("type"))?;
                let project =
                    cell::name(fields.optional(columns.project).unwrap_or_default()).map_err(|problem| problem.within("vc"))?;
                let (user, kind) = (collector.names.intern(user), collector.names.intern(kind));
                let project = collector.names.intern(project);
                let failed = matches!(state.as_str(), "FAILED" | "NODE_FAIL" | "OUT_OF_MEMORY");
                let job = Job { gpus, user, project, kind, fails_at: failed.then_some(work), ..Job::new(Time(submit), work) };
                if let Some(Ok(start)) = fields.optional(columns.start).filter(|text| !is_unknown(text)).map(moment) {
                    collector.note_start(submit, start);
                }
                return collector.add_logged(job, id);
            }
        };
        collector.leave_out(reason);
        Ok(())
    })
}

/// The duration given, or else the time from start to end.
fn length(columns: &Columns, fields: &Fields) -> Result<Option<Span>, Fault> {
    if let Some(text) = fields.optional(columns.duration).filter(|text| !is_unknown(text)) {
        return cell::span(text).map(Some).map_err(|problem| problem.within("duration"));
    }
    let known = |index| fields.optional(index).filter(|text| !is_unknown(text));
    let (Some(start), Some(end)) = (known(columns.start), known(columns.end)) else {
        return Ok(None);
    };
    let start = moment(start).map_err(|problem| problem.within("start_time"))?;
    let end = moment(end).map_err(|problem| problem.within("end_time"))?;
    let nanos = end.checked_sub(start).ok_or_else(|| Problem::EndsBeforeStart { by: Span(start - end) }.within("end_time"))?;
    Ok(Some(Span(nanos)))
}
