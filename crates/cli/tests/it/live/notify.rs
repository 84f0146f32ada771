//! People and programs are told what becomes of jobs: by a hook, by chat and by mail, whatever becomes of whoever is to be told.

use super::watchers::{free_port, python};
use super::{Daemon, until};
use crate::rota::root;
use serde_json::{Value, json};
use std::collections::HashMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};

/// Patience that suits a test.
const QUICK: &str = "[notify]\nretry_seconds = 0.05\nretry_seconds_max = 0.2\ngather_seconds = 0.0\ntimeout_seconds = 5.0\n";

/// What a hook was sent.
#[derive(Clone, Debug)]
struct Call {
    path: String,
    headers: HashMap<String, String>,
    body: String,
}

impl Call {
    fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap()
    }
}

/// An HTTP server that keeps what it is sent, and answers as it is told: each answer once, the last of them for ever.
struct Sink {
    port: u16,
    calls: Arc<Mutex<Vec<Call>>>,
}

impl Sink {
    fn start(port: u16, answers: &[&'static str]) -> Self {
        let listener = TcpListener::bind(("127.0.0.1", port)).unwrap();
        let port = listener.local_addr().unwrap().port();
        let calls = Arc::new(Mutex::new(Vec::new()));
        let (kept, mut answers) = (Arc::clone(&calls), answers.to_vec());
        std::thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                let answer = if answers.len() > 1 { answers.remove(0) } else { answers[0] };
                let kept = Arc::clone(&kept);
                // One that does not answer must not keep others from being heard.
                std::thread::spawn(move || serve(stream, answer, &kept));
            }
        });
        Self { port, calls }
    }

    fn url(&self, path: &str) -> String {
        format!("http://127.0.0.1:{}{path}", self.port)
    }

    fn calls(&self) -> Vec<Call> {
        self.calls.lock().unwrap().clone()
    }

    fn until_calls(&self, count: usize) -> Vec<Call> {
        until(&format!("{count} calls came"), || self.calls().len() >= count);
        self.calls()
    }
}

const OK: &str = "HTTP/1.1 200 OK\r\ncontent-length: 2\r\nconnection: close\r\n\r\nok";
const BROKEN: &str = "HTTP/1.1 500 Internal Server Error\r\ncontent-length: 0\r\nconnection: close\r\n\r\n";
const REDIRECT: &str = "HTTP/1.1 302 Found\r\nlocation: http://127.0.0.1:1/\r\ncontent-length: 0\r\nconnection: close\r\n\r\n";
const UNWANTED: &str = "HTTP/1.1 422 Unprocessable Content\r\ncontent-length: 0\r\nconnection: close\r\n\r\n";
/// The connection is kept open, and nothing is said.
const SILENCE: &str = "";

fn serve(mut stream: TcpStream, answer: &str, kept: &Mutex<Vec<Call>>) -> Option<()> {
    let mut reader = BufReader::new(stream.try_clone().ok()?);
    let mut first = String::new();
    reader.read_line(&mut first).ok()?;
    let mut headers = HashMap::new();
    loop {
        let mut line = String::new();
        reader.read_line(&mut line).ok()?;
        let Some((name, value)) = line.trim_end().split_once(": ") else { break };
        headers.insert(name.to_lowercase(), value.to_owned());
    }
    let mut body = vec![0; headers.get("content-length").map_or(0, |length| length.parse().unwrap())];
    reader.read_exact(&mut body).ok()?;
    let path = first.split_whitespace().nth(1)?.to_owned();
    kept.lock().unwrap().push(Call { path, headers, body: String::from_utf8(body).ok()? });
    if answer == SILENCE {
        // Until the other end has had enough.
        _ = stream.read(&mut [0]);
        return None;
    }
    stream.write_all(answer.as_bytes()).ok()
}

/// Asks Python, which has a second opinion on signatures.
fn python_says(program: &str, arguments: &[&str]) -> String {
    let output = Command::new("python3").arg("-c").arg(program).args(arguments).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap().trim().to_owned()
}

fn add(daemon: &Daemon, arguments: &[&str]) -> u64 {
    let arguments = ["notify", "add", "--json"].iter().chain(arguments).copied().collect::<Vec<_>>();
    daemon.json(&arguments)["id"].as_u64().unwrap()
}

