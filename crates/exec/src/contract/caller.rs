//! The suite's side of an executor: starts runs and keeps what it is told.

use std::sync::Arc;
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use super::{Deed, Harness};
use crate::ExitRecord;
use crate::executor::{
    Executor, ExecutorEvent, KnownRun, Limits, LogSettings, Notice, Place, RunEnd, RunKey, RunRequest, StartError, Started,
};

/// A caller of an executor, which keeps all it is told.
pub struct Caller<'a> {
    /// What is behind the executor.
    pub harness: &'a mut dyn Harness,
    /// The executor under test.
    pub executor: Box<dyn Executor>,
    /// All that this caller, and those before it, were told.
    pub told: Vec<ExecutorEvent>,
    events: Receiver<ExecutorEvent>,
}

impl<'a> Caller<'a> {
    /// A first caller.
    pub fn new(harness: &'a mut dyn Harness) -> Self {
        let (sender, events) = channel();
        let executor = harness.connect(Arc::new(move |event| _ = sender.send(event)));
        Self { harness, executor, told: Vec::new(), events }
    }

    /// The caller is gone without a word, and another takes its place.
    pub fn crash(&mut self) {
        self.hear();
        let (sender, events) = channel();
        self.executor = self.harness.connect(Arc::new(move |event| _ = sender.send(event)));
        self.events = events;
    }

    /// A request for a run on the first node, not yet prepared.
    pub fn request(&mut self, run: RunKey, deed: Deed) -> RunRequest {
        let node = self.executor.inventory().swap_remove(0);
        RunRequest {
            run,
            identity: self.executor.prepare(run).expect("the run has a place"),
            places: vec![Place { node: node.name, uuids: vec![node.devices[0].uuid.clone()] }],
            spare_uuids: Vec::new(),
            command: self.harness.command(deed),
            cwd: self.harness.cwd(),
            env: vec![("PATH".into(), "/usr/local/bin:/usr/bin:/bin".into())],
            variables: Vec::new(),
            run_as: None,
            log: LogSettings { bytes_max: 0, files_max: 1 },
            limits: Limits { time: None, grace: Duration::from_mins(10), memory_max_bytes: None, cpus_max: None },
            resource_limits: crate::ResourceLimits::default(),
            notice: Notice::usual(Duration::from_secs(30)),
            mps: None,
        }
    }

    /// Starts a run that does a deed, and gives back what to know it by.
    pub fn start(&mut self, run: RunKey, deed: Deed) -> KnownRun {
        let request = self.request(run, deed);
        self.start_with(request).1
    }

    /// Starts a run as requested.
    pub fn start_with(&mut self, request: RunRequest) -> (Started, KnownRun) {
        let known = known(&request);
        (self.executor.start(request).expect("the run is started"), known)
    }

    /// Starts a run that must be refused.
    pub fn refusal(&mut self, request: RunRequest) -> StartError {
        self.executor.start(request).expect_err("the run must be refused")
    }

    fn hear(&mut self) {
        self.told.extend(self.events.try_iter());
    }

    /// Waits until something was told.
    pub fn until(&mut self, what: &str, is_it: impl Fn(&ExecutorEvent) -> bool) -> ExecutorEvent {
        loop {
            self.hear();
            if let Some(event) = self.told.iter().find(|event| is_it(event)) {
                return event.clone();
            }
            assert!(self.harness.pass(), "waited too long for {what}; told: {:?}", self.told);
        }
    }

    /// Waits for the end of a run.
    pub fn end_of(&mut self, run: RunKey) -> RunEnd {
        let is_end = |event: &ExecutorEvent| matches!(event, ExecutorEvent::Ended { run: other, .. } if *other == run);
        match self.until(&format!("the end of {run}"), is_end) {
            ExecutorEvent::Ended { end, .. } => end,
            other => panic!("{other:?} is no end"),
        }
    }

    /// Waits for the end of a run, which must be one that its supervisor wrote down.
    pub fn record_of(&mut self, run: RunKey) -> ExitRecord {
        match self.end_of(run) {
            RunEnd::Ended(record) => *record,
            other => panic!("run {run} ended by {other:?}, not with a record"),
        }
    }

    /// Runs another job to its end, so that whatever was to be told about others before has been.
    pub fn settle_with(&mut self, job: u64) {
        let run = RunKey { job, attempt: 1 };
        self.start(run, Deed::Exit(0));
        self.end_of(run);
    }

    /// How often a run was said to have ended.
    pub fn ends_of(&mut self, run: RunKey) -> usize {
        self.hear();
        self.told.iter().filter(|event| matches!(event, ExecutorEvent::Ended { run: other, .. } if *other == run)).count()
    }
}

/// What a run is known by once its start was written down.
pub fn known(request: &RunRequest) -> KnownRun {
    KnownRun {
        run: request.run,
        identity: Some(request.identity.clone()),
        places: request.places.clone(),
        is_under_mps: request.mps.is_some(),
    }
}

/// Checks that nothing was told of a run after its end, and each end once.
pub fn all_end_once(told: &[ExecutorEvent]) {
    let mut over = std::collections::BTreeSet::new();
    for event in told {
        let Some(run) = event.run() else { continue };
        assert!(!over.contains(&run), "{event:?} was told after the end of the run: {told:?}");
        if matches!(event, ExecutorEvent::Ended { .. }) {
            over.insert(run);
        }
    }
}
