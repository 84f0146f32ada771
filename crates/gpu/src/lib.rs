//! The GPUs of one machine: which there are, what they do now, and how several jobs share one.
//!
//! [`Devices`] is the seam. Behind it are [`Nvml`] (NVIDIA's GPUs through NVIDIA's own library, opened at run time) and [`Virtual`]
//! (GPUs that do not exist, for machines without any). What a device does not tell is `None`, never an error and never 0.
//! Nothing here decides anything. Only [`Mps`] and [`CapBook`] ever change something about a device, through [`ComputeModes`] and
//! [`PowerLimits`], and they write down first what they will have to put back.

mod compute_mode;
mod device;
mod kind;
mod mps;
mod nvml;
mod old_driver;
mod power_cap;
mod power_limits;
mod virtual_devices;

pub use compute_mode::{ComputeModes, ModeError};
pub use device::{ComputeMode, Device, Devices, GpuError, Process, ProcessKind, ReadError, Reading};
pub use kind::kind_of;
pub use mps::{Domain, Mps, MpsError, Recovered, Recovery};
pub use nvml::Nvml;
pub use power_cap::{BadCap, CapEffect, PowerCap, effect_of, measured_kinds};
pub use power_limits::{CapBook, CapError, LimitError, PowerLimits};
pub use virtual_devices::{Load, VIRTUAL_GPUS_MAX, Virtual, VirtualModes, VirtualSpec, is_virtual_name, parse_virtual};
