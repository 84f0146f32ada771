//! Who may do what over the port: tokens, sessions, and what each of them allows.

use crate::live::http::port::{Port, Reply, own_token};
use crate::live::queue::users::shared;
use crate::live::{Daemon, until};
use serde_json::{Value, json};

fn made(daemon: &Daemon, arguments: &[&str]) -> Value {
    daemon.json(&["token", "create", "--json"].iter().chain(arguments).copied().collect::<Vec<_>>())
}

fn token_of(made: &Value) -> &str {
    made["token"].as_str().unwrap()
}

/// A job that any machine can run.
fn job() -> Value {
    json!({ "command": ["true"], "cwd": "/", "hold": true })
}

/// Everything that changes something: every such route of the API's own description, with a request that would do it.
fn changes(id: u64) -> Vec<(String, String, Value)> {
    let api: Value = serde_json::from_str(include_str!("../../../../../daemon/openapi.json")).unwrap();
    let bodies = [
        ("/api/v1/jobs", job()),
        ("/api/v1/jobs/dry-run", job()),
        ("/api/v1/jobs/many", json!({ "submits": [job()] })),
        ("/api/v1/jobs/{id}", json!({ "priority": 1 })),
        ("/api/v1/jobs/act", json!({ "verb": "cancel", "ids": [id] })),
        ("/api/v1/sign-in-links", json!({ "token": "rota_x" })),
        ("/api/v1/policy", json!({ "policy": "fcfs" })),
        ("/api/v1/claims", json!({ "gpus": 1, "pid": std::process::id() })),
        ("/api/v1/tokens", json!({ "name": "more", "scope": "read" })),
        ("/api/v1/notify", json!({ "kind": "webhook", "address": "http://127.0.0.1:9/" })),
        ("/api/v1/simulations", json!({ "source": "history", "policies": ["fcfs"] })),
    ];
    let mut all = Vec::new();
    for (path, methods) in api["paths"].as_object().unwrap() {
        for method in methods.as_object().unwrap().keys().filter(|method| *method != "get") {
            // Whoever signs in or out changes nothing but the browser's own session.
            if path == "/api/v1/session" {
                continue;
            }
            let body = bodies.iter().find(|(known, _)| known == path).map_or_else(|| json!({}), |(_, body)| body.clone());
            let query = if path == "/api/v1/profiles" { "?class=x" } else { "" };
            for verb in if path.contains("{verb}") { &["cancel", "hold", "release", "retry"][..] } else { &[""] } {
                let path = path.replace("{id}", &id.to_string()).replace("{verb}", verb);
                all.push((method.to_uppercase(), format!("{path}{query}"), body.clone()));
            }
        }
    }
    assert!(all.len() >= 18, "{all:?}");
    all
}

#[test]
fn without_a_good_token_nothing_is_told_or_done() {
    let daemon = Daemon::start("a100:1");
    let id = daemon.submit(&["--hold", "--", "true"]);
    let expired = made(&daemon, &["--name", "short", "--expires", "1"]);
    let revoked = made(&daemon, &["--name", "gone"]);
    daemon.ok(&["token", "revoke", "gone"]);
    until("it is over", || Port::with_token(&daemon, token_of(&expired)).get("/api/v1/status").status == 401);
    let nobody = [
        Port::of(&daemon),
        Port::with_token(&daemon, "rota_wrong"),
        Port::with_token(&daemon, &own_token(&daemon)[..68]),
        Port::with_token(&daemon, token_of(&expired)),
        Port::with_token(&daemon, token_of(&revoked)),
        Port { headers: vec![("cookie".to_owned(), "rota_session=1".to_owned())], ..Port::of(&daemon) },
        Port { headers: vec![("authorization".to_owned(), format!("Basic {}", own_token(&daemon)))], ..Port::of(&daemon) },
    ];
    for port in &nobody {
        for path in
            ["jobs", "jobs/1", "jobs/1/logs", "jobs/1/explain", "gpus", "status", "history", "profiles", "tokens", "session"]
        {
            let reply = port.get(&format!("/api/v1/{path}"));
            assert_eq!((reply.status, reply.problem().as_str()), (401, "unauthorized"), "{path}");
        }
        assert_eq!(port.get("/events").status, 401);
        for (method, path, body) in changes(id) {
            assert_eq!(port.send(&method, &path, &body).status, 401, "{method} {path}");
        }
        let reply = port.post("/api/v1/session", &json!({ "token": token_of(&revoked) }));
        assert_eq!((reply.status, reply.header("set-cookie")), (401, None));
    }
    assert_eq!(daemon.state_of(id), "held");
    assert_eq!(Port::of(&daemon).get("/healthz").status, 200);
}

