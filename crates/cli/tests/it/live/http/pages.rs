//! Long lists: page by page, filtered, and whole for whoever follows them.

use crate::live::Daemon;
use crate::live::http::port::Port;
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::io::Read;

/// All pages of a list, as the header `Link` leads from one to the next.
fn pages(port: &Port, path: &str) -> Vec<Vec<u64>> {
    let mut pages = Vec::new();
    let mut path = path.to_owned();
    loop {
        let reply = port.get(&path);
        assert_eq!(reply.status, 200, "{path}: {}", reply.text());
        pages.push(ids(&reply.json()));
        let Some(link) = reply.header("link") else { return pages };
        assert!(link.ends_with("; rel=\"next\""), "{link}");
        link[1..].split_once('>').unwrap().0.clone_into(&mut path);
        assert!(pages.len() < 100, "it never ends");
    }
}

fn ids(jobs: &Value) -> Vec<u64> {
    jobs.as_array().unwrap().iter().map(|job| job["id"].as_u64().unwrap()).collect()
}

fn all(pages: &[Vec<u64>]) -> Vec<u64> {
    let all = pages.iter().flatten().copied().collect::<Vec<_>>();
    assert_eq!(all.iter().collect::<BTreeSet<_>>().len(), all.len(), "none comes twice: {pages:?}");
    all
}

#[test]
fn every_job_is_on_one_page_whatever_became_of_it() {
    let daemon = Daemon::start("a100:1");
    let port = Port::own(&daemon);
    let many = daemon.json(&["submit", "--json", "--hold", "--array", "1-25", "--", "true"]);
    let many = many["ids"].as_array().unwrap().iter().map(|id| id.as_u64().unwrap()).collect::<Vec<_>>();
    // Some are over, in no order.
    let over = [many[20], many[1], many[9], many[24], many[10], many[2]];
    for id in over {
        daemon.ok(&["cancel", &id.to_string()]);
    }
    for limit in [1, 2, 7, 24, 25, 26, 10_000] {
        let found = pages(&port, &format!("/api/v1/jobs?all=true&limit={limit}"));
        assert!(found.iter().all(|page| page.len() <= limit && page.is_sorted()), "{found:?}");
        assert!(found.windows(2).all(|pair| pair[0][0] > *pair[1].last().unwrap()), "from the newest back: {found:?}");
        let mut found = all(&found);
        found.sort_unstable();
        assert_eq!(found, many, "limit {limit}");
        let held = all(&pages(&port, &format!("/api/v1/jobs?limit={limit}")));
        assert_eq!(held, many.iter().copied().filter(|id| !over.contains(id)).collect::<Vec<_>>(), "limit {limit}");
        let mut cancelled = all(&pages(&port, &format!("/api/v1/jobs?state=cancelled&limit={limit}")));
        cancelled.sort_unstable();
        assert_eq!(cancelled, BTreeSet::from(over).into_iter().collect::<Vec<_>>());
    }
    assert_eq!(ids(&daemon.json(&["queue", "--all", "--json"])), many);
    assert_eq!(ids(&daemon.json(&["queue", "--all", "--json", "--limit", "3"])), many[22..]);
    assert_eq!(ids(&daemon.json(&["queue", "--json", "--limit", "2"])), [many[0], many[3]]);
}

#[test]
fn whoever_follows_the_pages_has_everything() {
    let daemon = Daemon::start("a100:1");
    let made = daemon.json(&["submit", "--json", "--hold", "--array", "1-10050", "--", "true"]);
    assert_eq!(made["ids"].as_array().unwrap().len(), 10_050);
    assert_eq!(ids(&daemon.json(&["queue", "--json"])).len(), 10_050, "more than one page holds");
    let port = Port::own(&daemon);
    assert_eq!(ids(&port.get("/api/v1/jobs").json()).len(), 1000, "what nobody asked for more of");
    let packed = port.ask("GET", "/api/v1/jobs", &[("accept-encoding", "gzip")], b"");
    assert_eq!(packed.header("content-encoding"), Some("gzip"));
    let mut text = String::new();
    flate2::read::GzDecoder::new(packed.body.as_slice()).read_to_string(&mut text).unwrap();
    assert_eq!(serde_json::from_str::<Value>(&text).unwrap(), port.get("/api/v1/jobs").json());
}

