//! Several jobs on one GPU: memory learned and predicted, a table of trainings that runs itself, and jobs that need more than they said.

use crate::live::{Daemon, Dice, until};
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::Stdio;

const GPU: &str = "GPU-00000000-0000-0000-0000-00000000000a";
/// What each kind of training needs, in MiB, in both of its epochs' halves.
const KINDS: [(&str, u32); 4] = [("a.py", 3000), ("b.py", 5000), ("c.py", 7000), ("d.py", 10_000)];

/// A machine with one GPU of 24 GiB that trainings fill, and the scripts they are.
struct Lab {
    folder: tempfile::TempDir,
}

impl Lab {
    fn new() -> Self {
        let lab = Self { folder: tempfile::tempdir().unwrap() };
        let device = json!({
            "uuid": GPU, "name": "NVIDIA GeForce RTX 3090", "memory_total_mib": 24_576, "memory_used_mib": 0, "utilisation": 0,
            "memory_utilisation": 0, "power_watts": 60.0, "energy_joules": 0, "temperature": 30, "compute_mode": "default", "processes": [],
        });
        std::fs::write(lab.machine(), json!({ "driver": "550.54", "cuda": 12040, "devices": [device] }).to_string()).unwrap();
        for (name, _) in KINDS {
            std::fs::write(lab.path().join(name), include_str!("training.py")).unwrap();
        }
        lab
    }

    fn path(&self) -> &Path {
        self.folder.path()
    }

    fn machine(&self) -> PathBuf {
        self.path().join("machine.json")
    }

    fn done(&self) -> PathBuf {
        self.path().join("done")
    }

    /// The daemon of this machine, which looks at it often.
    fn daemon(&self, epoch_seconds: &str, config: &str) -> Daemon {
        let library = nvidia_ml_fake::shared_library().expect("cargo builds the library beside the tests");
        let peaks = KINDS.map(|(name, peak)| format!("{name}:{peak}")).join(",");
        let variables: [(&str, &Path); 5] = [
            ("ROTA_NVML_LIB", &library),
            ("FAKE_NVML", &self.machine()),
            ("PEAK_MIB", Path::new(&peaks)),
            ("EPOCH_SECONDS", Path::new(epoch_seconds)),
            ("DONE", &self.done()),
        ];
        Daemon::with(&[], &format!("gpus.look_seconds = 0.05\n{config}"), &variables)
    }

    fn table(&self, rows: &[(&str, u32, i32)]) -> String {
        let place = self.path().display();
        let lines = rows.iter().map(|(name, epochs, priority)| format!("{place},-1,{name},{epochs},{priority}"));
        let text = std::iter::once("Directory,Executable,Filename,Epochs,Priority".to_owned())
            .chain(lines)
            .collect::<Vec<_>>()
            .join("\n");
        let path = self.path().join("trainings.csv");
        std::fs::write(&path, text).unwrap();
        path.display().to_string()
    }

    /// Runs a trace in the simulator, on the GPU without what the queue keeps free of it.
    fn simulate(&self, daemon: &Daemon, trace: &Path, options: &[&str]) -> Times {
        let cluster = self.path().join("cluster.toml");
        let kind = "[[gpu_type]]\nname = \"rtx3090\"\nmemory_mib = 24064\nidle_watts = 20\nfull_watts = 350\n";
        std::fs::write(&cluster, format!("{kind}[[node]]\nname = \"box\"\ngpus = \"rtx3090:1\"\n")).unwrap();
        let out = self.path().join("sim");
        let [trace, cluster, folder] = [trace, &cluster, &out].map(|path| path.display().to_string());
        let what = ["sim", "--trace", &trace, "--cluster", &cluster, "--policy", "priority", "--out", &folder];
        daemon.ok(&[&what[..], options].concat());
        let mut reader = csv::Reader::from_path(out.join("jobs.csv")).unwrap();
        let rows = reader.deserialize::<BTreeMap<String, String>>().map(|row| {
            let row = row.unwrap();
            let number = |name: &str| row[name].parse::<f64>().unwrap();
            (row["job_id"].parse().unwrap(), (number("start_s"), number("finish_s")))
        });
        rows.collect()
    }

