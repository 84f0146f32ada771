//! `rota adapt` on small tables and images, and what it refuses.

use crate::rota::{json, refusal};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

const HEAD: &str = "model,scenario,a1,a2,a3,final_test_acc,timeleft_before_a1,timeleft_before_a2,timeleft_before_a3\n";

/// A table of `ConvNet2` in which the first convolution is worth most.
fn table(scenario: &str, base: f64) -> String {
    let gain = [0.05, 0.04, 0.01, 0.0];
    let rows = (0..64).map(|place| [place / 16, place / 4 % 4, place % 4]).map(|[a, b, c]| {
        let accuracy = base + gain[a] + gain[b] + gain[c];
        format!("ConvNet2,{scenario},{a},{b},{c},{accuracy},330,320,310\n")
    });
    rows.collect()
}

fn write(folder: &Path, name: &str, text: &str) -> String {
    let path = folder.join(name);
    std::fs::write(&path, text).unwrap();
    path.to_str().unwrap().to_owned()
}

/// A folder of IDX files: the class of an image is whether its upper or its lower half is bright.
fn images(folder: &Path) {
    let idx = |sizes: &[u32], data: &[u8]| {
        let head = [0, 0, 8, sizes.len() as u8].into_iter().chain(sizes.iter().flat_map(|size| size.to_be_bytes()));
        head.chain(data.iter().copied()).collect::<Vec<u8>>()
    };
    for part in ["train", "t10k"] {
        let labels = (0..32_u8).map(|image| image % 2).collect::<Vec<_>>();
        let pixels = labels.iter().flat_map(|label| (0..64_u8).map(move |place| if place / 32 == *label { 200 } else { place }));
        let pixels = pixels.collect::<Vec<_>>();
        std::fs::write(folder.join(format!("{part}-images-idx3-ubyte")), idx(&[32, 8, 8], &pixels)).unwrap();
        std::fs::write(folder.join(format!("{part}-labels-idx1-ubyte")), idx(&[32], &labels)).unwrap();
    }
}

#[test]
fn a_policy_is_learned_kept_and_judged_beside_the_default() {
    let folder = tempfile::tempdir().unwrap();
    let tables = write(folder.path(), "tables.csv", &format!("{HEAD}{}{}", table("early", 0.5), table("late", 0.4)));
    let policy = folder.path().join("policy.safetensors");
    let policy = policy.to_str().unwrap();
    let learn = ["adapt", "learn", "--tables", &tables, "--table", "ConvNet2-E", "--exact", "--episodes", "60", "--seed", "1"];
    let learned = json(&[&learn[..], &["-o", policy, "--json"]].concat());
    assert_eq!((&learned["triple"], &learned["rank"]), (&"000".into(), &1.into()));
    assert!(learned["episodes_per_cpu_second"].as_f64().unwrap() > 0.0);
    let choices = json(&["adapt", "evaluate", "--tables", &tables, "--leave-one-out", "--policy", policy, "--json"]);
    let regret = |name: &str| {
        let choice = choices.as_array().unwrap().iter().find(|choice| choice["choice"] == name).unwrap();
        choice["regret_points_mean"].as_f64().unwrap()
    };
    assert!((regret("nothing") - 15.0).abs() < 1e-6, "{choices}");
    assert!(regret("default").abs() < 1e-6 && regret("random triple") > 5.0, "{choices}");
    assert!(regret("policy policy").abs() < 5.0, "{choices}");
}

#[test]
fn a_job_grows_and_leaves_metrics_and_weights() {
    let folder = tempfile::tempdir().unwrap();
    images(folder.path());
    let (data, out) = (folder.path().to_str().unwrap(), folder.path().join("run"));
    let args = ["adapt", "run", "--data", data, "--batch", "16", "--budget", "60", "--up", "15", "--decide", "01"];
    let outcome = json(&[&args[..], &["--seed", "1", "--out", out.to_str().unwrap(), "--json"]].concat());
    assert_eq!((&outcome["actions"], &outcome["parameters"]), (&"013".into(), &(10_026 + 2 * 9312).into()));
    let metrics = std::fs::read_to_string(out.join("metrics.csv")).unwrap();
    assert_eq!(metrics.lines().count() as u64, 1 + outcome["epochs"].as_u64().unwrap());
    assert!(out.join("best.safetensors").is_file() && out.join("last.safetensors").is_file());
}

/// A sweep of small images with both costs, without its verb and its output.
fn sweep_args<'a>(data: &'a str, out: &'a str) -> Vec<&'a str> {
    let costs = ["--cost", "recorded", "--cost", "arithmetic", "--budget", "80", "--budget", "120"];
    [&["adapt", "sweep", "--data", data, "--batch", "16", "--opens", "11.2", "--seeds", "1:3", "--out", out][..], &costs[..]]
        .concat()
}

