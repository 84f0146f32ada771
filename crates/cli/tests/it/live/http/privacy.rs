//! Privacy between users: with `users.private`, nothing that a user wrote reaches another user, by whatever route.

use crate::live::http::port::{Port, read_chunk, read_head};
use crate::live::queue::users::{User, shared};
use crate::live::{Daemon, until};
use serde_json::{Value, json};
use std::io::{BufReader, Write};

/// A word that is in everything that the owner writes.
const SECRET: &str = "sesame";

/// Jobs whose every word is secret: one that runs, one that waits, one that is done, one that failed with a folder in its reason.
fn secret_jobs(daemon: &Daemon, owner: &User) -> Vec<u64> {
    let folder = daemon.file("sesame-folder");
    std::fs::create_dir(&folder).unwrap();
    let cwd = folder.display().to_string();
    let submit = |number: u64, more: &[&str], line: &str| {
        let (name, key) = (format!("sesame-name-{number}"), format!("sesame-key-{number}"));
        let options = ["--name", &name, "--key", &key, "--env", "SESAME=sesame-env", "--cwd", &cwd];
        let options = options.iter().chain(more).copied().collect::<Vec<_>>();
        owner.submit(daemon, &options, &format!("{line}; echo sesame-log"))
    };
    let done = submit(1, &[], "true sesame-command");
    let failed = submit(2, &["--hold"], "true sesame-command");
    assert_eq!(daemon.wait_one(done)["state"], "done");
    std::fs::remove_dir(&folder).unwrap();
    daemon.ok(&["release", &failed.to_string()]);
    let reason = daemon.wait_one(failed)["reason"].as_str().unwrap().to_owned();
    assert!(reason.contains(SECRET), "its reason names its folder: {reason}");
    std::fs::create_dir(&folder).unwrap();
    let running = submit(3, &["--estimate", "3600"], "echo sesame-log; sleep 600");
    daemon.until_state(running, "running");
    let waiting = submit(4, &[], "sleep 600");
    vec![done, failed, running, waiting]
}

/// A group whose every word is secret.
fn secret_group(daemon: &Daemon, owner: &User) -> u64 {
    let sweep =
        ["--hold", "--name", "sesame-group", "--param", "sesame-lr=sesame-1,sesame-2", "--json", "--", "true", "{sesame-lr}"];
    owner.json(daemon, &[&["submit"], &sweep[..]].concat())["group"].as_u64().unwrap()
}