#[test]
fn a_hook_hears_of_starts_and_ends_with_a_signature_that_holds() {
    let sink = Sink::start(0, &[OK]);
    let daemon = Daemon::configured("a100:1", QUICK);
    let before = daemon.shell(&["--name", "before"], "true");
    daemon.wait_one(before);
    let every = "started,finished,failed,cancelled";
    add(&daemon, &["--webhook", &sink.url("/hook?from=rota"), "--secret", "key of mine", "--on", every]);
    let good = daemon.shell(&["--name", "good"], "true");
    daemon.wait_one(good);
    let bad = daemon.shell(&["--retries", "1", "--retry-delay", "0.01"], "exit 3");
    daemon.wait_one(bad);
    let gone = daemon.shell(&["--hold"], "true");
    daemon.ok(&["cancel", &gone.to_string()]);
    let calls = sink.until_calls(5);
    let told = calls.iter().map(|call| (call.json()["event"].clone(), call.json()["job"]["id"].clone())).collect::<Vec<_>>();
    // A second start of the same job is no news, and what was before nobody asked for.
    let expected = [("started", good), ("finished", good), ("started", bad), ("failed", bad), ("cancelled", gone)];
    assert_eq!(told, expected.map(|(event, job)| (json!(event), json!(job))));
    let failure = calls[3].json();
    assert_eq!((&failure["job"]["state"], &failure["job"]["exit_code"]), (&json!("failed"), &json!(3)), "{failure:#}");
    let mut ids = calls.iter().map(|call| call.headers["x-rota-id"].clone()).collect::<Vec<_>>();
    for call in &calls {
        assert_eq!((call.path.as_str(), call.headers["content-type"].as_str()), ("/hook?from=rota", "application/json"));
        let signature = python_says(
            "import hmac, sys; print('sha256=' + hmac.new(sys.argv[1].encode(), f'{sys.argv[2]}.{sys.argv[3]}'.encode(), 'sha256').hexdigest())",
            &["key of mine", &call.headers["x-rota-timestamp"], &call.body],
        );
        assert_eq!(call.headers["x-rota-signature"], signature);
        assert_eq!(call.json()["id"], call.headers["x-rota-id"]);
    }
    ids.sort();
    ids.dedup();
    assert_eq!(ids.len(), 5, "every message has an identity of its own");
}

#[test]
fn a_hook_that_is_down_or_broken_or_slow_hears_everything_once_it_is_well() {
    let port = free_port();
    let config = QUICK.replace("timeout_seconds = 5.0", "timeout_seconds = 0.3");
    let mut daemon = Daemon::configured("a100:2", &config);
    let address = format!("http://127.0.0.1:{port}/");
    let id = add(&daemon, &["--webhook", &address]);
    let jobs = [daemon.shell(&[], "true"), daemon.shell(&[], "exit 1")];
    daemon.wait(&jobs);
    let problem = |daemon: &Daemon| daemon.json(&["notify", "list", "--json"])[0]["problem"].clone();
    until("it is found to be down", || problem(&daemon).as_str().is_some_and(|why| why.contains("refused")));
    // The daemon dies meanwhile, and the hook comes back with trouble of its own.
    daemon.kill();
    let sink = Sink::start(port, &[BROKEN, REDIRECT, SILENCE, OK]);
    daemon.up();
    let other = add(&daemon, &["--webhook", &Sink::start(0, &[OK]).url("/")]);
    // Whoever is slow holds up nobody else.
    daemon.ok(&["notify", "test", &other.to_string()]);
    let calls = sink.until_calls(5);
    let told = |call: &Call| call.json()["job"]["id"].as_u64().unwrap();
    let first = told(&calls[0]);
    assert!(calls[..4].iter().all(|call| told(call) == first && call.headers["x-rota-id"] == calls[0].headers["x-rota-id"]));
    assert_ne!(told(&calls[4]), first);
    until("its trouble is over", || problem(&daemon).is_null());
    assert_eq!(daemon.ok(&["notify", "test", &id.to_string()]).trim(), "it arrived");
    assert_eq!(sink.until_calls(6)[5].json()["event"], "test");
    // What has arrived is not told again.
    daemon.restart();
    daemon.wait_one(daemon.shell(&[], "true"));
    assert_eq!(sink.until_calls(7)[6].json()["event"], "finished");
    daemon.ok(&["notify", "remove", &id.to_string()]);
    assert!(daemon.refusal(1, &["notify", "test", &id.to_string()]).contains("no target"));
}

