//! `rota node`: the machines whose GPUs are used.

use crate::live::args::NodeVerb;
use crate::live::client::Client;
use crate::live::text::columns;
use crate::output;
use hyper::Method;
use rota_daemon::api::NodeView;

/// Lists the machines, or forgets one.
pub fn node(verb: &NodeVerb) -> anyhow::Result<()> {
    match verb {
        NodeVerb::List { state, json } => {
            let nodes: Vec<NodeView> = Client::new(state).get("/api/v1/nodes")?;
            if *json { output::print_json(&nodes) } else { output::print(&table(&nodes)) }
        }
        NodeVerb::Forget { state, name } => {
            let path = format!("/api/v1/nodes/{name}/forget");
            Client::new(state).send(&Method::POST, &path, &serde_json::json!({}))
        }
    }
}

fn table(nodes: &[NodeView]) -> String {
    let mut rows = vec![["NODE", "GPUS", "STATE", "JOBS"].map(str::to_owned).to_vec()];
    for node in nodes {
        let state = match (node.answers, node.is_home) {
            (false, _) => "lost",
            (true, true) => "this machine",
            (true, false) => "connected",
        };
        let jobs = node.jobs.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
        rows.push(vec![node.name.clone(), node.gpus.to_string(), state.to_owned(), jobs]);
    }
    columns(&rows, output::table_width())
}
