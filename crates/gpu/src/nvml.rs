//! NVIDIA's GPUs, through NVIDIA's own library (NVML), which is opened when it is needed and not linked.
//!
//! A handle of NVML's is never kept: devices are known by their UUIDs and looked up for every question, so a driver that was reset in
//! between cannot be asked about what no longer exists. Once anything says that the driver or a GPU is gone, the library is opened
//! anew by the next [`list`](crate::Devices::list), which alone sees GPUs that return.

use crate::{
    ComputeMode, ComputeModes, Device, Devices, GpuError, LimitError, ModeError, PowerLimits, Process, ProcessKind, ReadError,
    Reading, kind_of, old_driver,
};
use nvml_wrapper::enum_wrappers::device::{ComputeMode as NvmlComputeMode, TemperatureSensor};
use nvml_wrapper::enums::device::UsedGpuMemory;
use nvml_wrapper::error::NvmlError;
use nvml_wrapper::struct_wrappers::device::ProcessInfo;
use nvml_wrapper::{Device as Handle, Nvml as Library};
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// The environment variable that names another library.
const LIBRARY_VARIABLE: &str = "ROTA_NVML_LIB";
const LIBRARY: &str = "libnvidia-ml.so.1";
/// What stands for a UUID where there is none.
const PCI_PREFIX: &str = "PCI-";
const MIB: u64 = 1024 * 1024;
/// Errors of NVML's that the error type of `nvml-wrapper` has no names for.
const ARGUMENT_VERSION_MISMATCH: u32 = 25;
const DEPRECATED: u32 = 26;
const GPU_NOT_FOUND: u32 = 28;
/// How far back a process's share of a GPU is looked for: the driver samples about once a second.
const SAMPLES_AGE: Duration = Duration::from_secs(2);
/// How often a list that grew while it was read is read again.
const ATTEMPTS: usize = 5;

/// The GPUs of this machine that NVIDIA's driver knows.
#[derive(Debug)]
pub struct Nvml {
    path: OsString,
    /// `None` while the driver cannot be reached.
    library: Option<Library>,
    /// Something said that the driver or a GPU is gone: open the library anew before listing.
    stale: bool,
    driver: String,
    /// What was on each of NVML's numbers when last seen: its PCI place and how many devices it made.
    places: BTreeMap<u32, (Option<PciPlace>, u32)>,
}

/// Domain, bus, device: the order of the PCI bus.
type PciPlace = (u32, u32, u32);

/// One of NVML's numbers: the GPU on it, or its parts, or nothing if it is lost.
struct Slot {
    place: Option<PciPlace>,
    devices: Vec<Device>,
    /// How many numbers it takes.
    width: u32,
}

impl Nvml {
    /// Opens the library that `ROTA_NVML_LIB` names, else `libnvidia-ml.so.1`.
    pub fn open() -> Result<Self, GpuError> {
        Self::open_library(std::env::var_os(LIBRARY_VARIABLE).unwrap_or_else(|| LIBRARY.into()))
    }

    /// Opens a certain library.
    pub fn open_library(path: impl Into<OsString>) -> Result<Self, GpuError> {
        let path = path.into();
        let mut nvml = Self { path, library: None, stale: true, driver: String::new(), places: BTreeMap::new() };
        nvml.reopen()?;
        Ok(nvml)
    }

    /// The library, opened anew if something said that it no longer serves.
    fn reopen(&mut self) -> Result<&Library, GpuError> {
        if self.stale || self.library.is_none() {
            // The old one is closed first: NVML counts open handles, and looks for GPUs anew only for the first.
            self.library = None;
            let library = Library::builder().lib_path(&self.path).init().map_err(|error| match error {
                NvmlError::LibloadingError(error) => {
                    GpuError::Library { path: self.path.to_string_lossy().into_owned(), problem: error.to_string() }
                }
                error => GpuError::Driver(error.to_string()),
            })?;
            self.driver = describe(&library);
            self.library = Some(library);
            self.stale = false;
        }
        self.library.as_ref().ok_or_else(|| GpuError::Driver("not reached".to_owned()))
    }

