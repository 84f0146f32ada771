//! Jobs in cgroups, where this machine permits them.

use std::path::PathBuf;

use rota_exec::{Adopted, Cause, LostReason, adopt, cgroup_root, job_processes, kill_leftovers, taken};
use rustix::process::Signal;

use crate::support::{Place, end_of, lives, signal, until};

/// A cgroup to make jobs' cgroups in.
struct Parent(PathBuf);

impl Parent {
    fn new(name: &str) -> Option<Self> {
        let path = cgroup_root()?.join(format!("rota-test-{name}-{}", std::process::id()));
        match std::fs::create_dir(&path) {
            Ok(()) => Some(Self(path)),
            Err(error) => {
                eprintln!("skipped: cgroups cannot be made here: {error}");
                None
            }
        }
    }

    fn has(&self, controller: &str) -> bool {
        std::fs::read_to_string(self.0.join("cgroup.controllers")).unwrap().split_whitespace().any(|name| name == controller)
    }

    fn children(&self) -> usize {
        std::fs::read_dir(&self.0).unwrap().filter(|entry| entry.as_ref().unwrap().file_type().unwrap().is_dir()).count()
    }
}

impl Drop for Parent {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir(&self.0);
    }
}

const DAEMON: &str =
    "setsid sh -c 'env -i setsid sh -c \"echo \\$\\$ > daemon; exec sleep 1000\" </dev/null >/dev/null 2>&1 &' & wait; ";

#[test]
fn a_job_is_in_its_own_cgroup_which_goes_with_it() {
    let Some(parent) = Parent::new("own") else { return };
    let place = Place::new();
    let mut spec = place.shell(&format!("cat /proc/self/cgroup; {DAEMON} until [ -s daemon ]; do sleep 0.01; done; exit 3"));
    spec.cgroup = Some(parent.0.clone());
    let record = place.run(&spec);
    assert_eq!((record.code, record.cause), (Some(3), Cause::Exited));
    let taken = taken(&place.dir()).unwrap().unwrap();
    assert_eq!(taken.notes, Vec::<String>::new());
    let name = taken.cgroup.unwrap().file_name().unwrap().to_str().unwrap().to_owned();
    assert!(name.starts_with("rota-7.1-") && place.log().contains(&name), "{name} in {}", place.log());
    assert_eq!(parent.children(), 0);
}

#[test]
fn limits_that_cannot_be_had_are_noted_and_the_job_runs() {
    let Some(parent) = Parent::new("noted") else { return };
    let place = Place::new();
    let mut spec = place.spec(&["true"]);
    spec.cgroup = Some(parent.0.clone());
    (spec.memory_max_bytes, spec.cpus_max) = (Some(1 << 30), Some(0.5));
    assert_eq!(place.run(&spec).code, Some(0));
    let notes = taken(&place.dir()).unwrap().unwrap().notes;
    for controller in ["memory", "cpu"] {
        let said = notes.iter().any(|note| note.starts_with(&format!("limits not enforced: {controller}: ")));
        assert!(said || parent.has(controller), "{notes:?}");
    }
    // Without a cgroup at all.
    let place = Place::new();
    spec = place.spec(&["true"]);
    spec.memory_max_bytes = Some(1 << 30);
    assert_eq!(place.run(&spec).code, Some(0));
    assert_eq!(taken(&place.dir()).unwrap().unwrap().notes, ["limits not enforced: memory: jobs have no cgroup here"]);
    // With one that is not there.
    let place = Place::new();
    spec = place.spec(&["true"]);
    spec.cgroup = Some(place.path().join("no/cgroup"));
    assert_eq!(place.run(&spec).code, Some(0));
    assert!(taken(&place.dir()).unwrap().unwrap().notes[0].starts_with("limits not enforced: cannot make the cgroup"));
}

