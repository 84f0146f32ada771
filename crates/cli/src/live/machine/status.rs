//! `rota status`: the daemon, the queue and the GPUs at a glance.

use super::gpus::gpu_table;
use crate::live::args::PlainArgs;
use crate::live::client::Client;
use crate::live::text::ago;
use crate::output;
use rota_daemon::api::Status;

/// The whole state at a glance.
pub fn status(args: &PlainArgs) -> anyhow::Result<()> {
    let client = Client::new(&args.state)?;
    let status: Status = client.get("/api/v1/status")?;
    if args.json {
        return output::print_json(&status);
    }
    let mut lines = vec![
        format!("daemon   pid {} on {}, up {}, {}", status.pid, status.state_dir, ago(&status.started_at), status.driver),
        format!(
            "policy   {}{}",
            status.policy,
            if status.draining { "; DRAINED: nothing is started, `rota resume` goes on" } else { "" }
        ),
        format!("queue    {} running, {} waiting, {} held", status.running, status.waiting, status.held),
    ];
    lines.extend(status.http.iter().map(|http| format!("http     {http} (token in {}/token)", status.state_dir)));
    lines.extend(status.warnings.iter().map(|warning| format!("WARNING  {warning}")));
    if !status.gpus.is_empty() {
        lines.push(String::new());
        lines.push(gpu_table(&status.gpus));
    }
    output::print(&lines.join("\n"))
}
