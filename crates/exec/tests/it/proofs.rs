//! Proofs that a node is gone.

use std::sync::Arc;

use rota_exec::{Adoption, Executor, KnownRun, LostCause, RunEnd, RunKey, WorkerExecutor};

use crate::support::until;
use crate::worker_place::WorkerPlace;

#[test]
fn a_proof_outlives_a_daemon_that_is_killed_before_it_writes_the_end_down() {
    let mut place = WorkerPlace::new(&["one"]);
    let mut executor = place.connect(Arc::new(|_| {}));
    let run = RunKey { job: 1, attempt: 1 };
    let request = place.request(&mut executor, run, "sleep 5");
    let (identity, places) = (Some(request.identity.clone()), request.places.clone());
    let known = KnownRun { run, identity, places, is_under_mps: false };
    executor.start(request).unwrap();
    until("the run to be there", || place.dirs(run).iter().any(|dir| dir.join("log").exists()));
    place.cut("one");
    let (workers, node) = (executor.handle(), known.places[0].node.clone());
    until("the connection to be gone", || workers.prove_gone(&node, "cancelled").is_ok());
    drop(executor);
    let mut next = WorkerExecutor::new(place.settings(), Arc::new(|_| {})).unwrap();
    let adoption = next.adopt(&known);
    let proved = RunEnd::Lost(LostCause::NodeEnded("cancelled".to_owned()));
    assert!(matches!(&adoption, Adoption::Ended(end) if *end == proved), "{adoption:?}");
}
