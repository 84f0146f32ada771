//! Workers that join by tokens of their own.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use rota_exec::{Executor, JoinToken, WorkerExecutor};

use crate::support::until;
use crate::worker_place::WorkerPlace;

#[test]
fn a_worker_is_let_in_by_its_own_token_until_that_is_revoked() {
    let place = WorkerPlace::new(&["berta"]);
    let is_good = Arc::new(AtomicBool::new(true));
    let judged = Arc::clone(&is_good);
    let judge = Arc::new(move |token: &str| token == "bertas" && judged.load(Ordering::Relaxed));
    let mut executor = WorkerExecutor::new(place.settings(), Arc::new(|_| {})).unwrap().admitting(judge);
    let file = place.folder().join("bertas-token");
    let token = JoinToken::read(executor.token_file()).unwrap().with_secret("bertas");
    std::fs::write(&file, token.to_text()).unwrap();
    place.start_worker("berta", executor.address(), &file);
    executor.settle();
    let answers = || executor.inventory().iter().any(|node| node.answers);
    until("the worker to join", answers);
    is_good.store(false, Ordering::Relaxed);
    until("its connection to be cut, and the node to be lost", || !answers());
    is_good.store(true, Ordering::Relaxed);
    until("the worker to join again", answers);
}
