//! The daemon's own loop on a virtual clock with invented processes: for the same workload it must decide as the simulator does.

mod late_users;
mod lessons;
mod many_jobs;
mod measured;
mod simulated;
mod slow_stops;
mod taught;

use crate::api::Submit;
use crate::api::text::Text;
use crate::config::Config;
use crate::machine::inventory::Machine;
use crate::machine::platform::{Caller, Message, Outcome, Platform, Verb, message_of};
use crate::machine::run_requests::RunRequests;
use crate::queue::world::LiveWorld;
use crate::store::Store;
use crate::store::record::JobRecord;
use crate::view::board::Board;
use proptest::prelude::*;
use rota_core::bind::BadJobs;
use rota_core::cluster::Outage;
use rota_core::{
    Bound, End, Event, EventKind, Hold, Job, JobChange, JobId, MilliGpu, NodeId, Phase, Plan, Span, StopCause, ThroughputTable,
    Time, Workload,
};
use rota_engine::{Engine, Moment, Session, State, Step, Wait, World};
use rota_exec::fake::{FakeCluster, FakeExecutor};
use rota_exec::{Cause, Executor, Node, RunKey};
use rota_gpu::{Devices, Virtual, parse_virtual};
use rota_sim::{Mechanism, SimOptions, SimulatedWorld};
use simulated::run_of_the_simulator;
use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;
use std::sync::Arc;
use std::sync::mpsc::Receiver;
use std::time::Duration;

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
    preemptible: bool,
    /// Every attempt fails after this many seconds of work.
    fails_at: Option<u64>,
    user: usize,
}

/// What somebody does to a job, and when.
#[derive(Clone, Copy, Debug)]
enum Deed {
    Cancel,
    Hold,
    Release,
    Prioritise(i32),
}

type Script = Vec<(u64, u64, Deed)>;

/// For each node, the seconds at which it is lost and at which it comes back.
type Outages = [Option<(u64, u64)>; 2];

/// Everything that happens in a case, apart from what the scheduler decides.
#[derive(Clone, Debug)]
struct Case {
    asks: Vec<Ask>,
    script: Script,
    outages: Outages,
    /// How long a job takes to leave.
    stop_millis: u64,
}

const USERS: [&str; 3] = ["ada", "ben", "cem"];

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

/// Time that jumps from one thing to the next, and a fake executor whose runs slow each other down and end when they have done their work.
struct VirtualPlatform {
    executor: FakeExecutor,
    told: Receiver<Message>,
    requests: RunRequests,
    /// The arrivals that are still to come.
    ahead: BTreeMap<(u64, u64), usize>,
    /// Nodes that are lost or come back, ahead.
    outages: BTreeMap<(u64, usize), bool>,
    /// What is done to jobs, ahead.
    script: BTreeMap<(u64, usize), (u64, Deed)>,
    running: BTreeMap<u64, Process>,
    /// Work that is left of jobs that were stopped and saved what they had done.
    saved: BTreeMap<u64, Span>,
    asks: Vec<Ask>,
    starts: Rc<RefCell<Vec<Start>>>,
    /// The daemon ends whenever it has waited this often.
    restart_every: Option<u64>,
    waits: u64,
    /// Nothing that happens later counts.
    horizon: u64,
    is_over: bool,
    /// Whether preemptible jobs keep their work when they are stopped.
    saves: bool,
    /// The wall clock is set forward: when, and how far.
    clock_jump: Option<(Time, u64)>,
}

struct Process {
    attempt: u32,
    gpus: Vec<u32>,
    left: Span,
    speed: f64,
    since: Time,
    /// With which exit code it ends.
    code: i32,
}

impl Process {
    fn left_at(&self, now: Time) -> Span {
        self.left.minus(now.since(self.since).work_at_speed(self.speed))
    }
}

