//! `rota history export`, `rota report`: what really happened, as a trace for the simulator and as a page for people.

use crate::live::args::{HistoryArgs, HistoryVerb, JobWord, ReportArgs};
use crate::live::client::{Client, Failure};
use crate::live::past::speeds::measured;
use crate::output;
use crate::traces::writer_of;
use anyhow::Context;
use rota_core::bind::BadJobs;
use rota_core::{Bound, End, Event, EventKind, GpuId, GpuList, GpuTypeId, JobId, Span, ThroughputTable, Time};
use rota_daemon::Replay;
use rota_daemon::api::{History, Job, PastRun, Status};
use rota_report::{Measured, Reading, Recorder, RecorderOptions, RunMeta};

/// Writes the past as a trace.
pub fn history(args: &HistoryArgs) -> anyhow::Result<()> {
    let HistoryVerb::Export { state, out, since, throughputs } = &args.verb;
    let table_writer = throughputs.as_deref().map(writer_of).transpose()?;
    let client = Client::new(state)?;
    let mut story = story(fetch(&client, since.as_deref())?)?;
    if let Some((writer, path)) = table_writer.zip(throughputs.as_deref()) {
        let table = measured(&super::speeds::fetch(&client)?);
        output::write_file(path, |file| writer(&table, file))?;
        lengths_in_steps(&mut story, &table);
    }
    let is_toml = out.extension().is_some_and(|extension| extension == "toml");
    output::write_file(out, |file| {
        if is_toml { rota_trace::write_toml(&story.workload, file) } else { rota_trace::write_csv(&story.workload, file) }
            .map_err(anyhow::Error::from)
    })?;
    for remark in &story.left_out {
        output::remark(remark);
    }
    let spec = story.cluster.types.iter().enumerate().map(|(index, kind)| {
        let count = story.cluster.gpus.iter().filter(|gpu| gpu.gpu_type == GpuTypeId::from_index(index)).count();
        format!("{}:{count}", kind.name)
    });
    let spec = spec.collect::<Vec<_>>().join(",");
    let speeds = throughputs.as_deref().map_or_else(String::new, |path| format!(" --throughputs {}", path.display()));
    output::remark(&format!(
        "wrote {} jobs to {}; simulate them with `rota sim --trace {} --cluster {spec} --gpus-per-node {}{speeds}`",
        story.jobs.len(),
        out.display(),
        out.display(),
        story.cluster.gpus.len().max(1),
    ));
    Ok(())
}

/// Gives jobs that told their steps, and whose type was measured, their lengths in steps.
fn lengths_in_steps(story: &mut Replay, table: &ThroughputTable) {
    for (job, past) in story.workload.jobs.iter_mut().zip(&story.jobs) {
        let job_type = past.ask.job_type.as_deref().filter(|job_type| table.knows(job_type, past.ask.gpus));
        if let Some(steps) = past.steps.filter(|_| job_type.is_some() && job.fails_at.is_none()) {
            job.steps = steps as f64;
        }
    }
}

/// What the daemon remembers, as a workload on the machine it ran on.
pub fn replay(client: &Client, since: Option<&str>) -> anyhow::Result<Replay> {
    story(fetch(client, since)?)
}

fn fetch(client: &Client, since: Option<&str>) -> anyhow::Result<History> {
    client.get(&since.map_or_else(|| "/api/v1/history".to_owned(), |since| format!("/api/v1/history?since={since}")))
}

fn story(history: History) -> anyhow::Result<Replay> {
    Replay::of(history).map_err(|nothing| anyhow::Error::new(Failure(nothing.to_string())))
}

