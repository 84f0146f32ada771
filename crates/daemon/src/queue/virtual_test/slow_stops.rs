//! Jobs that take time to leave: the daemon decides as the simulator does, and stops nobody in vain.

use super::*;

/// Policies that stop jobs for others.
const STOPPING: [&str; 8] = ["srtf", "las", "rr", "lottery", "priority", "max-min-perf", "ftf-perf", "lag-match"];
/// Those among them that stop jobs for one job that waits. The others divide time, and may move a job to GPUs that suit it better.
const RANKING: [&str; 5] = ["srtf", "las", "rr", "lottery", "priority"];

fn is_one_of(policy: &str, names: &[&str]) -> bool {
    names.contains(&policy.split(':').next().unwrap_or(policy))
}

/// A case in which jobs take time to leave, and never leave at the moment of something else, of which the two worlds might hear in
/// another order. Jobs that are cancelled leave at once in the simulator, so none is; none fails, and no node is lost.
fn any_slow_case() -> impl Strategy<Value = Case> {
    (any_case(), 1_u64..4).prop_map(|(mut case, stop_seconds)| {
        let stop_millis = stop_seconds * 1000 + 357;
        case.script.retain(|(_, _, deed)| !matches!(deed, Deed::Cancel));
        for ask in &mut case.asks {
            (ask.preemptible, ask.fails_at) = (ask.preemptible || ask.runs % 3 > 0, None);
        }
        Case { stop_millis, outages: [None; 2], ..case }
    })
}

proptest! {
    #![proptest_config(ProptestConfig { max_shrink_iters: 40, ..ProptestConfig::with_cases(2 * cases()) })]

    #[test]
    fn the_daemon_decides_as_the_simulator_does_when_jobs_take_time_to_leave(case in any_slow_case(), every in 2_u64..9) {
        for (policy, round) in settings().into_iter().filter(|(policy, _)| is_one_of(policy, &STOPPING)) {
            let setting = Setting { policy: &policy, round };
            let simulated = run_of_the_simulator(&case, setting);
            if is_one_of(&policy, &RANKING) {
                let in_vain = simulated.stops.iter().find(|stop| !simulated.made_room.contains(stop));
                prop_assert_eq!(in_vain, None, "{:?} stopped a job whose GPUs went to nobody", setting);
            }
            prop_assert_eq!(&starts_of_the_daemon(&case, setting, None), &simulated.starts, "{:?}", setting);
            let restarted = starts_of_the_daemon(&case, setting, Some(every));
            prop_assert_eq!(&restarted, &simulated.starts, "{:?}, restarted after every {} waits", setting, every);
        }
    }
}
