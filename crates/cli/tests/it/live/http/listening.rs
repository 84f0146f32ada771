//! Streams of events: from where one left off, for many at once, and only as long as one may listen.

use crate::live::http::port::{Port, read_chunk, read_head};
use crate::live::{Daemon, until};
use serde_json::{Value, json};
use std::io::{BufReader, Write};
use std::net::TcpStream;

/// Somebody who listens.
struct Listener {
    stream: BufReader<TcpStream>,
    rest: String,
}

impl Listener {
    fn new(port: &Port, path: &str, headers: &[(&str, &str)]) -> Self {
        let mut stream = port.connect();
        stream.write_all(format!("{}\r\n", port.head("GET", path, headers)).as_bytes()).unwrap();
        let mut stream = BufReader::new(stream);
        let (status, headers) = read_head(&mut stream);
        assert_eq!(status, 200);
        assert!(headers.contains(&("content-type".to_owned(), "text/event-stream".to_owned())), "{headers:?}");
        Self { stream, rest: String::new() }
    }

    /// The next event; nothing when the stream has ended.
    fn next(&mut self) -> Option<Value> {
        loop {
            if let Some((event, rest)) = self.rest.split_once("\n\n") {
                let (event, rest) = (event.to_owned(), rest.to_owned());
                self.rest = rest;
                let field = |name: &str| event.lines().find_map(|line| line.strip_prefix(name)).map(str::to_owned);
                let Some(data) = field("data: ") else { continue };
                let data: Value = serde_json::from_str(&data).unwrap();
                assert_eq!(field("id: ").unwrap(), data["seq"].to_string());
                assert_eq!(field("event: ").unwrap(), data["kind"].as_str().unwrap());
                return Some(data);
            }
            self.rest.push_str(&String::from_utf8(read_chunk(&mut self.stream)?).unwrap());
        }
    }
}

#[test]
fn what_administrators_set_is_told() {
    let daemon = Daemon::start("a100:1");
    let mut live = Listener::new(&Port::own(&daemon), "/events", &[]);
    daemon.ok(&["policy", "set", "sjf"]);
    daemon.ok(&["drain", "--gpus", "0"]);
    daemon.ok(&["resume", "--gpus", "0"]);
    let heard = [live.next().unwrap(), live.next().unwrap(), live.next().unwrap()];
    assert_eq!(heard.each_ref().map(|event| event["kind"].as_str().unwrap()), ["policy", "drained", "resumed"], "{heard:#?}");
    assert_eq!(heard[0]["detail"]["policy"], "sjf");
}

#[test]
fn a_stream_goes_on_where_it_was_left() {
    let mut daemon = Daemon::start("a100:1");
    let port = Port::own(&daemon);
    let mut live = Listener::new(&port, "/events", &[]);
    // More than is read from the store at once.
    let many = daemon.json(&["submit", "--json", "--hold", "--array", "1-1500", "--", "true"]);
    assert_eq!(many["ids"].as_array().unwrap().len(), 1500);
    let heard = (0..1500).map(|_| live.next().unwrap()).collect::<Vec<_>>();
    assert!(heard.windows(2).all(|pair| pair[0]["seq"].as_u64().unwrap() < pair[1]["seq"].as_u64().unwrap()));
    assert_eq!((&heard[0]["kind"], &heard[0]["job"]), (&json!("submitted"), &many["ids"][0]));
    let from = heard[99]["seq"].to_string();
    let mut later = Vec::new();
    for (path, headers) in
        [("/events".to_owned(), vec![("last-event-id", from.as_str())]), (format!("/events?last_event_id={from}"), vec![])]
    {
        let mut again = Listener::new(&port, &path, &headers);
        for event in &heard[100..] {
            assert_eq!(again.next().as_ref(), Some(event));
        }
        // And on to what happens now.
        later.push(daemon.submit(&["--hold", "--", "true"]));
        for id in &later {
            assert_eq!(again.next().unwrap()["job"], *id);
        }
    }
    // A number of the future is of another store.
    let mut lost = Listener::new(&port, "/events", &[("last-event-id", "999999999")]);
    let id = daemon.submit(&["--hold", "--", "true"]);
    assert_eq!(lost.next().unwrap()["job"], id);
    daemon.restart();
    let mut after = Listener::new(&Port::own(&daemon), "/events", &[("last-event-id", &heard[1498]["seq"].to_string())]);
    assert_eq!(after.next().as_ref(), Some(&heard[1499]), "it is the same after a restart");
}

#[test]
fn whoever_may_not_listen_any_more_is_let_go_at_once() {
    let daemon = Daemon::start("a100:1");
    let id = daemon.shell(&[], "echo begun; sleep 600");
    daemon.until_state(id, "running");
    let made = daemon.json(&["token", "create", "--name", "listener", "--json"]);
    let port = Port::with_token(&daemon, made["token"].as_str().unwrap());
    let reply = Port::of(&daemon).post("/api/v1/session", &json!({ "token": made["token"] }));
    let cookie = reply.header("set-cookie").unwrap().split(';').next().unwrap().to_owned();
    let page = Port { headers: vec![("cookie".to_owned(), cookie)], ..Port::of(&daemon) };
    let mut listeners = [Listener::new(&port, "/events", &[]), Listener::new(&page, "/events", &[])];
    let mut log = port.connect();
    let path = format!("/api/v1/jobs/{id}/logs?follow=true");
    log.write_all(format!("{}\r\n", port.head("GET", &path, &[])).as_bytes()).unwrap();
    let mut log = BufReader::new(log);
    assert_eq!(read_head(&mut log).0, 200);
    assert_eq!(read_chunk(&mut log).unwrap(), b"begun\n");
    let mut other = Listener::new(&Port::own(&daemon), "/events", &[]);
    daemon.ok(&["token", "revoke", "listener"]);
    for listener in &mut listeners {
        assert_eq!(listener.next(), None);
    }
    assert_eq!(read_chunk(&mut log), None);
    // Others listen on.
    daemon.ok(&["cancel", &id.to_string()]);
    assert_eq!(other.next().unwrap()["job"], id);
}

#[test]
fn hundreds_listen_and_all_hear_the_same() {
    let daemon = Daemon::configured("a100:1", "[http]\nconnections_max = 400\n");
    let port = Port::own(&daemon);
    let mut listeners = (0..200).map(|_| Listener::new(&port, "/events", &[])).collect::<Vec<_>>();
    let ids = (0..5).map(|_| daemon.submit(&["--hold", "--", "true"])).collect::<Vec<_>>();
    for listener in &mut listeners {
        for id in &ids {
            assert_eq!(listener.next().unwrap()["job"], *id);
        }
    }
    drop(listeners);
    until("the daemon serves on", || daemon.json(&["queue", "--json"]).as_array().unwrap().len() == ids.len());
}