/// Writes a page about the past: Gantt, use and power of the GPUs, energy of the jobs, tables.
pub fn report(args: &ReportArgs) -> anyhow::Result<()> {
    let client = Client::new(&args.state)?;
    let mut history = fetch(&client, args.since.as_deref())?;
    if !args.what.is_empty() {
        let is_there = |id: u64| history.jobs.iter().any(|job| job.job.id == id);
        if let Some(JobWord::Job(id)) = args.what.iter().find(|word| matches!(word, JobWord::Job(id) if !is_there(*id))) {
            return Err(anyhow::Error::new(Failure(format!("job {id} is not over, or there is no such job"))));
        }
        let is_meant = |job: &Job| {
            args.what.iter().any(|word| match *word {
                JobWord::Job(id) => job.id == id,
                JobWord::Range(first, last) => (first..=last).contains(&job.id),
                JobWord::Group(group) => job.group == Some(group),
            })
        };
        history.jobs.retain(|job| is_meant(&job.job));
    }
    let status: Status = client.get("/api/v1/status")?;
    let samples = std::mem::take(&mut history.samples);
    let uuids = history.gpus.iter().map(|gpu| gpu.uuid.clone()).collect::<Vec<_>>();
    let story = story(history)?;
    let events = events_of(&story, &uuids);
    let bound = Bound::new(story.workload, story.cluster, &ThroughputTable::new("none"), BadJobs::Refuse)?;
    let mut recorder = Recorder::new(&bound, RecorderOptions { timeline: true, restart_cost: Span::ZERO });
    for event in &events {
        recorder.observe(event);
    }
    let end = events.last().map_or(Time::ZERO, |event| event.time_ns);
    let mut run = recorder.finish(end);
    for (record, job) in run.jobs.iter_mut().zip(&story.jobs) {
        if let Some(energy) = job.job.energy_wh {
            record.energy_joules = energy * 3600.0;
        }
    }
    let mut assumptions = vec![format!("what really happened on {}, as its queue recorded it", bound.cluster.nodes[0].name)];
    let reading = |sample: &rota_daemon::api::GpuSample| {
        let at: jiff::Timestamp = sample.at.parse().ok()?;
        Some(Reading {
            gpu: uuids.iter().position(|uuid| *uuid == sample.uuid)?,
            seconds: at.as_second() as f64,
            span_seconds: f64::from(sample.span_seconds),
            utilisation_percent: sample.utilisation_percent,
            power_watts: sample.power_watts,
        })
    };
    let measured = Measured::new(samples.iter().filter_map(reading));
    let energy = measured.energy_joules();
    assumptions.extend(story.left_out);
    if energy.is_some() {
        assumptions.push("energy and power are measured, not modelled".to_owned());
    }
    let meta = RunMeta {
        policy: status.policy,
        mechanism: "live".to_owned(),
        events: events.len() as u64,
        assumptions,
        ..RunMeta::default()
    };
    let mut summary = rota_report::summarise(&run, &bound, &meta);
    if let Some(joules) = energy {
        summary.energy_kwh = Some(joules / 3.6e6);
    }
    let names = bound
        .cluster
        .gpus
        .iter()
        .enumerate()
        .map(|(index, gpu)| format!("GPU {index} ({})", bound.cluster.types[gpu.gpu_type.index()].name));
    let picture = measured.picture(&names.collect::<Vec<_>>());
    let page = rota_report::page_with(&[(run, summary, meta)], &bound, picture.as_deref()).context("making the page")?;
    output::write_file(&args.out, |file| Ok(file.write_all(page.as_bytes())?))?;
    output::remark(&format!("wrote {}: open it in a browser", args.out.display()));
    Ok(())
}

/// The runs as the events of one world.
fn events_of(story: &Replay, uuids: &[String]) -> Vec<Event> {
    let mut events = Vec::new();
    for (index, past) in story.jobs.iter().enumerate() {
        let job = JobId::from_index(index);
        let at = |ns: u64| Time(ns.saturating_sub(story.zero_ns));
        events.push((0, Event { time_ns: at(past.arrived_at_ns), kind: EventKind::Submitted { job } }));
        for (position, run) in past.runs.iter().enumerate() {
            let gpus =
                run.gpu_uuids.iter().filter_map(|uuid| uuids.iter().position(|known| known == uuid)).map(GpuId::from_index);
            let gpus = gpus.collect::<GpuList>();
            // A GPU that is not there any more cannot be drawn.
            if gpus.len() != past.ask.gpus as usize {
                continue;
            }
            events.push((2, Event { time_ns: at(run.start_ns), kind: EventKind::started(job, gpus) }));
            events.push((1, Event { time_ns: at(run.end_ns), kind: end_of(job, run, position + 1 == past.runs.len()) }));
        }
    }
    events.sort_by_key(|(order, event)| (event.time_ns, *order));
    events.into_iter().map(|(_, event)| event).collect()
}

fn end_of(job: JobId, run: &PastRun, is_last: bool) -> EventKind {
    // A job whose last attempt was to be tried again was not tried again in the stretch that is looked at.
    let end = rota_daemon::end_of_word(&run.end).filter(|end| end.is_over() || !is_last || *end != End::Retried);
    EventKind::ended(job, end.unwrap_or(End::Crashed))
}
