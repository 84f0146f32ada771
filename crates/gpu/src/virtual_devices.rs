//! GPUs that do not exist: a machine without any can queue and run jobs on them, and what they would draw is modelled.
//!
//! They hold no data and compute nothing. The queue tells which real processes it put on which of them ([`Virtual::set_loads`]);
//! memory, power and temperature follow from that, and a process that has ended is off its GPU by itself. The same description gives
//! the same devices, UUIDs included, on every start.

use crate::{ComputeMode, ComputeModes, Device, Devices, GpuError, ModeError, Process, ProcessKind, ReadError, Reading};
use rota_core::GpuCatalog;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

/// Most virtual GPUs of one machine; a larger number is a slip of the pen.
pub const VIRTUAL_GPUS_MAX: u32 = 10_000;

/// Figures of a type the catalogue does not know.
const UNKNOWN_MEMORY_MIB: u64 = 16 * 1024;
const UNKNOWN_IDLE_WATTS: f64 = 25.0;
const UNKNOWN_FULL_WATTS: f64 = 250.0;

/// Temperatures of a card that idles in a cool room, and of one at its limit.
const IDLE_CELSIUS: f64 = 30.0;
const FULL_CELSIUS: f64 = 80.0;

/// The beginning of the names of virtual GPUs.
const NAME_PREFIX: &str = "Virtual ";

/// Whether a GPU of this name is a virtual one, whose use and power are modelled.
pub fn is_virtual_name(name: &str) -> bool {
    name.starts_with(NAME_PREFIX)
}

/// Some virtual GPUs of one type.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VirtualSpec {
    /// The type, e.g. `a100`.
    pub kind: String,
    /// The number of GPUs of this type.
    pub count: u32,
    /// Memory of each; as the type has it if not given.
    pub memory_mib: Option<u64>,
}

/// Reads `a100:4,t4:2`, with memory in MiB where wanted: `a100:4:40960`.
pub fn parse_virtual(spec: &str) -> Result<Vec<VirtualSpec>, GpuError> {
    let error = |problem: String| GpuError::Spec { given: spec.to_owned(), problem };
    let specs = spec.split(',').map(parse_one).collect::<Result<Vec<_>, _>>().map_err(error)?;
    let count = specs.iter().fold(0_u32, |sum, one| sum.saturating_add(one.count));
    if count > VIRTUAL_GPUS_MAX {
        return Err(error(format!("has {count} GPUs where {VIRTUAL_GPUS_MAX} are the most")));
    }
    Ok(specs)
}

fn parse_one(text: &str) -> Result<VirtualSpec, String> {
    let parts = text.split(':').map(str::trim).collect::<Vec<_>>();
    let (kind, count, memory) = match parts[..] {
        [kind, count] => (kind, count, None),
        [kind, count, memory] => (kind, count, Some(memory)),
        _ => return Err(format!("has `{}` where `TYPE:COUNT` belongs", text.trim())),
    };
    let is_word = kind.chars().all(|character| character.is_ascii_alphanumeric() || ".+-_".contains(character));
    if !is_word || !kind.contains(|character: char| character.is_ascii_alphabetic()) {
        return Err(format!("has `{kind}` where a GPU type such as `a100` belongs"));
    }
    let number = |text: &str, what: &str| match text.parse::<u64>() {
        Ok(number) if number > 0 => Ok(number),
        _ => Err(format!("has `{text}` where {what} above 0 belongs")),
    };
    let count = number(count, "a number of GPUs")?;
    Ok(VirtualSpec {
        kind: kind.to_ascii_lowercase(),
        count: u32::try_from(count).unwrap_or(u32::MAX),
        memory_mib: memory.map(|memory| number(memory, "an amount of memory in MiB")).transpose()?,
    })
}

/// A process that the queue put on a virtual GPU.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Load {
    /// The GPU's UUID.
    pub uuid: String,
    /// The process, a real one.
    pub pid: u32,
    /// Memory it is taken to hold.
    pub memory_mib: u64,
    /// The share of the GPU it is taken to use.
    pub utilisation_percent: u32,
}

/// A device with its model.
#[derive(Debug)]
struct Modelled {
    device: Device,
    idle_watts: f64,
    full_watts: f64,
    loads: Vec<Load>,
    energy_joules: f64,
    /// Up to when the energy is counted.
    counted: Instant,
}

impl Modelled {
    fn utilisation_percent(&self) -> u32 {
        self.loads.iter().fold(0_u32, |sum, load| sum.saturating_add(load.utilisation_percent)).min(100)
    }

    fn share(&self) -> f64 {
        f64::from(self.utilisation_percent()) / 100.0
    }

