//! The vectors of the teaching project: single-GPU semantics that must hold to the second, and GPUs that really overlap.

use crate::scene::{Outcome, job, run, run_with, scene, seconds, textbook_metrics};
use rota_core::{Bound, Job};
use rota_sim::{Mechanism, SimOptions};
use std::sync::Arc;

/// (arrival, duration) pairs on one GPU.
fn processes(pairs: &[(f64, f64)]) -> Arc<Bound> {
    scene("gpu:1", pairs.iter().map(|&(arrival, duration)| job(arrival, duration)))
}

/// The finish of the process that stands at each position of the original list (jobs are renumbered by arrival).
fn finishes_as_listed(pairs: &[(f64, f64)], outcome: &Outcome) -> Vec<f64> {
    let mut order = (0..pairs.len()).collect::<Vec<_>>();
    order.sort_by(|a, b| pairs[*a].0.total_cmp(&pairs[*b].0));
    let mut finishes = vec![0.0; pairs.len()];
    for (position, listed) in order.into_iter().enumerate() {
        finishes[listed] = outcome.finishes()[position];
    }
    finishes
}

#[test]
fn round_robin_on_one_gpu() {
    let pairs = [(0.0, 11.0), (0.0, 5.0), (0.0, 8.0)];
    assert_eq!(run(&processes(&pairs), "rr:quantum=3").finishes(), [24.0, 14.0, 22.0]);
    assert_eq!(run(&processes(&pairs), "rr:quantum=4").finishes(), [24.0, 17.0, 21.0]);
}

#[test]
fn shortest_job_first_with_arrivals() {
    let pairs = [(2.0, 6.0), (0.0, 8.0), (1.0, 7.0), (3.0, 3.0)];
    let bound = processes(&pairs);
    let outcome = run(&bound, "sjf");
    assert_eq!(finishes_as_listed(&pairs, &outcome), [17.0, 8.0, 24.0, 11.0]);
    let (wait, turnaround, _) = textbook_metrics(&bound, &outcome);
    assert_eq!((wait, turnaround), (7.5, 13.5));
}

const FIRST_SEEDED: [(f64, f64); 10] =
    [(6.0, 4.0), (7.0, 5.0), (6.0, 3.0), (6.0, 8.0), (4.0, 4.0), (7.0, 8.0), (2.0, 6.0), (4.0, 2.0), (7.0, 6.0), (1.0, 5.0)];
const SECOND_SEEDED: [(f64, f64); 10] =
    [(6.0, 4.0), (14.0, 8.0), (6.0, 3.0), (10.0, 8.0), (3.0, 8.0), (2.0, 6.0), (1.0, 8.0), (11.0, 6.0), (1.0, 5.0), (0.0, 6.0)];

fn assert_metrics(pairs: &[(f64, f64)], policy: &str, expected: (f64, f64, f64)) {
    let bound = processes(pairs);
    let (wait, turnaround, throughput) = textbook_metrics(&bound, &run(&bound, policy));
    assert!((wait - expected.0).abs() < 1e-9, "{policy}: wait {wait}");
    assert!((turnaround - expected.1).abs() < 1e-9, "{policy}: turnaround {turnaround}");
    assert!((throughput - expected.2).abs() < 5e-4, "{policy}: throughput {throughput}");
}

#[test]
fn seeded_comparisons() {
    assert_metrics(&FIRST_SEEDED, "sjf", (14.40, 19.50, 0.192));
    assert_metrics(&SECOND_SEEDED, "sjf", (18.40, 24.60, 0.161));
    assert_metrics(&SECOND_SEEDED, "rr:quantum=3", (30.60, 36.80, 0.161));
    let outcome = run(&processes(&SECOND_SEEDED), "rr:quantum=3");
    assert_eq!(finishes_as_listed(&SECOND_SEEDED, &outcome), [45.0, 62.0, 24.0, 60.0, 58.0, 38.0, 47.0, 53.0, 29.0, 6.0]);
}

