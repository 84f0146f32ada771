//! The task table of Alibaba's 2020 GPU trace (`pai_task_table.csv`), with or without the header that is published apart.
//!
//! Each task with GPUs becomes a job: its instances are a gang. `plan_gpu` is in per cent of a GPU.

use crate::cell::{self, GANG_MAX};
use crate::clock::is_unknown;
use crate::collect::Collector;
use crate::error::{Fault, Problem, TraceError};
use crate::fields::{Fields, Header};
use crate::lines::Lines;
use crate::table::{Split, each_row};
use rota_core::{Job, MilliGpu, Span, Time};

#[derive(Clone, Copy)]
struct Columns {
    width: usize,
    job: usize,
    task: Option<usize>,
    instances: Option<usize>,
    user: Option<usize>,
    status: Option<usize>,
    start: usize,
    end: usize,
    gpu_percent: usize,
    gpu_type: Option<usize>,
}

/// The ten columns of the published table.
const PUBLISHED: Columns = Columns {
    width: 10,
    job: 0,
    task: Some(1),
    instances: Some(2),
    user: None,
    status: Some(3),
    start: 4,
    end: 5,
    gpu_percent: 8,
    gpu_type: Some(9),
};

fn bind(fields: &Fields) -> Result<Columns, Fault> {
    let header = Header::new(fields)?;
    if header.find(&["plan_gpu"]).is_none() && header.find(&["inst_id"]).is_some() {
        return Err(Problem::NoGpuColumn.within("plan_gpu"));
    }
    Ok(Columns {
        width: fields.len(),
        job: header.require(&["job_name"], "the name of a job")?,
        task: header.find(&["task_name"]),
        instances: header.find(&["inst_num", "inst_number"]),
        user: header.find(&["user"]),
        status: header.find(&["status"]),
        start: header.require(&["start_time"], "when a job starts")?,
        end: header.require(&["end_time"], "when a job ends")?,
        gpu_percent: header.require(&["plan_gpu"], "how many GPUs a job has")?,
        gpu_type: header.find(&["gpu_type"]),
    })
}

pub(crate) fn read(lines: &mut Lines<'_>, collector: &mut Collector) -> Result<(), TraceError> {
    let mut columns = None;
    let mut header_fault = None;
    each_row(
        lines,
        collector,
        Split::At(b','),
        Some('#'),
        |_| {},
        |fields, collector| {
            if header_fault.is_some() {
                return Ok(());
            }
            let columns = match columns {
                Some(columns) => columns,
                None if fields.get(0).eq_ignore_ascii_case("job_name") => {
                    match bind(fields) {
                        Ok(bound) => columns = Some(bound),
                        // Without columns there is nothing to read, whether or not bad lines are skipped.
                        Err(fault) => header_fault = Some(fault),
                    }
                    return Ok(());
                }
                None => *columns.insert(PUBLISHED),
            };
            row(&columns, fields, collector)
        },
    )?;
    if let Some(fault) = header_fault {
        return Err(collector.error(1, fault));
    }
    collector.note("start times stand in for submission times, which the table does not have");
    Ok(())
}

fn row(columns: &Columns, fields: &Fields, collector: &mut Collector) -> Result<(), Fault> {
    fields.expect(columns.width)?;
    let known = |index: usize| Some(fields.get(index)).filter(|text| !is_unknown(text));
    let percent = match known(columns.gpu_percent) {
        None => 0.0,
        Some(text) => gpu_percent(text).map_err(|problem| problem.within("plan_gpu"))?,
    };
    let instances = match columns.instances.and_then(known) {
        None => 1,
        Some(text) => cell::gpus_or_none(text).map_err(|problem| problem.within("inst_num"))?,
    };
    let status = fields.optional(columns.status).unwrap_or_default().to_ascii_lowercase();
    let (Some(start), Some(end)) = (known(columns.start), known(columns.end)) else {
        collector.leave_out(if percent == 0.0 { "without GPUs" } else { "that had not ended" });
        return Ok(());
    };
    let start = cell::nanos(start).map_err(|problem| problem.within("start_time"))?;
    let end = cell::nanos(end).map_err(|problem| problem.within("end_time"))?;
    if percent == 0.0 || instances == 0 {
        collector.leave_out("without GPUs");
        return Ok(());
    }
    if matches!(status.as_str(), "running" | "waiting") || end == 0 {
        collector.leave_out("that had not ended");
        return Ok(());
    }
    let work =
        end.checked_sub(start).map(Span).ok_or_else(|| Problem::EndsBeforeStart { by: Span(start - end) }.within("end_time"))?;
    if work == Span::ZERO {
        collector.leave_out("that ran for no time");
        return Ok(());
    }
    let mut job = Job::new(Time(start), work);
    let per_instance = (percent / 100.0).ceil() as u32;
    job.gpus = per_instance.checked_mul(instances).filter(|&gpus| gpus <= GANG_MAX).ok_or_else(|| {
        Problem::out_of_range(fields.optional(columns.instances).unwrap_or_default(), "at most 1000000 GPUs in all")
            .within("inst_num")
    })?;
    if percent < 100.0 {
        job.share = MilliGpu::from_fraction(percent / 100.0).unwrap_or(MilliGpu(1));
    }
    if let Some(text) = columns.gpu_type.and_then(known) {
        let name = cell::gpu_type(text).map_err(|problem| problem.within("gpu_type"))?;
        job.gpu_types = Box::new([collector.names.intern(name)]);
    }
    let user = cell::name(fields.optional(columns.user).unwrap_or_default()).map_err(|problem| problem.within("user"))?;
    job.user = collector.names.intern(user);
    if let Some(task) = fields.optional(columns.task) {
        let task = cell::name(task).map_err(|problem| problem.within("task_name"))?;
        job.kind = collector.names.intern(task);
    }
    job.fails_at = (status == "failed").then_some(work);
    let id = cell::id(fields.get(columns.job)).map_err(|problem| problem.within("job_name"))?;
    collector.add_logged(job, Some(id))
}

/// Per cent of a GPU, at most a million GPUs.
fn gpu_percent(text: &str) -> Result<f64, Problem> {
    let percent = cell::number(text, "per cent of a GPU")?;
    let allowed = "per cent of a GPU: 100 is one, 50 half of one";
    if (0.0..=f64::from(GANG_MAX) * 100.0).contains(&percent) { Ok(percent) } else { Err(Problem::out_of_range(text, allowed)) }
}
