//! `rota trace run`: a trace becomes jobs of the live queue.

use crate::live::Daemon;

#[test]
fn a_gavel_trace_runs_as_the_dispatcher_would_run_it() {
    let daemon = Daemon::start("a100:2");
    let row = |command: &str, needs_data: u8, gpus: u8, arrival: u8| {
        format!("ResNet-18 (batch size 16)\t{command}\t.\t--num_steps\t{needs_data}\t10\t{gpus}\t1\t-1\t{arrival}\n")
    };
    let trace = daemon.file("gavel.trace");
    std::fs::write(&trace, row("echo first %s", 1, 1, 0) + &row("echo second", 0, 2, 100)).unwrap();
    let path = trace.to_str().unwrap();
    let refusal = daemon.refusal(2, &["trace", "run", path, "--speedup", "1000"]);
    assert!(refusal.contains("--data-dir"), "{refusal}");
    let told = daemon.json(&["trace", "run", path, "--speedup", "1000", "--data-dir", "/data", "--json"]);
    let ids = told["ids"].as_array().unwrap().iter().map(|id| id.as_u64().unwrap()).collect::<Vec<_>>();
    assert_eq!(ids.len(), 2);
    for job in daemon.wait(&ids) {
        assert_eq!(job["state"], "failed", "{job}");
        assert!(job["reason"].as_str().unwrap().contains("no step"), "a script that does no step is not started for ever: {job}");
    }
    assert!(daemon.log(ids[0]).contains("first /data --num_steps 10"), "{}", daemon.log(ids[0]));
    assert_eq!(daemon.log(ids[1]).matches("second --num_steps 5").count(), 2, "one process a GPU");
    assert_eq!(daemon.show(ids[1])["job_type"], "ResNet-18 (batch size 16)");
}

#[test]
fn jobs_of_other_traces_sleep_for_their_length() {
    let daemon = Daemon::start("a100:2");
    let trace = daemon.file("jobs.csv");
    std::fs::write(&trace, "id,arrival_s,gpus,duration_s\n1,0,1,100\n2,50,2,200\n").unwrap();
    let told = daemon.json(&["trace", "run", trace.to_str().unwrap(), "--speedup", "1000", "--json"]);
    let ids = told["ids"].as_array().unwrap().iter().map(|id| id.as_u64().unwrap()).collect::<Vec<_>>();
    for job in daemon.wait(&ids) {
        assert_eq!(job["state"], "done", "{job}");
    }
    assert_eq!(daemon.show(ids[1])["command"][1], "0.200");
}
