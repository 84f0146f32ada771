//! `rota history export`, `rota report`: what really happened, as a trace for the simulator and as a page for people.

use crate::live::args::{HistoryArgs, HistoryVerb, JobWord, ReportArgs};
use crate::live::client::{Client, Failure};
use crate::live::past::facts;
use crate::live::past::speeds::measured;
use crate::output;
use crate::traces::writer_of;
use crate::whatif::words::counted;
use anyhow::Context;
use rota_core::bind::BadJobs;
use rota_core::{Bound, GpuTypeId, Span, ThroughputTable, Time};
use rota_daemon::api::{GpuSample, History, Job, Status, Usage};
use rota_daemon::{Outside, Replay};
use rota_report::{Gauges, LivePage, Origin, Reading, Recorder, RecorderOptions, Run, RunMeta};

/// Writes the past as a trace.
pub fn history(args: &HistoryArgs) -> anyhow::Result<()> {
    let HistoryVerb::Export { state, out, since, throughputs } = &args.verb;
    let table_writer = throughputs.as_deref().map(writer_of).transpose()?;
    let client = Client::new(state);
    let mut story = replay(&client, since.as_deref())?;
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
    for remark in story.left_out.iter().chain(&story.not_held(Outside::Ignored)) {
        output::remark(remark);
    }
    let spec = story.cluster.types.iter().enumerate().map(|(index, kind)| {
        let count = story.cluster.gpus.iter().filter(|gpu| gpu.gpu_type == GpuTypeId::from_index(index)).count();
        format!("{}:{count}", kind.name)
    });
    let spec = spec.collect::<Vec<_>>().join(",");
    let speeds = throughputs.as_deref().map_or_else(String::new, |path| format!(" --throughputs {}", path.display()));
    output::remark(&format!(
        "wrote {} to {}; simulate them with `rota sim --trace {} --cluster {spec} --gpus-per-node {}{speeds}`",
        counted(story.jobs.len(), "job"),
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

/// What the daemon remembers, as a workload on the machine it ran on. Jobs that still run have their GPUs until now.
pub fn replay_up_to_now(client: &Client, since: Option<&str>) -> anyhow::Result<Replay> {
    let mut story = story(fetch(client, since)?.up_to_now())?;
    let status: Status = client.get("/api/v1/status")?;
    let waiting = status.waiting + status.held;
    if waiting > 0 {
        story.left_out.push(format!("left out: jobs that have not started ({waiting})"));
    }
    Ok(story)
}

/// What the daemon remembers of the jobs that are over, as a workload on the machine it ran on.
pub fn replay(client: &Client, since: Option<&str>) -> anyhow::Result<Replay> {
    let mut story = story(fetch(client, since)?)?;
    let status: Status = client.get("/api/v1/status")?;
    let waiting = status.waiting + status.held;
    if status.running + waiting > 0 {
        story.left_out.push(format!("left out: jobs that are not over ({} running, {waiting} waiting)", status.running));
    }
    Ok(story)
}

fn fetch(client: &Client, since: Option<&str>) -> anyhow::Result<History> {
    client.get(&since.map_or_else(|| "/api/v1/history".to_owned(), |since| format!("/api/v1/history?since={since}")))
}

fn story(history: History) -> anyhow::Result<Replay> {
    Replay::of(history).map_err(|nothing| anyhow::Error::new(Failure(nothing.to_string())))
}

/// Writes a page about the past: Gantt, use and power of the GPUs, energy of the jobs, tables.
pub fn report(args: &ReportArgs) -> anyhow::Result<()> {
    let client = Client::new(&args.state);
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
    let origin = Origin::of(history.gpus.iter().map(|gpu| rota_gpu::is_virtual_name(&gpu.name)));
    let story = story(history)?;
    let zero_ms = moment_ms(&story.jobs[0].job.submitted_at)?;
    let (run, bound) = fold(&story)?;
    let gauges = Gauges::new(samples.iter().filter_map(|sample| reading(sample, &story.gpu_uuids, zero_ms)), origin);
    let energy = gauges.energy_joules();
    let mut assumptions = vec![format!("what really happened on {}, as its queue recorded it", bound.cluster.nodes[0].name)];
    assumptions.extend(story.left_out.iter().cloned());
    assumptions.extend(energy.map(|_| origin.sentence().to_owned()));
    let meta = RunMeta { policy: status.policy, mechanism: "live".to_owned(), assumptions, ..RunMeta::default() };
    let mut summary = rota_report::summarise(&run, &bound, &meta);
    if let Some(joules) = energy {
        summary.energy_kwh = Some(joules / 3.6e6);
    }
    let gpu_names = bound
        .cluster
        .gpus
        .iter()
        .enumerate()
        .map(|(index, gpu)| format!("GPU {index} ({})", bound.cluster.types[gpu.gpu_type.index()].name));
    let live = LivePage { zero_ms, gauges, gpu_names: gpu_names.collect(), facts: facts::of(&story, idle_hours(&client, args)) };
    let page = rota_report::live_page((run, summary, meta), &bound, &live).context("making the page")?;
    output::write_file(&args.out, |file| Ok(file.write_all(page.as_bytes())?))?;
    output::remark(&format!("wrote {}: open it in a browser", args.out.display()));
    Ok(())
}

/// The runs of the past folded into what became of jobs and GPUs. Energy is what was recorded for each job.
fn fold(story: &Replay) -> anyhow::Result<(Run, Bound)> {
    let bound = Bound::new(story.workload.clone(), story.cluster.clone(), &ThroughputTable::new("none"), BadJobs::Refuse)?;
    let mut recorder = Recorder::new(&bound, RecorderOptions { timeline: true, restart_cost: Span::ZERO });
    let events = story.events();
    for event in &events {
        recorder.observe(event);
    }
    let mut run = recorder.finish(events.last().map_or(Time::ZERO, |event| event.time_ns));
    for (record, job) in run.jobs.iter_mut().zip(&story.jobs) {
        if let Some(energy) = job.job.energy_wh {
            record.energy_joules = energy * 3600.0;
        }
    }
    Ok((run, bound))
}

fn moment_ms(text: &str) -> anyhow::Result<i64> {
    Ok(text.parse::<jiff::Timestamp>().context("the moment of a submit")?.as_millisecond())
}

/// A sample of the recorder, if its GPU is still there.
fn reading(sample: &GpuSample, uuids: &[String], zero_ms: i64) -> Option<Reading> {
    Some(Reading {
        gpu: uuids.iter().position(|uuid| *uuid == sample.uuid)?,
        seconds: (moment_ms(&sample.at).ok()? - zero_ms) as f64 / 1000.0,
        span_seconds: f64::from(sample.span_seconds),
        utilisation_percent: sample.utilisation_percent,
        power_watts: sample.power_watts,
    })
}

/// GPU hours that jobs had and did not use, where the whole past is reported and the daemon knows them.
fn idle_hours(client: &Client, args: &ReportArgs) -> Option<f64> {
    if !args.what.is_empty() {
        return None;
    }
    let since = args.since.as_deref().unwrap_or("1970-01-01T00:00:00Z");
    let usage: Usage = client.get(&format!("/api/v1/usage?from={since}")).ok()?;
    usage.total.idle_gpu_hours
}
