//! What a device is, what it does, and how both are asked for.

use serde::{Deserialize, Serialize};

/// A GPU, or a part of one that counts as a GPU of its own (MIG).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Device {
    /// Its number, from 0, in the order of the PCI bus. A GPU that is lost keeps its number; parts of a GPU are numbered one by one.
    pub index: u32,
    /// What it is known by for ever: NVIDIA's `GPU-…` or `MIG-…`; `PCI-…` with its bus id where the driver gives it no UUID.
    pub uuid: String,
    /// Its maker's name for it, e.g. `NVIDIA A100-SXM4-40GB`.
    pub name: String,
    /// Its type in one word, e.g. `a100`; see [`kind_of`](crate::kind_of).
    pub kind: String,
    /// Where it is plugged in, e.g. `00000000:01:00.0`.
    pub pci_bus_id: Option<String>,
    /// All its memory; 0 if the driver does not say.
    pub memory_total_mib: u64,
    /// The most it may draw, as now enforced.
    pub power_limit_watts: Option<f64>,
    /// The processes that may use the device.
    pub compute_mode: ComputeMode,
    /// The UUID of the GPU it is a part of, if it is one.
    pub mig_parent: Option<String>,
    /// The number in `/dev/nvidiaN`.
    pub minor: Option<u32>,
}

impl Device {
    /// The word for `CUDA_VISIBLE_DEVICES`: the UUID where CUDA knows it, else the number (with `CUDA_DEVICE_ORDER=PCI_BUS_ID`).
    pub fn cuda_name(&self) -> String {
        if self.uuid.starts_with("PCI-") { self.index.to_string() } else { self.uuid.clone() }
    }
}

/// The processes that may use a device.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ComputeMode {
    /// Any number of processes.
    Default,
    /// No process may use the GPU.
    Prohibited,
    /// One process at a time may use the GPU.
    ExclusiveProcess,
    /// The driver does not say.
    #[default]
    Unknown,
}

/// What a device does now.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Reading {
    /// Memory in use; 0 if the driver does not say.
    pub memory_used_mib: u64,
    /// Memory free to use; less than the rest where the driver reserves some.
    pub memory_free_mib: u64,
    /// Share of the last moments in which anything ran.
    pub utilisation_percent: Option<u32>,
    /// Share of the last moments in which memory was read or written.
    pub memory_utilisation_percent: Option<u32>,
    /// The power the GPU draws.
    pub power_watts: Option<f64>,
    /// Energy drawn since the driver was loaded: a counter, which falls only when that happens again.
    pub energy_joules: Option<f64>,
    /// The GPU's temperature.
    pub temperature_c: Option<u32>,
    /// The processes on the device, by process id; each once.
    pub processes: Vec<Process>,
}

/// A process on a device.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Process {
    /// Its process id, as this machine numbers them.
    pub pid: u32,
    /// Memory it holds on this device.
    pub memory_mib: Option<u64>,
    /// Its share of the device in the last moments; `None` too if it did nothing in them.
    pub utilisation_percent: Option<u32>,
    /// What the process does on the GPU.
    pub kind: ProcessKind,
}

/// What a process does on a device; one that does both computes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ProcessKind {
    /// The process computes.
    Compute,
    /// The process draws on a screen.
    Graphics,
}

/// Why a device could not be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ReadError {
    /// It is gone from the bus, waits for a reset, or was never there.
    #[error("the GPU is lost")]
    Lost,
    /// The driver would not say; the device may be well.
    #[error("the driver answered: {0}")]
    Driver(String),
}

/// Why there are no devices to speak of.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum GpuError {
    /// NVIDIA's library is not there.
    #[error("cannot load NVIDIA's management library `{path}`: {problem}; install the NVIDIA driver, or use virtual GPUs")]
    Library {
        /// The library that was to be loaded.
        path: String,
        /// What the loader said.
        problem: String,
    },
    /// The library is there and the driver does not serve.
    #[error("NVIDIA's driver answered: {0}")]
    Driver(String),
    /// A description of virtual GPUs that is none.
    #[error("virtual GPUs `{given}`: {problem}; write types and counts such as `a100:4,t4:2`, with memory in MiB `a100:4:40960`")]
    Spec {
        /// The text that was given.
        given: String,
        /// What is wrong with the text.
        problem: String,
    },
}

/// The devices of a machine.
pub trait Devices: Send {
    /// All devices in PCI order (as `CUDA_DEVICE_ORDER=PCI_BUS_ID` numbers them); asked again it sees devices that came or went and a
    /// driver that was reset. A lost device is not listed.
    fn list(&mut self) -> Result<Vec<Device>, GpuError>;

    /// One reading per UUID asked for, in the order asked.
    fn read(&mut self, uuids: &[&str]) -> Vec<Result<Reading, ReadError>>;

    /// What serves the devices, e.g. `NVML 535.54 / CUDA 12.2`, or `virtual`.
    fn driver(&self) -> String;
}
