//! How a call is answered: the device that is asked, faults that the state file asks for, and writing to where the caller points.

use crate::state::{self, Device, Machine, NvmlState};
use nvml_wrapper_sys::bindings::{
    nvmlDevice_t, nvmlReturn_enum_NVML_ERROR_DRIVER_NOT_LOADED as DRIVER_NOT_LOADED,
    nvmlReturn_enum_NVML_ERROR_FUNCTION_NOT_FOUND as FUNCTION_NOT_FOUND, nvmlReturn_enum_NVML_ERROR_GPU_IS_LOST as GPU_IS_LOST,
    nvmlReturn_enum_NVML_ERROR_INSUFFICIENT_SIZE as INSUFFICIENT_SIZE,
    nvmlReturn_enum_NVML_ERROR_INVALID_ARGUMENT as INVALID_ARGUMENT, nvmlReturn_enum_NVML_ERROR_NOT_SUPPORTED as NOT_SUPPORTED,
    nvmlReturn_enum_NVML_ERROR_RESET_REQUIRED as RESET_REQUIRED, nvmlReturn_enum_NVML_ERROR_UNINITIALIZED as UNINITIALIZED,
    nvmlReturn_enum_NVML_SUCCESS as SUCCESS, nvmlReturn_t,
};
use std::ffi::{CStr, c_char, c_uint};

/// A call's outcome; the error is NVML's number for it.
pub type Answer<T = ()> = Result<T, nvmlReturn_t>;

pub fn code(answer: Answer) -> nvmlReturn_t {
    answer.err().unwrap_or(SUCCESS)
}

/// The device a call is about.
pub struct Asked<'a> {
    pub device: &'a Device,
    /// Its number among the GPUs, or among the parts of its GPU.
    pub index: u32,
    /// The GPU it is a part of, and that one's number.
    pub parent: Option<(&'a Device, u32)>,
}

impl Asked<'_> {
    /// The whole GPU and its number.
    pub fn gpu(&self) -> (&Device, u32) {
        self.parent.unwrap_or((self.device, self.index))
    }

    pub fn pci_bus_id(&self) -> String {
        let (gpu, index) = self.gpu();
        gpu.pci_bus_id.clone().unwrap_or_else(|| format!("{:08X}:{:02X}:00.0", (index + 1) / 256, (index + 1) % 256))
    }
}

/// The machine, if the library is in a state to speak of it.
pub fn machine<'a>(state: &'a NvmlState, symbol: &str) -> Answer<&'a Machine> {
    let machine = state.machine.as_ref().ok_or(DRIVER_NOT_LOADED)?;
    if !machine.driver_loaded {
        return Err(DRIVER_NOT_LOADED);
    }
    if state.initialised == 0 || state.generation != machine.generation {
        return Err(UNINITIALIZED);
    }
    if machine.missing.iter().any(|missing| missing == symbol) {
        return Err(FUNCTION_NOT_FOUND);
    }
    Ok(machine)
}

/// Every device with its place: GPUs, each followed by its parts.
pub fn everything(machine: &Machine) -> impl Iterator<Item = Asked<'_>> {
    machine.devices.iter().zip(0_u32..).flat_map(|(gpu, number)| {
        let whole = Asked { device: gpu, index: number, parent: None };
        let parts = gpu.parts().iter().zip(0_u32..);
        std::iter::once(whole).chain(parts.map(move |(part, index)| Asked { device: part, index, parent: Some((gpu, number)) }))
    })
}

pub fn reachable(asked: &Asked<'_>) -> Answer {
    let gpu = asked.gpu().0;
    if gpu.lost || asked.device.lost {
        Err(GPU_IS_LOST)
    } else if gpu.reset_required || asked.device.reset_required {
        Err(RESET_REQUIRED)
    } else {
        Ok(())
    }
}

/// Answers a call about a device.
pub fn about(symbol: &str, handle: nvmlDevice_t, answer: impl FnOnce(&NvmlState, &Asked<'_>) -> Answer) -> nvmlReturn_t {
    state::with(|state| code(find(state, symbol, handle).and_then(|asked| answer(state, &asked))))
}

/// The device behind a handle.
pub fn find<'a>(state: &'a NvmlState, symbol: &str, handle: nvmlDevice_t) -> Answer<Asked<'a>> {
    let machine = machine(state, symbol)?;
    let uuid = handle.addr().checked_sub(1).and_then(|place| state.handles.get(place)).ok_or(INVALID_ARGUMENT)?;
    let asked = everything(machine).find(|asked| asked.device.uuid == *uuid).ok_or(GPU_IS_LOST)?;
    reachable(&asked)?;
    Ok(asked)
}

/// The handle of a device; the same device has the same one for ever.
pub fn handle(state: &mut NvmlState, uuid: &str) -> nvmlDevice_t {
    let place = state.handles.iter().position(|known| known == uuid).unwrap_or_else(|| {
        state.handles.push(uuid.to_owned());
        state.handles.len() - 1
    });
    std::ptr::without_provenance_mut(place + 1)
}

/// Writes an answer to where the caller wants it.
pub fn put<T>(to: *mut T, value: T) -> Answer {
    if to.is_null() {
        return Err(INVALID_ARGUMENT);
    }
    // SAFETY: the caller of an NVML function passes a pointer to a value of the type the function's declaration names.
    unsafe { to.write(value) };
    Ok(())
}

/// Writes a figure, or says that there is none.
pub fn put_if_known<T>(to: *mut T, value: Option<T>) -> Answer {
    put(to, value.ok_or(NOT_SUPPORTED)?)
}

pub fn get<T: Copy>(from: *const T) -> Answer<T> {
    if from.is_null() {
        return Err(INVALID_ARGUMENT);
    }
    // SAFETY: as in `put`.
    Ok(unsafe { from.read() })
}

/// Writes a text with its end into `length` characters.
pub fn put_text(to: *mut c_char, length: c_uint, text: &str) -> Answer {
    if to.is_null() {
        return Err(INVALID_ARGUMENT);
    }
    if text.len() >= length as usize {
        return Err(INSUFFICIENT_SIZE);
    }
    // SAFETY: the caller says that there is room for `length` characters, and the text with its end is no longer than that.
    unsafe {
        std::ptr::copy_nonoverlapping(text.as_ptr().cast(), to, text.len());
        to.add(text.len()).write(0);
    }
    Ok(())
}

pub fn get_text<'a>(from: *const c_char) -> Answer<&'a str> {
    if from.is_null() {
        return Err(INVALID_ARGUMENT);
    }
    // SAFETY: the caller passes a C string that lives as long as the call.
    unsafe { CStr::from_ptr(from) }.to_str().map_err(|_| INVALID_ARGUMENT)
}

/// Writes a list as NVML does: told the room in `count`, it sets `count` to the number there is, and says if the room is too small.
pub fn put_list<T>(count: *mut c_uint, to: *mut T, values: Vec<T>) -> Answer {
    let room = get(count)? as usize;
    put(count, values.len() as c_uint)?;
    if values.is_empty() {
        return Ok(());
    }
    if room < values.len() || to.is_null() {
        return Err(INSUFFICIENT_SIZE);
    }
    for (place, value) in values.into_iter().enumerate() {
        // SAFETY: the caller says that there is room for as many values as we write.
        unsafe { to.add(place).write(value) };
    }
    Ok(())
}