impl VirtualPlatform {
    /// Jobs that were started since the last time begin to work.
    fn take_starts(&mut self) {
        let devices = self.executor.inventory().into_iter().flat_map(|node| node.devices).collect::<Vec<_>>();
        let index = |uuid: &String| devices.iter().find(|device| device.uuid == *uuid).unwrap().index;
        for start in self.executor.cluster().take_starts() {
            let gpus = start.places.iter().flat_map(|place| &place.uuids).map(index).collect::<Vec<_>>();
            let job = start.run.job;
            self.starts.borrow_mut().push((start.at_ns, job, gpus.clone()));
            let ask = &self.asks[job as usize - 1];
            let whole = Span(ask.runs * SECOND);
            let fails_at = ask.fails_at.filter(|fails_at| *fails_at <= ask.runs);
            let left = self.saved.get(&job).copied().unwrap_or(whole);
            // What is left until it fails.
            let until_failure = fails_at.map(|fails_at| left.minus(whole.minus(Span(fails_at * SECOND))));
            let process = Process {
                attempt: start.run.attempt,
                gpus: gpus.clone(),
                left: until_failure.unwrap_or(left),
                speed: 1.0,
                since: Time(start.at_ns),
                code: i32::from(until_failure.is_some()),
            };
            self.running.insert(job, process);
            self.plan_end(job);
            self.pace(&gpus);
        }
    }

    /// Nodes are lost and restarted, or answer again, at their time.
    fn lose_and_return_nodes(&mut self) {
        let (now, nodes) = (self.now().0, nodes());
        while let Some(entry) = self.outages.first_entry().filter(|entry| entry.key().0 <= now) {
            let name = &nodes[entry.key().1].name;
            if entry.remove() {
                self.executor.cluster().return_node(name);
            } else {
                self.executor.cluster().reboot_node(name);
                self.executor.cluster().lose_node(name);
            }
        }
    }

    fn plan_end(&self, job: u64) {
        let process = &self.running[&job];
        let at = process.since + process.left.at_speed(process.speed);
        self.executor.cluster().end_at(RunKey { job, attempt: process.attempt }, at.0, process.code);
    }

    /// A run ended: by itself, or because it was stopped, in which case it has saved what it did.
    fn end(&mut self, job: u64, outcome: &Outcome) {
        let now = self.now();
        let process = self.running.remove(&job).unwrap();
        let ask = &self.asks[job as usize - 1];
        let exit = match outcome {
            Outcome::Ended(exit) => exit,
            // What it did since it was started went with its node.
            Outcome::Rebooted => return self.pace(&process.gpus),
            _ => panic!("{outcome:?}"),
        };
        if exit.cause == Cause::StopRequested && self.saves {
            let done_until = if process.code == 0 { Span::ZERO } else { Span((ask.runs - ask.fails_at.unwrap()) * SECOND) };
            self.saved.insert(job, process.left_at(now) + done_until);
        } else if process.code != 0 {
            self.saved.remove(&job);
        }
        self.pace(&process.gpus);
    }

    /// What the daemon was told and has not heard is gone with it: the next one finds it out.
    fn forget_messages(&mut self) {
        self.take_starts();
        for message in self.told.try_iter().collect::<Vec<_>>() {
            if let Message::Ended { job, outcome, .. } = message {
                self.end(job, &outcome);
            }
        }
    }

    /// A job came to GPUs or left them: those that share them go on at another speed.
    fn pace(&mut self, gpus: &[u32]) {
        let now = self.now();
        // Jobs share by memory, or two of them are packed on one whole GPU. Speeds together are known for jobs on one GPU.
        let sharers = self.running.iter().filter(|(_, process)| process.gpus.len() == 1);
        let sharers =
            sharers.map(|(job, process)| (*job, self.asks[*job as usize - 1].kind, process.gpus[0])).collect::<Vec<_>>();
        for &(job, kind, gpu) in sharers.iter().filter(|(_, _, gpu)| gpus.contains(gpu)) {
            let others = sharers.iter().filter(|(other, _, there)| *other != job && *there == gpu);
            // They are known on the first four GPUs.
            let speed = others.map(|(_, other, _)| if gpu < 4 { part(kind, *other) } else { 1.0 }).product();
            if let Some(process) = self.running.get_mut(&job) {
                process.left = process.left_at(now);
                (process.speed, process.since) = (speed, now);
            }
            self.plan_end(job);
        }
    }
}