/// Every address that can be read by the description of the API, for these jobs, this group and this simulation; with filters that ask
/// for the secret.
fn addresses(jobs: &[u64], group: u64, simulation: u64) -> Vec<String> {
    let description: Value =
        serde_json::from_str(include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/../daemon/openapi.json"))).unwrap();
    let mut addresses = Vec::new();
    for (path, methods) in description["paths"].as_object().unwrap() {
        // The stream is read in a way of its own.
        if methods.get("get").is_none() || path == "/events" {
            continue;
        }
        if path.contains("/simulations/") {
            addresses.push(path.replace("{id}", &simulation.to_string()).replace("{index}", "0"));
        } else if path.contains("/groups/") {
            addresses.push(path.replace("{id}", &group.to_string()));
        } else if path.contains("{id}") {
            addresses.extend(jobs.iter().map(|job| path.replace("{id}", &job.to_string()).replace("/wait", "/wait?timeout=0")));
        } else {
            // A link that was never made says nothing.
            let path = path.replace("{code}", "none");
            assert!(!path.contains('{'), "{path}: what stands for its parameter?");
            addresses.push(path);
        }
    }
    let more = ["/api/v1/jobs?all=true", "/api/v1/jobs?state=failed", "/api", "/show/work", "/show/finished", "/show/gpus", "/"];
    addresses.extend(more.map(str::to_owned));
    addresses
}

/// All events until now, as the stream tells them.
fn events(port: &Port) -> String {
    let mut stream = port.connect();
    let head = port.head("GET", "/events", &[("last-event-id", "0")]);
    stream.write_all(format!("{head}\r\n").as_bytes()).unwrap();
    let mut stream = BufReader::new(stream);
    assert_eq!(read_head(&mut stream).0, 200);
    let mut text = String::new();
    while !text.contains("event: started\n") || !text.contains("event: failed\n") {
        text.push_str(&String::from_utf8(read_chunk(&mut stream).unwrap()).unwrap());
    }
    text
}

/// A port with a new token of a user.
fn port_of(daemon: &Daemon, user: &User) -> Port {
    let token = user.json(daemon, &["token", "create", "--name", "test", "--scope", "submit", "--json"]);
    Port::with_token(daemon, token["token"].as_str().unwrap())
}

/// A simulation of the past by a user, once it is over.
fn simulation(port: &Port) -> u64 {
    let started = port.post("/api/v1/simulations", &json!({ "source": "history", "policies": ["fcfs"] }));
    assert_eq!(started.status, 202, "{}", started.text());
    let id = started.json()["id"].as_u64().unwrap();
    until("the simulation is over", || {
        let shown = port.get(&format!("/api/v1/simulations/{id}")).json();
        assert_ne!(shown["state"], "failed", "{shown:#}");
        shown["state"] == "done"
    });
    id
}

#[test]
fn nothing_that_a_user_wrote_reaches_another_by_any_route() {
    let Some((daemon, ann, bob)) = shared("a100:1", "[users]\nprivate = true\n") else { return };
    let jobs = secret_jobs(&daemon, &ann);
    let group = secret_group(&daemon, &ann);
    let own = bob.submit(&daemon, &["--name", "own-name"], "sleep 600");
    let bobs = port_of(&daemon, &bob);
    let simulation = simulation(&bobs);
    for address in addresses(&jobs, group, simulation) {
        let reply = bobs.get(&address);
        let text = reply.text();
        let is_refused = address.ends_with("/logs") || address.starts_with("/sign-in/");
        assert!(
            if is_refused { matches!(reply.status, 401 | 403) } else { reply.status < 400 },
            "{address}: {} {text}",
            reply.status
        );
        assert!(!text.contains(SECRET), "{address} tells another user: {text}");
    }
    let told = events(&bobs);
    assert!(!told.contains(SECRET), "the stream of events tells another user: {told}");
    for address in ["/api/v1/jobs?q=sesame", "/api/v1/jobs?q=sesame&all=true"] {
        assert_eq!(bobs.get(address).json(), json!([]), "{address}: what is hidden cannot be searched for");
    }
    let folder = daemon.file("of-bob");
    std::fs::create_dir(&folder).unwrap();
    std::os::unix::fs::chown(&folder, Some(bob.uid), None).unwrap();
    let trace = folder.join("trace.csv").display().to_string();
    for job in &jobs {
        let id = job.to_string();
        for arguments in [&["show", &id][..], &["explain", &id], &["queue", "--all"], &["history", "export", "-o", &trace]] {
            let output = bob.call(&daemon, arguments).output().unwrap();
            assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
            assert!(!String::from_utf8_lossy(&output.stdout).contains(SECRET), "{arguments:?} tells another user");
        }
    }
    assert!(!std::fs::read_to_string(&trace).unwrap().contains(SECRET));
    // The blocker is named by its number alone, where its owner is told more.
    let running = jobs[2];
    let explained = bob.json(&daemon, &["explain", "--json", &own.to_string()]);
    let text = explained["blockers"][0]["text"].as_str().unwrap();
    assert_eq!(text, format!("GPU 0 runs job {running}"), "{explained:#}");
    let hers = ann.json(&daemon, &["explain", "--json", &jobs[3].to_string()]);
    assert!(hers["blockers"][0]["text"].as_str().unwrap().contains("until about"), "{hers:#}");
    // What he may see: that it is there, whose it is, and what it takes.
    let shown = bob.json(&daemon, &["show", "--json", &running.to_string()]);
    let seen = (&shown["user"], &shown["state"], &shown["gpu_indices"], &shown["name"], &shown["command"]);
    assert_eq!(seen, (&json!(ann.name), &json!("running"), &json!([0]), &Value::Null, &json!([])));
}

#[test]
fn owners_and_administrators_see_all_and_so_do_others_where_jobs_are_not_private() {
    let Some((daemon, ann, bob)) = shared("a100:1", "[users]\nprivate = true\n") else { return };
    let id = ann.submit(&daemon, &["--name", "sesame-name"], "sleep 600; true sesame-command").to_string();
    let bobs = bob.submit(&daemon, &["--name", "own-name"], "sleep 600").to_string();
    let words = |text: String| ["sesame-name", "sesame-command"].iter().all(|word| text.contains(word));
    assert!(words(ann.json(&daemon, &["show", "--json", &id]).to_string()), "its owner");
    assert!(words(daemon.json(&["show", "--json", &id]).to_string()), "an administrator");
    assert!(bob.json(&daemon, &["queue", "--json"]).to_string().contains("own-name"), "his own in the list");
    let found = port_of(&daemon, &bob).get("/api/v1/jobs?q=own-name").json();
    assert_eq!(found[0]["id"].to_string(), bobs, "he finds his own");
    let Some((open, ann, bob)) = shared("a100:1", "") else { return };
    let id = ann.submit(&open, &["--name", "sesame-name"], "sleep 600; true sesame-command").to_string();
    assert!(words(bob.json(&open, &["show", "--json", &id]).to_string()), "not private");
}
