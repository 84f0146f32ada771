//! `rota policies`: what there is to choose from.

use crate::args::PoliciesArgs;
use crate::output::{print, print_json};
use rota_daemon::api::PolicyChoice;
use std::fmt::Write as _;

pub fn run(args: &PoliciesArgs) -> anyhow::Result<()> {
    let chosen = match &args.name {
        Some(name) => vec![PolicyChoice::from(rota_policy::find(name)?)],
        None => PolicyChoice::all(),
    };
    if args.json {
        return print_json(&chosen);
    }
    let mut text = String::new();
    for policy in &chosen {
        let preemptive = if policy.preemptive { " (preemptive)" } else { "" };
        writeln!(text, "{:<13} {}{preemptive}", policy.name, policy.summary)?;
        for parameter in &policy.parameters {
            let default = parameter.default.as_ref().map_or_else(String::new, |default| format!(" [{default}]"));
            writeln!(text, "{:13}   {:<9} {}{default}", "", parameter.name, parameter.meaning)?;
        }
    }
    if args.name.is_none() {
        text.push_str("\nGive parameters after a colon: `--policy rr:quantum=60`, `--policy fcfs:backfill=easy,depth=500`.\n");
    }
    print(&text)
}
