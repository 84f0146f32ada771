//! Clients of watchmen, with its own library as everybody installs it, on a stand-in for NVIDIA's library: who gets which GPUs, for how long,
//! and what of it a crash of the daemon can change.

use super::{Daemon, kill, until};
use crate::live::machine::gpus::{Machine, python_with};
use crate::live::queue::users::{User, shared};
use crate::rota::root;
use rustix::process::Signal;
use serde_json::{Value, json};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};

const UUIDS: [&str; 4] = [
    "GPU-00000000-0000-0000-0000-00000000000a",
    "GPU-00000000-0000-0000-0000-00000000000b",
    "GPU-00000000-0000-0000-0000-00000000000c",
    "GPU-00000000-0000-0000-0000-00000000000d",
];

/// A daemon with a port for clients, and its token.
struct Site {
    daemon: Daemon,
    token: String,
}

impl Site {
    fn of(daemon: Daemon) -> Self {
        let token = std::fs::read_to_string(daemon.state.join("token")).unwrap().trim().to_owned();
        Self { daemon, token }
    }

    fn on(machine: &Machine, config: &str) -> Self {
        Self::of(machine.daemon_with(&["--watchmen-port", "0"], config))
    }

    fn virtual_gpus(gpus: &str, config: &str) -> Self {
        Self::of(Daemon::with(&["--virtual-gpus", gpus, "--watchmen-port", "0"], config, &[]))
    }

    fn port(&self) -> u16 {
        let address = self.daemon.greeting.split("watchmen http://127.0.0.1:").nth(1).unwrap();
        address.split(',').next().unwrap().trim().parse().unwrap()
    }

    /// Asks by HTTP/1.0, whose answers end with the connection, and gives status, head and body.
    fn raw(&self, method: &str, path: &str, headers: &str, body: &str) -> (u16, String, String) {
        let mut stream = TcpStream::connect(("127.0.0.1", self.port())).unwrap();
        let length = body.len();
        let head = format!("{method} {path} HTTP/1.0\r\nhost: localhost\r\ncontent-length: {length}\r\n{headers}\r\n");
        stream.write_all(format!("{head}{body}").as_bytes()).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        let (head, body) = answer.split_once("\r\n\r\n").unwrap_or((&answer, ""));
        let status = head.split_whitespace().nth(1).and_then(|word| word.parse().ok()).unwrap_or(0);
        (status, head.to_lowercase(), body.to_owned())
    }

    fn get(&self, path: &str) -> Value {
        let (status, _, body) = self.raw("GET", path, &format!("x-auth-token: {}\r\n", self.token), "");
        assert_eq!(status, 200, "{path}: {body}");
        serde_json::from_str(&body).unwrap()
    }

    fn post(&self, path: &str, body: &Value) -> Value {
        let headers = format!("x-auth-token: {}\r\ncontent-type: application/json\r\n", self.token);
        let (_, _, answer) = self.raw("POST", path, &headers, &body.to_string());
        serde_json::from_str(&answer).unwrap_or_else(|_| panic!("{path} {body}: {answer}"))
    }

    fn register(&self, id: &str, gpus: &[i64]) -> Value {
        self.post("/client/register", &json!({ "id": id, "gpus": gpus, "mode": "queue", "req_gpu_num": 0 }))
    }

    fn ping(&self, id: &str) -> Value {
        self.post("/client/ping", &json!({ "id": id }))
    }

    /// A client that is listed.
    fn client(&self, id: &str) -> Value {
        let all = self.get("/api");
        let queues = ["work_queue", "finished_queue"].iter().flat_map(|queue| all[queue].as_array().unwrap());
        queues.rev().find(|client| client["id"] == id).cloned().unwrap_or_default()
    }

    fn status(&self, id: &str) -> String {
        self.client(id)["status"].as_str().unwrap_or_default().to_owned()
    }

