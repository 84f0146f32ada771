//! Workloads of Pollux and Sia: `name,time,application,num_replicas,batch_size`.
//!
//! Their own simulators find a job's length from profiles of the application, which the file does not hold. It is read
//! here only if a column says it: `duration`, or `samples`, which with the batch size gives steps.

use crate::cell;
use crate::collect::Collector;
use crate::error::{Fault, Problem, TraceError};
use crate::fields::Header;
use crate::lines::Lines;
use crate::table::each_record;
use rota_core::{Job, Span, Time};

struct Columns {
    name: Option<usize>,
    time: usize,
    application: usize,
    replicas: Option<usize>,
    batch_size: Option<usize>,
    duration: Option<usize>,
    steps: Option<usize>,
    samples: Option<usize>,
    user: Option<usize>,
}

fn bind(header: &Header) -> Result<Columns, Fault> {
    let columns = Columns {
        name: header.find(&["name"]),
        time: header.require(&["time"], "when a job is submitted")?,
        application: header.require(&["application"], "the type of a job")?,
        replicas: header.find(&["num_replicas", "num_gpus"]),
        batch_size: header.find(&["batch_size"]),
        duration: header.find(&["duration", "duration_s", "jct"]),
        steps: header.find(&["steps", "iterations"]),
        samples: header.find(&["samples"]),
        user: header.find(&["user"]),
    };
    let has_samples = columns.samples.is_some() && columns.batch_size.is_some();
    if columns.duration.is_none() && columns.steps.is_none() && !has_samples {
        let meaning = "seconds on `num_replicas` GPUs; or `steps`, with a throughput table that knows the applications";
        return Err(Problem::NoLength { column: "duration", meaning }.into());
    }
    Ok(columns)
}

pub(crate) fn read(lines: &mut Lines<'_>, collector: &mut Collector) -> Result<(), TraceError> {
    each_record(lines, collector, b',', bind, |columns, fields, collector| {
        let submitted = cell::nanos(fields.get(columns.time)).map_err(|problem| problem.within("time"))?;
        let application = cell::name(fields.get(columns.application)).map_err(|problem| problem.within("application"))?;
        let mut job = Job::new(Time(submitted), Span::ZERO);
        if let Some(text) = fields.optional(columns.replicas) {
            job.gpus = cell::gpus(text).map_err(|problem| problem.within("num_replicas"))?;
        }
        if let Some(text) = fields.optional(columns.duration) {
            job.work = cell::span_above_zero(text).map_err(|problem| problem.within("duration"))?;
        }
        if let Some(text) = fields.optional(columns.steps) {
            job.steps = cell::quantity(text, "a number of steps").map_err(|problem| problem.within("steps"))?;
        } else if let (Some(samples), Some(batch_size)) = (fields.optional(columns.samples), fields.optional(columns.batch_size))
        {
            let samples = cell::quantity(samples, "a number of samples").map_err(|problem| problem.within("samples"))?;
            let batch_size = cell::quantity(batch_size, "a batch size").map_err(|problem| problem.within("batch_size"))?;
            job.steps = samples / batch_size;
        }
        if job.work == Span::ZERO && job.steps <= 0.0 {
            return Err(Problem::Missing { wanted: "the seconds the job runs" }.within("duration"));
        }
        let user = cell::name(fields.optional(columns.user).unwrap_or_default()).map_err(|problem| problem.within("user"))?;
        job.kind = collector.names.intern(application);
        job.user = collector.names.intern(user);
        let id = fields.optional(columns.name).map(cell::id).transpose().map_err(|problem| problem.within("name"))?;
        collector.add_logged(job, id)
    })
}
