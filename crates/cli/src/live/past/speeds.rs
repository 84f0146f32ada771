//! `rota throughputs live`: how fast the jobs of the queue were, by the steps that they told.

use crate::args::LiveThroughputsArgs;
use crate::live::client::Client;
use crate::output;
use crate::traces::writer_of;
use rota_core::ThroughputTable;
use rota_daemon::api::Speed;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

/// Prints what was measured and what is believed, and writes what was measured.
pub fn speeds(args: &LiveThroughputsArgs) -> anyhow::Result<()> {
    let writer = args.output.as_deref().map(writer_of).transpose()?;
    let speeds = fetch(&Client::new(&args.state))?;
    if let Some((writer, path)) = writer.zip(args.output.as_deref()) {
        let table = measured(&speeds);
        output::write_file(path, |file| writer(&table, file))?;
        output::remark(&format!("wrote {} job types to {}", table.job_types().len(), path.display()));
    }
    if args.json {
        return output::print_json(&speeds);
    }
    output::print(&text(&speeds)?)
}

/// What the daemon knows of speeds.
pub fn fetch(client: &Client) -> anyhow::Result<Vec<Speed>> {
    client.get("/api/v1/speeds")
}

/// What was measured, as a table. A pair is in it once both of its jobs were measured.
pub fn measured(speeds: &[Speed]) -> ThroughputTable {
    let mut table = ThroughputTable::new("what the queue measured");
    let measured = || speeds.iter().filter(|speed| speed.measurements > 0);
    for speed in measured() {
        let Some(beside) = &speed.beside else {
            table.insert(&speed.job_type, speed.gpus, &speed.gpu_type, speed.steps_per_second);
            continue;
        };
        let is_other = |other: &&Speed| {
            other.beside.as_ref() == Some(&speed.job_type)
                && (&other.job_type, other.gpus, &other.gpu_type) == (beside, speed.gpus, &speed.gpu_type)
        };
        if let Some(other) = measured().find(is_other) {
            let pair = (speed.steps_per_second, other.steps_per_second);
            table.insert_pair((&speed.job_type, speed.gpus), (beside, speed.gpus), &speed.gpu_type, pair);
        }
    }
    table
}

fn text(speeds: &[Speed]) -> anyhow::Result<String> {
    if speeds.is_empty() {
        return Ok("nothing was measured yet: jobs tell their steps through a lease, and have a --job-type\n".to_owned());
    }
    let gpu_types = speeds.iter().map(|speed| speed.gpu_type.as_str()).collect::<BTreeSet<_>>();
    let mut rows: BTreeMap<(String, u32), BTreeMap<&str, String>> = BTreeMap::new();
    for speed in speeds {
        let shown = format!("{:.3}", speed.steps_per_second);
        let shown = if speed.measurements == 0 { format!("({shown})") } else { shown };
        let beside = speed.beside.as_ref().map(|beside| format!(" beside {beside}")).unwrap_or_default();
        rows.entry((format!("{}{beside}", speed.job_type), speed.gpus)).or_default().insert(&speed.gpu_type, shown);
    }
    let width = rows.keys().map(|(job_type, _)| job_type.chars().count()).max().unwrap_or(0).max(8);
    let mut text = format!("{:<width$}  gpus", "job type");
    gpu_types.iter().try_for_each(|gpu_type| write!(text, "  {gpu_type:>12}"))?;
    text.push_str("  steps per second\n");
    for ((job_type, gpus), row) in &rows {
        write!(text, "{job_type:<width$}  {gpus:>4}")?;
        for gpu_type in &gpu_types {
            write!(text, "  {:>12}", row.get(gpu_type).map_or("–", String::as_str))?;
        }
        text.push('\n');
    }
    Ok(text)
}