    /// What a process of another user is told that asks so often, one question after the other, and then ends.
    fn asked_by(&self, user: &User, token: &str, path: &str, body: &Value, times: u32) -> Value {
        let body = body.to_string();
        let auth = if token.is_empty() { String::new() } else { format!("x-auth-token: {token}\r\n") };
        let head = format!("POST {path} HTTP/1.0\r\nhost: localhost\r\n{auth}content-type: application/json\r\n");
        let question = format!("{head}content-length: {}\r\n\r\n{body}", body.len());
        let mut command = Command::new("setpriv");
        command.args([format!("--reuid={}", user.uid), format!("--regid={}", user.gid)]).arg("--clear-groups").arg("--");
        let line = "for i in $(seq $2); do exec 3<>/dev/tcp/127.0.0.1/$0; printf %s \"$1\" >&3; answer=$(cat <&3); exec 3>&-; done; echo \"$answer\"";
        let output =
            command.args(["bash", "-c", line, &self.port().to_string(), &question, &times.to_string()]).output().unwrap();
        let answer = String::from_utf8(output.stdout).unwrap();
        let body = answer.split_once("\r\n\r\n").map_or("", |(_, body)| body);
        serde_json::from_str::<Value>(body).unwrap_or_else(|_| panic!("{answer}{}", String::from_utf8_lossy(&output.stderr)))
    }

    fn until_status(&self, id: &str, status: &str) {
        until(&format!("{id} is {status}"), || self.status(id) == status);
    }
}

/// A script with the real library, which ends with the test.
struct Script {
    child: Child,
    output: BufReader<ChildStdout>,
    folder: tempfile::TempDir,
}

impl Script {
    fn spawn(machine: &Machine, command: &mut Command) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let command = command.current_dir(folder.path()).env("LD_LIBRARY_PATH", machine.links()).env("FAKE_NVML", &machine.path);
        let log = std::fs::File::create(folder.path().join("said")).unwrap();
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(log).spawn().unwrap();
        let output = BufReader::new(child.stdout.take().unwrap());
        Self { child, output, folder }
    }

    fn start(python: &Path, machine: &Machine, site: &Site, id: &str, mode: &str, gpus: &str, count: u32) -> Self {
        let mut command = Command::new(python);
        command.arg(root().join("tests/clients/watchmen_client.py"));
        command.args([&site.port().to_string(), &site.token, id, mode, gpus, &count.to_string()]);
        Self::spawn(machine, &mut command)
    }

    /// What it prints when it has its GPUs.
    fn line(&mut self) -> String {
        let mut line = String::new();
        self.output.read_line(&mut line).unwrap();
        assert!(!line.is_empty(), "it ended: {}", self.said());
        line.trim_end().to_owned()
    }

    fn granted(&mut self) -> Value {
        serde_json::from_str(&self.line()).unwrap()
    }

    fn said(&self) -> String {
        std::fs::read_to_string(self.folder.path().join("said")).unwrap()
    }

    fn ended(&mut self) -> std::process::ExitStatus {
        drop(self.child.stdin.take());
        self.child.wait().unwrap()
    }
}

impl Drop for Script {
    fn drop(&mut self) {
        _ = self.child.kill();
        _ = self.child.wait();
    }
}

/// The name under which the library registers a client.
fn named(id: &str) -> String {
    format!("{}@{id}", nix::unistd::User::from_uid(nix::unistd::geteuid()).unwrap().unwrap().name)
}

fn library() -> Option<PathBuf> {
    python_with("target/watchmen-client", "tests/clients/watchmen.txt")
}

#[test]
fn the_real_client_gets_its_own_gpus_in_both_modes() {
    let Some(python) = library() else { return };
    let machine = Machine::with(&UUIDS);
    let site = Site::on(&machine, "");
    let start = |id: &str, mode: &str, gpus: &str, count| Script::start(&python, &machine, &site, id, mode, gpus, count);
    // These three watchmen itself gives the same GPU.
    let mut zero = start("zero", "queue", "0", 0);
    let mut any = start("any", "schedule", "1,2,3", 1);
    site.until_status(&named("any"), "ready");
    let mut three = start("three", "queue", "3", 0);
    assert_eq!((zero.granted(), three.granted()), (json!([0]), json!([3])));
    let one = any.granted();
    assert!(one == json!([1]) || one == json!([2]), "{one}");
    // All of its GPUs, in its own order, when the last of them is free; and not before.
    let mut pair = start("pair", "queue", "3,0", 0);
    site.until_status(&named("pair"), "waiting");
    assert!(zero.ended().success());
    site.until_status(&named("zero"), "ok");
    assert_eq!(site.status(&named("pair")), "waiting");
    // One that is killed has nothing from that moment on.
    kill(three.child.id(), Signal::KILL);
    site.until_status(&named("three"), "ok");
    assert_eq!(pair.granted(), json!([3, 0]));
    // One that is cancelled is told so, by its library's own exception.
    let mut late = start("late", "queue", "0", 0);
    site.until_status(&named("late"), "waiting");
    assert_eq!(site.post("/client/cancel", &json!({ "id": named("late") }))["status"], "ok");
    assert!(!late.ended().success());
    assert!(late.said().contains("cancelled"), "{}", late.said());
    assert_eq!(site.status(&named("late")), "cancelled");
}