    fn look(&mut self) -> Result<Vec<Device>, NvmlError> {
        let library = self.library.as_ref().ok_or(NvmlError::Uninitialized)?;
        let mut slots = Vec::new();
        for number in 0..library.device_count()? {
            let (place, width) = self.places.get(&number).copied().unwrap_or((None, 1));
            match library.device_by_index(number).and_then(|gpu| slot_of(&gpu)) {
                Ok(slot) => {
                    self.places.insert(number, (slot.place, slot.width));
                    slots.push(slot);
                }
                // Kept from us, as cgroups keep GPUs from containers: CUDA does not count it either.
                Err(NvmlError::NoPermission) => {}
                Err(error) if is_driver_gone(&error) => return Err(error),
                Err(_) => {
                    self.stale = true;
                    slots.push(Slot { place, devices: Vec::new(), width });
                }
            }
        }
        // NVML numbers by the PCI bus, though it does not promise to. A lost GPU that was never seen leaves us with its order.
        if slots.iter().all(|slot| slot.place.is_some()) {
            slots.sort_by_key(|slot| slot.place);
        }
        Ok(numbered(slots))
    }

    fn read_one(&self, uuid: &str) -> Result<Reading, NvmlError> {
        reading_of(&handle_of(self.library.as_ref().ok_or(NvmlError::DriverNotLoaded)?, uuid)?)
    }

    /// Asks about a device, of a library opened for this question alone if the driver was reset since ours was.
    fn about<T>(&self, uuid: &str, ask: impl Fn(&mut Handle<'_>) -> Result<T, NvmlError>) -> Result<T, NvmlError> {
        let answer = match &self.library {
            Some(library) => handle_of(library, uuid).and_then(|mut gpu| ask(&mut gpu)),
            None => Err(NvmlError::Uninitialized),
        };
        match answer {
            Err(error) if is_driver_gone(&error) => {
                let library = Library::builder().lib_path(&self.path).init()?;
                handle_of(&library, uuid).and_then(|mut gpu| ask(&mut gpu))
            }
            answer => answer,
        }
    }
}

/// The device of a UUID, or of a place on the bus that stands for one.
fn handle_of<'nvml>(library: &'nvml Library, uuid: &str) -> Result<Handle<'nvml>, NvmlError> {
    let gpu = match uuid.strip_prefix(PCI_PREFIX) {
        Some(bus_id) => library.device_by_pci_bus_id(bus_id),
        None => library.device_by_uuid(uuid),
    };
    gpu.map_err(|error| match error {
        NvmlError::NotFound | NvmlError::InvalidArg | NvmlError::NulError(_) => NvmlError::GpuLost,
        error => error,
    })
}

impl Devices for Nvml {
    fn list(&mut self) -> Result<Vec<Device>, GpuError> {
        self.reopen()?;
        // The driver may have been reset since: then the library is opened once more.
        if let Ok(devices) = self.look() {
            return Ok(devices);
        }
        self.stale = true;
        self.reopen()?;
        self.look().map_err(|error| {
            self.stale = true;
            GpuError::Driver(error.to_string())
        })
    }

    fn read(&mut self, uuids: &[&str]) -> Vec<Result<Reading, ReadError>> {
        let mut readings = Vec::with_capacity(uuids.len());
        for uuid in uuids {
            let reading = self.read_one(uuid);
            if let Err(error) = &reading {
                self.stale |= is_driver_gone(error) || is_device_gone(error);
            }
            readings.push(
                reading.map_err(
                    |error| {
                        if is_device_gone(&error) { ReadError::Lost } else { ReadError::Driver(error.to_string()) }
                    },
                ),
            );
        }
        readings
    }

    fn driver(&self) -> String {
        self.driver.clone()
    }
}

impl ComputeModes for Nvml {
    fn get(&self, uuid: &str) -> Result<ComputeMode, ModeError> {
        match self.about(uuid, |gpu| gpu.compute_mode()) {
            Ok(mode) => Ok(mode_of(mode)),
            Err(error) if is_untold(&error) => Ok(ComputeMode::Unknown),
            Err(error) => Err(mode_error(&error)),
        }
    }

