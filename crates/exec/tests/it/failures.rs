//! Jobs that cannot start, and what their owners are told.

use std::os::unix::fs::PermissionsExt;

use rota_exec::{Cause, LaunchError, Launcher, RunSpec};

use crate::support::{Place, launcher};

fn told(place: &Place, spec: &RunSpec) -> String {
    let record = place.run(spec);
    assert_eq!((record.cause, record.code, record.signal), (Cause::CouldNotStart, None, None));
    record.message.unwrap()
}

#[test]
fn a_missing_program() {
    let place = Place::new();
    assert_eq!(
        told(&place, &place.spec(&["trian.py"])),
        "`trian.py`: no such file; give the full path or a command that is on PATH"
    );
    let place = Place::new();
    assert!(told(&place, &place.spec(&["./trian.py"])).starts_with("`./trian.py`: no such file; check the path"));
}

#[test]
fn a_program_beside_the_job_but_not_on_path() {
    let place = Place::new();
    std::fs::write(place.path().join("train.py"), "print()").unwrap();
    let message = told(&place, &place.spec(&["train.py"]));
    assert!(message.contains("in the working directory") && message.contains("`./train.py`"), "{message}");
}

#[test]
fn a_program_that_is_not_executable() {
    let place = Place::new();
    std::fs::write(place.path().join("train.py"), "print()").unwrap();
    let message = told(&place, &place.spec(&["./train.py"]));
    assert!(message.starts_with("`./train.py`: not executable") && message.contains("chmod +x"), "{message}");
}

#[test]
fn a_script_whose_interpreter_is_missing() {
    let place = Place::new();
    let file = place.path().join("train");
    std::fs::write(&file, "#!/nowhere/python3 -u\n").unwrap();
    std::fs::set_permissions(&file, PermissionsExt::from_mode(0o755)).unwrap();
    let message = told(&place, &place.spec(&["./train"]));
    assert!(message.contains("interpreter `/nowhere/python3`"), "{message}");
}

#[test]
fn a_script_without_interpreter_is_run_by_the_shell() {
    let place = Place::new();
    let file = place.path().join("train");
    std::fs::write(&file, "echo $1 $2\n").unwrap();
    std::fs::set_permissions(&file, PermissionsExt::from_mode(0o755)).unwrap();
    assert_eq!(place.run(&place.spec(&["./train", "a", "b"])).code, Some(0));
    assert_eq!(place.log(), "a b\n");
}

#[test]
fn the_jobs_own_path_is_searched_in_its_own_directory() {
    let place = Place::new();
    std::fs::create_dir(place.path().join("bin")).unwrap();
    let file = place.path().join("bin/train");
    std::fs::write(&file, "#!/bin/sh\nexit 8\n").unwrap();
    std::fs::set_permissions(&file, PermissionsExt::from_mode(0o755)).unwrap();
    let mut spec = place.spec(&["train"]);
    spec.env = vec![("PATH".into(), "/nowhere:bin".into())];
    assert_eq!(place.run(&spec).code, Some(8));
}

#[test]
fn a_directory_that_vanished() {
    let place = Place::new();
    let mut spec = place.spec(&["true"]);
    spec.cwd = place.path().join("gone");
    let message = told(&place, &spec);
    assert!(message.contains("gone`: no such directory"), "{message}");
}

#[test]
fn no_command_and_impossible_ones() {
    let place = Place::new();
    assert!(told(&place, &place.spec(&[])).contains("no command"));
    let place = Place::new();
    assert!(told(&place, &place.spec(&[""])).contains("no command"));
    let place = Place::new();
    assert!(told(&place, &place.spec(&["true", "a\0b"])).contains("NUL"));
    let place = Place::new();
    assert!(told(&place, &place.spec(&["true", &"x".repeat(1 << 20)])).contains("too long"));
}

#[test]
fn a_log_that_cannot_be_written() {
    for log in ["relative", "/nowhere/at/all", "/"] {
        let place = Place::new();
        let mut spec = place.spec(&["true"]);
        spec.log = log.into();
        assert!(told(&place, &spec).starts_with("log `"), "{log}");
    }
    let place = Place::new();
    let mut spec = place.spec(&["true"]);
    spec.log = place.dir().join("exit.json");
    assert!(told(&place, &spec).contains("own files"));
}

#[test]
fn a_supervisor_that_does_not_exist() {
    let place = Place::new();
    let mut nobody = Launcher::new("/nowhere/rota".into(), Vec::new());
    assert!(matches!(nobody.launch(&place.dir(), &place.spec(&["true"])), Err(LaunchError::Start { .. })));
    assert!(matches!(rota_exec::adopt(&place.dir()).unwrap(), rota_exec::Adopted::NeverStarted));
    assert!(matches!(launcher().launch(&place.dir(), &place.spec(&["true"])), Err(LaunchError::Used { .. })));
}
