//! Groups: arrays, sweeps and batches are one thing from submit to report, and verbs take ranges, groups, names, states and users.

use crate::live::queue::users::shared;
use crate::live::{Daemon, refused};
use serde_json::{Value, json};

fn ids(answer: &Value) -> Vec<u64> {
    answer["ids"].as_array().unwrap().iter().map(|id| id.as_u64().unwrap()).collect()
}

/// How many rows a table has, without its titles.
fn rows(table: &str) -> usize {
    table.lines().count() - 1
}

#[test]
fn an_array_of_a_thousand_is_one_group_from_submit_to_report() {
    let daemon = Daemon::start("a100:2");
    let answer = daemon.json(&["submit", "--json", "--hold", "-n", "fit", "--array", "1-1000", "true", "{index}"]);
    let (group, ids) = (answer["group"].as_u64().unwrap(), ids(&answer));
    assert_eq!((group, ids.len()), (ids[0], 1000));
    let name = format!("group:{group}");
    let queue = daemon.ok(&["queue"]);
    assert_eq!(rows(&queue), 1, "{queue}");
    assert!(queue.contains(&name) && queue.contains("fit (1000 jobs)") && queue.contains("1000 held"), "{queue}");
    assert_eq!(rows(&daemon.ok(&["queue", &name])), 1000);
    assert_eq!(daemon.show(ids[41])["name"], "fit[42]");
    // A range that a script names needs no question.
    let said = daemon.ok(&["cancel", &format!("{}-{}", ids[2], ids[999])]);
    assert_eq!(said.trim(), "998 jobs cancelled");
    assert_eq!(daemon.ok(&["release", &name]).trim(), "2 jobs released");
    assert_eq!(daemon.rota(&["wait", "--timeout", "60", &name]).status.code(), Some(1), "998 were cancelled");
    let shown = daemon.json(&["show", "--json", &name]);
    assert_eq!((&shown["counts"]["done"], &shown["counts"]["cancelled"]), (&json!(2), &json!(998)), "{}", shown["counts"]);
    assert_eq!(shown["members"].as_array().unwrap().len(), 1000);
    let page = daemon.file("page.html");
    daemon.ok(&["report", &name, "-o", page.to_str().unwrap()]);
    let page = std::fs::read_to_string(page).unwrap();
    assert!(page.contains("fit[1]"));
    // The report of a live queue is in clock time, names waits, failures and waste, and calls nothing of virtual GPUs measured.
    assert!(page.contains("Waits, failures and waste") && page.contains("\"clock_zero_ms\":1"), "{}", &page[..3000]);
    assert!(page.contains("GPU hours") && page.contains("cancelled") && !page.contains("Measured use"));
}

#[test]
fn a_sweep_shows_parameters_against_results_and_its_failures_are_retried_in_place() {
    let daemon = Daemon::start("a100:4");
    let line = "echo accuracy {lr}; test {seed} -ne 3";
    let params = ["--param", "lr=0.1,0.01,0.001", "--param", "seed=1,2,3"];
    let mut words = vec!["submit", "--json", "-n", "bert"];
    words.extend(params);
    words.extend(["sh", "-c", line]);
    let answer = daemon.json(&words);
    let (group, first) = (answer["group"].as_u64().unwrap(), ids(&answer));
    let name = format!("group:{group}");
    assert_eq!(daemon.rota(&["wait", "--timeout", "60", &name]).status.code(), Some(1));
    let shown = daemon.json(&["show", "--json", &name]);
    let members = shown["members"].as_array().unwrap();
    assert_eq!((members.len(), &shown["name"], &shown["params"]), (9, &json!("bert"), &json!(["lr", "seed"])));
    let member = &members[1];
    assert_eq!(
        (&member["name"], &member["params"], &member["exit_code"], &member["result"]),
        (&json!("bert[lr=0.1,seed=2]"), &json!({"lr": "0.1", "seed": "2"}), &json!(0), &json!("accuracy 0.1"))
    );
    let table = daemon.ok(&["show", &name]);
    assert!(table.contains("9 jobs: 6 done, 3 failed"), "{table}");
    let titles = table.lines().find(|line| line.starts_with("JOB")).unwrap();
    let titles = titles.split_whitespace().collect::<Vec<_>>();
    assert_eq!(titles, ["JOB", "LR", "SEED", "STATE", "EXIT", "DURATION", "RESULT"]);
    // Only what failed is run again, and takes the place of what failed.
    let again = ids(&daemon.json(&["retry", "--json", &name]));
    assert_eq!(again.len(), 3);
    daemon.wait(&again);
    let shown = daemon.json(&["show", "--json", &name]);
    assert_eq!((&shown["counts"]["done"], &shown["counts"]["failed"]), (&json!(6), &json!(3)));
    assert_eq!((&shown["members"][2]["id"], &shown["members"][2]["jobs"]), (&json!(again[0]), &json!(2)));
    assert_eq!(daemon.show(again[0])["name"], "bert[lr=0.1,seed=3]");
    // Once more: those that failed twice, and not those of the first time.
    assert_eq!(ids(&daemon.json(&["retry", "--json", &name])).len(), 3);
    let logs = daemon.ok(&["logs", "--tail", "1", &format!("{}-{}", first[0], first[1])]);
    assert!(logs.contains(&format!("==> {} bert[lr=0.1,seed=1] (done) <==\naccuracy 0.1\n", first[0])), "{logs}");
    let groups: Value = serde_json::from_str(&daemon.request("GET", "/api/v1/groups", b"").1).unwrap();
    assert_eq!((&groups[0]["id"], groups.as_array().unwrap().len()), (&json!(group), 1));
}

