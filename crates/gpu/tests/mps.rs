//! The life of MPS on a GPU, with a stand-in for NVIDIA's control program: what is done in which order, and what is left behind when
//! Rota dies in the middle of it.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use rota_gpu::{ComputeMode, ComputeModes, Device, Devices, ModeError, Mps, MpsError, Recovery, Virtual, parse_virtual};
use rustix::process::{Pid, Signal, kill_process};
use std::cell::Cell;
use std::fs::Permissions;
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

const STAND_IN: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/mps/nvidia-cuda-mps-control");

/// A machine with one GPU and nothing else on it.
struct Place {
    folder: tempfile::TempDir,
    mps: Mps,
    device: Device,
}

impl Place {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        std::fs::set_permissions(folder.path(), Permissions::from_mode(0o711)).unwrap();
        let mps = Mps::new(Path::new(STAND_IN), &folder.path().join("mps"));
        let device = Virtual::new(&parse_virtual("t4:1").unwrap()).list().unwrap().remove(0);
        Self { folder, mps, device }
    }

    /// With the stand-in told to do something first.
    fn with(behaviour: &[(&str, &str)]) -> Self {
        let place = Self::new();
        for (name, text) in behaviour {
            place.tell(name, text);
        }
        place
    }

    /// The stand-in may take only two seconds, as it will take for ever.
    fn impatient(mut self) -> Self {
        self.mps = Mps::new(Path::new(STAND_IN), &self.folder.path().join("mps")).with_timeout(Duration::from_secs(2));
        self
    }

    fn tell(&self, name: &str, text: &str) {
        std::fs::write(self.folder.path().join(name), text).unwrap();
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join("mps").join(&self.device.uuid).join(name)
    }

    /// What was done since this was last asked, with `@` for the GPU's directory.
    fn done(&self) -> Vec<String> {
        let calls = self.folder.path().join("calls");
        let text = std::fs::read_to_string(&calls).unwrap_or_default();
        _ = std::fs::remove_file(calls);
        let own = self.folder.path().join("mps").join(&self.device.uuid);
        text.replace(own.to_str().unwrap(), "@").lines().map(|line| line.trim().to_owned()).collect()
    }

    fn state(&self) -> Option<String> {
        std::fs::read_to_string(self.path("state.json")).ok()
    }

    fn modes(&self) -> Modes {
        Modes {
            calls: self.folder.path().join("calls"),
            state: self.path("state.json"),
            mode: Cell::new(ComputeMode::Default),
            setting: Cell::new(Setting::Works),
        }
    }

    fn start(&mut self, modes: &Modes) -> Result<rota_gpu::Domain, MpsError> {
        self.mps.start(&self.device.clone(), own_uid(), modes)
    }

    fn stop(&mut self, modes: &Modes) -> Result<(), MpsError> {
        self.mps.stop(&self.device.uuid.clone(), modes)
    }

    fn recover(&mut self, used: bool, modes: &Modes) -> Recovery {
        let uuid = self.device.uuid.clone();
        let mut recovered = self.mps.recover(
            &|asked| {
                assert_eq!(asked, uuid);
                used
            },
            modes,
        );
        assert_eq!(recovered.len(), 1, "{recovered:?}");
        assert_eq!(recovered[0].uuid, uuid);
        recovered.remove(0).outcome
    }

    fn daemon(&self) -> u32 {
        std::fs::read_to_string(self.path("pipe/nvidia-cuda-mps-control.pid")).unwrap().trim().parse().unwrap()
    }

    /// The control daemon dies without having been asked to.
    fn lose_daemon(&self) {
        std::fs::remove_file(self.path("pipe/control")).unwrap();
        std::fs::remove_file(self.path("pipe/nvidia-cuda-mps-control.pid")).unwrap();
    }
}