#[test]
fn a_scope_is_a_limit_on_every_route() {
    let daemon = Daemon::start("a100:1");
    let id = daemon.submit(&["--hold", "--", "true"]);
    let read = Port::scoped(&daemon, "looker", "read");
    let submit = Port::scoped(&daemon, "worker", "submit");
    for path in ["jobs", "jobs/1", "jobs/1/explain", "gpus", "status", "history", "profiles", "tokens", "session", "jobs/1/logs"]
    {
        assert_eq!(read.get(&format!("/api/v1/{path}")).status, 200, "{path}");
    }
    for (method, path, body) in changes(id) {
        let reply = read.send(&method, &path, &body);
        assert_eq!((reply.status, reply.problem().as_str()), (403, "forbidden"), "{method} {path}");
    }
    assert_eq!(daemon.json(&["queue", "--all", "--json"]).as_array().unwrap().len(), 1, "nothing was submitted");
    assert_eq!(daemon.state_of(id), "held");
    let whoami = |port: &Port| port.get("/api/v1/session").json();
    assert_eq!((&whoami(&read)["scope"], &whoami(&submit)["scope"]), (&json!("read"), &json!("submit")));
    assert_eq!((&whoami(&submit)["csrf"], &whoami(&Port::own(&daemon))["scope"]), (&json!(null), &json!("admin")));

    // Who may submit has their own jobs, and not the machine.
    assert_eq!(submit.post("/api/v1/jobs", &job()).status, 201);
    assert_eq!(submit.post(&format!("/api/v1/jobs/{id}/cancel"), &json!(null)).status, 200);
    for (path, body) in [("drain", json!({})), ("resume", json!({})), ("shutdown", json!(null))] {
        let reply = submit.post(&format!("/api/v1/{path}"), &body);
        assert_eq!((reply.status, reply.problem().as_str()), (403, "forbidden"), "{path}");
    }
    // Nobody makes more of what they have.
    for (scope, status) in [("read", 201), ("submit", 201), ("admin", 403)] {
        assert_eq!(submit.post("/api/v1/tokens", &json!({ "name": format!("of {scope}"), "scope": scope })).status, status);
    }
    let short = made(&daemon, &["--name", "short", "--expires", "1h"]);
    let heir = Port::with_token(&daemon, token_of(&short)).post("/api/v1/tokens", &json!({ "name": "heir", "scope": "read" }));
    assert_eq!(heir.json()["expires_at"], short["expires_at"], "it cannot outlive the one that made it");
}

#[test]
fn a_workers_token_is_a_token_file_and_opens_nothing_else() {
    let daemon = Daemon::with(&["--virtual-gpus", "a100:1", "--workers-port", "0"], "", &[]);
    let file = daemon.ok(&["token", "create", "--name", "berta", "--scope", "worker"]);
    assert!(file.starts_with("rota-worker-1 rota_") && file.contains(" sha256:"), "{file}");
    let secret = file.split_whitespace().nth(1).unwrap();
    assert_eq!(Port::with_token(&daemon, secret).get("/api/v1/status").status, 401);
    assert_eq!(Port::of(&daemon).post("/api/v1/session", &json!({ "token": secret })).status, 401);
    assert_eq!(daemon.json(&["token", "list", "--json"])[0]["scope"], "worker");
    let ask = json!({ "name": "clara", "scope": "worker" });
    let reply = Port::scoped(&daemon, "ada", "submit").post("/api/v1/tokens", &ask);
    assert_eq!((reply.status, reply.problem().as_str()), (403, "forbidden"), "workers are given the jobs of everybody");
    let alone = Daemon::start("a100:1");
    assert_eq!(Port::own(&alone).post("/api/v1/tokens", &ask).status, 409, "no workers may join it");
}

