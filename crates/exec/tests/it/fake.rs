//! The fake executor beyond the contract: runs over several nodes, and faults in any order.

use std::collections::BTreeMap;
use std::sync::mpsc::{Receiver, channel};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use proptest::prelude::*;
use rota_exec::contract::all_end_once;
use rota_exec::fake::{FakeCluster, FakeDeed, FakeExecutor, FakeFault};
use rota_exec::{
    Adoption, Executor, ExecutorEvent, KnownRun, Limits, LogSettings, Notice, Place, RunEnd, RunKey, RunRequest, StartError,
    Started, Stop,
};

const RUN: RunKey = RunKey { job: 1, attempt: 1 };
const SECOND: u64 = 1_000_000_000;

fn connect(cluster: &FakeCluster) -> (FakeExecutor, Receiver<ExecutorEvent>) {
    let (sender, events) = channel();
    let sender = Mutex::new(sender);
    let sink = Arc::new(move |event| _ = sender.lock().unwrap().send(event));
    (FakeExecutor::new(cluster, sink), events)
}

/// A request for a run on these nodes, prepared.
fn request(executor: &mut FakeExecutor, run: RunKey, nodes: &[usize], deed: &FakeDeed) -> RunRequest {
    let all = executor.inventory();
    let place = |node: &usize| Place { node: all[*node].name.clone(), uuids: vec![all[*node].devices[0].uuid.clone()] };
    RunRequest {
        run,
        identity: executor.prepare(run).unwrap(),
        places: nodes.iter().map(place).collect(),
        spare_uuids: Vec::new(),
        command: deed.command(),
        cwd: "/".into(),
        env: Vec::new(),
        variables: Vec::new(),
        run_as: None,
        log: LogSettings { bytes_max: 0, files_max: 1 },
        limits: Limits { time: None, grace: Duration::from_secs(30), memory_max_bytes: None, cpus_max: None },
        resource_limits: rota_exec::ResourceLimits::default(),
        notice: Notice::usual(Duration::from_secs(30)),
        mps: None,
    }
}

fn known(request: &RunRequest) -> KnownRun {
    KnownRun { run: request.run, identity: Some(request.identity.clone()), places: request.places.clone(), is_under_mps: false }
}

#[test]
fn a_run_over_three_nodes_is_told_of_when_all_of_them_answer() {
    let cluster = FakeCluster::default();
    let (mut executor, events) = connect(&cluster);
    let gang = request(&mut executor, RUN, &[0, 1, 2], &FakeDeed::Work(Duration::from_secs(5), 0));
    assert_eq!(executor.start(gang).unwrap(), Started::Running);
    let second = executor.inventory()[1].name.clone();
    cluster.lose_node(&second);
    cluster.advance(10 * SECOND);
    assert_eq!(events.try_iter().filter(|event| event.run().is_some()).count(), 0);
    cluster.return_node(&second);
    let told = events.try_iter().collect::<Vec<_>>();
    let RunEnd::Ended(record) = (match &told[..] {
        [ExecutorEvent::NodeBack(_), ExecutorEvent::Ended { run: RUN, end }] => end,
        other => panic!("{other:?}"),
    }) else {
        panic!("{told:?}")
    };
    assert_eq!((record.code, record.finished_unix_ns), (Some(0), 5 * SECOND), "it ended when it did, not when it was told");
}

#[test]
fn faults_come_when_they_are_ordered() {
    let cluster = FakeCluster::default();
    let (mut executor, events) = connect(&cluster);
    cluster.order(FakeFault::RefuseStart("no memory".to_owned()));
    let refused = request(&mut executor, RUN, &[0], &FakeDeed::Sleep);
    assert!(matches!(executor.start(refused.clone()), Err(StartError::NotLaunched(why)) if why == "no memory"));
    assert_eq!(executor.start(refused).unwrap(), Started::Running, "one fault, one refusal");
    cluster.order(FakeFault::SlowStop(Duration::from_secs(3)));
    executor.stop(RUN, Stop::Gentle).unwrap();
    cluster.advance(2 * SECOND);
    assert_eq!(events.try_iter().count(), 0);
    cluster.advance(3 * SECOND);
    assert!(matches!(events.try_recv(), Ok(ExecutorEvent::Ended { run: RUN, .. })));

    let second = RunKey { job: 2, attempt: 1 };
    let away = request(&mut executor, second, &[2], &FakeDeed::Sleep);
    executor.start(away).unwrap();
    let third = executor.inventory()[2].name.clone();
    cluster.lose_node(&third);
    cluster.reboot_node(&third);
    cluster.return_node(&third);
    let told = events.try_iter().collect::<Vec<_>>();
    assert!(told.contains(&ExecutorEvent::Ended { run: second, end: RunEnd::Rebooted }), "{told:?}");
}

/// What is done to a cluster, by numbers.
#[derive(Clone, Debug)]
enum Act {
    Start { nodes: Vec<usize>, works_seconds: u64 },
    Stop { which: usize, at_once: bool },
    KillSupervisor { which: usize },
    Lose { node: usize },
    Return { node: usize },
    Reboot { node: usize },
    Crash,
    Fault(FakeFault),
    Pass { seconds: u64 },
}

