//! A user who comes when the queue has decided before: under `hierarchical` the user has a part of the GPUs' time, as in the simulator,
//! which knows all users from the beginning.

use super::*;

/// Eighteen jobs of one user from the beginning on six GPUs, and ten seconds later six jobs of another.
fn case(late_user: usize) -> Case {
    let ask = |arrival, user| Ask {
        arrival,
        gpus: 1,
        runs: 100,
        says: 100,
        priority: 0,
        memory_mib: None,
        kind: 0,
        preemptible: true,
        fails_at: None,
        user,
    };
    let asks = (0..18).map(|_| ask(0, 0)).chain((0..6).map(|_| ask(10, late_user))).collect();
    Case { asks, script: Vec::new(), outages: [None; 2], stop_millis: 0 }
}

#[test]
fn a_user_who_comes_later_has_a_part_of_their_own_in_the_live_queue() {
    let setting = Setting { policy: "hierarchical:tick=5", round: None };
    let starts = starts_of_the_daemon(&case(1), setting, None);
    assert_eq!(starts, run_of_the_simulator(&case(1), setting).starts);
    assert_ne!(starts, starts_of_the_daemon(&case(0), setting, None), "jobs of the same user get another part");
}