#[test]
fn trainings_in_several_terminals_take_their_turns() {
    let Some(python) = library() else { return };
    let machine = Machine::with(&UUIDS[..2]);
    let site = Site::on(&machine, "");
    let start = |id: &str, options: &[&str]| {
        let mut command = Command::new(&python);
        command.arg(root().join("examples/workloads/mnist.py")).args([
            "--id",
            id,
            "--wait",
            "--epochs",
            "2",
            "--batch-size",
            "4",
        ]);
        command.args(["--port", &site.port().to_string(), "--token", &site.token]).args(options);
        Script::spawn(&machine, command.env("ROTA_EXAMPLE_BACKEND", "pure"))
    };
    let mut first = start("first", &["--cuda", "0"]);
    site.until_status(&named("first"), "ready");
    let mut second = start("second", &["--cuda", "0"]);
    let mut third = start("third", &["--cuda", "0,1", "--wait_mode", "schedule", "--req_gpu_num", "1"]);
    for (script, line) in
        [(&mut first, "first: granted 0 "), (&mut third, "third: granted 1 "), (&mut second, "second: granted 0 ")]
    {
        let told = script.line();
        assert!(told.starts_with(line), "{told}");
        let mut rest = String::new();
        script.output.read_to_string(&mut rest).unwrap();
        assert!(script.ended().success() && rest.contains("epoch 2/2"), "{rest}{}", script.said());
    }
    for id in ["first", "second", "third"] {
        site.until_status(&named(id), "ok");
    }
}

#[test]
fn nobody_is_lost_when_the_daemon_is_killed_in_the_middle() {
    let Some(python) = library() else { return };
    let machine = Machine::with(&UUIDS[..2]);
    // Where clients sleep between two questions nothing can befall them; here all of them wait for an answer.
    let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port().to_string();
    let mut site = Site::of(machine.daemon_with(&["--watchmen-port", &port], "[watchmen]\nping_seconds = 60.0"));
    let mut clients = Vec::new();
    for (id, gpus) in [("first", "0"), ("second", "0"), ("third", "1,0")] {
        clients.push(Script::start(&python, &machine, &site, id, "queue", gpus, 0));
        // It has registered and asked once, so that it is known to be this process.
        until("it has asked", || site.client(&named(id))["pid"].is_u64());
    }
    let before = site.get("/show/work");
    site.daemon.restart();
    let after = site.get("/show/work");
    for (before, after) in before["msg"].as_array().unwrap().iter().zip(after["msg"].as_array().unwrap()) {
        for field in ["id", "status", "queue_num", "gpus", "available_gpus", "register_time", "mode"] {
            assert_eq!(before[field], after[field], "{field}");
        }
    }
    assert_eq!(after["msg"].as_array().unwrap().len(), 3);
    assert_eq!(clients[0].granted(), json!([0]));
    // What was held is answered, and they ask again. While nobody is there, one ends: that is found out.
    let asked = |id: &str| site.client(&named(id))["last_request_time"].as_str().unwrap().to_owned();
    let (second, third) = (asked("second"), asked("third"));
    until("they have asked again", || asked("second") > second && asked("third") > third);
    site.daemon.kill();
    assert!(clients[0].ended().success());
    site.daemon.up();
    site.until_status(&named("first"), "ok");
    assert_eq!(clients[1].granted(), json!([0]));
    assert_eq!(site.status(&named("third")), "waiting");
    assert!(clients[1].ended().success());
    assert_eq!(clients[2].granted(), json!([1, 0]));
}