    fn set(&self, uuid: &str, mode: ComputeMode) -> Result<(), ModeError> {
        let mode = match mode {
            ComputeMode::Default => NvmlComputeMode::Default,
            ComputeMode::Prohibited => NvmlComputeMode::Prohibited,
            ComputeMode::ExclusiveProcess => NvmlComputeMode::ExclusiveProcess,
            ComputeMode::Unknown => return Err(ModeError::NotSupported),
        };
        self.about(uuid, |gpu| gpu.set_compute_mode(mode)).map_err(|error| mode_error(&error))
    }
}

impl PowerLimits for Nvml {
    fn range(&self, uuid: &str) -> Result<(f64, f64), LimitError> {
        let told = self.about(uuid, |gpu| gpu.power_management_limit_constraints()).map_err(|error| limit_error(&error))?;
        Ok((f64::from(told.min_limit) / 1000.0, f64::from(told.max_limit) / 1000.0))
    }

    fn get(&self, uuid: &str) -> Result<f64, LimitError> {
        let milliwatts = self.about(uuid, |gpu| gpu.power_management_limit()).map_err(|error| limit_error(&error))?;
        Ok(f64::from(milliwatts) / 1000.0)
    }

    fn set(&self, uuid: &str, watts: f64) -> Result<(), LimitError> {
        let milliwatts = (watts * 1000.0).round() as u32;
        self.about(uuid, |gpu| gpu.set_power_management_limit(milliwatts)).map_err(|error| limit_error(&error))
    }
}

fn limit_error(error: &NvmlError) -> LimitError {
    match error {
        NvmlError::NoPermission => LimitError::NoPermission,
        error if is_untold(error) => LimitError::NotSupported,
        error if is_device_gone(error) => LimitError::Lost,
        error => LimitError::Driver(error.to_string()),
    }
}

fn mode_error(error: &NvmlError) -> ModeError {
    match error {
        NvmlError::NoPermission => ModeError::NoPermission,
        error if is_untold(error) => ModeError::NotSupported,
        error if is_device_gone(error) => ModeError::Lost,
        error => ModeError::Driver(error.to_string()),
    }
}

fn mode_of(mode: NvmlComputeMode) -> ComputeMode {
    match mode {
        NvmlComputeMode::Default => ComputeMode::Default,
        NvmlComputeMode::Prohibited => ComputeMode::Prohibited,
        NvmlComputeMode::ExclusiveProcess | NvmlComputeMode::ExclusiveThread => ComputeMode::ExclusiveProcess,
    }
}

/// `NVML 535.54 / CUDA 12.2`, as far as the driver says.
fn describe(library: &Library) -> String {
    let driver = library.sys_driver_version().map_or(String::new(), |version| format!(" {version}"));
    let cuda = library.sys_cuda_driver_version();
    let cuda = cuda.map_or(String::new(), |version| format!(" / CUDA {}.{}", version / 1000, version % 1000 / 10));
    format!("NVML{driver}{cuda}")
}

/// The whole driver is gone or was reset.
fn is_driver_gone(error: &NvmlError) -> bool {
    matches!(error, NvmlError::Uninitialized | NvmlError::DriverNotLoaded)
}

/// The device is gone, or cannot be used before a reset.
fn is_device_gone(error: &NvmlError) -> bool {
    matches!(error, NvmlError::GpuLost | NvmlError::ResetRequired | NvmlError::UnexpectedVariant(GPU_NOT_FOUND))
}

/// The device or the driver has no such thing: that is an answer, and it is `None`.
fn is_untold(error: &NvmlError) -> bool {
    matches!(
        error,
        NvmlError::NotSupported
            | NvmlError::FailedToLoadSymbol(_)
            | NvmlError::FunctionNotFound
            | NvmlError::NoData
            | NvmlError::UnexpectedVariant(ARGUMENT_VERSION_MISMATCH | DEPRECATED)
    )
}

