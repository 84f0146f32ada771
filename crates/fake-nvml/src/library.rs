//! Calls about the library and the machine: starting, stopping, versions, errors in words, and finding devices.

use crate::answer::{Answer, code, everything, get_text, handle, machine, put, put_text, reachable};
use crate::state::{self, NvmlState};
use nvml_wrapper_sys::bindings::{
    nvmlDevice_t, nvmlReturn_enum_NVML_ERROR_DRIVER_NOT_LOADED as DRIVER_NOT_LOADED,
    nvmlReturn_enum_NVML_ERROR_INVALID_ARGUMENT as INVALID_ARGUMENT, nvmlReturn_enum_NVML_ERROR_NOT_FOUND as NOT_FOUND,
    nvmlReturn_enum_NVML_ERROR_UNINITIALIZED as UNINITIALIZED, nvmlReturn_t,
};
use std::ffi::{CStr, c_char, c_int, c_uint};

fn start() -> nvmlReturn_t {
    state::with(|state| {
        let Some(generation) = state.machine.as_ref().filter(|machine| machine.driver_loaded).map(|machine| machine.generation)
        else {
            return DRIVER_NOT_LOADED;
        };
        state.initialised += 1;
        state.generation = generation;
        code(Ok(()))
    })
}

#[unsafe(no_mangle)]
extern "C" fn nvmlInit() -> nvmlReturn_t {
    start()
}

#[unsafe(no_mangle)]
extern "C" fn nvmlInit_v2() -> nvmlReturn_t {
    start()
}

#[unsafe(no_mangle)]
extern "C" fn nvmlInitWithFlags(_flags: c_uint) -> nvmlReturn_t {
    start()
}

#[unsafe(no_mangle)]
extern "C" fn nvmlShutdown() -> nvmlReturn_t {
    state::with(|state| {
        let left = state.initialised.checked_sub(1);
        state.initialised = left.unwrap_or(0);
        code(left.map(|_| ()).ok_or(UNINITIALIZED))
    })
}

#[unsafe(no_mangle)]
extern "C" fn nvmlErrorString(result: nvmlReturn_t) -> *const c_char {
    let words: &CStr = match result {
        0 => c"Success",
        1 => c"Uninitialized",
        2 => c"Invalid Argument",
        3 => c"Not Supported",
        4 => c"Insufficient Permissions",
        5 => c"Already Initialized",
        6 => c"Not Found",
        7 => c"Insufficient Size",
        8 => c"Insufficient External Power",
        9 => c"Driver Not Loaded",
        10 => c"Timeout",
        11 => c"Interrupt Request Issue",
        12 => c"NVML Shared Library Not Found",
        13 => c"Function Not Found",
        14 => c"Corrupted infoROM",
        15 => c"GPU is lost",
        16 => c"GPU requires restart",
        17 => c"The operating system has blocked the request.",
        18 => c"Driver/library version mismatch",
        19 => c"In use by another client",
        20 => c"Insufficient Memory",
        21 => c"No data",
        _ => c"Unknown Error",
    };
    words.as_ptr()
}

fn version(symbol: &str, to: *mut c_char, length: c_uint, prefix: &str) -> nvmlReturn_t {
    state::with(|state| {
        code(machine(state, symbol).and_then(|machine| put_text(to, length, &format!("{prefix}{}", machine.driver))))
    })
}

#[unsafe(no_mangle)]
extern "C" fn nvmlSystemGetDriverVersion(to: *mut c_char, length: c_uint) -> nvmlReturn_t {
    version("nvmlSystemGetDriverVersion", to, length, "")
}

#[unsafe(no_mangle)]
extern "C" fn nvmlSystemGetNVMLVersion(to: *mut c_char, length: c_uint) -> nvmlReturn_t {
    version("nvmlSystemGetNVMLVersion", to, length, "12.")
}

fn cuda_version(symbol: &str, to: *mut c_int) -> nvmlReturn_t {
    state::with(|state| code(machine(state, symbol).and_then(|machine| put(to, machine.cuda))))
}

#[unsafe(no_mangle)]
extern "C" fn nvmlSystemGetCudaDriverVersion(to: *mut c_int) -> nvmlReturn_t {
    cuda_version("nvmlSystemGetCudaDriverVersion", to)
}

#[unsafe(no_mangle)]
extern "C" fn nvmlSystemGetCudaDriverVersion_v2(to: *mut c_int) -> nvmlReturn_t {
    cuda_version("nvmlSystemGetCudaDriverVersion_v2", to)
}

fn count(symbol: &str, to: *mut c_uint) -> nvmlReturn_t {
    state::with(|state| code(machine(state, symbol).and_then(|machine| put(to, machine.devices.len() as c_uint))))
}

