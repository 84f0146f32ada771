//! What the queue remembers, and what can be made of it: priorities, bars, sums, curves, and simulations of what was.

use crate::live::queue::users::shared;
use crate::live::{Daemon, until};
use rota_daemon::api::{ScheduleBars, ScheduleEnd};
use serde_json::{Value, json};

/// A line for the shell that goes on until a file is there.
fn until_file(path: &std::path::Path) -> String {
    format!("while [ ! -e '{}' ]; do sleep 0.02; done", path.display())
}

/// Looks and samples often, so that a short test sees some.
const OFTEN: &str = "[gpus]\nlook_seconds = 0.05\n[telemetry]\ninterval_seconds = 1.0\n";

fn get(daemon: &Daemon, path: &str) -> Value {
    let (status, body) = daemon.request("GET", path, b"");
    assert_eq!(status, 200, "{path}: {body}");
    serde_json::from_str(&body).unwrap_or_else(|error| panic!("{path}: {error}: {body}"))
}

fn kinds(events: &Value) -> Vec<&str> {
    events.as_array().unwrap().iter().map(|event| event["kind"].as_str().unwrap()).collect()
}

#[test]
fn a_waiting_job_is_moved_ahead_and_stays_there_after_a_restart() {
    let mut daemon = Daemon::start("a100:1");
    let (go, order) = (daemon.file("go"), daemon.file("order"));
    let first = daemon.shell(&[], &until_file(&go));
    daemon.until_state(first, "running");
    let write = |word: &str| format!("echo {word} >> '{}'", order.display());
    let [a, b, c] = ["a", "b", "c"].map(|word| daemon.shell(&["--project", "thesis"], &write(word)));
    daemon.ok(&["hold", &b.to_string()]);
    let job = daemon.json(&["priority", &c.to_string(), "7", "--json"]);
    assert_eq!((&job["id"], &job["priority"], &job["project"]), (&json!(c), &json!(7), &json!("thesis")));
    daemon.ok(&["priority", &b.to_string(), "-3"]);
    daemon.restart();
    assert_eq!((&daemon.show(c)["priority"], &daemon.show(b)["priority"]), (&json!(7), &json!(-3)));
    assert_eq!(daemon.show(a)["project"], "thesis");
    daemon.ok(&["release", &b.to_string()]);
    let late = daemon.shell(&[], &write("late"));
    let (status, body) = daemon.request("PATCH", &format!("/api/v1/jobs/{late}"), br#"{"priority": 3}"#);
    assert_eq!(status, 200, "{body}");
    // What runs cannot be moved, and what is not there neither.
    let refusal = daemon.refusal(1, &["priority", &first.to_string(), "9"]);
    assert!(refusal.contains("has its GPUs already"), "{refusal}");
    assert_eq!(daemon.request("PATCH", &format!("/api/v1/jobs/{first}"), br#"{"priority": 3}"#).0, 409);
    assert_eq!(daemon.request("PATCH", "/api/v1/jobs/999", br#"{"priority": 3}"#).0, 404);
    assert_eq!(daemon.request("PATCH", &format!("/api/v1/jobs/{late}"), br#"{"priority": "much"}"#).0, 422);
    std::fs::write(&go, "").unwrap();
    daemon.wait(&[first, a, b, c, late]);
    assert_eq!(std::fs::read_to_string(&order).unwrap().split_whitespace().collect::<Vec<_>>(), ["c", "late", "a", "b"]);
    assert_eq!(daemon.request("PATCH", &format!("/api/v1/jobs/{c}"), br#"{"priority": 3}"#).0, 409);
    let events = get(&daemon, &format!("/api/v1/jobs/{b}/events"));
    assert_eq!(kinds(&events), ["submitted", "held", "priority", "released", "started", "finished"]);
    assert_eq!((&events[2]["detail"]["from"], &events[2]["detail"]["to"]), (&json!(0), &json!(-3)));
    assert_eq!(daemon.request("GET", "/api/v1/jobs/999/events", b"").0, 404);
}

#[test]
fn nobody_moves_what_is_anothers() {
    let Some((daemon, ann, bob)) = shared("a100:1", "") else { return };
    let running = ann.submit(&daemon, &[], "sleep 600");
    let waiting = ann.submit(&daemon, &[], "true");
    daemon.until_state(running, "running");
    let refusal = crate::live::refused(1, &mut bob.call(&daemon, &["priority", &waiting.to_string(), "5"]));
    assert!(refusal.contains("only its owner or an administrator"), "{refusal}");
    assert!(ann.call(&daemon, &["priority", &waiting.to_string(), "5"]).status().unwrap().success());
    assert_eq!(daemon.show(waiting)["priority"], 5);
    daemon.ok(&["priority", &waiting.to_string(), "6"]);
    assert_eq!(daemon.show(waiting)["priority"], 6);
    daemon.ok(&["cancel", &waiting.to_string(), &running.to_string()]);
}

#[test]
fn the_past_is_bars_sums_buckets_and_curves() {
    let mut daemon = Daemon::configured("a100:1,t4:1", OFTEN);
    let go = daemon.file("go");
    let twice =
        daemon.shell(&["--gpu-type", "a100", "--name", "twice", "--retries", "1", "--retry-delay", "0.01"], "sleep 0.3; exit 3");
    assert_eq!(daemon.wait_one(twice)["attempts"], 2);
    let long = daemon.shell(&["--gpu-type", "a100", "--project", "thesis"], &until_file(&go));
    daemon.until_state(long, "running");
    let half = daemon.shell(&["--gpu-type", "t4", "--share", "0.5"], "sleep 1.2");
    let on_processor = daemon.shell(&["-g", "0"], "true");
    daemon.wait(&[half, on_processor]);

    let timeline = get(&daemon, "/api/v1/timeline");
    assert_eq!(timeline["truncated"], false);
    let gpus = timeline["gpus"].as_array().unwrap();
    assert_eq!(gpus.iter().map(|gpu| gpu["type"].as_str().unwrap()).collect::<Vec<_>>(), ["a100", "t4"]);
    let bars = timeline["bars"].as_array().unwrap();
    let jobs = bars.iter().map(|bar| (bar["job"].as_u64().unwrap(), bar["end"].as_str())).collect::<Vec<_>>();
    assert_eq!(jobs, [(twice, Some("retried")), (twice, Some("failed")), (long, None), (half, Some("finished"))]);
    assert_eq!((&bars[0]["name"], &bars[0]["state"], &bars[0]["gpus"][0]), (&json!("twice"), &json!("failed"), &gpus[0]["uuid"]));
    assert_eq!((&bars[2]["finish"], &bars[2]["state"]), (&json!(null), &json!("running")));
    assert_eq!((&bars[3]["finish"], &bars[3]["share_milli"]), (&daemon.show(half)["finished_at"], &json!(500)));
    let year = get(&daemon, "/api/v1/timeline?from=2020-01-01T00:00:00Z&to=2021-01-01T00:00:00Z");
    assert_eq!(year["bars"], json!([]));

    let usage = get(&daemon, "/api/v1/usage");
    let number = |value: &Value| value.as_f64().unwrap_or_else(|| panic!("{usage:#}"));
    assert_eq!(usage["total"]["jobs"], 3);
    assert!(number(&usage["total"]["gpu_hours"]) > 0.0 && number(&usage["total"]["cost_usd"]) > 0.0);
    assert!(number(&usage["total"]["energy_kwh"]) > 0.0);
    let parts = |list: &Value| list.as_array().unwrap().iter().map(|part| number(&part["gpu_hours"])).sum::<f64>();
    for list in ["users", "projects", "gpus"] {
        assert!((parts(&usage[list]) - number(&usage["total"]["gpu_hours"])).abs() < 1e-9, "{list}: {usage:#}");
    }
    let projects = usage["projects"].as_array().unwrap().iter().map(|project| project["name"].as_str()).collect::<Vec<_>>();
    assert!(projects.contains(&Some("thesis")) && projects.contains(&None), "{usage:#}");
    // A virtual GPU is busy as soon as its job has a process: idle is at most the time until then.
    assert!(number(&usage["total"]["idle_gpu_hours"]) < number(&usage["total"]["gpu_hours"]), "{usage:#}");

    let map = get(&daemon, "/api/v1/heatmap?buckets=24");
    let row = &map["gpus"][0];
    assert_eq!((map["bucket_seconds"].as_f64(), row["allocated"].as_array().unwrap().len()), (Some(3600.0), 24));
    let last = number(&row["allocated"][23]);
    assert!(last > 0.0 && last <= 1.0, "{map:#}");
    assert_eq!(row["allocated"][0], json!(null));
    assert!(row["used"][23].as_f64().is_some_and(|used| used > 0.0) && row["power_watts"][23].is_f64(), "{map:#}");

    let curve = get(&daemon, &format!("/api/v1/jobs/{half}/samples"));
    let points = curve["points"].as_array().unwrap();
    assert!(!points.is_empty(), "{curve:#}");
    assert!(points.iter().all(|point| point["memory_mib"].is_f64() && point["power_watts"].is_f64()), "{curve:#}");
    // A job that is shorter than an interval has a point all the same.
    assert!(!get(&daemon, &format!("/api/v1/jobs/{twice}/samples"))["points"].as_array().unwrap().is_empty());
    assert_eq!(get(&daemon, &format!("/api/v1/jobs/{on_processor}/samples"))["points"], json!([]));

    daemon.restart();
    std::fs::write(&go, "").unwrap();
    daemon.wait(&[long]);
    let bars = get(&daemon, "/api/v1/timeline")["bars"].clone();
    assert_eq!(
        (&bars[2]["job"], &bars[2]["end"], &bars[2]["finish"]),
        (&json!(long), &json!("finished"), &daemon.show(long)["finished_at"])
    );
    assert_eq!(bars.as_array().unwrap().len(), 4);
}

#[test]
fn a_stretch_of_time_that_is_none_is_refused() {
    let daemon = Daemon::start("a100:1");
    for path in ["timeline", "usage", "heatmap"] {
        for query in
            ["from=yesterday", "from=2026-01-02T00:00:00Z&to=2026-01-01T00:00:00Z", "from=0001-01-01T00:00:00Z", "since=1"]
        {
            let (status, body) = daemon.request("GET", &format!("/api/v1/{path}?{query}"), b"");
            assert_eq!(status, 400, "{path}?{query}: {body}");
        }
    }
    for buckets in ["0", "2001", "-1", "many"] {
        assert_eq!(daemon.request("GET", &format!("/api/v1/heatmap?buckets={buckets}"), b"").0, 400, "{buckets}");
    }
}

#[test]
fn a_history_has_the_latest_jobs_and_says_that_there_are_earlier_ones() {
    let daemon = Daemon::start("a100:2");
    let ids = [0, 1, 2, 3].map(|_| daemon.shell(&[], "true"));
    daemon.wait(&ids);
    let part = |query: &str| {
        let history = get(&daemon, &format!("/api/v1/history{query}"));
        let jobs = history["jobs"].as_array().unwrap().iter().map(|job| job["job"]["id"].as_u64().unwrap());
        (jobs.collect::<Vec<_>>(), history["truncated"].as_bool().unwrap())
    };
    assert_eq!(part(""), (ids.to_vec(), false));
    assert_eq!(part("?limit=4"), (ids.to_vec(), false));
    assert_eq!(part("?limit=3"), (ids[1..].to_vec(), true));
    assert_eq!(part(&format!("?limit=3&before={}", ids[1])), (ids[..1].to_vec(), false));
    for limit in ["0", "100001", "-1", "all"] {
        assert_eq!(daemon.request("GET", &format!("/api/v1/history?limit={limit}"), b"").0, 400, "{limit}");
    }
}

#[test]
fn the_policies_are_those_of_the_command_line() {
    let daemon = Daemon::start("a100:1");
    assert_eq!(get(&daemon, "/api/v1/policies"), daemon.json(&["policies", "--json"]));
}

fn begin(daemon: &Daemon, ask: &Value) -> u64 {
    let (status, body) = daemon.request("POST", "/api/v1/simulations", ask.to_string().as_bytes());
    assert_eq!(status, 202, "{body}");
    serde_json::from_str::<Value>(&body).unwrap()["id"].as_u64().unwrap()
}

fn simulated(daemon: &Daemon, id: u64) -> Value {
    let mut simulation = Value::Null;
    until("the simulation is over", || {
        simulation = get(daemon, &format!("/api/v1/simulations/{id}"));
        simulation["state"] != "running"
    });
    simulation
}

const TRACE: &str = "id,arrival_s,duration_s,gpus\na,0,100,1\nb,0,10,1\nc,5,20,2\n";

#[test]
fn the_history_and_a_trace_are_simulated_under_several_policies() {
    let daemon = Daemon::start("a100:2");
    let nothing = begin(&daemon, &json!({ "source": "history", "policies": ["fcfs"] }));
    let nothing = simulated(&daemon, nothing);
    assert_eq!((&nothing["state"], &nothing["error"]), (&json!("failed"), &json!("no job with a GPU has ended in that time")));
    let ids = [0, 1, 2].map(|_| daemon.shell(&[], "sleep 0.1"));
    daemon.wait(&ids);
    let id = begin(&daemon, &json!({ "source": "history", "policies": ["fcfs", "srtf"] }));
    let history = simulated(&daemon, id);
    assert_eq!((&history["state"], &history["progress"]), (&json!("done"), &json!(1.0)), "{history:#}");
    assert_eq!(history["policies"], json!(["fcfs", "srtf"]));
    assert_eq!(history["results"].as_array().unwrap().iter().map(|one| &one["jobs"]).collect::<Vec<_>>(), [3, 3]);
    // After the policies comes what really happened.
    assert_eq!(history["happened"]["policy"], "as it happened", "{history:#}");
    assert_eq!((&history["happened"]["jobs"], &history["happened"]["completed"]), (&json!(3), &json!(3)));
    let (status, bars) = daemon.request("GET", &format!("/api/v1/simulations/{id}/bars/2"), b"");
    let bars: ScheduleBars = serde_json::from_str(&bars).unwrap();
    assert!(status == 200 && bars.gpus == ["a100", "a100"], "{status}: {bars:?}");
    let ends = bars.bars.unwrap().iter().map(|bar| bar.end).collect::<Vec<_>>();
    assert_eq!(ends, [ScheduleEnd::Finished; 3]);

    let id =
        begin(&daemon, &json!({ "source": "trace", "text": TRACE, "cluster": "a100:2,t4:2", "policies": ["sjf"], "seed": 7 }));
    let trace = simulated(&daemon, id);
    assert_eq!(trace["state"], "done", "{trace:#}");
    let file = daemon.file("trace.csv");
    std::fs::write(&file, TRACE).unwrap();
    let said = daemon.json(&[
        "sim",
        "--trace",
        file.to_str().unwrap(),
        "--cluster",
        "a100:2,t4:2",
        "--policy",
        "sjf",
        "--seed",
        "7",
        "--json",
    ]);
    assert_eq!(trace["results"][0]["jct_mean_s"], said["jct_mean_s"]);
    assert!(said["jct_mean_s"].is_f64(), "{said:#}");
    let (status, chart) = daemon.request("GET", &format!("/api/v1/simulations/{id}/gantt/0"), b"");
    assert!(status == 200 && chart.starts_with("<svg") && chart.contains("sjf"), "{status}: {chart}");
    assert_eq!(daemon.request("GET", &format!("/api/v1/simulations/{id}/gantt/1"), b"").0, 404);
    assert!(trace["happened"].is_null(), "a trace has no past of its own");
    // Over, it is forgotten.
    assert_eq!(daemon.request("DELETE", &format!("/api/v1/simulations/{id}"), b"").0, 200);
    assert_eq!(daemon.request("GET", &format!("/api/v1/simulations/{id}"), b"").0, 404);
}

#[test]
fn what_cannot_be_simulated_is_refused_or_has_failed_with_the_reason() {
    let daemon = Daemon::start("a100:2");
    let secret = daemon.file("secret.toml");
    std::fs::write(&secret, "hidden = 'of the daemon'\n").unwrap();
    for (ask, part) in [
        (json!({ "source": "trace", "text": TRACE, "policies": [] }), "policies"),
        (json!({ "source": "trace", "text": TRACE, "policies": vec!["fcfs"; 9] }), "1 to 8"),
        (json!({ "source": "trace", "text": TRACE, "policies": ["nonsense"] }), "nonsense"),
        (json!({ "source": "trace", "policies": ["fcfs"] }), "text"),
        (json!({ "source": "history", "text": TRACE, "policies": ["fcfs"] }), "text"),
        (json!({ "source": "history", "since": "tomorrow", "policies": ["fcfs"] }), "since"),
        (json!({ "source": "trace", "text": TRACE, "format": "pdf", "policies": ["fcfs"] }), "format"),
        (json!({ "source": "trace", "text": TRACE, "cluster": "a100", "policies": ["fcfs"] }), "cluster"),
        (json!({ "source": "trace", "text": TRACE, "cluster": "a100:9000000", "policies": ["fcfs"] }), "cluster"),
        (json!({ "source": "trace", "text": TRACE, "cluster": secret, "policies": ["fcfs"] }), "cluster"),
    ] {
        let (status, body) = daemon.request("POST", "/api/v1/simulations", ask.to_string().as_bytes());
        assert!(status == 400 && body.contains(part) && !body.contains("of the daemon"), "{ask}: {status} {body}");
    }
    let state = daemon.state.display().to_string();
    for (text, part) in [
        ("", "empty"),
        ("id,arrival_s,duration_s,gpus\na,0,oops,1\n", "trace:2"),
        ("id,arrival_s,duration_s,gpus\na,0,1,64\n", "64"),
        ("\u{0}\u{1}\u{2}", "not text"),
        ("<script>alert(1)</script>", "format"),
    ] {
        let id = begin(&daemon, &json!({ "source": "trace", "text": text, "policies": ["fcfs"] }));
        let simulation = simulated(&daemon, id);
        let error = simulation["error"].as_str().unwrap_or_default();
        assert_eq!((&simulation["state"], &simulation["results"]), (&json!("failed"), &json!([])), "{text}: {simulation:#}");
        assert!(error.contains(part) && !error.contains(&state), "{text}: {error}");
    }
    assert_eq!(daemon.request("GET", "/api/v1/simulations/1", b"").0, 404);
}

/// Some minutes of work: many jobs that all wait for each other under a policy that solves for all of them.
fn endless() -> Value {
    let text = "[generate]\nmodel = \"poisson\"\njobs = 2000000\njobs_per_hour = 100000.0\n";
    json!({ "source": "trace", "text": text, "cluster": "a100:64", "policies": ["las", "srtf", "gittins", "sjf"] })
}

/// The processes that simulate for a daemon.
fn simulators(daemon: &Daemon) -> Vec<u32> {
    let folder = daemon.state.join("simulations");
    let inside = |pid: &u32| std::fs::read_link(format!("/proc/{pid}/cwd")).is_ok_and(|cwd| cwd.starts_with(&folder));
    let pids = std::fs::read_dir("/proc").unwrap().flatten().filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    pids.filter(inside).filter(|pid| crate::live::is_alive(*pid)).collect()
}

#[test]
fn a_simulation_is_stopped_by_its_user_and_never_outlives_the_daemon() {
    let mut daemon = Daemon::start("a100:2");
    let id = begin(&daemon, &endless());
    until("it has a process", || !simulators(&daemon).is_empty());
    // One at a time.
    let (status, body) = daemon.request("POST", "/api/v1/simulations", endless().to_string().as_bytes());
    assert_eq!(status, 429, "{body}");
    assert_eq!(daemon.request("DELETE", &format!("/api/v1/simulations/{id}"), b"").0, 200);
    assert_eq!(get(&daemon, &format!("/api/v1/simulations/{id}"))["state"], "cancelled");
    until("its process is gone", || simulators(&daemon).is_empty());

    begin(&daemon, &endless());
    until("it has a process", || !simulators(&daemon).is_empty());
    daemon.ok(&["down"]);
    until("its process is gone", || simulators(&daemon).is_empty());
    assert!(daemon.ended().success());

    daemon.up();
    begin(&daemon, &endless());
    until("it has a process", || !simulators(&daemon).is_empty());
    daemon.kill();
    until("its process is gone", || simulators(&daemon).is_empty());
    daemon.up();
    assert_eq!(std::fs::read_dir(daemon.state.join("simulations")).unwrap().count(), 0);
}

#[test]
fn a_simulation_runs_as_the_user_who_asked_for_it() {
    let Some((daemon, ann, _)) = crate::live::queue::users::shared("a100:1", "") else { return };
    let token = ann.json(&daemon, &["token", "create", "--name", "test", "--scope", "submit", "--json"]);
    let port = crate::live::http::port::Port::with_token(&daemon, token["token"].as_str().unwrap());
    let started = port.post("/api/v1/simulations", &endless());
    assert_eq!(started.status, 202, "{}", started.text());
    let owner = |pid: &u32| std::fs::metadata(format!("/proc/{pid}")).map(|data| std::os::unix::fs::MetadataExt::uid(&data)).ok();
    until("it is a process of the user's", || simulators(&daemon).iter().any(|pid| owner(pid) == Some(ann.uid)));
    assert_eq!(port.ask("DELETE", &format!("/api/v1/simulations/{}", started.json()["id"]), &[], b"").status, 200);
    until("its process is gone", || simulators(&daemon).is_empty());
}
