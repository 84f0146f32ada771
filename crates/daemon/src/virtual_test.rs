//! The daemon's own loop on a virtual clock with invented processes: for the same workload it must decide as the simulator does.

use crate::api::Submit;
use crate::board::Board;
use crate::config::Config;
use crate::machine::Machine;
use crate::platform::{Caller, Message, Outcome, Platform, Run};
use crate::record::Record;
use crate::store::Store;
use crate::text::Text;
use crate::world::LiveWorld;
use proptest::prelude::*;
use rota_core::bind::BadJobs;
use rota_core::{Bound, EventKind, Job, Span, ThroughputTable, Time, Workload};
use rota_exec::{Cause, ExitRecord};
use rota_gpu::{Devices, Virtual, parse_virtual};
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::Arc;

/// What a job of the test asks for: it arrives, takes GPUs, says how long it will run, and runs so long.
#[derive(Clone, Debug)]
struct Ask {
    arrival: u64,
    gpus: u32,
    runs: u64,
    says: u64,
    priority: i32,
}

/// A start: when, whose, on which GPUs.
type Start = (u64, u64, Vec<u32>);

/// Time that jumps from one thing to the next; processes that end when they should.
struct VirtualPlatform {
    now: Time,
    /// What lies ahead: ends before arrivals, as in the simulator.
    ahead: BTreeMap<(u64, u8, u64), Ahead>,
    asks: Vec<Ask>,
    starts: Rc<RefCell<Vec<Start>>>,
}

enum Ahead {
    Arrival(usize),
    End { job: u64, attempt: u32 },
}

const SECOND: u64 = 1_000_000_000;

impl Platform for VirtualPlatform {
    fn now(&self) -> Time {
        self.now
    }

    fn wall_ns(&self) -> i64 {
        i64::try_from(self.now.0).unwrap()
    }

    fn wait(&mut self, until: Option<Time>) -> Option<Vec<Message>> {
        let next = self.ahead.keys().next().map(|key| Time(key.0));
        match (next, until) {
            (None, None) => return None,
            (next, Some(until)) if next.is_none_or(|next| until < next) => {
                self.now = self.now.max(until);
                return Some(Vec::new());
            }
            (Some(next), _) => self.now = self.now.max(next),
            (None, Some(_)) => {}
        }
        let mut messages = Vec::new();
        while let Some(entry) = self.ahead.first_entry() {
            if entry.key().0 > self.now.0 {
                break;
            }
            messages.push(match entry.remove() {
                Ahead::Arrival(index) => {
                    let (reply, _) = tokio::sync::oneshot::channel();
                    Message::Submit(Box::new(submit(&self.asks[index])), caller(), reply)
                }
                Ahead::End { job, attempt } => Message::Ended { job, attempt, outcome: Outcome::Ended(Box::new(exit())) },
            });
        }
        Some(messages)
    }

    fn prepare(&mut self, _: &Record) -> Result<(), String> {
        Ok(())
    }

    fn launch(&mut self, run: Run<'_>) -> Result<(), Outcome> {
        let record = run.record;
        self.starts.borrow_mut().push((self.now.0, record.id, record.gpu_indices.clone()));
        let runs = self.asks[record.id as usize - 1].runs;
        self.ahead.insert((self.now.0 + runs * SECOND, 0, record.id), Ahead::End { job: record.id, attempt: record.attempts });
        Ok(())
    }

    fn check_mps(&self) -> Result<(), String> {
        Ok(())
    }

    fn end_mps(&mut self, _: &str) -> Result<(), String> {
        Ok(())
    }

    fn recover_mps(&mut self, _: &std::collections::HashSet<String>) -> Vec<String> {
        Vec::new()
    }

    fn log_end(&self, _: &Record, _: u64) -> Vec<u8> {
        Vec::new()
    }

    fn stop(&mut self, _: &Record, _: bool) {}

    fn adopt(&mut self, _: &Record) -> Option<Outcome> {
        None
    }

    fn watch_holder(&mut self, _: &Record) -> Option<Outcome> {
        None
    }
}

fn caller() -> Caller {
    Caller { uid: 1, gid: 1, user: "ada".to_owned(), is_admin: true, may_write: true }
}