#[test]
fn tokens_are_made_listed_and_revoked_by_name_or_number() {
    let mut daemon = Daemon::start("a100:1");
    assert_eq!(daemon.ok(&["token", "list"]).trim(), "no tokens");
    let first = made(&daemon, &["--name", "laptop"]);
    assert_eq!((&first["id"], &first["scope"], &first["expires_at"]), (&json!(1), &json!("submit"), &json!(null)), "{first}");
    let second = made(&daemon, &["--name", "wall", "--scope", "read", "--expires", "30d"]);
    for (arguments, code, part) in [
        (&["--name", "laptop"][..], 1, "already"),
        (&["--name", "17"], 2, "add a letter"),
        (&["--name", ""], 2, "1 to 100"),
        (&["--name", "x", "--user", "no-such-user"], 2, "no user `no-such-user`"),
        (&["--name", "x", "--expires", "0"], 2, "--expires"),
    ] {
        let said = daemon.refusal(code, &["token", "create"].iter().chain(arguments).copied().collect::<Vec<_>>());
        assert!(said.contains(part), "{said}");
    }
    let port = Port::with_token(&daemon, token_of(&first));
    assert_eq!(port.get("/api/v1/status").status, 200);
    let list = daemon.ok(&["token", "list", "--json"]);
    assert!(!list.contains(token_of(&first)), "it is shown once");
    until("its use is noted", || daemon.json(&["token", "list", "--json"])[0]["last_used_at"].is_string());
    assert!(daemon.ok(&["token", "list"]).contains("wall"));
    // At rest there are hashes.
    let store = rusqlite::Connection::open(daemon.state.join("rota.db")).unwrap();
    let hash: Vec<u8> = store.query_row("SELECT hash FROM tokens WHERE id = 1", [], |row| row.get(0)).unwrap();
    assert_eq!(hash.len(), 32);
    drop(store);
    daemon.restart();
    let port = Port::with_token(&daemon, token_of(&first));
    assert_eq!(port.get("/api/v1/status").status, 200, "it outlives the daemon");
    daemon.ok(&["token", "revoke", "laptop"]);
    assert_eq!(port.get("/api/v1/status").status, 401);
    daemon.ok(&["token", "revoke", &second["id"].to_string()]);
    assert!(daemon.refusal(1, &["token", "revoke", "laptop"]).contains("there is no token `laptop`"));
    assert!(daemon.refusal(1, &["token", "revoke", "2"]).contains("no token 2"));
    daemon.restart();
    assert_eq!(Port::with_token(&daemon, token_of(&second)).get("/api/v1/status").status, 401);
}

#[test]
fn nobody_reaches_anothers_jobs_by_a_token() {
    let Some((daemon, ann, _)) = shared("a100:1", "") else { return };
    let hers = ann.submit(&daemon, &["--hold"], "echo private");
    let bob = Port::with_token(&daemon, token_of(&made(&daemon, &["--name", "bob", "--user", "daemon"])));
    assert_eq!(bob.get("/api/v1/session").json()["user"], "daemon");
    for verb in ["cancel", "hold", "release"] {
        let reply = bob.post(&format!("/api/v1/jobs/{hers}/{verb}"), &json!(null));
        assert_eq!((reply.status, reply.problem().as_str()), (403, "forbidden"), "{verb}");
    }
    assert_eq!(bob.get(&format!("/api/v1/jobs/{hers}/logs")).status, 403);
    for path in ["..%2f..%2ftoken", "%2e%2e/logs", "1/../../../../etc/passwd", "1%00/logs", "-1/logs"] {
        let reply = bob.get(&format!("/api/v1/jobs/{path}"));
        assert!([400, 404].contains(&reply.status), "{path}: {reply:?}");
        reply.problem();
    }
    // What is hers to revoke is not his.
    let her_token = made(&daemon, &["--name", "ann", "--user", "nobody"]);
    assert_eq!(bob.send("DELETE", &format!("/api/v1/tokens/{}", her_token["id"]), &json!(null)).status, 404);
    assert!(!bob.get("/api/v1/tokens").text().contains("\"ann\""));
    let reply = bob.post("/api/v1/tokens", &json!({ "name": "hers", "scope": "read", "user": "nobody" }));
    assert_eq!(reply.status, 403, "{reply:?}");
    // His own run as him.
    let reply = bob.post("/api/v1/jobs", &json!({ "command": ["id", "-un"], "cwd": "/", "env": [["PATH", "/usr/bin:/bin"]] }));
    let id = reply.json()["ids"][0].as_u64().unwrap();
    assert_eq!(daemon.wait_one(id)["user"], "daemon");
    assert_eq!(bob.get(&format!("/api/v1/jobs/{id}/logs")).text(), "daemon\n");
    // Over the socket everybody makes tokens for themselves, and none with the rights of an administrator.
    let own = ann.json(&daemon, &["token", "create", "--name", "own", "--json"]);
    assert_eq!(Port::with_token(&daemon, token_of(&own)).get(&format!("/api/v1/jobs/{hers}/logs")).status, 200);
    for arguments in [&["--scope", "admin"][..], &["--user", "root"]] {
        let arguments = ["token", "create", "--name", "more"].iter().chain(arguments).copied().collect::<Vec<_>>();
        crate::live::refused(1, &mut ann.call(&daemon, &arguments));
    }
}

