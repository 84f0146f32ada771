//! What Slurm's `sacct -P` prints: a table with `|` between its columns.
//!
//! Steps of jobs (`123.batch`) are ignored, jobs without GPUs and jobs that had not ended are left out. A time limit is
//! the user's estimate. A job that was queued again is listed once for each run (`sacct --duplicates`), and each run is a job
//! here. A job that could not start when it was submitted, because it was held, waited for another job or was to begin later, comes when it
//! could (`Eligible`). GPUs are in `AllocTRES` and `ReqTRES`; Slurm 20.11 also has `AllocGRES` and `ReqGRES`, in other words.

use crate::cell::{self, GANG_MAX};
use crate::clock::{elapsed, is_unknown, moment};
use crate::collect::Collector;
use crate::error::{Fault, Problem, TraceError};
use crate::fields::{Fields, Header};
use crate::lines::Lines;
use crate::table::each_record;
use rota_core::{Job, Span, Time};

/// The columns that say how many GPUs a job has, the best first.
const RESOURCES: [&str; 4] = ["AllocTRES", "AllocGRES", "ReqTRES", "ReqGRES"];

struct Columns {
    id: usize,
    user: Option<usize>,
    account: Option<usize>,
    state: usize,
    submit: usize,
    eligible: Option<usize>,
    start: Option<usize>,
    end: Option<usize>,
    elapsed_seconds: Option<usize>,
    elapsed: Option<usize>,
    limit_minutes: Option<usize>,
    limit: Option<usize>,
    resources: Vec<usize>,
    priority: Option<usize>,
}

fn bind(header: &Header) -> Result<Columns, Fault> {
    let columns = Columns {
        id: header.require(&["JobID", "JobIDRaw"], "telling jobs from their steps")?,
        user: header.find(&["User", "Account"]),
        account: header.find(&["Account"]),
        state: header.require(&["State"], "how a job ended")?,
        submit: header.require(&["Submit"], "when a job is submitted")?,
        eligible: header.find(&["Eligible"]),
        start: header.find(&["Start"]),
        end: header.find(&["End"]),
        elapsed_seconds: header.find(&["ElapsedRaw"]),
        elapsed: header.find(&["Elapsed"]),
        limit_minutes: header.find(&["TimelimitRaw"]),
        limit: header.find(&["Timelimit"]),
        resources: RESOURCES.iter().filter_map(|&name| header.find(&[name])).collect(),
        priority: header.find(&["Priority"]),
    };
    if columns.resources.is_empty() {
        return Err(Problem::MissingColumn { wanted: "how many GPUs a job has (or `ReqTRES`)" }.within("AllocTRES"));
    }
    if columns.elapsed_seconds.or(columns.elapsed).is_none() && (columns.start.is_none() || columns.end.is_none()) {
        return Err(
            Problem::MissingColumn { wanted: "how long a job ran (or `Elapsed`, or `Start` and `End`)" }.within("ElapsedRaw")
        );
    }
    Ok(columns)
}

pub(crate) fn read(lines: &mut Lines<'_>, collector: &mut Collector) -> Result<(), TraceError> {
    each_record(lines, collector, b'|', bind, row)
}

fn row(columns: &Columns, fields: &Fields, collector: &mut Collector) -> Result<(), Fault> {
    let id = cell::id(fields.get(columns.id)).map_err(|problem| problem.within("JobID"))?;
    if id.contains('.') {
        return Ok(());
    }
    // `CANCELLED by 1000` is cancelled.
    let state =
        fields.get(columns.state).split_ascii_whitespace().next().unwrap_or_default().trim_end_matches('+').to_ascii_uppercase();
    let (gpus, gpu_type) = resources(columns, fields)?;
    if gpus == 0 {
        collector.leave_out("without GPUs");
        return Ok(());
    }
    let is_open = matches!(state.as_str(), "PENDING" | "RUNNING" | "SUSPENDED" | "RESIZING" | "COMPLETING" | "CONFIGURING");
    let has_end = columns.end.is_none_or(|index| !is_unknown(fields.get(index)));
    if is_open || !has_end {
        collector.leave_out("that had not ended");
        return Ok(());
    }
    let Some(work) = length(columns, fields)?.filter(|&work| work > Span::ZERO) else {
        collector.leave_out("that never ran");
        return Ok(());
    };
    let submit = moment(fields.get(columns.submit)).map_err(|problem| problem.within("Submit"))?;
    let eligible = fields.optional(columns.eligible).filter(|text| !is_unknown(text)).map(moment).transpose();
    let arrival = eligible.map_err(|problem| problem.within("Eligible"))?.map_or(submit, |eligible| eligible.max(submit));
    let mut job = Job { gpus, estimate: limit(columns, fields)?, ..Job::new(Time(arrival), work) };
    if let Some(name) = gpu_type {
        let name = cell::gpu_type(name).map_err(|problem| problem.within("AllocTRES"))?;
        job.gpu_types = Box::new([collector.names.intern(name)]);
    }
    let failed = matches!(state.as_str(), "FAILED" | "NODE_FAIL" | "OUT_OF_MEMORY" | "BOOT_FAIL");
    job.fails_at = failed.then_some(work);
    if let Some(text) = fields.optional(columns.priority).filter(|text| !is_unknown(text)) {
        // Slurm's priorities fill 32 bits without a sign; ours have one.
        let priority = cell::count(text, "a whole number").map_err(|problem| problem.within("Priority"))?;
        job.priority = i32::try_from(priority).unwrap_or(i32::MAX);
    }
    let user = cell::name(fields.optional(columns.user).unwrap_or_default()).map_err(|problem| problem.within("User"))?;
    job.user = collector.names.intern(user);
    let account =
        cell::name(fields.optional(columns.account).unwrap_or_default()).map_err(|problem| problem.within("Account"))?;
    job.project = collector.names.intern(account);
    if let Some(start) = fields.optional(columns.start).filter(|text| !is_unknown(text)) {
        let start = moment(start).map_err(|problem| problem.within("Start"))?;
        collector.note_start(arrival, start);
    }
    collector.add_logged(job, Some(id))
}