const SECOND: u64 = 1_000_000_000;

impl Platform for VirtualPlatform {
    fn now(&self) -> Time {
        Time(self.executor.cluster().now_ns())
    }

    fn wall_ns(&self) -> i64 {
        let jumped = self.clock_jump.filter(|(at, _)| self.now() >= *at).map_or(0, |(_, nanoseconds)| nanoseconds);
        i64::try_from(self.now().0 + jumped).unwrap()
    }

    fn wait(&mut self, until: Option<Time>) -> Option<Vec<Message>> {
        self.waits += 1;
        if self.restart_every.is_some_and(|every| self.waits.is_multiple_of(every)) {
            return None;
        }
        self.take_starts();
        let arrival = self.ahead.keys().next().map(|key| key.0);
        let deed = self.script.keys().next().map(|key| key.0);
        // An end that was planned before another took its place comes to nothing: then there is nothing to tell yet.
        let outage = self.outages.keys().next().map(|key| key.0);
        let next = self.executor.cluster().next_ns().into_iter().chain(arrival).chain(outage).chain(deed).min();
        let next = next.into_iter().chain(until.map(|until| until.0)).min();
        let Some(next) = next.filter(|next| *next <= self.horizon) else {
            self.is_over = true;
            return None;
        };
        self.executor.cluster().advance(next.max(self.now().0));
        let now = self.now();
        self.lose_and_return_nodes();
        // Ends before arrivals, arrivals before deeds, as in the simulator.
        let mut messages = self.told.try_iter().collect::<Vec<_>>();
        let behind = self.wall_ns().unsigned_abs() - now.0;
        for message in &mut messages {
            // Supervisors have the same wall clock.
            if let Message::Ended { outcome: Outcome::Ended(exit), .. } = message {
                exit.finished_unix_ns += behind;
            }
        }
        messages.sort_by_key(|message| if let Message::Ended { job, .. } = message { *job } else { 0 });
        for message in &messages {
            if let Message::Ended { job, outcome, .. } = message {
                self.end(*job, outcome);
            }
        }
        while let Some(entry) = self.ahead.first_entry().filter(|entry| entry.key().0 <= now.0) {
            let (reply, _) = tokio::sync::oneshot::channel();
            let ask = &self.asks[entry.remove()];
            let submit = Submit { saves_progress: ask.preemptible && self.saves, ..submit(ask) };
            messages.push(Message::Submit(Box::new(submit), caller(ask.user), reply));
        }
        while let Some(entry) = self.script.first_entry().filter(|entry| entry.key().0 <= now.0) {
            let (job, deed) = entry.remove();
            let verb = match deed {
                Deed::Cancel => Verb::Cancel,
                Deed::Hold => Verb::Hold,
                Deed::Release => Verb::Release,
                Deed::Prioritise(priority) => {
                    let (reply, _) = tokio::sync::oneshot::channel();
                    messages.push(Message::Prioritise(job, priority, caller(0), reply));
                    continue;
                }
            };
            let (reply, _) = tokio::sync::oneshot::channel();
            messages.push(Message::Act(verb, vec![job], caller(0), reply));
        }
        Some(messages)
    }

    fn executor(&self) -> &dyn Executor {
        &self.executor
    }

    fn executor_mut(&mut self) -> &mut dyn Executor {
        &mut self.executor
    }

    fn requests(&mut self) -> &mut RunRequests {
        &mut self.requests
    }

    fn watch_holder(&mut self, _: &JobRecord) -> Option<Outcome> {
        None
    }
}

fn caller(user: usize) -> Caller {
    Caller { uid: user as u32 + 1, gid: 1, user: USERS[user].to_owned(), is_admin: true, may_write: true }
}

