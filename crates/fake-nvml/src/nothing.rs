//! Calls that programs make and that mean nothing here: the device answers that it does not support them, if it answers at all.

use crate::answer::{about, get};
use nvml_wrapper_sys::bindings::{
    nvmlDevice_t, nvmlFieldValue_t, nvmlReturn_enum_NVML_ERROR_INVALID_ARGUMENT as INVALID_ARGUMENT,
    nvmlReturn_enum_NVML_ERROR_NOT_SUPPORTED as NOT_SUPPORTED, nvmlReturn_t,
};
use std::ffi::c_int;

/// Their other arguments are not named: in C's calling convention on the machines we support, the caller cleans up after a call, and a
/// function may ignore what it was passed.
macro_rules! not_supported {
    ($($symbol:ident)*) => {$(
        #[unsafe(no_mangle)]
        extern "C" fn $symbol(device: nvmlDevice_t) -> nvmlReturn_t {
            about(stringify!($symbol), device, |_, _| Err(NOT_SUPPORTED))
        }
    )*};
}

not_supported! {
    nvmlDeviceGetApplicationsClock
    nvmlDeviceGetAttributes_v2
    nvmlDeviceGetBoardPartNumber
    nvmlDeviceGetBrand
    nvmlDeviceGetClock
    nvmlDeviceGetClockInfo
    nvmlDeviceGetConfComputeMemSizeInfo
    nvmlDeviceGetCudaComputeCapability
    nvmlDeviceGetCurrPcieLinkGeneration
    nvmlDeviceGetCurrPcieLinkWidth
    nvmlDeviceGetDecoderUtilization
    nvmlDeviceGetDisplayActive
    nvmlDeviceGetDisplayMode
    nvmlDeviceGetDriverModel
    nvmlDeviceGetDriverModel_v2
    nvmlDeviceGetEccMode
    nvmlDeviceGetEncoderUtilization
    nvmlDeviceGetFanSpeed
    nvmlDeviceGetFanSpeed_v2
    nvmlDeviceGetMaxClockInfo
    nvmlDeviceGetMaxPcieLinkGeneration
    nvmlDeviceGetMaxPcieLinkWidth
    nvmlDeviceGetMemoryErrorCounter
    nvmlDeviceGetNvLinkState
    nvmlDeviceGetPcieThroughput
    nvmlDeviceGetPerformanceState
    nvmlDeviceGetPersistenceMode
    nvmlDeviceGetPowerState
    nvmlDeviceGetRunningProcessDetailList
    nvmlDeviceGetSerial
    nvmlDeviceGetTemperatureThreshold
    nvmlDeviceGetTotalEccErrors
    nvmlDeviceGetVbiosVersion
    nvmlDeviceResetGpuLockedClocks
    nvmlDeviceSetApplicationsClocks
    nvmlDeviceSetGpuLockedClocks
    nvmlDeviceSetMigMode
    nvmlDeviceSetPersistenceMode
}

/// The call succeeds and each value in it says that there is none: that is how NVML answers for fields a device lacks.
#[unsafe(no_mangle)]
extern "C" fn nvmlDeviceGetFieldValues(device: nvmlDevice_t, count: c_int, values: *mut nvmlFieldValue_t) -> nvmlReturn_t {
    about("nvmlDeviceGetFieldValues", device, |_, _| {
        get(values)?;
        for place in 0..usize::try_from(count).map_err(|_| INVALID_ARGUMENT)? {
            // SAFETY: the caller passes `count` values.
            unsafe { (*values.add(place)).nvmlReturn = NOT_SUPPORTED };
        }
        Ok(())
    })
}
