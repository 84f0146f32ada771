//! Jobs of many processes.

use std::time::Duration;

use rota_exec::{Adopted, Cause, LostReason, adopt, job_processes, kill_leftovers};
use rustix::process::Signal;

use crate::support::{Place, end_of, lives, signal, until};

/// A process that has left its parent, its session and its output, as daemons do.
const DAEMON: &str =
    "setsid sh -c 'setsid sh -c \"echo \\$\\$ > daemon; exec sleep 1000\" </dev/null >/dev/null 2>&1 &' & wait; ";

#[test]
fn a_daemon_that_is_left_is_ended_before_the_record_is_written() {
    let place = Place::new();
    // The main process waits for the daemon to be there, or it could be ended before it says who it is.
    let record = place.run(&place.shell(&format!("{DAEMON} until [ -s daemon ]; do sleep 0.01; done; exit 3")));
    assert_eq!((record.code, record.cause), (Some(3), Cause::Exited));
    assert!(!lives(place.pid("daemon")));
}

#[test]
fn a_deaf_daemon_that_is_left_is_killed() {
    let place = Place::new();
    let mut spec = place.shell("(trap '' TERM; echo x > deaf; exec setsid sleep 1000) & until [ -s deaf ]; do sleep 0.01; done");
    spec.grace = Duration::from_millis(200);
    let since = std::time::Instant::now();
    let record = place.run(&spec);
    assert_eq!(record.code, Some(0));
    assert!(since.elapsed() >= Duration::from_millis(200));
    assert!(record.duration_ns < since.elapsed().as_nanos() as u64 - 150_000_000, "the duration is the main process's");
}

#[test]
fn all_of_a_running_job_is_known_and_stopped() {
    let place = Place::new();
    let supervisor = place.launch(&place.shell(&format!("sleep 1000 & {DAEMON}")));
    let daemon = place.pid("daemon");
    until("all processes", || job_processes(&place.dir()).len() == 3);
    let processes = job_processes(&place.dir());
    assert!(processes.contains(&daemon) && !processes.contains(&supervisor.identity().pid));
    assert_eq!(kill_leftovers(&place.dir()), 0, "nothing is left over while a supervisor is there");
    assert!(lives(daemon));
    supervisor.stop().unwrap();
    end_of(&supervisor);
    assert!(processes.iter().all(|pid| !lives(*pid)));
    assert_eq!(job_processes(&place.dir()), [0_u32; 0]);
}

#[test]
fn processes_that_fork_while_they_are_killed_are_killed() {
    let place = Place::new();
    let mut spec = place
        .shell("trap '' TERM; echo $$ > pid; f() { while :; do sleep 0.01 & setsid sleep 0.02 & wait; done; }; f & f & f & f");
    spec.grace = Duration::ZERO;
    let supervisor = place.launch(&spec);
    place.pid("pid");
    supervisor.stop().unwrap();
    end_of(&supervisor);
    assert_eq!(place.record().signal, Some(9));
    assert_eq!(kill_leftovers(&place.dir()), 0);
}

#[test]
fn a_killed_supervisor_takes_the_main_process_with_it_and_the_rest_is_found() {
    let place = Place::new();
    // One that has thrown away its environment but not its session and output, one that kept neither of these.
    let supervisor = place.launch(&place.shell(&format!("env -i sleep 1000 & echo $! > bare; echo $$ > main; {DAEMON} wait")));
    let (main, bare, daemon) = (place.pid("main"), place.pid("bare"), place.pid("daemon"));
    until("the change of environment", || std::fs::read(format!("/proc/{bare}/environ")).is_ok_and(|text| text.is_empty()));
    signal(supervisor.identity().pid, Signal::KILL);
    end_of(&supervisor);
    assert!(matches!(adopt(&place.dir()).unwrap(), Adopted::Lost(LostReason::SupervisorKilled)));
    until("the end of the main process", || !lives(main));
    assert!(lives(bare) && lives(daemon));
    let mut left = job_processes(&place.dir());
    left.sort_unstable();
    let mut expected = [bare, daemon];
    expected.sort_unstable();
    assert_eq!(left, expected);
    assert_eq!(kill_leftovers(&place.dir()), 2);
    assert!(!lives(bare) && !lives(daemon));
    assert_eq!(kill_leftovers(&place.dir()), 0);
    assert!(matches!(adopt(&place.dir()).unwrap(), Adopted::Lost(LostReason::SupervisorKilled)));
}

#[test]
fn a_process_that_has_left_everything_does_not_outlive_a_killed_supervisor() {
    // Its parent, its session, its environment, its output and its folder.
    let line =
        "env -i setsid sh -c 'echo $$ > alone.new; mv alone.new alone; cd /; exec sleep 1000' </dev/null >/dev/null 2>&1 & wait";
    for round in 0..30 {
        let place = Place::new();
        let supervisor = place.launch(&place.shell(line));
        let alone = place.pid("alone");
        if rota_exec::taken(&place.dir()).unwrap().unwrap().audit_session.is_none() {
            eprintln!("the kernel has no audit sessions, or this process is in one already: not tested");
            supervisor.kill().unwrap();
            end_of(&supervisor);
            return;
        }
        signal(supervisor.identity().pid, Signal::KILL);
        end_of(&supervisor);
        assert!(lives(alone), "round {round}: it is left when its supervisor is killed");
        // The main process may be dying still, and be counted.
        assert!(kill_leftovers(&place.dir()) >= 1, "round {round}");
        assert!(!lives(alone), "round {round}");
    }
}

#[test]
fn a_stranger_is_not_a_leftover() {
    let place = Place::new();
    let other = Place::new();
    let supervisor = place.launch(&place.shell("echo $$ > pid; exec sleep 1000"));
    let neighbour = other.launch(&other.shell("echo $$ > pid; exec sleep 1000"));
    // Its job number is the same, its directory begins with the same letters; only its own run directory is another.
    let mut stranger = std::process::Command::new("sleep")
        .arg("1000")
        .env("ROTA_JOB_ID", "7")
        .env("ROTA_RUN_DIR", place.dir().join("x"))
        .spawn()
        .unwrap();
    place.pid("pid");
    let untouched = other.pid("pid");
    signal(supervisor.identity().pid, Signal::KILL);
    end_of(&supervisor);
    kill_leftovers(&place.dir());
    assert!(lives(stranger.id()) && lives(untouched));
    stranger.kill().unwrap();
    stranger.wait().unwrap();
    neighbour.kill().unwrap();
    end_of(&neighbour);
}