/// A figure that is only shown: `None` where the driver does not tell it, for whatever reason but that the device is gone.
fn told<T>(answer: Result<T, NvmlError>) -> Result<Option<T>, NvmlError> {
    match answer {
        Ok(value) => Ok(Some(value)),
        Err(error) if is_driver_gone(&error) || is_device_gone(&error) => Err(error),
        Err(_) => Ok(None),
    }
}

/// A figure without which a GPU might be taken for free: only that there is no such thing is `None`.
fn told_strictly<T>(answer: Result<T, NvmlError>) -> Result<Option<T>, NvmlError> {
    match answer {
        Ok(value) => Ok(Some(value)),
        Err(error) if is_untold(&error) => Ok(None),
        Err(error) => Err(error),
    }
}

fn slot_of(gpu: &Handle<'_>) -> Result<Slot, NvmlError> {
    let pci = told(gpu.pci_info())?;
    let place = pci.as_ref().map(|pci| (pci.domain, pci.bus, pci.device));
    let bus_id = pci.map(|pci| pci.bus_id);
    let whole = device_of(gpu, bus_id.clone(), None)?;
    let devices = if told(gpu.mig_mode())?.is_some_and(|mode| mode.current == 1) {
        let parts = parts_of(gpu)?;
        let parts = parts.iter().map(|part| {
            let device = device_of(part, bus_id.clone(), Some(whole.uuid.clone()))?;
            Ok(Device { minor: device.minor.or(whole.minor), ..device })
        });
        parts.collect::<Result<Vec<_>, NvmlError>>()?
    } else {
        vec![whole]
    };
    Ok(Slot { place, width: devices.len() as u32, devices })
}

