//! Choosing jobs: by number, range, group, name, state and user; and what is shown before several of them are touched.

use crate::live::args::{JobWord, SelectArgs};
use crate::live::client::{Client, Failure};
use crate::live::text::{columns, state_word};
use crate::output;
use anyhow::bail;
use rota_daemon::api::{GroupCounts, Job, JobState, JobVerb};
use std::collections::BTreeMap;
use std::io::{BufRead, IsTerminal, Write};

/// Jobs in one answer of the daemon.
const PAGE_MAX: usize = 10_000;
/// Jobs that a preview shows by name.
const SHOWN_MAX: usize = 10;

/// Text as it goes into an address.
pub fn escaped(text: &str) -> String {
    form_urlencoded::byte_serialize(text.as_bytes()).collect()
}

/// What jobs are chosen for: jobs that it cannot be done to are left out, unless they were named by their number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// To change them.
    Change(JobVerb),
    /// To wait until they are over.
    Wait,
    /// To look at them.
    Look,
}

impl Purpose {
    /// Whether a job in this state can be meant.
    fn may_mean(self, state: JobState) -> bool {
        match self {
            Self::Change(JobVerb::Cancel) => !state.is_over(),
            Self::Change(JobVerb::Hold) => state == JobState::Waiting,
            Self::Change(JobVerb::Release) => state == JobState::Held,
            Self::Change(JobVerb::Retry) => state.is_over() && state != JobState::Done,
            Self::Wait | Self::Look => true,
        }
    }

    /// Whether jobs that are over are asked for where only a name or a user is given.
    fn wants_past(self) -> bool {
        matches!(self, Self::Change(JobVerb::Retry) | Self::Look)
    }
}

/// The jobs that are meant.
pub struct Selection {
    /// The jobs, in the order of their numbers.
    pub jobs: Vec<Job>,
    /// Whether every job was named by its number.
    pub is_by_number: bool,
}

/// Finds the jobs that are meant.
pub fn select(client: &Client, args: &SelectArgs, purpose: Purpose) -> anyhow::Result<Selection> {
    let states = args.states();
    if args.what.is_empty() && !args.is_filter() {
        bail!("name jobs: by number (17), range (3-9), group (group:7), or with --name, --state or --user");
    }
    let mut jobs = BTreeMap::new();
    let is_by_number = !args.is_filter() && args.what.iter().all(|word| matches!(word, JobWord::Job(_)));
    for word in &args.what {
        let found = match *word {
            JobWord::Job(id) => vec![client.get::<Job>(&format!("/api/v1/jobs/{id}"))?],
            JobWord::Range(first, last) => range(client, first, last)?,
            JobWord::Group(group) => members(client, group)?,
        };
        let is_meant = |job: &Job| matches!(word, JobWord::Job(_)) || purpose.may_mean(job.state);
        jobs.extend(found.into_iter().filter(is_meant).map(|job| (job.id, job)));
    }
    if args.what.is_empty() {
        let found = matching(client, args, &states, purpose)?;
        jobs.extend(found.into_iter().filter(|job| purpose.may_mean(job.state)).map(|job| (job.id, job)));
    } else if let Some(name) = &args.name {
        let named = matching(client, args, &states, Purpose::Look)?.into_iter().map(|job| job.id).collect::<Vec<_>>();
        jobs.retain(|id, _| named.binary_search(id).is_ok());
        if jobs.is_empty() {
            return Err(none(&format!("none of these jobs is called {name}")));
        }
    }
    jobs.retain(|_, job| states.is_empty() || states.contains(&job.state));
    if let Some(user) = args.user.as_ref().filter(|user| *user != "all") {
        jobs.retain(|_, job| job.user == *user);
    }
    if jobs.is_empty() {
        return Err(none(&nothing(args, &states, purpose)));
    }
    Ok(Selection { jobs: jobs.into_values().collect(), is_by_number })
}

fn none(text: &str) -> anyhow::Error {
    anyhow::Error::new(Failure(text.to_owned()))
}

/// Why no job is meant, in words.
fn nothing(args: &SelectArgs, states: &[JobState], purpose: Purpose) -> String {
    let mut wanted = Vec::new();
    wanted.extend(args.name.as_ref().map(|name| format!("called {name}")));
    wanted.extend(args.user.as_ref().map(|user| format!("of {user}")));
    wanted.extend(states.iter().map(|state| state.word().to_owned()));
    let can = match purpose {
        Purpose::Change(JobVerb::Cancel) => "that is not over",
        Purpose::Change(JobVerb::Hold) => "that waits",
        Purpose::Change(JobVerb::Release) => "that is held",
        Purpose::Change(JobVerb::Retry) => "that failed, was cancelled or is lost",
        Purpose::Wait | Purpose::Look => "there",
    };
    let wanted = if wanted.is_empty() { String::new() } else { format!(" ({})", wanted.join(", ")) };
    format!("there is no such job {can}{wanted}; `rota queue --all` lists them")
}