    /// Runs eight trainings in the queue and again in the simulator: who was on the GPU at each start must be the same.
    fn packs_alike(&self, daemon: &Daemon, options: &[&str]) -> Times {
        // All at once, so that only packing decides; lengths apart, so that no two ends come together.
        daemon.ok(&["drain"]);
        let cwd = self.path().display().to_string();
        let mut ids = Vec::new();
        for (place, epochs) in [4_u32, 9, 6, 3, 8, 5, 7, 10].into_iter().enumerate() {
            let (name, peak) = KINDS[place % 4];
            let memory = (peak + 200).to_string();
            let length = (f64::from(epochs) * 0.3 + 0.2).to_string();
            let epochs = format!("--epochs={epochs}");
            let what = ["--memory", &memory, "--estimate", &length, "--cwd", &cwd, "--job-type", name];
            ids.push(daemon.submit(&[&what[..], &["--", "python3", name, &epochs, "--id=0"]].concat()));
        }
        daemon.ok(&["resume"]);
        let jobs = daemon.wait(&ids);
        let trace = self.path().join("history.csv");
        daemon.ok(&["history", "export", "-o", &trace.display().to_string()]);
        all_at_once(&trace);
        let simulated = self.simulate(daemon, &trace, options);
        let times = |job: &Value| (job["id"].as_u64().unwrap(), (seconds(job, "started_at"), seconds(job, "finished_at")));
        let live = jobs.iter().map(times).collect::<Times>();
        for id in &ids {
            assert_eq!(beside(*id, &live), beside(*id, &simulated), "job {id}: {live:?} and in the simulation {simulated:?}");
        }
        live
    }

    fn gpu(&self) -> Value {
        let text = std::fs::read_to_string(self.machine()).unwrap();
        serde_json::from_str::<Value>(&text).unwrap()["devices"][0].clone()
    }

    /// Which script ran how many epochs under which number.
    fn deeds(&self) -> Vec<(String, u32, u64)> {
        let text = std::fs::read_to_string(self.done()).unwrap_or_default();
        let deed = |line: &str| {
            let words = line.split(' ').collect::<Vec<_>>();
            (words[0].to_owned(), words[1].parse().unwrap(), words[2].parse().unwrap())
        };
        text.lines().map(deed).collect()
    }
}

fn seconds(job: &Value, field: &str) -> f64 {
    let at: jiff::Timestamp = job[field].as_str().unwrap().parse().unwrap();
    at.as_nanosecond() as f64 / 1e9
}

#[test]
fn forty_trainings_of_four_kinds_share_a_gpu_without_a_thought() {
    let lab = Lab::new();
    let daemon = lab.daemon("0.2", "");
    let rows = (0..40).map(|row| (KINDS[row % 4].0, 8, [5, 1, 2, 4][row % 4])).collect::<Vec<_>>();
    let table = lab.table(&rows);
    let page = lab.path().join("page.html").display().to_string();
    let jobs = daemon.json(&["batch", &table, "--json", "--report", &page]);
    let jobs = jobs.as_array().unwrap();
    assert_eq!(jobs.len(), 40);
    assert!(jobs.iter().all(|job| job["state"] == "done" && job["attempts"] == 1), "{jobs:#?}");
    let page = std::fs::read_to_string(&page).unwrap();
    assert!(page.contains("Gantt") && page.contains("Measured use and power of the GPUs"), "{}", &page[..page.len().min(3000)]);

    let gpu = lab.gpu();
    assert!(gpu["overflows"].is_null() && gpu["highest_mib"].as_u64().unwrap() <= 24_576, "{gpu:#}");

    // Each row ran once, whole, under a number of its own; each kind was measured once, in two epochs under another number.
    let deeds = lab.deeds();
    let trained = deeds.iter().filter(|deed| deed.1 == 8).collect::<Vec<_>>();
    let measured = deeds.iter().filter(|deed| deed.1 == 2).collect::<Vec<_>>();
    assert_eq!((trained.len(), measured.len()), (40, 4), "{deeds:?}");
    assert_eq!(deeds.iter().map(|deed| deed.2).collect::<BTreeSet<_>>().len(), 44);
    assert_eq!(measured.iter().map(|deed| &deed.0).collect::<BTreeSet<_>>().len(), 4);

    // Much better than one at a time.
    let alone = jobs.iter().map(|job| seconds(job, "finished_at") - seconds(job, "started_at")).sum::<f64>();
    let begin = jobs.iter().map(|job| seconds(job, "submitted_at")).fold(f64::MAX, f64::min);
    let end = jobs.iter().map(|job| seconds(job, "finished_at")).fold(0.0, f64::max);
    assert!(alone / (end - begin) >= 2.5, "{alone} s of work in {} s", end - begin);

    // What was learned is near the truth and is there for the next.
    let profiles = daemon.json(&["profiles", "--json"]);
    let known = profiles.as_array().unwrap().iter().map(|profile| {
        let class = profile["class"].as_str().unwrap();
        let kind = KINDS.iter().find(|(name, _)| class.ends_with(name)).unwrap();
        (kind.0, (kind.1, profile["predicted_mib"].as_u64().unwrap()))
    });
    let known = known.collect::<BTreeMap<_, _>>();
    assert_eq!(known.len(), 4, "{profiles:#}");
    for (peak, predicted) in known.values() {
        let predicted = u32::try_from(*predicted).unwrap();
        assert!((*peak..*peak + peak / 10 + 64).contains(&predicted), "{peak}: {predicted}");
    }
}

