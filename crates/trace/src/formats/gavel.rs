//! Gavel's traces: ten columns, the older seven, and its generated workloads with a header.
//!
//! Jobs are given in steps of a job type; a throughput table turns steps into time when the jobs meet a cluster.

use crate::cell;
use crate::collect::{Collector, OrderFields};
use crate::error::{Fault, Problem, TraceError};
use crate::lines::Lines;
use crate::table::{Split, each_record, each_row};
use rota_core::{Job, Span, Time};

const ORDER_FIELDS: OrderFields = OrderFields { arrival: "arrival_time", id: "job_id" };

/// A job of a type, in steps.
fn job_in_steps(job_type: &str, steps: &str, collector: &mut Collector) -> Result<Job, Fault> {
    let name = cell::name(job_type).map_err(|problem| problem.within("job_type"))?;
    if name.is_empty() {
        return Err(Problem::Missing { wanted: "a job type such as `ResNet-18 (batch size 128)`" }.within("job_type"));
    }
    let mut job = Job::new(Time::ZERO, Span::ZERO);
    job.kind = collector.names.intern(name);
    job.steps = cell::quantity(steps, "a number of steps").map_err(|problem| problem.within("total_steps"))?;
    Ok(job)
}

/// Ten columns: job type, command, working directory, name of the steps flag, whether it needs the data directory,
/// total steps, scale factor, priority weight, SLO (negative for none), arrival time.
pub(crate) fn read10(lines: &mut Lines<'_>, collector: &mut Collector) -> Result<(), TraceError> {
    let mut slos = 0_u64;
    each_row(
        lines,
        collector,
        Split::Plainly(b'\t'),
        None,
        |_| {},
        |fields, collector| {
            fields.expect(10)?;
            let mut job = job_in_steps(fields.get(0), fields.get(5), collector)?;
            job.gpus = cell::gpus(fields.get(6)).map_err(|problem| problem.within("scale_factor"))?;
            job.weight =
                cell::quantity(fields.get(7), "a weight above 0").map_err(|problem| problem.within("priority_weight"))?;
            let slo =
                cell::number(fields.get(8), "a multiple of the run time, or -1").map_err(|problem| problem.within("SLO"))?;
            job.arrival = cell::time(fields.get(9)).map_err(|problem| problem.within("arrival_time"))?;
            slos += u64::from(slo >= 0.0);
            collector.add_ordered(job, None, Vec::new(), ORDER_FIELDS)
        },
    )?;
    if slos > 0 {
        collector
            .note(format!("{slos} jobs have an SLO that is not used: it is a multiple of a run time, and the trace has steps"));
    }
    Ok(())
}

/// Seven columns: job type, command, name of the steps flag, whether it needs the data directory, total steps,
/// arrival time, scale factor.
pub(crate) fn read7(lines: &mut Lines<'_>, collector: &mut Collector) -> Result<(), TraceError> {
    each_row(
        lines,
        collector,
        Split::Plainly(b'\t'),
        None,
        |_| {},
        |fields, collector| {
            fields.expect(7)?;
            let mut job = job_in_steps(fields.get(0), fields.get(4), collector)?;
            job.arrival = cell::time(fields.get(5)).map_err(|problem| problem.within("arrival_time"))?;
            job.gpus = cell::gpus(fields.get(6)).map_err(|problem| problem.within("scale_factor"))?;
            collector.add_ordered(job, None, Vec::new(), ORDER_FIELDS)
        },
    )
}

/// A header, steps with a fraction, and the run time on a V100, which serves where no throughput is known.
pub(crate) fn read_tsv(lines: &mut Lines<'_>, collector: &mut Collector) -> Result<(), TraceError> {
    struct Columns {
        id: Option<usize>,
        arrival: usize,
        model: usize,
        scale: usize,
        steps: usize,
        duration: Option<usize>,
        weight: Option<usize>,
        slo: Option<usize>,
    }
    each_record(
        lines,
        collector,
        b'\t',
        |header| {
            Ok(Columns {
                id: header.find(&["job_id"]),
                arrival: header.require(&["arrival_s", "arrival_time"], "when a job is submitted")?,
                model: header.require(&["model", "job_type"], "the type of a job")?,
                scale: header.require(&["scale_factor"], "how many GPUs a job has")?,
                steps: header.require(&["total_steps"], "how long a job runs")?,
                duration: header.find(&["duration_v100_s"]),
                weight: header.find(&["priority", "priority_weight"]),
                slo: header.find(&["slo_mult"]),
            })
        },
        |columns, fields, collector| {
            let mut job = job_in_steps(fields.get(columns.model), fields.get(columns.steps), collector)?;
            job.arrival = cell::time(fields.get(columns.arrival)).map_err(|problem| problem.within("arrival_s"))?;
            job.gpus = cell::gpus(fields.get(columns.scale)).map_err(|problem| problem.within("scale_factor"))?;
            if let Some(text) = fields.optional(columns.duration) {
                job.work = cell::span_above_zero(text).map_err(|problem| problem.within("duration_v100_s"))?;
            }
            if let Some(text) = fields.optional(columns.weight) {
                job.weight = cell::quantity(text, "a weight above 0").map_err(|problem| problem.within("priority"))?;
            }
            let slo = fields.optional(columns.slo).filter(|text| !text.eq_ignore_ascii_case("none"));
            if let Some(text) = slo {
                job.deadline = deadline(text, &job).map_err(|problem| problem.within("slo_mult"))?;
            }
            let id = fields.optional(columns.id).map(cell::id).transpose().map_err(|problem| problem.within("job_id"))?;
            let order = OrderFields { arrival: "arrival_s", ..ORDER_FIELDS };
            collector.add_ordered(job, id, Vec::new(), order)
        },
    )
}

/// The deadline of a multiple of the run time; negative multiples mean none.
fn deadline(text: &str, job: &Job) -> Result<Option<Time>, Problem> {
    let multiple = cell::number(text, "a multiple of the run time, or `None`")?;
    if multiple == 0.0 {
        return Err(Problem::out_of_range(text, "a multiple of the run time above 0, or `None`"));
    }
    if multiple < 0.0 || job.work == Span::ZERO {
        return Ok(None);
    }
    let allowed = "a multiple that ends within 100 years";
    let span = Span::from_seconds(multiple * job.work.seconds()).ok_or_else(|| Problem::out_of_range(text, allowed))?;
    Ok(Some(job.arrival + span))
}
