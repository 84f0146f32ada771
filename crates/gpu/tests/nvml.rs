//! NVIDIA's GPUs as the fake library shows them: what is read, what is not told, and what happens when GPUs and drivers come and go.
//!
//! The fake library learns from the environment which file to read, and remembers things for a whole process. So every test runs
//! apart: it starts this program again for itself alone, with a file of its own.
#![expect(clippy::unwrap_used, clippy::expect_used, reason = "a test that cannot go on has failed")]

use rota_gpu::{ComputeMode, ComputeModes, Device, Devices, GpuError, ModeError, Nvml, Process, ProcessKind, ReadError, Reading};
use serde_json::{Value, json};
use std::path::PathBuf;
use std::process::Command;

/// The environment variable that a test which already runs apart finds set.
const APART: &str = "ROTA_GPU_TEST_APART";

/// The file the fake library reads, in a folder that goes away with the test.
struct Machine(PathBuf);

impl Machine {
    fn is(&self, devices: &Value) {
        self.tells(&json!({ "driver": "535.54", "cuda": 12020, "devices": devices }));
    }

    fn tells(&self, machine: &Value) {
        let draft = self.0.with_extension("draft");
        std::fs::write(&draft, machine.to_string()).unwrap();
        std::fs::rename(&draft, &self.0).unwrap();
    }
}

fn apart(test: &str, body: impl FnOnce(&Machine)) {
    if std::env::var_os(APART).is_some() {
        return body(&Machine(std::env::var_os("FAKE_NVML").unwrap().into()));
    }
    let folder = tempfile::tempdir().unwrap();
    let output = Command::new(std::env::current_exe().unwrap())
        .args([test, "--exact", "--nocapture", "--test-threads=1"])
        .env(APART, "yes")
        .env("FAKE_NVML", folder.path().join("machine.json"))
        .env("FAKE_NVML_LOG", folder.path().join("log"))
        .env("ROTA_NVML_LIB", nvidia_ml_fake::shared_library().expect("the fake library beside the test"))
        .output()
        .unwrap();
    let words = String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{words}");
    assert!(words.contains("1 passed"), "the test did not run: {words}");
}

fn gpu(number: u32) -> Value {
    json!({
        "uuid": uuid(number), "name": "Tesla V100-SXM2-16GB", "pci_bus_id": format!("00000000:{:02X}:00.0", number + 1),
        "memory_total_mib": 16384, "memory_used_mib": 100 * number, "energy_joules": 1000.5,
    })
}

fn uuid(number: u32) -> String {
    format!("GPU-00000000-0000-0000-0000-{number:012}")
}

fn indices(devices: &[Device]) -> Vec<(u32, &str)> {
    devices.iter().map(|device| (device.index, device.uuid.as_str())).collect()
}

fn read_one(nvml: &mut Nvml, uuid: &str) -> Result<Reading, ReadError> {
    nvml.read(&[uuid]).remove(0)
}

