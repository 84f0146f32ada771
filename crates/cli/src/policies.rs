//! `rota policies`: what there is to choose from.

use crate::args::PoliciesArgs;
use crate::output::{print, print_json};
use rota_policy::PolicyInfo;
use rota_policy::registry::POLICIES;
use serde::Serialize;
use std::fmt::Write as _;

#[derive(Serialize)]
struct PolicyRow {
    name: &'static str,
    aliases: &'static [&'static str],
    summary: &'static str,
    parameters: Vec<ParameterRow>,
    preemptive: bool,
    packs: bool,
    heterogeneity_aware: bool,
}

#[derive(Serialize)]
struct ParameterRow {
    name: &'static str,
    default: Option<&'static str>,
    meaning: &'static str,
}

pub fn run(args: &PoliciesArgs) -> anyhow::Result<()> {
    let chosen = match &args.name {
        Some(name) => vec![rota_policy::find(name)?],
        None => POLICIES.iter().collect(),
    };
    if args.json {
        return print_json(&chosen.iter().map(|info| row(info)).collect::<Vec<_>>());
    }
    let mut text = String::new();
    for info in &chosen {
        let preemptive = if info.preemptive { " (preemptive)" } else { "" };
        writeln!(text, "{:<13} {}{preemptive}", info.name, info.summary)?;
        for param in info.params {
            let default = if param.default.is_empty() { String::new() } else { format!(" [{}]", param.default) };
            writeln!(text, "{:13}   {:<9} {}{default}", "", param.name, param.meaning)?;
        }
    }
    if args.name.is_none() {
        text.push_str("\nGive parameters after a colon: `--policy rr:quantum=60`, `--policy fcfs:backfill=easy,depth=500`.\n");
    }
    print(&text)
}

fn row(info: &PolicyInfo) -> PolicyRow {
    PolicyRow {
        name: info.name,
        aliases: info.aliases,
        summary: info.summary,
        parameters: info
            .params
            .iter()
            .map(|param| ParameterRow {
                name: param.name,
                default: Some(param.default).filter(|default| !default.is_empty()),
                meaning: param.meaning,
            })
            .collect(),
        preemptive: info.preemptive,
        packs: info.packs,
        heterogeneity_aware: info.heterogeneity_aware,
    }
}
