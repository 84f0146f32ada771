//! Calls about one device: what it is, how it does, and the two things that may be set.

use crate::answer::{Asked, about, code, find, get, put, put_if_known, put_text};
use crate::state::{self, ComputeMode, Device, NvmlState, Setting};
use nvml_wrapper_sys::bindings::{
    nvmlBAR1Memory_t, nvmlComputeMode_t, nvmlDevice_t, nvmlMemory_t, nvmlMemory_v2_t, nvmlPciInfo_t,
    nvmlReturn_enum_NVML_ERROR_ARGUMENT_VERSION_MISMATCH as ARGUMENT_VERSION_MISMATCH,
    nvmlReturn_enum_NVML_ERROR_INVALID_ARGUMENT as INVALID_ARGUMENT, nvmlReturn_enum_NVML_ERROR_NO_PERMISSION as NO_PERMISSION,
    nvmlReturn_enum_NVML_ERROR_NOT_SUPPORTED as NOT_SUPPORTED, nvmlReturn_t, nvmlTemperature_t, nvmlTemperatureSensors_t,
    nvmlUtilization_t,
};
use std::ffi::{c_char, c_uint, c_ulonglong};

const MIB: u64 = 1024 * 1024;
/// What NVML calls `NVML_STRUCT_VERSION`: the size of the structure and its version.
const MEMORY_V2: c_uint = size_of::<nvmlMemory_v2_t>() as c_uint | (2 << 24);
const TEMPERATURE_V1: c_uint = size_of::<nvmlTemperature_t>() as c_uint | (1 << 24);
/// Most parts of one GPU.
const MIG_PARTS_MAX: c_uint = 7;

/// Functions that write one text about a device.
macro_rules! texts {
    ($($symbol:ident: $text:expr;)*) => {$(
        #[unsafe(no_mangle)]
        extern "C" fn $symbol(device: nvmlDevice_t, to: *mut c_char, length: c_uint) -> nvmlReturn_t {
            about(stringify!($symbol), device, |_, asked| put_text(to, length, &$text(asked)))
        }
    )*};
}

texts! {
    nvmlDeviceGetName: |asked: &Asked<'_>| asked.device.name.clone();
    nvmlDeviceGetUUID: |asked: &Asked<'_>| asked.device.uuid.clone();
}

/// Functions that write one figure about a device, if there is one.
macro_rules! figures {
    ($($symbol:ident -> $type:ty: $figure:expr;)*) => {$(
        #[unsafe(no_mangle)]
        extern "C" fn $symbol(device: nvmlDevice_t, to: *mut $type) -> nvmlReturn_t {
            about(stringify!($symbol), device, |state, asked| put_if_known(to, $figure(state, asked)))
        }
    )*};
}

