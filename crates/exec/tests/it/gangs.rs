//! Runs on several nodes: all parts start or none, they know of each other, and they end together.

use std::sync::Arc;
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use rota_exec::{
    Adoption, Cause, Executor, ExecutorEvent, KnownRun, LostCause, Place, RunEnd, RunKey, RunRequest, Started, Stop,
    WorkerExecutor,
};

use crate::support::FAR;
use crate::worker_place::WorkerPlace;

const RUN: RunKey = RunKey { job: 5, attempt: 1 };

struct Gang {
    place: WorkerPlace,
    executor: WorkerExecutor,
    events: Receiver<ExecutorEvent>,
}

impl Gang {
    fn new() -> Self {
        let mut place = WorkerPlace::new(&["one", "two", "three"]);
        let (sender, events) = channel();
        let executor = place.connect(Arc::new(move |event| _ = sender.send(event)));
        Self { place, executor, events }
    }

    /// A request for both GPUs of each of the three nodes.
    fn request(&mut self, script: &str) -> RunRequest {
        let nodes = self.executor.inventory();
        let place = |name: &str| {
            let node = nodes.iter().find(|node| node.name.as_str() == name).unwrap();
            Place { node: node.name.clone(), uuids: node.devices.iter().map(|device| device.uuid.clone()).collect() }
        };
        let places = ["one", "two", "three"].map(place).to_vec();
        RunRequest { places, ..self.place.request(&mut self.executor, RUN, script) }
    }

    fn start(&mut self, script: &str) -> KnownRun {
        let request = self.request(script);
        let (identity, places) = (Some(request.identity.clone()), request.places.clone());
        assert_eq!(self.executor.start(request).unwrap(), Started::Taken);
        KnownRun { run: RUN, identity, places, is_under_mps: false }
    }

    fn until(&self, is_it: impl Fn(&ExecutorEvent) -> bool) -> ExecutorEvent {
        let since = Instant::now();
        loop {
            let event = self.events.recv_timeout(FAR.saturating_sub(since.elapsed())).unwrap();
            if is_it(&event) {
                return event;
            }
        }
    }

    fn end(&self) -> RunEnd {
        match self.until(|event| matches!(event, ExecutorEvent::Ended { run: RUN, .. })) {
            ExecutorEvent::Ended { end, .. } => end,
            other => panic!("{other:?}"),
        }
    }

    fn running(&self) {
        self.until(|event| *event == ExecutorEvent::Running { run: RUN });
    }

    /// Files that the parts have made in the folder that they share.
    fn files(&self, prefix: &str) -> Vec<String> {
        let entries = std::fs::read_dir(self.place.folder()).unwrap().flatten();
        let mut names = entries.map(|entry| entry.file_name().into_string().unwrap()).collect::<Vec<_>>();
        names.retain(|name| name.starts_with(prefix));
        names.sort();
        names
    }
}

#[test]
fn parts_know_of_each_other_and_end_as_one() {
    let mut gang = Gang::new();
    gang.start(
        "echo $MASTER_ADDR:$MASTER_PORT $RANK/$WORLD_SIZE $LOCAL_RANK $ROTA_NODES $ROTA_NODE_GPUS > env-$RANK; echo out $RANK",
    );
    let RunEnd::Ended(record) = gang.end() else { panic!("it has no record") };
    assert_eq!((record.code, record.cause), (Some(0), Cause::Exited));
    let texts = (0..3).map(|rank| std::fs::read_to_string(gang.place.folder().join(format!("env-{rank}"))).unwrap());
    let texts = texts.collect::<Vec<_>>();
    for (rank, text) in texts.iter().enumerate() {
        let (master, rest) = text.trim().split_once(' ').unwrap();
        assert_eq!(rest, format!("{rank}/3 0 one,two,three 2"));
        assert!(master.starts_with("127.0.0.1:") && texts[0].starts_with(master), "{texts:?}");
    }
    assert_eq!(gang.executor.log_end(RUN, 100).unwrap(), b"out 0\n");
    let beside = gang.executor.log_path(RUN).unwrap().with_file_name("rank-2.log");
    assert_eq!(std::fs::read(beside).unwrap(), b"out 2\n");
}

#[test]
fn one_part_that_fails_takes_the_others_with_it() {
    let mut gang = Gang::new();
    gang.start("trap 'touch told-$RANK; exit 0' TERM; touch here-$RANK; [ $RANK = 1 ] && { until [ -e here-0 -a -e here-2 ]; do sleep 0.05; done; exit 7; }; while :; do sleep 0.05; done");
    let RunEnd::Ended(record) = gang.end() else { panic!("it has no record") };
    assert_eq!(record.code, Some(7));
    assert_eq!(gang.files("told-"), ["told-0", "told-2"]);
}

#[test]
fn a_part_that_cannot_be_made_ready_keeps_all_from_starting() {
    let mut gang = Gang::new();
    let mut request = gang.request("touch started-$RANK");
    // A folder for checkpoints that only some nodes can make: the others have a file in its place.
    std::fs::write(gang.place.folder().join("blocked"), "").unwrap();
    request.variables.push(("ROTA_CHECKPOINT_DIR".into(), gang.place.folder().join("blocked/5").into()));
    gang.executor.start(request).unwrap();
    let RunEnd::NotLaunched(why) = gang.end() else { panic!("it was launched") };
    assert!(why.contains("checkpoints") && why.contains("blocked"), "{why}");
    assert!(gang.files("started-").is_empty());
}

#[test]
fn a_stop_reaches_all_parts() {
    let mut gang = Gang::new();
    gang.start("touch here-$RANK; exec sleep 1000");
    gang.running();
    crate::support::until("all parts to be there", || gang.files("here-").len() == 3);
    gang.executor.stop(RUN, Stop::Gentle).unwrap();
    let RunEnd::Ended(record) = gang.end() else { panic!("it has no record") };
    assert_eq!((record.signal, record.cause), (Some(15), Cause::StopRequested));
}

#[test]
fn a_gang_outlives_its_daemon() {
    let mut gang = Gang::new();
    let known = gang.start("touch here-$RANK; until [ -e go ]; do sleep 0.05; done");
    gang.running();
    let (sender, events) = channel();
    gang.executor = gang.place.connect(Arc::new(move |event| _ = sender.send(event)));
    gang.events = events;
    assert!(matches!(gang.executor.adopt(&known), Adoption::Running));
    std::fs::write(gang.place.folder().join("go"), "").unwrap();
    assert!(matches!(gang.end(), RunEnd::Ended(record) if record.code == Some(0)));
}

#[test]
fn a_gang_that_is_given_up_ends_and_what_is_left_of_it_is_killed() {
    let mut gang = Gang::new();
    gang.start("touch here-$RANK; trap '' TERM; while :; do sleep 0.05; touch beat-$RANK; done");
    gang.running();
    crate::support::until("all parts to be there", || gang.files("beat-").len() == 3);
    gang.place.cut("two");
    gang.until(|event| matches!(event, ExecutorEvent::NodeGone { node, .. } if node.as_str() == "two"));
    gang.executor.give_up(RUN);
    assert_eq!(gang.end(), RunEnd::Lost(LostCause::NodeGone("two".to_owned())));
    gang.place.mend("two");
    // What was left on the node is killed when it is back.
    let beat = gang.place.folder().join("beat-1");
    crate::support::until("the rest to be killed", || {
        _ = std::fs::remove_file(&beat);
        std::thread::sleep(Duration::from_millis(500));
        !beat.exists()
    });
}