fn submit(ask: &Ask) -> Submit {
    let plain: Submit = serde_json::from_str(r#"{ "command": ["true"], "cwd": "/" }"#).unwrap();
    Submit {
        gpus: ask.gpus,
        estimate_seconds: Some(ask.says as f64),
        priority: ask.priority,
        memory_mib: ask.memory_mib,
        job_type: Some(KINDS[ask.kind].to_owned()),
        env: Arc::new(vec![(Text::from("A"), Text::from("1"))]),
        preemptible: ask.preemptible,
        saves_progress: ask.preemptible,
        retries: u32::from(ask.fails_at.is_some()),
        retry_delay_seconds: Some(0.0),
        ..plain
    }
}

const GPUS: &str = "a100:4,t4:2";
/// Nothing that happens later is compared.
const HORIZON: u64 = 200 * SECOND;

/// How a run is set up: who decides and when.
#[derive(Clone, Copy, Debug)]
struct Setting<'a> {
    policy: &'a str,
    round: Option<u64>,
}

fn config(setting: Setting<'_>) -> Config {
    let mut config = Config { policy: setting.policy.to_owned(), ..Config::default() };
    config.sharing.buffer_mib = 0;
    config.jobs.restart_seconds = Some(0.0);
    config.jobs.on_reboot = crate::config::OnLoss::Requeue;
    if let Some(round) = setting.round {
        config.mechanism = crate::config::Mechanism::Rounds;
        config.round_seconds = round as f64;
    }
    config
}

/// The first node has two GPUs of the first type; the second one has the rest.
fn nodes() -> Vec<Node> {
    let mut devices = Virtual::new(&parse_virtual(GPUS).unwrap()).list().unwrap();
    let rest = devices.split_off(2);
    [("here", devices), ("there", rest)].map(|(name, devices)| Node { name: name.into(), devices, answers: true }).into()
}

fn machine() -> Machine {
    Machine::new("here", &nodes(), 1)
}

fn daemon(platform: VirtualPlatform, store: Store, setting: Setting<'_>) -> LiveWorld<VirtualPlatform> {
    let world = LiveWorld::new(platform, store, Arc::new(Board::default()), config(setting), machine()).unwrap();
    world.with_throughputs(table())
}

fn platform(case: &Case, restart_every: Option<u64>, starts: &Rc<RefCell<Vec<Start>>>) -> VirtualPlatform {
    let Case { asks, script, outages, stop_millis } = case;
    let arrivals = asks.iter().enumerate().map(|(index, ask)| ((ask.arrival * SECOND, index as u64), index));
    let (sender, told) = std::sync::mpsc::channel();
    let sink = Arc::new(move |event| _ = sender.send(message_of(event)));
    let cluster = FakeCluster::with_nodes(nodes());
    cluster.set_stop_time(Duration::from_millis(*stop_millis));
    VirtualPlatform {
        executor: FakeExecutor::new(&cluster, sink),
        told,
        requests: RunRequests::new("here".into(), &nodes(), "/nowhere".into(), &Config::default()),
        ahead: arrivals.collect(),
        outages: changes_of(outages),
        script: script.iter().enumerate().map(|(place, (at, job, deed))| ((at * SECOND, place), (*job, *deed))).collect(),
        running: BTreeMap::new(),
        saved: BTreeMap::new(),
        asks: asks.clone(),
        starts: Rc::clone(starts),
        restart_every,
        waits: 0,
        horizon: HORIZON,
        is_over: false,
        saves: true,
        clock_jump: None,
    }
}

/// When nodes are lost (`false`) and come back (`true`).
fn changes_of(outages: &Outages) -> BTreeMap<(u64, usize), bool> {
    let lost = outages.iter().enumerate().filter_map(|(node, outage)| Some((node, (*outage)?)));
    lost.flat_map(|(node, (from, until))| [((from * SECOND, node), false), ((until * SECOND, node), true)]).collect()
}