#[test]
fn the_command_for_scripts_prints_gpus_that_stay_the_scripts() {
    let Some(python) = library() else { return };
    let machine = Machine::with(&UUIDS[..2]);
    let site = Site::on(&machine, "");
    let helper = format!("'{}' -m watchmen.wait --task_name task --cuda 0,1 --wait", python.display());
    let script = format!("echo $({helper} schedule --req_gpu_num 1 --token {}); read line || true", site.token);
    // It always asks port 62333 of this machine; this variable leads it to another.
    let proxy = format!("http://127.0.0.1:{}", site.port());
    let mut shell = Command::new("sh");
    shell.args(["-c", &script]).env("http_proxy", proxy).env_remove("no_proxy").env_remove("NO_PROXY");
    let mut shell = Script::spawn(&machine, &mut shell);
    assert!(["0", "1"].contains(&shell.line().as_str()));
    let work = site.get("/show/work");
    let id = work["msg"][0]["id"].as_str().unwrap().to_owned();
    assert!(id.starts_with(&named("task-")), "{id}");
    // The command has ended, and its shell has not.
    until("the shell is its heir", || site.status(&id) == "ready" && site.daemon.show(1)["state"] == "running");
    assert!(shell.ended().success());
    site.until_status(&id, "ok");
    let none = Command::new(&python).args(["-m", "watchmen.wait", "--task_name", "task", "--cuda", "0"]).output().unwrap();
    assert!(none.status.success() && none.stdout.is_empty());
}

#[test]
fn clients_and_jobs_wait_for_each_other_and_a_held_answer_tells_at_once() {
    let site = Site::virtual_gpus("a100:2", "[watchmen]\nping_seconds = 60.0");
    let job = site.daemon.shell(&["--gpu-ids", "0"], "sleep 600");
    site.daemon.until_state(job, "running");
    assert_eq!(site.register("both", &[0, 1])["status"], "ok");
    let later = site.daemon.shell(&["--gpu-ids", "1"], "true");
    std::thread::scope(|scope| {
        let held = scope.spawn(|| site.ping("both"));
        until("it is the next", || !site.client("both")["msg"].as_str().unwrap().is_empty());
        // GPU 1 is kept for the one that came first.
        assert_eq!(site.daemon.state_of(later), "waiting");
        site.daemon.ok(&["cancel", &job.to_string()]);
        assert_eq!(held.join().unwrap(), json!({ "status": "ok", "available_gpus": [0, 1], "msg": "ready" }));
    });
    assert_eq!(site.daemon.state_of(later), "waiting");
    assert_eq!(site.post("/client/release", &json!({ "id": "both" }))["status"], "ok");
    assert_eq!(site.status("both"), "ok");
    assert_eq!(site.daemon.wait_one(later)["state"], "done");
    // An id that is done may be used again.
    assert_eq!(site.register("both", &[0])["status"], "ok");
    assert_eq!(site.register("both", &[1])["status"], "err");
}

#[test]
fn a_daemon_that_stops_answers_whoever_waits_for_an_answer() {
    let mut site = Site::virtual_gpus("a100:1", "[watchmen]\nping_seconds = 60.0");
    site.register("first", &[0]);
    site.register("second", &[0]);
    site.until_status("first", "ready");
    let port = site.port();
    std::thread::scope(|scope| {
        let held = scope.spawn(|| site.ping("second"));
        until("it has asked", || site.client("second")["pid"].is_u64());
        site.daemon.ok(&["down"]);
        assert_eq!(held.join().unwrap(), json!({ "status": "ok", "available_gpus": [], "msg": "waiting" }), "port {port}");
    });
    assert!(site.daemon.ended().success());
}

#[test]
fn a_client_without_a_process_is_let_go_when_it_is_silent_unless_its_gpu_is_used() {
    let mut machine = Machine::with(&UUIDS[..2]);
    let site = Site::on(&machine, "[watchmen]\nqueue_timeout_seconds = 2.0");
    // Each registers once and never asks: whoever does that may have been sent to do so.
    for (id, gpu) in [("used", 0), ("idle", 1), ("third", 1)] {
        assert_eq!(site.register(id, &[gpu])["status"], "ok");
    }
    site.until_status("used", "ready");
    machine.occupy(0, std::process::id(), 2000);
    site.until_status("idle", "ok");
    until("third is not waiting", || site.status("third") != "waiting");
    assert_eq!(site.status("used"), "ready");
    assert_eq!(site.daemon.json(&["gpus", "--json"])[0]["state"], "full", "its user's process is no stranger");
    machine.leave(0);
    site.until_status("used", "ok");
    let (status, told) = (site.client("used")["status"].clone(), site.ping("used"));
    assert_eq!(told["msg"], status);
}