fn signed_in(daemon: &Daemon, token: &str) -> (Port, Reply) {
    let reply = Port::of(daemon).post("/api/v1/session", &json!({ "token": token }));
    assert_eq!(reply.status, 200, "{reply:?}");
    let cookie = reply.header("set-cookie").unwrap().split(';').next().unwrap().to_owned();
    (Port { headers: vec![("cookie".to_owned(), format!("other=1; {cookie}"))], ..Port::of(daemon) }, reply)
}

#[test]
fn a_browser_signs_in_acts_with_its_word_and_signs_out() {
    let daemon = Daemon::start("a100:1");
    let id = daemon.submit(&["--hold", "--", "true"]);
    let made = made(&daemon, &["--name", "page"]);
    let (page, reply) = signed_in(&daemon, token_of(&made));
    let cookie = reply.header("set-cookie").unwrap();
    for part in ["HttpOnly", "SameSite=Strict", "Path=/", "Max-Age=43200"] {
        assert!(cookie.contains(part), "{cookie}");
    }
    assert!(!cookie.contains("Secure"), "there is no TLS here: {cookie}");
    let csrf = reply.json()["csrf"].as_str().unwrap().to_owned();
    assert_eq!(page.get("/api/v1/session").json(), reply.json());
    assert_eq!(page.get("/api/v1/jobs").json()[0]["id"], id);
    let release = format!("/api/v1/jobs/{id}/cancel");
    for word in [&[][..], &[("x-rota-csrf", "")], &[("x-rota-csrf", "wrong")], &[("x-rota-csrf", &csrf[1..])]] {
        let reply = page.ask("POST", &release, word, b"");
        assert_eq!((reply.status, reply.problem().as_str()), (403, "csrf"));
        let reply = page.ask("DELETE", "/api/v1/session", word, b"");
        assert_eq!((reply.status, reply.problem().as_str()), (403, "csrf"));
    }
    assert_eq!(daemon.state_of(id), "held");
    // The word of another session is as good as none.
    let (_, other) = signed_in(&daemon, token_of(&made));
    let foreign = other.json()["csrf"].as_str().unwrap().to_owned();
    assert_eq!(page.ask("POST", &release, &[("x-rota-csrf", &foreign)], b"").problem(), "csrf");
    assert_eq!(page.ask("POST", &release, &[("x-rota-csrf", &csrf)], b"").status, 200);
    assert_eq!(daemon.state_of(id), "cancelled");
    // Whoever sends a token with it means the token.
    let bearer = format!("Bearer {}", token_of(&made));
    assert_eq!(page.ask("POST", "/api/v1/jobs/99/cancel", &[("authorization", &bearer)], b"").status, 404);
    assert_eq!(page.ask("GET", "/api/v1/jobs", &[("authorization", "Bearer wrong")], b"").status, 401);
    let out = page.ask("DELETE", "/api/v1/session", &[("x-rota-csrf", &csrf)], b"");
    assert!(out.status == 200 && out.header("set-cookie").unwrap().contains("Max-Age=0"), "{out:?}");
    assert_eq!(page.get("/api/v1/session").status, 401);
}

#[test]
fn a_session_ends_with_its_time_or_its_token() {
    let daemon = Daemon::configured("a100:1", "[http]\nsession_hours = 0.0003\n");
    let (page, reply) = signed_in(&daemon, &own_token(&daemon));
    assert_eq!(reply.json()["scope"], "admin");
    until("the session is over", || page.get("/api/v1/session").status == 401);
    let daemon = Daemon::start("a100:1");
    let made = made(&daemon, &["--name", "page"]);
    let (page, _) = signed_in(&daemon, token_of(&made));
    assert_eq!(page.get("/api/v1/session").status, 200);
    daemon.ok(&["token", "revoke", "page"]);
    assert_eq!(page.get("/api/v1/session").status, 401);
}
