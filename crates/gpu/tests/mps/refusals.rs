//! What cannot be done is refused, and leaves everything as it was.

use crate::place::{Place, STAND_IN, Setting, lives, own_uid};
use rota_gpu::{ComputeMode, ModeError, Mps, MpsError};
use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::time::{Duration, Instant};

#[test]
fn one_user_at_a_time() {
    let mut place = Place::with(&[("servers", "100\n"), ("clients.100", "7\n")]);
    let modes = place.modes();
    let (device, first, second) = (place.device.clone(), own_uid(), own_uid() + 1);
    place.mps.start(&device, first, &modes).unwrap();
    let error = place.mps.start(&device, second, &modes).unwrap_err();
    assert!(matches!(error, MpsError::Busy { uid } if uid == first), "{error}");
    assert_eq!(place.mps.user_of(&device.uuid), Some(first));

    place.tell("clients.100", "");
    place.done();
    let domain = place.mps.start(&device, second, &modes).unwrap();
    assert_eq!((domain.uid, place.mps.user_of(&device.uuid)), (second, Some(second)));
    assert_eq!(place.done(), ["get_server_list", "get_client_list 100"], "the same daemon serves the next user");
    place.stop(&modes).unwrap();
    assert_eq!(modes.mode.get(), ComputeMode::Default);
}

#[test]
fn without_a_right_to_set_the_mode_it_goes_without_and_says_what_is_missing() {
    let mut place = Place::new();
    let modes = place.modes();
    modes.setting.set(Setting::Fails(&ModeError::NoPermission));
    let notes = place.start(&modes).unwrap().notes;
    let command = format!("`nvidia-smi -i {} -c EXCLUSIVE_PROCESS`", place.device.uuid);
    assert!(notes.len() == 1 && notes[0].contains("only root may") && notes[0].contains(&command), "{notes:?}");
    // Root does as the note says: what is not ours is not ours to undo.
    modes.mode.set(ComputeMode::ExclusiveProcess);
    modes.setting.set(Setting::Works);
    assert_eq!(place.start(&modes).unwrap().notes, [""; 0]);
    place.stop(&modes).unwrap();
    assert_eq!(modes.mode.get(), ComputeMode::ExclusiveProcess);
}

#[test]
fn a_part_of_a_gpu_is_shared_without_touching_the_mode_of_the_whole() {
    let mut place = Place::new();
    let modes = place.modes();
    place.device.mig_parent = Some("GPU-whole".to_owned());
    assert_eq!(place.start(&modes).unwrap().notes.len(), 1);
    place.stop(&modes).unwrap();
    assert!(!place.done().iter().any(|call| call.starts_with("set")));
}

#[test]
fn a_gpu_nobody_may_compute_on_is_not_shared() {
    let mut place = Place::new();
    let modes = place.modes();
    modes.mode.set(ComputeMode::Prohibited);
    assert!(matches!(place.start(&modes), Err(MpsError::Prohibited { .. })));
    assert_eq!((modes.mode.get(), place.state()), (ComputeMode::Prohibited, None));
    assert_eq!(place.done(), ["get_server_list"]);
}

#[test]
fn a_missing_control_program_is_noticed_before_anything_is_done() {
    let mut place = Place::new();
    let modes = place.modes();
    place.mps.check().unwrap();
    place.mps = Mps::new(Path::new("nvidia-cuda-mps-control-that-is-not-there"), &place.folder.path().join("mps"));
    for error in [place.mps.check().unwrap_err(), place.start(&modes).unwrap_err()] {
        assert!(error.to_string().contains("in no directory of the `PATH`"), "{error}");
    }
    assert!(!place.path("..").exists() && modes.mode.get() == ComputeMode::Default);
}

#[test]
fn a_control_program_that_hangs_is_killed_and_everything_is_as_before() {
    let mut place = Place::with(&[("hang", "-d")]).impatient();
    let modes = place.modes();
    let before = Instant::now();
    let error = place.start(&modes).unwrap_err();
    assert_eq!(error.to_string(), "`nvidia-cuda-mps-control` was killed: 2 s were not enough for `-d`");
    assert!(before.elapsed() < Duration::from_secs(5), "{:?}", before.elapsed());
    let hung = std::fs::read_to_string(place.folder.path().join("hung")).unwrap().trim().parse().unwrap();
    assert!(!lives(hung));
    assert_eq!((modes.mode.get(), place.state()), (ComputeMode::Default, None));
}