#[test]
fn a_sweep_that_was_killed_goes_on_and_writes_the_same_bytes() {
    let folder = tempfile::tempdir().unwrap();
    images(folder.path());
    let data = folder.path().to_str().unwrap();
    let paths = ["whole.csv", "killed.csv"].map(|name| folder.path().join(name));
    let [whole, killed] = paths.each_ref().map(|path| path.to_str().unwrap());
    json(&[&sweep_args(data, whole)[..], &["--json"]].concat());
    let mut child =
        Command::new(assert_cmd::cargo::cargo_bin!("rota")).args(sweep_args(data, killed)).stderr(Stdio::null()).spawn().unwrap();
    let journal = folder.path().join("killed.csv.runs");
    let rows = || std::fs::read_to_string(&journal).map_or(0, |text| text.lines().count());
    while rows() < 9 {
        assert!(child.try_wait().unwrap().is_none(), "the sweep ended before it could be killed");
        std::thread::sleep(Duration::from_millis(2));
    }
    child.kill().unwrap();
    child.wait().unwrap();
    assert!(!paths[1].exists());
    // The kill may cut a line anywhere; this one is cut for sure.
    let text = std::fs::read_to_string(&journal).unwrap();
    std::fs::write(&journal, &text[..text.trim_end().len() - 7]).unwrap();
    let swept = json(&[&sweep_args(data, killed)[..], &["--json"]].concat());
    assert_eq!(swept["runs"], 192);
    assert!((3..192).contains(&swept["taken_up"].as_u64().unwrap()), "{swept}");
    let bytes = paths.each_ref().map(|path| std::fs::read_to_string(path).unwrap());
    assert!(bytes[0] == bytes[1] && !journal.exists());
    // A header, and 64 triples of three seeds for each cost.
    assert_eq!(bytes[0].lines().count(), 1 + 2 * 192);
    // What was swept is a table to learn from and to judge on.
    let gains = json(&["adapt", "evaluate", "--tables", whole, "--on", whole, "--json"]);
    let tables = gains.as_array().unwrap().iter().filter(|gain| gain["choice"] == "default").collect::<Vec<_>>();
    let names = tables.iter().map(|gain| gain["table"].as_str().unwrap()).collect::<Vec<_>>();
    assert_eq!(names, ["ConvNet2/middle-arithmetic", "ConvNet2/middle-recorded"]);
    assert_eq!(tables[0]["seeds"], 3);
}

#[test]
fn all_25_plots_of_the_study_are_drawn() {
    let folder = tempfile::tempdir().unwrap();
    let scenarios = ["early", "early_middle", "middle", "middle_late", "late"];
    let of = |model: &str| scenarios.map(|scenario| table(scenario, 0.5).replace("ConvNet2", model)).concat();
    let tables = write(folder.path(), "tables.csv", &format!("{HEAD}{}{}", of("ConvNet2"), of("ConvNet3")));
    let out = folder.path().join("plots");
    let args = ["adapt", "plot", "--tables", &tables, "--episodes-max", "40", "--out", out.to_str().unwrap(), "--json"];
    let mut names = json(&args).as_array().unwrap().iter().map(|name| name.as_str().unwrap().to_owned()).collect::<Vec<_>>();
    names.sort();
    names.dedup();
    assert_eq!(names.len(), 25, "{names:?}");
    for part in ["objective_simulation_early_learn2", "acc_elm_all_convnet3", "acc_eml_some_convnet2", "accuracy_", "objective_"]
    {
        assert!(names.iter().any(|name| name.contains(part)), "{part}: {names:?}");
    }
    for entry in std::fs::read_dir(&out).unwrap() {
        let svg = std::fs::read_to_string(entry.unwrap().path()).unwrap();
        assert!(svg.starts_with("<svg") && svg.contains("</svg>") && !svg.contains("NaN"));
    }
    assert_eq!(std::fs::read_dir(&out).unwrap().count(), 25);
}

#[test]
fn bad_input_is_refused_with_a_reason() {
    let folder = tempfile::tempdir().unwrap();
    let tables = write(folder.path(), "tables.csv", &format!("{HEAD}{}", table("early", 0.5)));
    let perfect = write(folder.path(), "perfect.csv", &format!("{HEAD}{}", table("early", 0.85)));
    let short = write(folder.path(), "short.csv", &format!("{HEAD}{}", table("early", 0.5).lines().next().unwrap()));
    let empty = folder.path().join("empty");
    std::fs::create_dir(&empty).unwrap();
    let empty = empty.to_str().unwrap();
    let learn = |tables: &str, table: &str| {
        let args = ["adapt", "learn", "--tables", tables, "--table", table, "--compat", "--episodes", "1", "--seed", "1"];
        refusal(&args)
    };
    assert!(learn(&tables, "ConvNet2/late").contains("the file has ConvNet2/early"));
    assert!(learn(&perfect, "ConvNet2/early").contains("an accuracy of 1 has no reward"));
    assert!(learn(&short, "ConvNet2/early").contains("has 1 of 64 runs"));
    assert!(refusal(&["adapt", "evaluate", "--tables", &tables, "--leave-one-out"]).contains("give at least two"));
    let run = ["adapt", "run", "--data", empty, "--budget", "60", "--seed", "1"];
    assert!(refusal(&run).contains("apt install dataset-fashion-mnist"));
    images(folder.path());
    let data = folder.path().to_str().unwrap();
    let out = folder.path().join("own.csv");
    let out = out.to_str().unwrap();
    for (more, reason) in [
        (&["--cost", "wall"][..], "invalid value 'wall'"),
        (&["--cost", "recorded", "--cost", "recorded"], "give `recorded`, `arithmetic` or both"),
        (&["--budget", "90", "--budget", "95"], "one budget for each cost"),
        (&["--opens", "100", "--budget", "90"], "the network may grow at 100.0 s, but its time ends at 90.0 s"),
    ] {
        let stderr = refusal(&[&["adapt", "sweep", "--data", data, "--out", out][..], more].concat());
        assert!(stderr.contains(reason), "{more:?}: {stderr}");
    }
    for (more, reason) in [
        (&["--budget", "5"][..], "shorter than one scored epoch"),
        (&["--budget", "60", "--down", "20"], "a `down` needs an `up` before it"),
        (&["--budget", "60", "--decide", "default"], "give --tables FILE"),
        (&["--budget", "60", "--decide", "perhaps"], "--decide `perhaps`"),
        (&["--budget", "60", "--images", "33"], "33 images were asked for"),
    ] {
        let stderr = refusal(&[&["adapt", "run", "--data", data, "--seed", "1"][..], more].concat());
        assert!(stderr.contains(reason), "{more:?}: {stderr}");
    }
}
