//! What the ended jobs of a live queue teach: how long they really ran.

use super::*;
use crate::forecast::learned::{history_until, ran_seconds};

const ASK: Ask = Ask {
    arrival: 1,
    gpus: 1,
    runs: 1,
    says: 20,
    priority: 0,
    memory_mib: None,
    kind: 2,
    preemptible: false,
    fails_at: None,
    user: 0,
};

/// How the machine of a test behaves.
#[derive(Clone, Copy)]
struct Behaviour {
    saves: bool,
    clock_jump: Option<(Time, u64)>,
}

const USUAL: Behaviour = Behaviour { saves: true, clock_jump: None };

/// How many jobs taught a length, and the seconds that each job ran, when all are over.
fn taught(asks: Vec<Ask>, policy: &str, behaviour: Behaviour) -> (u64, Vec<f64>) {
    let jobs = 1..=asks.len() as u64;
    let case = Case { asks, script: Vec::new(), outages: [None; 2], stop_millis: 0 };
    let mut platform = platform(&case, None, &Rc::default());
    (platform.saves, platform.clock_jump) = (behaviour.saves, behaviour.clock_jump);
    let mut session = daemon(platform, Store::in_memory(), Setting { policy, round: None }).restore().unwrap();
    crate::server::run_until_exit(&mut session).unwrap();
    let store = &session.world.journal.store;
    let seconds = |id| ran_seconds(&store.job(id).unwrap().unwrap()).unwrap();
    (history_until(store, None).unwrap().ended(), jobs.map(seconds).collect())
}

#[test]
fn jobs_teach_their_true_lengths() {
    let asks = [10, 20, 30, 40].map(|runs| Ask { runs, ..ASK }).into();
    assert_eq!(taught(asks, "fcfs", USUAL), (4, vec![10.0, 20.0, 30.0, 40.0]));
}

#[test]
fn jobs_that_share_gpus_by_memory_teach_their_true_lengths() {
    let asks = [10, 20, 30, 40].map(|runs| Ask { runs, memory_mib: Some(4096), ..ASK }).into();
    assert_eq!(taught(asks, "fcfs", USUAL), (4, vec![10.0, 20.0, 30.0, 40.0]));
}

#[test]
fn an_attempt_that_was_repeated_does_not_count() {
    let asks = vec![Ask { runs: 30, fails_at: Some(12), ..ASK }];
    assert_eq!(taught(asks, "fcfs", USUAL), (1, vec![12.0]));
}

#[test]
fn a_job_that_was_stopped_teaches_the_run_time_of_the_work_that_it_kept() {
    let long = Ask { runs: 40, preemptible: true, ..ASK };
    let urgent = Ask { arrival: 11, gpus: 4, runs: 5, priority: 1, ..ASK };
    let asks = || [long.clone(), long.clone(), long.clone(), long.clone(), long.clone(), long.clone(), urgent.clone()].into();
    let (_, kept) = taught(asks(), "priority:preempt=true", USUAL);
    assert_eq!(kept, [40.0, 40.0, 40.0, 40.0, 40.0, 40.0, 5.0]);
    let (_, lost) = taught(asks(), "priority:preempt=true", Behaviour { saves: false, ..USUAL });
    assert_eq!(lost, [40.0, 40.0, 40.0, 40.0, 40.0, 40.0, 5.0]);
}

#[test]
fn a_wall_clock_that_is_set_forward_makes_no_job_long() {
    let day = 86_400 * SECOND;
    let asks = [10, 20, 30, 40].map(|runs| Ask { runs, ..ASK }).into();
    let jumps = Behaviour { clock_jump: Some((Time(15 * SECOND), day)), ..USUAL };
    assert_eq!(taught(asks, "fcfs", jumps), (4, vec![10.0, 20.0, 30.0, 40.0]));
}

#[test]
fn a_cancelled_job_teaches_a_policy_no_end() {
    let asks = [10, 100, 100].map(|runs| Ask { runs, ..ASK }).into();
    let script = vec![(30, 2, Deed::Cancel), (40, 3, Deed::Cancel)];
    let case = Case { asks, script, outages: [None; 2], stop_millis: 0 };
    let setting = Setting { policy: "sjf:estimates=history", round: None };
    let mut session = daemon(platform(&case, None, &Rc::default()), Store::in_memory(), setting).restore().unwrap();
    crate::server::run_until_exit(&mut session).unwrap();
    let ended = |history: rota_policy::history::History| history.ended();
    assert_eq!(session.engine.taught_by_ended().map(ended), Some(1));
    assert_eq!(ended(history_until(&session.world.journal.store, None).unwrap()), 1);
}