#[test]
fn lists_are_narrowed_by_project() {
    let daemon = Daemon::start("a100:1");
    let port = Port::own(&daemon);
    let own = daemon.submit(&["--hold", "--project", "maps & more", "--", "true"]);
    let other = daemon.submit(&["--hold", "--project", "roads", "--", "true"]);
    daemon.submit(&["--hold", "--", "true"]);
    for (all_too, state) in [("", "held"), ("&all=true&limit=1", "cancelled")] {
        if state == "cancelled" {
            daemon.ok(&["cancel", &own.to_string(), &other.to_string()]);
        }
        let of = |project: &str| all(&pages(&port, &format!("/api/v1/jobs?project={project}{all_too}")));
        assert_eq!((of("maps+%26+more"), of("roads"), of("nobody's")), (vec![own], vec![other], Vec::new()), "{state}");
        let listed = daemon.json(&["queue", "--json", "--all", "--project", "maps & more"]);
        assert_eq!((ids(&listed), &listed[0]["state"]), (vec![own], &json!(state)));
    }
}

#[test]
fn lists_are_narrowed_by_words_users_and_times() {
    let daemon = Daemon::start("a100:1");
    let port = Port::own(&daemon);
    let named = daemon.submit(&["--hold", "--name", "Große Prüfung", "--", "true"]);
    let train = daemon.submit(&["--hold", "--", "python", "Train.py", "--lr=0_1"]);
    let odd = daemon.submit(&["--hold", "--", "sh", "-c", "echo \"100%\" \\ done"]);
    let check = |expected: &dyn Fn(&str) -> Vec<u64>, extra: &str| {
        for (q, part) in [
            ("gro%C3%9Fe", "named"),
            ("PR%C3%9CFUNG", "named"),
            ("train.PY", "train"),
            ("python+train.py", "train"),
            ("0_1", "train"),
            ("0x1", ""),
            ("100%25", "odd"),
            ("%22100", "odd"),
            ("%5C+done", "odd"),
            ("echo", "odd"),
            ("base64", ""),
            ("nothing", ""),
        ] {
            assert_eq!(all(&pages(&port, &format!("/api/v1/jobs?q={q}{extra}"))), expected(part), "{q}{extra}");
        }
    };
    let of = |part: &str| match part {
        "named" => vec![named],
        "train" => vec![train],
        "odd" => vec![odd],
        _ => Vec::new(),
    };
    check(&of, "");
    check(&of, "&all=true&limit=1");
    assert_eq!(all(&pages(&port, "/api/v1/jobs?q=")).len(), 3);
    let before = now();
    for id in [named, train, odd] {
        daemon.ok(&["cancel", &id.to_string()]);
    }
    let after = now();
    check(&|_| Vec::new(), "");
    check(&of, "&all=true");
    check(&of, "&state=cancelled&limit=1");
    let count = |query: &str| all(&pages(&port, &format!("/api/v1/jobs?{query}"))).len();
    assert_eq!(count(&format!("since={before}&until={after}&limit=2")), 3);
    assert_eq!((count(&format!("until={before}")), count(&format!("since={after}"))), (0, 0));
    let user = port.get("/api/v1/session").json()["user"].as_str().unwrap().to_owned();
    assert_eq!((count(&format!("all=true&user={user}")), count("all=true&user=nobody-at-all")), (3, 0));
    assert_eq!(port.get(&format!("/api/v1/jobs/{odd}")).json()["state"], json!("cancelled"));
}

/// This moment, as the API reads it.
fn now() -> String {
    jiff::Timestamp::now().to_string()
}