#[test]
fn everything_a_gpu_tells() {
    apart("everything_a_gpu_tells", |machine| {
        machine.is(&json!([{
            "uuid": uuid(7), "name": "NVIDIA A100-SXM4-40GB", "pci_bus_id": "00000000:3B:00.0", "minor": 4,
            "memory_total_mib": 40960, "memory_used_mib": 1600, "utilisation": 35, "memory_utilisation": 20, "power_watts": 97.5,
            "power_limit_watts": 400, "energy_joules": 123_456.789, "temperature": 41, "compute_mode": "exclusive_process",
            "processes": [
                {"pid": 30, "memory_mib": 500, "kind": "graphics"},
                {"pid": 20, "memory_mib": 1024, "utilisation": 30},
                {"pid": 30, "memory_mib": 500},
                {"pid": 10},
                {"pid": 40, "memory_mib": 60, "kind": "mps"},
                {"pid": 50, "memory_mib": 16, "kind": "graphics"},
            ],
        }]));
        let mut nvml = Nvml::open().unwrap();
        assert_eq!(nvml.driver(), "NVML 535.54 / CUDA 12.2");
        let devices = nvml.list().unwrap();
        let expected = Device {
            index: 0,
            uuid: uuid(7),
            name: "NVIDIA A100-SXM4-40GB".to_owned(),
            kind: "a100".to_owned(),
            pci_bus_id: Some("00000000:3B:00.0".to_owned()),
            memory_total_mib: 40_960,
            power_limit_watts: Some(400.0),
            compute_mode: ComputeMode::ExclusiveProcess,
            mig_parent: None,
            minor: Some(4),
        };
        assert_eq!(devices, [expected]);
        assert_eq!(devices[0].cuda_name(), uuid(7));
        let process = |pid, memory_mib, utilisation_percent, kind| Process { pid, memory_mib, utilisation_percent, kind };
        let expected = Reading {
            memory_used_mib: 1600,
            memory_free_mib: 39_360,
            utilisation_percent: Some(35),
            memory_utilisation_percent: Some(20),
            power_watts: Some(97.5),
            energy_joules: Some(123_456.789),
            temperature_c: Some(41),
            processes: vec![
                process(10, None, None, ProcessKind::Compute),
                process(20, Some(1024), Some(30), ProcessKind::Compute),
                process(30, Some(500), None, ProcessKind::Compute),
                process(40, Some(60), None, ProcessKind::Compute),
                process(50, Some(16), None, ProcessKind::Graphics),
            ],
        };
        assert_eq!(read_one(&mut nvml, &uuid(7)), Ok(expected));
    });
}

#[test]
fn what_is_not_told_is_unknown_and_not_nothing() {
    apart("what_is_not_told_is_unknown_and_not_nothing", |machine| {
        machine.is(&json!([{"uuid": uuid(0), "name": "Tesla K80", "memory_total_mib": 11441, "processes": [{"pid": 5}]}]));
        let mut nvml = Nvml::open().unwrap();
        let device = nvml.list().unwrap().remove(0);
        assert_eq!((device.power_limit_watts, device.compute_mode), (None, ComputeMode::Unknown));
        let reading = read_one(&mut nvml, &uuid(0)).unwrap();
        let process = Process { pid: 5, memory_mib: None, utilisation_percent: None, kind: ProcessKind::Compute };
        let expected = Reading { memory_free_mib: 11_441, processes: vec![process], ..Reading::default() };
        assert_eq!(reading, expected);
    });
}

#[test]
fn a_machine_without_gpus_has_none() {
    apart("a_machine_without_gpus_has_none", |machine| {
        machine.is(&json!([]));
        assert_eq!(Nvml::open().unwrap().list(), Ok(Vec::new()));
    });
}

#[test]
fn an_old_driver_tells_memory_and_processes_too() {
    apart("an_old_driver_tells_memory_and_processes_too", |machine| {
        let missing = ["nvmlDeviceGetMemoryInfo_v2", "nvmlDeviceGetComputeRunningProcesses_v3", "nvmlDeviceGetMigMode"];
        machine.tells(&json!({
            "missing": missing,
            "devices": [{"uuid": uuid(0), "name": "Tesla K80", "memory_total_mib": 11441, "processes": [{"pid": 5, "memory_mib": 70}]}],
        }));
        let mut nvml = Nvml::open().unwrap();
        assert_eq!(nvml.list().unwrap()[0].memory_total_mib, 11_441);
        let reading = read_one(&mut nvml, &uuid(0)).unwrap();
        assert_eq!((reading.memory_used_mib, reading.processes[0].memory_mib), (70, Some(70)));
    });
}

#[test]
fn gpus_are_numbered_by_their_place_on_the_bus() {
    apart("gpus_are_numbered_by_their_place_on_the_bus", |machine| {
        machine.is(&json!([gpu(2), gpu(0), gpu(1)]));
        let devices = Nvml::open().unwrap().list().unwrap();
        assert_eq!(indices(&devices), [(0, uuid(0).as_str()), (1, &uuid(1)), (2, &uuid(2))]);
    });
}

