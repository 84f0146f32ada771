//! Gavel's iterator protocol, spoken by a client that is made from the field numbers alone.

use crate::live::{Daemon, until};
use http_body_util::{BodyExt, Full};
use hyper::body::Bytes;
use hyper_util::rt::{TokioExecutor, TokioIo};
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

/// Calls a method of `IteratorToScheduler`.
fn call(daemon: &Daemon, method: &str, message: &Fields) -> Answer {
    let address = std::fs::read_to_string(daemon.state.join("lease")).unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let stream = tokio::net::TcpStream::connect(address.trim()).await.unwrap();
        let (mut sender, connection) =
            hyper::client::conn::http2::handshake(TokioExecutor::new(), TokioIo::new(stream)).await.unwrap();
        tokio::spawn(connection);
        let mut frame = vec![0];
        frame.extend(u32::try_from(message.0.len()).unwrap().to_be_bytes());
        frame.extend(&message.0);
        let request = hyper::Request::post(format!("http://{}/IteratorToScheduler/{method}", address.trim()))
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

fn init(daemon: &Daemon, job: u64) -> Answer {
    call(daemon, "InitJob", &Fields::default().whole(1, job))
}

fn update(daemon: &Daemon, job: u64, worker: u64, steps: u64, duration: f64) -> Answer {
    let message = Fields::default().whole(1, job).whole(2, worker).whole(3, steps).double(4, duration);
    call(daemon, "UpdateLease", &message.whole(5, 1000).double(6, 1000.0))
}

/// A script that leaves its arguments and variables beside its checkpoints, and ends when it is told to.
const SCRIPT: &str = "echo \"$@\" >> \"$DIR/words-$GAVEL_ROUND_ID\"; \
    echo $GAVEL_JOB_ID $GAVEL_WORKER_ID $GAVEL_SCHED_ADDR $GAVEL_SCHED_PORT > \"$DIR/worker-$GAVEL_ROUND_ID-$GAVEL_WORKER_ID\"; \
    while [ ! -e \"$DIR/go-$GAVEL_ROUND_ID\" ]; do sleep 0.02; done";

fn submit(daemon: &Daemon, gpus: &str, total_steps: &str) -> u64 {
    let folder = format!("DIR={}", daemon.folder.path().display());
    let options = ["-g", gpus, "--gavel", "--total-steps", total_steps, "--steps-arg", "--num_steps", "--env", &folder];
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
    let (steps, seconds, extra) = init(&daemon, job).unwrap();
    assert_eq!((steps, extra), (100, 0.0));
    assert!(seconds > 300.0, "{seconds}");
    assert_eq!(update(&daemon, job, 0, 0, 0.0).unwrap().0, 100);
    let (steps, seconds, _) = update(&daemon, job, 0, 40, 10.0).unwrap();
    assert_eq!(steps, 100);
    assert!(seconds > 310.0, "the lease is extended: {seconds}");
    assert_eq!(update(&daemon, job, 0, 39, 11.0), Err(3), "steps that fall are refused");
    assert_eq!(update(&daemon, job, 9, 40, 11.0), Err(3), "there is one process");
    assert_eq!(init(&daemon, 999).unwrap(), (0, 0.0, 0.0), "a job that is not there has nothing left to do");
    end_round(&daemon, job, 0, &[(0, 60)]);
    attempt(&daemon, job, 2);
    assert_eq!(daemon.show(job)["steps_done"], 60);
    assert_eq!(init(&daemon, job).unwrap().0, 40);
    end_round(&daemon, job, 1, &[(0, 40)]);
    let ended = daemon.wait_one(job);
    assert_eq!(ended["state"], "done", "{ended}");
    assert_eq!(ended["steps_done"], 100, "{ended}");
    assert_eq!(ended["attempts"], 2, "{ended}");
    assert_eq!(init(&daemon, job).unwrap(), (0, 0.0, 0.0), "it is gone");
    let plain = daemon.shell(&[], "sleep 60");
    daemon.until_state(plain, "running");
    assert_eq!(init(&daemon, plain), Err(9), "a job that was not submitted for it");
}

#[test]
fn all_processes_of_a_gang_for_gavel_stop_at_one_step() {
    let daemon = Daemon::configured("a100:2", "policy = 'rr:quantum=0.5'\nround_seconds = 20.0\n[jobs]\nmin_run_seconds = 0.2\n");
    let job = submit(&daemon, "2", "1000");
    attempt(&daemon, job, 1);
    until("both processes run", || daemon.file("worker-0-0").exists() && daemon.file("worker-0-1").exists());
    let said = std::fs::read_to_string(daemon.file("words-0")).unwrap();
    assert!(said.contains("--world_size 2 --rank 0") && said.contains("--world_size 2 --rank 1"), "{said}");
    assert_eq!(init(&daemon, job).unwrap().0, 500, "each does its half");
    let (steps, seconds, _) = update(&daemon, job, 0, 10, 1.0).unwrap();
    assert_eq!((steps, seconds < 1e8), (500, true), "nobody wants its GPUs yet");
    let other = daemon.shell(&["-g", "2", "--preemptible"], "exit 0");
    daemon.until_state(job, "stopping");
    let first = update(&daemon, job, 1, 20, 2.0).unwrap();
    assert!(first.0 > 20 && first.0 < 500, "the last step is ahead, and before the end: {first:?}");
    assert_eq!(update(&daemon, job, 0, 21, 2.0).unwrap(), first, "the other process is answered with the same");
    end_round(&daemon, job, 0, &[(0, first.0), (1, first.0)]);
    attempt(&daemon, job, 2);
    assert_eq!(daemon.wait_one(other)["state"], "done");
    assert_eq!(daemon.show(job)["steps_done"], 2 * first.0);
    end_round(&daemon, job, 1, &[(0, 500 - first.0), (1, 500 - first.0)]);
    assert_eq!(daemon.wait_one(job)["state"], "done");
}
