//! Gavel's iterator protocol, spoken by a client that is made from the field numbers alone.

use crate::live::queue::users::shared;
use crate::live::{Daemon, line_of, until};
use http_body_util::{BodyExt, Full};
use hyper::body::Bytes;
use hyper_util::rt::{TokioExecutor, TokioIo};
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;

/// What a call was answered: steps, seconds and extra seconds, or the status of a refusal.
type Answer = Result<(u64, f64, f64), u32>;

/// A protocol buffer, field by field.
#[derive(Default)]
struct Fields(Vec<u8>);

impl Fields {
    fn whole(mut self, number: u8, value: u64) -> Self {
        self.0.push(number << 3);
        self.varint(value);
        self
    }

    fn double(mut self, number: u8, value: f64) -> Self {
        self.0.push((number << 3) | 1);
        self.0.extend(value.to_le_bytes());
        self
    }

    fn varint(&mut self, mut value: u64) {
        while value >= 0x80 {
            self.0.push(value as u8 | 0x80);
            value >>= 7;
        }
        self.0.push(value as u8);
    }
}

fn read_varint(bytes: &[u8], at: &mut usize) -> u64 {
    let (mut value, mut shift) = (0, 0);
    loop {
        let byte = bytes[*at];
        *at += 1;
        value |= u64::from(byte & 0x7f) << shift;
        shift += 7;
        if byte < 0x80 {
            return value;
        }
    }
}

fn read_answer(bytes: &[u8]) -> (u64, f64, f64) {
    let (mut at, mut answer) = (0, (0, 0.0, 0.0));
    while at < bytes.len() {
        let key = read_varint(bytes, &mut at);
        if key.trailing_zeros() >= 3 {
            answer.0 = read_varint(bytes, &mut at);
        } else {
            let value = f64::from_le_bytes(bytes[at..at + 8].try_into().unwrap());
            at += 8;
            if key >> 3 == 2 { answer.1 = value } else { answer.2 = value }
        }
    }
    answer
}

/// Calls a method of `IteratorToScheduler` at an address.
fn call(address: &str, method: &str, message: &Fields) -> Answer {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let stream = tokio::net::TcpStream::connect(address).await.unwrap();
        let (mut sender, connection) =
            hyper::client::conn::http2::handshake(TokioExecutor::new(), TokioIo::new(stream)).await.unwrap();
        tokio::spawn(connection);
        let mut frame = vec![0];
        frame.extend(u32::try_from(message.0.len()).unwrap().to_be_bytes());
        frame.extend(&message.0);
        let request = hyper::Request::post(format!("http://{address}/IteratorToScheduler/{method}"))
            .header("content-type", "application/grpc")
            .header("te", "trailers")
            .body(Full::new(Bytes::from(frame)))
            .unwrap();
        let response = sender.send_request(request).await.unwrap();
        let status =
            |headers: &hyper::HeaderMap| headers.get("grpc-status").map(|value| value.to_str().unwrap().parse::<u32>().unwrap());
        let early = status(response.headers());
        let body = response.into_body().collect().await.unwrap();
        let code = early.or_else(|| body.trailers().and_then(status)).unwrap();
        if code != 0 {
            return Err(code);
        }
        let bytes = body.to_bytes();
        Ok(read_answer(&bytes[5..]))
    })
}

fn init(address: &str, job: u64) -> Answer {
    call(address, "InitJob", &Fields::default().whole(1, job))
}

fn update(address: &str, job: u64, worker: u64, steps: u64, duration: f64) -> Answer {
    let message = Fields::default().whole(1, job).whole(2, worker).whole(3, steps).double(4, duration);
    call(address, "UpdateLease", &message.whole(5, 1000).double(6, 1000.0))
}

/// The daemon's own address: who calls there calls as a process of the test.
fn service(daemon: &Daemon) -> String {
    line_of(&daemon.state.join("lease"))
}

/// The address of a process of the run: what is said there, the run says.
fn inside(daemon: &Daemon, round: u32) -> String {
    line_of(&daemon.file(&format!("relay-{round}")))
}

fn relay() -> String {
    concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/leases/relay.py").to_owned()
}

