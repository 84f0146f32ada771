//! Prints what rota knows of NVIDIA's GPUs as one line of JSON, in the form of `tests/clients/nvml_clients.py`, to be compared with it.
//! With `--watch`, prints another line for every line on standard input.
#![expect(clippy::print_stdout, reason = "printing is what it is for")]

use rota_gpu::{Device, Devices, GpuError, Nvml, Process, ReadError, Reading};
use serde_json::{Value, json};

fn main() -> Result<(), GpuError> {
    let watch = std::env::args().any(|argument| argument == "--watch");
    let mut nvml = Nvml::open()?;
    loop {
        let devices = nvml.list()?;
        let uuids = devices.iter().map(|device| device.uuid.as_str()).collect::<Vec<_>>();
        let readings = nvml.read(&uuids);
        let all = devices.iter().zip(&readings).map(|(device, reading)| describe(device, reading)).collect::<Vec<_>>();
        println!("{}", json!({ "rota": all, "driver": nvml.driver() }));
        if !watch || std::io::stdin().read_line(&mut String::new()).unwrap_or(0) == 0 {
            return Ok(());
        }
    }
}

fn describe(device: &Device, reading: &Result<Reading, ReadError>) -> Value {
    match reading {
        Ok(reading) => json!({
            "index": device.index,
            "uuid": device.uuid,
            "name": device.name,
            "memory_total_mib": device.memory_total_mib,
            "memory_used_mib": reading.memory_used_mib,
            "utilisation_percent": reading.utilisation_percent,
            "power_watts": reading.power_watts,
            "temperature_c": reading.temperature_c,
            "processes": reading.processes.iter().map(of_process).collect::<Vec<_>>(),
            "mig_parent": device.mig_parent,
        }),
        Err(error) => json!({ "index": device.index, "error": error.to_string() }),
    }
}

fn of_process(process: &Process) -> Value {
    json!({ "pid": process.pid, "memory_mib": process.memory_mib })
}