#[test]
fn a_daemon_that_hangs_keeps_what_is_to_be_put_back() {
    let mut place = Place::new().impatient();
    let modes = place.modes();
    place.start(&modes).unwrap();
    place.tell("hang", "quit");
    assert!(matches!(place.stop(&modes), Err(MpsError::Timeout { command, .. }) if command == "quit"));
    assert!(place.state().is_some() && modes.mode.get() == ComputeMode::ExclusiveProcess);
    place.tell("hang", "");
    place.stop(&modes).unwrap();
    assert_eq!((modes.mode.get(), place.state()), (ComputeMode::Default, None));
}

#[test]
fn a_control_program_that_fails_is_quoted_and_everything_is_as_before() {
    let mut place = Place::with(&[("fail", "-d\nFailed to initialise:\nno such device\n")]);
    let modes = place.modes();
    let error = place.start(&modes).unwrap_err();
    assert_eq!(error.to_string(), "`nvidia-cuda-mps-control` failed at `-d`: Failed to initialise: no such device");
    assert_eq!((modes.mode.get(), place.state()), (ComputeMode::Default, None));

    place.tell("fail", "-d\n");
    let error = place.start(&modes).unwrap_err();
    assert_eq!(error.to_string(), "`nvidia-cuda-mps-control` failed at `-d`: exit status: 1, without a word");
}

#[test]
fn a_daemon_that_never_answers_is_given_up_and_its_log_named() {
    let mut place = Place::with(&[("silent", "")]).impatient();
    let modes = place.modes();
    let error = place.start(&modes).unwrap_err().to_string();
    assert!(error.contains("did not answer") && error.contains("log/control.log"), "{error}");
    assert_eq!((modes.mode.get(), place.state()), (ComputeMode::Default, None));
}

#[test]
fn a_mode_the_driver_fails_to_set_is_an_error_with_its_reason() {
    static BUSY: std::sync::LazyLock<ModeError> = std::sync::LazyLock::new(|| ModeError::Driver("In use".to_owned()));
    let mut place = Place::new();
    let modes = place.modes();
    modes.setting.set(Setting::Fails(&BUSY));
    let error = place.start(&modes).unwrap_err();
    let source = std::error::Error::source(&error).expect("a reason").to_string();
    assert_eq!(
        (error.to_string(), source.as_str()),
        (format!("cannot set the compute mode of {}", place.device.uuid), "the driver answered: In use")
    );
    assert_eq!(place.state(), None);
    assert!(!place.done().iter().any(|call| call.starts_with("-d")));
}

#[test]
fn a_path_too_long_for_sockets_is_refused_with_how_much() {
    let mut place = Place::new();
    let modes = place.modes();
    let fixed =
        place.folder.path().as_os_str().len() + 1 + "/".len() + place.device.uuid.len() + "/pipe/control_privileged".len();
    let base = |length: usize| place.folder.path().join("m".repeat(length));
    let (longest, too_long) = (base(107 - fixed), base(107 - fixed + 3));
    place.mps = Mps::new(Path::new(STAND_IN), &too_long);
    let error = place.start(&modes).unwrap_err();
    assert!(error.to_string().contains("too long for the sockets of MPS, by 3 bytes; use a state directory"), "{error}");
    assert!(!too_long.exists() && modes.mode.get() == ComputeMode::Default);
    place.mps = Mps::new(Path::new(STAND_IN), &longest);
    place.start(&modes).unwrap();
    place.stop(&modes).unwrap();
}

#[test]
fn a_directory_that_a_jobs_user_cannot_enter_is_named() {
    let mut place = Place::new();
    let modes = place.modes();
    std::fs::set_permissions(place.folder.path(), Permissions::from_mode(0o700)).unwrap();
    let device = place.device.clone();
    let error = place.mps.start(&device, own_uid() + 1, &modes).unwrap_err();
    assert!(matches!(&error, MpsError::Unreachable { path, .. } if path == place.folder.path()), "{error}");
    assert_eq!((modes.mode.get(), place.state()), (ComputeMode::Default, None));
    place.start(&modes).unwrap();
}

#[test]
fn a_uuid_is_no_way_out_of_the_directory() {
    let mut place = Place::new();
    let modes = place.modes();
    for uuid in ["", "..", "../..", "GPU-1/..", ".hidden", "GPU 1"] {
        place.device.uuid = uuid.to_owned();
        assert!(matches!(place.start(&modes), Err(MpsError::Uuid(_))), "{uuid}");
        assert!(matches!(place.mps.stop(uuid, &modes), Err(MpsError::Uuid(_))), "{uuid}");
    }
    assert_eq!(place.done(), [""; 0]);
}