/// The starts of a daemon, which ends and comes back every so often. Every other time it is killed rather than asked to end.
fn starts_of_the_daemon(case: &Case, setting: Setting<'_>, restart_every: Option<u64>) -> Vec<Start> {
    starts_of_a_daemon(case, &|_| setting, restart_every)
}

/// The same, where the setting depends on when the daemon comes back.
fn starts_of_a_daemon<'a>(case: &Case, setting_at: &dyn Fn(Time) -> Setting<'a>, restart_every: Option<u64>) -> Vec<Start> {
    let starts = Rc::new(RefCell::new(Vec::new()));
    let store = Store::in_memory();
    let mut world = daemon(platform(case, restart_every, &starts), store, setting_at(Time::ZERO));
    for lives in 0.. {
        let mut session = world.restore().unwrap();
        // A scheduler that is made anew decides at once; the simulator begins with its first job.
        session.world.pace.wants_decision = false;
        crate::server::run_until_exit(&mut session).unwrap();
        assert_is_folded(&session.world);
        if session.world.platform.is_over {
            break;
        }
        if lives % 2 == 1 {
            crate::queue::restore::save_image(&mut session);
        }
        let LiveWorld { mut platform, journal, .. } = session.world;
        platform.forget_messages();
        let setting = setting_at(platform.now());
        world = daemon(platform, journal.store, setting);
        world.adopt();
        world.pace.awaits_look = false;
    }
    in_order(starts.take())
}

/// Starts of one moment have no order: those that wait for others to leave come a little later in the daemon.
fn in_order(mut starts: Vec<Start>) -> Vec<Start> {
    starts.sort_unstable();
    starts
}

/// The records that the queue keeps are those that the whole journal makes.
fn assert_is_folded(world: &LiveWorld<VirtualPlatform>) {
    let mut folded: BTreeMap<u64, JobRecord> = BTreeMap::new();
    for (_, stamp, event) in world.journal.store.journal_after(0).unwrap() {
        if let Some(id) = event.job() {
            let after = crate::store::journal::fold(folded.get(&id), &event, stamp);
            folded.extend(after.map(|record| (id, record)));
        }
    }
    for (id, record) in &folded {
        let kept = world.records.jobs.get(id).map(|record| (**record).clone());
        // Only for those who look: whether a job that was started runs already.
        let shown = |record: JobRecord| match record.state {
            crate::api::JobState::Running => JobRecord { state: crate::api::JobState::Starting, ..record },
            _ => record,
        };
        match kept {
            Some(kept) => assert_eq!(shown(kept), shown(record.clone())),
            None => assert_eq!(world.journal.store.job(*id).unwrap().as_ref(), Some(record)),
        }
    }
    assert!(world.records.jobs.keys().all(|id| folded.contains_key(id)));
}

fn any_asks() -> impl Strategy<Value = Vec<Ask>> {
    let shares = prop::option::weighted(0.3, (2_u32..12).prop_map(|gib| gib * 1024));
    let numbers = (0_u64..5, 1_u32..=4, 1_u64..20, 1_u64..20, -1_i32..2);
    let fails = prop::option::weighted(0.2, 1_u64..15);
    let ask = (numbers, shares, 0..KINDS.len(), any::<bool>(), 0..USERS.len(), fails);
    prop::collection::vec(ask, 1..16).prop_map(|asks| {
        let mut arrival = 0;
        let mut all = Vec::new();
        for ((gap, gpus, runs, says, priority), memory_mib, kind, preemptible, user, fails_at) in asks {
            arrival += gap;
            // Of those that share, each is on one GPU: their speeds are known so.
            let gpus = if memory_mib.is_some() { 1 } else { gpus };
            all.push(Ask { arrival, gpus, runs, says, priority, memory_mib, kind, preemptible, fails_at, user });
        }
        all
    })
}

fn any_script() -> impl Strategy<Value = Script> {
    let deed = prop_oneof![Just(Deed::Cancel), Just(Deed::Hold), Just(Deed::Release), (-2_i32..3).prop_map(Deed::Prioritise)];
    prop::collection::vec((0_u64..40, 1_u64..16, deed), 0..8)
}

