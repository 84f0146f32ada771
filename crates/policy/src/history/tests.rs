//! What a history learns, counted by hand.

use super::steps::{STEPS, end_seconds, start_seconds, step_of};
use super::*;
use rota_core::mark;

fn traits(user: &str, project: &str, gpus: u32) -> JobTraits {
    JobTraits { user: mark(user), project: mark(project), gpus, ..JobTraits::default() }
}

/// A job that ran so long and ended.
fn ran(history: &mut History, traits: &JobTraits, seconds: f64) {
    history.ran(traits, seconds, true);
}

fn median(history: &mut History, traits: &JobTraits) -> f64 {
    let lineage = history.lineage(traits);
    history.belief(&lineage).quantile(0.0, 0.5).unwrap_or(f64::INFINITY)
}

#[test]
fn steps_meet_and_cover_all_lengths() {
    for step in 1..STEPS {
        assert!((start_seconds(step) - end_seconds(step - 1)).abs() < 1e-9);
        assert_eq!(step_of(start_seconds(step)), step);
        assert_eq!(step_of(end_seconds(step) - 1e-6), step);
    }
    assert_eq!((step_of(0.0), step_of(9.99), step_of(10.0), step_of(1e300)), (0, 0, 1, STEPS - 1));
    assert!((end_seconds(2) - 16.9).abs() < 1e-9);
}

#[test]
fn a_class_shrinks_to_the_coarser_one() {
    let mut history = History::default();
    // Ten jobs of nobody in particular: four end in step 0. They are in the classes of all and of single GPUs.
    for number in 0..10 {
        ran(&mut history, &traits("", "", 1), if number < 4 { 5.0 } else { 11.0 });
    }
    let all = (4.0 + 8.0 * HAZARD_UNKNOWN) / 18.0;
    let single = (4.0 + 8.0 * all) / 18.0;
    let hazard = |history: &mut History, traits: &JobTraits| {
        let lineage = history.lineage(traits);
        let survival = history.belief(&lineage).quantile(0.0, 1e-9).unwrap();
        // Within a step ends come at a constant rate: the first billionth of them tells the rate.
        1.0 - (-10.0 * 1e-9 / survival).exp()
    };
    assert!((hazard(&mut history, &traits("", "", 1)) - single).abs() < 1e-6);
    // One job of a user: its classes begin with what is known of single GPUs.
    ran(&mut history, &traits("ada", "", 1), 3.0);
    let all = (5.0 + 8.0 * HAZARD_UNKNOWN) / 19.0;
    let single = (5.0 + 8.0 * all) / 19.0;
    let user = (1.0 + 8.0 * single) / 9.0;
    let gang = (1.0 + 8.0 * user) / 9.0;
    let recent = (0.97 + 8.0 * gang) / 8.97;
    assert!((hazard(&mut history, &traits("ada", "", 1)) - recent).abs() < 1e-4);
}

#[test]
fn users_are_told_apart_and_a_new_one_is_like_the_project() {
    let mut history = History::default();
    for _ in 0..100 {
        ran(&mut history, &traits("quick", "tests", 1), 30.0);
        ran(&mut history, &traits("slow", "training", 1), 40_000.0);
    }
    let quick = median(&mut history, &traits("quick", "tests", 1));
    let slow = median(&mut history, &traits("slow", "training", 1));
    assert!(quick < 60.0 && slow > 20_000.0, "{quick} {slow}");
    let new = median(&mut history, &traits("new", "tests", 1));
    assert!(new < 100.0, "{new}");
    let known = history.classes();
    assert!(!history.known_lineage(&traits("newer", "tests", 1)).0.is_empty());
    assert_eq!(history.classes(), known, "a look makes no class");
}

