//! Environments taken step by step: the simulator's queue, and many environments in one set of arrays.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use proptest::prelude::*;
use rota_core::random::RandomStream;
use rota_core::{Cluster, Job, Score, Span, ThroughputTable, Time, Workload};
use rota_learn::environment::classroom::Classroom as FastClassroom;
use rota_learn::environment::classroom_compat::ClassroomCompat;
use rota_learn::environment::queue::{self, Cost, JOBS_SEEN, Play, Queue};
use rota_learn::environment::vector::{AtEnd, OUTCOME_NAMES, StepError, Vector};
use rota_learn::environment::{BadChoice, Environment, Outcome, Step};
use rota_learn::simulated::{Episodes, Scenario};
use rota_sim::SimOptions;
use rota_trace::generate::Classroom;

fn scenario() -> Scenario {
    Scenario::classroom(Cluster::from_spec("t4:4", 4).unwrap(), SimOptions::default())
}

const PLAY: Play = Play { cost: Cost::Wait, jobs_seen: JOBS_SEEN, estimates: true, may_wait: true };

fn classroom(cost: Cost) -> Queue {
    Queue::new(scenario(), Episodes::Training, Play { cost, ..PLAY }).unwrap()
}

fn play(environment: &mut dyn Environment, rule: &str, seed: u64) -> (f64, Outcome, u64) {
    let number = environment.rules().iter().position(|known| *known == rule).unwrap();
    let mut stream = RandomStream::new(seed, "rule");
    environment.reset(seed);
    let (mut sum, mut steps) = (0.0, 0);
    loop {
        let step = environment.step(environment.choice_of(number, &mut stream)).unwrap();
        sum += step.reward;
        steps += 1;
        if step.done {
            return (sum, environment.outcome(), steps);
        }
    }
}

#[test]
fn a_rule_played_step_by_step_gives_what_the_policy_gives() {
    let mut environment = classroom(Cost::Wait);
    for seed in 0..20 {
        for (rule, policy) in [("fcfs", "fcfs:backfill=greedy"), ("sjf", "sjf:backfill=greedy")] {
            let (_, stepped, _) = play(&mut environment, rule, seed);
            let whole = scenario().play_policy(policy, seed, Episodes::Training).unwrap();
            assert!((stepped.wait_mean_s - whole.wait_mean_s).abs() < 1e-9, "{rule} {seed}: {stepped:?} {whole:?}");
            assert_eq!((stepped.makespan_s, stepped.lost), (whole.makespan_s, 0), "{rule} {seed}");
        }
    }
}

#[test]
fn rewards_add_up_to_the_figure_and_every_task_is_started_once() {
    for (cost, figure) in [
        (Cost::Wait, (|outcome| outcome.wait_mean_s) as fn(&Outcome) -> f64),
        (Cost::Jct, |outcome| outcome.jct_mean_s),
        (Cost::Makespan, |outcome| outcome.makespan_s),
        (Cost::Energy, |outcome| outcome.energy_kwh.unwrap() * 1000.0),
        (Cost::Bsld, |outcome| outcome.bsld_mean),
    ] {
        let mut environment = classroom(cost);
        for seed in 0..5 {
            let (sum, outcome, steps) = play(&mut environment, "random", seed);
            assert!((sum + figure(&outcome)).abs() < 1e-6, "{cost:?} {seed}: {sum} {outcome:?}");
            let jobs = rota_trace::generate::classroom(&Classroom::default(), seed).jobs.len() as u64;
            assert!(steps >= jobs, "{steps} steps for {jobs} jobs");
            assert_eq!(outcome.lost, 0);
        }
    }
}

#[test]
fn a_row_is_legal_only_if_the_job_starts_and_an_illegal_choice_changes_nothing() {
    let mut workload = Workload::new("gangs");
    for gpus in [2, 3, 1] {
        workload.push(Job { gpus, ..Job::new(Time::ZERO, Span::from_whole_seconds(60)) });
    }
    workload.finish();
    let cluster = Cluster::from_spec("gpu:3", 3).unwrap();
    let scenario = Scenario::trace(workload, ThroughputTable::default(), 3, cluster, SimOptions::default());
    let mut environment = Queue::new(scenario, Episodes::Judging, Play { cost: Cost::Makespan, jobs_seen: 8, ..PLAY }).unwrap();
    // Nothing runs and nothing is to come: waiting would last for ever.
    assert_eq!(environment.view().legal, [false, true, true, true]);
    let rows = environment.view().rows.to_vec();
    for choice in [0, 4, usize::MAX] {
        assert_eq!(environment.step(choice), Err(BadChoice { choice, rows: 4 }));
    }
    assert_eq!(environment.view().rows, rows);
    assert_eq!(environment.step(1), Ok(Step { reward: 0.0, done: false }));
    // The gang of three does not fit beside the gang of two.
    assert_eq!(environment.view().legal, [true, false, true]);
    assert_eq!(environment.step(2), Ok(Step { reward: -60.0, done: false }));
    assert_eq!(environment.step(1), Ok(Step { reward: -60.0, done: true }));
    assert!((environment.outcome().makespan_s - 120.0).abs() < 1e-9);
}