impl Drop for Place {
    /// Ends the daemons that the test did not.
    fn drop(&mut self) {
        let daemons = std::fs::read_to_string(self.folder.path().join("daemons")).unwrap_or_default();
        for pid in daemons.lines().filter_map(|line| line.parse().ok()) {
            let environment = std::fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
            // The number may be another process's by now.
            if String::from_utf8_lossy(&environment).contains(&*self.folder.path().to_string_lossy()) {
                _ = Pid::from_raw(pid).map(|pid| kill_process(pid, Signal::KILL));
            }
        }
    }
}

/// What happens when a mode is set.
#[derive(Clone, Copy, PartialEq)]
enum Setting {
    Works,
    /// Rota dies before it.
    DiesBefore,
    /// Rota dies after it.
    DiesAfter,
    Fails(&'static ModeError),
}

/// The mode of the one GPU. What is set goes where the stand-in writes its calls, with what was written down by then.
struct Modes {
    calls: PathBuf,
    state: PathBuf,
    mode: Cell<ComputeMode>,
    setting: Cell<Setting>,
}

impl ComputeModes for Modes {
    fn get(&self, _uuid: &str) -> Result<ComputeMode, ModeError> {
        Ok(self.mode.get())
    }

    fn set(&self, _uuid: &str, mode: ComputeMode) -> Result<(), ModeError> {
        assert!(self.setting.get() != Setting::DiesBefore, "dies before the mode is set");
        let state = std::fs::read_to_string(&self.state).unwrap_or_else(|_| "nothing".to_owned());
        let mut calls = std::fs::OpenOptions::new().append(true).create(true).open(&self.calls).unwrap();
        writeln!(calls, "set {mode:?} knowing {state}").unwrap();
        if let Setting::Fails(error) = self.setting.get() {
            return Err(error.clone());
        }
        self.mode.set(mode);
        assert!(self.setting.get() != Setting::DiesAfter, "dies after the mode is set");
        Ok(())
    }
}

fn own_uid() -> u32 {
    std::os::unix::fs::MetadataExt::uid(&std::fs::metadata("/proc/self").unwrap())
}

fn lives(pid: u32) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit_once(") ").is_some_and(|(_, rest)| !rest.starts_with(['Z', 'X']))
}

fn mode_of(path: &Path) -> u32 {
    path.metadata().unwrap().permissions().mode() & 0o7777
}