/// A script that leaves its arguments and variables beside its checkpoints, passes on what the test says, and ends when it is told to.
const SCRIPT: &str = "[ \"$GAVEL_WORKER_ID\" != 0 ] || { python3 \"$RELAY\" \"$DIR/relay-$GAVEL_ROUND_ID\" $GAVEL_SCHED_ADDR $GAVEL_SCHED_PORT & passes_on=$!; }; \
    echo \"$@\" >> \"$DIR/words-$GAVEL_ROUND_ID\"; \
    echo $GAVEL_JOB_ID $GAVEL_WORKER_ID $GAVEL_SCHED_ADDR $GAVEL_SCHED_PORT > \"$DIR/worker-$GAVEL_ROUND_ID-$GAVEL_WORKER_ID\"; \
    while [ ! -e \"$DIR/go-$GAVEL_ROUND_ID\" ]; do sleep 0.02; done; [ -z \"$passes_on\" ] || kill $passes_on";

fn submit(daemon: &Daemon, gpus: &str, total_steps: &str) -> u64 {
    let folder = format!("DIR={}", daemon.folder.path().display());
    let relay = format!("RELAY={}", relay());
    let options =
        ["-g", gpus, "--gavel", "--total-steps", total_steps, "--steps-arg", "--num_steps", "--env", &folder, "--env", &relay];
    let command = ["--", "sh", "-c", SCRIPT, "script"];
    daemon.submit(&[&options[..], &command].concat())
}

/// Writes the log that Gavel's iterator would, and lets the script end.
fn end_round(daemon: &Daemon, job: u64, round: u32, steps: &[(u32, u64)]) {
    let folder = daemon.state.join(format!("jobs/{job}/checkpoint/job_id={job}/.gavel/round={round}"));
    std::fs::create_dir_all(&folder).unwrap();
    for (worker, steps) in steps {
        let text = format!("[t] [INIT] [COMPLETE] \n[t] [PROGRESS] [STEPS] {steps}\n[t] [PROGRESS] [DURATION] 1.0\n");
        std::fs::write(folder.join(format!("worker={worker}.log")), text).unwrap();
    }
    std::fs::write(daemon.file(&format!("go-{round}")), "").unwrap();
}

fn attempt(daemon: &Daemon, job: u64, number: u64) {
    until("the attempt runs", || {
        let job = daemon.show(job);
        job["attempts"] == number && job["state"] == "running"
    });
}

fn words(daemon: &Daemon, name: &str) -> String {
    let path: PathBuf = daemon.file(name);
    until("the script has said something", || path.exists());
    crate::live::line_of(&path)
}

#[test]
fn a_script_for_gavel_is_resumed_with_its_steps_credited_once() {
    let daemon = Daemon::start("a100:1");
    let job = submit(&daemon, "1", "100");
    attempt(&daemon, job, 1);
    let said = words(&daemon, "words-0");
    assert!(
        said.contains("--num_steps 100 --checkpoint_dir") && said.ends_with("--enable_gavel_iterator --local_rank 0"),
        "{said}"
    );
    let who = words(&daemon, "worker-0-0");
    assert!(who.starts_with(&format!("{job} 0 127.0.0.1 ")), "{who}");
    assert_eq!(init(&service(&daemon), job), Err(7), "a process that is none of the job's");
    let run = inside(&daemon, 0);
    let (steps, seconds, extra) = init(&run, job).unwrap();
    assert_eq!((steps, extra), (100, 0.0));
    assert!(seconds > 300.0, "{seconds}");
    assert_eq!(update(&run, job, 0, 0, 0.0).unwrap().0, 100);
    let (steps, seconds, _) = update(&run, job, 0, 40, 10.0).unwrap();
    assert_eq!(steps, 100);
    assert!(seconds > 310.0, "the lease is extended: {seconds}");
    assert_eq!(update(&run, job, 0, 39, 11.0), Err(3), "steps that fall are refused");
    assert_eq!(update(&run, job, 9, 40, 11.0), Err(3), "there is one process");
    assert_eq!(update(&service(&daemon), job, 0, 90, 12.0), Err(7), "a stranger changes nothing");
    assert_eq!(init(&service(&daemon), 999).unwrap(), (0, 0.0, 0.0), "a job that is not there has nothing left to do");
    end_round(&daemon, job, 0, &[(0, 60)]);
    attempt(&daemon, job, 2);
    assert_eq!(daemon.show(job)["steps_done"], 60);
    assert_eq!(init(&inside(&daemon, 1), job).unwrap().0, 40);
    end_round(&daemon, job, 1, &[(0, 40)]);
    let ended = daemon.wait_one(job);
    assert_eq!(ended["state"], "done", "{ended}");
    assert_eq!(ended["steps_done"], 100, "{ended}");
    assert_eq!(ended["attempts"], 2, "{ended}");
    assert_eq!(init(&service(&daemon), job).unwrap(), (0, 0.0, 0.0), "it is gone");
    let through = daemon.file("relay-plain");
    let plain = daemon.shell(&[], &format!("exec python3 {} {} $(echo $ROTA_LEASE_ADDR | tr : ' ')", relay(), through.display()));
    daemon.until_state(plain, "running");
    assert_eq!(init(&line_of(&through), plain), Err(9), "a job that was not submitted for it");
}

