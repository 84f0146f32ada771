//! The GPUs of one machine: which there are, what they do now, and what has changed about them.
//!
//! [`Devices`] is the seam. Behind it are [`Nvml`] (NVIDIA's GPUs through NVIDIA's own library, opened at run time) and [`Virtual`]
//! (GPUs that do not exist, for machines without any). What a device does not tell is `None`, never an error and never 0.
//! Nothing here decides anything, and nothing is ever done to a device or to a process.

mod device;
pub mod events;
mod kind;
mod nvml;
mod old_driver;
mod virtual_devices;

pub use device::{ComputeMode, Device, Devices, GpuError, Process, ProcessKind, ReadError, Reading};
pub use events::{DeviceEvent, Look};
pub use kind::kind_of;
pub use nvml::Nvml;
pub use virtual_devices::{Load, VIRTUAL_GPUS_MAX, Virtual, VirtualSpec, parse_virtual};
