//! `rota learn` from training to the simulator, and what it refuses.

use crate::rota::{json, refusal, root};

#[test]
fn a_model_is_trained_judged_and_decides_in_the_simulator() {
    let folder = tempfile::tempdir().unwrap();
    let model = folder.path().join("wait.safetensors");
    let model = model.to_str().unwrap();
    let train = ["learn", "train", "--env", "classroom", "--objective", "wait", "--steps", "3000", "--episodes", "1"];
    let curve = json(&[&train[..], &["--validation", "4", "--hidden", "none", "--seed", "1", "-o", model, "--json"]].concat());
    assert!(curve.as_array().unwrap().len() >= 2);

    let rules = ["--against", "sjf:backfill=greedy", "--against", "fcfs", "--seeds", "1000:1007", "--json"];
    let scores = json(&[&["learn", "eval", "--env", "classroom", "--model", model][..], &rules[..]].concat());
    let [learned, sjf, fcfs] = &scores.as_array().unwrap()[..] else { panic!("{scores}") };
    assert_eq!((&sjf["policy"], &sjf["episodes"], &sjf["lost"]), (&"sjf:backfill=greedy".into(), &8.into(), &0.into()));
    let wait = |score: &serde_json::Value| score["wait_mean_s"].as_f64().unwrap();
    assert!(wait(sjf) < wait(fcfs), "{scores}");
    let paired = &learned["paired"]["fcfs"]["wait_mean_s"];
    assert!((paired["mean"].as_f64().unwrap() - (wait(learned) - wait(fcfs))).abs() < 1e-9);

    let policy = format!("learned:model={model},guard=sjf");
    let trace = root().join("scenarios/classroom.toml");
    let summary = json(&["sim", "--trace", trace.to_str().unwrap(), "--cluster", "t4:4", "--policy", &policy, "--json"]);
    assert_eq!(summary["completed"], summary["jobs"]);
    assert!(summary["bsld_mean"].as_f64().unwrap() >= 1.0);
}

#[test]
fn bench_gives_steps_per_cpu_second() {
    let figures = json(&["learn", "bench", "--env", "classroom-compat", "--episodes", "20", "--json"]);
    assert!(figures["steps_per_cpu_second"].as_f64().unwrap() > 0.0);
}

#[test]
fn bad_input_is_refused_with_a_reason() {
    let folder = tempfile::tempdir().unwrap();
    let bad = folder.path().join("bad.safetensors");
    std::fs::write(&bad, b"not a model").unwrap();
    let bad = bad.to_str().unwrap();
    let empty = folder.path().join("empty.swf");
    std::fs::write(&empty, b"; nothing\n").unwrap();
    let empty = format!("swf-compat:{}", empty.to_str().unwrap());
    for (args, reason) in [
        (vec!["learn", "eval", "--env", "classroom", "--model", bad], "not a safetensors file, or damaged"),
        (vec!["learn", "eval", "--env", "classroom"], "nobody to judge"),
        (vec!["learn", "eval", "--env", "chess", "--against", "fcfs"], "unknown environment `chess`"),
        (vec!["learn", "eval", "--env", "classroom-compat", "--against", "fcfs"], "unknown rule `fcfs`"),
        (vec!["learn", "eval", "--env", "trace:nowhere.csv", "--against", "fcfs"], "give --cluster"),
        (vec!["learn", "eval", "--env", &empty, "--against", "fcfs"], "empty.swf"),
        (vec!["learn", "train", "--env", "classroom", "--seed", "1", "--hidden", "0", "-o", bad], "--hidden `0`"),
        (vec!["learn", "train", "--env", "classroom", "--algo", "ppo", "--seed", "1", "-o", bad], "--algo es"),
    ] {
        let stderr = refusal(&args);
        assert!(stderr.contains(reason), "{args:?}: {stderr}");
    }
}
