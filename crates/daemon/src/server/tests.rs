//! The queue's time across restarts.

use super::*;
use crate::clock::Clock;

const HOUR: u64 = 3_600_000_000_000;

fn store_with(folder: &Path, last_at: u64) -> Store {
    let mut store = Store::open(&folder.join("rota.db")).unwrap();
    let event = rota_core::EventKind::PolicySet { policy: "fcfs".into(), note: crate::store::journal::Note::default() };
    store.transaction(|writer| writer.event(1, Stamp { at: last_at, wall_ns: 0 }, &event)).unwrap();
    store
}

#[test]
fn time_goes_on_while_no_daemon_runs_and_stands_still_while_the_machine_is_off() {
    let folder = tempfile::tempdir().unwrap();
    let mut store = store_with(folder.path(), 5 * HOUR);
    let first = first_moment(&mut store, "boot", 7 * HOUR).unwrap();
    assert_eq!(first, Time(5 * HOUR + 1));
    // Two hours later by the clock that counts from boot, whatever the wall clock says.
    assert_eq!(first_moment(&mut store, "boot", 9 * HOUR).unwrap(), Time(7 * HOUR + 2));
    // After a reboot that clock begins anew, and the queue goes on from what was written last.
    let after = first_moment(&mut store, "other", HOUR / 60).unwrap();
    assert_eq!(after, Time(5 * HOUR + 1));
    let clock = SystemClock::from(after);
    let (now, later) = (clock.now(), clock.now());
    assert!(after <= now && now <= later);
}
