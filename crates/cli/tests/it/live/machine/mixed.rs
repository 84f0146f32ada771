//! Machines with several kinds of cards, as labs have them: gangs, sharing, claims and refusals as a person would want them.

use crate::live::Daemon;
use crate::live::machine::gpus::Machine;
use serde_json::{Value, json};
use std::process::Command;

fn card(uuid: &str, name: &str, memory_mib: u64) -> Value {
    json!({
        "uuid": uuid, "name": name, "memory_total_mib": memory_mib, "memory_used_mib": 0, "utilisation": 0, "memory_utilisation": 0,
        "power_watts": 60.0, "power_limit_watts": 400, "energy_joules": 1000, "temperature": 31, "compute_mode": "default", "processes": [],
    })
}

fn types(daemon: &Daemon) -> Vec<String> {
    let gpus = daemon.json(&["gpus", "--json"]);
    gpus.as_array().unwrap().iter().map(|gpu| gpu["type"].as_str().unwrap().to_owned()).collect()
}

const FAST: &str = "GPU-00000000-0000-0000-0000-000000004090";
const SLOW: &str = "GPU-00000000-0000-0000-0000-000000003090";

#[test]
fn a_4090_beside_a_3090_is_two_gpus_for_whom_says_so() {
    let machine = Machine::of(vec![card(FAST, "NVIDIA GeForce RTX 4090", 24_564), card(SLOW, "NVIDIA GeForce RTX 3090", 24_576)]);
    let daemon = machine.daemon("");
    assert_eq!(types(&daemon), ["rtx4090", "rtx3090"]);
    let said = daemon.refusal(2, &["submit", "-g", "2", "true"]);
    assert!(said.contains("1 rtx4090, 1 rtx3090") && said.contains("`--any-type` lets it span types"), "{said}");
    for way in [&["-g", "2", "--any-type"][..], &["-g", "2", "--gpu-ids", "0,1"]] {
        let both = daemon.shell(way, "echo $CUDA_VISIBLE_DEVICES");
        assert_eq!(daemon.wait_one(both)["gpu_indices"], json!([0, 1]), "{way:?}");
        assert_eq!(daemon.log(both).trim(), format!("{FAST},{SLOW}"));
    }
    assert!(daemon.refusal(2, &["submit", "-g", "3", "--any-type", "true"]).contains("3 GPUs"));
    // A job that may span types waits for both, and is not passed by for ever.
    let one = daemon.shell(&[], "sleep 60");
    daemon.until_state(one, "running");
    let both = daemon.shell(&["-g", "2", "--any-type"], "true");
    let why = daemon.explain(both);
    assert_eq!(why["state"], "waiting", "{why:#}");
    assert!(why["reason"].as_str().unwrap().contains(&format!("job {one}")), "{why:#}");
    daemon.ok(&["cancel", &one.to_string()]);
    assert_eq!(daemon.wait_one(both)["state"], "done");
    // An index means another card to CUDA than to nvidia-smi here, so that a claim names cards by UUID.
    let claim = |options: &[&str]| {
        let words = ["claim", "--timeout", "30"].iter().chain(options).copied().collect::<Vec<_>>();
        daemon.ok(&words).trim().to_owned()
    };
    let mut holder = Command::new("sleep").arg("60").spawn().unwrap();
    let pid = holder.id().to_string();
    assert_eq!(claim(&["--from", "1", "--pid", &pid]), SLOW);
    assert_eq!(claim(&["--from", "0", "--print", "index", "--pid", &pid]), "0");
    holder.kill().unwrap();
    holder.wait().unwrap();
}

#[test]
fn jobs_share_the_cards_of_a_mixed_machine_by_what_fits_on_each() {
    let machine = Machine::of(vec![card(FAST, "NVIDIA GeForce RTX 4090", 24_564), card(SLOW, "NVIDIA GeForce RTX 3090", 24_576)]);
    let daemon = machine.daemon("");
    let [one, other] = ["0", "0"].map(|gpu| daemon.shell(&["--memory", "10G", "--gpu-ids", gpu], "sleep 60"));
    // The 3090 has twelve MiB more, so that this job fits on it only.
    let large = daemon.shell(&["--memory", "24570"], "sleep 60");
    for (job, gpu) in [(one, 0), (other, 0), (large, 1)] {
        daemon.until_state(job, "running");
        assert_eq!(daemon.show(job)["gpu_indices"], json!([gpu]), "job {job}");
    }
    let said = daemon.refusal(2, &["submit", "--memory", "24600", "true"]);
    assert!(said.contains("24600 MiB") && said.contains("24576 MiB"), "{said}");
    let said = daemon.refusal(1, &["claim", "--gpus", "2", "--timeout", "1"]);
    assert!(said.contains("needs 2 GPUs; 0 of 2 free"), "{said}");
    for job in [one, other, large] {
        daemon.ok(&["cancel", &job.to_string()]);
    }
    // A claim of both is one of both types; the cards are named by UUID.
    let mut holder = Command::new("sleep").arg("60").spawn().unwrap();
    let both = daemon.ok(&["claim", "--gpus", "2", "--timeout", "30", "--pid", &holder.id().to_string()]);
    assert_eq!(both.trim(), format!("{FAST},{SLOW}"));
    holder.kill().unwrap();
    holder.wait().unwrap();
}