#[test]
fn a_client_that_tells_its_process_lives_as_long_as_that() {
    let site = Site::virtual_gpus("a100:1", "[watchmen]\nqueue_timeout_seconds = 0.5");
    let mut process = Command::new("sleep").arg("600").spawn().unwrap();
    let ask = json!({ "id": "told", "gpus": [0], "pid": process.id() });
    assert_eq!(site.post("/client/register", &ask)["status"], "ok");
    // Another that is silent for as long is gone: so this one would be.
    assert_eq!(site.register("silent", &[0])["status"], "ok");
    site.until_status("silent", "timeout");
    assert_eq!(site.status("told"), "ready");
    process.kill().unwrap();
    process.wait().unwrap();
    site.until_status("told", "ok");
    assert_eq!(site.post("/client/register", &ask)["status"], "err");
}

#[test]
fn what_cannot_be_meant_is_refused_in_words_the_client_shows() {
    let site = Site::virtual_gpus("a100:4", "");
    until("the GPUs were looked at", || site.get("/gpus/0,1,2,3")["msg"] == true);
    let refusal = |ask: Value, part: &str| {
        let answer = site.post("/client/register", &ask);
        assert_eq!(answer["status"], "err", "{ask}");
        assert!(answer["msg"].as_str().unwrap().contains(part), "{ask}: {answer}");
    };
    refusal(json!({ "id": "a", "gpus": [] }), "must not be empty");
    refusal(json!({ "id": "a", "gpus": [9] }), "no GPU 9");
    refusal(json!({ "id": "a", "gpus": [-1] }), "no GPU -1");
    refusal(json!({ "id": "a", "gpus": [0], "mode": "both" }), "mode `both`");
    refusal(json!({ "id": "a", "gpus": [0, 1], "mode": "schedule", "req_gpu_num": 0 }), "req_gpu_num is 0");
    refusal(json!({ "id": "a", "gpus": [0, 1], "mode": "schedule", "req_gpu_num": 3 }), "req_gpu_num is 3");
    refusal(json!({ "gpus": [0] }), "id");
    refusal(json!([]), "expected");
    for path in ["/client/ping", "/client/cancel", "/client/release"] {
        assert_eq!(site.post(path, &json!({ "id": "never" }))["status"], "err", "{path}");
    }
    assert_eq!(site.get("/show/work")["msg"], json!([]));
    // The plain questions.
    assert_eq!(site.get("/gpu/0"), json!({ "status": "ok", "msg": true }));
    assert_eq!(site.get("/gpu/9")["status"], "err");
    assert_eq!(site.get("/gpu/-1")["status"], "err");
    assert_eq!(site.register("one", &[1])["status"], "ok");
    until("GPU 1 is taken", || site.get("/gpu/1")["msg"] == false);
    let both = json!({ "status": "ok", "msg": false, "detail": [{ "gpu": 0, "status": true }, { "gpu": 1, "status": false }] });
    assert_eq!(site.get("/gpus/1,0"), both);
    let wrong = site.get("/gpus/0,nine");
    assert_eq!((&wrong["status"], &wrong["detail"]), (&json!("err"), &json!([])));
    // Fields of clients and of gpustat.
    let one = site.client("one");
    assert!(one["register_time"].as_str().unwrap().parse::<jiff::Timestamp>().is_ok(), "{one}");
    assert_eq!(
        (&one["mode"], &one["queue_num"], &one["gpus"], &one["available_gpus"]),
        (&json!("queue"), &json!(0), &json!([1]), &json!([1]))
    );
    let stat = site.get("/show/gpus")["msg"].clone();
    for field in ["index", "uuid", "name", "temperature.gpu", "utilization.gpu", "memory.used", "memory.total", "processes"] {
        assert!(stat["gpus"][3].get(field).is_some(), "{field}: {stat}");
    }
    assert!(stat["hostname"].is_string() && stat["query_time"].is_string());
}

