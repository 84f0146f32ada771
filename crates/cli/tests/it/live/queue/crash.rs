//! `kill -9` of the daemon, and of supervisors, at any moment: nothing acknowledged is lost, nothing runs twice, no ending is guessed.

use crate::live::{Daemon, Dice, is_alive, kill, line_of, number_in, until};
use rustix::process::Signal;
use std::io::{BufRead, Read};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// What a job of the load does, and so how it must end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Deed {
    Succeed,
    Fail,
    KillItself,
    SleepThenSucceed,
    BeCancelled,
}

impl Deed {
    fn of(dice: &mut Dice) -> Self {
        match dice.below(8) {
            0 | 1 => Self::Succeed,
            2 => Self::Fail,
            3 => Self::KillItself,
            4 | 5 => Self::BeCancelled,
            _ => Self::SleepThenSucceed,
        }
    }

    /// What its shell does after it has written its line.
    fn script(self, dice: &mut Dice) -> String {
        match self {
            Self::Succeed => "exit 0".to_owned(),
            Self::Fail => "exit 7".to_owned(),
            Self::KillItself => "kill -9 $$".to_owned(),
            Self::SleepThenSucceed => format!("sleep 0.{:02}", dice.below(40)),
            Self::BeCancelled => "sleep 600".to_owned(),
        }
    }
}

/// A job that was acknowledged.
struct Sent {
    id: u64,
    deed: Deed,
    mark: PathBuf,
    seen_started: bool,
}

/// A program that submits, and asks again whenever it gets no answer.
struct Client<'a> {
    state: &'a Path,
    folder: &'a Path,
    name: usize,
    over: &'a AtomicBool,
}

impl Client<'_> {
    /// Calls until the daemon has answered; gives whether it agreed, and what was printed.
    fn insist(&self, arguments: &[&str]) -> (bool, String, String) {
        let since = Instant::now();
        loop {
            let output = Command::new(crate::live::program())
                .args(arguments)
                .env("ROTA_STATE", self.state)
                .stdin(Stdio::null())
                .output()
                .unwrap();
            let stderr = String::from_utf8(output.stderr).unwrap();
            let away =
                ["no daemon on", "the daemon went away", "the daemon is stopping"].iter().any(|part| stderr.contains(part));
            if !away {
                return (output.status.success(), String::from_utf8(output.stdout).unwrap(), stderr);
            }
            assert_eq!(output.status.code(), Some(1), "{stderr}");
            assert!(since.elapsed() < crate::live::PATIENCE, "nobody answers {arguments:?}");
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    fn run(&self, dice: &mut Dice) -> Vec<Sent> {
        let mut sent = Vec::new();
        while !self.over.load(Ordering::Relaxed) {
            let key = format!("{}-{}", self.name, sent.len());
            let mark = self.folder.join(&key);
            let deed = Deed::of(dice);
            let script = format!("echo ran >> '{}'; {}", mark.display(), deed.script(dice));
            let (accepted, stdout, stderr) = self.insist(&["submit", "--key", &key, "--grace", "0.2", "--", "sh", "-c", &script]);
            assert!(accepted, "{key}: {stderr}");
            let id = stdout.trim().parse().unwrap();
            let mut seen_started = false;
            if deed == Deed::BeCancelled {
                // Before it starts, while it starts, or while it runs.
                std::thread::sleep(Duration::from_millis(dice.below(60)));
                seen_started = mark.exists();
                let (done, _, stderr) = self.insist(&["cancel", stdout.trim()]);
                // Asked again after an answer that was lost, it may be over.
                assert!(done || stderr.contains("over already: cancelled"), "{key}: {stderr}");
            }
            sent.push(Sent { id, deed, mark, seen_started });
        }
        sent
    }
}

#[test]
fn a_daemon_killed_at_any_moment_loses_nothing_and_repeats_nothing() {
    let rounds = number_in("ROTA_CRASH_ROUNDS", 25);
    let seed = number_in("ROTA_CRASH_SEED", u64::from(std::process::id()));
    eprintln!("{rounds} rounds, ROTA_CRASH_SEED={seed}");
    let mut dice = Dice::new(seed);
    let mut daemon = Daemon::start("a100:4");
    let (folder, state) = (daemon.folder.path().to_owned(), daemon.state.clone());
    let over = AtomicBool::new(false);
    let all = Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        // Whatever becomes of the rounds, the clients must not wait for each other for ever.
        let stop = Stop(&over);
        for name in 0..2 {
            let client = Client { state: &state, folder: &folder, name, over: &over };
            let all = &all;
            let mut own = Dice::new(seed.wrapping_mul(31).wrapping_add(name as u64));
            scope.spawn(move || {
                // First the run, then the lock: clients work side by side.
                let sent = client.run(&mut own);
                all.lock().unwrap().extend(sent);
            });
        }
        for round in 0..rounds {
            // Up to half a second of life: from the first file that is opened to a queue at full speed.
            std::thread::sleep(Duration::from_millis(dice.below(if round % 4 == 0 { 60 } else { 500 })));
            daemon.kill();
            // Jobs end, and clients ask, while nobody is there.
            std::thread::sleep(Duration::from_millis(dice.below(150)));
            daemon.launch();
        }
        drop(stop);
        until("the daemon answers", || daemon.rota(&["status"]).status.success());
    });
    let sent = all.into_inner().unwrap();
    let ids = sent.iter().map(|sent| sent.id).collect::<Vec<_>>();
    let jobs = daemon.wait(&ids);
    for (sent, job) in sent.iter().zip(&jobs) {
        let runs = std::fs::read_to_string(&sent.mark).unwrap_or_default().lines().count();
        let (state, code, signal) = match sent.deed {
            Deed::Succeed | Deed::SleepThenSucceed => ("done", Some(0), None),
            Deed::Fail => ("failed", Some(7), None),
            Deed::KillItself => ("failed", None, Some(9)),
            Deed::BeCancelled => ("cancelled", None, job["signal"].as_i64()),
        };
        let told = format!("seed {seed}: job {} ({:?}) ran {runs} times: {job:#}", sent.id, sent.deed);
        assert_eq!(job["state"], state, "{told}");
        assert_eq!((job["exit_code"].as_i64(), job["signal"].as_i64()), (code, signal), "{told}");
        if sent.deed == Deed::BeCancelled {
            assert!(runs == 1 || (runs == 0 && !sent.seen_started), "{told}");
        } else {
            assert_eq!(runs, 1, "{told}");
        }
    }
    let known = daemon.json(&["queue", "--all", "--json"]);
    let mut known = known.as_array().unwrap().iter().map(|job| job["id"].as_u64().unwrap()).collect::<Vec<_>>();
    let mut expected = ids;
    known.sort_unstable();
    expected.sort_unstable();
    assert_eq!(known, expected, "seed {seed}: a repeated submit made another job, or one is missing");
    eprintln!("{} jobs in {rounds} rounds, each ended as it should", sent.len());
}