#[test]
fn two_v100_with_a_little_less_memory_on_one_are_one_type() {
    let names = ["GPU-00000000-0000-0000-0000-00000000000a", "GPU-00000000-0000-0000-0000-00000000000b"];
    let machine =
        Machine::of(vec![card(names[0], "Tesla V100-SXM2-16GB", 16_280), card(names[1], "Tesla V100-SXM2-16GB", 16_160)]);
    let daemon = machine.daemon("");
    assert_eq!(types(&daemon), ["v100", "v100"]);
    let both = daemon.shell(&["-g", "2"], "true");
    assert_eq!(daemon.wait_one(both)["gpu_indices"], json!([0, 1]));
    // What fits on one of them fits on all.
    let said = daemon.refusal(2, &["submit", "--memory", "16200", "true"]);
    assert!(said.contains("16160 MiB"), "{said}");
    // Two small jobs share one card, and the other is free for a job that needs all of it.
    let [one, other] = [0, 1].map(|_| daemon.shell(&["--memory", "7000"], "sleep 60"));
    let large = daemon.shell(&["--memory", "16100"], "sleep 60");
    for job in [one, other, large] {
        daemon.until_state(job, "running");
    }
    assert_eq!(daemon.show(one)["gpu_indices"], daemon.show(other)["gpu_indices"]);
    assert_ne!(daemon.show(one)["gpu_indices"], daemon.show(large)["gpu_indices"]);
    let gang = daemon.shell(&["-g", "2"], "true");
    let why = daemon.explain(gang);
    assert!(why["reason"].as_str().unwrap().starts_with("needs 2 whole GPUs; GPU 0 runs job"), "{why:#}");
    // The gang first: it would start as soon as the others are gone.
    for job in [gang, one, other, large] {
        daemon.ok(&["cancel", &job.to_string()]);
    }
    let mut holder = Command::new("sleep").arg("60").spawn().unwrap();
    let words = ["claim", "--gpus", "2", "--timeout", "30", "--pid", &holder.id().to_string()];
    assert_eq!(daemon.ok(&words).trim(), "0,1", "one model: an index is the same card to everybody");
    holder.kill().unwrap();
    holder.wait().unwrap();
}

#[test]
fn slices_of_an_a100_are_never_part_of_a_gang_with_a_whole_one() {
    let mut divided = card("GPU-00000000-0000-0000-0000-0000000000d0", "NVIDIA A100-SXM4-40GB", 40_960);
    divided["mig"] = json!([
        card("MIG-00000000-0000-0000-0000-000000000001", "NVIDIA A100-SXM4-40GB MIG 3g.20gb", 19_968),
        card("MIG-00000000-0000-0000-0000-000000000002", "NVIDIA A100-SXM4-40GB MIG 3g.20gb", 19_968),
    ]);
    let machine = Machine::of(vec![divided, card("GPU-00000000-0000-0000-0000-0000000000f0", "NVIDIA A100-SXM4-40GB", 40_960)]);
    let daemon = machine.daemon("");
    let mut found = types(&daemon);
    found.sort_unstable();
    assert_eq!(found, ["a100", "a100-mig-3g.20gb", "a100-mig-3g.20gb"]);
    // Two whole GPUs are not there, and slices do not make up for one: a process can use one slice only.
    for way in [&["--gpu-type", "a100"][..], &["--any-type"], &["--gpu-type", "a100-mig-3g.20gb"], &["--gpu-ids", "0,1"], &[]] {
        let words = ["submit", "-g", "2"].iter().chain(way).chain(&["true"]).copied().collect::<Vec<_>>();
        let said = daemon.refusal(2, &words);
        assert!(said.contains("2 GPUs") && said.contains("2 a100-mig-3g.20gb, 1 a100"), "{way:?}: {said}");
        assert!(said.contains("one MIG slice only") && !said.contains("--any-type"), "{way:?}: {said}");
    }
    assert!(daemon.refusal(2, &["claim", "--gpus", "2", "--timeout", "1"]).contains("one MIG slice only"));
    assert!(daemon.refusal(2, &["submit", "--gpu-type", "a100-mig-3g.20gb", "--memory", "20G", "true"]).contains("19968 MiB"));
    // Each is had by itself, and a small job shares a slice by memory.
    let slice = daemon.shell(&["--gpu-type", "a100-mig-3g.20gb", "--memory", "8G"], "echo $CUDA_VISIBLE_DEVICES");
    daemon.wait_one(slice);
    assert!(daemon.log(slice).starts_with("MIG-"), "{}", daemon.log(slice));
    let whole = daemon.shell(&["--gpu-type", "a100"], "echo $CUDA_VISIBLE_DEVICES");
    daemon.wait_one(whole);
    assert!(daemon.log(whole).starts_with("GPU-"), "{}", daemon.log(whole));
    // Two small jobs are on one slice, a job of 30 GiB is on the whole GPU, and a claim gets the slice that is left.
    let small = ["--gpu-type", "a100-mig-3g.20gb", "--memory", "8G"];
    let [one, other] = [0, 1].map(|_| daemon.shell(&small, "sleep 60"));
    let large = daemon.shell(&["--memory", "30G"], "sleep 60");
    for job in [one, other, large] {
        daemon.until_state(job, "running");
    }
    assert_eq!(daemon.show(one)["gpu_uuids"], daemon.show(other)["gpu_uuids"]);
    assert!(daemon.show(large)["gpu_uuids"][0].as_str().unwrap().starts_with("GPU-"), "{:#}", daemon.show(large));
    let mut holder = Command::new("sleep").arg("60").spawn().unwrap();
    let claimed = daemon.ok(&["claim", "--timeout", "30", "--pid", &holder.id().to_string()]);
    assert!(claimed.starts_with("MIG-") && json!([claimed.trim()]) != daemon.show(one)["gpu_uuids"], "{claimed}");
    holder.kill().unwrap();
    holder.wait().unwrap();
}