/// GPUs of `billing=8,cpu=8,gres/gpu=2,gres/gpu:a100=2,mem=64G,node=1`, or of `gpu:a100:2` as older versions write it, with their
/// type if it is one.
fn resources<'f>(columns: &Columns, fields: &'f Fields) -> Result<(u32, Option<&'f str>), Fault> {
    for &index in &columns.resources {
        let mut total = None;
        let mut by_type = 0_u32;
        let mut types = Vec::new();
        for part in fields.get(index).split(',') {
            let Some((resource, count)) = part.split_once('=').or_else(|| older(part)) else { continue };
            let resource = resource.trim();
            let Some(rest) = resource.strip_prefix("gres/gpu").or_else(|| resource.strip_prefix("gpu")) else { continue };
            if rest.is_empty() {
                total = Some(cell::gpus_or_none(count.trim()).map_err(|problem| problem.within("AllocTRES"))?);
            } else if let Some(name) = rest.strip_prefix(':') {
                let count = cell::gpus_or_none(count.trim()).map_err(|problem| problem.within("AllocTRES"))?;
                by_type = by_type.saturating_add(count);
                types.push(name);
            }
        }
        let gpus = total.unwrap_or(by_type);
        if gpus > GANG_MAX {
            return Err(Problem::out_of_range(fields.get(index), "a number of GPUs from 0 to 1000000").within("AllocTRES"));
        }
        if gpus > 0 {
            return Ok((gpus, if let [one] = types[..] { Some(one) } else { None }));
        }
    }
    Ok((0, None))
}

/// The resource and the count of `gpu:a100:2` or `gres:gpu:2(S:0-1)`; `gpu` alone is one.
fn older(part: &str) -> Option<(&str, &str)> {
    let part = part.split('(').next()?.trim();
    let part = part.strip_prefix("gres:").or_else(|| part.strip_prefix("gres/")).unwrap_or(part);
    match part.rsplit_once(':') {
        Some((resource, count)) if count.bytes().all(|byte| byte.is_ascii_digit()) => Some((resource, count)),
        _ => Some((part, "1")),
    }
}

/// How long the job ran, if it did.
fn length(columns: &Columns, fields: &Fields) -> Result<Option<Span>, Fault> {
    if let Some(text) = fields.optional(columns.elapsed_seconds) {
        return cell::span(text).map(Some).map_err(|problem| problem.within("ElapsedRaw"));
    }
    if let Some(text) = fields.optional(columns.elapsed) {
        return elapsed(text).map(Some).map_err(|problem| problem.within("Elapsed"));
    }
    let known = |index| fields.optional(index).filter(|text| !is_unknown(text));
    let (Some(start), Some(end)) = (known(columns.start), known(columns.end)) else {
        return Ok(None);
    };
    let start = moment(start).map_err(|problem| problem.within("Start"))?;
    let end = moment(end).map_err(|problem| problem.within("End"))?;
    let nanos = end.checked_sub(start).ok_or_else(|| Problem::EndsBeforeStart { by: Span(start - end) }.within("End"))?;
    Ok(Some(Span(nanos)))
}

/// The time limit, if there is one.
fn limit(columns: &Columns, fields: &Fields) -> Result<Option<Span>, Fault> {
    let is_given = |text: &&str| {
        !is_unknown(text) && !["unlimited", "partition_limit", "invalid"].contains(&text.to_ascii_lowercase().as_str())
    };
    if let Some(text) = fields.optional(columns.limit_minutes).filter(is_given) {
        let minutes = cell::count(text, "a whole number of minutes").map_err(|problem| problem.within("TimelimitRaw"))?;
        let span = Span::from_seconds(f64::from(minutes) * 60.0);
        let span = span.ok_or_else(|| Problem::out_of_range(text, "at most 100 years").within("TimelimitRaw"))?;
        return Ok(Some(span).filter(|&span| span > Span::ZERO));
    }
    let span = fields
        .optional(columns.limit)
        .filter(is_given)
        .map(elapsed)
        .transpose()
        .map_err(|problem| problem.within("Timelimit"))?;
    Ok(span.filter(|&span| span > Span::ZERO))
}
