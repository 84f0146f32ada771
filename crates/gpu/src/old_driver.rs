//! The one question that `nvml-wrapper` asks only in a form that drivers before 510 do not know. Those are the last for Kepler GPUs
//! (K80), which are still in use. No other call tells their processes' memory.
#![expect(unsafe_code, reason = "a function of NVML's that the safe wrapper does not offer")]

use crate::nvml::Memory;
use nvml_wrapper::Device;
use nvml_wrapper::error::{NvmlError, nvml_sym, nvml_try};

/// The memory of a device, asked as drivers of all ages understand. What newer ones tell apart as reserved counts as used.
pub fn memory(gpu: &Device<'_>) -> Result<Memory, NvmlError> {
    let symbol = nvml_sym(gpu.nvml().lib().nvmlDeviceGetMemoryInfo.as_ref())?;
    // SAFETY: the structure is three integers, for which all zeroes is a value; the symbol has the type of its declaration in NVIDIA's
    // header, and the handle comes from the same library, which `gpu` keeps open.
    let memory = unsafe {
        let mut memory = std::mem::zeroed();
        nvml_try(symbol(gpu.handle(), &raw mut memory))?;
        memory
    };
    Ok(Memory { total: memory.total, used: memory.used, free: memory.free })
}
