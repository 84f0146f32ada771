//! A policy that learns lengths knows at once what earlier jobs taught, whoever decided then.

use super::*;
use crate::queue::restore::set_policy;

/// The policy that learns, in force from this second on.
const LEARNS: &str = "sjf:estimates=history";
const SINCE: u64 = 90;

fn ask(arrival: u64, kind: usize, runs: u64) -> Ask {
    let (priority, memory_mib, fails_at) = (0, None, None);
    Ask { arrival, gpus: 1, runs, says: 20, priority, memory_mib, kind, preemptible: false, fails_at, user: 0 }
}

/// Jobs of two kinds run, the others much longer than those of the kind `short`. Later jobs of both kinds wait, those of the second
/// kind before those of the first, and one GPU after the other falls free.
fn case(short: usize) -> Case {
    let runs = |kind| if kind == short { 2 } else { 30 };
    let earlier = (0..24).map(|index| ask(1, index % 2, runs(index % 2)));
    let blocking = (0..6).map(|index| ask(100, 2, 5 + 3 * index));
    let waiting = [1, 1, 1, 0, 0, 0].map(|kind| ask(101, kind, runs(kind)));
    let asks = earlier.chain(blocking).chain(waiting).collect();
    Case { asks, script: Vec::new(), outages: [None; 2], stop_millis: 0 }
}

fn setting_at<'a>(now: Time) -> Setting<'a> {
    Setting { policy: if now < Time(SINCE * SECOND) { "fcfs" } else { LEARNS }, round: None }
}

#[test]
fn a_policy_that_learns_begins_with_what_earlier_jobs_taught() {
    for (short, restart_every) in [(0, 5), (1, 5), (0, 9), (1, 9)] {
        let starts = starts_of_a_daemon(&case(short), &setting_at, Some(restart_every));
        let waited = starts.iter().filter(|(_, job, _)| *job > 30).map(|(_, job, _)| *job).collect::<Vec<_>>();
        let of_kind = |job: &u64| usize::from(*job <= 33);
        assert_eq!(waited.len(), 6, "{starts:?}");
        let first = waited.iter().take(3).map(of_kind).collect::<Vec<_>>();
        assert_eq!(first, [short; 3], "kind {short} is short, restarted every {restart_every}: {starts:?}");
    }
}

#[test]
fn what_a_policy_was_taught_is_the_same_after_a_kill() {
    let case = case(0);
    let mut platform = platform(&case, None, &Rc::default());
    platform.horizon = SINCE * SECOND;
    let before = setting_at(Time::ZERO);
    let mut session = daemon(platform, Store::in_memory(), before).restore().unwrap();
    crate::server::run_until_exit(&mut session).unwrap();
    assert_eq!(session.engine.classes_learned(), None);
    set_policy(&mut session, LEARNS).unwrap();
    // All, by the estimate, by gang, by user, by user and kind, each with the estimate; and the newest.
    assert_eq!(session.engine.classes_learned(), Some(8));
    let taught = |engine: &mut Engine| postcard::to_allocvec(&engine.taught_by_ended()).unwrap();
    let before_the_kill = taught(&mut session.engine);
    let LiveWorld { platform, journal, .. } = session.world;
    let after = Setting { policy: LEARNS, round: None };
    let mut session = daemon(platform, journal.store, after).restore().unwrap();
    assert!(taught(&mut session.engine) == before_the_kill);
}