#[test]
fn the_mode_is_written_down_then_set_then_the_daemon_started_and_put_back_after_it_has_ended() {
    let mut place = Place::new();
    let modes = place.modes();
    let (user, uuid) = (own_uid(), place.device.uuid.clone());
    assert_eq!(place.mps.user_of(&uuid), None);
    let domain = place.start(&modes).unwrap();
    assert_eq!((domain.uuid.as_str(), domain.uid, domain.notes.len()), (uuid.as_str(), user, 0));
    let state = format!(r#"{{"version":1,"uid":{user},"mode_before":"default"}}"#);
    assert_eq!(
        place.done(),
        [
            "get_server_list",
            &format!("set ExclusiveProcess knowing {state}"),
            &format!(
                "-d CUDA_DEVICE_ORDER=PCI_BUS_ID CUDA_MPS_LOG_DIRECTORY=@/log CUDA_MPS_PIPE_DIRECTORY=@/pipe CUDA_VISIBLE_DEVICES={uuid}"
            ),
            "get_server_list",
        ]
    );
    assert_eq!((modes.mode.get(), place.mps.user_of(&uuid)), (ComputeMode::ExclusiveProcess, Some(user)));
    place.mps.health(&uuid).unwrap();
    assert_eq!(place.done(), ["get_server_list"]);

    place.stop(&modes).unwrap();
    assert_eq!(place.done(), ["get_server_list", "quit", &format!("set Default knowing {state}")]);
    assert_eq!((modes.mode.get(), place.state(), place.mps.user_of(&uuid)), (ComputeMode::Default, None, None));
    assert!(matches!(place.mps.health(&uuid), Err(MpsError::NotRunning)));
    place.done();
    place.stop(&modes).unwrap();
    assert_eq!(place.done(), [""; 0], "what is stopped is not stopped again");
}

#[test]
fn a_gpu_that_is_shared_already_is_left_as_it_is() {
    let mut place = Place::with(&[("servers", "100\n"), ("clients.100", "7\n")]);
    let modes = place.modes();
    place.start(&modes).unwrap();
    let (daemon, state) = (place.daemon(), place.state());
    place.done();
    place.start(&modes).unwrap();
    assert_eq!(place.done(), ["get_server_list", "get_client_list 100"]);
    assert_eq!((place.daemon(), place.state()), (daemon, state));
}

#[test]
fn a_daemon_that_died_is_started_again_and_the_first_mode_is_still_the_one_to_put_back() {
    let mut place = Place::new();
    let modes = place.modes();
    place.start(&modes).unwrap();
    place.lose_daemon();
    place.start(&modes).unwrap();
    assert!(place.done().iter().filter(|call| call.starts_with("-d")).count() == 2);
    place.stop(&modes).unwrap();
    assert_eq!(modes.mode.get(), ComputeMode::Default);
}

#[test]
fn everyone_may_pass_to_the_sockets_and_only_the_owner_write_there() {
    let mut place = Place::new();
    place.start(&place.modes()).unwrap();
    let modes = ["..", ".", "pipe", "log", "state.json"].map(|name| format!("{:04o}", mode_of(&place.path(name))));
    assert_eq!(modes, ["0711", "0711", "0755", "0700", "0600"]);
}

#[test]
fn a_job_is_told_where_its_domain_is_and_what_it_may_use() {
    let mps = Mps::new(Path::new(STAND_IN), Path::new("/var/lib/rota/mps"));
    let told = |uuid: &str, threads, memory| {
        let environment = mps.environment(uuid, threads, memory).into_iter();
        environment.map(|(name, value)| format!("{}={}", name.display(), value.display())).collect::<Vec<_>>()
    };
    assert_eq!(
        told("GPU-1", Some(50), Some(8192)),
        [
            "CUDA_MPS_PIPE_DIRECTORY=/var/lib/rota/mps/GPU-1/pipe",
            "CUDA_VISIBLE_DEVICES=GPU-1",
            "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE=50",
            "CUDA_MPS_PINNED_DEVICE_MEM_LIMIT=0=8192M",
        ]
    );
    assert_eq!(told("GPU-1", None, None).len(), 2, "no limits that were not asked for");
    assert_eq!(told("GPU-1", Some(0), None)[2], "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE=1");
    assert_eq!(told("GPU-1", Some(255), None)[2], "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE=100");
    assert_eq!(told("PCI-00000000:01:00.0", None, None)[1], "CUDA_VISIBLE_DEVICES=0", "the server numbers its GPU anew");
    let relative = Mps::new(Path::new(STAND_IN), Path::new("state/mps")).environment("GPU-1", None, None);
    assert!(Path::new(&relative[0].1).is_absolute(), "a job has a working directory of its own");
}

#[test]
fn what_cuda_finds_in_our_own_environment_does_not_reach_the_daemon() {
    const APART: &str = "ROTA_GPU_TEST_APART";
    if std::env::var_os(APART).is_some() {
        let mut place = Place::new();
        place.start(&place.modes()).unwrap();
        let done = place.done();
        assert!(done.iter().any(|call| call.starts_with("-d ")), "{done:?}");
        assert!(!done.iter().any(|call| call.contains("PERCENTAGE") || call == "more variables"), "{done:?}");
        return;
    }
    let output = std::process::Command::new(std::env::current_exe().unwrap())
        .args(["what_cuda_finds_in_our_own_environment_does_not_reach_the_daemon", "--exact"])
        .env(APART, "yes")
        .env("CUDA_MPS_ACTIVE_THREAD_PERCENTAGE", "10")
        .output()
        .unwrap();
    let words = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success() && words.contains("1 passed"), "{words}");
}