/// Jobs by name, state and user.
fn matching(client: &Client, args: &SelectArgs, states: &[JobState], purpose: Purpose) -> anyhow::Result<Vec<Job>> {
    let all = purpose.wants_past() || states.iter().any(|state| state.is_over());
    let mut query = vec![format!("all={all}"), format!("limit={PAGE_MAX}")];
    query.extend(args.name.as_ref().map(|name| format!("name={}", escaped(name))));
    match args.user.as_deref() {
        Some("all") => {}
        Some(user) => query.push(format!("user={}", escaped(user))),
        None => query.push("mine=true".to_owned()),
    }
    let pages = client.pages::<Job>(&format!("/api/v1/jobs?{}", query.join("&")), |_| false)?;
    let mut jobs = pages.into_iter().flatten().collect::<Vec<_>>();
    jobs.sort_by_key(|job| job.id);
    Ok(jobs)
}

/// The jobs with the numbers of a range that are there.
pub fn range(client: &Client, first: u64, last: u64) -> anyhow::Result<Vec<Job>> {
    let count = (last - first + 1) as usize;
    let path = format!("/api/v1/jobs?all=true&cursor={}&limit={}", last.saturating_add(1), count.clamp(1, PAGE_MAX));
    let jobs: Vec<Job> = client.get(&path)?;
    Ok(jobs.into_iter().filter(|job| job.id >= first).collect())
}

/// The newest job of each member of a group.
pub fn members(client: &Client, group: u64) -> anyhow::Result<Vec<Job>> {
    let path = format!("/api/v1/jobs?all=true&group={group}&limit={PAGE_MAX}");
    let pages = client.pages::<Job>(&path, |_| false)?;
    let mut jobs = pages.into_iter().flatten().collect::<Vec<_>>();
    if jobs.is_empty() {
        return Err(none(&format!("there is no group {group}; `rota queue --all` lists jobs and groups")));
    }
    jobs.sort_by_key(|job| job.id);
    let mut newest = BTreeMap::new();
    for job in jobs {
        newest.insert((job.array_index, job.params.clone(), job.name.clone()), job);
    }
    Ok(newest.into_values().collect())
}

/// How many jobs are in which state, in words.
pub fn counted(jobs: &[Job]) -> String {
    let mut counts = GroupCounts::default();
    for job in jobs {
        counts.add(job.state, 1);
    }
    counts.words()
}

/// Shows which jobs would be touched, and asks where there is a person to ask. Gives whether to go on.
pub fn confirm(selection: &Selection, verb: &str, is_agreed: bool, is_filter: bool) -> anyhow::Result<bool> {
    let Selection { jobs, is_by_number } = selection;
    if is_agreed || *is_by_number || jobs.len() < 2 {
        return Ok(true);
    }
    let has_person = std::io::stdin().is_terminal() && std::io::stderr().is_terminal();
    if !has_person && !is_filter {
        // A script that names a range or a group says exactly what it means.
        return Ok(true);
    }
    output::remark(&preview(jobs));
    if !has_person {
        bail!("nothing was done: this would {verb} {} jobs ({}); add --yes to do it", jobs.len(), counted(jobs));
    }
    // A terminal that is closed gives no answer.
    _ = write!(std::io::stderr(), "{} these {} jobs ({})? [y/N] ", capital(verb), jobs.len(), counted(jobs));
    let mut answer = String::new();
    std::io::stdin().lock().read_line(&mut answer)?;
    Ok(matches!(answer.trim(), "y" | "Y" | "yes"))
}

fn capital(word: &str) -> String {
    let mut letters = word.chars();
    letters.next().map_or_else(String::new, |first| first.to_uppercase().chain(letters).collect())
}

fn preview(jobs: &[Job]) -> String {
    let row = |job: &Job| {
        let name = job.name.clone().unwrap_or_else(|| crate::live::text::command_line(&job.command));
        vec![job.id.to_string(), state_word(job.state), job.user.clone(), name]
    };
    let mut rows = vec![["ID", "STATE", "USER", "NAME"].map(str::to_owned).to_vec()];
    rows.extend(jobs.iter().take(SHOWN_MAX).map(row));
    let text = columns(&rows, output::table_width());
    match jobs.len().saturating_sub(SHOWN_MAX) {
        0 => text,
        more => format!("{text}\n… and {more} more"),
    }
}
