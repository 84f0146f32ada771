//! Jobs of other users. Needs root; each test says so where it cannot run.

use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};
use std::path::Path;

use rota_exec::{Cause, RunAs, RunSpec};

use crate::support::{Place, end_of, is_root};

const NOBODY: u32 = 65534;

fn nobody(place: &Place, script: &str) -> Option<RunSpec> {
    if !is_root() {
        eprintln!("skipped: running a job as another user needs root");
        return None;
    }
    let mut spec = place.shell(script);
    spec.cwd = "/".into();
    spec.run_as = Some(RunAs { uid: NOBODY, gid: NOBODY, groups: vec![4, NOBODY] });
    Some(spec)
}

fn reachable(path: &Path) {
    std::fs::set_permissions(path, PermissionsExt::from_mode(0o755)).unwrap();
}

#[test]
fn a_job_is_its_users_and_cannot_become_root() {
    let place = Place::new();
    let Some(spec) = nobody(&place, "id -u; id -g; id -G; grep -E '^(Uid|Gid|CapEff|CapPrm):' /proc/self/status") else { return };
    assert_eq!(place.run(&spec).code, Some(0));
    let log = place.log();
    let lines: Vec<&str> = log.lines().collect();
    assert_eq!(lines[..2], ["65534", "65534"]);
    assert_eq!(lines[2].split(' ').collect::<std::collections::BTreeSet<_>>(), ["4", "65534"].into());
    assert_eq!(lines[3], "Uid:\t65534\t65534\t65534\t65534");
    assert_eq!(lines[4], "Gid:\t65534\t65534\t65534\t65534");
    assert!(lines[5..].iter().all(|line| line.ends_with("\t0000000000000000")), "{lines:?}");
    let metadata = std::fs::metadata(place.dir().join("log")).unwrap();
    assert_eq!((metadata.uid(), metadata.gid(), metadata.mode() & 0o777), (NOBODY, NOBODY, 0o600));
    assert_eq!(std::fs::metadata(place.dir().join("exit.json")).unwrap().uid(), 0);
}

#[test]
fn a_job_gets_no_rights_that_its_user_does_not_have() {
    for (asked, shown) in [(false, "NoNewPrivs:\t0\n"), (true, "NoNewPrivs:\t1\n")] {
        let place = Place::new();
        let Some(mut spec) = nobody(&place, "grep NoNewPrivs /proc/self/status") else { return };
        spec.no_new_privileges = asked;
        assert_eq!(place.run(&spec).code, Some(0));
        assert_eq!(place.log(), shown);
    }
}

#[test]
fn a_users_job_dies_with_its_supervisor() {
    let place = Place::new();
    let Some(spec) = nobody(&place, "exec sleep 1000") else { return };
    let supervisor = place.launch(&spec);
    crate::support::until("the start", || rota_exec::taken(&place.dir()).is_ok_and(|taken| taken.is_some()));
    let main = rota_exec::taken(&place.dir()).unwrap().unwrap().process.unwrap().pid;
    crate::support::until("the program", || {
        std::fs::read(format!("/proc/{main}/cmdline")).is_ok_and(|line| line.starts_with(b"sleep"))
    });
    crate::support::signal(supervisor.identity().pid, rustix::process::Signal::KILL);
    end_of(&supervisor);
    crate::support::until("the end of the job", || !crate::support::lives(main));
}

#[test]
fn a_directory_is_entered_with_the_users_rights() {
    let place = Place::new();
    let Some(mut spec) = nobody(&place, "true") else { return };
    spec.cwd = place.path().join("private");
    std::fs::create_dir(&spec.cwd).unwrap();
    std::fs::set_permissions(&spec.cwd, PermissionsExt::from_mode(0o700)).unwrap();
    let record = place.run(&spec);
    assert_eq!(record.cause, Cause::CouldNotStart);
    assert!(record.message.unwrap().contains("user 65534 may not enter it"));
}

#[test]
fn a_log_elsewhere_is_opened_with_the_users_rights() {
    let place = Place::new();
    reachable(place.path());
    let Some(mut spec) = nobody(&place, "echo said") else { return };
    // A folder of root's: refused, though the supervisor could.
    spec.log = place.path().join("log");
    let record = place.run(&spec);
    assert_eq!(record.cause, Cause::CouldNotStart);
    assert!(!place.path().join("log").exists());
    // The user's own folder: theirs, and rotated there.
    let place = Place::new();
    reachable(place.path());
    let folder = place.path().join("own");
    std::fs::create_dir(&folder).unwrap();
    chown(&folder, Some(NOBODY), Some(NOBODY)).unwrap();
    std::fs::set_permissions(&folder, PermissionsExt::from_mode(0o700)).unwrap();
    let mut spec = nobody(&place, "echo one; echo two").unwrap();
    spec.log = folder.join("log");
    (spec.log_bytes_max, spec.log_files_max) = (4, 3);
    assert_eq!(place.run(&spec).code, Some(0));
    assert_eq!(std::fs::read_to_string(folder.join("log")).unwrap(), "two\n");
    assert_eq!(std::fs::read_to_string(folder.join("log.1")).unwrap(), "one\n");
    assert_eq!(std::fs::metadata(folder.join("log")).unwrap().uid(), NOBODY);
    // A link in it to something of root's.
    let place = Place::new();
    reachable(place.path());
    let folder = place.path().join("own");
    std::fs::create_dir(&folder).unwrap();
    chown(&folder, Some(NOBODY), Some(NOBODY)).unwrap();
    std::fs::write(place.path().join("roots"), "secret").unwrap();
    std::fs::hard_link(place.path().join("roots"), folder.join("log")).unwrap();
    let mut spec = nobody(&place, "echo said").unwrap();
    spec.log = folder.join("log");
    assert_eq!(place.run(&spec).cause, Cause::CouldNotStart);
    assert_eq!(std::fs::read_to_string(place.path().join("roots")).unwrap(), "secret");
}

#[test]
fn who_is_not_root_cannot_run_jobs_of_others() {
    if is_root() {
        return;
    }
    let place = Place::new();
    let mut spec = place.spec(&["true"]);
    spec.run_as = Some(RunAs { uid: 0, gid: 0, groups: Vec::new() });
    let record = place.run(&spec);
    assert_eq!(record.cause, Cause::CouldNotStart);
    assert!(record.message.unwrap().contains("as root"));
}
