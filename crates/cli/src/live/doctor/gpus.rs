//! The GPUs: the driver's library, what it shows beside what the queue has, strangers on them, and whether they can be shared.

use super::{Examined, Finding};
use rota_daemon::api::{GpuState, Status};
use rota_gpu::{ComputeMode, Device, Devices, Nvml};

const MPS: &str = "nvidia-cuda-mps-control";

pub fn look(examined: &Examined) -> Vec<Finding> {
    let status = examined.status.as_ref().ok();
    if let Some(status) = status.filter(|status| status.driver.contains("virtual")) {
        let mut findings = vec![Finding::ok("driver", format!("{} GPUs: {}", status.gpus.len(), status.driver))];
        findings.extend(strangers(status));
        return findings;
    }
    let mut nvml = match Nvml::open() {
        Ok(nvml) => nvml,
        Err(error) => {
            let remedy =
                "install NVIDIA's driver, or name its library with ROTA_NVML_LIB; without a GPU, `rota up --virtual-gpus a100:2`";
            return vec![Finding::warn("driver", error.to_string(), remedy)];
        }
    };
    let devices = match nvml.list() {
        Ok(devices) => devices,
        Err(error) => {
            let remedy = "`nvidia-smi` should say the same; a restart of the machine usually mends it";
            return vec![Finding::fail("driver", format!("{}: {error}", nvml.driver()), remedy)];
        }
    };
    let mut findings = vec![Finding::ok("driver", format!("{}, {} GPUs", nvml.driver(), devices.len()))];
    if let Some(status) = status {
        findings.extend(differences(status, &devices));
        findings.extend(strangers(status));
    }
    findings.extend(modes(&devices));
    findings.push(mps());
    findings
}

fn differences(status: &Status, devices: &[Device]) -> Vec<Finding> {
    let mut findings = Vec::new();
    let has = |uuid: &str| status.gpus.iter().any(|gpu| gpu.uuid == uuid);
    let unused = devices.iter().filter(|device| !has(&device.uuid)).map(|device| device.index.to_string()).collect::<Vec<_>>();
    if !unused.is_empty() {
        let text = format!("the driver shows GPU {}, which the queue does not use", unused.join(", "));
        findings.push(Finding::warn(
            "gpus",
            text,
            "if `gpus.only` does not leave them out on purpose, restart the daemon: jobs run on",
        ));
    }
    for gpu in status.gpus.iter().filter(|gpu| gpu.state == GpuState::Lost) {
        let remedy = "look at `dmesg` for Xid errors; `nvidia-smi --gpu-reset` or a restart of the machine brings it back";
        findings.push(Finding::fail("gpus", format!("GPU {} is lost", gpu.index), remedy));
    }
    if findings.is_empty() {
        findings.push(Finding::ok("gpus", format!("the queue has all {} of them", devices.len())));
    }
    findings
}

fn strangers(status: &Status) -> Vec<Finding> {
    let on = |gpu: &rota_daemon::api::Gpu| {
        let strange = gpu.processes.iter().filter(|process| process.job.is_none());
        let strange = strange.map(|process| {
            let name = process.name.as_deref().unwrap_or("?");
            format!("pid {} ({name}) of {}", process.pid, process.user.as_deref().unwrap_or("?"))
        });
        strange.collect::<Vec<_>>().join(", ")
    };
    let finding = |gpu: &rota_daemon::api::Gpu| {
        let text = format!("GPU {} has processes that are no job's: {}", gpu.index, on(gpu));
        let remedy =
            "they keep it from whole jobs: end them, run them through the queue, or name them in `gpus.ignore_processes`";
        Finding::warn("strangers", text, remedy)
    };
    status.gpus.iter().filter(|gpu| gpu.state == GpuState::Stranger).map(finding).collect()
}

fn modes(devices: &[Device]) -> Vec<Finding> {
    let mut findings = Vec::new();
    for device in devices {
        let index = device.index;
        let back = format!("nvidia-smi -i {index} -c DEFAULT");
        match device.compute_mode {
            ComputeMode::Prohibited => {
                findings.push(Finding::fail(
                    "modes",
                    format!("GPU {index} is closed to everybody (compute mode prohibited)"),
                    back,
                ));
            }
            ComputeMode::ExclusiveProcess => {
                let text = format!("GPU {index} takes one process only: jobs cannot share it, unless MPS is what set it so");
                findings.push(Finding::warn("modes", text, back));
            }
            ComputeMode::Default | ComputeMode::Unknown => {}
        }
    }
    if findings.is_empty() {
        findings.push(Finding::ok("modes", "every GPU takes any number of processes"));
    }
    findings
}

/// Jobs under MPS need NVIDIA's program, and the right to set compute modes.
fn mps() -> Finding {
    let path = std::env::var_os("PATH").unwrap_or_default();
    if !std::env::split_paths(&path).any(|folder| folder.join(MPS).is_file()) {
        return Finding::ok("mps", format!("jobs with --mps cannot run: there is no {MPS} here"));
    }
    if rustix::process::geteuid().is_root() {
        Finding::ok("mps", format!("{MPS} is there, and compute modes can be set"))
    } else {
        Finding::ok("mps", format!("{MPS} is there; without root, GPUs under it stay open to processes outside it"))
    }
}