#[test]
fn a_trace_with_a_job_that_fits_nowhere_is_refused() {
    let mut workload = Workload::new("wide");
    workload.push(Job { gpus: 9, ..Job::new(Time::ZERO, Span::from_whole_seconds(60)) });
    workload.finish();
    let cluster = Cluster::from_spec("gpu:3", 3).unwrap();
    let scenario = Scenario::trace(workload, ThroughputTable::default(), 1, cluster, SimOptions::default());
    let error = Queue::new(scenario, Episodes::Training, Play { jobs_seen: 8, ..PLAY }).err().unwrap();
    assert!(error.to_string().contains("a gang of 9 does not fit"), "{error}");
}

fn three(at_end: AtEnd) -> Vector {
    let environments = (0..3).map(|_| Box::new(ClassroomCompat::new(2)) as Box<dyn Environment>);
    Vector::new(environments.collect(), 2, at_end, 5)
}

#[test]
fn the_arrays_say_what_the_environments_say_and_never_move() {
    let mut vector = three(AtEnd::BeginNext);
    let place = vector.observations.as_ptr();
    let mut alone = ClassroomCompat::new(2);
    alone.reset(6);
    let (mut sum, mut episodes) = (0.0, 0);
    for step in 0..300 {
        let choice = step % 2;
        vector.step(&[0, choice, 1]).unwrap();
        let told = alone.step(choice as usize).unwrap();
        sum += told.reward;
        assert_eq!((vector.rewards[1], vector.terminated[1]), (told.reward as f32, u8::from(told.done)));
        let size = 2 * vector.features().len();
        if told.done {
            assert_eq!(&vector.last_observations[size..2 * size], alone.view().rows);
            assert!((vector.outcomes[OUTCOME_NAMES.len()] - sum).abs() < 1e-9);
            episodes += 1;
            // The seeds go round: 5, 6, 7, then 8, 9, 10.
            alone.reset(6 + 3 * episodes);
            sum = 0.0;
        }
        assert_eq!(&vector.observations[size..2 * size], alone.view().rows);
    }
    assert!(episodes >= 3);
    assert_eq!(vector.observations.as_ptr(), place);
}

#[test]
fn bad_actions_are_told_and_change_nothing() {
    let mut vector = three(AtEnd::Stand);
    let before = vector.observations.clone();
    assert_eq!(vector.step(&[0, 1]), Err(StepError::Count { given: 2, environments: 3 }));
    for choice in [-1, 2, i64::MAX] {
        assert_eq!(vector.step(&[0, 1, choice]), Err(StepError::Choice { environment: 2, choice }));
    }
    assert_eq!(vector.observations, before);
    let mut steps = 0;
    while vector.terminated.iter().all(|ended| *ended == 0) {
        vector.step(&[0, 1, 0]).unwrap();
        steps += 1;
        assert!(steps < 1000);
    }
    let ended = vector.terminated.iter().position(|ended| *ended == 1).unwrap();
    assert_eq!(vector.step(&[0, 1, 0]), Err(StepError::Over { environment: ended }));
}

fn near(one: f64, other: f64) -> bool {
    (one - other).abs() <= 1e-6 * one.abs().max(1.0)
}

fn assert_same_view(fast: &dyn Environment, slow: &dyn Environment, about: &str) {
    let (fast, slow) = (fast.view(), slow.view());
    assert_eq!(fast.legal, slow.legal, "{about}");
    assert_eq!(fast.rows.len(), slow.rows.len(), "{about}");
    for (place, (fast, slow)) in fast.rows.iter().zip(slow.rows).enumerate() {
        assert!((fast - slow).abs() <= 2e-6, "{about}, number {place}: {fast} {slow}");
    }
}

