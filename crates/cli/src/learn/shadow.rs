//! `rota learn shadow`: what a model would have done with this site's own jobs, before it may act.

use super::eval;
use crate::args::ShadowArgs;
use crate::live::client::Client;
use crate::live::past;
use crate::output::{print, print_json, remark};
use rota_core::ThroughputTable;
use rota_daemon::Outside;
use rota_daemon::api::Status;
use rota_learn::evaluate::{Player, evaluate};
use rota_learn::features;
use rota_learn::model::Model;
use rota_learn::simulated::Scenario;
use rota_learn::task::Task;
use rota_sim::SimOptions;
use std::sync::Arc;

pub fn run(args: &ShadowArgs) -> anyhow::Result<()> {
    let model = Arc::new(Model::read(&args.model, &features::NAMES)?);
    let client = Client::new(&args.state);
    let status: Status = client.get("/api/v1/status")?;
    let replay = past::replay(&client, args.since.as_deref())?;
    for left_out in replay.left_out.iter().chain(&replay.not_held(Outside::Ignored)) {
        remark(left_out);
    }
    let jobs = replay.jobs.len();
    let scenario = Scenario::trace(replay.workload, ThroughputTable::default(), jobs, replay.cluster, SimOptions::default());
    let task = Task::Simulated(Box::new(scenario));
    let mut players = vec![Player::Model(args.model.display().to_string(), model, None)];
    let others = std::iter::once(&status.policy).chain(&args.against);
    for policy in others {
        players.push(Player::Rule(policy.clone()));
    }
    let scores = evaluate(&task, &players, &[0])?;
    if args.json {
        return print_json(&scores);
    }
    print(&format!("{jobs} jobs of this site's history, simulated; `{}` is in force\n\n{}", status.policy, eval::table(&scores)?))
}