#[test]
fn a_table_goes_on_where_it_stopped_whoever_is_killed() {
    let lab = Lab::new();
    let mut daemon = lab.daemon("0.05", "");
    let rows = (0..24).map(|row| (KINDS[row % 4].0, 3, [0, 1, 2][row % 3])).collect::<Vec<_>>();
    let table = lab.table(&rows);
    let page = lab.path().join("page.html").display().to_string();
    let mut dice = Dice::new(7);
    for round in 0..6 {
        let mut running =
            daemon.call(&["batch", &table, "--report", &page]).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        // Somewhere in the middle of what it does: so many trainings have ended.
        let goal = round * 3 + dice.below(3) as usize;
        until("some have ended", || lab.deeds().len() >= goal);
        if round % 2 == 0 {
            daemon.kill();
        }
        running.kill().unwrap();
        running.wait().unwrap();
        if round % 2 == 0 {
            daemon.up();
        }
    }
    let jobs = daemon.json(&["batch", &table, "--json", "--report", &page]);
    assert!(jobs.as_array().unwrap().iter().all(|job| job["state"] == "done"), "{jobs:#}");
    let deeds = lab.deeds();
    assert_eq!(deeds.iter().filter(|deed| deed.1 == 3).count(), 24, "{deeds:?}");
    assert_eq!(deeds.iter().map(|deed| deed.2).collect::<BTreeSet<_>>().len(), deeds.len(), "{deeds:?}");
    // Once more: nothing is left to do. Under another name: everything.
    daemon.json(&["batch", &table, "--json", "--report", &page]);
    assert_eq!(lab.deeds().len(), deeds.len());
    daemon.json(&["batch", &table, "--json", "--report", &page, "--run", "again"]);
    assert_eq!(lab.deeds().len(), deeds.len() + 24);
}

#[test]
fn batches_end_before_the_next_begins_and_are_sorted_inside() {
    let lab = Lab::new();
    let daemon = lab.daemon("0.01", "gpus.jobs_per_gpu = 1");
    let rows = (0..6).map(|row| ("a.py", 2, 10 - row)).collect::<Vec<_>>();
    let table = lab.table(&rows);
    let page = lab.path().join("page.html").display().to_string();
    // Measured before, so that its first run by itself is not among them.
    daemon.json(&["batch", &table, "--json", "--report", &page, "--run", "before"]);
    let jobs = daemon.json(&["batch", &table, "--json", "--report", &page, "--num", "3"]);
    let mut jobs = jobs.as_array().unwrap().clone();
    jobs.sort_by(|a, b| seconds(a, "started_at").total_cmp(&seconds(b, "started_at")));
    let order = jobs.iter().map(|job| -job["priority"].as_i64().unwrap()).collect::<Vec<_>>();
    assert_eq!(order, [8, 9, 10, 5, 6, 7]);
}