#[test]
fn hostile_ids_are_data() {
    let site = Site::virtual_gpus("a100:1", "");
    let ids = [
        "<script>alert(1)</script>",
        "\u{202e}gnorw",
        "a\nb\u{1b}[31m\0",
        "'; DROP TABLE clients; --",
        "../../etc/passwd",
        "{{7*7}}",
    ];
    for id in ids {
        assert_eq!(site.register(id, &[0])["status"], "ok", "{id:?}");
    }
    let listed = site.get("/show/work")["msg"].as_array().unwrap().iter().map(|client| client["id"].clone()).collect::<Vec<_>>();
    assert_eq!(listed, ids);
    let (_, head, _) = site.raw("GET", "/show/work", &format!("x-auth-token: {}\r\n", site.token), "");
    assert!(head.contains("content-type: application/json"), "{head}");
    // Nothing of them reaches a terminal as a command to it.
    assert!(!site.daemon.ok(&["queue"]).contains('\u{1b}'));
    for id in ids {
        assert_eq!(site.post("/client/cancel", &json!({ "id": id }))["status"], "ok", "{id:?}");
        assert_eq!(site.status(id), "cancelled");
    }
    assert_eq!(site.register(&"x".repeat(5000), &[0])["status"], "err");
}

#[test]
fn a_token_is_needed_in_one_of_three_ways() {
    let site = Site::virtual_gpus("a100:1", "");
    let json = "content-type: application/json\r\n";
    let (status, _, body) = site.raw("GET", "/show/work", "", "");
    let body: Value = serde_json::from_str(&body).unwrap();
    assert_eq!((status, body), (401, json!({ "status": "err", "msg": "Authentication required" })));
    for (method, path) in
        [("GET", "/api"), ("GET", "/gpu/0"), ("GET", "/gpus/0"), ("POST", "/client/register"), ("POST", "/client/ping")]
    {
        let (status, _, _) = site.raw(method, path, &format!("{json}x-auth-token: wrong\r\n"), r#"{"id": "a", "gpus": [0]}"#);
        assert_eq!(status, 401, "{path}");
    }
    assert_eq!(site.raw("GET", &format!("/api?token={}", site.token), "", "").0, 200);
    assert_eq!(site.raw("GET", "/api?token=wrong", "", "").0, 401);
    // A browser shows its token once.
    assert_eq!(site.raw("POST", "/auth", json, "{}").0, 400);
    assert_eq!(site.raw("POST", "/auth", json, r#"{"token": "wrong"}"#).0, 401);
    let (status, head, _) = site.raw("POST", "/auth", json, &format!(r#"{{"token": "{}"}}"#, site.token));
    assert_eq!(status, 200);
    assert!(head.contains("httponly") && head.contains("samesite=strict"), "{head}");
    let cookie = head.split("set-cookie: ").nth(1).unwrap().split(';').next().unwrap();
    assert_eq!(site.raw("GET", "/show/work", &format!("cookie: {cookie}\r\n"), "").0, 200);
    assert_eq!(site.raw("GET", "/show/work", &format!("cookie: {cookie}0\r\n"), "").0, 401);
    // Pages of other sites may look, where they have a token, and do nothing else.
    let (status, head, _) = site.raw("OPTIONS", "/api", "origin: http://elsewhere\r\n", "");
    assert!((status, head.contains("access-control-allow-origin: *")) == (204, true), "{head}");
    let (_, head, _) = site.raw("POST", "/client/cancel", &format!("cookie: {cookie}\r\n{json}"), r#"{"id": "a"}"#);
    assert!(!head.contains("access-control"), "{head}");
    let (status, _, _) =
        site.raw("POST", "/client/cancel", &format!("cookie: {cookie}\r\ncontent-type: text/plain\r\n"), r#"{"id": "a"}"#);
    assert_eq!(status, 415);
    let (status, head, _) = site.raw("GET", "/old", "", "");
    assert!((status, head.contains("location: /")) == (308, true), "{head}");
}

#[test]
fn without_tokens_clients_are_known_by_their_connections() {
    let site = Site::virtual_gpus("a100:1", "[watchmen]\nauth = false");
    let json = "content-type: application/json\r\n";
    let (status, _, body) = site.raw("POST", "/client/register", json, r#"{"id": "a", "gpus": [0]}"#);
    assert_eq!(status, 200, "{body}");
    let user = nix::unistd::User::from_uid(nix::unistd::geteuid()).unwrap().unwrap().name;
    assert_eq!(site.client("a")["user"], json!(user));
    // A page that made its own name lead here does not get in, and the rest of the API wants its token as ever.
    let mut stream = TcpStream::connect(("127.0.0.1", site.port())).unwrap();
    stream.write_all(b"GET /api HTTP/1.0\r\nhost: evil.example\r\n\r\n").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    assert!(answer.starts_with("HTTP/1.0 401"), "{answer}");
    assert_eq!(site.raw("GET", "/api/v1/jobs", "", "").0, 401);
}

#[test]
fn two_users_with_one_token_cannot_cancel_each_other() {
    let Some((daemon, ann, bob)) = shared("a100:1", "[watchmen]\nport = 0") else { return };
    let site = Site::of(daemon);
    let act = |user: &User, path: &str, body: &Value| site.asked_by(user, &site.token, path, body, 1);
    for (user, id) in [(&ann, "anns"), (&bob, "bobs")] {
        assert_eq!(act(user, "/client/register", &json!({ "id": id, "gpus": [0] }))["status"], "ok");
        assert_eq!(site.client(id)["user"], json!(user.name));
    }
    site.until_status("anns", "ready");
    for (user, id) in [(&ann, "bobs"), (&bob, "anns")] {
        for path in ["/client/cancel", "/client/release"] {
            let answer = act(user, path, &json!({ "id": id }));
            assert!(answer["status"] == "err" && answer["msg"].as_str().unwrap().contains("belongs to"), "{answer}");
        }
    }
    let someone = act(&bob, "/client/register", &json!({ "id": "third", "gpus": [0], "pid": 1 }));
    assert!(someone["msg"].as_str().unwrap().contains("not yours"), "{someone}");
    assert_eq!(act(&bob, "/client/cancel", &json!({ "id": "bobs" }))["status"], "ok");
    // An administrator may.
    assert_eq!(site.post("/client/cancel", &json!({ "id": "anns" }))["status"], "ok");
    assert_eq!((site.status("anns"), site.status("bobs")), ("cancelled".to_owned(), "cancelled".to_owned()));
}

#[test]
fn a_strangers_ping_neither_takes_nor_ends_a_grant() {
    for auth in [true, false] {
        let settings = format!("[watchmen]\nport = 0\nauth = {auth}\nping_seconds = 0.0");
        let Some((daemon, ann, bob)) = shared("a100:2", &settings) else { return };
        let bobs = bob.json(&daemon, &["token", "create", "--name", "look", "--scope", "read", "--json"]);
        let site = Site::of(daemon);
        let (anns_token, bobs_token) =
            if auth { (site.token.clone(), bobs["token"].as_str().unwrap().to_owned()) } else { (String::new(), String::new()) };
        // The process that registers ends before it has asked again: her client is no process yet, and could become any.
        let register = json!({ "id": "anns", "gpus": [0] });
        assert_eq!(site.asked_by(&ann, &anns_token, "/client/register", &register, 1)["status"], "ok");
        site.until_status("anns", "ready");
        let answer = site.asked_by(&bob, &bobs_token, "/client/ping", &json!({ "id": "anns" }), 3);
        assert!(answer["status"] == "err" && answer["msg"].as_str().unwrap().contains("belongs to nobody"), "{answer}");
        // Whatever became of his process has been heard of when another client has come and gone.
        let process = Command::new("true").spawn().unwrap().wait_with_output().unwrap();
        assert!(process.status.success());
        assert_eq!(
            site.asked_by(&ann, &anns_token, "/client/register", &json!({ "id": "next", "gpus": [1] }), 1)["status"],
            "ok"
        );
        site.until_status("next", "ready");
        let client = site.client("anns");
        assert_eq!((&client["status"], &client["pid"]), (&json!("ready"), &Value::Null), "{client}");
        // He may have a client of the same name himself, which is not hers.
        if !auth {
            assert_eq!(site.asked_by(&bob, "", "/client/register", &json!({ "id": "anns", "gpus": [1] }), 1)["status"], "ok");
            assert_eq!(site.asked_by(&bob, "", "/client/cancel", &json!({ "id": "anns" }), 1)["status"], "ok");
        }
        let told = site.asked_by(&ann, &anns_token, "/client/ping", &json!({ "id": "anns" }), 1);
        assert_eq!((&told["status"], &told["msg"]), (&json!("ok"), &json!("ready")), "hers is as it was");
        assert_eq!(site.asked_by(&ann, &anns_token, "/client/release", &json!({ "id": "anns" }), 1)["status"], "ok");
    }
}