#[test]
fn a_lost_gpu_is_told_and_its_neighbours_keep_their_numbers() {
    apart("a_lost_gpu_is_told_and_its_neighbours_keep_their_numbers", |machine| {
        machine.is(&json!([gpu(0), gpu(1), gpu(2)]));
        let mut nvml = Nvml::open().unwrap();
        let all = nvml.list().unwrap();

        let mut lost = gpu(1);
        lost["lost"] = json!(true);
        machine.is(&json!([gpu(0), lost, gpu(2)]));
        let readings = nvml.read(&[&uuid(0), &uuid(1), &uuid(2)]);
        assert_eq!(readings.iter().map(Result::is_ok).collect::<Vec<_>>(), [true, false, true]);
        assert_eq!(readings[1], Err(ReadError::Lost));
        assert_eq!(indices(&nvml.list().unwrap()), [(0, uuid(0).as_str()), (2, &uuid(2))]);

        machine.is(&json!([gpu(0), gpu(1), gpu(2)]));
        assert_eq!(nvml.list().unwrap(), all);
    });
}

#[test]
fn a_gpu_that_waits_for_a_reset_is_lost() {
    apart("a_gpu_that_waits_for_a_reset_is_lost", |machine| {
        let mut broken = gpu(0);
        broken["reset_required"] = json!(true);
        machine.is(&json!([broken, gpu(1)]));
        let mut nvml = Nvml::open().unwrap();
        assert_eq!(read_one(&mut nvml, &uuid(0)), Err(ReadError::Lost));
        assert_eq!(indices(&nvml.list().unwrap()), [(1, uuid(1).as_str())]);
    });
}

#[test]
fn gpus_come_and_go_while_we_look() {
    apart("gpus_come_and_go_while_we_look", |machine| {
        machine.is(&json!([gpu(0)]));
        let mut nvml = Nvml::open().unwrap();
        assert_eq!(nvml.list().unwrap().len(), 1);
        machine.is(&json!([gpu(0), gpu(1)]));
        assert_eq!(nvml.list().unwrap().len(), 2);
        machine.is(&json!([gpu(1)]));
        assert_eq!(nvml.read(&[&uuid(0), &uuid(1), "GPU-never", "a\0b"]).iter().filter(|reading| reading.is_ok()).count(), 1);
        assert_eq!(indices(&nvml.list().unwrap()), [(0, uuid(1).as_str())]);
    });
}

#[test]
fn a_reloaded_driver_is_opened_anew() {
    apart("a_reloaded_driver_is_opened_anew", |machine| {
        let driver = |version: &str, generation: u32, energy: f64| {
            let mut gpu = gpu(0);
            gpu["energy_joules"] = json!(energy);
            machine.tells(&json!({"driver": version, "cuda": 12040, "generation": generation, "devices": [gpu]}));
        };
        driver("550.54", 0, 5000.0);
        let mut nvml = Nvml::open().unwrap();
        nvml.list().unwrap();
        let energy = |nvml: &mut Nvml| read_one(nvml, &uuid(0)).unwrap().energy_joules;
        assert_eq!(energy(&mut nvml), Some(5000.0));
        driver("550.90", 1, 3.0);
        assert!(matches!(read_one(&mut nvml, &uuid(0)), Err(ReadError::Driver(_))), "the old session is over");
        let devices = nvml.list().unwrap();
        assert_eq!(energy(&mut nvml), Some(3.0), "the counter begins anew");
        assert_eq!(nvml.driver(), "NVML 550.90 / CUDA 12.4");

        driver("550.90", 2, 3.0);
        assert_eq!(nvml.list().unwrap(), devices, "even if nothing was read in between");
    });
}

