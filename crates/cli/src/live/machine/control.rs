//! `rota drain`, `rota resume`, `rota policy`: what administrators change about the queue.

use crate::live::args::{DrainArgs, PolicyVerb};
use crate::live::client::Client;
use crate::output;
use hyper::Method;
use rota_daemon::api::{Drain, PolicyChange, Status};

/// Drains or resumes the queue, or some GPUs.
pub fn drain(args: &DrainArgs, verb: &str) -> anyhow::Result<()> {
    let drain = Drain { gpus: args.gpus.clone(), then_exit: false };
    Client::new(&args.state).send(&Method::POST, &format!("/api/v1/{verb}"), &drain)
}

/// Prints or changes the policy.
pub fn policy(verb: &PolicyVerb) -> anyhow::Result<()> {
    match verb {
        PolicyVerb::Set { state, policy } => {
            Client::new(state).send(&Method::PUT, "/api/v1/policy", &PolicyChange { policy: policy.clone() })
        }
        PolicyVerb::Show { state } => {
            let status: Status = Client::new(state).get("/api/v1/status")?;
            output::print(&status.policy)
        }
    }
}
