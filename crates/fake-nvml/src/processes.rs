//! Calls about the processes on a device, in every version that programs still use.

use crate::answer::{Asked, about, put_list};
use crate::device::gpu_instance;
use crate::state::{Process, ProcessKind};
use nvml_wrapper_sys::bindings::{
    nvmlDevice_t, nvmlProcessInfo_v1_t, nvmlProcessInfo_v2_t, nvmlProcessUtilizationSample_t,
    nvmlReturn_enum_NVML_ERROR_NOT_FOUND as NOT_FOUND, nvmlReturn_enum_NVML_ERROR_NOT_SUPPORTED as NOT_SUPPORTED, nvmlReturn_t,
};
use std::ffi::{c_uint, c_ulonglong};
use std::time::{SystemTime, UNIX_EPOCH};

/// `NVML_VALUE_NOT_AVAILABLE`, for memory and for instances.
const NOT_AVAILABLE: u64 = u64::MAX;

/// The processes on a device, those on its parts included, with the instance they are on.
fn on<'a>(asked: &Asked<'a>) -> Vec<(&'a Process, c_uint)> {
    let own = gpu_instance(asked).unwrap_or(c_uint::MAX);
    let mut found = asked.device.processes.iter().map(|process| (process, own)).collect::<Vec<_>>();
    for (part, index) in asked.device.parts().iter().zip(0..) {
        let part = Asked { device: part, index, parent: Some((asked.device, asked.index)) };
        found.extend(on(&part));
    }
    found
}

fn version_1(process: &Process, _instance: c_uint) -> nvmlProcessInfo_v1_t {
    nvmlProcessInfo_v1_t { pid: process.pid, usedGpuMemory: bytes(process) }
}

fn version_2(process: &Process, instance: c_uint) -> nvmlProcessInfo_v2_t {
    let compute = if instance == c_uint::MAX { c_uint::MAX } else { 0 };
    nvmlProcessInfo_v2_t { pid: process.pid, usedGpuMemory: bytes(process), gpuInstanceId: instance, computeInstanceId: compute }
}

fn bytes(process: &Process) -> u64 {
    process.memory_mib.map_or(NOT_AVAILABLE, |mib| mib.saturating_mul(1024 * 1024))
}

macro_rules! lists {
    ($($symbol:ident: $kind:ident as $structure:ty, $convert:ident;)*) => {$(
        #[unsafe(no_mangle)]
        extern "C" fn $symbol(device: nvmlDevice_t, count: *mut c_uint, to: *mut $structure) -> nvmlReturn_t {
            about(stringify!($symbol), device, |_, asked| {
                let processes = on(asked).into_iter().filter(|(process, _)| process.kind == ProcessKind::$kind);
                put_list(count, to, processes.map(|(process, instance)| $convert(process, instance)).collect())
            })
        }
    )*};
}

lists! {
    nvmlDeviceGetComputeRunningProcesses: Compute as nvmlProcessInfo_v1_t, version_1;
    nvmlDeviceGetComputeRunningProcesses_v2: Compute as nvmlProcessInfo_v2_t, version_2;
    nvmlDeviceGetComputeRunningProcesses_v3: Compute as nvmlProcessInfo_v2_t, version_2;
    nvmlDeviceGetGraphicsRunningProcesses: Graphics as nvmlProcessInfo_v1_t, version_1;
    nvmlDeviceGetGraphicsRunningProcesses_v2: Graphics as nvmlProcessInfo_v2_t, version_2;
    nvmlDeviceGetGraphicsRunningProcesses_v3: Graphics as nvmlProcessInfo_v2_t, version_2;
    nvmlDeviceGetMPSComputeRunningProcesses: Mps as nvmlProcessInfo_v1_t, version_1;
    nvmlDeviceGetMPSComputeRunningProcesses_v2: Mps as nvmlProcessInfo_v2_t, version_2;
    nvmlDeviceGetMPSComputeRunningProcesses_v3: Mps as nvmlProcessInfo_v2_t, version_2;
}

/// One sample for each process that has a figure, taken now. Without processes: `NOT_FOUND`, as the driver says of an idle device.
#[unsafe(no_mangle)]
extern "C" fn nvmlDeviceGetProcessUtilization(
    device: nvmlDevice_t,
    to: *mut nvmlProcessUtilizationSample_t,
    count: *mut c_uint,
    _since: c_ulonglong,
) -> nvmlReturn_t {
    about("nvmlDeviceGetProcessUtilization", device, |_, asked| {
        let processes = &asked.device.processes;
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let samples = processes.iter().filter_map(|process| {
            Some(nvmlProcessUtilizationSample_t {
                pid: process.pid,
                timeStamp: now.as_micros() as c_ulonglong,
                smUtil: process.utilisation?,
                memUtil: 0,
                encUtil: 0,
                decUtil: 0,
            })
        });
        let samples = samples.collect::<Vec<_>>();
        match (processes.is_empty(), samples.is_empty()) {
            (true, _) => Err(NOT_FOUND),
            (false, true) => Err(NOT_SUPPORTED),
            (false, false) => put_list(count, to, samples),
        }
    })
}