#[test]
fn who_says_too_little_is_caught_marked_and_tried_again_with_more() {
    let lab = Lab::new();
    let daemon = lab.daemon("0.4", "");
    let honest =
        ["--memory", "5200", "--cwd", &lab.path().display().to_string(), "--", "python3", "b.py", "--epochs=12", "--id=1"];
    let liar = ["--memory", "2000", "--cwd", &lab.path().display().to_string(), "--", "python3", "c.py", "--epochs=4", "--id=2"];
    let (honest, liar) = (daemon.submit(&honest), daemon.submit(&liar));
    let jobs = daemon.wait(&[honest, liar]);
    assert_eq!((&jobs[0]["state"], &jobs[0]["attempts"]), (&json!("done"), &json!(1)), "{:#}", jobs[0]);
    assert_eq!(jobs[1]["state"], "done", "{:#}", jobs[1]);
    assert!(jobs[1]["out_of_memory"].as_u64().unwrap() >= 1, "{:#}", jobs[1]);
    assert!(lab.gpu()["overflows"].is_null());
    assert!(jobs[1]["memory_mib"].as_u64().unwrap() >= 7000, "{:#}", jobs[1]);
}

#[test]
fn a_job_that_runs_out_of_memory_says_so_and_is_tried_again_a_few_times() {
    let lab = Lab::new();
    let daemon = lab.daemon("0.2", "");
    let line = "echo 'torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 20.00 MiB'; exit 1";
    let beyond_help = daemon.shell(&["--memory", "3000"], line);
    let alone = daemon.shell(&[], line);
    let other = daemon.shell(&["--memory", "3000"], "echo 'ValueError: no memory of that'; exit 1");
    let jobs = daemon.wait(&[beyond_help, alone, other]);
    assert_eq!((&jobs[0]["state"], &jobs[0]["attempts"]), (&json!("failed"), &json!(3)), "{:#}", jobs[0]);
    let reason = jobs[0]["reason"].as_str().unwrap();
    assert!(reason.starts_with("out of GPU memory: it had 6750 MiB"), "{reason}");
    assert_eq!((&jobs[1]["state"], &jobs[1]["attempts"]), (&json!("failed"), &json!(1)), "{:#}", jobs[1]);
    assert!(jobs[1]["reason"].as_str().unwrap().contains("a GPU to itself"), "{:#}", jobs[1]);
    assert_eq!((&jobs[2]["attempts"], &jobs[2]["reason"]), (&json!(1), &json!("exit code 1")), "{:#}", jobs[2]);
}

#[test]
fn what_can_never_fit_is_refused_with_numbers() {
    let lab = Lab::new();
    let daemon = lab.daemon("0.05", "");
    let said = daemon.refusal(2, &["submit", "--memory", "30000", "--", "true"]);
    assert!(said.contains("30000 MiB") && said.contains("24576 MiB"), "{said}");
    // A program that had a whole GPU and not enough of it: the next is told at once, with where that is known from.
    let line = "echo 'CUDA out of memory'; exit 1";
    let first = daemon.shell(&["--memory", "auto", "--profile-as", "giant"], line);
    assert_eq!(daemon.wait_one(first)["state"], "failed");
    let said = daemon.refusal(2, &["submit", "--memory", "auto", "--profile-as", "giant", "--", "true"]);
    assert!(said.contains("(24576 MiB)") && said.contains("`giant`") && said.contains("--forget"), "{said}");
    daemon.ok(&["profiles", "--forget", "giant"]);
    daemon.submit(&["--memory", "auto", "--profile-as", "giant", "--", "true"]);
    daemon.refusal(1, &["profiles", "--forget", "nobody"]);
}

#[test]
fn a_job_that_prints_a_hundred_megabytes_holds_up_nobody() {
    let daemon = Daemon::start("a100:1");
    let loud = daemon.shell(&["--memory", "1000"], "head -c 100000000 /dev/zero | tr '\\0' 'x'");
    let quiet = daemon.shell(&["--memory", "1000"], "true");
    let jobs = daemon.wait(&[quiet, loud]);
    assert!(jobs.iter().all(|job| job["state"] == "done"), "{jobs:#?}");
}

