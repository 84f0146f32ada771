//! The text of the pages that fill the screen: one job, its log, the GPUs with all jobs and processes on them, the keys.

use super::app::{App, Page};
use super::tenants::tenants;
use super::words::{age, job_gpus, job_name, memory, plain, short_time, wrap};
use crate::live::machine::gpu_state;
use crate::live::text::with_local_times;
use rota_daemon::api::{Gpu, Job};

/// How a row is to look.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tone {
    /// As it is.
    Plain,
    /// The beginning of something.
    Heading,
    /// Something is wrong.
    Alert,
}

/// One row of a page.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Row {
    /// The row's text, which fits the screen.
    pub text: String,
    /// The row's tone.
    pub tone: Tone,
}

const KEYS: [(&str, &str); 18] = [
    ("↑ ↓ k j", "select a job, or scroll"),
    ("PgUp PgDn", "a page up or down"),
    ("Home End", "the first or the last"),
    ("enter", "the job in full, and why it waits"),
    ("l", "its log; scroll up to stop following, End to go on"),
    ("g", "the GPUs with everybody on them, and warnings"),
    ("c", "cancel the job (asks first); a second time ends it at once"),
    ("h", "hold it: it is not started (asks first)"),
    ("r", "release it after all (asks first)"),
    ("+ -", "a higher or lower priority for a job that waits"),
    ("/", "find jobs by number, name, user or state; esc shows all"),
    ("s", "sort by arrival, user, priority or name"),
    ("x", "unfold a group, or fold it again; c, h and r mean all of a folded group"),
    ("q esc", "back; on the first screen q quits"),
    ("ctrl-c", "quit from anywhere"),
    ("ctrl-l", "draw the screen again"),
    ("", ""),
    ("memory", "█▓ jobs  ▒ strangers  ░ nobody known  · free"),
];

/// Rows for text on a page, between the title and the keys; on the overview about as many as there are jobs in sight.
pub fn height(app: &App) -> usize {
    let rows = usize::from(app.size.1);
    if app.page == Page::Overview { rows / 3 } else { rows.saturating_sub(3) }
}

/// How far the page can be scrolled.
pub fn scroll_max(app: &App) -> usize {
    rows(app).len().saturating_sub(height(app))
}

/// What the page is called.
pub fn title(app: &App) -> String {
    let of_job = |what: &str| {
        let named = app.selected_job().map(|job| format!("{what} {} · {} · {}", job.id, job_name(job), job.state.word()));
        named.unwrap_or_else(|| what.to_owned())
    };
    match app.page {
        Page::Overview => String::new(),
        Page::Job => of_job("job"),
        Page::Log if app.scroll > 0 => of_job("log, not following, of job"),
        Page::Log => of_job("log of job"),
        Page::Gpus => format!("GPUs · {}", plain(&app.status.driver)),
        Page::Help => "keys".to_owned(),
    }
}

/// The page's whole text, in rows that fit the screen.
pub fn rows(app: &App) -> Vec<Row> {
    let columns = usize::from(app.size.0);
    let mut rows = Vec::new();
    let mut add = |tone: Tone, text: &str| rows.extend(wrap(&plain(text), columns).into_iter().map(|text| Row { text, tone }));
    match app.page {
        Page::Overview => {}
        Page::Job => job_page(app, &mut add),
        Page::Log => match silence(app) {
            Some(why) => add(Tone::Plain, &why),
            None => app.log.tail.lines().for_each(|line| add(Tone::Plain, &line)),
        },
        Page::Gpus => {
            app.status.warnings.iter().for_each(|warning| add(Tone::Alert, &format!("! {warning}")));
            if app.status.gpus.is_empty() {
                add(Tone::Plain, "no GPU: jobs with -g 0 run on the processor");
            }
            app.status.gpus.iter().for_each(|gpu| gpu_page(gpu, &mut add));
        }
        Page::Help => KEYS.iter().for_each(|(key, meaning)| add(Tone::Plain, format!(" {key:<10} {meaning}").trim_end())),
    }
    rows
}

/// Why there is no log to show, if there is none.
pub fn silence(app: &App) -> Option<String> {
    let job = app.selected_job()?;
    if app.log.job == Some(job.id) {
        if let Some(refusal) = &app.log.refusal {
            return Some(refusal.clone());
        }
        if !app.log.tail.is_empty() {
            return None;
        }
    }
    Some(if job.claim {
        "a claim: the process that holds it writes where it likes".to_owned()
    } else if job.attempts == 0 {
        "it has not started: nothing is written yet".to_owned()
    } else if app.log.job == Some(job.id) {
        "nothing is written yet".to_owned()
    } else {
        "…".to_owned()
    })
}

