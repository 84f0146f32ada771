//! What is left behind when Rota dies in the middle, and how it is put right.

use crate::place::{Modes, Place, Setting, lives, own_uid};
use rota_gpu::{ComputeMode, ModeError, Mps, MpsError, Recovery};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;

/// Dies at a moment of the start, or not at all.
fn crashed(setting: Setting) -> (Place, Modes) {
    let mut place = Place::new();
    let modes = place.modes();
    modes.setting.set(setting);
    let ended = catch_unwind(AssertUnwindSafe(|| place.start(&modes).map(drop)));
    assert_eq!(ended.is_err(), setting != Setting::Works);
    modes.setting.set(Setting::Works);
    assert!(place.state().is_some());
    place.done();
    (place, modes)
}

#[test]
fn a_crash_before_the_mode_is_set_leaves_nothing() {
    let (mut place, modes) = crashed(Setting::DiesBefore);
    assert_eq!(modes.mode.get(), ComputeMode::Default);
    assert!(matches!(place.recover(false, &modes), Recovery::Stopped));
    assert_eq!(place.done(), ["get_server_list"], "neither a mode to set nor a daemon to end");
    assert_eq!(place.state(), None);
    assert!(place.mps.recover(&|_| false, &modes).is_empty());
}

#[test]
fn a_crash_before_the_daemon_is_started_leaves_the_mode_as_it_was() {
    let (mut place, modes) = crashed(Setting::DiesAfter);
    assert_eq!(modes.mode.get(), ComputeMode::ExclusiveProcess);
    assert!(matches!(place.recover(false, &modes), Recovery::Stopped));
    assert_eq!((modes.mode.get(), place.state()), (ComputeMode::Default, None));
    assert!(!place.done().contains(&"quit".to_owned()));
}

#[test]
fn starting_again_after_a_crash_puts_back_what_was_before_the_crash() {
    for setting in [Setting::DiesBefore, Setting::DiesAfter] {
        let (mut place, modes) = crashed(setting);
        place.start(&modes).unwrap();
        assert_eq!(modes.mode.get(), ComputeMode::ExclusiveProcess);
        place.stop(&modes).unwrap();
        assert_eq!(modes.mode.get(), ComputeMode::Default);
    }
}

#[test]
fn a_domain_without_jobs_is_stopped_after_a_crash() {
    let (mut place, modes) = crashed(Setting::Works);
    let daemon = place.daemon();
    assert!(matches!(place.recover(false, &modes), Recovery::Stopped));
    assert_eq!((modes.mode.get(), place.state(), lives(daemon)), (ComputeMode::Default, None, false));
    let done = place.done();
    assert_eq!(done[..2], ["get_server_list", "quit"]);
    assert!(done[2].starts_with("set Default"), "{done:?}");
}

#[test]
fn a_domain_with_jobs_is_kept_after_a_crash() {
    let (mut place, modes) = crashed(Setting::Works);
    let (daemon, state) = (place.daemon(), place.state());
    assert!(matches!(place.recover(true, &modes), Recovery::Kept { answers: true }));
    assert_eq!(place.done(), ["get_server_list"]);
    assert_eq!((modes.mode.get(), place.state(), lives(daemon)), (ComputeMode::ExclusiveProcess, state, true));
    assert_eq!(place.mps.user_of(&place.device.uuid), Some(own_uid()));

    place.lose_daemon();
    assert!(matches!(place.recover(true, &modes), Recovery::Kept { answers: false }));
}

#[test]
fn processes_nobody_knows_of_keep_a_domain_until_they_end() {
    let (mut place, modes) = crashed(Setting::Works);
    place.tell("servers", "100\n");
    place.tell("clients.100", "7\n");
    assert!(matches!(place.recover(false, &modes), Recovery::Failed(MpsError::InUse { pids }) if pids == [7]));
    assert!(place.state().is_some());
    place.tell("clients.100", "");
    assert!(matches!(place.recover(false, &modes), Recovery::Stopped));
    assert_eq!(modes.mode.get(), ComputeMode::Default);
}

#[test]
fn a_mode_that_someone_else_has_set_since_is_theirs() {
    let (mut place, modes) = crashed(Setting::Works);
    modes.mode.set(ComputeMode::Prohibited);
    assert!(matches!(place.recover(false, &modes), Recovery::Stopped));
    assert_eq!((modes.mode.get(), place.state()), (ComputeMode::Prohibited, None));
}

#[test]
fn a_mode_that_cannot_be_put_back_stays_written_down() {
    let (mut place, modes) = crashed(Setting::Works);
    modes.setting.set(Setting::Fails(&ModeError::NoPermission));
    let Recovery::Failed(error) = place.recover(false, &modes) else { panic!("it was put back") };
    assert_eq!(error.to_string(), format!("cannot put back the compute mode of {}", place.device.uuid));
    assert!(place.state().is_some());
    modes.setting.set(Setting::Works);
    assert!(matches!(place.recover(false, &modes), Recovery::Stopped), "the daemon is gone already, which is as well");
    assert_eq!(modes.mode.get(), ComputeMode::Default);

    let (mut place, modes) = crashed(Setting::Works);
    modes.setting.set(Setting::Fails(&ModeError::Lost));
    assert!(matches!(place.recover(false, &modes), Recovery::Stopped), "a GPU that is gone has no mode to put back");
    assert_eq!(place.state(), None);
}

#[test]
fn a_mode_is_put_back_even_if_the_control_program_is_gone_but_not_under_a_daemon() {
    let (mut place, modes) = crashed(Setting::Works);
    place.mps = Mps::new(Path::new("/nowhere/control"), &place.folder.path().join("mps"));
    assert!(matches!(place.recover(false, &modes), Recovery::Failed(MpsError::Program { .. })));
    assert_eq!(modes.mode.get(), ComputeMode::ExclusiveProcess);
    place.lose_daemon();
    assert!(matches!(place.recover(false, &modes), Recovery::Stopped));
    assert_eq!(modes.mode.get(), ComputeMode::Default);
}

#[test]
fn what_cannot_be_understood_is_not_acted_on() {
    for text in ["", "{", r#"{"version":2,"uid":0,"mode_before":"default"}"#, r#"{"version":1,"uid":0,"mode_before":"strange"}"#]
    {
        let (mut place, modes) = crashed(Setting::Works);
        std::fs::write(place.path("state.json"), text).unwrap();
        let Recovery::Failed(error) = place.recover(false, &modes) else { panic!("{text}: stopped") };
        let words = error.to_string();
        assert!(words.contains("state.json") && words.contains("then delete the file"), "{words}");
        assert!(matches!(place.start(&modes), Err(MpsError::State { .. })), "{text}");
        assert_eq!((modes.mode.get(), place.state().as_deref()), (ComputeMode::ExclusiveProcess, Some(text)));
        assert_eq!(place.done(), [""; 0]);
    }
}
