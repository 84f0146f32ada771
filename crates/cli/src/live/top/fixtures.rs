//! A machine, a queue and a user at the keys, for tests.

use super::app::{App, DaemonView};
use super::input::{Effect, press};
use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use jiff::Timestamp;
use ratatui::Terminal;
use ratatui::backend::TestBackend;
use rota_daemon::Text;
use rota_daemon::api::{Gpu, GpuProcess, GpuState, Job, JobState, Status};

/// Everything below happens in the minutes before this.
pub fn now() -> Timestamp {
    "2026-11-16T12:00:00Z".parse().unwrap()
}

/// A job, submitted twenty minutes ago; one that has GPUs runs for ten.
pub fn job(id: u64, state: JobState, name: &str) -> Job {
    let begun = !matches!(state, JobState::Waiting | JobState::Held);
    Job {
        id,
        name: Some(name.to_owned()),
        group: None,
        array_index: None,
        params: std::collections::BTreeMap::new(),
        project: None,
        user: "alice".to_owned(),
        state,
        exit_code: (state == JobState::Done).then_some(0),
        signal: None,
        reason: None,
        command: vec![Text::from("python"), Text::from("train.py")],
        cwd: Text::from("/home/alice"),
        gpus_requested: 1,
        gpu_indices: state.has_gpus().then(|| vec![0]),
        gpu_uuids: None,
        gpu_types: Vec::new(),
        gpu_ids: Vec::new(),
        any_type: false,
        memory_mib: None,
        peak_memory_mib: None,
        profile: None,
        job_type: None,
        is_profile_run: false,
        out_of_memory: 0,
        share: None,
        priority: 0,
        submitted_at: "2026-11-16T11:40:00Z".to_owned(),
        started_at: begun.then(|| "2026-11-16T11:50:00Z".to_owned()),
        finished_at: state.is_over().then(|| "2026-11-16T11:59:30Z".to_owned()),
        attempts: u32::from(begun),
        retries: 0,
        after: Vec::new(),
        estimate_seconds: None,
        time_limit_seconds: None,
        preemptible: false,
        energy_wh: None,
        steps_done: None,
        preemptions: 0,
        log_path: None,
        claim: false,
        position: None,
        start_p10: None,
        start_p50: None,
        start_p90: None,
    }
}

/// A free GPU of 80 GiB.
pub fn gpu(index: u32) -> Gpu {
    Gpu {
        index,
        uuid: format!("GPU-{index}"),
        name: "NVIDIA A100".to_owned(),
        kind: "a100".to_owned(),
        node: "here".to_owned(),
        state: GpuState::Free,
        memory_total_mib: 81_920,
        memory_used_mib: Some(0),
        utilisation_percent: Some(0),
        memory_utilisation_percent: None,
        power_watts: Some(61.0),
        temperature_c: Some(33),
        jobs: Vec::new(),
        processes: Vec::new(),
    }
}

/// A free virtual GPU, as `rota up --virtual-gpus` makes it.
pub fn virtual_gpu(index: u32) -> Gpu {
    Gpu { name: "Virtual a100".to_owned(), ..gpu(index) }
}

/// A GPU with half of its memory a job's and a quarter a stranger's.
pub fn crowded_gpu(index: u32) -> Gpu {
    let process = |pid, user: &str, memory_mib, job| GpuProcess {
        pid,
        user: Some(user.to_owned()),
        name: None,
        memory_mib: Some(memory_mib),
        job,
    };
    Gpu {
        state: GpuState::Stranger,
        memory_used_mib: Some(61_440),
        utilisation_percent: Some(90),
        jobs: vec![17],
        processes: vec![
            process(4711, "mallory", 20_480, None),
            process(900, "alice", 30_720, Some(17)),
            process(901, "alice", 10_240, Some(17)),
        ],
        ..gpu(index)
    }
}

/// The machine with its queue as the daemon would tell it.
pub fn sight(gpus: Vec<Gpu>, jobs: Vec<Job>) -> DaemonView {
    let count = |wanted: fn(JobState) -> bool| jobs.iter().filter(|job| wanted(job.state)).count() as u64;
    let status = Status {
        decisions: 0,
        decision_seconds_max: 0.0,
        version: "0.1.0".to_owned(),
        pid: 1,
        state_dir: "/var/lib/rota".to_owned(),
        socket: "/var/lib/rota/rota.sock".to_owned(),
        http: None,
        started_at: "2026-11-16T08:00:00Z".to_owned(),
        driver: "NVIDIA 580.65".to_owned(),
        policy: "priority".to_owned(),
        draining: false,
        waiting: count(|state| state == JobState::Waiting),
        held: count(|state| state == JobState::Held),
        running: count(JobState::has_gpus),
        gpus,
        warnings: Vec::new(),
    };
    let (over, jobs) = jobs.into_iter().partition(|job| job.state.is_over());
    DaemonView { status, jobs, over, groups: Vec::new() }
}

/// A dashboard that has looked once.
pub fn app(gpus: Vec<Gpu>, jobs: Vec<Job>) -> App {
    App::new(sight(gpus, jobs), now(), 1.0)
}

/// A small room full: two GPUs, four jobs.
pub fn room() -> App {
    let mut waiting = job(18, JobState::Waiting, "evaluate");
    waiting.reason = Some("needs 1 GPU; GPU 0 is held by job 17".to_owned());
    let jobs = vec![
        waiting,
        job(17, JobState::Running, "train-llama"),
        job(19, JobState::Held, "sweep"),
        job(16, JobState::Done, "prepare"),
    ];
    app(vec![crowded_gpu(0), gpu(1)], jobs)
}

/// Hits keys one after another; what the last one asks for.
pub fn hit(app: &mut App, keys: &[KeyCode]) -> Effect {
    keys.iter().fold(Effect::None, |_, key| press(app, KeyEvent::new(*key, KeyModifiers::NONE)))
}

/// What a terminal of this size shows, row by row.
pub fn shown(app: &mut App, width: u16, height: u16) -> Vec<String> {
    app.size = (width, height);
    let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
    terminal.draw(|frame| super::draw::screen(app, frame)).unwrap();
    let buffer = terminal.backend().buffer();
    let row = |y: u16| (0..width).map(|x| buffer[(x, y)].symbol()).collect::<String>().trim_end().to_owned();
    (0..height).map(row).collect()
}
