//! How jobs end by themselves.

use std::time::Duration;

use rota_exec::{Cause, taken};

use crate::support::{Place, lives};

#[test]
fn an_exit_code_is_kept() {
    for code in [0, 7, 255] {
        let place = Place::new();
        let record = place.run(&place.shell(&format!("exit {code}")));
        assert_eq!((record.code, record.signal, record.cause), (Some(code), None, Cause::Exited));
        assert_eq!(record.message, None);
    }
}

#[test]
fn a_signal_is_kept() {
    let place = Place::new();
    let record = place.run(&place.shell("kill -SEGV $$"));
    assert_eq!((record.code, record.signal, record.cause), (None, Some(11), Cause::Exited));
}

#[test]
fn the_record_says_when_who_and_how_much() {
    let place = Place::new();
    let before = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_nanos() as u64;
    let record = place.run(&place.shell("i=0; while [ $i -lt 20000 ]; do i=$((i+1)); done; echo $$ > pid"));
    let after = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_nanos() as u64;
    assert!(
        before <= record.started_unix_ns && record.started_unix_ns < record.finished_unix_ns && record.finished_unix_ns <= after
    );
    assert!(record.user_seconds + record.system_seconds > 0.0);
    assert!(record.max_rss_kib > 100);
    let process = record.process.unwrap();
    assert_eq!(process.pid, place.pid("pid"));
    assert!(!lives(process.pid));
    let taken = taken(&place.dir()).unwrap().unwrap();
    assert_eq!((taken.job, taken.attempt, taken.process), (7, 1, Some(process)));
}

/// The wall clock of a shared machine is not the test's to set; so: the duration is the boot clock's, and agrees with it
/// whatever the other clocks say.
#[test]
fn the_duration_is_by_the_boot_clock() {
    let boot = || {
        let now = rustix::time::clock_gettime(rustix::time::ClockId::Boottime);
        Duration::new(now.tv_sec as u64, now.tv_nsec as u32)
    };
    let place = Place::new();
    let before = boot();
    let record = place.run(&place.shell("sleep 0.2"));
    let outside = boot().saturating_sub(before);
    let duration = Duration::from_nanos(record.duration_ns);
    assert!(Duration::from_millis(200) <= duration && duration <= outside, "{duration:?} of {outside:?}");
}

#[test]
fn the_supervisor_leaves_nothing_but_its_files() {
    let place = Place::new();
    place.run(&place.spec(&["true"]));
    let mut names: Vec<_> =
        std::fs::read_dir(place.dir()).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    assert_eq!(names, ["exit.json", "log", "spec.json", "supervisor.json"]);
}

#[test]
fn the_job_is_given_its_environment_and_no_other() {
    let place = Place::new();
    let mut spec = place.spec(&["env"]);
    spec.env.push(("A".into(), "1".into()));
    spec.env.push(("A".into(), "2".into()));
    spec.env.push(("ROTA_RUN_DIR".into(), "/somebody/elses".into()));
    place.run(&spec);
    let log = place.log();
    let mut lines: Vec<&str> = log.lines().collect();
    lines.sort_unstable();
    let mark = format!("ROTA_RUN_DIR={}", place.dir().canonicalize().unwrap().display());
    assert_eq!(lines, ["A=2", "PATH=/usr/local/bin:/usr/bin:/bin", "ROTA_JOB_ID=7", &mark]);
}

#[test]
fn the_job_has_its_own_session_and_a_clean_start() {
    let place = Place::new();
    place.run(&place.shell("cut -d' ' -f1,5,6 /proc/$$/stat; umask; ls /proc/self/fd; readlink /proc/self/fd/0"));
    let log = place.log();
    let lines: Vec<&str> = log.lines().collect();
    let ids: Vec<&str> = lines[0].split(' ').collect();
    assert!(ids.iter().all(|id| *id == ids[0]), "pid, group and session: {ids:?}");
    // The standard descriptors, and the one `ls` reads through.
    assert_eq!(lines[1..], ["0022", "0", "1", "2", "3", "/dev/null"]);
}

#[test]
fn no_signal_is_blocked_or_ignored_in_the_job() {
    let place = Place::new();
    // Without a shell, which blocks signals of its own for moments.
    place.run(&place.spec(&["grep", "-E", "^Sig(Blk|Ign)", "/proc/self/status"]));
    assert_eq!(place.log(), "SigBlk:\t0000000000000000\nSigIgn:\t0000000000000000\n");
}

#[test]
fn arguments_that_are_not_text_arrive() {
    use std::os::unix::ffi::OsStringExt;
    let place = Place::new();
    let odd = std::ffi::OsString::from_vec(vec![0xff, b'a', 0xfe, b'\n']);
    let mut spec = place.spec(&["printf", "%s"]);
    spec.command.push(odd.clone());
    spec.env.push(("ODD".into(), odd.clone()));
    spec.cwd = place.path().join(std::ffi::OsString::from_vec(vec![0xf0, b'd']));
    std::fs::create_dir(&spec.cwd).unwrap();
    assert_eq!(place.run(&spec).code, Some(0));
    assert_eq!(std::fs::read(place.dir().join("log")).unwrap(), odd.into_vec());
}