#[test]
fn clients_of_a_job_are_terminated_on_the_server_they_are_on() {
    let mut place = Place::with(&[("servers", "100\n200\n300\n"), ("clients.100", "1\n2\n"), ("clients.200", "3\n2\n")]);
    place.start(&place.modes()).unwrap();
    place.done();
    assert_eq!(place.mps.terminate_clients(&place.device.uuid, &[9, 2, 3]).unwrap(), 3);
    assert_eq!(
        place.done(),
        [
            "get_server_list",
            "get_client_list 100",
            "get_client_list 200",
            "get_client_list 300",
            "terminate_client 100 2",
            "terminate_client 200 3",
            "terminate_client 200 2",
        ],
        "and a server that ended in between has none"
    );
    assert_eq!(place.mps.terminate_clients(&place.device.uuid, &[9]).unwrap(), 0);
}

#[test]
fn a_client_that_ended_by_itself_is_no_problem_and_one_that_stays_is() {
    let mut place = Place::with(&[("servers", "100\n200\n"), ("clients.100", "1\n"), ("clients.200", "2\n"), ("ends.1", "")]);
    place.start(&place.modes()).unwrap();
    assert_eq!(place.mps.terminate_clients(&place.device.uuid, &[1, 2]).unwrap(), 1);

    place.tell("clients.100", "1\n");
    place.tell("answer.1", "CUDA_ERROR_UNKNOWN");
    place.done();
    let error = place.mps.terminate_clients(&place.device.uuid, &[1, 2]).unwrap_err();
    assert_eq!(error.to_string(), "`nvidia-cuda-mps-control` answered `terminate_client 100 1` with `CUDA_ERROR_UNKNOWN`");
    assert!(place.done().contains(&"terminate_client 200 2".to_owned()), "the other one nevertheless");

    place.lose_daemon();
    assert_eq!(place.mps.terminate_clients(&place.device.uuid, &[1, 2]).unwrap(), 0, "without a daemon there is nobody to spare");
}

#[test]
fn a_server_that_never_lets_a_client_go_is_waited_for_once() {
    let mut place = Place::with(&[("servers", "100\n"), ("clients.100", "1\n2\n3\n")]).impatient();
    place.start(&place.modes()).unwrap();
    place.tell("hang", "terminate_client");
    let before = Instant::now();
    let error = place.mps.terminate_clients(&place.device.uuid, &[1, 2, 3]).unwrap_err();
    assert!(matches!(&error, MpsError::Timeout { command, .. } if command == "terminate_client 100 1"), "{error}");
    assert!(before.elapsed() < Duration::from_secs(5), "{:?}", before.elapsed());
}

#[test]
fn a_domain_in_use_is_not_stopped() {
    let mut place = Place::with(&[("servers", "100\n200\n"), ("clients.100", "7\n7\n"), ("clients.200", "5\n")]);
    let modes = place.modes();
    place.start(&modes).unwrap();
    place.done();
    let error = place.stop(&modes).unwrap_err();
    assert_eq!(error.to_string(), "processes still use MPS: 5, 7");
    assert!(!place.done().contains(&"quit".to_owned()), "it would wait for them, and turn others away");
    assert!(place.state().is_some() && modes.mode.get() == ComputeMode::ExclusiveProcess);
    place.mps.health(&place.device.uuid).unwrap();
}

#[test]
fn stopping_waits_for_the_daemon_to_be_gone_and_starting_for_its_answer() {
    let mut place = Place::with(&[("slow", "")]);
    let modes = place.modes();
    for _ in 0..2 {
        place.start(&modes).unwrap();
        place.mps.health(&place.device.uuid).unwrap();
        let daemon = place.daemon();
        assert!(lives(daemon));
        place.stop(&modes).unwrap();
        assert!(!lives(daemon));
    }
}

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
