//! The door to the port: what every answer has, what is refused and how, and those who dawdle.

use crate::live::http::port::{Port, read_head, read_reply};
use crate::live::{Daemon, refused, until};
use serde_json::json;
use std::io::{BufReader, Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::sync::Arc;

#[test]
fn every_answer_tells_browsers_to_trust_nothing_else() {
    let daemon = Daemon::start("a100:1");
    let port = Port::own(&daemon);
    for path in ["/", "/jobs/17", "/api/v1/jobs", "/api/v1/nothing", "/healthz", "/missing.js", "/api/v1/openapi.json"] {
        let reply = port.get(path);
        let policy = reply.header("content-security-policy").unwrap();
        assert!(policy.starts_with("default-src 'none'; script-src 'self'; ") && policy.contains("frame-ancestors 'none'"));
        for (name, value) in [
            ("x-content-type-options", "nosniff"),
            ("referrer-policy", "no-referrer"),
            ("cross-origin-opener-policy", "same-origin"),
        ] {
            assert_eq!(reply.header(name), Some(value), "{path}");
        }
        let caching = reply.header("cache-control");
        assert_eq!(caching, Some(if ["/", "/jobs/17"].contains(&path) { "no-cache" } else { "no-store" }), "{path}");
    }
}

#[test]
fn the_page_needs_no_token_and_leads_nowhere_else() {
    let daemon = Daemon::start("a100:1");
    let port = Port::of(&daemon);
    let page = port.get("/");
    assert_eq!((page.status, page.header("content-type")), (200, Some("text/html; charset=utf-8")));
    assert!(page.text().to_lowercase().contains("<!doctype html>"), "{}", page.text());
    assert_eq!(port.get("/history").body, page.body, "the page has addresses of its own");
    let packed = port.ask("GET", "/", &[("accept-encoding", "br, gzip")], b"");
    assert_eq!(packed.header("content-encoding"), Some("gzip"));
    assert_eq!(packed.body[..2], [0x1f, 0x8b]);
    let tag = page.header("etag").unwrap();
    let again = port.ask("GET", "/", &[("if-none-match", tag)], b"");
    assert_eq!((again.status, again.body.len()), (304, 0));
    let head = port.ask("HEAD", "/", &[], b"");
    assert_eq!((head.status, head.body.len()), (200, 0));
    for path in [
        "/../Cargo.toml",
        "/..%2f..%2ftoken.txt",
        "/%2e%2e/%2e%2e/rota.db",
        "/assets/../../rota.db",
        "//etc/passwd.txt",
        "/assets/missing.js",
        "/api/v1/jobs/1/logs/../../../../token",
    ] {
        let reply = port.get(path);
        assert_eq!((reply.status, reply.problem().as_str()), (404, "not-found"), "{path}");
    }
    let reply = port.post("/", &json!(null));
    assert_eq!((reply.status, reply.problem().as_str(), reply.header("allow")), (405, "method", Some("GET, HEAD")));
}

#[test]
fn every_refusal_has_one_form() {
    let daemon = Daemon::start("a100:1");
    let port = Port::own(&daemon);
    let as_json = [("content-type", "application/json")];
    let as_text = [("content-type", "text/plain")];
    for (method, path, headers, body, status, kind) in [
        ("POST", "/api/v1/jobs", &as_json[..], "{", 400, "bad-input"),
        ("POST", "/api/v1/jobs", &as_json, "{\"command\": 3}", 422, "bad-input"),
        ("POST", "/api/v1/jobs", &as_json, "{\"command\": [], \"cwd\": \"/\"}", 400, "bad-input"),
        ("POST", "/api/v1/jobs", &as_text, "{}", 415, "media-type"),
        ("PATCH", "/api/v1/status", &[], "", 405, "method"),
        ("GET", "/api/v1/jobs?limit=many", &[], "", 400, "bad-input"),
        ("GET", "/api/v1/jobs?limit=0", &[], "", 400, "bad-input"),
        ("GET", "/api/v1/jobs?limit=10001", &[], "", 400, "bad-input"),
        ("GET", "/api/v1/jobs?sort=no", &[], "", 400, "bad-input"),
        ("GET", "/api/v1/jobs?since=yesterday", &[], "", 400, "bad-input"),
        ("GET", "/api/v1/jobs/x", &[], "", 400, "bad-input"),
        ("GET", "/api/v1/jobs/18446744073709551615", &[], "", 404, "not-found"),
        ("GET", "/api/v1/nothing", &[], "", 404, "not-found"),
        ("POST", "/api/v1/jobs/1/explode", &[], "", 404, "not-found"),
        ("POST", "/api/v1/session", &as_json, "{\"token\": \"\", \"more\": 1}", 422, "bad-input"),
    ] {
        let reply = port.ask(method, path, headers, body.as_bytes());
        assert_eq!((reply.status, reply.problem().as_str()), (status, kind), "{method} {path}: {}", reply.text());
    }
    assert!(port.ask("PATCH", "/api/v1/status", &[], b"").header("allow").unwrap().contains("GET"));
    let large = format!("{{\"command\": [\"{}\"], \"cwd\": \"/\"}}", "x".repeat(17 << 20));
    let reply = port.ask("POST", "/api/v1/jobs", &as_json, large.as_bytes());
    // Who is still sending may find the connection closed before it has read the answer.
    assert!(reply.status == 0 || (reply.status == 413 && reply.problem() == "too-large"), "{}", reply.status);
    assert_eq!(port.get("/api/v1/jobs?all=true").json(), json!([]), "nothing was accepted");
}

#[test]
fn a_submit_that_is_repeated_with_its_key_is_one() {
    let daemon = Daemon::start("a100:1");
    let port = Port::own(&daemon);
    let submit = |key: &str, body: serde_json::Value| {
        port.ask(
            "POST",
            "/api/v1/jobs",
            &[("content-type", "application/json"), ("idempotency-key", key)],
            body.to_string().as_bytes(),
        )
    };
    let job = json!({ "command": ["true"], "cwd": "/", "hold": true });
    let first = submit("one", job.clone());
    assert_eq!((first.status, &first.json()["existing"]), (201, &json!(false)));
    assert_eq!(submit("one", job.clone()).json(), json!({ "ids": first.json()["ids"], "existing": true }));
    let keyed = |key: &str| json!({ "command": ["true"], "cwd": "/", "hold": true, "key": key });
    assert_eq!(submit("one", keyed("one")).json()["ids"], first.json()["ids"]);
    assert_eq!(port.post("/api/v1/jobs", &keyed("one")).json()["ids"], first.json()["ids"], "it is the key of the body");
    assert_eq!(submit("one", keyed("two")).status, 400);
    assert_ne!(submit("two", job).json()["ids"], first.json()["ids"]);
}

#[test]
fn those_who_dawdle_are_let_go_and_keep_nobody_out() {
    let daemon = Daemon::configured("a100:1", "[http]\npatience_seconds = 0.5\nconnections_max = 8\n");
    let port = Port::own(&daemon);
    // A request that never ends, one that never begins, and a body that never comes.
    let mut slow = Vec::new();
    for begun in ["GET /api/v1/status HTTP/1.1\r\nhost: rota\r\nx-slow: ", "", "GET"] {
        let mut stream = port.connect();
        stream.write_all(begun.as_bytes()).unwrap();
        slow.push(stream);
    }
    let mut body = port.connect();
    let head = port.head("POST", "/api/v1/jobs", &[("content-type", "application/json"), ("content-length", "1000")]);
    body.write_all(format!("{head}\r\n{{").as_bytes()).unwrap();
    slow.push(body);
    assert_eq!(port.get("/api/v1/status").status, 200, "others are served meanwhile");
    for stream in slow {
        let mut answer = Vec::new();
        // However it is told, the connection ends.
        _ = BufReader::new(stream).read_to_end(&mut answer);
        let answer = String::from_utf8_lossy(&answer).into_owned();
        assert!(answer.is_empty() || answer.contains(" 400 ") || answer.contains(" 408 "), "{answer}");
    }
    // One after the other, more than there is room for.
    for _ in 0..20 {
        assert_eq!(port.get("/api/v1/status").status, 200);
    }
}

#[test]
fn a_client_that_never_takes_its_answer_is_let_go() {
    let daemon = Daemon::configured("a100:1", "[http]\npatience_seconds = 0.5\nconnections_max = 1\n");
    let port = Port::own(&daemon);
    // As much of each as a list shows.
    let long = "x".repeat(4000);
    let submits = (0..2000).map(|_| json!({ "command": ["true", long], "cwd": "/", "hold": true })).collect::<Vec<_>>();
    for _ in 0..3 {
        until("they are taken", || port.post("/api/v1/jobs/many", &json!({ "submits": submits })).status == 200);
    }
    let mut greedy = port.connect();
    greedy.write_all(format!("{}\r\n", port.head("GET", "/api/v1/jobs?limit=10000", &[])).as_bytes()).unwrap();
    // There is one seat, and it holds it until the daemon has lost its patience.
    until("there is room again", || port.get("/api/v1/status").status == 200);
    let mut taken = Vec::new();
    _ = greedy.read_to_end(&mut taken);
    assert!(taken.len() < 24_000_000, "it was cut off, and not served from memory");
}

#[test]
fn there_is_room_for_so_many_and_the_others_are_told() {
    let daemon = Daemon::configured("a100:1", "[http]\nconnections_max = 4\n");
    let port = Port::own(&daemon);
    let held = (0..4).map(|_| stream_of(&port)).collect::<Vec<_>>();
    let reply = read_reply(&mut BufReader::new(port.connect()));
    assert_eq!((reply.status, reply.problem().as_str(), reply.header("retry-after")), (503, "busy", Some("1")));
    assert!(daemon.ok(&["status"]).contains("pid"), "the socket is not the port");
    drop(held);
    until("there is room again", || port.get("/api/v1/status").status == 200);
}

/// A stream of events that was let in.
fn stream_of(port: &Port) -> BufReader<TcpStream> {
    let mut stream = port.connect();
    stream.write_all(format!("{}\r\n", port.head("GET", "/events", &[])).as_bytes()).unwrap();
    let mut stream = BufReader::new(stream);
    assert_eq!(read_head(&mut stream).0, 200);
    stream
}

#[test]
fn one_caller_may_ask_so_often_and_others_are_not_his_fault() {
    let daemon = Daemon::configured("a100:1", "[http]\nrequests_per_second = 0.5\nburst = 5\n");
    let (greedy, other) = (Port::scoped(&daemon, "greedy", "read"), Port::scoped(&daemon, "other", "read"));
    let replies = (0..10).map(|_| greedy.get("/api/v1/status")).collect::<Vec<_>>();
    let refused = replies.iter().filter(|reply| reply.status == 429).collect::<Vec<_>>();
    assert!(!refused.is_empty() && replies[0].status == 200, "{replies:?}");
    for reply in &refused {
        assert_eq!(reply.problem(), "too-fast");
        assert!((1..=2).contains(&reply.header("retry-after").unwrap().parse::<u32>().unwrap()));
    }
    assert_eq!(other.get("/api/v1/status").status, 200);
    let strangers = (0..10).map(|_| Port::of(&daemon).get("/api/v1/status").status).collect::<Vec<_>>();
    assert!(strangers.contains(&401) && strangers.contains(&429), "{strangers:?}");
    assert_eq!(other.get("/api/v1/status").status, 200);
    // Over the socket nobody is counted.
    for _ in 0..8 {
        daemon.ok(&["gpus"]);
    }
    until("he may ask again", || greedy.get("/api/v1/status").status == 200);
}

/// A certificate for this machine, and its key.
fn certificate(folder: &Path) -> (PathBuf, PathBuf, rustls::pki_types::CertificateDer<'static>) {
    let made = rcgen::generate_simple_self_signed(vec!["localhost".to_owned(), "127.0.0.1".to_owned()]).unwrap();
    let (cert, key) = (folder.join("cert.pem"), folder.join("key.pem"));
    std::fs::write(&cert, made.cert.pem()).unwrap();
    std::fs::write(&key, made.signing_key.serialize_pem()).unwrap();
    (cert, key, made.cert.der().clone())
}

#[test]
fn with_a_certificate_the_port_speaks_tls_and_nothing_else() {
    let folder = tempfile::tempdir().unwrap();
    let (cert, key, der) = certificate(folder.path());
    let files = ["--tls-cert", cert.to_str().unwrap(), "--tls-key", key.to_str().unwrap()];
    let daemon = Daemon::with(&[&["--virtual-gpus", "a100:1"][..], &files].concat(), "", &[]);
    assert!(daemon.greeting.contains("https://127.0.0.1:"), "{}", daemon.greeting);
    let port = Port::own(&daemon);
    let mut roots = rustls::RootCertStore::empty();
    roots.add(der).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = rustls::ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions().unwrap();
    let config = Arc::new(config.with_root_certificates(roots).with_no_client_auth());
    let connect = || {
        let name = rustls::pki_types::ServerName::try_from("localhost").unwrap();
        rustls::StreamOwned::new(rustls::ClientConnection::new(Arc::clone(&config), name).unwrap(), port.connect())
    };
    let reply = port.ask_on(connect(), "GET", "/api/v1/status", &[], b"");
    assert_eq!(reply.status, 200, "{reply:?}");
    assert!(reply.json()["http"].as_str().unwrap().starts_with("https://"));
    let token = json!({ "token": crate::live::http::port::own_token(&daemon) }).to_string();
    let reply = port.ask_on(connect(), "POST", "/api/v1/session", &[("content-type", "application/json")], token.as_bytes());
    assert!(reply.header("set-cookie").unwrap().contains("; Secure"), "{reply:?}");
    // Without TLS nobody is heard, and nothing is told.
    let mut plain = port.connect();
    plain.write_all(port.head("GET", "/api/v1/status", &[]).as_bytes()).unwrap();
    plain.write_all(b"\r\n").unwrap();
    let mut answer = Vec::new();
    _ = plain.read_to_end(&mut answer);
    assert!(!String::from_utf8_lossy(&answer).contains("HTTP/1.1"), "{answer:?}");
}

#[test]
fn other_machines_are_let_in_with_a_certificate_only() {
    let folder = tempfile::tempdir().unwrap();
    let (cert, key, _) = certificate(folder.path());
    let (cert, key) = (cert.to_str().unwrap().to_owned(), key.to_str().unwrap().to_owned());
    let empty = folder.path().join("empty.pem");
    std::fs::write(&empty, "").unwrap();
    let empty = empty.to_str().unwrap();
    let state = folder.path().join("state");
    let daemon = Daemon::at(folder, state, &["--virtual-gpus", "a100:1"], "", &[]);
    for (arguments, parts) in [
        (&["--bind", "0.0.0.0"][..], &["--tls-cert", "127.0.0.1"][..]),
        (&["--bind", "::"], &["--tls-cert"]),
        (&["--tls-cert", &cert], &["--tls-key"]),
        (&["--tls-cert", "/no/such/file", "--tls-key", &key], &["/no/such/file"]),
        (&["--tls-cert", empty, "--tls-key", &key], &["empty.pem", "no certificate"]),
        (&["--tls-cert", &cert, "--tls-key", &cert], &["cert.pem"]),
    ] {
        let said = refused(2, daemon.command().args(arguments));
        assert!(parts.iter().all(|part| said.contains(part)), "{arguments:?}: {said}");
    }
}
