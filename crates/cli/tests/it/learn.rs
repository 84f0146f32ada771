//! `rota learn` from training to the simulator, and what it refuses.

use crate::live::{Daemon, until};
use crate::rota::{json, refusal, root, stdout};

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
fn a_training_imitates_goes_on_and_leaves_its_curve() {
    let folder = tempfile::tempdir().unwrap();
    let [first, second] = ["first", "second"].map(|name| folder.path().join(format!("{name}.safetensors")));
    let train = ["learn", "train", "--env", "classroom-compat", "--algo", "q", "--steps", "2000", "--validation", "4", "--json"];
    let curve = json(&[&train[..], &["--seed", "1", "--imitate", "least-loaded", "-o", first.to_str().unwrap()]].concat());
    let costs = |curve: &serde_json::Value| {
        let costs = curve.as_array().unwrap().iter().map(|point| point["validation_cost"].as_f64().unwrap());
        costs.fold(f64::INFINITY, f64::min)
    };
    assert!(std::fs::read_to_string(first.with_extension("svg")).unwrap().starts_with("<svg"));
    let resumed = ["--seed", "2", "--resume", first.to_str().unwrap(), "-o", second.to_str().unwrap()];
    let longer = json(&[&train[..], &resumed[..]].concat());
    assert!(costs(&longer) <= costs(&curve), "{longer} after {curve}");
}

#[test]
fn a_policy_is_tuned_on_training_episodes_before_it_is_judged() {
    let folder = tempfile::tempdir().unwrap();
    let picture = folder.path().join("judged.svg");
    let args = ["learn", "eval", "--env", "classroom", "--tune", "sjf:backfill=none/greedy", "--against", "sjf:backfill=none"];
    let scores = json(&[&args[..], &["--seeds", "1000:1003", "--plot", picture.to_str().unwrap(), "--json"]].concat());
    assert_eq!(scores[1]["policy"], "sjf:backfill=greedy", "{scores}");
    assert!(std::fs::read_to_string(picture).unwrap().contains("sjf:backfill=greedy"));
}

#[test]
fn bench_gives_steps_per_cpu_second() {
    for env in ["classroom-compat", "classroom"] {
        let figures = json(&["learn", "bench", "--env", env, "--episodes", "20", "--json"]);
        assert!(figures["steps_per_cpu_second"].as_f64().unwrap() > 0.0);
        assert!(figures["steps"].as_u64().unwrap() >= 20 * 40, "{env}: a choice for each task");
    }
}

#[test]
fn the_simulators_queue_is_trained_by_every_algorithm() {
    let folder = tempfile::tempdir().unwrap();
    let trace = root().join("scenarios/classroom.toml");
    let trace = format!("trace:{}", trace.to_str().unwrap());
    for (algorithm, steps) in [("ppo", "2048"), ("reinforce", "2048"), ("q", "2000"), ("es", "3000")] {
        for (env, cluster) in [("classroom", "gpu:4"), (trace.as_str(), "t4:4")] {
            let model = folder.path().join(format!("{algorithm}.safetensors"));
            let model = model.to_str().unwrap();
            let env = ["--env", env, "--cluster", cluster];
            let train =
                ["--algo", algorithm, "--steps", steps, "--episodes", "1", "--validation", "4", "--seed", "1", "-o", model];
            json(&[&["learn", "train"][..], &env, &train, &["--json"]].concat());
            let rules = ["--model", model, "--against", "fcfs:backfill=greedy", "--seeds", "1000:1003", "--json"];
            let scores = json(&[&["learn", "eval"][..], &env, &rules].concat());
            assert_eq!((&scores[0]["lost"], &scores[1]["lost"]), (&0.into(), &0.into()), "{algorithm}: {scores}");
        }
    }
}