#[test]
fn what_never_arrives_is_given_up_and_an_administrator_is_told() {
    let config = format!("{QUICK}give_up_hours = 0.0001\n");
    let daemon = Daemon::configured("a100:1", &config);
    let port = free_port();
    let id = add(&daemon, &["--webhook", &format!("http://127.0.0.1:{port}/secret-path")]);
    daemon.wait_one(daemon.shell(&[], "true"));
    let warnings = |daemon: &Daemon| daemon.json(&["status", "--json"])["warnings"].to_string();
    until("it is given up", || warnings(&daemon).contains("notifications were given up: 1 to number"));
    assert!(!warnings(&daemon).contains("secret-path"), "{}", warnings(&daemon));
    assert_eq!(daemon.json(&["notify", "list", "--json"])[0]["given_up"], 1);
    let sink = Sink::start(port, &[OK]);
    daemon.ok(&["notify", "test", &id.to_string()]);
    until("the warning goes", || warnings(&daemon) == "[]");
    assert_eq!(sink.calls().len(), 1, "only the test");
    // One that will not have a message gets the next.
    let picky = Sink::start(0, &[UNWANTED, OK]);
    add(&daemon, &["--webhook", &picky.url("/")]);
    daemon.wait(&[daemon.shell(&[], "true")]);
    until("one was refused", || warnings(&daemon).contains("422"));
    daemon.wait(&[daemon.shell(&[], "true")]);
    let calls = picky.until_calls(2);
    assert_ne!(calls[0].json()["job"]["id"], calls[1].json()["job"]["id"]);
}

#[test]
fn chats_are_told_in_their_own_way() {
    let sink = Sink::start(0, &[OK]);
    // It answers 200 to what it does not like, too.
    let sulky =
        "HTTP/1.1 200 OK\r\ncontent-length: 41\r\nconnection: close\r\n\r\n{\"errcode\":310000,\"errmsg\":\"wrong sign\"}\n";
    let ding = Sink::start(
        0,
        &[sulky, "HTTP/1.1 200 OK\r\ncontent-length: 27\r\nconnection: close\r\n\r\n{\"errcode\":0,\"errmsg\":\"ok\"}"],
    );
    let daemon = Daemon::configured("a100:1", QUICK);
    add(&daemon, &["--slack", &sink.url("/services/T0"), "--on", "failed"]);
    add(&daemon, &["--dingtalk", &ding.url("/robot/send?access_token=abc"), "--secret", "SEC123", "--on", "failed"]);
    let job = daemon.shell(&["--name", "<!channel> & \u{202e}co de"], "exit 7");
    daemon.wait_one(job);
    let text = sink.until_calls(1)[0].json();
    let text = text["text"].as_str().unwrap();
    assert!(text.starts_with(&format!("job {job} (&lt;!channel&gt; &amp;  co de) failed")), "{text}");
    assert!(text.contains("exit code 7") && !text.contains('\n'), "{text}");
    let calls = ding.until_calls(2);
    for call in &calls {
        let query = call.path.strip_prefix("/robot/send?").unwrap();
        let expected = python_says(
            "import sys, hmac, base64, hashlib, urllib.parse as u\n\
             asked = dict(u.parse_qsl(sys.argv[1]))\n\
             text = asked['timestamp'] + '\\n' + sys.argv[2]\n\
             sign = base64.b64encode(hmac.new(sys.argv[2].encode(), text.encode(), hashlib.sha256).digest()).decode()\n\
             print(asked['access_token'], asked['sign'] == sign)",
            &[query, "SEC123"],
        );
        assert_eq!(expected, "abc True", "{query}");
        assert_eq!(call.json()["msgtype"], "text");
        assert!(call.json()["text"]["content"].as_str().unwrap().contains("<!channel> &"), "{}", call.body);
    }
}

#[test]
fn a_site_is_told_of_everybodys_jobs_and_nothing_of_the_time_before() {
    let sink = Sink::start(0, &[OK]);
    let secret = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(secret.path(), "of the site\n").unwrap();
    let mut daemon = Daemon::start("a100:1");
    daemon.wait_one(daemon.shell(&[], "true"));
    daemon.kill();
    let site = format!(
        "{QUICK}[[notify.site]]\nkind = 'webhook'\naddress = '{}'\nsecret_file = '{}'\non = ['failed']\n",
        sink.url("/"),
        secret.path().display()
    );
    let config = daemon.file("site.toml");
    std::fs::write(&config, site).unwrap();
    daemon.add_argument("--config");
    daemon.add_argument(config.to_str().unwrap());
    daemon.up();
    daemon.wait_one(daemon.shell(&[], "true"));
    let failed = daemon.shell(&[], "exit 1");
    daemon.wait_one(failed);
    let calls = sink.until_calls(1);
    assert_eq!((&calls[0].json()["job"]["id"], calls.len()), (&json!(failed), 1));
    assert!(calls[0].headers.contains_key("x-rota-signature"));
    let listed = daemon.json(&["notify", "list", "--json"]);
    assert_eq!((&listed[0]["user"], &listed[0]["is_signed"]), (&Value::Null, &json!(true)));
    assert!(daemon.refusal(1, &["notify", "remove", &listed[0]["id"].to_string()]).contains("configuration"));
    // Without it in the configuration nobody is told any more.
    std::fs::write(&config, "").unwrap();
    daemon.restart();
    assert_eq!(daemon.json(&["notify", "list", "--json"]), json!([]));
}

