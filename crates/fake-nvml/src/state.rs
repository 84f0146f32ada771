//! What the file says, kept as fresh as the file; and what programs have set since.

use serde::{Deserialize, Serialize};
use std::collections::HashMap;
use std::fs::{File, Metadata, OpenOptions};
use std::io::Write;
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// The machine, as the file describes it.
#[derive(Clone, Debug, Deserialize)]
pub struct Machine {
    #[serde(default = "driver")]
    pub driver: String,
    #[serde(default = "cuda")]
    pub cuda: i32,
    #[serde(default = "yes")]
    pub driver_loaded: bool,
    #[serde(default)]
    pub generation: u64,
    #[serde(default)]
    pub missing: Vec<String>,
    #[serde(default)]
    pub devices: Vec<Device>,
}

fn driver() -> String {
    "550.54".to_owned()
}

fn cuda() -> i32 {
    12_040
}

fn yes() -> bool {
    true
}

/// A GPU, or a part of one in MIG mode.
#[derive(Clone, Debug, Deserialize)]
pub struct Device {
    pub uuid: String,
    pub name: String,
    pub pci_bus_id: Option<String>,
    pub minor: Option<u32>,
    pub memory_total_mib: Option<u64>,
    pub memory_used_mib: Option<u64>,
    pub bar1_total_mib: Option<u64>,
    pub bar1_used_mib: Option<u64>,
    pub utilisation: Option<u32>,
    pub memory_utilisation: Option<u32>,
    pub power_watts: Option<f64>,
    pub power_limit_watts: Option<f64>,
    pub energy_joules: Option<f64>,
    pub temperature: Option<u32>,
    pub compute_mode: Option<ComputeMode>,
    #[serde(default)]
    pub lost: bool,
    #[serde(default)]
    pub reset_required: bool,
    pub mig_mode: Option<bool>,
    pub mig: Option<Vec<Device>>,
    pub gpu_instance: Option<u32>,
    pub compute_instance: Option<u32>,
    #[serde(default)]
    pub processes: Vec<Process>,
}

impl Device {
    pub fn parts(&self) -> &[Self] {
        self.mig.as_deref().unwrap_or_default()
    }

    /// Memory in use: as told, or what the processes hold, those on its parts included.
    pub fn memory_used_mib(&self) -> u64 {
        self.memory_used_mib.unwrap_or_else(|| {
            let own = self.processes.iter().filter_map(|process| process.memory_mib).sum::<u64>();
            own + self.parts().iter().map(Self::memory_used_mib).sum::<u64>()
        })
    }
}

#[derive(Clone, Debug, Deserialize)]
pub struct Process {
    pub pid: u32,
    pub memory_mib: Option<u64>,
    pub utilisation: Option<u32>,
    #[serde(default)]
    pub kind: ProcessKind,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ProcessKind {
    #[default]
    Compute,
    Graphics,
    Mps,
}

/// The numbers are NVML's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ComputeMode {
    Default = 0,
    ExclusiveThread = 1,
    Prohibited = 2,
    ExclusiveProcess = 3,
}

/// What a program set: a line of the log.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(tag = "call", rename_all = "snake_case")]
pub enum Setting {
    SetPowerLimit { uuid: String, watts: f64 },
    SetComputeMode { uuid: String, mode: ComputeMode },
}

/// What tells one version of a file from the next.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Stamp([i64; 7]);

impl Stamp {
    fn of(file: &Metadata) -> Self {
        let numbers = [file.dev(), file.ino(), file.size()].map(u64::cast_signed);
        Self([numbers[0], numbers[1], numbers[2], file.mtime(), file.mtime_nsec(), file.ctime(), file.ctime_nsec()])
    }
}

/// A text file that is read again when it has changed.
struct Watched {
    variable: &'static str,
    stamp: Option<Stamp>,
}

impl Watched {
    fn path(&self) -> Option<PathBuf> {
        std::env::var_os(self.variable).map(PathBuf::from)
    }

    /// The text if it is new. The stamp is taken from the file that is read, not from its name, which may mean another one by then.
    fn changed(&mut self) -> Option<String> {
        let path = self.path()?;
        if self.stamp == Some(Stamp::of(&std::fs::metadata(&path).ok()?)) {
            return None;
        }
        let file = File::open(path).ok()?;
        self.stamp = Some(Stamp::of(&file.metadata().ok()?));
        std::io::read_to_string(file).ok()
    }
}

/// Everything the library remembers between calls.
pub struct NvmlState {
    file: Watched,
    log: Watched,
    pub machine: Option<Machine>,
    pub power_limits: HashMap<String, f64>,
    pub compute_modes: HashMap<String, ComputeMode>,
    /// How often `nvmlInit` was called without `nvmlShutdown`.
    pub initialised: u32,
    /// The generation of the driver that `nvmlInit` found.
    pub generation: u64,
    /// Handles given out: the handle is one more than the place here, so that none is null, and none is ever given to another device.
    pub handles: Vec<String>,
}

static STATE: Mutex<Option<NvmlState>> = Mutex::new(None);

/// The state, fresh, for one call.
pub fn with<T>(call: impl FnOnce(&mut NvmlState) -> T) -> T {
    let mut guard: MutexGuard<'_, Option<NvmlState>> = STATE.lock().unwrap_or_else(PoisonError::into_inner);
    let state = guard.get_or_insert_with(|| NvmlState {
        file: Watched { variable: "FAKE_NVML", stamp: None },
        log: Watched { variable: "FAKE_NVML_LOG", stamp: None },
        machine: None,
        power_limits: HashMap::new(),
        compute_modes: HashMap::new(),
        initialised: 0,
        generation: 0,
        handles: Vec::new(),
    });
    state.refresh();
    call(state)
}

impl NvmlState {
    fn refresh(&mut self) {
        if let Some(machine) = self.file.changed().and_then(|text| serde_json::from_str(&text).ok()) {
            self.machine = Some(machine);
        }
        if let Some(text) = self.log.changed() {
            for setting in text.lines().filter_map(|line| serde_json::from_str(line).ok()) {
                self.apply(setting);
            }
        }
    }

    fn apply(&mut self, setting: Setting) {
        match setting {
            Setting::SetPowerLimit { uuid, watts } => {
                self.power_limits.insert(uuid, watts);
            }
            Setting::SetComputeMode { uuid, mode } => {
                self.compute_modes.insert(uuid, mode);
            }
        }
    }

    /// Takes a setting into effect and writes it down; whether that worked.
    pub fn record(&mut self, setting: Setting) -> bool {
        let written = self.log.path().is_none_or(|path| {
            serde_json::to_string(&setting)
                .map_err(std::io::Error::from)
                .and_then(|line| {
                    // One write of a whole line: lines of several programs do not mix.
                    OpenOptions::new().append(true).create(true).open(path)?.write_all(format!("{line}\n").as_bytes())
                })
                .is_ok()
        });
        if written {
            self.apply(setting);
        }
        written
    }
}