#[test]
fn mistakes_in_a_table_are_found_before_anything_starts() {
    let lab = Lab::new();
    let daemon = lab.daemon("0.05", "");
    let table = lab.table(&[("a.py", 1, 1), ("nowhere.py", 1, 1)]);
    for options in [&["batch", &table][..], &["batch", &table, "--check"]] {
        let said = daemon.refusal(2, options);
        assert!(said.contains("trainings.csv:3: column Filename: there is no file"), "{said}");
    }
    assert_eq!(daemon.json(&["queue", "--all", "--json"]), json!([]));
    let table = lab.table(&vec![("a.py", 1, 1); 100_000]);
    assert!(daemon.ok(&["batch", &table, "--check"]).contains("100000 rows"));
}

#[test]
fn the_simulator_packs_as_the_queue_did() {
    let lab = Lab::new();
    let daemon = lab.daemon("0.3", "");
    lab.packs_alike(&daemon, &[]);
}

/// Two of `a` never gain by sharing, nor do `b` and `c`; `a` and `d` nearly leave each other alone.
const SPEEDS: &str = "job_type,gpus,with_job_type,with_gpus,rtx3090\n\
    a.py,1,,,10\nb.py,1,,,10\nc.py,1,,,10\nd.py,1,,,10\n\
    a.py,1,a.py,1,4\nb.py,1,c.py,1,5\nc.py,1,b.py,1,5\na.py,1,d.py,1,9\nd.py,1,a.py,1,9\n";

#[test]
fn the_simulator_packs_as_the_queue_did_where_speeds_together_are_known() {
    let lab = Lab::new();
    let speeds = lab.path().join("speeds.csv");
    std::fs::write(&speeds, SPEEDS).unwrap();
    let speeds = speeds.display().to_string();
    let daemon = lab.daemon("0.3", &format!("[sharing]\nthroughputs = {speeds:?}\n"));
    let live = lab.packs_alike(&daemon, &["--throughputs", &speeds]);
    let kind_of = |id: u64| KINDS[(id as usize - 1) % 4].0;
    for (&one, times) in &live {
        for (&other, others) in live.range(one + 1..) {
            let hostile = matches!((kind_of(one), kind_of(other)), ("a.py", "a.py") | ("b.py", "c.py") | ("c.py", "b.py"));
            assert!(!hostile || times.1 <= others.0 || others.1 <= times.0, "{one} and {other} in {live:?}");
        }
    }
}

#[test]
fn a_job_that_would_be_in_the_way_is_told_so() {
    let lab = Lab::new();
    let speeds = lab.path().join("speeds.csv");
    std::fs::write(&speeds, SPEEDS).unwrap();
    let daemon = lab.daemon("0.3", &format!("[sharing]\nthroughputs = {:?}\n", speeds.display().to_string()));
    let first = daemon.shell(&["--memory", "1000", "--estimate", "1h", "--job-type", "a.py"], "sleep 600");
    let second = daemon.shell(&["--memory", "1000", "--job-type", "a.py"], "true");
    // It is over long before the second can begin.
    let friend = daemon.shell(&["--memory", "1000", "--estimate", "5s", "--job-type", "d.py"], "true");
    assert_eq!(daemon.wait_one(friend)["state"], "done");
    let reason = daemon.json(&["explain", &second.to_string(), "--json"])["reason"].as_str().unwrap().to_owned();
    assert!(reason.contains(&format!("with it beside job {first} less would get done")), "{reason}");
    daemon.ok(&["cancel", &first.to_string()]);
    assert_eq!(daemon.wait_one(second)["state"], "done");
    std::fs::write(&speeds, "job_type,gpus,rtx3090\na.py,1,-3\n").unwrap();
    let config = lab.path().join("config.toml");
    std::fs::write(&config, "[sharing]\nthroughputs = 'speeds.csv'\n").unwrap();
    let said = daemon.refusal(2, &["config", "check", &config.display().to_string()]);
    assert!(said.contains("sharing.throughputs") && said.contains("speeds.csv:2"), "{said}");
}

