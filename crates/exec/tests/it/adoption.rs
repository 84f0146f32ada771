//! A daemon that comes back.

use rota_exec::{AdoptError, Adopted, Identity, LostReason, adopt};

use crate::support::{Place, SUPERVISOR, end_of, launcher, lives, signal, until};

#[test]
fn a_running_job_is_adopted_and_can_be_stopped() {
    let place = Place::new();
    let first = place.launch(&place.shell("echo $$ > pid; exec sleep 1000"));
    place.pid("pid");
    let Adopted::Running(second) = adopt(&place.dir()).unwrap() else { panic!("not running") };
    assert_eq!(first.identity(), second.identity());
    assert!(!second.has_ended().unwrap());
    second.stop().unwrap();
    end_of(&first);
    assert!(second.has_ended().unwrap());
    assert_eq!(place.record().signal, Some(15));
}

#[test]
fn a_job_that_ended_meanwhile_is_known_as_often_as_asked() {
    let place = Place::new();
    let record = place.run(&place.shell("exit 7"));
    for _ in 0..3 {
        assert_eq!(place.record(), record);
    }
}

#[test]
fn a_directory_nobody_took_is_void_for_ever() {
    let place = Place::new();
    // A launcher that died after writing the specification.
    let mut nothing = rota_exec::Launcher::new("true".into(), Vec::new());
    assert!(matches!(nothing.launch(&place.dir(), &place.shell("touch started")), Err(rota_exec::LaunchError::Start { .. })));
    assert!(matches!(adopt(&place.dir()).unwrap(), Adopted::NeverStarted));
    // Its supervisor, which comes late.
    let status = std::process::Command::new(SUPERVISOR).arg(place.dir()).status().unwrap();
    assert_eq!(status.code(), Some(3));
    assert!(!place.path().join("started").exists());
    assert!(matches!(adopt(&place.dir()).unwrap(), Adopted::NeverStarted));
}

#[test]
fn an_empty_directory_and_a_missing_one() {
    let place = Place::new();
    assert!(matches!(adopt(&place.dir()), Err(AdoptError::Missing { .. })));
    std::fs::create_dir(place.dir()).unwrap();
    assert!(matches!(adopt(&place.dir()).unwrap(), Adopted::NeverStarted));
    assert!(matches!(launcher().launch(&place.dir(), &place.spec(&["true"])), Err(rota_exec::LaunchError::Used { .. })));
}

#[test]
fn a_second_supervisor_starts_nothing() {
    let place = Place::new();
    let supervisor = place.launch(&place.shell("echo x >> started; echo $$ > pid; exec sleep 1000"));
    place.pid("pid");
    let second = || std::process::Command::new(SUPERVISOR).arg(place.dir()).status().unwrap().code();
    assert_eq!(second(), Some(3));
    supervisor.kill().unwrap();
    end_of(&supervisor);
    assert_eq!(second(), Some(3));
    assert_eq!(place.line("started"), "x");
}

/// Rewrites who the supervisor was said to be, sealing the file again.
fn pretend(place: &Place, change: impl FnOnce(&mut Identity)) {
    let path = place.dir().join("supervisor.json");
    let mut taken = rota_exec::taken(&place.dir()).unwrap().unwrap();
    change(&mut taken.supervisor);
    let line = serde_json::to_string(&taken).unwrap();
    let sum = line.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |sum, byte| (sum ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3));
    std::fs::write(path, format!("{line}\n\"fnv1a64:{sum:016x}\"\n")).unwrap();
    std::fs::remove_file(place.dir().join("exit.json")).unwrap();
}

#[test]
fn another_boot_is_not_mistaken_for_this_one() {
    let place = Place::new();
    place.run(&place.spec(&["true"]));
    pretend(&place, |supervisor| {
        *supervisor = Identity { boot_id: "another".to_owned(), ..Identity::of(std::process::id()).unwrap() };
    });
    assert!(matches!(adopt(&place.dir()).unwrap(), Adopted::Lost(LostReason::Rebooted)));
    assert_eq!(rota_exec::kill_leftovers(&place.dir()), 0);
    assert_eq!(rota_exec::job_processes(&place.dir()), [0_u32; 0]);
}

#[test]
fn a_reused_pid_is_not_mistaken_for_the_supervisor() {
    let place = Place::new();
    place.run(&place.spec(&["true"]));
    // This test's process has the supervisor's old pid, and started one clock tick after it.
    pretend(&place, |supervisor| {
        let own = Identity::of(std::process::id()).unwrap();
        *supervisor = Identity { start_ticks: own.start_ticks - 1, ..own };
    });
    assert!(matches!(adopt(&place.dir()).unwrap(), Adopted::Lost(LostReason::SupervisorKilled)));
    assert_eq!(rota_exec::kill_leftovers(&place.dir()), 0);
}

#[test]
fn files_torn_by_a_power_loss_are_not_believed() {
    let place = Place::new();
    place.run(&place.spec(&["true"]));
    let exit = place.dir().join("exit.json");
    let length = std::fs::read(&exit).unwrap().len();
    std::fs::write(&exit, vec![0; length]).unwrap();
    assert!(matches!(adopt(&place.dir()).unwrap(), Adopted::Lost(LostReason::SupervisorKilled)));
    std::fs::write(place.dir().join("supervisor.json"), "").unwrap();
    assert!(matches!(adopt(&place.dir()).unwrap(), Adopted::Lost(LostReason::Rebooted)));
}

#[test]
fn jobs_outlive_the_process_that_made_their_supervisors_and_another_takes_its_place() {
    let (first, second) = (Place::new(), Place::new());
    let mut launcher = launcher();
    let gate = first.fifo("gate");
    let waiting = launcher.launch(&first.dir(), &first.shell("echo $$ > pid; read line < gate; exit 7")).unwrap();
    first.pid("pid");
    let nursery = only_child();
    signal(nursery, rustix::process::Signal::KILL);
    until("the end of the nursery", || !lives(nursery));
    // Whoever asks while it is gone is told so, and nothing was started.
    let refused = launcher.launch(&second.dir(), &second.shell("exit 3"));
    assert!(matches!(refused, Err(rota_exec::LaunchError::Start { .. })), "{refused:?}");
    assert!(matches!(adopt(&second.dir()).unwrap(), Adopted::NeverStarted));
    let third = Place::new();
    end_of(&launcher.launch(&third.dir(), &third.shell("exit 3")).unwrap());
    assert_eq!(third.record().code, Some(3));
    std::fs::write(gate, "go\n").unwrap();
    end_of(&waiting);
    assert_eq!(first.record().code, Some(7));
}

/// The only process whose parent is this test.
fn only_child() -> u32 {
    let children =
        std::fs::read_to_string(format!("/proc/self/task/{}/children", rustix::thread::gettid().as_raw_nonzero())).unwrap();
    children.trim().parse().unwrap()
}
