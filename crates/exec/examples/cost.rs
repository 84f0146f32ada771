//! What a job costs beyond itself: `cost SUPERVISOR FOLDER [JOBS] [AT_ONCE]` runs jobs that do nothing, one after another
//! or several at once, then one that writes a gibibyte, and prints processor and wall time beside
//! those of the job alone.
#![expect(clippy::print_stdout, reason = "figures are for the reader")]

use std::collections::VecDeque;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rota_exec::{Adopted, ExitRecord, Launcher, ResourceLimits, RunSpec, Supervisor, adopt};
use rustix::event::{PollFd, PollFlags, poll};

type Failure = Box<dyn std::error::Error>;

fn main() -> Result<(), Failure> {
    let mut arguments = std::env::args_os().skip(1);
    let (Some(program), Some(folder)) = (arguments.next(), arguments.next()) else { return Err("cost SUPERVISOR FOLDER".into()) };
    let mut number = |otherwise: usize| arguments.next().and_then(|text| text.to_str()?.parse().ok()).unwrap_or(otherwise);
    let (jobs, at_once) = (number(200), number(1));
    let mut launcher = Launcher::new(program.into(), Vec::new());
    let folder = PathBuf::from(folder);

    let (since, used) = (Instant::now(), children_seconds()?);
    for _ in 0..jobs {
        std::process::Command::new("/bin/true").status()?;
    }
    let each = |seconds: f64| seconds * 1000.0 / jobs as f64;
    println!(
        "the job alone: {:.2} ms cpu each, {:.2} ms wall each",
        each(children_seconds()? - used),
        each(since.elapsed().as_secs_f64())
    );

    let (since, used) = (Instant::now(), children_seconds()?);
    let mut running: VecDeque<(PathBuf, Supervisor)> = VecDeque::new();
    let mut launching = Duration::ZERO;
    for job in 0..jobs {
        if running.len() == at_once {
            finish(running.pop_front())?;
        }
        let dir = folder.join(job.to_string());
        let before = Instant::now();
        running.push_back((dir.clone(), launcher.launch(&dir, &spec(&dir, &["/bin/true"]))?));
        launching += before.elapsed();
    }
    while !running.is_empty() {
        finish(running.pop_front())?;
    }
    let (wall, cpu) = (since.elapsed().as_secs_f64(), children_seconds()? - used);
    println!("{jobs} jobs, {at_once} at once: {:.2} ms cpu each (supervisor and job), {:.2} ms wall each", each(cpu), each(wall));
    println!("launch returns after {:.2} ms", each(launching.as_secs_f64()));

    let dir = folder.join("large");
    let since = Instant::now();
    let supervisor = launcher.launch(&dir, &spec(&dir, &["head", "-c", "1073741824", "/dev/zero"]))?;
    let record = finish(Some((dir, supervisor)))?;
    println!("1 GiB of output: {:.2} s, {} bytes lost", since.elapsed().as_secs_f64(), record.log_lost_bytes);
    Ok(())
}

fn finish(running: Option<(PathBuf, Supervisor)>) -> Result<ExitRecord, Failure> {
    let (dir, supervisor) = running.ok_or("nothing runs")?;
    poll(&mut [PollFd::from_borrowed_fd(supervisor.pidfd(), PollFlags::IN)], None)?;
    match adopt(&dir)? {
        Adopted::Ended(record) if record.code == Some(0) => Ok(record),
        other => Err(format!("{other:?}").into()),
    }
}

fn spec(dir: &Path, command: &[&str]) -> RunSpec {
    RunSpec {
        job: 1,
        attempt: 1,
        identity: None,
        command: command.iter().map(Into::into).collect(),
        cwd: "/".into(),
        env: vec![("PATH".into(), "/usr/bin:/bin".into())],
        run_as: None,
        log: dir.join("log"),
        log_bytes_max: 64 << 20,
        log_files_max: 2,
        time_limit: None,
        grace: Duration::from_secs(5),
        notice: None,
        memory_max_bytes: None,
        cpus_max: None,
        cgroup: None,
        devices: None,
        resource_limits: ResourceLimits::default(),
        no_new_privileges: false,
    }
}

/// Processor time of all children waited for: fields 16 and 17 of `/proc/self/stat`, in hundredths of a second.
fn children_seconds() -> Result<f64, Failure> {
    let stat = std::fs::read_to_string("/proc/self/stat")?;
    let (_, fields) = stat.rsplit_once(')').ok_or("no stat")?;
    let ticks = fields.split_ascii_whitespace().skip(13).take(2).map(str::parse::<u32>).sum::<Result<u32, _>>()?;
    Ok(f64::from(ticks) / 100.0)
}