#[test]
fn a_driver_that_is_away_is_waited_for() {
    apart("a_driver_that_is_away_is_waited_for", |machine| {
        assert!(matches!(Nvml::open(), Err(GpuError::Driver(_))), "no driver yet");
        machine.is(&json!([gpu(0)]));
        let mut nvml = Nvml::open().unwrap();
        assert_eq!(nvml.list().unwrap().len(), 1);
        machine.tells(&json!({"driver_loaded": false, "devices": []}));
        assert!(matches!(read_one(&mut nvml, &uuid(0)), Err(ReadError::Driver(_))));
        for _ in 0..2 {
            assert_eq!(nvml.list(), Err(GpuError::Driver("NVIDIA driver is not loaded".to_owned())));
        }
        assert!(matches!(read_one(&mut nvml, &uuid(0)), Err(ReadError::Driver(_))));
        machine.is(&json!([gpu(0), gpu(1)]));
        assert_eq!(nvml.list().unwrap().len(), 2);
        assert!(read_one(&mut nvml, &uuid(1)).is_ok());
    });
}

#[test]
fn the_parts_of_a_divided_gpu_take_its_place() {
    apart("the_parts_of_a_divided_gpu_take_its_place", |machine| {
        let part = |name: &str, pid: u32| {
            json!({
                "uuid": format!("MIG-{name}"), "name": "NVIDIA A100-SXM4-40GB MIG 1g.5gb", "memory_total_mib": 4864,
                "processes": [{"pid": pid, "memory_mib": 64}],
            })
        };
        let mut divided = gpu(0);
        divided["mig"] = json!([part("a", 5), part("b", 6)]);
        divided["power_watts"] = json!(60.0);
        let mut whole = gpu(1);
        whole["mig_mode"] = json!(false);
        machine.is(&json!([divided, whole]));
        let mut nvml = Nvml::open().unwrap();
        let devices = nvml.list().unwrap();
        assert_eq!(indices(&devices), [(0, "MIG-a"), (1, "MIG-b"), (2, uuid(1).as_str())]);
        assert_eq!((devices[0].kind.as_str(), devices[0].memory_total_mib), ("a100-mig-1g.5gb", 4864));
        assert_eq!(
            devices.iter().map(|device| device.mig_parent.clone()).collect::<Vec<_>>(),
            [Some(uuid(0)), Some(uuid(0)), None]
        );
        assert_eq!(devices[1].pci_bus_id.as_deref(), Some("00000000:01:00.0"));
        let reading = read_one(&mut nvml, "MIG-b").unwrap();
        assert_eq!((reading.memory_used_mib, reading.power_watts, reading.utilisation_percent), (64, None, None));
        assert_eq!(reading.processes.iter().map(|process| process.pid).collect::<Vec<_>>(), [6]);
    });
}

#[test]
fn a_broken_file_changes_nothing() {
    apart("a_broken_file_changes_nothing", |machine| {
        machine.is(&json!([gpu(0), gpu(1)]));
        let mut nvml = Nvml::open().unwrap();
        std::fs::write(&machine.0, "{\"devices\": [").unwrap();
        assert_eq!(nvml.list().unwrap().len(), 2);
        std::fs::remove_file(&machine.0).unwrap();
        assert_eq!(nvml.list().unwrap().len(), 2);
        machine.is(&json!([gpu(0)]));
        assert_eq!(nvml.list().unwrap().len(), 1);
    });
}