fn any_case() -> impl Strategy<Value = Case> {
    let outage = || prop::option::weighted(0.4, (0_u64..30, 1_u64..20).prop_map(|(from, length)| (from, from + length)));
    (any_asks(), any_script(), [outage(), outage()]).prop_map(|(asks, mut script, outages)| {
        script.retain(|(_, job, _)| *job <= asks.len() as u64);
        Case { asks, script, outages, stop_millis: 0 }
    })
}

/// Both nodes are lost in the same moment, with jobs on each of them and perhaps on both.
fn any_double_loss() -> impl Strategy<Value = Case> {
    let outages = (5_u64..20, 1_u64..15, 1_u64..15)
        .prop_map(|(from, first, second)| [first, second].map(|length| Some((from, from + length))));
    (any_case(), outages).prop_map(|(case, outages)| Case { outages, ..case })
}

/// Every policy, and the mechanisms it can be tried under.
fn settings() -> Vec<(String, Option<u64>)> {
    let short = |name: &str| match name {
        "rr" => "rr:quantum=3".to_owned(),
        "las" => "las:first=5".to_owned(),
        "gittins" => "gittins:first=2".to_owned(),
        "priority" => "priority:preempt=true".to_owned(),
        "lottery" => "lottery:seed=3".to_owned(),
        name => rota_policy::with_param(name, "tick", "5"),
    };
    let registry = rota_policy::Registry::default();
    let mut settings = Vec::new();
    for info in registry.policies() {
        settings.push((short(info.name), None));
        if info.preemptive {
            settings.push((short(info.name), Some(5)));
        }
    }
    settings.extend(["fcfs:backfill=easy", "fcfs:backfill=conservative", "priority"].map(|policy| (policy.to_owned(), None)));
    settings
}

/// Each case runs every policy three times, so that few are drawn unless more are asked for.
fn cases() -> u32 {
    std::env::var("PROPTEST_CASES").ok().and_then(|cases| cases.parse().ok()).unwrap_or(4)
}

/// Under every policy, the daemon starts the same jobs on the same GPUs at the same moments as the simulator, restarted or not.
fn same_starts(case: &Case, every: u64) -> Result<(), TestCaseError> {
    for (policy, round) in settings() {
        let setting = Setting { policy: &policy, round };
        // A live queue has estimates, and no truth beside them.
        let honest = |ask: &Ask| Ask { says: ask.runs, ..ask.clone() };
        let mut case = case.clone();
        if policy.starts_with("lag-srsf") {
            case.asks = case.asks.iter().map(honest).collect();
        }
        let simulated = run_of_the_simulator(&case, setting).starts;
        prop_assert_eq!(&starts_of_the_daemon(&case, setting, None), &simulated, "{:?}", setting);
        let restarted = starts_of_the_daemon(&case, setting, Some(every));
        prop_assert_eq!(&restarted, &simulated, "{:?}, restarted after every {} waits", setting, every);
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { max_shrink_iters: 40, ..ProptestConfig::with_cases(cases()) })]

    #[test]
    fn the_daemon_decides_as_the_simulator_does_restarts_or_not(case in any_case(), every in 2_u64..9) {
        same_starts(&case, every)?;
    }

    #[test]
    fn the_daemon_decides_as_the_simulator_does_when_two_nodes_are_lost_at_once(case in any_double_loss(), every in 2_u64..9) {
        same_starts(&case, every)?;
    }
}

#[test]
fn whoever_asks_first_finds_the_gpus() {
    let setting = Setting { policy: "fcfs", round: None };
    let store = Store::in_memory();
    let nothing = Case { asks: Vec::new(), script: Vec::new(), outages: [None; 2], stop_millis: 0 };
    let session = daemon(platform(&nothing, None, &Rc::default()), store, setting).restore().unwrap();
    assert_eq!(session.world.board.read().gpus.len(), machine().devices.len());
}