#[test]
fn users_cannot_reach_through_the_daemon_what_they_should_not() {
    let sink = Sink::start(0, &[OK]);
    let Some((daemon, ann, bob)) = crate::live::queue::users::shared("a100:1", QUICK) else { return };
    let port = sink.port.to_string();
    for address in
        ["http://127.0.0.1:{}/", "http://localhost:{}/", "http://[::1]:{}/", "http://169.254.169.254:{}/", "http://10.0.0.1:{}/"]
    {
        let said = super::refused(2, &mut ann.call(&daemon, &["notify", "add", "--webhook", &address.replace("{}", &port)]));
        assert!(said.contains("private network"), "{address}: {said}");
    }
    assert!(super::refused(2, &mut ann.call(&daemon, &["notify", "add", "--mail", "a@example.org"])).contains("not set up"));
    // One that only turns out to be private when it is looked up: a name of this machine's own.
    let host = rustix::system::uname().nodename().to_string_lossy().into_owned();
    let named = ann.json(&daemon, &["notify", "add", "--json", "--webhook", &format!("http://{host}:{port}/")]);
    let id = named["id"].to_string();
    let said = super::refused(1, &mut ann.call(&daemon, &["notify", "test", &id]));
    assert!(said.contains("private network") || said.contains("found") || said.contains("lookup"), "{said}");
    assert!(sink.calls().is_empty());
    // Others' targets are nobody's business.
    assert_eq!(bob.json(&daemon, &["notify", "list", "--json"]), json!([]));
    assert!(super::refused(1, &mut bob.call(&daemon, &["notify", "remove", &id])).contains("no target"));
    assert_eq!(daemon.json(&["notify", "list", "--json"]).as_array().unwrap().len(), 1);
    // An administrator's own are told of the administrator's jobs only, and may be anywhere.
    add(&daemon, &["--webhook", &sink.url("/")]);
    let others = ann.submit(&daemon, &[], "true");
    let own = daemon.shell(&[], "true");
    daemon.wait(&[others, own]);
    let calls = sink.until_calls(1);
    assert_eq!((&calls[0].json()["job"]["id"], calls.len()), (&json!(own), 1));
}

/// A mail server of its own, as a process.
struct MailSink {
    child: Child,
    folder: PathBuf,
}

impl MailSink {
    fn start(python: &std::path::Path, folder: PathBuf, port: u16) -> Self {
        std::fs::create_dir_all(&folder).unwrap();
        let mut child = Command::new(python)
            .arg(root().join("tests/watchers/mail_sink.py"))
            .arg(&folder)
            .arg(port.to_string())
            .args(["--password", "rota:pass word"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        assert_eq!(line.trim(), port.to_string());
        Self { child, folder }
    }

    fn letter(&self, number: usize) -> Value {
        let path = self.folder.join(format!("{number}.json"));
        until(&format!("letter {number} came"), || path.exists());
        serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap()
    }
}

impl Drop for MailSink {
    fn drop(&mut self) {
        _ = self.child.kill();
        _ = self.child.wait();
    }
}

fn header<'a>(letter: &'a Value, name: &str) -> &'a str {
    let headers = letter["headers"].as_array().unwrap();
    headers.iter().find(|header| header[0] == name).map_or("", |header| header[1].as_str().unwrap())
}