fn any_act() -> impl Strategy<Value = Act> {
    let fault = prop_oneof![
        Just(FakeFault::RefuseStart("on order".to_owned())),
        (0_u64..5, 0_u64..5).prop_map(|(accepted, running)| FakeFault::AcceptLate {
            accepted_after: Duration::from_secs(accepted),
            running_after: Duration::from_secs(accepted + running),
        }),
        (0_u64..5).prop_map(|seconds| FakeFault::SlowStop(Duration::from_secs(seconds))),
        Just(FakeFault::DuplicateEnd),
        (0_u64..5).prop_map(|seconds| FakeFault::UnreadableEnd(Duration::from_secs(seconds))),
    ];
    prop_oneof![
        4 => (prop::sample::subsequence(vec![0, 1, 2], 1..=3), 0_u64..10)
            .prop_map(|(nodes, works_seconds)| Act::Start { nodes, works_seconds }),
        2 => (0_usize..20, any::<bool>()).prop_map(|(which, at_once)| Act::Stop { which, at_once }),
        1 => (0_usize..20).prop_map(|which| Act::KillSupervisor { which }),
        1 => (0_usize..3).prop_map(|node| Act::Lose { node }),
        2 => (0_usize..3).prop_map(|node| Act::Return { node }),
        1 => (0_usize..3).prop_map(|node| Act::Reboot { node }),
        1 => Just(Act::Crash),
        3 => fault.prop_map(Act::Fault),
        4 => (0_u64..5).prop_map(|seconds| Act::Pass { seconds }),
    ]
}

/// A caller that keeps a book of its runs, as a daemon does: what is open, and how each ended.
struct Book {
    cluster: FakeCluster,
    executor: FakeExecutor,
    events: Receiver<ExecutorEvent>,
    told: Vec<ExecutorEvent>,
    open: BTreeMap<RunKey, KnownRun>,
    ends: BTreeMap<RunKey, usize>,
    next: u64,
}

impl Book {
    fn hear(&mut self) {
        for event in self.events.try_iter() {
            if let ExecutorEvent::Ended { run, .. } = &event {
                *self.ends.entry(*run).or_default() += 1;
                assert!(self.open.remove(run).is_some(), "{run} ended and was not open");
            }
            self.told.push(event);
        }
    }

    fn act(&mut self, act: Act) {
        let node = |node: usize| self.executor.inventory()[node].name.clone();
        match act {
            Act::Start { nodes, works_seconds } => {
                self.next += 1;
                let run = RunKey { job: self.next, attempt: 1 };
                let deed = FakeDeed::Work(Duration::from_secs(works_seconds), 0);
                let request = request(&mut self.executor, run, &nodes, &deed);
                let known = known(&request);
                if self.executor.start(request.clone()).is_ok() {
                    assert!(matches!(self.executor.start(request), Err(StartError::Duplicate { .. })));
                    self.open.insert(run, known);
                }
            }
            Act::Stop { which, at_once } => {
                if let Some(run) = self.open.keys().nth(which).copied() {
                    self.executor.stop(run, if at_once { Stop::AtOnce } else { Stop::Gentle }).unwrap();
                }
            }
            Act::KillSupervisor { which } => {
                if let Some(run) = self.open.keys().nth(which) {
                    self.cluster.kill_supervisor(*run);
                }
            }
            Act::Lose { node: which } => self.cluster.lose_node(&node(which)),
            Act::Return { node: which } => self.cluster.return_node(&node(which)),
            Act::Reboot { node: which } => self.cluster.reboot_node(&node(which)),
            Act::Crash => self.crash(),
            Act::Fault(fault) => self.cluster.order(fault),
            Act::Pass { seconds } => self.cluster.advance(self.cluster.now_ns() + seconds * SECOND),
        }
        self.hear();
    }

    fn crash(&mut self) {
        self.hear();
        (self.executor, self.events) = connect(&self.cluster);
        for (run, known) in std::mem::take(&mut self.open) {
            if let Adoption::Ended(_) = self.executor.adopt(&known) {
                *self.ends.entry(run).or_default() += 1;
            } else {
                self.open.insert(run, known);
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn whatever_happens_each_run_ends_once(acts in prop::collection::vec(any_act(), 1..60)) {
        let cluster = FakeCluster::default();
        let (executor, events) = connect(&cluster);
        let mut book = Book { cluster, executor, events, told: Vec::new(), open: BTreeMap::new(), ends: BTreeMap::new(), next: 0 };
        for act in acts {
            book.act(act);
        }
        for node in 0..3 {
            book.act(Act::Return { node });
        }
        book.act(Act::Pass { seconds: 1000 });
        prop_assert!(book.open.is_empty(), "{:?} never ended; told: {:?}", book.open, book.told);
        prop_assert!(book.ends.values().all(|count| *count == 1), "{:?}", book.ends);
        all_end_once(&book.told);
    }
}
