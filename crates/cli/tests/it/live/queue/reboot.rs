//! A machine that was restarted: what ran is lost, or waits again where that was asked for; what waited goes on.

use crate::live::{Daemon, kill, line_of};
use rustix::process::Signal;
use serde_json::json;
use std::path::Path;

/// Writes a run directory's record of its supervisor as if it were of an earlier boot.
fn move_to_an_earlier_boot(dir: &Path) {
    let path = dir.join("supervisor.json");
    let text = std::fs::read_to_string(&path).unwrap();
    let now = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap();
    assert!(text.contains(now.trim()));
    let line = text.lines().next().unwrap().replace(now.trim(), "00000000-0000-4000-8000-000000000000");
    // The closing seal: FNV-1a over the line.
    let sum = line.bytes().fold(0xcbf2_9ce4_8422_2325, |sum: u64, byte| (sum ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3));
    std::fs::write(&path, format!("{line}\n\"fnv1a64:{sum:016x}\"\n")).unwrap();
}

/// Kills everything, as a power loss does, and starts the daemon as if on the next boot.
fn reboot(daemon: &mut Daemon, running: &[u64]) {
    daemon.kill();
    for id in running {
        kill(daemon.supervisor(*id), Signal::KILL);
        let dir = daemon.run_dir(*id, 1);
        rota_exec::kill_leftovers(&dir);
        move_to_an_earlier_boot(&dir);
    }
    daemon.up();
}

fn start(daemon: &Daemon, options: &[&str]) -> u64 {
    let mark = daemon.file(&format!("mark{}", options.concat()));
    // Only the first attempt would run for ever.
    let id = daemon.shell(options, &format!("echo ran >> '{}'; [ $ROTA_ATTEMPT = 1 ] && sleep 600; true", mark.display()));
    line_of(&mark);
    id
}

#[test]
fn jobs_that_ran_are_lost_and_the_queue_goes_on() {
    let mut daemon = Daemon::start("a100:2");
    let plain = start(&daemon, &[]);
    let again = start(&daemon, &["--retries", "1", "--retry-delay", "0.05"]);
    let waiting = daemon.shell(&[], "true");
    let after = daemon.shell(&["--after", &plain.to_string()], "true");
    reboot(&mut daemon, &[plain, again]);
    let jobs = daemon.wait(&[plain, again, waiting, after]);
    assert_eq!((&jobs[0]["state"], &jobs[0]["attempts"]), (&json!("lost"), &json!(1)), "{:#}", jobs[0]);
    assert!(jobs[0]["reason"].as_str().unwrap().contains("the machine was restarted"), "{:#}", jobs[0]);
    assert!(jobs[0]["exit_code"].is_null() && jobs[0]["signal"].is_null());
    assert_eq!((&jobs[1]["state"], &jobs[1]["attempts"]), (&json!("done"), &json!(2)), "{:#}", jobs[1]);
    assert_eq!(jobs[2]["state"], "done");
    assert_eq!(jobs[3]["state"], "failed", "what it waits for did not end well");
}

#[test]
fn jobs_that_ran_wait_again_where_that_is_asked_for() {
    let mut daemon = Daemon::configured("a100:1", "[jobs]\non_reboot = 'requeue'");
    let ran = start(&daemon, &[]);
    let waiting = daemon.shell(&[], "true");
    reboot(&mut daemon, &[ran]);
    let jobs = daemon.wait(&[ran, waiting]);
    assert_eq!(
        (&jobs[0]["state"], &jobs[0]["attempts"], &jobs[0]["reason"]),
        (&json!("done"), &json!(2), &json!(null)),
        "{:#}",
        jobs[0]
    );
    assert_eq!(jobs[1]["state"], "done");
}

#[test]
fn a_claim_of_an_earlier_boot_is_over() {
    let mut daemon = Daemon::start("a100:1");
    let holder = std::process::id().to_string();
    assert_eq!(daemon.ok(&["claim", "--pid", &holder]), "0\n");
    daemon.kill();
    let store = rusqlite::Connection::open(daemon.state.join("rota.db")).unwrap();
    let now = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap();
    let changed = store.execute("UPDATE jobs SET spec = replace(spec, ?1, 'another')", [now.trim()]).unwrap();
    assert_eq!(changed, 1);
    drop(store);
    daemon.up();
    let job = daemon.shell(&[], "true");
    assert_eq!(daemon.wait_one(job)["state"], "done");
}