/// Ends the clients when it goes, also by a panic.
struct Stop<'a>(&'a AtomicBool);

impl Drop for Stop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

#[test]
fn a_job_whose_supervisor_is_killed_is_lost_and_nothing_of_it_stays() {
    let seed = number_in("ROTA_CRASH_SEED", u64::from(std::process::id()));
    eprintln!("ROTA_CRASH_SEED={seed}");
    let mut dice = Dice::new(seed);
    let mut daemon = Daemon::start("a100:12");
    let go = daemon.file("go");
    let mut jobs = Vec::new();
    for number in 0..12 {
        let (mark, child) = (daemon.file(&format!("mark-{number}")), daemon.file(&format!("child-{number}")));
        // A grandchild in a session of its own, which no signal to a group would reach.
        let line = format!(
            "echo ran >> '{}'; setsid sleep 600 & echo $! > '{}'; while [ ! -e '{}' ]; do sleep 0.02; done; kill $!; exit 3",
            mark.display(),
            child.display(),
            go.display()
        );
        jobs.push((daemon.shell(&[], &line), mark, child, dice.below(2) == 0));
    }
    let grandchildren = jobs.iter().map(|(_, _, child, _)| line_of(child).parse::<u32>().unwrap()).collect::<Vec<_>>();
    for (number, (id, _, _, victim)) in jobs.iter().enumerate() {
        if number == 6 {
            // The other half loses its supervisors while the daemon is away.
            daemon.kill();
        }
        if *victim {
            kill(daemon.supervisor(*id), Signal::KILL);
        }
    }
    daemon.up();
    let lost = jobs.iter().filter(|job| job.3).map(|job| job.0).collect::<Vec<_>>();
    for job in if lost.is_empty() { Vec::new() } else { daemon.wait(&lost) } {
        assert_eq!(job["state"], "lost", "seed {seed}: {job:#}");
        assert!(job["reason"].as_str().unwrap().contains("its supervisor was killed"), "{job:#}");
        assert!(job["exit_code"].is_null() && job["signal"].is_null(), "an ending was guessed: {job:#}");
    }
    for ((id, _, _, victim), grandchild) in jobs.iter().zip(&grandchildren) {
        if *victim {
            assert!(!is_alive(*grandchild), "seed {seed}: a process of job {id} is left");
        } else {
            assert!(is_alive(*grandchild), "seed {seed}: job {id} was harmed");
        }
    }
    std::fs::write(&go, "").unwrap();
    let kept = jobs.iter().filter(|job| !job.3).map(|job| job.0).collect::<Vec<_>>();
    for job in if kept.is_empty() { Vec::new() } else { daemon.wait(&kept) } {
        assert_eq!((&job["state"], &job["exit_code"]), (&"failed".into(), &3.into()), "seed {seed}: {job:#}");
    }
    for (_, mark, _, _) in &jobs {
        assert_eq!(std::fs::read_to_string(mark).unwrap(), "ran\n");
    }
}

