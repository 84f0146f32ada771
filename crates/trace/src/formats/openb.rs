//! Alibaba's 2023 GPU trace (openb): the list of pods is a workload, the list of nodes a cluster.

use crate::cell;
use crate::clock::is_unknown;
use crate::collect::Collector;
use crate::error::{Fault, Problem, TraceError};
use crate::fields::{Fields, Header};
use crate::lines::Lines;
use crate::table::each_record;
use rota_core::{Job, MilliGpu, Span, Time};
use std::fmt::Write as _;

struct Columns {
    name: Option<usize>,
    gpus: usize,
    milli: Option<usize>,
    spec: Option<usize>,
    phase: Option<usize>,
    class: Option<usize>,
    created: usize,
    deleted: usize,
    scheduled: Option<usize>,
}

fn bind(header: &Header) -> Result<Columns, Fault> {
    Ok(Columns {
        name: header.find(&["name"]),
        gpus: header.require(&["num_gpu"], "how many GPUs a pod has")?,
        milli: header.find(&["gpu_milli"]),
        spec: header.find(&["gpu_spec"]),
        phase: header.find(&["pod_phase"]),
        class: header.find(&["qos"]),
        created: header.require(&["creation_time"], "when a pod is submitted")?,
        deleted: header.require(&["deletion_time"], "when a pod ends")?,
        scheduled: header.find(&["scheduled_time"]),
    })
}

/// Reads the pods. A pod runs from when it was scheduled to when it was deleted; its class of service is its job type.
pub(crate) fn read(lines: &mut Lines<'_>, collector: &mut Collector) -> Result<(), TraceError> {
    each_record(lines, collector, b',', bind, row)
}

fn row(columns: &Columns, fields: &Fields, collector: &mut Collector) -> Result<(), Fault> {
    let gpus = cell::gpus_or_none(fields.get(columns.gpus)).map_err(|problem| problem.within("num_gpu"))?;
    if gpus == 0 {
        collector.leave_out("without GPUs");
        return Ok(());
    }
    let created = cell::nanos(fields.get(columns.created)).map_err(|problem| problem.within("creation_time"))?;
    let known = |index: usize| Some(fields.get(index)).filter(|text| !is_unknown(text));
    let Some(deleted) = known(columns.deleted) else {
        collector.leave_out("that had not ended");
        return Ok(());
    };
    let deleted = cell::nanos(deleted).map_err(|problem| problem.within("deletion_time"))?;
    let scheduled = match columns.scheduled {
        None => created,
        Some(index) => {
            let Some(text) = known(index) else {
                collector.leave_out("never started");
                return Ok(());
            };
            cell::nanos(text).map_err(|problem| problem.within("scheduled_time"))?
        }
    };
    let work = deleted
        .checked_sub(scheduled)
        .map(Span)
        .ok_or_else(|| Problem::EndsBeforeStart { by: Span(scheduled - deleted) }.within("deletion_time"))?;
    if work == Span::ZERO {
        collector.leave_out("that ran for no time");
        return Ok(());
    }
    let mut job = Job { gpus, ..Job::new(Time(created), work) };
    if let Some(text) = fields.optional(columns.milli) {
        job.share = milli(text).map_err(|problem| problem.within("gpu_milli"))?;
    }
    if let Some(text) = fields.optional(columns.spec) {
        let names = text.split('|').map(str::trim).filter(|name| !name.is_empty());
        let types = names.map(|name| Ok(collector.names.intern(cell::gpu_type(name)?))).collect::<Result<_, Problem>>();
        job.gpu_types = types.map_err(|problem| problem.within("gpu_spec"))?;
    }
    if let Some(text) = fields.optional(columns.class) {
        let class = cell::name(text).map_err(|problem| problem.within("qos"))?;
        job.kind = collector.names.intern(class);
    }
    let failed = fields.optional(columns.phase).is_some_and(|phase| phase.eq_ignore_ascii_case("failed"));
    job.fails_at = failed.then_some(work);
    let id = fields.optional(columns.name).map(cell::id).transpose().map_err(|problem| problem.within("name"))?;
    collector.add_logged(job, id)
}

/// Thousandths of each GPU.
fn milli(text: &str) -> Result<MilliGpu, Problem> {
    let milli = cell::count(text, "thousandths of a GPU")?;
    let share = u16::try_from(milli).ok().map(MilliGpu).filter(|share| (MilliGpu(1)..=MilliGpu::WHOLE).contains(share));
    share.ok_or_else(|| Problem::out_of_range(text, "thousandths of a GPU from 1 to 1000"))
}

/// What openb calls a GPU type, the type whose figures it has here, and its memory.
const MODELS: [(&str, &str, u32); 5] = [
    ("P100", "p100", 16_384),
    ("T4", "t4", 15_360),
    ("V100M16", "v100", 16_384),
    ("V100M32", "v100", 32_768),
    ("A10", "a10", 24_576),
];

/// A list of nodes (`sn,cpu_milli,memory_mib,gpu,model`) as a cluster file. Types keep openb's names, because pods use them.
pub(crate) fn nodes_to_toml(lines: &mut Lines<'_>, collector: &mut Collector) -> Result<String, TraceError> {
    let mut text = String::new();
    let mut models: Vec<String> = Vec::new();
    each_record(
        lines,
        collector,
        b',',
        |header| {
            let name = header.require(&["sn"], "the name of a node")?;
            let gpus = header.require(&["gpu"], "how many GPUs a node has")?;
            Ok((name, gpus, header.require(&["model"], "the type of a node's GPUs")?))
        },
        |&(name, gpus, model), fields, _| {
            let gpus = cell::gpus_or_none(fields.get(gpus)).map_err(|problem| problem.within("gpu"))?;
            if gpus == 0 {
                return Ok(());
            }
            let name = cell::name(fields.get(name)).map_err(|problem| problem.within("sn"))?;
            let model = cell::name(fields.get(model)).map_err(|problem| problem.within("model"))?;
            if model.is_empty() || model.contains([',', ':']) {
                return Err(Problem::malformed(model, "the name of a GPU type").within("model"));
            }
            if !models.iter().any(|known| known == model) {
                models.push(model.to_owned());
            }
            let _ = writeln!(text, "[[node]]\nname = {}\ngpus = {}", quoted(name), quoted(&format!("{model}:{gpus}")));
            Ok(())
        },
    )?;
    for (model, figures, memory_mib) in MODELS.iter().filter(|(model, ..)| models.iter().any(|known| known == model)) {
        let Ok(cluster) = rota_core::Cluster::from_spec(&format!("{figures}:1"), 1) else {
            continue;
        };
        let figures = &cluster.types[0];
        let _ = write!(text, "[[gpu_type]]\nname = {}\nmemory_mib = {memory_mib}\n", quoted(model));
        let _ = writeln!(
            text,
            "idle_watts = {:?}\nfull_watts = {:?}\nspeed = {:?}",
            figures.idle_watts, figures.full_watts, figures.speed
        );
        if let Some(price) = figures.usd_per_hour {
            let _ = writeln!(text, "usd_per_hour = {price:?}");
        }
    }
    Ok(text)
}

/// A TOML string.
fn quoted(text: &str) -> String {
    toml::Value::String(text.to_owned()).to_string()
}