#[test]
fn what_has_left_everything_else_is_found_by_its_cgroup() {
    let Some(parent) = Parent::new("left") else { return };
    let place = Place::new();
    let mut spec = place.shell(&format!("{DAEMON} echo $$ > main; exec sleep 1000"));
    spec.cgroup = Some(parent.0.clone());
    let supervisor = place.launch(&spec);
    let (main, daemon) = (place.pid("main"), place.pid("daemon"));
    assert!(job_processes(&place.dir()).contains(&daemon));
    signal(supervisor.identity().pid, Signal::KILL);
    end_of(&supervisor);
    assert!(matches!(adopt(&place.dir()).unwrap(), Adopted::Lost(LostReason::SupervisorKilled)));
    until("the end of the main process", || !lives(main));
    assert_eq!(job_processes(&place.dir()), [daemon]);
    assert_eq!(kill_leftovers(&place.dir()), 1);
    assert!(!lives(daemon));
    assert_eq!(parent.children(), 0);
}

#[test]
fn too_much_memory_is_said_to_be_the_cause() {
    let Some(parent) = Parent::new("memory") else { return };
    if !parent.has("memory") {
        eprintln!("skipped: no memory controller in version 2 here");
        return;
    }
    let place = Place::new();
    let mut spec = place.spec(&["sh", "-c", "x=$(head -c 300000000 /dev/zero | tr '\\0' a); echo ${#x}"]);
    spec.cgroup = Some(parent.0.clone());
    spec.memory_max_bytes = Some(50 << 20);
    let record = place.run(&spec);
    assert_eq!(record.cause, Cause::OutOfMemory);
    assert!(record.message.unwrap().contains("50 MiB"));
}

/// An ordinary folder in the place of a cgroup, for machines without the controllers: what is written there is what a
/// kernel would be told, and the job writes there what a kernel would tell.
#[test]
fn limits_are_written_and_kills_for_memory_are_read() {
    for (code, cause) in [(137, Cause::OutOfMemory), (0, Cause::Exited)] {
        let place = Place::new();
        let parent = place.path().join("parent");
        std::fs::create_dir(&parent).unwrap();
        let mut spec = place.shell(&format!("cd parent/rota-*; printf 'oom 1\\noom_kill 2\\n' > memory.events; exit {code}"));
        spec.cgroup = Some(parent);
        (spec.memory_max_bytes, spec.cpus_max) = (Some(50 << 20), Some(1.5));
        let record = place.run(&spec);
        assert_eq!((record.code, record.cause), (Some(code), cause));
        assert_eq!(record.message.is_some_and(|message| message.contains("50 MiB")), cause == Cause::OutOfMemory);
        let group = taken(&place.dir()).unwrap().unwrap().cgroup.unwrap();
        assert_eq!(std::fs::read_to_string(group.join("memory.max")).unwrap(), "52428800");
        assert_eq!(std::fs::read_to_string(group.join("cpu.max")).unwrap(), "150000 100000");
        let process = record.process.unwrap().pid.to_string();
        assert_eq!(std::fs::read_to_string(group.join("cgroup.procs")).unwrap(), process, "put there by hand where clone cannot");
    }
}

#[test]
fn a_job_opens_its_own_devices_and_no_others() {
    let Some(parent) = Parent::new("devices") else { return };
    let place = Place::new();
    // Devices that every machine has, in place of GPUs: 1:3 is `/dev/null`, 1:5 is `/dev/zero`. The number of the first kind is the job's.
    let mut spec = place.shell("echo x > /dev/null && echo own; head -c 1 /dev/zero > /dev/null 2>&1 && echo other; exit 0");
    spec.cgroup = Some(parent.0.clone());
    spec.devices = Some(rota_exec::DeviceFilter { major: 1, minors: vec![3] });
    assert_eq!(place.run(&spec).code, Some(0));
    let notes = taken(&place.dir()).unwrap().unwrap().notes;
    if notes.iter().any(|note| note.starts_with("the job can open the GPUs of others: ")) {
        eprintln!("skipped: {notes:?}");
        assert!(place.log().contains("own\nother"), "a job is not refused for it");
        return;
    }
    assert_eq!(place.log(), "own\n");
}