#[test]
fn a_stop_survives_the_daemon_that_asked_for_it() {
    let mut daemon = Daemon::start("a100:1");
    let mark = daemon.file("ready");
    let id = daemon
        .shell(&["--grace", "0.3"], &format!("trap '' TERM; echo ready > '{}'; while :; do sleep 0.02; done", mark.display()));
    line_of(&mark);
    daemon.ok(&["cancel", &id.to_string()]);
    daemon.restart();
    let job = daemon.wait_one(id);
    assert_eq!((&job["state"], &job["signal"]), (&"cancelled".into(), &9.into()), "{job:#}");
}

#[test]
fn a_job_stopped_to_make_room_waits_again_although_the_daemon_died() {
    let mut daemon = Daemon::configured("a100:1", "policy = 'srtf'");
    let (ready, asked) = (daemon.file("ready"), daemon.file("asked"));
    let line = format!(
        "[ $ROTA_ATTEMPT = 1 ] || exit 0; trap 'echo asked > \"{}\"' TERM; echo > '{}'; while :; do sleep 0.02; done",
        asked.display(),
        ready.display()
    );
    let long = daemon.shell(&["--preemptible", "--estimate", "1000", "--grace", "0.5"], &line);
    line_of(&ready);
    let short = daemon.shell(&["--estimate", "1"], "true");
    line_of(&asked);
    daemon.kill();
    let dir = daemon.run_dir(long, 1);
    until("it has gone", || matches!(rota_exec::adopt(&dir), Ok(rota_exec::Adopted::Ended(_))));
    daemon.up();
    let jobs = daemon.wait(&[short, long]);
    assert_eq!(jobs[0]["state"], "done");
    assert_eq!((jobs[1]["state"].as_str(), jobs[1]["attempts"].as_u64()), (Some("done"), Some(2)), "{:#}", jobs[1]);
}

#[test]
fn those_who_wait_for_a_job_outwait_a_restart() {
    let mut daemon = Daemon::start("a100:1");
    let go = daemon.file("go");
    let id = daemon.shell(&[], &format!("while [ ! -e '{}' ]; do sleep 0.02; done; exit 5", go.display()));
    daemon.until_state(id, "running");
    let waiting = daemon.call(&["wait", "--json", &id.to_string()]).stdout(Stdio::piped()).spawn().unwrap();
    // The first answer comes at once: a connection that stays is the one that waits.
    let connection = || {
        let open = std::fs::read_dir(format!("/proc/{}/fd", waiting.id())).unwrap();
        let links = open.flatten().filter_map(|entry| std::fs::read_link(entry.path()).ok());
        links.map(|link| link.to_string_lossy().into_owned()).filter(|link| link.starts_with("socket:")).max()
    };
    until("it waits", || {
        let before = connection();
        std::thread::sleep(Duration::from_millis(200));
        before.is_some() && before == connection()
    });
    daemon.kill();
    std::fs::write(&go, "").unwrap();
    daemon.up();
    let output = waiting.wait_with_output().unwrap();
    let jobs: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!((output.status.code(), &jobs[0]["exit_code"]), (Some(1), &5.into()));
}

#[test]
fn rota_run_shows_the_whole_log_and_the_exit_code_over_a_restart() {
    let mut daemon = Daemon::start("a100:1");
    let go = daemon.file("go");
    let line = format!("echo before; while [ ! -e '{}' ]; do sleep 0.02; done; echo after; exit 5", go.display());
    let mut running = daemon.call(&["run", "--", "sh", "-c", &line]).stdout(Stdio::piped()).spawn().unwrap();
    let mut shown = std::io::BufReader::new(running.stdout.take().unwrap());
    let mut first = String::new();
    shown.read_line(&mut first).unwrap();
    assert_eq!(first, "before\n");
    daemon.kill();
    std::fs::write(&go, "").unwrap();
    daemon.up();
    let mut rest = String::new();
    shown.read_to_string(&mut rest).unwrap();
    assert_eq!((rest.as_str(), running.wait().unwrap().code()), ("after\n", Some(5)));
}