/// The parts of a GPU in MIG mode. Their numbers have gaps where parts were taken away.
fn parts_of<'nvml>(gpu: &Handle<'nvml>) -> Result<Vec<Handle<'nvml>>, NvmlError> {
    let count = told(gpu.mig_device_count())?.unwrap_or(0);
    let mut parts = Vec::new();
    for number in 0..count {
        match gpu.mig_device_by_index(number) {
            Ok(part) => parts.push(part),
            Err(NvmlError::NotFound | NvmlError::InvalidArg) => {}
            Err(error) if is_untold(&error) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(parts)
}

fn device_of(gpu: &Handle<'_>, pci_bus_id: Option<String>, mig_parent: Option<String>) -> Result<Device, NvmlError> {
    // Parts of one GPU share its place on the bus, so that does not tell them apart.
    let by_place = pci_bus_id.as_ref().filter(|_| mig_parent.is_none()).map(|bus_id| format!("{PCI_PREFIX}{bus_id}"));
    let uuid = told(gpu.uuid())?.or(by_place);
    let name = told(gpu.name())?.unwrap_or_default();
    let milliwatts = match told(gpu.enforced_power_limit())? {
        Some(limit) => Some(limit),
        None => told(gpu.power_management_limit())?,
    };
    Ok(Device {
        index: 0,
        uuid: uuid.ok_or(NvmlError::NotSupported)?,
        kind: kind_of(&name),
        name,
        pci_bus_id,
        memory_total_mib: memory_of(gpu)?.map_or(0, |memory| memory.total / MIB),
        power_limit_watts: milliwatts.map(|milliwatts| f64::from(milliwatts) / 1000.0),
        compute_mode: told(gpu.compute_mode())?.map_or(ComputeMode::Unknown, mode_of),
        mig_parent,
        minor: told(gpu.minor_number())?,
    })
}

fn numbered(slots: Vec<Slot>) -> Vec<Device> {
    let mut first = 0;
    let mut devices = Vec::new();
    for slot in slots {
        devices.extend((first..).zip(slot.devices).map(|(index, device)| Device { index, ..device }));
        first += slot.width;
    }
    devices
}

fn reading_of(gpu: &Handle<'_>) -> Result<Reading, NvmlError> {
    let memory = memory_of(gpu)?;
    let utilisation = told(gpu.utilization_rates())?;
    Ok(Reading {
        memory_used_mib: memory.as_ref().map_or(0, |memory| memory.used / MIB),
        memory_free_mib: memory.as_ref().map_or(0, |memory| memory.free / MIB),
        utilisation_percent: utilisation.as_ref().map(|utilisation| utilisation.gpu),
        memory_utilisation_percent: utilisation.as_ref().map(|utilisation| utilisation.memory),
        power_watts: told(gpu.power_usage())?.map(|milliwatts| f64::from(milliwatts) / 1000.0),
        energy_joules: told(gpu.total_energy_consumption())?.map(|millijoules| millijoules as f64 / 1000.0),
        temperature_c: told(gpu.temperature(TemperatureSensor::Gpu))?,
        processes: processes_of(gpu)?,
    })
}

/// Memory in bytes.
pub(crate) struct Memory {
    pub(crate) total: u64,
    pub(crate) used: u64,
    pub(crate) free: u64,
}

/// The memory of a device; drivers before 510 know only the first version of the question.
fn memory_of(gpu: &Handle<'_>) -> Result<Option<Memory>, NvmlError> {
    match told_strictly(gpu.memory_info())? {
        Some(memory) => Ok(Some(Memory { total: memory.total, used: memory.used, free: memory.free })),
        None => told_strictly(old_driver::memory(gpu)),
    }
}

/// Asks for a list; one that grew while it was read is read again.
fn listed<T>(mut ask: impl FnMut() -> Result<Vec<T>, NvmlError>) -> Result<Option<Vec<T>>, NvmlError> {
    let mut answer = ask();
    for _ in 1..ATTEMPTS {
        if !matches!(answer, Err(NvmlError::InsufficientSize(_))) {
            break;
        }
        answer = ask();
    }
    told_strictly(answer)
}

/// Everyone on a device, each process once, by process id.
fn processes_of(gpu: &Handle<'_>) -> Result<Vec<Process>, NvmlError> {
    let compute = match listed(|| gpu.running_compute_processes())? {
        Some(compute) => compute,
        None => listed(|| gpu.running_compute_processes_v2())?.unwrap_or_default(),
    };
    let graphics = match listed(|| gpu.running_graphics_processes())? {
        Some(graphics) => graphics,
        None => listed(|| gpu.running_graphics_processes_v2())?.unwrap_or_default(),
    };
    // Clients of an MPS server compute too, and are on a list of their own. Most devices have none, and some refuse the question.
    let clients = told(gpu.mps_running_compute_processes())?.unwrap_or_default();
    let mut processes = BTreeMap::new();
    for (kind, list) in [(ProcessKind::Compute, compute), (ProcessKind::Compute, clients), (ProcessKind::Graphics, graphics)] {
        for process in list {
            merge(&mut processes, kind, &process);
        }
    }
    for (pid, share) in shares_of(gpu)? {
        if let Some(process) = processes.get_mut(&pid) {
            process.utilisation_percent = Some(share);
        }
    }
    Ok(processes.into_values().collect())
}

/// A process on two lists is one process, and its memory is told on both.
fn merge(processes: &mut BTreeMap<u32, Process>, kind: ProcessKind, told: &ProcessInfo) {
    let memory_mib = match told.used_gpu_memory {
        UsedGpuMemory::Used(bytes) => Some(bytes / MIB),
        UsedGpuMemory::Unavailable => None,
    };
    let process = processes.entry(told.pid).or_insert(Process { pid: told.pid, memory_mib, utilisation_percent: None, kind });
    process.memory_mib = process.memory_mib.max(memory_mib);
}

/// Each process's share of the device, from the newest sample of the last moments.
fn shares_of(gpu: &Handle<'_>) -> Result<BTreeMap<u32, u32>, NvmlError> {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let since = now.saturating_sub(SAMPLES_AGE).as_micros() as u64;
    // An idle device says `NotFound`.
    let mut samples = told(gpu.process_utilization_stats(since))?.unwrap_or_default();
    samples.sort_by_key(|sample| sample.timestamp);
    // Some drivers answer nonsense for processes that have just gone.
    Ok(samples.iter().filter(|sample| sample.sm_util <= 100).map(|sample| (sample.pid, sample.sm_util)).collect())
}
