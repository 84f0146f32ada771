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
use rota_core::{Bound, EventKind, Job, MilliGpu, Span, ThroughputTable, Time, Workload};
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
    /// Memory with which it shares a GPU; none takes whole ones.
    memory_mib: Option<u32>,
    kind: usize,
}

/// What job types keep of their speeds beside each other on an `a100`; nothing else is known. The first never gains by its own kind.
const PARTS: [(usize, usize, f64, f64); 4] = [(0, 0, 0.25, 0.25), (0, 1, 0.5, 1.0), (1, 1, 0.5, 1.0), (1, 2, 0.5, 0.75)];
const KINDS: [&str; 3] = ["net", "lm", "vision"];

fn table() -> ThroughputTable {
    let mut table = ThroughputTable::new("test");
    for kind in KINDS {
        table.insert(kind, 1, "a100", 8.0);
    }
    for (first, second, of_first, of_second) in PARTS {
        table.insert_pair((KINDS[first], 1), (KINDS[second], 1), "a100", (8.0 * of_first, 8.0 * of_second));
    }
    table
}

/// What is left of a kind's speed beside another.
fn part(kind: usize, other: usize) -> f64 {
    let known = PARTS.iter().find_map(|&(first, second, of_first, of_second)| match (first, second) {
        _ if (first, second) == (kind, other) => Some(of_first),
        _ if (first, second) == (other, kind) => Some(of_second),
        _ => None,
    });
    known.unwrap_or(1.0)
}

/// A start: when, whose, on which GPUs.
type Start = (u64, u64, Vec<u32>);

/// Time that jumps from one thing to the next; processes that slow each other down, and end when they have done their work.
struct VirtualPlatform {
    now: Time,
    /// Arrivals ahead.
    ahead: BTreeMap<(u64, u64), usize>,
    running: BTreeMap<u64, Process>,
    asks: Vec<Ask>,
    starts: Rc<RefCell<Vec<Start>>>,
}

struct Process {
    attempt: u32,
    gpus: Vec<u32>,
    left: Span,
    speed: f64,
    since: Time,
}

impl VirtualPlatform {
    /// The next ends, and when they come.
    fn ends(&self) -> Option<(Time, Vec<u64>)> {
        let end = |process: &Process| process.since + process.left.at_speed(process.speed);
        let at = self.running.values().map(end).min()?;
        Some((at, self.running.iter().filter(|(_, process)| end(process) == at).map(|(job, _)| *job).collect()))
    }

    /// Somebody came to GPUs or left them: those who share them go on at another speed.
    fn pace(&mut self, gpus: &[u32]) {
        let does_share = |job: u64| self.asks[job as usize - 1].memory_mib.is_some();
        let sharers = self.running.iter().filter(|(job, _)| does_share(**job));
        let sharers =
            sharers.map(|(job, process)| (*job, self.asks[*job as usize - 1].kind, process.gpus[0])).collect::<Vec<_>>();
        for &(job, kind, gpu) in sharers.iter().filter(|(_, _, gpu)| gpus.contains(gpu)) {
            let others = sharers.iter().filter(|(other, _, there)| *other != job && *there == gpu);
            // Speeds together are known on the first four GPUs.
            let speed = others.map(|(_, other, _)| if gpu < 4 { part(kind, *other) } else { 1.0 }).product();
            if let Some(process) = self.running.get_mut(&job) {
                process.left = process.left.minus(self.now.since(process.since).work_at_speed(process.speed));
                (process.speed, process.since) = (speed, self.now);
            }
        }
    }
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
        let arrival = self.ahead.keys().next().map(|key| Time(key.0));
        let next = self.ends().map(|(at, _)| at).into_iter().chain(arrival).min();
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
        // Ends before arrivals, as in the simulator.
        if let Some((_, ended)) = self.ends().filter(|(at, _)| *at <= self.now) {
            for job in ended {
                let process = self.running.remove(&job).unwrap();
                self.pace(&process.gpus);
                let outcome = Outcome::Ended(Box::new(exit()));
                messages.push(Message::Ended { job, attempt: process.attempt, outcome });
            }
        }
        while let Some(entry) = self.ahead.first_entry().filter(|entry| entry.key().0 <= self.now.0) {
            let (reply, _) = tokio::sync::oneshot::channel();
            messages.push(Message::Submit(Box::new(submit(&self.asks[entry.remove()])), caller(), reply));
        }
        Some(messages)
    }

    fn prepare(&mut self, _: &Record) -> Result<(), String> {
        Ok(())
    }

    fn launch(&mut self, run: Run<'_>) -> Result<(), Outcome> {
        let record = run.record;
        self.starts.borrow_mut().push((self.now.0, record.id, record.gpu_indices.clone()));
        let left = Span(self.asks[record.id as usize - 1].runs * SECOND);
        let gpus = record.gpu_indices.clone();
        let process = Process { attempt: record.attempts, gpus: gpus.clone(), left, speed: 1.0, since: self.now };
        self.running.insert(record.id, process);
        self.pace(&gpus);
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
        memory_mib: ask.memory_mib,
        job_type: Some(KINDS[ask.kind].to_owned()),
        env: vec![(Text::from("A"), Text::from("1"))],
        ..plain
    }
}