fn same_outcome(fast: &Outcome, slow: &Outcome) -> bool {
    let figures = |outcome: &Outcome| {
        [
            outcome.reward,
            outcome.wait_mean_s,
            outcome.makespan_s,
            outcome.bsld_mean,
            outcome.jct_mean_s,
            outcome.energy_kwh.unwrap(),
        ]
    };
    figures(fast).into_iter().zip(figures(slow)).all(|(fast, slow)| near(fast, slow)) && fast.lost == slow.lost
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]

    /// Whatever is chosen, the fast classroom shows and gives what the simulator shows and gives.
    #[test]
    fn the_fast_classroom_is_the_simulators(
        seed in any::<u64>(), gpus in 1_u32..=8, cost in 0_usize..5, may_wait in any::<bool>(), best_fit in any::<bool>(), kind in 0_usize..3,
    ) {
        let cost = Cost::WORDS[cost].parse::<Cost>().unwrap();
        let score = if best_fit { Score::BestFit } else { Score::Consolidate };
        let options = SimOptions { score, ..SimOptions::default() };
        // The memory of these differs: 24, 16 and 16 GiB, and so does their power.
        let cluster = Cluster::from_spec(&format!("{}:{gpus}", ["gpu", "t4", "v100"][kind]), 8).unwrap();
        let fast = FastClassroom::new(&Classroom::default(), &cluster, &options, cost, may_wait);
        prop_assume!(fast.is_some());
        let mut fast = fast.unwrap();
        let scenario = Scenario::classroom(cluster, options);
        let mut slow = Queue::new(scenario, Episodes::Training, Play { cost, may_wait, ..PLAY }).unwrap();
        prop_assert_eq!(fast.features(), slow.features());
        let mut stream = RandomStream::new(seed, "choices");
        fast.reset(seed);
        slow.reset(seed);
        for number in 0.. {
            assert_same_view(&fast, &slow, &format!("before step {number}"));
            let rule = stream.below(3) as usize;
            let mut same = stream.clone();
            let choice = fast.choice_of(rule, &mut stream);
            prop_assert_eq!(choice, slow.choice_of(rule, &mut same));
            let (ours, theirs) = (fast.step(choice).unwrap(), slow.step(choice).unwrap());
            prop_assert!(near(ours.reward, theirs.reward), "step {}: {:?} {:?}", number, ours, theirs);
            prop_assert_eq!(ours.done, theirs.done);
            if ours.done {
                break;
            }
        }
        assert_same_view(&fast, &slow, "at the end");
        prop_assert!(same_outcome(&fast.outcome(), &slow.outcome()), "{:?} {:?}", fast.outcome(), slow.outcome());
    }
}

/// Jobs of whole GPUs, some with estimates, some at the same moment, from a few users.
fn gangs(seed: u64, jobs: usize, gpus: u32) -> Workload {
    let mut stream = RandomStream::new(seed, "gangs");
    let mut workload = Workload::new("gangs");
    let users = ["ada", "ben", "cyd"].map(|user| workload.names.intern(user));
    let mut arrival = 0;
    for _ in 0..jobs {
        arrival += stream.below(3) * stream.below(60) * 1_000_000_000;
        workload.push(Job {
            gpus: stream.between(1, u64::from(gpus)) as u32,
            user: users[stream.below(3) as usize],
            priority: stream.below(5) as i32,
            memory_mib: stream.below(12_000) as u32,
            estimate: (stream.below(2) == 0).then(|| Span::from_whole_seconds(stream.between(1, 900))),
            ..Job::new(Time(arrival), Span::from_whole_seconds(stream.between(1, 900)))
        });
    }
    workload.finish();
    workload
}

/// Features that the fast environment is told of less often.
fn is_told_late(name: &str) -> bool {
    rota_learn::features::FROM_HISTORY.contains(&name) || name == "log_user_recent"
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 32, ..ProptestConfig::default() })]

    /// Whatever is chosen, the fast queue of whole GPUs shows and gives what the simulator shows and gives, in every episode.
    #[test]
    fn the_fast_queue_of_whole_gpus_is_the_simulators(
        seed in any::<u64>(), gpus in 1_u32..=9, cost in 0_usize..5, may_wait in any::<bool>(), estimates in any::<bool>(), jobs_seen in 1_usize..20,
    ) {
        let cost = Cost::WORDS[cost].parse::<Cost>().unwrap();
        let play = Play { cost, jobs_seen, estimates, may_wait };
        let cluster = Cluster::from_spec(&format!("v100:{gpus}"), 4).unwrap();
        let scenario = Scenario::trace(gangs(seed, 90, gpus), ThroughputTable::default(), 60, cluster, SimOptions::default());
        let mut fast = queue::environment(&scenario, Episodes::Training, play).unwrap();
        let mut slow = Queue::new(scenario, Episodes::Training, play).unwrap();
        let mut stream = RandomStream::new(seed, "choices");
        for episode in [seed, seed ^ 1] {
            fast.reset(episode);
            slow.reset(episode);
            for number in 0.. {
                let (ours, theirs) = (fast.view(), slow.view());
                prop_assert_eq!(ours.legal, theirs.legal, "before step {}", number);
                prop_assert_eq!(ours.rows.len(), theirs.rows.len());
                for (place, (ours, theirs)) in ours.rows.iter().zip(theirs.rows).enumerate() {
                    let name = rota_learn::features::NAMES[place % rota_learn::features::COUNT];
                    let near = (ours - theirs).abs() < 1e-6;
                    prop_assert!(near || is_told_late(name), "before step {}, {}: {} {}", number, name, ours, theirs);
                }
                let rule = stream.below(3) as usize;
                let mut same = stream.clone();
                let choice = fast.choice_of(rule, &mut stream);
                prop_assert_eq!(choice, slow.choice_of(rule, &mut same));
                let (ours, theirs) = (fast.step(choice).unwrap(), slow.step(choice).unwrap());
                prop_assert!(near(ours.reward, theirs.reward), "step {}: {:?} {:?}", number, ours, theirs);
                prop_assert_eq!(ours.done, theirs.done);
                if ours.done {
                    break;
                }
            }
            prop_assert!(same_outcome(&fast.outcome(), &slow.outcome()), "{:?} {:?}", fast.outcome(), slow.outcome());
        }
    }
}

