//! `rota policies`: what there is to choose from.

use crate::args::PoliciesArgs;
use crate::output::{print, print_json};
use rota_daemon::api::PolicyChoice;
use std::fmt::Write as _;

pub fn run(args: &PoliciesArgs) -> anyhow::Result<()> {
    let chosen = match &args.name {
        Some(name) => vec![PolicyChoice::from(rota_learn::registry().find(name)?)],
        None => PolicyChoice::all(),
    };
    if args.json {
        return print_json(&chosen);
    }
    let mut text = String::new();
    for policy in &chosen {
        let preemptive = if policy.preemptive { " (preemptive)" } else { "" };
        let knows = match policy.knows_durations.as_str() {
            "always" => " (knows how long jobs run)",
            "unless estimates=history" => " (knows how long jobs run, unless estimates=history)",
            _ => "",
        };
        writeln!(text, "{:<13} {}{preemptive}{knows}", policy.name, policy.summary)?;
        for parameter in &policy.parameters {
            let default = parameter.default.as_ref().map_or_else(String::new, |default| format!(" [{default}]"));
            writeln!(text, "{:13}   {:<9} {}{default}", "", parameter.name, parameter.meaning)?;
        }
    }
    if args.name.is_none() {
        text.push_str("\nA policy that knows how long jobs run is told so by a simulation where users gave no estimate; so are the others for\n");
        text.push_str("reservations (`backfill=easy` and `conservative`). A live queue has only estimates. With `estimates=history` a policy\n");
        text.push_str("goes by how long earlier jobs ran, in both.\n");
        text.push_str("\nGive parameters after a colon: `--policy rr:quantum=60`, `--policy fcfs:backfill=easy,depth=500`.\n");
    }
    print(&text)
}