/// They waited for the drain to end: as if they had come then.
fn all_at_once(trace: &Path) {
    let mut reader = csv::Reader::from_path(trace).unwrap();
    let titles = reader.headers().unwrap().clone();
    let rows = reader.records().map(Result::unwrap).collect::<Vec<_>>();
    let mut writer = csv::Writer::from_path(trace).unwrap();
    writer.write_record(&titles).unwrap();
    for row in rows {
        writer.write_record(titles.iter().zip(&row).map(|(title, cell)| if title == "arrival_s" { "0" } else { cell })).unwrap();
    }
}

/// Starts and ends, by job.
type Times = BTreeMap<u64, (f64, f64)>;

/// Who was on the GPU when a job came to it.
fn beside(id: u64, times: &Times) -> BTreeSet<u64> {
    let start = times[&id].0;
    let is_there = |(other, (from, to)): (&u64, &(f64, f64))| (*other != id && *from <= start && start < *to).then_some(*other);
    // Of those that start together, each is beside the ones before it.
    times.iter().filter_map(is_there).filter(|other| times[other].0 < start || *other < id).collect()
}

#[test]
fn a_small_table_is_packed_nearly_as_well_as_can_be() {
    let lab = Lab::new();
    let daemon = lab.daemon("0.5", "");
    let rows = (0..8).map(|row| (KINDS[row % 4].0, 3, 1)).collect::<Vec<_>>();
    let table = lab.table(&rows);
    let page = lab.path().join("page.html").display().to_string();
    // Measured first, so that only packing counts.
    daemon.json(&["batch", &table, "--json", "--report", &page, "--run", "first"]);
    let jobs = daemon.json(&["batch", &table, "--json", "--report", &page, "--run", "second"]);
    let jobs = jobs.as_array().unwrap();
    // They do the same work; how long each really took depends on what else this machine does.
    let lengths = jobs.iter().map(|job| seconds(job, "finished_at") - seconds(job, "started_at"));
    let length = lengths.fold(0.0, f64::max);
    let needs = jobs.iter().map(|job| (length, u32::try_from(job["memory_mib"].as_u64().unwrap()).unwrap())).collect::<Vec<_>>();
    // The same jobs in the simulator, whose clock no other program on this machine holds up.
    let trace = lab.path().join("trace.csv");
    let line = |(id, (length, memory)): (usize, &(f64, u32))| format!("{id},0,{length},1,0.125,{memory}\n");
    let lines = needs.iter().enumerate().map(line).collect::<String>();
    std::fs::write(&trace, format!("id,arrival_s,duration_s,gpus,share,memory_mib\n{lines}")).unwrap();
    let end = lab.simulate(&daemon, &trace, &[]).values().map(|times| times.1).fold(0.0, f64::max);
    let best = best_makespan(&needs, 24_064);
    assert!(end <= best * 1.15, "{end} s, and {best} s would do: {needs:?}");
}

/// The shortest time in which jobs of these lengths and sizes can be over: all orders are tried, each job as early as it fits.
fn best_makespan(jobs: &[(f64, u32)], memory: u32) -> f64 {
    fn go(left: &mut Vec<(f64, u32)>, placed: &mut Vec<(f64, f64, u32)>, memory: u32, best: &mut f64) {
        if left.is_empty() {
            *best = best.min(placed.iter().map(|job| job.1).fold(0.0, f64::max));
            return;
        }
        for place in 0..left.len() {
            let (length, size) = left.remove(place);
            let starts = placed.iter().map(|job| job.1).chain([0.0]);
            let fits = |start: &f64| {
                let moments = placed.iter().map(|job| job.0).filter(|at| (*start..start + length).contains(at)).chain([*start]);
                moments.into_iter().all(|at| {
                    let used = placed.iter().filter(|job| job.0 <= at && at < job.1).map(|job| job.2).sum::<u32>();
                    used + size <= memory
                })
            };
            let start = starts.filter(fits).fold(f64::MAX, f64::min);
            if start + length < *best {
                placed.push((start, start + length, size));
                go(left, placed, memory, best);
                placed.pop();
            }
            left.insert(place, (length, size));
        }
    }
    let mut best = f64::MAX;
    go(&mut jobs.to_vec(), &mut Vec::new(), memory, &mut best);
    best
}