    fn power_watts(&self) -> f64 {
        self.idle_watts + (self.full_watts - self.idle_watts) * self.share()
    }

    /// Counts the energy up to now, at the power of the loads known until now.
    fn count_energy(&mut self, now: Instant) {
        self.energy_joules += self.power_watts() * now.saturating_duration_since(self.counted).as_secs_f64();
        self.counted = self.counted.max(now);
    }

    fn read(&mut self, now: Instant, alive: impl Fn(u32) -> bool) -> Reading {
        self.count_energy(now);
        self.loads.retain(|load| alive(load.pid));
        let memory_used_mib = self.loads.iter().fold(0_u64, |sum, load| sum.saturating_add(load.memory_mib));
        Reading {
            memory_used_mib,
            memory_free_mib: self.device.memory_total_mib.saturating_sub(memory_used_mib),
            utilisation_percent: Some(self.utilisation_percent()),
            memory_utilisation_percent: None,
            power_watts: Some(self.power_watts()),
            energy_joules: Some(self.energy_joules),
            temperature_c: Some((IDLE_CELSIUS + (FULL_CELSIUS - IDLE_CELSIUS) * self.share()).round() as u32),
            processes: self.processes(),
        }
    }

    /// One entry a process, by process id.
    fn processes(&self) -> Vec<Process> {
        let mut processes: Vec<Process> = Vec::new();
        for load in &self.loads {
            if let Some(known) = processes.iter_mut().find(|process| process.pid == load.pid) {
                known.memory_mib = known.memory_mib.map(|memory| memory.saturating_add(load.memory_mib));
                known.utilisation_percent =
                    known.utilisation_percent.map(|share| share.saturating_add(load.utilisation_percent).min(100));
            } else {
                processes.push(Process {
                    pid: load.pid,
                    memory_mib: Some(load.memory_mib),
                    utilisation_percent: Some(load.utilisation_percent.min(100)),
                    kind: ProcessKind::Compute,
                });
            }
        }
        processes.sort_by_key(|process| process.pid);
        processes
    }
}

/// A set of virtual GPUs.
#[derive(Debug)]
pub struct Virtual {
    devices: Vec<Modelled>,
    lost: BTreeSet<String>,
    modes: VirtualModes,
}

/// The compute modes of virtual GPUs, by UUID. No process has to obey them. A clone shares the modes, so that one thread can set them
/// and another read the GPUs.
#[derive(Clone, Debug)]
pub struct VirtualModes(Arc<Mutex<BTreeMap<String, ComputeMode>>>);

impl VirtualModes {
    fn lock(&self) -> MutexGuard<'_, BTreeMap<String, ComputeMode>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl ComputeModes for VirtualModes {
    fn get(&self, uuid: &str) -> Result<ComputeMode, ModeError> {
        self.lock().get(uuid).copied().ok_or(ModeError::Lost)
    }

    fn set(&self, uuid: &str, mode: ComputeMode) -> Result<(), ModeError> {
        *self.lock().get_mut(uuid).ok_or(ModeError::Lost)? = mode;
        Ok(())
    }
}

impl Virtual {
    /// The GPUs of a description, in its order.
    pub fn new(spec: &[VirtualSpec]) -> Self {
        Self::on_node(spec, "")
    }

    /// The same on a node of a cluster: GPUs of different nodes have different UUIDs.
    pub fn on_node(spec: &[VirtualSpec], node: &str) -> Self {
        let catalogue = GpuCatalog::default();
        let now = Instant::now();
        let kinds = spec.iter().flat_map(|one| (0..one.count).map(move |_| one));
        let devices = kinds.zip(0_u32..).map(|(one, index)| {
            let known = catalogue.get(&one.kind);
            let full_watts = known.map_or(UNKNOWN_FULL_WATTS, |known| known.full_watts);
            let memory = known.map_or(UNKNOWN_MEMORY_MIB, |known| u64::from(known.memory_mib));
            // Bus 0 is the machine's own; 256 buses make a domain.
            let bus = index + 1;
            let device = Device {
                index,
                uuid: uuid(index, &one.kind, node),
                name: format!("{NAME_PREFIX}{}", one.kind.to_uppercase()),
                kind: one.kind.clone(),
                pci_bus_id: Some(format!("{:08X}:{:02X}:00.0", bus / 256, bus % 256)),
                memory_total_mib: one.memory_mib.unwrap_or(memory),
                power_limit_watts: Some(full_watts),
                compute_mode: ComputeMode::Default,
                mig_parent: None,
                // There is no `/dev/nvidiaN` for it.
                minor: None,
            };
            let idle_watts = known.map_or(UNKNOWN_IDLE_WATTS, |known| known.idle_watts);
            Modelled { device, idle_watts, full_watts, loads: Vec::new(), energy_joules: 0.0, counted: now }
        });
        let devices = devices.collect::<Vec<_>>();
        let modes = devices.iter().map(|modelled| (modelled.device.uuid.clone(), modelled.device.compute_mode)).collect();
        Self { devices, lost: BTreeSet::new(), modes: VirtualModes(Arc::new(Mutex::new(modes))) }
    }

