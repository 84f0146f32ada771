//! A stand-in for `libnvidia-ml.so.1`: programs that ask NVIDIA's management library about GPUs are told what a JSON file says.
//!
//! The file is named by the environment variable `FAKE_NVML`. It is read again whenever its inode, size or times change, so a test
//! edits it while programs run. Replace it by renaming a new file over it: then no program ever sees half of it, and no change is
//! missed because it came within one tick of the file system's clock. A file that cannot be understood leaves the last good state.
//!
//! ```json
//! {"driver": "550.54", "cuda": 12040, "driver_loaded": true, "generation": 0, "missing": ["nvmlDeviceGetMemoryInfo_v2"],
//!  "devices": [{
//!    "uuid": "GPU-…", "name": "NVIDIA A100-SXM4-40GB", "pci_bus_id": "00000000:01:00.0", "minor": 0,
//!    "memory_total_mib": 40960, "memory_used_mib": 1024, "bar1_total_mib": 65536, "bar1_used_mib": 1,
//!    "utilisation": 35, "memory_utilisation": 20,
//!    "power_watts": 97.5, "power_limit_watts": 400, "energy_joules": 123456, "temperature": 41, "compute_mode": "default",
//!    "lost": false, "reset_required": false, "mig_mode": true, "mig": [{"uuid": "MIG-…", "…": "as above"}],
//!    "processes": [{"pid": 4711, "memory_mib": 1024, "utilisation": 30, "kind": "compute"}]}]}
//! ```
//!
//! - Only `uuid` and `name` of a device and `pid` of a process are required. A field that is absent is answered `NOT_SUPPORTED`.
//! - `memory_used_mib` absent: the sum of the processes' memory. A process without `memory_mib` answers `NOT_AVAILABLE` for it.
//! - `bar1_total_mib` and `bar1_used_mib` are the window of memory that the bus sees; the screen of nvitop needs them of MIG devices.
//! - `utilisation` and `memory_utilisation` are told by one call: without the first there is no answer, without the second it is 0.
//! - `processes` absent is the same as `[]`; `kind` is `compute` (if absent), `graphics` or `mps`.
//! - `pci_bus_id` absent: `00000000:01:00.0` and on, in the order of the file. Devices are numbered in that order.
//! - `compute_mode` is `default`, `exclusive_thread`, `prohibited` or `exclusive_process`.
//! - `lost`: calls about the device answer `GPU_IS_LOST`; `reset_required`: `RESET_REQUIRED`. A device no longer in the file is lost to
//!   those who still hold its handle, and cannot be found by others.
//! - `mig`: the parts of a GPU in MIG mode, devices themselves (`gpu_instance` and `compute_instance` count up if absent).
//!   `mig_mode: false` with no `mig` is a GPU that could be divided and is not.
//! - `driver_loaded: false`: every call answers `DRIVER_NOT_LOADED`.
//! - `generation`: raised, it is a driver that was reloaded: calls answer `UNINITIALIZED` until `nvmlInit` is called anew.
//! - `missing`: symbols an old driver lacks; they answer `FUNCTION_NOT_FOUND`.
//!
//! Power limits and compute modes that programs set take effect. With `FAKE_NVML_LOG` naming a file they are also appended to it, one
//! line of JSON each (`{"call": "set_power_limit", "uuid": "GPU-…", "watts": 250.0}`,
//! `{"call": "set_compute_mode", "uuid": "GPU-…", "mode": "exclusive_process"}`), and then other programs with the same log see them.
#![expect(unsafe_code, reason = "a C library is called with pointers, and its functions are found by their plain names")]

mod answer;
mod device;
mod library;
mod nothing;
mod processes;
mod state;

use std::path::PathBuf;

/// The shared library, for a test whose crate has this one among its dev-dependencies: cargo puts it beside the test.
pub fn shared_library() -> Option<PathBuf> {
    let program = std::env::current_exe().ok()?;
    program.ancestors().skip(1).take(3).map(|folder| folder.join("libnvidia_ml_fake.so")).find(|path| path.exists())
}