const GPUS: &str = "a100:4,t4:2";

fn daemon(asks: &[Ask], policy: &str, starts: &Rc<RefCell<Vec<Start>>>) -> LiveWorld<VirtualPlatform> {
    let devices = Virtual::new(&parse_virtual(GPUS).unwrap()).list().unwrap();
    let arrivals = asks.iter().enumerate().map(|(index, ask)| ((ask.arrival * SECOND, index as u64), index));
    let platform = VirtualPlatform {
        now: Time::ZERO,
        ahead: arrivals.collect(),
        running: BTreeMap::new(),
        asks: asks.to_vec(),
        starts: Rc::clone(starts),
    };
    let store = Store::open(std::path::Path::new(":memory:")).unwrap();
    let mut config = Config { policy: policy.to_owned(), ..Config::default() };
    config.sharing.buffer_mib = 0;
    let machine = Machine::new("here", devices, 1);
    let world = LiveWorld::new(platform, store, Arc::new(Board::default()), config, machine).unwrap();
    world.with_throughputs(table())
}

fn starts_of_the_daemon(asks: &[Ask], policy: &str) -> Vec<Start> {
    let starts = Rc::new(RefCell::new(Vec::new()));
    let mut world = daemon(asks, policy, &starts);
    let engine = world.restore().unwrap();
    crate::server::run(&mut world, engine).unwrap();
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
        let kind = workload.names.intern(KINDS[ask.kind]);
        let share = if ask.memory_mib.is_some() { MilliGpu(125) } else { MilliGpu::WHOLE };
        let job = Job::new(Time(ask.arrival * SECOND), Span(ask.runs * SECOND));
        let job = Job { share, memory_mib: ask.memory_mib.unwrap_or(0), kind, priority: ask.priority, gpus: ask.gpus, ..job };
        workload.push(Job { gpu_types, estimate, user, preemptible: false, ..job });
    }
    workload.finish();
    let bound = Arc::new(Bound::new(workload, cluster, &table(), BadJobs::Refuse).unwrap());
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
    let shares = prop::option::of((2_u32..12).prop_map(|gib| gib * 1024));
    let ask = (0_u64..5, 1_u32..=4, 1_u64..20, 1_u64..20, -1_i32..2, shares, 0..KINDS.len());
    prop::collection::vec(ask, 1..40).prop_map(|asks| {
        let mut arrival = 0;
        let mut all = Vec::new();
        for (gap, gpus, runs, says, priority, memory_mib, kind) in asks {
            arrival += gap;
            // Of those that share, each is on one GPU: their speeds are known so.
            let gpus = if memory_mib.is_some() { 1 } else { gpus };
            all.push(Ask { arrival, gpus, runs, says, priority, memory_mib, kind });
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

#[test]
fn whoever_asks_first_finds_the_gpus() {
    let mut world = daemon(&[], "fcfs", &Rc::default());
    world.restore().unwrap();
    assert_eq!(world.board.read().gpus.len(), world.machine.devices.len());
}