    /// The compute modes of these GPUs, to be asked and set from anywhere.
    pub fn modes(&self) -> VirtualModes {
        self.modes.clone()
    }

    /// Lowers what a GPU draws at full use, and the limit that it tells. Nothing is to be put back: these GPUs end with the program.
    pub fn cap_power(&mut self, uuid: &str, watts: f64) {
        for modelled in self.devices.iter_mut().filter(|modelled| modelled.device.uuid == uuid) {
            modelled.full_watts = watts.clamp(modelled.idle_watts, modelled.full_watts);
            modelled.device.power_limit_watts = Some(modelled.full_watts);
        }
    }

    /// Says which real processes are on which GPU from now on, instead of what was said before. Loads on unknown GPUs are ignored.
    pub fn set_loads(&mut self, loads: Vec<Load>) {
        self.set_loads_at(Instant::now(), loads);
    }

    fn set_loads_at(&mut self, now: Instant, loads: Vec<Load>) {
        for modelled in &mut self.devices {
            modelled.count_energy(now);
            modelled.loads.clear();
        }
        for load in loads {
            if let Some(modelled) = self.devices.iter_mut().find(|modelled| modelled.device.uuid == load.uuid) {
                modelled.loads.push(load);
            }
        }
    }

    /// Takes a GPU off the bus, to see what happens then.
    pub fn lose(&mut self, uuid: &str) {
        self.lost.insert(uuid.to_owned());
    }

    /// Puts a lost GPU back.
    pub fn restore(&mut self, uuid: &str) {
        self.lost.remove(uuid);
    }
}

impl Devices for Virtual {
    fn list(&mut self) -> Result<Vec<Device>, GpuError> {
        let devices = self.devices.iter().map(|modelled| &modelled.device);
        let there = devices.filter(|device| !self.lost.contains(&device.uuid)).cloned();
        let modes = self.modes.lock();
        Ok(there.map(|device| Device { compute_mode: modes.get(&device.uuid).copied().unwrap_or_default(), ..device }).collect())
    }

    fn read(&mut self, uuids: &[&str]) -> Vec<Result<Reading, ReadError>> {
        let now = Instant::now();
        uuids
            .iter()
            .map(|&uuid| {
                let modelled = self.devices.iter_mut().find(|modelled| modelled.device.uuid == uuid);
                let modelled = modelled.filter(|_| !self.lost.contains(uuid)).ok_or(ReadError::Lost)?;
                Ok(modelled.read(now, is_alive))
            })
            .collect()
    }

    fn driver(&self) -> String {
        "virtual".to_owned()
    }
}

/// Whether a process runs. One that has ended and whose parent has not asked after it yet (a zombie) holds no GPU.
fn is_alive(pid: u32) -> bool {
    let Ok(line) = std::fs::read_to_string(format!("/proc/{pid}/stat")) else {
        return false;
    };
    // The name before the state is in parentheses and may hold any character, parentheses too.
    let state = line.rsplit_once(')').and_then(|(_, rest)| rest.trim_start().chars().next());
    !matches!(state, Some('Z' | 'X' | 'x'))
}

