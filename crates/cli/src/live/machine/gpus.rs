//! `rota gpus`: the GPUs, with the jobs and strangers on them.

use crate::live::args::PlainArgs;
use crate::live::client::Client;
use crate::live::text::columns;
use crate::output;
use rota_daemon::api::{Gpu, GpuState};

/// Prints the GPUs, with the jobs and strangers on them.
pub fn gpus(args: &PlainArgs) -> anyhow::Result<()> {
    let gpus: Vec<Gpu> = Client::new(&args.state).get("/api/v1/gpus")?;
    if args.json {
        return output::print_json(&gpus);
    }
    output::print(&if gpus.is_empty() { "no GPU".to_owned() } else { gpu_table(&gpus) })
}

/// A table with one row for each GPU.
pub fn gpu_table(gpus: &[Gpu]) -> String {
    let mut rows = vec![["GPU", "TYPE", "STATE", "MEMORY", "BUSY", "POWER", "TEMP", "WHO"].map(str::to_owned).to_vec()];
    // One machine needs no name.
    let has_nodes = gpus.iter().any(|gpu| gpu.node != gpus[0].node);
    if has_nodes {
        rows[0].insert(1, "NODE".to_owned());
    }
    for gpu in gpus {
        let unknown = || "-".to_owned();
        let memory = gpu.memory_used_mib.map_or_else(unknown, |used| format!("{used}/{} MiB", gpu.memory_total_mib));
        let jobs = gpu.jobs.iter().map(|job| format!("job {job}"));
        let strangers = gpu.processes.iter().filter(|process| process.job.is_none());
        let strangers = strangers.map(|process| {
            let memory = process.memory_mib.map_or_else(String::new, |memory| format!(" {memory} MiB"));
            format!("pid {} of {}{memory}", process.pid, process.user.as_deref().unwrap_or("?"))
        });
        rows.push(vec![
            gpu.index.to_string(),
            if rota_gpu::is_virtual_name(&gpu.name) { format!("{} (virtual)", gpu.kind) } else { gpu.kind.clone() },
            gpu_state(gpu.state).to_owned(),
            memory,
            gpu.utilisation_percent.map_or_else(unknown, |busy| format!("{busy} %")),
            gpu.power_watts.map_or_else(unknown, |watts| format!("{watts:.0} W")),
            gpu.temperature_c.map_or_else(unknown, |degrees| format!("{degrees} °C")),
            jobs.chain(strangers).collect::<Vec<_>>().join(", "),
        ]);
        if let Some(row) = rows.last_mut().filter(|_| has_nodes) {
            row.insert(1, gpu.node.clone());
        }
    }
    columns(&rows, output::table_width())
}

/// The state of a GPU, as a word.
pub fn gpu_state(state: GpuState) -> &'static str {
    match state {
        GpuState::Free => "free",
        GpuState::Shared => "shared",
        GpuState::Full => "full",
        GpuState::Stranger => "stranger",
        GpuState::Drained => "drained",
        GpuState::Lost => "lost",
    }
}