#[test]
fn jobs_are_chosen_by_name_state_and_user_and_shown_before_several_are_touched() {
    let daemon = Daemon::start("a100:1");
    let one = daemon.submit(&["--hold", "-n", "bert-a", "true"]);
    let two = daemon.submit(&["--hold", "-n", "bert-b", "true"]);
    let other = daemon.submit(&["--hold", "-n", "resnet", "true"]);
    // In a script several jobs are not touched without a word.
    let said = daemon.refusal(2, &["cancel", "--name", "bert*"]);
    assert!(said.contains("bert-a") && said.contains("bert-b") && !said.contains("resnet"), "{said}");
    assert!(said.contains("nothing was done: this would cancel 2 jobs (2 held); add --yes to do it"), "{said}");
    assert_eq!((daemon.state_of(one), daemon.state_of(two)), ("held".to_owned(), "held".to_owned()));
    daemon.ok(&["cancel", "--name", "bert*", "--yes"]);
    assert_eq!((daemon.state_of(one), daemon.state_of(two)), ("cancelled".to_owned(), "cancelled".to_owned()));
    assert_eq!(daemon.state_of(other), "held");
    // The state directory and a state of jobs may be named together; one job needs no question.
    let state = daemon.state.to_str().unwrap();
    daemon.ok(&["release", "--state", "held", "--state", state]);
    assert_eq!(daemon.wait_one(other)["state"], "done");
    assert_eq!(daemon.json(&["queue", "--json", "--state", "cancelled"]).as_array().unwrap().len(), 2);
    let said = daemon.refusal(1, &["cancel", "--state", "running"]);
    assert!(said.contains("there is no such job that is not over (running)"), "{said}");
    let said = daemon.refusal(2, &["cancel"]);
    assert!(said.contains("name jobs: by number (17), range (3-9), group (group:7)"), "{said}");
}

#[test]
fn only_its_owner_touches_a_group_or_adds_to_it() {
    let Some((daemon, ann, bob)) = shared("a100:1", "") else { return };
    let answer = ann.json(&daemon, &["submit", "--json", "--hold", "--array", "1-3", "true"]);
    let group = answer["group"].as_u64().unwrap();
    let name = format!("group:{group}");
    let said = refused_with_data(&mut bob.call(&daemon, &["cancel", &name]));
    assert!(said.contains("only its owner or an administrator may touch it") && said.contains("3 jobs could not be cancelled"));
    assert_eq!(daemon.json(&["show", "--json", &name])["counts"]["held"], 3);
    // Everybody sees the group, and only its owner what its jobs wrote.
    let shown = bob.json(&daemon, &["show", "--json", &name]);
    assert_eq!((&shown["user"], &shown["members"][0]["result"]), (&json!(ann.name), &Value::Null));
    // `--user` is about others' jobs only where it says so.
    let said = refused(1, &mut bob.call(&daemon, &["cancel", "--state", "held", "--yes"]));
    assert!(said.contains("there is no such job"), "{said}");
    let ask = json!({"command": ["true"], "cwd": "/", "group": group});
    let (status, said) = daemon.post("/api/v1/jobs", ask.to_string().as_bytes());
    assert!(status == 400 && said.contains("has no group"), "{status} {said}");
    // An administrator may.
    assert_eq!(daemon.ok(&["cancel", &name]).trim(), "3 jobs cancelled");
}

/// Stderr of a command that failed after it had said what was done.
fn refused_with_data(command: &mut std::process::Command) -> String {
    let output = command.output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    String::from_utf8(output.stderr).unwrap()
}

#[test]
fn a_table_of_trainings_is_one_group_with_the_name_of_its_file() {
    let daemon = Daemon::start("a100:1");
    std::fs::write(daemon.file("train.py"), "print('done')\n").unwrap();
    let folder = daemon.folder.path().display();
    let table = format!("Directory,Executable,Filename,Epochs,Priority\n{folder},-1,train.py,1,1\n{folder},-1,train.py,2,2\n");
    std::fs::write(daemon.file("runs.csv"), table).unwrap();
    let answer = daemon.json(&["batch", "--json", "--no-wait", "runs.csv"]);
    let jobs = ids(&answer);
    let group = daemon.show(jobs[0])["group"].as_u64().unwrap();
    assert_eq!(daemon.show(jobs[1])["group"], group);
    let shown = daemon.json(&["show", "--json", &format!("group:{group}")]);
    assert_eq!((&shown["name"], shown["members"].as_array().unwrap().len()), (&json!("runs.csv"), 2), "{shown:#}");
}
