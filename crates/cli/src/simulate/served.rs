//! A simulation that a daemon runs for its users: it tells how far it is, draws charts, and does not outlive the daemon.

use super::schedule_bars::schedule_bars;
use crate::args::SimArgs;
use crate::inputs::{bind, load_trace};
use crate::output::{remark, write_file};
use indicatif::ProgressBar;
use rota_core::{Bound, Event, Span, ThroughputTable, Time};
use rota_daemon::{HAPPENED_CLUSTER, HAPPENED_EVENTS, HAPPENED_SUMMARY};
use rota_report::{Recorder, RecorderOptions, Run, RunMeta, Summary};
use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::time::Duration;

/// How often progress is told.
const EVERY: Duration = Duration::from_millis(100);

/// The name of what really happened, among the policies.
const HAPPENED: &str = "as it happened";

/// The group that owns nothing.
const NO_GROUP: u32 = 65534;

/// Goes on with the rights of the owner of the directory, where this process is root's and the directory is not: what users make up
/// for a simulation is not read with the rights of root. To be called before there are other threads.
pub fn take_rights_of_owner(directory: Option<&Path>) -> anyhow::Result<()> {
    use std::os::unix::fs::MetadataExt;
    let Some(directory) = directory.filter(|_| rustix::process::geteuid().is_root()) else { return Ok(()) };
    let owner = std::fs::metadata(directory)?.uid();
    if owner != 0 {
        let (user, group) = (rustix::thread::Uid::from_raw(owner), rustix::thread::Gid::from_raw(NO_GROUP));
        rustix::thread::set_thread_groups(&[])?;
        rustix::thread::set_thread_res_gid(group, group, group)?;
        rustix::thread::set_thread_res_uid(user, user, user)?;
    }
    Ok(())
}

/// Ends this process when the other end of its standard input is closed.
pub fn end_with_stdin() {
    std::thread::spawn(|| {
        // Whatever is sent is of no interest, and a fault is an end.
        _ = std::io::copy(&mut std::io::stdin().lock(), &mut std::io::sink());
        std::process::exit(1);
    });
}

/// Tells progress until it is dropped.
pub struct Teller(#[expect(dead_code, reason = "its end is the message")] Sender<()>);

/// Tells on stderr how much is done whenever that has changed.
pub fn tell_progress(bar: &ProgressBar) -> Teller {
    let (sender, dropped) = channel::<()>();
    let bar = bar.clone();
    std::thread::spawn(move || {
        let mut told = 0;
        while matches!(dropped.recv_timeout(EVERY), Err(RecvTimeoutError::Timeout)) {
            let done = bar.position();
            if done != told {
                told = done;
                remark(&format!("{{\"progress\":{:.4}}}", done as f64 / bar.length().unwrap_or(done).max(1) as f64));
            }
        }
    });
    Teller(sender)
}

/// Writes the schedule of each policy: as a picture, and as bars for a page that draws them itself.
pub fn write_charts(directory: &Path, runs: &[(Run, Summary, RunMeta)], bound: &Bound) -> anyhow::Result<()> {
    for (index, (run, _, meta)) in runs.iter().enumerate() {
        write_chart(directory, index, run, &meta.policy, bound)?;
    }
    Ok(())
}

fn write_chart(directory: &Path, index: usize, run: &Run, policy: &str, bound: &Bound) -> anyhow::Result<()> {
    let chart = rota_report::gantt_by_gpu(policy, run, bound);
    write_file(&directory.join(format!("{index}.svg")), |file| Ok(file.write_all(chart.as_bytes())?))?;
    let bars = schedule_bars(run, bound);
    write_file(&directory.join(format!("{index}.json")), |file| Ok(serde_json::to_writer(file, &bars)?))
}

/// Where the daemon wrote down what really happened, its summary and its schedule, as if it were one more policy.
pub fn write_happened(directory: &Path, args: &SimArgs, table: &ThroughputTable, index: usize) -> anyhow::Result<()> {
    let file = directory.join(HAPPENED_EVENTS);
    if !file.exists() {
        return Ok(());
    }
    let cluster = rota_trace::read_cluster(&directory.join(HAPPENED_CLUSTER))?;
    let loaded = load_trace(&args.trace, &args.read, table)?;
    let bound = bind(loaded.workload, cluster, table, args.read.skip_bad)?;
    let mut recorder = Recorder::new(&bound, RecorderOptions { timeline: true, restart_cost: Span::ZERO });
    let mut end = Time::ZERO;
    let mut count = 0;
    for line in BufReader::new(File::open(&file)?).lines() {
        let event: Event = serde_json::from_str(&line?)?;
        end = end.max(event.time_ns);
        count += 1;
        recorder.observe(&event);
    }
    let run = recorder.finish(end);
    let meta = RunMeta { policy: HAPPENED.to_owned(), mechanism: "live".to_owned(), events: count, ..RunMeta::default() };
    let summary = rota_report::summarise(&run, &bound, &meta);
    write_file(&directory.join(HAPPENED_SUMMARY), |file| Ok(serde_json::to_writer(file, &summary)?))?;
    write_chart(directory, index, &run, HAPPENED, &bound)
}