#[test]
fn all_processes_of_a_gang_for_gavel_stop_at_one_step() {
    let daemon = Daemon::configured("a100:2", "policy = 'rr:quantum=0.5'\nround_seconds = 20.0\n[jobs]\nmin_run_seconds = 0.2\n");
    let job = submit(&daemon, "2", "1000");
    attempt(&daemon, job, 1);
    until("both processes run", || daemon.file("worker-0-0").exists() && daemon.file("worker-0-1").exists());
    let said = std::fs::read_to_string(daemon.file("words-0")).unwrap();
    assert!(said.contains("--world_size 2 --rank 0") && said.contains("--world_size 2 --rank 1"), "{said}");
    let run = inside(&daemon, 0);
    assert_eq!(init(&run, job).unwrap().0, 500, "each does its half");
    let (steps, seconds, _) = update(&run, job, 0, 10, 1.0).unwrap();
    assert_eq!((steps, seconds < 1e8), (500, true), "nobody wants its GPUs yet");
    let other = daemon.shell(&["-g", "2", "--preemptible"], "exit 0");
    daemon.until_state(job, "stopping");
    let first = update(&run, job, 1, 20, 2.0).unwrap();
    assert!(first.0 > 20 && first.0 < 500, "the last step is ahead, and before the end: {first:?}");
    assert_eq!(update(&run, job, 0, 21, 2.0).unwrap(), first, "the other process is answered with the same");
    end_round(&daemon, job, 0, &[(0, first.0), (1, first.0)]);
    attempt(&daemon, job, 2);
    assert_eq!(daemon.wait_one(other)["state"], "done");
    assert_eq!(daemon.show(job)["steps_done"], 2 * first.0);
    end_round(&daemon, job, 1, &[(0, 500 - first.0), (1, 500 - first.0)]);
    assert_eq!(daemon.wait_one(job)["state"], "done");
}

#[test]
fn the_lesser_of_what_was_told_and_what_the_log_says_counts() {
    let daemon = Daemon::start("a100:1");
    let job = submit(&daemon, "1", "100");
    attempt(&daemon, job, 1);
    let run = inside(&daemon, 0);
    init(&run, job).unwrap();
    update(&run, job, 0, 50, 5.0).unwrap();
    end_round(&daemon, job, 0, &[(0, 30)]);
    attempt(&daemon, job, 2);
    assert_eq!(daemon.show(job)["steps_done"], 30);
    let warnings = daemon.json(&["status", "--json"])["warnings"].to_string();
    assert!(warnings.contains("its log says 30 steps and its processes told 50"), "{warnings}");
    end_round(&daemon, job, 1, &[(0, 70)]);
    assert_eq!(daemon.wait_one(job)["steps_done"], 100);
}

#[test]
fn a_script_for_gavel_with_our_own_iterator_counts_its_steps_once() {
    let daemon = Daemon::configured("a100:1", "policy = 'rr:quantum=0.4'\n[jobs]\nmin_run_seconds = 0.2\n");
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/it/live/queue/leased.py");
    let journal = daemon.file("journal");
    // The arguments that are appended for Gavel mean nothing to it.
    let options = ["--gavel", "--total-steps", "40", "--steps-arg", "--num_steps", "--"];
    let job = daemon.submit(&[&options[..], &["python3", script, journal.to_str().unwrap(), "40", "0.03"]].concat());
    let other = daemon.shell(&["--preemptible"], "sleep 0.5");
    let ended = daemon.wait_one(job);
    assert_eq!(ended["state"], "done", "{ended}: {}", daemon.log(job));
    assert!(ended["attempts"].as_u64().unwrap() > 1, "it was never stopped: {ended}");
    let events = daemon.request("GET", &format!("/api/v1/jobs/{job}/events"), b"").1;
    let events: Vec<serde_json::Value> = serde_json::from_str(&events).unwrap();
    let told = events.iter().filter(|event| event["kind"] == "progress").map(|event| &event["detail"]);
    let told = told.map(|detail| (detail["steps"].as_u64().unwrap(), detail["run_steps"].as_u64().unwrap())).collect::<Vec<_>>();
    assert_eq!(told.iter().map(|(_, run_steps)| run_steps).sum::<u64>(), 40, "{told:?}");
    assert_eq!(told.last().unwrap().0, 40, "{told:?}");
    daemon.wait_one(other);
}

