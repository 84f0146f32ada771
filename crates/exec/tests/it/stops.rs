//! Jobs that are ended by somebody.

use std::time::Duration;

use rota_exec::Cause;
use rustix::process::Signal;

use crate::support::{Place, end_of, lives, signal};

#[test]
fn a_job_that_heeds_the_request_ends_with_its_own_code() {
    let place = Place::new();
    let supervisor = place.launch(&place.shell("trap 'exit 9' TERM; echo $$ > pid; while :; do sleep 100 & wait; done"));
    place.pid("pid");
    supervisor.stop().unwrap();
    end_of(&supervisor);
    let record = place.record();
    assert_eq!((record.code, record.cause), (Some(9), Cause::StopRequested));
}

#[test]
fn a_job_that_ignores_the_request_is_killed_after_its_grace() {
    let place = Place::new();
    let mut spec = place.shell("trap '' TERM; echo $$ > pid; while :; do sleep 100; done");
    spec.grace = Duration::from_millis(300);
    let supervisor = place.launch(&spec);
    place.pid("pid");
    let since = std::time::Instant::now();
    supervisor.stop().unwrap();
    end_of(&supervisor);
    assert!(since.elapsed() >= Duration::from_millis(300));
    let record = place.record();
    assert_eq!((record.code, record.signal, record.cause), (None, Some(9), Cause::StopRequested));
}

#[test]
fn a_second_request_does_not_lengthen_the_grace() {
    let place = Place::new();
    let mut spec = place.shell("trap 'echo x >> got' TERM; echo $$ > pid; while :; do sleep 100 & wait; done");
    spec.grace = Duration::from_secs(2);
    let supervisor = place.launch(&spec);
    place.pid("pid");
    supervisor.stop().unwrap();
    place.line("got");
    supervisor.stop().unwrap();
    end_of(&supervisor);
    assert_eq!(place.record().cause, Cause::StopRequested);
    assert_eq!(place.line("got"), "x");
}

#[test]
fn a_kill_does_not_wait_for_any_grace() {
    let place = Place::new();
    let supervisor = place.launch(&place.shell("trap '' TERM; echo $$ > pid; while :; do sleep 1000; done"));
    let pid = place.pid("pid");
    supervisor.kill().unwrap();
    end_of(&supervisor);
    let record = place.record();
    assert_eq!((record.signal, record.cause), (Some(9), Cause::StopRequested));
    assert!(!lives(pid));
}

#[test]
fn a_stopped_job_can_be_ended() {
    let place = Place::new();
    let supervisor = place.launch(&place.shell("echo $$ > pid; exec sleep 1000"));
    let pid = place.pid("pid");
    signal(pid, Signal::STOP);
    supervisor.stop().unwrap();
    end_of(&supervisor);
    let record = place.record();
    assert_eq!((record.signal, record.cause), (Some(15), Cause::StopRequested));
}

#[test]
fn a_time_limit_ends_the_job() {
    let place = Place::new();
    let mut spec = place.shell("sleep 1000");
    spec.time_limit = Some(Duration::from_millis(200));
    let record = place.run(&spec);
    assert_eq!((record.signal, record.cause), (Some(15), Cause::TimeLimit));
    assert!(record.duration_ns >= 200_000_000);
}

#[test]
fn a_time_limit_with_a_deaf_job_kills_it() {
    let place = Place::new();
    let mut spec = place.shell("trap '' TERM; while :; do sleep 1000; done");
    spec.time_limit = Some(Duration::from_millis(100));
    spec.grace = Duration::from_millis(100);
    let record = place.run(&spec);
    assert_eq!((record.signal, record.cause), (Some(9), Cause::TimeLimit));
    assert!(record.duration_ns >= 200_000_000);
}

#[test]
fn signals_that_mean_nothing_to_a_supervisor_do_nothing() {
    let place = Place::new();
    let fifo = place.fifo("go");
    let supervisor = place.launch(&place.shell("echo $$ > pid; read line < go; exit 4"));
    place.pid("pid");
    for odd in [Signal::HUP, Signal::PIPE, Signal::ALARM, Signal::TSTP, Signal::WINCH] {
        signal(supervisor.identity().pid, odd);
    }
    std::fs::write(fifo, "go\n").unwrap();
    end_of(&supervisor);
    assert_eq!((place.record().code, place.record().cause), (Some(4), Cause::Exited));
}

#[test]
fn a_stop_at_any_moment_of_the_start_is_heeded() {
    for round in 0..40_u64 {
        let place = Place::new();
        let supervisor = place.launch(&place.shell("echo $$ > pid; exec sleep 1000"));
        std::thread::sleep(Duration::from_micros(round * 250));
        supervisor.stop().unwrap();
        end_of(&supervisor);
        match rota_exec::adopt(&place.dir()).unwrap() {
            rota_exec::Adopted::Ended(record) => assert_eq!(record.cause, Cause::StopRequested, "round {round}: {record:?}"),
            rota_exec::Adopted::NeverStarted => assert!(!place.path().join("pid").exists(), "round {round}"),
            other => panic!("round {round}: {other:?}"),
        }
    }
}
