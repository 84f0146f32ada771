//! `rota demo`: a queue to try everything with, on virtual GPUs and with a handful of jobs. It lives in a temporary folder, which plain
//! commands find while no other queue runs, and nothing of it is left when it ends.

use crate::live::args::{DemoArgs, StateArgs};
use crate::live::client::{Client, Failure};
use crate::live::demo_place::{self, DemoPlace};
use crate::live::jobs::environment;
use crate::output;
use anyhow::Context;
use rota_daemon::Text;
use rota_daemon::api::{Job, JobVerb, JobsActed, JobsAction, SignIn, SignInLink, Status, Submit, Submitted, SweepParam};
use std::io::{BufRead, BufReader};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, ExitCode, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::signal::unix::{SignalKind, signal};

/// How long jobs have to end when the demo does.
const FAREWELL: Duration = Duration::from_secs(5);

/// Starts the queue, gives it jobs, says how to look at them, and takes all away when it is told to end.
pub fn demo(args: &DemoArgs) -> anyhow::Result<ExitCode> {
    let began = Instant::now();
    let place = DemoPlace::make(args.state.named())?;
    let mut daemon = start(args, place.dir())?;
    let outcome = show(args, &place, &mut daemon, began);
    end(&place, &mut daemon);
    outcome.map(|()| ExitCode::SUCCESS)
}

/// Starts the daemon out of the terminal's reach, so that Ctrl-C ends the demo in order.
fn start(args: &DemoArgs, dir: &Path) -> anyhow::Result<Child> {
    let log = std::fs::File::create(dir.join("daemon.log")).with_context(|| format!("writing to {}", dir.display()))?;
    let mut child = Command::new(std::env::current_exe().context("finding this program")?)
        .args(["up", "--foreground", "--virtual-gpus", &args.gpus, "--port", &args.port.to_string(), "--state"])
        .arg(dir)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(log)
        .process_group(0)
        .spawn()
        .context("starting the daemon")?;
    let mut line = String::new();
    BufReader::new(child.stdout.take().context("the daemon's output")?).read_line(&mut line).context("waiting for the daemon")?;
    if line.is_empty() {
        _ = child.wait();
        let said = std::fs::read_to_string(dir.join("daemon.log")).unwrap_or_default();
        return Err(anyhow::Error::new(Failure(said.trim().trim_start_matches("rota: ").to_owned())));
    }
    Ok(child)
}

/// Gives the queue its jobs, says what there is, and stays until the demo is to end.
fn show(args: &DemoArgs, place: &DemoPlace, daemon: &mut Child, began: Instant) -> anyhow::Result<()> {
    let client = Client::new(&StateArgs { state: vec![place.dir().to_owned()] });
    let first = submit_all(&client)?;
    let _: Job = client.get(&format!("/api/v1/jobs/{first}/wait?started=true&timeout=30"))?;
    let seconds = began.elapsed().as_secs_f64();
    let status: Status = client.get("/api/v1/status")?;
    place.announce()?;
    let rota = demo_place::own_name();
    let option = if args.state.named().is_some() { format!(" --state {}", place.dir().display()) } else { String::new() };
    output::print(&format!(
        "the demo runs: {} virtual GPUs, {} jobs running and {} waiting, the first after {seconds:.1} s\n\n  \
         dashboard        {}\n  {rota} status{option}      what runs, what waits and why\n  \
         {rota} top{option}         the same, live\n  {rota} submit{option} sleep 30\n\n\
         The link signs you in once. The GPUs are invented and the jobs only sleep; `{rota} up` uses this machine's own GPUs.\n\
         Ctrl-C ends the demo and removes all of it.",
        status.gpus.len(),
        status.running,
        status.waiting,
        sign_in_link(&client, place.dir(), &status)?,
    ))?;
    wait_for_end(daemon)
}

/// A link that signs a browser in once.
fn sign_in_link(client: &Client, dir: &Path, status: &Status) -> anyhow::Result<String> {
    let http = status.http.clone().context("the daemon has no port")?;
    let token = std::fs::read_to_string(dir.join("token")).context("reading the demo's token")?;
    let ask = SignIn { token: token.trim().to_owned() };
    let link: SignInLink = client.send(&hyper::Method::POST, "/api/v1/sign-in-links", &ask)?;
    Ok(format!("{}{}", http.trim_end_matches('/'), link.path))
}