#[unsafe(no_mangle)]
extern "C" fn nvmlDeviceGetCount(to: *mut c_uint) -> nvmlReturn_t {
    count("nvmlDeviceGetCount", to)
}

#[unsafe(no_mangle)]
extern "C" fn nvmlDeviceGetCount_v2(to: *mut c_uint) -> nvmlReturn_t {
    count("nvmlDeviceGetCount_v2", to)
}

/// Gives out a handle for the device with the UUID that `choose` finds.
fn give(to: *mut nvmlDevice_t, choose: impl FnOnce(&NvmlState) -> Answer<String>) -> nvmlReturn_t {
    state::with(|state| {
        let uuid = choose(state);
        code(uuid.and_then(|uuid| put(to, handle(state, &uuid))))
    })
}

fn by_index(symbol: &str, index: c_uint, to: *mut nvmlDevice_t) -> nvmlReturn_t {
    give(to, |state| {
        let machine = machine(state, symbol)?;
        let asked = everything(machine).find(|asked| asked.parent.is_none() && asked.index == index).ok_or(INVALID_ARGUMENT)?;
        reachable(&asked)?;
        Ok(asked.device.uuid.clone())
    })
}

#[unsafe(no_mangle)]
extern "C" fn nvmlDeviceGetHandleByIndex(index: c_uint, to: *mut nvmlDevice_t) -> nvmlReturn_t {
    by_index("nvmlDeviceGetHandleByIndex", index, to)
}

#[unsafe(no_mangle)]
extern "C" fn nvmlDeviceGetHandleByIndex_v2(index: c_uint, to: *mut nvmlDevice_t) -> nvmlReturn_t {
    by_index("nvmlDeviceGetHandleByIndex_v2", index, to)
}

#[unsafe(no_mangle)]
extern "C" fn nvmlDeviceGetHandleByUUID(uuid: *const c_char, to: *mut nvmlDevice_t) -> nvmlReturn_t {
    give(to, |state| {
        let uuid = get_text(uuid)?;
        let asked = everything(machine(state, "nvmlDeviceGetHandleByUUID")?).find(|asked| asked.device.uuid == uuid);
        let asked = asked.ok_or(NOT_FOUND)?;
        reachable(&asked)?;
        Ok(asked.device.uuid.clone())
    })
}

fn by_pci_bus_id(symbol: &str, bus_id: *const c_char, to: *mut nvmlDevice_t) -> nvmlReturn_t {
    give(to, |state| {
        let bus_id = get_text(bus_id)?;
        let mut whole = everything(machine(state, symbol)?).filter(|asked| asked.parent.is_none());
        // The domain may be written with four or with eight digits.
        let place = |text: &str| text.trim_start_matches('0').to_ascii_lowercase();
        let asked = whole.find(|asked| place(&asked.pci_bus_id()) == place(bus_id)).ok_or(NOT_FOUND)?;
        reachable(&asked)?;
        Ok(asked.device.uuid.clone())
    })
}

#[unsafe(no_mangle)]
extern "C" fn nvmlDeviceGetHandleByPciBusId(bus_id: *const c_char, to: *mut nvmlDevice_t) -> nvmlReturn_t {
    by_pci_bus_id("nvmlDeviceGetHandleByPciBusId", bus_id, to)
}

#[unsafe(no_mangle)]
extern "C" fn nvmlDeviceGetHandleByPciBusId_v2(bus_id: *const c_char, to: *mut nvmlDevice_t) -> nvmlReturn_t {
    by_pci_bus_id("nvmlDeviceGetHandleByPciBusId_v2", bus_id, to)
}

#[unsafe(no_mangle)]
extern "C" fn nvmlDeviceGetMigDeviceHandleByIndex(gpu: nvmlDevice_t, index: c_uint, to: *mut nvmlDevice_t) -> nvmlReturn_t {
    give(to, |state| {
        let asked = crate::answer::find(state, "nvmlDeviceGetMigDeviceHandleByIndex", gpu)?;
        if asked.parent.is_some() {
            return Err(INVALID_ARGUMENT);
        }
        asked.device.parts().get(index as usize).map(|part| part.uuid.clone()).ok_or(NOT_FOUND)
    })
}

#[unsafe(no_mangle)]
extern "C" fn nvmlDeviceGetDeviceHandleFromMigDeviceHandle(part: nvmlDevice_t, to: *mut nvmlDevice_t) -> nvmlReturn_t {
    give(to, |state| {
        let asked = crate::answer::find(state, "nvmlDeviceGetDeviceHandleFromMigDeviceHandle", part)?;
        asked.parent.map(|(gpu, _)| gpu.uuid.clone()).ok_or(INVALID_ARGUMENT)
    })
}