#[test]
fn what_others_set_is_written_down_and_seen() {
    apart("what_others_set_is_written_down_and_seen", |machine| {
        let mut settable = gpu(0);
        settable["power_limit_watts"] = json!(300.0);
        settable["compute_mode"] = json!("default");
        machine.is(&json!([settable, gpu(1)]));
        let mut nvml = Nvml::open().unwrap();
        let before = nvml.list().unwrap();
        assert_eq!((before[0].compute_mode, before[0].power_limit_watts), (ComputeMode::Default, Some(300.0)));

        let library = std::env::var_os("ROTA_NVML_LIB").unwrap();
        let other = nvml_wrapper::Nvml::builder().lib_path(&library).init().unwrap();
        let mut handle = other.device_by_index(0).unwrap();
        handle.set_power_management_limit(250_000).unwrap();
        handle.set_compute_mode(nvml_wrapper::enum_wrappers::device::ComputeMode::ExclusiveProcess).unwrap();
        assert!(handle.set_power_management_limit(301_000).is_err(), "above the greatest limit");
        assert!(other.device_by_index(1).unwrap().set_power_management_limit(1000).is_err(), "not supported");

        let log = std::fs::read_to_string(std::env::var_os("FAKE_NVML_LOG").unwrap()).unwrap();
        let lines = log.lines().map(|line| serde_json::from_str::<Value>(line).unwrap()).collect::<Vec<_>>();
        let power = json!({"call": "set_power_limit", "uuid": uuid(0), "watts": 250.0});
        let mode = json!({"call": "set_compute_mode", "uuid": uuid(0), "mode": "exclusive_process"});
        assert_eq!(lines, [power, mode]);

        let after = nvml.list().unwrap();
        assert_eq!((after[0].compute_mode, after[0].power_limit_watts), (ComputeMode::ExclusiveProcess, Some(250.0)));
    });
}

#[test]
fn a_compute_mode_is_asked_and_set() {
    apart("a_compute_mode_is_asked_and_set", |machine| {
        let tells = |generation: u32| {
            let mut settable = gpu(0);
            settable["compute_mode"] = json!("default");
            let mut lost = gpu(2);
            lost["lost"] = json!(true);
            machine.tells(&json!({"generation": generation, "devices": [settable, gpu(1), lost]}));
        };
        tells(0);
        let mut nvml = Nvml::open().unwrap();
        assert_eq!(nvml.get(&uuid(0)), Ok(ComputeMode::Default));
        nvml.set(&uuid(0), ComputeMode::ExclusiveProcess).unwrap();
        assert_eq!(nvml.get("PCI-00000000:01:00.0"), Ok(ComputeMode::ExclusiveProcess));
        assert_eq!(nvml.list().unwrap()[0].compute_mode, ComputeMode::ExclusiveProcess);
        let log = std::path::PathBuf::from(std::env::var_os("FAKE_NVML_LOG").unwrap());
        assert!(std::fs::read_to_string(&log).unwrap().contains(r#""mode":"exclusive_process""#));

        assert_eq!(nvml.get(&uuid(1)), Ok(ComputeMode::Unknown), "not told");
        assert_eq!(nvml.set(&uuid(1), ComputeMode::Default), Err(ModeError::NotSupported));
        assert_eq!(nvml.set(&uuid(0), ComputeMode::Unknown), Err(ModeError::NotSupported));
        for gone in [&uuid(2), "GPU-never"] {
            assert_eq!(nvml.get(gone), Err(ModeError::Lost), "{gone}");
            assert_eq!(nvml.set(gone, ComputeMode::Default), Err(ModeError::Lost), "{gone}");
        }

        tells(1);
        assert_eq!(nvml.get(&uuid(0)), Ok(ComputeMode::ExclusiveProcess), "a driver that was reset is asked all the same");
        std::fs::remove_file(&log).unwrap();
        std::fs::create_dir(&log).unwrap();
        assert_eq!(nvml.set(&uuid(0), ComputeMode::Default), Err(ModeError::NoPermission));
    });
}

#[test]
fn a_missing_library_says_what_to_do() {
    let error = Nvml::open_library("/nowhere/libnvidia-ml.so.1").unwrap_err();
    assert!(matches!(error, GpuError::Library { .. }));
    let words = error.to_string();
    assert!(words.contains("/nowhere/libnvidia-ml.so.1") && words.contains("use virtual GPUs"), "{words}");
}