/// Stays until Ctrl-C, another signal to end, or the end of the daemon.
fn wait_for_end(daemon: &mut Child) -> anyhow::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let mut interrupt = signal(SignalKind::interrupt())?;
        let mut terminate = signal(SignalKind::terminate())?;
        let mut hangup = signal(SignalKind::hangup())?;
        loop {
            tokio::select! {
                _ = interrupt.recv() => return Ok(()),
                _ = terminate.recv() => return Ok(()),
                _ = hangup.recv() => return Ok(()),
                () = tokio::time::sleep(Duration::from_millis(300)) => {
                    if daemon.try_wait()?.is_some() {
                        return Ok(());
                    }
                }
            }
        }
    })
}

/// Cancels every job, stops the daemon, and removes the folder.
fn end(place: &DemoPlace, daemon: &mut Child) {
    let client = Client::new(&StateArgs { state: vec![place.dir().to_owned()] });
    // Whatever cannot be asked any more is over with the daemon.
    for _ in 0..2 {
        let jobs = client.get::<Vec<Job>>("/api/v1/jobs?limit=10000").unwrap_or_default();
        let action = JobsAction { verb: JobVerb::Cancel, ids: jobs.iter().map(|job| job.id).collect(), states: Vec::new() };
        _ = client.send::<JobsActed>(&hyper::Method::POST, "/api/v1/jobs/act", &action);
        let since = Instant::now();
        let is_busy = || client.get::<Vec<Job>>("/api/v1/jobs?limit=1").is_ok_and(|jobs| !jobs.is_empty());
        while since.elapsed() < FAREWELL && is_busy() {
            std::thread::sleep(Duration::from_millis(50));
        }
    }
    _ = client.post::<()>("/api/v1/shutdown");
    let since = Instant::now();
    while since.elapsed() < FAREWELL && matches!(daemon.try_wait(), Ok(None)) {
        std::thread::sleep(Duration::from_millis(20));
    }
    _ = daemon.kill();
    _ = daemon.wait();
    place.remove();
    output::remark("the demo is over, and nothing of it is left");
}

/// A training that tells of its epochs.
fn training(epochs: u32, seconds: u32) -> Vec<String> {
    let script = format!(
        "e=1; while [ $e -le {epochs} ]; do sleep {seconds}; echo \"epoch $e/{epochs} loss 0.$((900 / (e + 1)))\"; e=$((e + 1)); done"
    );
    vec!["sh".to_owned(), "-c".to_owned(), script]
}

/// Jobs as a lab has them: a sweep, a gang, small ones that share a GPU, one that fails, one that waits for another.
fn submit_all(client: &Client) -> anyhow::Result<u64> {
    let env = Arc::new(environment());
    let words = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>();
    let plain = |name: &str, command: Vec<String>, estimate: f64| Submit {
        name: Some(name.to_owned()),
        command: Arc::new(command.iter().map(|word| Text::from(word.as_str())).collect()),
        cwd: Text::from("/"),
        env: Arc::clone(&env),
        exclusive: false,
        estimate_seconds: Some(estimate),
        ..Submit::default()
    };
    let param = |name: &str, values: &[&str]| SweepParam { name: name.to_owned(), values: words(values) };
    let mut sweep = training(4, 2);
    sweep[2].push_str("; echo \"accuracy 0.9{seed}, lr {lr}\"");
    let fails = words(&["sh", "-c", "echo loading data; sleep 4; echo \"ValueError: no such column: label\" >&2; exit 1"]);
    let asks = [
        plain("resnet50", training(30, 4), 120.0),
        plain("prepare-data", fails, 5.0),
        Submit { gpus: 2, ..plain("llama-finetune", training(12, 5), 60.0) },
        Submit { memory_mib: Some(4000), ..plain("notebook", words(&["sleep", "180"]), 180.0) },
        Submit { memory_mib: Some(3000), ..plain("inference", words(&["sleep", "150"]), 150.0) },
        Submit {
            params: vec![param("lr", &["0.1", "0.01", "0.001"]), param("seed", &["1", "2", "3"])],
            ..plain("bert", sweep, 8.0)
        },
    ];
    let mut first = None;
    for ask in asks {
        let submitted: Submitted = client.send(&hyper::Method::POST, "/api/v1/jobs", &ask)?;
        first = first.or(submitted.ids.first().copied());
    }
    let first = first.context("the daemon gave the jobs no number")?;
    let after = vec![rota_daemon::api::After { id: first, condition: rota_daemon::api::AfterCondition::Ok }];
    let last = Submit { after, gpus: 1, ..plain("evaluate", words(&["echo", "top-1 accuracy 0.761"]), 5.0) };
    let _: Submitted = client.send(&hyper::Method::POST, "/api/v1/jobs", &last)?;
    Ok(first)
}
