//! Old run directories of workers.

use std::sync::{Arc, mpsc};
use std::time::Duration;

use rota_exec::{Executor, ExecutorEvent, PruneRule, RunEnd, RunKey};

use crate::support::until;
use crate::worker_place::WorkerPlace;

#[test]
fn a_worker_removes_runs_whose_end_the_daemon_knows() {
    let mut place = WorkerPlace::new(&["one"]);
    place.prune = PruneRule { keep: Duration::ZERO, connected_for: Duration::ZERO, every: Duration::ZERO };
    let (told, events) = mpsc::channel();
    let mut executor = place.connect(Arc::new(move |event| _ = told.send(event)));
    for job in 1..=2 {
        let run = RunKey { job, attempt: 1 };
        let request = place.request(&mut executor, run, "echo hello");
        executor.start(request).unwrap();
        let is_end = |event: &ExecutorEvent| matches!(event, ExecutorEvent::Ended { run: other, .. } if *other == run);
        let end = events.iter().find(is_end);
        assert!(matches!(end, Some(ExecutorEvent::Ended { end: RunEnd::Ended(_), .. })), "{end:?}");
        until("the run's directory to go", || place.dirs(run).iter().all(|dir| !dir.exists()));
        let log = place.folder().join(format!("daemon/jobs/{job}/1/log"));
        assert_eq!(std::fs::read(log).unwrap(), b"hello\n", "the daemon has its output");
    }
}
