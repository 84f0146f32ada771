//! The policy in the simulator, with models made by hand.

use super::*;
use crate::model::{Header, Use, VERSION};
use rota_core::bind::BadJobs;
use rota_core::random::RandomStream;
use rota_core::{Bound, Cluster, Job, Span, ThroughputTable, Time, Workload};
use rota_nn::{Activation, Network};
use rota_policy::Configured;
use rota_sim::SimOptions;

/// A linear score with these weights.
fn model(weights: &[(&str, f32)]) -> Arc<Model> {
    let mut network = Network::zero(&[features::COUNT, 1], Activation::Relu).unwrap();
    for (name, weight) in weights {
        let place = features::NAMES.iter().position(|known| known == name).unwrap();
        network.parameters_mut()[place] = *weight;
    }
    let header = Header {
        version: VERSION,
        environment: "by hand".to_owned(),
        objective: "wait".to_owned(),
        algorithm: "none".to_owned(),
        seed: 0,
        steps: 0,
        used: Use { pass: true, estimates: true, ..Use::default() },
        features: features::NAMES.map(str::to_owned).to_vec(),
        // What has no weight was never looked at.
        low: features::NAMES.map(|name| if weights.iter().any(|(used, _)| *used == name) { 0.0 } else { -1e6 }).to_vec(),
        high: features::NAMES.map(|name| if weights.iter().any(|(used, _)| *used == name) { 1.0 } else { 1e6 }).to_vec(),
        activation: Activation::Relu,
        power_limits: std::collections::BTreeMap::new(),
    };
    Arc::new(Model { header, network })
}

/// Jobs on four GPUs that have a little more to do than they can.
fn workload(jobs: u64) -> Arc<Bound> {
    let mut stream = RandomStream::new(5, "jobs");
    let mut workload = Workload::new("test");
    let mut now = 0;
    for _ in 0..jobs {
        now += stream.below(40);
        let seconds = 1 + (stream.exponential(60.0) as u64).min(600);
        let gpus = [1, 1, 1, 2][stream.below(4) as usize];
        workload.push(Job { gpus, ..Job::new(Time(now * 1_000_000_000), Span::from_whole_seconds(seconds)) });
    }
    workload.finish();
    let cluster = Cluster::from_spec("t4:4", 4).unwrap();
    Arc::new(Bound::new(workload, cluster, &ThroughputTable::default(), BadJobs::Refuse).unwrap())
}

fn guarded(model: Arc<Model>, guard: &str) -> Configured {
    let mut learned = Learned::new(model);
    learned.guard = Some(Guard::new(rota_policy::build(guard).unwrap()));
    Configured { spec: "learned".to_owned(), policy: Box::new(learned), durations: Durations::Known }
}

fn alone(model: Arc<Model>) -> Configured {
    Configured { spec: "learned".to_owned(), policy: Box::new(Learned::new(model)), durations: Durations::Known }
}

/// Mean completion time, and everything the policy had to say.
fn run(bound: &Arc<Bound>, policy: Configured) -> (f64, Vec<String>) {
    let outcome = crate::simulated::run(bound, policy.clone(), &SimOptions::default());
    let mut session = rota_sim::session(bound, policy, &SimOptions::default());
    let mut problems = Vec::new();
    while session.advance(&mut |_| {}).is_some() {
        let target = session.ask();
        session.hand_in(&target, &mut |_| {});
        problems.extend(session.engine.take_problems());
    }
    (outcome.jct_mean_s, problems)
}

#[test]
fn a_model_that_likes_short_jobs_is_shortest_job_first() {
    let bound = workload(400);
    let (learned, problems) = run(&bound, alone(model(&[("log_estimate", -1.0)])));
    let (sjf, _) = run(&bound, rota_policy::build("sjf:backfill=greedy").unwrap());
    let (fcfs, _) = run(&bound, rota_policy::build("fcfs").unwrap());
    assert!((learned - sjf).abs() < 0.02 * sjf && learned < 0.7 * fcfs, "{learned} against {sjf} and {fcfs}");
    assert!(problems.is_empty(), "{problems:?}");
}

#[test]
fn a_negated_model_under_guard_costs_little() {
    let bound = workload(600);
    let negated = model(&[("log_estimate", 1.0)]);
    let (unguarded, _) = run(&bound, alone(Arc::clone(&negated)));
    let (guarded, _) = run(&bound, guarded(negated, "sjf"));
    let (guard, _) = run(&bound, rota_policy::build("sjf").unwrap());
    assert!(unguarded > 1.5 * guard, "{unguarded} against {guard}: the test needs a harmful model");
    assert!(guarded <= 1.1 * guard, "{guarded} against {guard}");
}