figures! {
    nvmlDeviceGetIndex -> c_uint: |_: &NvmlState, asked: &Asked<'_>| Some(asked.index);
    nvmlDeviceGetMinorNumber -> c_uint: |_: &NvmlState, asked: &Asked<'_>| {
        let (gpu, index) = asked.gpu();
        Some(gpu.minor.unwrap_or(index))
    };
    nvmlDeviceGetMemoryInfo -> nvmlMemory_t: |_: &NvmlState, asked: &Asked<'_>| {
        let (total, used) = memory(asked.device)?;
        Some(nvmlMemory_t { total, used, free: total.saturating_sub(used) })
    };
    nvmlDeviceGetBAR1MemoryInfo -> nvmlBAR1Memory_t: |_: &NvmlState, asked: &Asked<'_>| {
        let total = asked.device.bar1_total_mib?.saturating_mul(MIB);
        let used = asked.device.bar1_used_mib.unwrap_or(0).saturating_mul(MIB);
        Some(nvmlBAR1Memory_t { bar1Total: total, bar1Used: used, bar1Free: total.saturating_sub(used) })
    };
    nvmlDeviceGetUtilizationRates -> nvmlUtilization_t: |_: &NvmlState, asked: &Asked<'_>| {
        let gpu = asked.device.utilisation?;
        Some(nvmlUtilization_t { gpu, memory: asked.device.memory_utilisation.unwrap_or(0) })
    };
    nvmlDeviceGetPowerUsage -> c_uint: |_: &NvmlState, asked: &Asked<'_>| asked.device.power_watts.map(milli);
    nvmlDeviceGetPowerManagementLimit -> c_uint: |state: &NvmlState, asked: &Asked<'_>| power_limit(state, asked.device).map(milli);
    nvmlDeviceGetEnforcedPowerLimit -> c_uint: |state: &NvmlState, asked: &Asked<'_>| power_limit(state, asked.device).map(milli);
    nvmlDeviceGetPowerManagementDefaultLimit -> c_uint: |_: &NvmlState, asked: &Asked<'_>| asked.device.power_limit_watts.map(milli);
    nvmlDeviceGetTotalEnergyConsumption -> c_ulonglong:
        |_: &NvmlState, asked: &Asked<'_>| asked.device.energy_joules.map(|joules| (joules * 1000.0).round() as c_ulonglong);
    nvmlDeviceGetComputeMode -> nvmlComputeMode_t: |state: &NvmlState, asked: &Asked<'_>| {
        let told = asked.device.compute_mode?;
        Some(*state.compute_modes.get(&asked.device.uuid).unwrap_or(&told) as nvmlComputeMode_t)
    };
    nvmlDeviceGetMaxMigDeviceCount -> c_uint:
        |_: &NvmlState, asked: &Asked<'_>| asked.parent.is_none().then(|| mig_mode(asked.device).map_or(0, |_| MIG_PARTS_MAX));
    nvmlDeviceIsMigDeviceHandle -> c_uint: |_: &NvmlState, asked: &Asked<'_>| Some(c_uint::from(asked.parent.is_some()));
    nvmlDeviceGetGpuInstanceId -> c_uint: |_: &NvmlState, asked: &Asked<'_>| gpu_instance(asked);
    nvmlDeviceGetComputeInstanceId -> c_uint:
        |_: &NvmlState, asked: &Asked<'_>| asked.parent.map(|_| asked.device.compute_instance.unwrap_or(0));
    nvmlDeviceGetPciInfo -> nvmlPciInfo_t: |_: &NvmlState, asked: &Asked<'_>| Some(pci(&asked.pci_bus_id()));
    nvmlDeviceGetPciInfo_v2 -> nvmlPciInfo_t: |_: &NvmlState, asked: &Asked<'_>| Some(pci(&asked.pci_bus_id()));
    nvmlDeviceGetPciInfo_v3 -> nvmlPciInfo_t: |_: &NvmlState, asked: &Asked<'_>| Some(pci(&asked.pci_bus_id()));
}

/// Which instance a part is; they count from 1 unless the file says otherwise.
pub fn gpu_instance(asked: &Asked<'_>) -> Option<c_uint> {
    asked.parent.map(|_| asked.device.gpu_instance.unwrap_or(asked.index + 1))
}

fn milli(value: f64) -> c_uint {
    (value * 1000.0).round() as c_uint
}

fn memory(device: &Device) -> Option<(u64, u64)> {
    Some((device.memory_total_mib?.saturating_mul(MIB), device.memory_used_mib().saturating_mul(MIB)))
}

fn power_limit(state: &NvmlState, device: &Device) -> Option<f64> {
    let told = device.power_limit_watts?;
    Some(*state.power_limits.get(&device.uuid).unwrap_or(&told))
}

fn mig_mode(device: &Device) -> Option<bool> {
    device.mig_mode.or(device.mig.as_ref().map(|_| true))
}

/// `00000000:01:00.0` as NVML's structure; what cannot be read counts as 0.
fn pci(bus_id: &str) -> nvmlPciInfo_t {
    let numbers = bus_id.split([':', '.']).map(|part| c_uint::from_str_radix(part, 16).unwrap_or(0)).collect::<Vec<_>>();
    let number = |place: usize| numbers.get(place).copied().unwrap_or(0);
    nvmlPciInfo_t {
        busIdLegacy: characters(&format!("{:04X}:{:02X}:{:02X}.0", number(0), number(1), number(2))),
        domain: number(0),
        bus: number(1),
        device: number(2),
        // A card of NVIDIA's, no particular one.
        pciDeviceId: 0x10de,
        pciSubSystemId: 0x10de,
        busId: characters(bus_id),
    }
}

fn characters<const LENGTH: usize>(text: &str) -> [c_char; LENGTH] {
    let mut characters = [0; LENGTH];
    for (to, byte) in characters.iter_mut().take(LENGTH - 1).zip(text.bytes()) {
        *to = c_char::from_ne_bytes([byte]);
    }
    characters
}

