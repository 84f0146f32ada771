//! The Philly trace as a table: `timestamp,duration,num_gpus,gpu_time,cluster`. The virtual cluster is the user.

use crate::cell;
use crate::clock::moment;
use crate::collect::Collector;
use crate::error::TraceError;
use crate::lines::Lines;
use crate::table::each_record;
use rota_core::{Job, Time};

pub(crate) fn read(lines: &mut Lines<'_>, collector: &mut Collector) -> Result<(), TraceError> {
    each_record(
        lines,
        collector,
        b',',
        |header| {
            let submitted = header.require(&["timestamp"], "when a job is submitted")?;
            let duration = header.require(&["duration"], "how long a job runs")?;
            let gpus = header.require(&["num_gpus"], "how many GPUs a job has")?;
            Ok((submitted, duration, gpus, header.find(&["cluster", "vc"])))
        },
        |&(submitted, duration, gpus, cluster), fields, collector| {
            let submitted = moment(fields.get(submitted)).map_err(|problem| problem.within("timestamp"))?;
            let work = cell::span(fields.get(duration)).map_err(|problem| problem.within("duration"))?;
            let gpus = cell::gpus(fields.get(gpus)).map_err(|problem| problem.within("num_gpus"))?;
            let user = cell::name(fields.optional(cluster).unwrap_or_default()).map_err(|problem| problem.within("cluster"))?;
            if work.0 == 0 {
                collector.leave_out("that ran for no time");
                return Ok(());
            }
            let user = collector.names.intern(user);
            collector.add_logged(Job { gpus, user, ..Job::new(Time(submitted), work) }, None)
        },
    )
}