/// `MatMul`, DL, `XGBoost`, LSTM with the weights, tickets and estimates of the experiments.
fn four_jobs() -> [Job; 4] {
    let four = [(7.24, 3.0, 3.0, 5), (80.83, 5.0, 50.0, 10), (2.77, 7.0, 2.0, 7), (34.18, 2.0, 30.0, 15)];
    four.map(|(duration, weight, estimate, tickets)| Job {
        weight,
        tickets,
        estimate: Some(seconds(estimate)),
        ..job(0.0, duration)
    })
}

#[test]
fn weighted_fair_queueing_orders_by_finish_tag() {
    // Finish tags estimate/weight: MatMul 1.0, DL 10.0, XGBoost 0.286, LSTM 15.0.
    assert_eq!(run(&scene("gpu:1", four_jobs()), "wfq").start_order(), [2, 0, 1, 3]);
}

#[test]
fn weighted_fair_queueing_over_arrivals_moves_virtual_time() {
    // While the first job runs (tags 0 to 10), V = 0: a job that arrives with tag 4 passes one with tag 5 that was there before.
    // After the first ends V = 10, so a job of length 1 that arrives then gets tag 11 and waits behind both.
    let bound = scene("gpu:1", [job(0.0, 10.0), job(1.0, 5.0), job(2.0, 4.0), job(10.5, 1.0)]);
    assert_eq!(run(&bound, "wfq").start_order(), [0, 2, 1, 3]);
}

#[test]
fn the_four_jobs_overlap_on_three_gpus() {
    let outcome = run(&scene("gpu:3", four_jobs()), "fcfs");
    assert_eq!(outcome.makespan(), 80.83);
    assert_eq!(run(&scene("gpu:1", four_jobs()), "fcfs").makespan(), 125.02);
}

#[test]
fn lottery_draws_in_proportion_to_tickets() {
    let draws = 4000;
    let mut first = [0_u32; 4];
    let mut second_after_lstm = [0_u32; 4];
    for seed in 0..draws {
        let order = run(&scene("gpu:1", four_jobs()), &format!("lottery:seed={seed}")).start_order();
        first[order[0]] += 1;
        if order[0] == 3 {
            second_after_lstm[order[1]] += 1;
        }
    }
    let within = |count: u32, draws: u32, chance: f64| {
        let expected = f64::from(draws) * chance;
        let deviation = (expected * (1.0 - chance)).sqrt();
        assert!((f64::from(count) - expected).abs() < 4.0 * deviation, "{count} of {draws}, chance {chance}");
    };
    for (position, tickets) in [5.0, 10.0, 7.0, 15.0].into_iter().enumerate() {
        within(first[position], draws, tickets / 37.0);
    }
    // Without replacement: what is left shares the remaining 22 tickets.
    for (position, tickets) in [5.0, 10.0, 7.0].into_iter().enumerate() {
        within(second_after_lstm[position], first[3], tickets / 22.0);
    }
}

#[test]
fn lottery_with_rounds_shares_time_in_proportion_to_tickets() {
    // Two endless jobs with 1 and 3 tickets on one GPU: the second gets three quarters of the rounds.
    let bound = scene("gpu:1", [job(0.0, 1000.0), Job { tickets: 3, ..job(0.0, 3000.0) }]);
    let options = SimOptions { mechanism: Mechanism::Rounds { length: seconds(1.0) }, seed: 5, ..SimOptions::default() };
    let outcome = run_with(&bound, "lottery", &options);
    // Both need the same number of rounds per ticket, so they end at about the same time, and never was a GPU idle.
    assert_eq!(outcome.makespan(), 4000.0);
    assert!(outcome.finishes().iter().all(|finish| *finish > 3700.0), "{:?}", outcome.finishes());
}