#[test]
fn power_limits_are_chosen_that_save_energy_at_little_cost() {
    let folder = tempfile::tempdir().unwrap();
    let [trace, model] = ["jobs.csv", "energy.safetensors"].map(|name| folder.path().join(name).to_str().unwrap().to_owned());
    let generated = ["trace", "gen", "--model", "poisson", "--jobs", "300", "--rate", "2.3", "--seed", "1", "-o", &trace];
    stdout(&generated);
    let trace = format!("trace:{trace}");
    let env = ["--env", &trace, "--cluster", "v100:8"];
    let train =
        ["--objective", "energy", "--steps", "0", "--stretch", "100", "--validation", "2", "--restarts", "1", "--seed", "1"];
    json(&[&["learn", "train"][..], &env, &train, &["-o", &model, "--json"]].concat());
    let scores = json(&[&["learn", "eval"][..], &env, &["--model", &model, "--against", "sjf", "--json"]].concat());
    let change = |metric: &str| {
        let of = |place: usize| scores[place][metric].as_f64().unwrap();
        of(0) / of(1) - 1.0
    };
    assert!(change("energy_kwh") < -0.08, "{scores}");
    assert!(change("jct_mean_s") < 0.1, "{scores}");
    assert!(scores[0]["energy_kwh_low"].as_f64().unwrap() <= scores[0]["energy_kwh"].as_f64().unwrap());
    assert!(scores[0]["paired"]["sjf"]["energy_kwh"]["high"].as_f64().unwrap() < 0.0, "{scores}");
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
        (vec!["learn", "train", "--env", "classroom", "--algo", "ppo", "--reserve", "--seed", "1", "-o", bad], "--algo es"),
        (vec!["learn", "train", "--env", "classroom", "--objective", "energy", "--seed", "1", "-o", bad], "was not measured"),
        (
            vec!["learn", "train", "--env", "classroom-compat", "--objective", "energy", "--seed", "1", "-o", bad],
            "classroom and trace",
        ),
        (
            vec!["learn", "train", "--env", "classroom", "--features", "colour", "--seed", "1", "-o", bad],
            "unknown feature `colour`",
        ),
        (vec!["learn", "train", "--env", "classroom", "--resume", bad, "--seed", "1", "-o", bad], "not a safetensors file"),
        (vec!["learn", "eval", "--env", "classroom", "--tune", "sjf:backfill"], "not of the form `key=value/value`"),
    ] {
        let stderr = refusal(&args);
        assert!(stderr.contains(reason), "{args:?}: {stderr}");
    }
}

#[test]
fn a_model_decides_in_the_live_queue_and_is_tried_on_its_history() {
    let folder = tempfile::tempdir().unwrap();
    let model = folder.path().join("model.safetensors");
    let model = model.to_str().unwrap();
    let train = ["learn", "train", "--env", "classroom", "--steps", "1", "--episodes", "1", "--validation", "1", "--seed", "1"];
    json(&[&train[..], &["-o", model, "--json"]].concat());
    let policy = format!("learned:model={model},guard=sjf");
    let mut daemon = Daemon::with(&["--virtual-gpus", "a100:1", "--policy", &policy], "", &[]);
    let ids = [3, 1, 2].map(|seconds| daemon.submit(&["--estimate", &seconds.to_string(), "--", "true"]));
    assert!(daemon.wait(&ids).iter().all(|job| job["state"] == "done"));
    daemon.restart();
    assert_eq!(daemon.json(&["status", "--json"])["policy"], policy.as_str());
    let after = daemon.submit(&["--", "true"]);
    assert_eq!(daemon.wait_one(after)["state"], "done");
    let scores = daemon.json(&["learn", "shadow", "--model", model, "--against", "fcfs", "--json"]);
    let names = scores.as_array().unwrap().iter().map(|score| score["policy"].as_str().unwrap()).collect::<Vec<_>>();
    assert_eq!(names, [model, policy.as_str(), "fcfs"]);
    assert!(scores.as_array().unwrap().iter().all(|score| score["lost"] == 0), "{scores}");
    let refused = daemon.refusal(2, &["policy", "set", "learned:model=/nowhere"]);
    assert!(refused.contains("/nowhere"), "{refused}");
}

/// A guard that takes over says so, and why, to those whose jobs wait.
#[test]
fn explain_says_that_the_guard_took_over_and_why() {
    let folder = tempfile::tempdir().unwrap();
    let model = folder.path().join("model.safetensors");
    let train = ["learn", "train", "--env", "classroom", "--steps", "1", "--episodes", "1", "--validation", "1", "--seed", "1"];
    json(&[&train[..], &["-o", model.to_str().unwrap(), "--json"]].concat());
    let policy = format!("learned:model={},guard=fcfs,patience=1", model.to_str().unwrap());
    let daemon = Daemon::with(&["--virtual-gpus", "a100:8", "--policy", &policy], "", &[]);
    // After 64 jobs that went the same way under both, the model is trusted.
    let array = daemon.json(&["submit", "--json", "--array", "1-64", "--", "true"]);
    let jobs = array["ids"].as_array().unwrap().iter().map(|id| id.as_u64().unwrap()).collect::<Vec<_>>();
    assert!(daemon.wait(&jobs).iter().all(|job| job["state"] == "done"));
    let long = daemon.shell(&["-g", "8"], "sleep 600");
    let waiting = daemon.shell(&["-g", "8"], "true");
    let reason = || daemon.explain(waiting)["reason"].as_str().unwrap().to_owned();
    assert!(reason().contains("learned: the model decides from now on"), "{}", reason());
    // The job comes to wait for longer than a second; the next decision finds that.
    until("the guard has taken over", || {
        daemon.submit(&["-g", "8", "--", "true"]);
        reason().contains("the guard `fcfs` decides from now on: a job has waited for")
    });
    assert!(reason().contains("which is beyond the limit"), "{}", reason());
    daemon.ok(&["cancel", &long.to_string()]);
}