/// Gavel's own file, `scheduler/gavel_iterator.py` of its repository, is not ours to ship: the test runs where its path is given.
#[test]
fn a_script_with_the_iterator_of_gavel_itself_is_stopped_and_goes_on_if_its_path_is_given() {
    let Some(iterator) = std::env::var_os("ROTA_GAVEL_ITERATOR") else {
        println!("not run: ROTA_GAVEL_ITERATOR does not name Gavel's gavel_iterator.py");
        return;
    };
    let config = "policy = 'rr:quantum=0.5'\nround_seconds = 1.0\n[jobs]\nmin_run_seconds = 0.2\n";
    let daemon = Daemon::configured("a100:1", config);
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/leases/gavel_script.py");
    let journal = daemon.file("journal");
    let command = ["--", "python3", script, iterator.to_str().unwrap(), journal.to_str().unwrap(), "0.05"];
    let options = ["--gavel", "--total-steps", "60", "--steps-arg", "--num_steps"];
    let job = daemon.submit(&[&options[..], &command].concat());
    let other = daemon.shell(&["--preemptible"], "sleep 0.5");
    let ended = daemon.wait_one(job);
    assert_eq!(ended["state"], "done", "{ended}: {}", daemon.log(job));
    assert!(ended["attempts"].as_u64().unwrap() > 1, "it was never stopped: {ended}");
    assert_eq!(ended["steps_done"], 60, "{ended}");
    let text = std::fs::read_to_string(&journal).unwrap();
    let steps = text.lines().map(|line| line.split(' ').next().unwrap().parse::<u64>().unwrap()).collect::<Vec<_>>();
    assert_eq!(steps, (1..=60).collect::<Vec<_>>(), "each step is done once, in order");
    daemon.wait_one(other);
}

#[test]
fn another_user_cannot_speak_for_a_job() {
    let Some((daemon, ann, bob)) = shared("a100:1", "") else { return };
    let script = daemon.file("relay.py");
    std::fs::copy(relay(), &script).unwrap();
    let open = std::fs::Permissions::from_mode(0o777);
    let folder = daemon.file("open");
    std::fs::create_dir(&folder).unwrap();
    std::fs::set_permissions(&folder, open).unwrap();
    let line = format!("exec python3 {} {}/own $GAVEL_SCHED_ADDR $GAVEL_SCHED_PORT", script.display(), folder.display());
    let options = ["--gavel", "--total-steps", "100", "--steps-arg", "--num_steps"];
    let job = ann.submit(&daemon, &options, &line);
    let own = line_of(&folder.join("own"));
    init(&own, job).unwrap();
    update(&own, job, 0, 10, 1.0).unwrap();
    let address = service(&daemon);
    let (host, port) = address.split_once(':').unwrap();
    let ids = [format!("--reuid={}", bob.uid), format!("--regid={}", bob.gid)];
    let mut stranger = std::process::Command::new("setpriv")
        .args(ids)
        .args(["--clear-groups", "python3", script.to_str().unwrap(), &format!("{}/bob", folder.display()), host, port])
        .env("PATH", "/usr/bin:/bin")
        .env("ROTA_JOB_ID", job.to_string())
        .env("ROTA_LEASE", "1")
        .spawn()
        .unwrap();
    let of_bob = line_of(&folder.join("bob"));
    let refused = (init(&of_bob, job), update(&of_bob, job, 0, 90, 2.0));
    stranger.kill().unwrap();
    stranger.wait().unwrap();
    assert_eq!(refused, (Err(7), Err(7)));
    assert_eq!(update(&own, job, 0, 20, 2.0).unwrap().0, 100, "what the stranger said was not taken");
    ann.json(&daemon, &["cancel", &job.to_string()]);
}