#[test]
fn a_good_model_earns_trust_and_says_so() {
    let bound = workload(600);
    let (jct, problems) = run(&bound, guarded(model(&[("log_estimate", -1.0)]), "fcfs"));
    let (guard, _) = run(&bound, rota_policy::build("fcfs").unwrap());
    assert!(jct < 0.9 * guard, "{jct} against {guard}");
    assert!(problems.iter().any(|problem| problem.starts_with("learned: the model decides from now on")), "{problems:?}");
}

#[test]
fn scores_that_are_no_numbers_hand_the_decision_over() {
    let bound = workload(200);
    let broken = model(&[("has_estimate", 3e38), ("share", 3e38)]);
    let (jct, problems) = run(&bound, alone(Arc::clone(&broken)));
    let (fcfs, _) = run(&bound, rota_policy::build("fcfs:backfill=greedy").unwrap());
    assert!((jct - fcfs).abs() < 1e-9, "{jct} against {fcfs}");
    assert!(problems.iter().any(|problem| problem.contains("no number")), "{problems:?}");
    let (jct, _) = run(&bound, guarded(broken, "sjf"));
    let (sjf, _) = run(&bound, rota_policy::build("sjf").unwrap());
    assert!((jct - sjf).abs() < 1e-9, "{jct} against {sjf}");
}

#[test]
fn a_slow_model_hands_the_decision_over() {
    thread_local!(static SPENT: std::cell::Cell<u64> = const { std::cell::Cell::new(0) });
    /// Every look at this clock finds twelve milliseconds gone.
    fn slow_clock() -> Duration {
        SPENT.with(|spent| spent.set(spent.get() + 12));
        SPENT.with(|spent| Duration::from_millis(spent.get()))
    }
    let bound = workload(600);
    let mut learned = Learned::new(model(&[("log_estimate", -1.0)]));
    learned.guard = Some(Guard::new(rota_policy::build("fcfs").unwrap()));
    learned.clock = slow_clock;
    let (jct, problems) =
        run(&bound, Configured { spec: "learned".to_owned(), policy: Box::new(learned), durations: Durations::Known });
    let (guard, _) = run(&bound, rota_policy::build("fcfs").unwrap());
    assert!((jct - guard).abs() < 0.01 * guard, "{jct} against {guard}");
    assert!(problems.iter().any(|problem| problem.contains("took 12 ms; it may take 10")), "{problems:?}");
}

#[test]
fn a_job_that_waits_beyond_the_limit_hands_the_decision_over() {
    let bound = workload(600);
    let mut policy = guarded(model(&[("log_estimate", -1.0)]), "fcfs");
    let mut learned = Learned::new(model(&[("log_estimate", -1.0)]));
    learned.guard = Some(Guard::new(rota_policy::build("fcfs").unwrap()));
    learned.patience_seconds = 120.0;
    policy.policy = Box::new(learned);
    let (_, problems) = run(&bound, policy);
    assert!(problems.iter().any(|problem| problem.contains("which is beyond the limit")), "{problems:?}");
}

#[test]
fn inputs_outside_the_training_ranges_are_told() {
    let mut narrow = Arc::unwrap_or_clone(model(&[("log_estimate", -1.0)]));
    narrow.header.high.fill(0.01);
    narrow.header.low.fill(0.0);
    let (_, problems) = run(&workload(400), alone(Arc::new(narrow)));
    assert!(problems.iter().any(|problem| problem.contains("far outside what the model was trained on")), "{problems:?}");
}

#[test]
fn what_it_remembers_is_written_down_and_taken_up() {
    let bound = workload(300);
    let fresh = || guarded(model(&[("log_estimate", -1.0)]), "fcfs");
    let mut session = rota_sim::session(&bound, fresh(), &SimOptions::default());
    let mut policy = fresh().policy;
    for _ in 0..250 {
        session.advance(&mut |_| {});
        let snapshot = session.snapshot().unwrap();
        let mut context = Context { stream: RandomStream::new(0, "policy"), problems: Vec::new() };
        let target = policy.decide(&snapshot, &mut context);
        session.hand_in(&target, &mut |_| {});
    }
    let mut restored = fresh().policy;
    restored.load(&policy.save()).unwrap();
    assert_eq!(restored.save(), policy.save());
    assert!(restored.load(&[1, 2, 3]).is_err());
}

#[test]
fn mistakes_are_answered_with_what_would_be_right() {
    let message = |spec: &str| registry().build(spec).map(|_| ()).unwrap_err().to_string();
    assert!(message("learned").contains("must be a model file, as `rota learn train` writes it"));
    assert!(message("learned:model=/nowhere").contains("/nowhere: "));
    assert!(message("learned:weights=1").contains("it knows `model`, `guard`, `patience`, `estimates`"));
    assert!(message("learned:model=x,estimates=perhaps").contains("user or history"));
}