/// A UUID of NVIDIA's shape that depends on nothing but the place and the type.
fn uuid(index: u32, kind: &str, node: &str) -> String {
    let mut digits = String::new();
    for salt in ["left", "right"] {
        // FNV-1a: a hash that is the same in every version of every program.
        let text = format!("{salt}:{index}:{kind}{node}");
        let hash = text
            .bytes()
            .fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3));
        let _ = write!(digits, "{hash:016x}");
    }
    format!("GPU-{}-{}-{}-{}-{}", &digits[..8], &digits[8..12], &digits[12..16], &digits[16..20], &digits[20..])
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    fn gpus(spec: &str) -> Virtual {
        Virtual::new(&parse_virtual(spec).unwrap())
    }

    fn load(uuid: &str, pid: u32, memory_mib: u64, utilisation_percent: u32) -> Load {
        Load { uuid: uuid.to_owned(), pid, memory_mib, utilisation_percent }
    }

    fn close(left: Option<f64>, right: f64) -> bool {
        left.is_some_and(|left| (left - right).abs() < 1e-6)
    }

    #[test]
    fn types_counts_and_memory() {
        let one = |kind: &str, count, memory_mib| VirtualSpec { kind: kind.to_owned(), count, memory_mib };
        assert_eq!(parse_virtual("a100:4,t4:2").unwrap(), [one("a100", 4, None), one("t4", 2, None)]);
        assert_eq!(parse_virtual(" A100 : 4 : 40960 ").unwrap(), [one("a100", 4, Some(40_960))]);
        assert_eq!(parse_virtual("a100:1:80000,a100:1").unwrap(), [one("a100", 1, Some(80_000)), one("a100", 1, None)]);
    }

    #[test]
    fn there_is_no_device_file_that_jobs_could_be_kept_from() {
        assert!(gpus("a100:4").devices.iter().all(|modelled| modelled.device.minor.is_none()));
    }

    #[test]
    fn bad_descriptions_say_what_is_right() {
        for (spec, words) in [
            ("", "has `` where `TYPE:COUNT` belongs"),
            ("a100", "has `a100` where `TYPE:COUNT` belongs"),
            ("a100:", "has `` where a number of GPUs above 0 belongs"),
            ("a100:0", "has `0` where a number of GPUs above 0 belongs"),
            ("a100:-1", "has `-1` where a number of GPUs above 0 belongs"),
            ("a100:many", "has `many` where a number of GPUs above 0 belongs"),
            ("a100:1:much", "has `much` where an amount of memory in MiB above 0 belongs"),
            ("a100:1:1:1", "where `TYPE:COUNT` belongs"),
            ("a100:1,", "has `` where `TYPE:COUNT` belongs"),
            ("8:16:24", "has `8` where a GPU type such as `a100` belongs"),
            ("a 100:1", "has `a 100` where a GPU type such as `a100` belongs"),
            ("a100:9000,t4:2000", "has 11000 GPUs where 10000 are the most"),
            ("a100:99999999999999", "where 10000 are the most"),
        ] {
            let error = parse_virtual(spec).unwrap_err().to_string();
            assert!(error.contains(words), "{spec}: {error}");
            assert!(error.contains("`a100:4,t4:2`") && error.contains("`a100:4:40960`"), "{error}");
        }
    }

    #[test]
    fn the_same_description_gives_the_same_gpus() {
        let devices = gpus("a100:2,t4:1,mystery:1").list().unwrap();
        assert_eq!(devices, gpus("a100:2,t4:1,mystery:1").list().unwrap());
        let figures = devices.iter().map(|gpu| (gpu.index, gpu.name.as_str(), gpu.kind.as_str(), gpu.memory_total_mib));
        let expected =
            [(0, "Virtual A100", "a100", 40_960), (1, "Virtual A100", "a100", 40_960), (2, "Virtual T4", "t4", 16_384)];
        assert_eq!(figures.take(3).collect::<Vec<_>>(), expected);
        assert_eq!((devices[3].memory_total_mib, devices[3].power_limit_watts), (16_384, Some(250.0)));
        assert_eq!(devices[1].pci_bus_id.as_deref(), Some("00000000:02:00.0"));
        let uuids = devices.iter().map(|gpu| gpu.uuid.as_str()).collect::<BTreeSet<_>>();
        assert_eq!(uuids.len(), 4);
        for uuid in uuids {
            let lengths = uuid.strip_prefix("GPU-").unwrap().split('-').map(str::len).collect::<Vec<_>>();
            assert_eq!(lengths, [8, 4, 4, 4, 12], "{uuid}");
        }
    }

    #[test]
    fn bus_ids_rise_with_the_numbers_beyond_one_domain() {
        let devices = gpus("t4:600").list().unwrap();
        assert!(devices.is_sorted_by(|left, right| left.pci_bus_id < right.pci_bus_id));
        assert_eq!(devices[255].pci_bus_id.as_deref(), Some("00000001:00:00.0"));
    }

    #[test]
    fn memory_power_and_temperature_follow_the_loads() {
        let mut gpus = gpus("a100:2");
        let [busy, idle] = [0, 1].map(|place| gpus.devices[place].device.uuid.clone());
        let start = gpus.devices[0].counted;
        gpus.set_loads_at(start, vec![load(&busy, 7, 1000, 50), load(&busy, 8, 500, 25), load("GPU-none", 9, 1, 1)]);
        let reading = gpus.devices[0].read(start, |_| true);
        assert_eq!((reading.memory_used_mib, reading.memory_free_mib), (1500, 39_460));
        assert_eq!((reading.utilisation_percent, reading.temperature_c), (Some(75), Some(68)));
        assert!(close(reading.power_watts, 52.0 + (400.0 - 52.0) * 0.75));
        assert_eq!(reading.processes.iter().map(|process| process.pid).collect::<Vec<_>>(), [7, 8]);

        let reading = gpus.devices[1].read(start, |_| true);
        assert_eq!((reading.utilisation_percent, reading.temperature_c, reading.memory_used_mib), (Some(0), Some(30), 0));
        assert!(close(reading.power_watts, 52.0), "an idle GPU draws what it draws idle");
        assert_eq!(gpus.devices[1].device.uuid, idle);
    }

    #[test]
    fn more_than_everything_is_everything() {
        let mut gpus = gpus("t4:1");
        let uuid = gpus.devices[0].device.uuid.clone();
        let start = gpus.devices[0].counted;
        gpus.set_loads_at(start, vec![load(&uuid, 7, 16_000, 80), load(&uuid, 8, 16_000, 80)]);
        let reading = gpus.devices[0].read(start, |_| true);
        assert_eq!((reading.utilisation_percent, reading.memory_free_mib), (Some(100), 0));
        assert!(close(reading.power_watts, 70.0));
    }

    #[test]
    fn energy_is_power_over_time_and_never_falls() {
        let mut gpus = gpus("t4:1");
        let uuid = gpus.devices[0].device.uuid.clone();
        let start = gpus.devices[0].counted;
        let at = |seconds: u64| start + Duration::from_secs(seconds);
        gpus.set_loads_at(at(10), vec![load(&uuid, 7, 100, 100)]);
        let reading = gpus.devices[0].read(at(20), |_| true);
        assert!(close(reading.energy_joules, 10.0 * 10.0 + 10.0 * 70.0), "ten seconds idle at 10 W, ten at 70 W");
        let reading = gpus.devices[0].read(at(15), |_| true);
        assert!(close(reading.energy_joules, 800.0), "a clock that goes back takes nothing back");
        gpus.set_loads_at(at(20), Vec::new());
        assert!(close(gpus.devices[0].read(at(30), |_| true).energy_joules, 900.0));
    }

    #[test]
    fn a_process_that_ended_is_off_its_gpu_by_itself() {
        let mut child = std::process::Command::new("cat").stdin(std::process::Stdio::piped()).spawn().unwrap();
        let mut gpus = gpus("t4:1");
        let uuid = gpus.list().unwrap()[0].uuid.clone();
        gpus.set_loads(vec![load(&uuid, child.id(), 100, 10), load(&uuid, std::process::id(), 200, 20)]);
        let pids = |gpus: &mut Virtual| {
            let reading = gpus.read(&[&uuid]).remove(0).unwrap();
            (reading.memory_used_mib, reading.processes.iter().map(|process| process.pid).collect::<BTreeSet<_>>())
        };
        assert_eq!(pids(&mut gpus), (300, BTreeSet::from([child.id(), std::process::id()])));
        child.kill().unwrap();
        child.wait().unwrap();
        assert_eq!(pids(&mut gpus), (200, BTreeSet::from([std::process::id()])));
    }

    #[test]
    fn a_mode_that_is_set_is_listed_and_its_neighbour_keeps_its_own() {
        let mut gpus = gpus("t4:2");
        let modes = gpus.modes();
        let uuids = gpus.list().unwrap().into_iter().map(|gpu| gpu.uuid).collect::<Vec<_>>();
        modes.set(&uuids[1], ComputeMode::ExclusiveProcess).unwrap();
        let listed = gpus.list().unwrap().iter().map(|gpu| gpu.compute_mode).collect::<Vec<_>>();
        assert_eq!(listed, [ComputeMode::Default, ComputeMode::ExclusiveProcess]);
        assert_eq!(modes.get(&uuids[1]), Ok(ComputeMode::ExclusiveProcess));
        assert_eq!(modes.set("GPU-none", ComputeMode::Default), Err(ModeError::Lost));
    }

    #[test]
    fn a_lost_gpu_is_neither_listed_nor_read() {
        let mut gpus = gpus("t4:2");
        let devices = gpus.list().unwrap();
        gpus.lose(&devices[0].uuid);
        assert_eq!(gpus.list().unwrap(), devices[1..]);
        let readings = gpus.read(&[&devices[1].uuid, &devices[0].uuid, "GPU-none"]);
        assert!(readings[0].is_ok());
        assert_eq!(readings[1..], [Err(ReadError::Lost), Err(ReadError::Lost)]);
        gpus.restore(&devices[0].uuid);
        assert_eq!(gpus.list().unwrap(), devices);
    }
}