/// What earlier jobs taught is told late, and comes to much the same.
#[test]
fn the_fast_queue_is_told_of_run_times_nearly_what_the_policy_is_told() {
    let cluster = Cluster::from_spec("v100:8", 4).unwrap();
    let play = Play { cost: Cost::Jct, jobs_seen: 32, estimates: true, may_wait: false };
    let scenario = Scenario::trace(gangs(3, 600, 8), ThroughputTable::default(), 600, cluster, SimOptions::default());
    let mut fast = queue::environment(&scenario, Episodes::Judging, play).unwrap();
    let mut slow = Queue::new(scenario, Episodes::Judging, play).unwrap();
    let mut stream = RandomStream::new(3, "choices");
    let (mut sum, mut count) = (0.0, 0);
    loop {
        for (place, (ours, theirs)) in fast.view().rows.iter().zip(slow.view().rows).enumerate() {
            if is_told_late(rota_learn::features::NAMES[place % rota_learn::features::COUNT]) && *theirs != 0.0 {
                sum += f64::from((ours - theirs).abs());
                count += 1;
            }
        }
        let choice = fast.choice_of(0, &mut stream);
        slow.step(choice).unwrap();
        if fast.step(choice).unwrap().done {
            break;
        }
    }
    // A tenth is a factor of e in seconds.
    assert!(count > 10_000 && sum / f64::from(count) < 0.03, "{} over {count}", sum / f64::from(count));
}

#[test]
fn a_trace_is_played_by_the_simulator_where_the_fast_queue_cannot() {
    let played = |change: fn(&mut Job)| {
        let mut workload = gangs(1, 40, 4);
        change(&mut workload.jobs[7]);
        workload.finish();
        let cluster = Cluster::from_spec("v100:8", 4).unwrap();
        let scenario = Scenario::trace(workload, ThroughputTable::default(), 40, cluster, SimOptions::default());
        let mut environment = queue::environment(&scenario, Episodes::Judging, PLAY).unwrap();
        let mut simulated = Queue::new(scenario, Episodes::Judging, PLAY).unwrap();
        let (_, ours, _) = play(&mut *environment, "fcfs", 0);
        let (_, theirs, _) = play(&mut simulated, "fcfs", 0);
        assert!(same_outcome(&ours, &theirs), "{ours:?} {theirs:?}");
    };
    played(|job| (job.gpus, job.share) = (1, rota_core::MilliGpu(400)));
    played(|job| job.fails_at = Some(Span::from_whole_seconds(1)));
    played(|job| (job.gpus, job.nodes_max) = (4, 1));
}

#[test]
fn a_classroom_is_played_by_the_fast_environment_where_it_can_be() {
    let of = |spec: &str, per_node, options| {
        let cluster = Cluster::from_spec(spec, per_node).unwrap();
        FastClassroom::new(&Classroom::default(), &cluster, &options, Cost::Wait, true).is_some()
    };
    let usual = SimOptions::default();
    assert!(of("gpu:4", 8, usual));
    assert!(!of("gpu:4", 2, usual), "two nodes");
    assert!(!of("gpu:2,t4:2", 8, usual), "two types");
    assert!(!of("gpu:4", 8, SimOptions { score: Score::Random, ..usual }), "another placement");
    let played = queue::environment(&scenario(), Episodes::Training, PLAY).unwrap();
    assert_eq!(played.features(), rota_learn::environment::classroom::FEATURES);
}