fn exit() -> ExitRecord {
    ExitRecord {
        code: Some(0),
        signal: None,
        cause: Cause::Exited,
        started_unix_ns: 0,
        finished_unix_ns: 0,
        duration_ns: 0,
        process: None,
        user_seconds: 0.0,
        system_seconds: 0.0,
        max_rss_kib: 0,
        log_lost_bytes: 0,
        message: None,
    }
}

fn submit(ask: &Ask) -> Submit {
    let plain: Submit = serde_json::from_str(r#"{ "command": ["true"], "cwd": "/" }"#).unwrap();
    Submit {
        gpus: ask.gpus,
        estimate_seconds: Some(ask.says as f64),
        priority: ask.priority,
        env: vec![(Text::from("A"), Text::from("1"))],
        ..plain
    }
}

const GPUS: &str = "a100:4,t4:2";

fn starts_of_the_daemon(asks: &[Ask], policy: &str) -> Vec<Start> {
    let devices = Virtual::new(&parse_virtual(GPUS).unwrap()).list().unwrap();
    let starts = Rc::new(RefCell::new(Vec::new()));
    let arrivals = asks.iter().enumerate().map(|(index, ask)| ((ask.arrival * SECOND, 1, index as u64), Ahead::Arrival(index)));
    let platform =
        VirtualPlatform { now: Time::ZERO, ahead: arrivals.collect(), asks: asks.to_vec(), starts: Rc::clone(&starts) };
    let store = Store::open(std::path::Path::new(":memory:")).unwrap();
    let config = Config { policy: policy.to_owned(), ..Config::default() };
    let machine = Machine::new("here", devices, 1);
    let mut world = LiveWorld::new(platform, store, Arc::new(Board::default()), config, machine).unwrap();
    crate::server::run(&mut world).unwrap();
    starts.take()
}

fn starts_of_the_simulator(asks: &[Ask], policy: &str) -> Vec<Start> {
    let devices = Virtual::new(&parse_virtual(GPUS).unwrap()).list().unwrap();
    let cluster = Machine::new("here", devices, 1).cluster;
    let mut workload = Workload::new("asks");
    let kinds = cluster.types.iter().map(|kind| kind.name.clone()).filter(|kind| kind != crate::machine::CPU).collect::<Vec<_>>();
    for ask in asks {
        let gpu_types = kinds.iter().map(|kind| workload.names.intern(kind)).collect();
        let estimate = Some(Span(ask.says * SECOND));
        let user = workload.names.intern("ada");
        let job = Job::new(Time(ask.arrival * SECOND), Span(ask.runs * SECOND));
        workload.push(Job { gpus: ask.gpus, priority: ask.priority, gpu_types, estimate, user, preemptible: false, ..job });
    }
    workload.finish();
    let bound = Arc::new(Bound::new(workload, cluster, &ThroughputTable::new("none"), BadJobs::Refuse).unwrap());
    let mut starts = Vec::new();
    let mut observe = |event: &rota_core::Event| {
        if let EventKind::Started { job, gpus } = &event.kind {
            starts.push((event.time_ns.0, u64::from(job.0) + 1, gpus.iter().map(|gpu| gpu.0).collect()));
        }
    };
    let options = rota_sim::SimOptions::default();
    rota_sim::simulate(&bound, rota_policy::build(policy).unwrap(), &options, &mut observe, &|| 0.0);
    starts
}

fn any_asks() -> impl Strategy<Value = Vec<Ask>> {
    let ask = (0_u64..5, 1_u32..=4, 1_u64..20, 1_u64..20, -1_i32..2);
    prop::collection::vec(ask, 1..40).prop_map(|asks| {
        let mut arrival = 0;
        let mut all = Vec::new();
        for (gap, gpus, runs, says, priority) in asks {
            arrival += gap;
            all.push(Ask { arrival, gpus, runs, says, priority });
        }
        all
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn the_daemon_decides_as_the_simulator_does(asks in any_asks()) {
        for policy in ["fcfs", "priority", "fcfs:backfill=easy", "fcfs:backfill=conservative", "sjf", "wfq", "lottery:seed=3", "least-loaded", "srtf", "las:first=5", "lag-match:tick=5"] {
            prop_assert_eq!(starts_of_the_daemon(&asks, policy), starts_of_the_simulator(&asks, policy), "{}", policy);
        }
    }
}