fn job_page(app: &App, add: &mut impl FnMut(Tone, &str)) {
    let Some(job) = app.selected_job() else { return add(Tone::Plain, "it is no longer in the list") };
    match app.explanation.as_ref().filter(|(id, _)| *id == job.id) {
        Some((_, Ok(why))) => {
            add(Tone::Heading, &with_local_times(&why.reason));
            why.blockers
                .iter()
                .for_each(|blocker| add(Tone::Plain, &format!("  {}: {}", blocker.kind, with_local_times(&blocker.text))));
            if let Some(start) = &why.start_p50 {
                let left = start.parse::<jiff::Timestamp>().map_or(0, |start| start.as_second() - app.now.as_second());
                add(Tone::Plain, &format!("expected to start in {} ({})", short_time(left), with_local_times(start)));
            }
        }
        Some((_, Err(problem))) => add(Tone::Alert, problem),
        None => add(Tone::Heading, &with_local_times(job.reason.as_deref().unwrap_or("…"))),
    }
    add(Tone::Plain, "");
    facts(app, job, add);
}

fn facts(app: &App, job: &Job, add: &mut impl FnMut(Tone, &str)) {
    let mut fact = |name: &str, value: Option<String>| {
        if let Some(value) = value {
            add(Tone::Plain, &format!("{name:<12} {value}"));
        }
    };
    let moment = |at: &Option<String>| at.as_ref().map(|at| format!("{} ({} ago)", with_local_times(at), age(app.now, at)));
    let has_gpus = job.gpu_indices.as_ref().is_some_and(|indices| !indices.is_empty());
    let types = if job.gpu_types.is_empty() { String::new() } else { format!(" of {}", job.gpu_types.join(", ")) };
    fact("state", Some(job.state.word().to_owned()));
    fact("owner", Some(job.user.clone()));
    fact("command", Some(crate::live::text::command_line(&job.command)).filter(|command| !command.is_empty()));
    fact("directory", Some(job.cwd.lossy()).filter(|dir| !dir.is_empty()));
    fact("gpus", Some(if has_gpus { job_gpus(job) } else { format!("{} wanted{types}", job.gpus_requested) }));
    fact("memory", job.memory_mib.map(|mib| format!("{mib} MiB on each GPU")));
    fact("peak memory", job.peak_memory_mib.map(|mib| format!("{mib} MiB")));
    fact("share", job.share.map(|share| share.to_string()));
    fact("priority", Some(job.priority.to_string()));
    fact("place", job.position.map(|place| format!("{place} among the waiting, in order of arrival")));
    let after = job.after.iter().map(|after| after.id.to_string()).collect::<Vec<_>>().join(", ");
    fact("after", Some(after).filter(|after| !after.is_empty()));
    fact("submitted", moment(&Some(job.submitted_at.clone())));
    fact("started", moment(&job.started_at));
    fact("finished", moment(&job.finished_at));
    fact("estimate", job.estimate_seconds.map(|seconds| short_time(seconds as i64)));
    fact("time limit", job.time_limit_seconds.map(|seconds| short_time(seconds as i64)));
    fact("attempts", Some(format!("{} of {}", job.attempts, job.retries + 1)));
    fact("exit code", job.exit_code.map(|code| code.to_string()));
    fact("signal", job.signal.map(|signal| signal.to_string()));
    fact("energy", job.energy_wh.map(|energy| format!("{energy:.2} Wh")));
    fact("log", job.log_path.clone());
}

fn gpu_page(gpu: &Gpu, add: &mut impl FnMut(Tone, &str)) {
    let mut facts = vec![format!("{} {} {}", gpu.index, gpu.name, gpu_state(gpu.state))];
    facts.extend(gpu.memory_used_mib.map(|used| format!("{} of {}", memory(used), memory(gpu.memory_total_mib))));
    facts.extend(gpu.utilisation_percent.map(|busy| format!("{busy}% busy")));
    facts.extend(gpu.power_watts.map(|watts| format!("{watts:.0} W")));
    facts.extend(gpu.temperature_c.map(|degrees| format!("{degrees} °C")));
    add(Tone::Heading, &facts.join(" · "));
    for tenant in tenants(gpu) {
        let used = tenant.memory_mib.map_or_else(|| "memory not known".to_owned(), |mib| format!("{mib} MiB"));
        let who = if tenant.job.is_some() { "job" } else { "stranger" };
        add(Tone::Plain, &format!("    {who} {}  {used}", tenant.label.trim_start_matches('#')));
    }
}