#[unsafe(no_mangle)]
extern "C" fn nvmlDeviceGetMemoryInfo_v2(device: nvmlDevice_t, to: *mut nvmlMemory_v2_t) -> nvmlReturn_t {
    about("nvmlDeviceGetMemoryInfo_v2", device, |_, asked| {
        let version = get(to)?.version;
        if version != MEMORY_V2 {
            return Err(ARGUMENT_VERSION_MISMATCH);
        }
        let (total, used) = memory(asked.device).ok_or(NOT_SUPPORTED)?;
        put(to, nvmlMemory_v2_t { version, total, reserved: 0, free: total.saturating_sub(used), used })
    })
}

#[unsafe(no_mangle)]
extern "C" fn nvmlDeviceGetTemperature(device: nvmlDevice_t, sensor: nvmlTemperatureSensors_t, to: *mut c_uint) -> nvmlReturn_t {
    about("nvmlDeviceGetTemperature", device, |_, asked| {
        if sensor != 0 {
            return Err(INVALID_ARGUMENT);
        }
        put_if_known(to, asked.device.temperature)
    })
}

#[unsafe(no_mangle)]
extern "C" fn nvmlDeviceGetTemperatureV(device: nvmlDevice_t, to: *mut nvmlTemperature_t) -> nvmlReturn_t {
    about("nvmlDeviceGetTemperatureV", device, |_, asked| {
        let asked_for = get(to)?;
        if asked_for.version != TEMPERATURE_V1 {
            return Err(ARGUMENT_VERSION_MISMATCH);
        }
        let temperature = asked.device.temperature.ok_or(NOT_SUPPORTED)?.cast_signed();
        put(to, nvmlTemperature_t { temperature, ..asked_for })
    })
}

#[unsafe(no_mangle)]
extern "C" fn nvmlDeviceGetMigMode(device: nvmlDevice_t, current: *mut c_uint, pending: *mut c_uint) -> nvmlReturn_t {
    about("nvmlDeviceGetMigMode", device, |_, asked| {
        let mode = c_uint::from(mig_mode(asked.device).ok_or(NOT_SUPPORTED)?);
        put(current, mode)?;
        put(pending, mode)
    })
}

/// The least and greatest power limit in watts: a quarter of what the file says, and that.
fn power_range(device: &Device) -> Option<(f64, f64)> {
    device.power_limit_watts.map(|watts| (watts / 4.0, watts))
}

#[unsafe(no_mangle)]
extern "C" fn nvmlDeviceGetPowerManagementLimitConstraints(
    device: nvmlDevice_t,
    least: *mut c_uint,
    greatest: *mut c_uint,
) -> nvmlReturn_t {
    about("nvmlDeviceGetPowerManagementLimitConstraints", device, |_, asked| {
        let range = power_range(asked.device).ok_or(NOT_SUPPORTED)?;
        put(least, milli(range.0))?;
        put(greatest, milli(range.1))
    })
}

#[unsafe(no_mangle)]
extern "C" fn nvmlDeviceSetPowerManagementLimit(device: nvmlDevice_t, milliwatts: c_uint) -> nvmlReturn_t {
    set("nvmlDeviceSetPowerManagementLimit", device, |asked| {
        let (least, greatest) = power_range(asked.device).ok_or(NOT_SUPPORTED)?;
        let watts = f64::from(milliwatts) / 1000.0;
        if !(least..=greatest).contains(&watts) {
            return Err(INVALID_ARGUMENT);
        }
        Ok(Setting::SetPowerLimit { uuid: asked.device.uuid.clone(), watts })
    })
}

#[unsafe(no_mangle)]
extern "C" fn nvmlDeviceSetComputeMode(device: nvmlDevice_t, mode: nvmlComputeMode_t) -> nvmlReturn_t {
    set("nvmlDeviceSetComputeMode", device, |asked| {
        asked.device.compute_mode.ok_or(NOT_SUPPORTED)?;
        let modes = [ComputeMode::Default, ComputeMode::ExclusiveThread, ComputeMode::Prohibited, ComputeMode::ExclusiveProcess];
        let mode = *modes.get(mode as usize).ok_or(INVALID_ARGUMENT)?;
        Ok(Setting::SetComputeMode { uuid: asked.device.uuid.clone(), mode })
    })
}

/// A setting that cannot be written down is refused, as a driver refuses callers without the right.
fn set(symbol: &str, device: nvmlDevice_t, setting: impl FnOnce(&Asked<'_>) -> Result<Setting, nvmlReturn_t>) -> nvmlReturn_t {
    state::with(|state| {
        let setting = find(state, symbol, device).and_then(|asked| setting(&asked));
        code(setting.and_then(|setting| state.record(setting).then_some(()).ok_or(NO_PERMISSION)))
    })
}