#[test]
fn mail_goes_encrypted_through_the_sites_server_even_if_that_is_down_at_first() {
    let Some(python) = python() else { return };
    let folder = tempfile::tempdir().unwrap();
    let letters = folder.path().join("letters");
    let password = folder.path().join("password");
    std::fs::write(&password, "pass word\n").unwrap();
    let port = free_port();
    let config = format!(
        "{QUICK}[mail]\nserver = 'localhost'\nport = {port}\nuser = 'rota'\npassword_file = '{}'\nfrom = 'Rota <rota@example.org>'\nca_file = '{}'\n",
        password.display(),
        letters.join("ca.pem").display()
    );
    let daemon = Daemon::configured("a100:2", &config);
    let ann = add(&daemon, &["--mail", "ann@example.org", "--on", "started,finished,failed"]);
    let job = daemon.shell(&["--name", "évil Bcc: eve@example.org"], "exit 4");
    daemon.wait_one(job);
    let listed = || daemon.json(&["notify", "list", "--json"])[0]["problem"].clone();
    until("the server is found to be down", || listed().is_string());
    let sink = MailSink::start(&python, letters, port);
    let letter = sink.letter(1);
    assert_eq!((&letter["from"], &letter["to"]), (&json!("rota@example.org"), &json!(["ann@example.org"])), "{letter:#}");
    assert_eq!((&letter["is_encrypted"], &letter["user"]), (&json!(true), &json!("rota")));
    assert_eq!(header(&letter, "Auto-Submitted"), "auto-generated");
    assert!(header(&letter, "Message-ID").ends_with("@example.org>"), "{letter:#}");
    assert_eq!(header(&letter, "Bcc"), "", "{letter:#}");
    // Both the start and the end had gathered meanwhile.
    assert!(header(&letter, "Subject").contains("jobs: 1 started, 1 failed"), "{letter:#}");
    let body = letter["body"].as_str().unwrap();
    assert!(body.contains(&format!("job {job} (évil Bcc: eve@example.org) failed")) && body.contains("exit code 4"), "{body}");
    until("the trouble is over", || listed().is_null());
    // One thing alone is in the subject by its name.
    daemon.ok(&["notify", "remove", &ann.to_string()]);
    add(&daemon, &["--mail", "ann@example.org", "--on", "finished"]);
    let good = daemon.shell(&["--name", "good"], "true");
    daemon.wait_one(good);
    let second = sink.letter(2);
    assert!(header(&second, "Subject").contains(&format!("job {good} (good)")), "{second:#}");
    // One is put off and then told; one does not exist.
    let busy = add(&daemon, &["--mail", "busy@example.org"]);
    assert!(daemon.refusal(1, &["notify", "test", &busy.to_string()]).contains("try again later"));
    daemon.ok(&["notify", "test", &busy.to_string()]);
    let refused = add(&daemon, &["--mail", "refused@example.org"]);
    assert!(daemon.refusal(1, &["notify", "test", &refused.to_string()]).contains("no such person"));
}

#[test]
fn mistakes_are_named() {
    let daemon = Daemon::start("a100:1");
    for (arguments, part) in [
        (&["--webhook", "ftp://example.org"][..], "https://"),
        (&["--webhook", "http://me:pw@example.org/"], "no user"),
        (&["--mail", "me@example.org"], "not set up"),
        (&["--slack", "https://example.org", "--secret", "s"], "not signed"),
        (&["--webhook", "https://example.org", "--on", "sometimes"], "started, finished"),
        (&[], "--webhook"),
        (&["--webhook", "https://a.example", "--slack", "https://b.example"], "cannot be used with"),
    ] {
        let arguments = ["notify", "add"].iter().chain(arguments).copied().collect::<Vec<_>>();
        let said = daemon.refusal(2, &arguments);
        assert!(said.contains(part), "{arguments:?}: {said}");
    }
    assert!(daemon.ok(&["notify", "list"]).contains("nobody is told"));
    // Nobody who is told nothing costs anything, and too many are too many.
    for _ in 0..16 {
        add(&daemon, &["--webhook", "https://hooks.example.org/a/secret/path"]);
    }
    assert!(daemon.refusal(1, &["notify", "add", "--webhook", "https://example.org"]).contains("16"));
    let shown = daemon.ok(&["notify", "list"]);
    assert!(shown.contains("https://hooks.example.org/…") && !shown.contains("secret"), "{shown}");
}

#[test]
fn a_burst_becomes_few_letters_for_people_and_the_queue_does_not_wait() {
    // Nobody listens there, and every try takes its whole time.
    let slow = Sink::start(0, &[SILENCE]);
    let chat = Sink::start(0, &[OK]);
    let config = QUICK.replace("gather_seconds = 0.0", "gather_seconds = 1.0");
    let daemon = Daemon::configured("a100:4", &config);
    add(&daemon, &["--webhook", &slow.url("/")]);
    add(&daemon, &["--slack", &chat.url("/")]);
    let jobs = daemon.json(&["submit", "--json", "--array", "0-29", "--", "true"]);
    let jobs = jobs["ids"].as_array().unwrap().iter().map(|id| id.as_u64().unwrap()).collect::<Vec<_>>();
    daemon.wait(&jobs);
    let lines = || chat.calls().iter().map(|call| call.json()["text"].as_str().unwrap().lines().count()).sum::<usize>();
    until("all of them were told", || lines() == 30);
    assert!(chat.calls().len() < 30, "{} messages", chat.calls().len());
}
