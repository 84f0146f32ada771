//! Histories that are odd: sensible answers, or "not known", and never a number that was made up.

#![allow(clippy::unwrap_used, reason = "a test")]

use rota_core::random::RandomStream;
use rota_core::{Job, NewJob, Span, Time};
use rota_forecast::{LengthBelief, Lengths, RecentArrivals, RunLength};
use rota_policy::history::JobTraits;

fn traits(user: &str) -> JobTraits {
    JobTraits { user: rota_core::mark(user), gpus: 1, ..JobTraits::default() }
}

fn total(lengths: &mut Lengths, user: &str, attained: f64, chance: f64) -> Option<f64> {
    RunLength { belief: lengths.belief(&traits(user)), limit_seconds: None }.total(attained, chance)
}

#[test]
fn an_empty_history_knows_nothing() {
    let mut lengths = Lengths::default();
    assert_eq!(lengths.belief(&traits("ada")), LengthBelief::Unknown);
    assert_eq!(total(&mut lengths, "ada", 0.0, 0.5), None);
    assert!(RecentArrivals::default().pool(Time::ZERO).is_none());
}

#[test]
fn a_million_jobs_of_one_user_are_counts_and_another_user_is_not_drowned() {
    let mut lengths = Lengths::default();
    for number in 0..1_000_000_u64 {
        lengths.ended(number, &traits("ada"), 100.0);
    }
    let median = total(&mut lengths, "ada", 0.0, 0.5).unwrap();
    assert!((70.0..150.0).contains(&median), "{median}");
    for number in 0..60 {
        lengths.ended(2_000_000 + number, &traits("bob"), 50_000.0);
    }
    let other = total(&mut lengths, "bob", 0.0, 0.5).unwrap();
    assert!((30_000.0..80_000.0).contains(&other), "sixty long jobs of bob count more than a million of ada: {other}");
}

#[test]
fn jobs_that_never_end_are_believed_to_run_on() {
    let mut lengths = Lengths::default();
    (0..50).for_each(|number| lengths.ended(number, &traits("ada"), 60.0));
    for number in 100..150 {
        lengths.ran(number, &traits("ada"), 1e12);
    }
    for attained in [0.0, 1e6, 1e12] {
        for chance in [0.0, 0.1, 0.5, 0.9, 1.0] {
            let total = total(&mut lengths, "ada", attained, chance).unwrap();
            assert!(total.is_finite() && total >= attained, "{attained} {chance}: {total}");
        }
    }
}

#[test]
fn jobs_of_no_length_are_short_and_nothing_else() {
    let mut lengths = Lengths::default();
    (0..100).for_each(|number| lengths.ended(number, &traits("ada"), 0.0));
    let high = total(&mut lengths, "ada", 0.0, 0.9).unwrap();
    assert!((0.0..=20.0).contains(&high), "{high}");
}

#[test]
fn a_clock_that_was_set_back_stops_no_draw() {
    let mut recent = RecentArrivals::default();
    let mut stream = RandomStream::new(1, "jumps");
    for number in 0..100 {
        let at = Time::ZERO + Span::from_whole_seconds(stream.below(200_000));
        let job = Job::new(at, Span(1));
        let request = NewJob { job, user: "ada".into(), project: "".into(), job_type: "".into(), gpu_types: Vec::new() };
        let length = RunLength { belief: LengthBelief::Estimated(10.0), limit_seconds: None };
        recent.came(number, at, request, length, 1.0);
    }
    for now in [0_u64, 100_000, 300_000] {
        let now = Time::ZERO + Span::from_whole_seconds(now);
        if let Some(pool) = recent.pool(now) {
            let mut drawn = pool.drawn(RandomStream::new(2, "jumps"));
            for _ in 0..500 {
                assert!(drawn.next_at().unwrap() >= now);
                drawn.take().unwrap();
            }
        }
    }
}
