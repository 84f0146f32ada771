//! So many jobs that the daemon drops the rows of those that are over, more than once. The simulator keeps them all, and decides the same.

use super::*;

#[test]
fn dropping_the_rows_of_ended_jobs_changes_no_decision() {
    let ask = |index: u64| Ask {
        arrival: index / 3,
        gpus: 1 + (index % 2) as u32,
        runs: 1 + index % 4,
        says: 1 + index % 4,
        priority: (index % 5) as i32,
        memory_mib: None,
        kind: (index % 3) as usize,
        preemptible: index.is_multiple_of(3),
        fails_at: None,
        user: (index % 3) as usize,
    };
    let case = Case { asks: (0..320).map(ask).collect(), script: Vec::new(), outages: [None; 2], stop_millis: 0 };
    for policy in ["fcfs:backfill=easy", "las:first=2", "rr:quantum=3", "priority:preempt=true", "hierarchical:tick=5"] {
        let setting = Setting { policy, round: None };
        let simulated = run_of_the_simulator(&case, setting).starts;
        assert_eq!(starts_of_the_daemon(&case, setting, None), simulated, "{policy}");
        assert_eq!(starts_of_the_daemon(&case, setting, Some(200)), simulated, "{policy}, restarted");
    }
}
