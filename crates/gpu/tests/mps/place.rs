//! A place for one test: a folder, the stand-in for NVIDIA's control program, and one GPU with a compute mode.

use rota_gpu::{ComputeMode, ComputeModes, Device, Devices, ModeError, Mps, MpsError, Recovery, Virtual, parse_virtual};
use rustix::process::{Pid, Signal, kill_process};
use std::cell::Cell;
use std::fs::Permissions;
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

pub const STAND_IN: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/mps/nvidia-cuda-mps-control");

/// A machine with one GPU and nothing else on it.
pub struct Place {
    pub folder: tempfile::TempDir,
    pub mps: Mps,
    pub device: Device,
}

impl Place {
    pub fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        std::fs::set_permissions(folder.path(), Permissions::from_mode(0o711)).unwrap();
        let mps = Mps::new(Path::new(STAND_IN), &folder.path().join("mps"));
        let device = Virtual::new(&parse_virtual("t4:1").unwrap()).list().unwrap().remove(0);
        Self { folder, mps, device }
    }

    /// With the stand-in told to do something first.
    pub fn with(behaviour: &[(&str, &str)]) -> Self {
        let place = Self::new();
        for (name, text) in behaviour {
            place.tell(name, text);
        }
        place
    }

    /// The stand-in may take only two seconds, as it will take for ever.
    pub fn impatient(mut self) -> Self {
        self.mps = Mps::new(Path::new(STAND_IN), &self.folder.path().join("mps")).with_timeout(Duration::from_secs(2));
        self
    }

    pub fn tell(&self, name: &str, text: &str) {
        std::fs::write(self.folder.path().join(name), text).unwrap();
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join("mps").join(&self.device.uuid).join(name)
    }

    /// What was done since this was last asked, with `@` for the GPU's directory.
    pub fn done(&self) -> Vec<String> {
        let calls = self.folder.path().join("calls");
        let text = std::fs::read_to_string(&calls).unwrap_or_default();
        _ = std::fs::remove_file(calls);
        let own = self.folder.path().join("mps").join(&self.device.uuid);
        text.replace(own.to_str().unwrap(), "@").lines().map(|line| line.trim().to_owned()).collect()
    }

    pub fn state(&self) -> Option<String> {
        std::fs::read_to_string(self.path("state.json")).ok()
    }

    pub fn modes(&self) -> Modes {
        Modes {
            calls: self.folder.path().join("calls"),
            state: self.path("state.json"),
            mode: Cell::new(ComputeMode::Default),
            setting: Cell::new(Setting::Works),
        }
    }

    pub fn start(&mut self, modes: &Modes) -> Result<rota_gpu::Domain, MpsError> {
        self.mps.start(&self.device.clone(), own_uid(), modes)
    }

    pub fn stop(&mut self, modes: &Modes) -> Result<(), MpsError> {
        self.mps.stop(&self.device.uuid.clone(), modes)
    }

    pub fn recover(&mut self, used: bool, modes: &Modes) -> Recovery {
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

    pub fn daemon(&self) -> u32 {
        std::fs::read_to_string(self.path("pipe/nvidia-cuda-mps-control.pid")).unwrap().trim().parse().unwrap()
    }

    /// The control daemon dies without having been asked to.
    pub fn lose_daemon(&self) {
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
pub enum Setting {
    Works,
    /// Rota dies before it.
    DiesBefore,
    /// Rota dies after it.
    DiesAfter,
    Fails(&'static ModeError),
}

/// The mode of the one GPU. What is set goes where the stand-in writes its calls, with what was written down by then.
pub struct Modes {
    pub calls: PathBuf,
    pub state: PathBuf,
    pub mode: Cell<ComputeMode>,
    pub setting: Cell<Setting>,
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

pub fn own_uid() -> u32 {
    std::os::unix::fs::MetadataExt::uid(&std::fs::metadata("/proc/self").unwrap())
}

pub fn lives(pid: u32) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit_once(") ").is_some_and(|(_, rest)| !rest.starts_with(['Z', 'X']))
}

pub fn mode_of(path: &Path) -> u32 {
    path.metadata().unwrap().permissions().mode() & 0o7777
}