#[test]
fn least_loaded_reaches_the_makespan_of_the_original() {
    // 2,000 draws of 10 tasks of 5 to 15 s on 4 GPUs: mean makespan 29.6 (lower bound 25.0).
    let mut stream = rota_core::random::RandomStream::new(42, "least loaded");
    let mut sum = 0.0;
    for _ in 0..2000 {
        let tasks = (0..10).map(|_| job(0.0, stream.between(5, 15) as f64)).collect::<Vec<_>>();
        sum += run(&scene("gpu:4", tasks), "least-loaded").makespan();
    }
    let mean = sum / 2000.0;
    assert!((mean - 29.6).abs() < 0.25, "{mean}");
}

#[test]
fn shortest_remaining_time_preempts_and_charges_the_restart() {
    let bound = scene("gpu:1", [job(0.0, 10.0), job(2.0, 3.0), job(4.0, 7.0)]);
    assert_eq!(run(&bound, "srtf").finishes(), [20.0, 5.0, 12.0]);
    let options = SimOptions {
        restart: rota_sim::Restart { cost: seconds(1.0), checkpoint: None, ..rota_sim::Restart::default() },
        ..SimOptions::default()
    };
    let outcome = run_with(&bound, "srtf", &options);
    assert_eq!(outcome.makespan(), 21.0, "one job is resumed once, and that costs a second");
}

#[test]
fn priority_goes_first_and_ages() {
    let urgent = |arrival, priority| Job { priority, ..job(arrival, 10.0) };
    let bound = scene("gpu:1", [urgent(0.0, 0), urgent(1.0, 0), urgent(2.0, 5)]);
    assert_eq!(run(&bound, "priority").start_order(), [0, 2, 1]);
    // With a step of priority per 0.1 s waited, a second earlier is worth ten steps.
    assert_eq!(run(&bound, "priority:age=0.1").start_order(), [0, 1, 2]);
    let outcome = run(&bound, "priority:preempt=true");
    assert_eq!(outcome.finishes(), [20.0, 30.0, 12.0]);
}

#[test]
fn least_attained_service_lets_short_jobs_pass_long_ones() {
    // The long job leaves the first queue after 10 GPU seconds; the short one, which arrives later, takes its place.
    let bound = scene("gpu:1", [job(0.0, 100.0), job(20.0, 5.0), job(21.0, 8.0)]);
    let outcome = run(&bound, "las:first=10,queues=2,promote=0");
    assert_eq!(outcome.finishes(), [113.0, 25.0, 33.0]);
}

#[test]
fn least_attained_service_promotes_the_starved() {
    // A stream of short jobs keeps the long one off its GPU until it has waited twice as long as it ran.
    let jobs = std::iter::once(job(0.0, 40.0)).chain((0..30).map(|number| job(10.0 + 10.0 * f64::from(number), 10.0)));
    let jobs = jobs.collect::<Vec<_>>();
    let never = run(&scene("gpu:1", jobs.clone()), "las:first=10,queues=2,promote=0");
    let after_waiting = run(&scene("gpu:1", jobs), "las:first=10,queues=2,promote=2");
    assert_eq!(never.finishes()[0], 340.0);
    assert!(after_waiting.finishes()[0] < 200.0, "{}", after_waiting.finishes()[0]);
}

#[test]
fn gittins_learns_to_prefer_jobs_that_will_end_soon() {
    // After many jobs of 100 s and of 10,000 s, a job that has run 90 s is more likely to end soon than a new one.
    let mut stream = rota_core::random::RandomStream::new(3, "gittins");
    let mut jobs = Vec::new();
    for number in 0..400 {
        let length = if stream.unit() < 0.9 { 100.0 } else { 10_000.0 };
        jobs.push(job(f64::from(number) * 300.0, length));
    }
    let bound = scene("gpu:4", jobs);
    let mean = |policy: &str| {
        let outcome = run(&bound, policy);
        let total = bound.jobs.iter().zip(outcome.finishes()).map(|(job, finish)| finish - job.arrival.seconds()).sum::<f64>();
        total / bound.jobs.len() as f64
    };
    assert!(mean("gittins") < 0.6 * mean("fcfs"), "{} {}", mean("gittins"), mean("fcfs"));
}