#[test]
fn an_estimate_is_a_class_and_not_a_promise() {
    let mut history = History::default();
    let hour = JobTraits { estimate_seconds: Some(3600.0), ..traits("ada", "", 1) };
    let day = JobTraits { estimate_seconds: Some(86_400.0), ..traits("ada", "", 1) };
    for _ in 0..50 {
        ran(&mut history, &hour, 20.0);
        ran(&mut history, &day, 50_000.0);
    }
    assert!(median(&mut history, &hour) < 60.0);
    assert!(median(&mut history, &day) > 20_000.0);
}

#[test]
fn a_change_of_habits_is_learned_within_some_dozen_jobs() {
    let mut history = History::default();
    (0..1000).for_each(|_| ran(&mut history, &traits("ada", "", 1), 30.0));
    (0..40).for_each(|_| ran(&mut history, &traits("ada", "", 1), 40_000.0));
    let median = median(&mut history, &traits("ada", "", 1));
    assert!(median > 10_000.0, "{median}");
}

#[test]
fn running_jobs_teach_before_they_end() {
    let mut history = History::default();
    (0..20).for_each(|_| ran(&mut history, &traits("ada", "", 1), 5.0));
    let before = median(&mut history, &traits("ada", "", 1));
    let lineage = history.lineage(&traits("ada", "", 1));
    for _ in 0..60 {
        (0..=step_of(10_000.0)).for_each(|step| history.reach(&lineage, step));
    }
    let after = median(&mut history, &traits("ada", "", 1));
    assert!(before < 10.0 && after > 100.0, "{before} {after}");
    assert_eq!(history.ended(), 20);
}

#[test]
fn an_empty_history_knows_that_it_knows_nothing() {
    let mut history = History::default();
    let lineage = history.lineage(&traits("ada", "x", 3));
    assert_eq!((history.ended(), history.ended_alike(&lineage)), (0, 0.0));
    assert!(history.belief(&lineage).mean_remaining(0.0).is_finite());
    ran(&mut history, &traits("bob", "y", 3), 0.0);
    let lineage = history.lineage(&traits("ada", "x", 3));
    assert_eq!((history.ended(), history.ended_alike(&lineage)), (1, 0.0));
}

#[test]
fn a_saved_history_is_the_same_history() {
    let mut history = History::default();
    for (user, project, gpus, seconds) in [("ada", "x", 1, 50.0), ("bob", "x", 8, 7e5), ("", "", 2, 0.0), ("ünal", "", 1, 1e12)]
    {
        ran(&mut history, &traits(user, project, gpus), seconds);
    }
    let text = serde_json::to_string(&history).unwrap();
    let mut read: History = serde_json::from_str(&text).unwrap();
    assert_eq!(serde_json::to_string(&read).unwrap(), text);
    for user in ["ada", "bob", "new"] {
        assert_eq!(median(&mut read, &traits(user, "x", 8)).to_bits(), median(&mut history, &traits(user, "x", 8)).to_bits());
    }
}

#[test]
fn a_thousand_users_take_less_than_ten_megabytes_and_a_million_jobs_no_more_than_one() {
    let mut history = History::default();
    for user in 0..1000 {
        let name = format!("user-{user}");
        let project = format!("project-{}", user % 40);
        for job in 0_u32..24 {
            let estimate_seconds = (job % 3 > 0).then(|| 3600.0 * f64::from(1 + job % 4));
            let program = mark(["", "train", "evaluate"][job as usize % 3]);
            let traits = JobTraits { program, estimate_seconds, ..traits(&name, &project, 1 << (job % 4)) };
            ran(&mut history, &traits, 10.0 * 1.7_f64.powi((job * 7 % 19).cast_signed()));
        }
    }
    assert!(history.bytes() <= 10_000_000, "{}", history.bytes());
    let mut one = History::default();
    ran(&mut one, &traits("ada", "", 1), 86_400.0);
    let before = one.bytes();
    (0..1_000_000).for_each(|job: u32| ran(&mut one, &traits("ada", "", 1), f64::from(job % 80)));
    assert_eq!((one.bytes(), one.ended()), (before, 1_000_001));
    let median = median(&mut one, &traits("ada", "", 1));
    assert!((20.0..70.0).contains(&median), "{median}");
}
