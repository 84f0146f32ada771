//! Speaks with the daemon for the dashboard: looks at every interval, follows one log, and does what was asked. A daemon that is gone
//! is asked again at every interval.

use super::app::{DaemonView, Focus, News, Verb};
use crate::live::client::Client;
use anyhow::Context;
use http_body_util::BodyExt;
use hyper::Method;
use hyper::body::{Bytes, Incoming};
use jiff::{Timestamp, ToSpan};
use rota_daemon::api::{Job, JobChange, JobsActed, Status};
use serde::de::DeserializeOwned;
use std::time::Duration;
use tokio::sync::mpsc::UnboundedReceiver;
use tokio::time::{Instant, MissedTickBehavior, interval, sleep_until, timeout};

/// The longest an answer may take.
const PATIENCE: Duration = Duration::from_secs(5);
/// A log is opened when the selection has stood still for so long.
const SETTLE: Duration = Duration::from_millis(120);
/// A log that broke off is opened again after so long.
const REOPEN: Duration = Duration::from_secs(1);
/// Lines of a log that are asked for at first.
const LOG_LINES: usize = 1000;
/// Jobs of the queue that are listed.
const JOBS_MAX: usize = 1000;
/// Jobs that ended lately that are listed.
const OVER_MAX: usize = 50;
/// Jobs that ended within this time are shown.
const OVER_MINUTES: i64 = 15;

/// A request of the dashboard.
#[derive(Clone, Copy, Debug)]
pub enum Request {
    /// Ask for this from now on.
    Look(Focus),
    /// Change a job.
    Act(Verb, u64),
    /// Change every job of a group that it can be done to.
    ActOnGroup(Verb, u64),
    /// Give a job another priority.
    Prioritise(u64, i32),
}

/// The log that is followed.
enum Log {
    /// No log is wanted.
    Closed,
    /// The log is to be opened at this moment.
    Settling(Instant),
    /// The log is being read.
    Open(Incoming),
}

/// What the log did.
enum Step {
    /// It is time to open the log.
    Due,
    /// The log grew by these bytes.
    Grew(Bytes),
    /// The job is over and all is read.
    Ended,
    /// The connection of the log broke off.
    Broke,
}

impl Log {
    /// The log's next step; can be given up at any moment without losing one.
    async fn next(&mut self) -> Step {
        match self {
            Self::Closed => std::future::pending().await,
            Self::Settling(at) => {
                sleep_until(*at).await;
                Step::Due
            }
            Self::Open(body) => match body.frame().await {
                Some(Ok(frame)) => Step::Grew(frame.into_data().unwrap_or_default()),
                Some(Err(_)) => Step::Broke,
                None => Step::Ended,
            },
        }
    }
}

/// Asks the daemon, follows logs and changes jobs until the dashboard ends. `tell` says whether the dashboard still listens.
pub async fn run(client: &Client, every: Duration, mut asked: UnboundedReceiver<Request>, tell: impl Fn(News) -> bool) {
    let mut ticks = interval(every);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    // The first look was made before the screen was drawn.
    ticks.tick().await;
    let mut feed = Feed { client, focus: Focus::default(), log: Log::Closed, is_gone: false, tell };
    loop {
        let goes_on = tokio::select! {
            request = asked.recv() => match request {
                Some(Request::Look(focus)) => feed.turn(focus).await,
                Some(Request::Act(verb, job)) => feed.act(verb, job).await,
                Some(Request::ActOnGroup(verb, group)) => feed.act_on_group(verb, group).await,
                Some(Request::Prioritise(job, priority)) => feed.prioritise(job, priority).await,
                None => false,
            },
            _ = ticks.tick() => feed.look().await,
            step = feed.log.next() => feed.follow(step).await,
        };
        if !goes_on {
            return;
        }
    }
}

struct Feed<'a, T> {
    client: &'a Client,
    focus: Focus,
    log: Log,
    is_gone: bool,
    tell: T,
}

impl<T: Fn(News) -> bool> Feed<'_, T> {
    async fn turn(&mut self, focus: Focus) -> bool {
        if focus.job != self.focus.job {
            self.log = focus.job.map_or(Log::Closed, |_| Log::Settling(Instant::now() + SETTLE));
        }
        self.focus = focus;
        self.explain().await
    }

    async fn act(&mut self, verb: Verb, job: u64) -> bool {
        let path = format!("/api/v1/jobs/{job}/{}", verb.word());
        let done = within(self.client.call::<Vec<u64>>(Method::POST, &path, Bytes::new())).await;
        let done = done.map(|_| ()).map_err(|error| format!("{error:#}"));
        (self.tell)(News::Acted(verb, job, done)) && self.look().await
    }

    async fn act_on_group(&mut self, verb: Verb, group: u64) -> bool {
        let path = format!("/api/v1/groups/{group}/{}", verb.word());
        let done = within(self.client.call::<JobsActed>(Method::POST, &path, Bytes::new())).await;
        let done = done.map_err(|error| format!("{error:#}")).and_then(|acted| match acted.refused.first() {
            Some(refused) if acted.ids.is_empty() => Err(refused.reason.clone()),
            _ => Ok(acted.ids.len()),
        });
        (self.tell)(News::GroupActed(verb, group, done)) && self.look().await
    }

    async fn prioritise(&mut self, job: u64, priority: i32) -> bool {
        let body = Bytes::from(serde_json::to_vec(&JobChange { priority }).unwrap_or_default());
        let done = within(self.client.call::<Job>(Method::PATCH, &format!("/api/v1/jobs/{job}"), body)).await;
        let done = done.map(|_| ()).map_err(|error| format!("{error:#}"));
        (self.tell)(News::Prioritised(job, priority, done)) && self.look().await
    }

    async fn look(&mut self) -> bool {
        match look(self.client).await {
            Ok(sight) => {
                if std::mem::take(&mut self.is_gone) && self.focus.job.is_some() {
                    self.log = Log::Settling(Instant::now());
                }
                (self.tell)(News::Seen(Box::new(sight))) && self.explain().await
            }
            Err(error) => {
                self.is_gone = true;
                self.log = Log::Closed;
                (self.tell)(News::Gone(format!("{error:#}")))
            }
        }
    }

    async fn explain(&self) -> bool {
        let (Some(job), true, false) = (self.focus.job, self.focus.explain, self.is_gone) else { return true };
        let why = get(self.client, &format!("/api/v1/jobs/{job}/explain")).await;
        (self.tell)(News::Explained(job, why.map_err(|error| format!("{error:#}"))))
    }

    async fn follow(&mut self, step: Step) -> bool {
        let Some(job) = self.focus.job else {
            self.log = Log::Closed;
            return true;
        };
        match step {
            Step::Due => {
                let path = format!("/api/v1/jobs/{job}/logs?follow=true&tail={LOG_LINES}");
                match within(self.client.open(&path)).await {
                    Ok(body) => {
                        self.log = Log::Open(body);
                        (self.tell)(News::LogBegins(job))
                    }
                    Err(error) => {
                        // The log is not asked for again before the user selects it again or the daemon has been away.
                        self.log = Log::Closed;
                        (self.tell)(News::LogRefused(job, format!("{error:#}")))
                    }
                }
            }
            Step::Grew(bytes) => (self.tell)(News::LogGrew(job, bytes.to_vec())),
            Step::Ended => {
                self.log = Log::Closed;
                true
            }
            Step::Broke => {
                self.log = Log::Settling(Instant::now() + REOPEN);
                true
            }
        }
    }
}

/// The machine and the queue, as they are now.
pub async fn look(client: &Client) -> anyhow::Result<DaemonView> {
    let status: Status = get(client, "/api/v1/status").await?;
    let mut jobs: Vec<Job> = get(client, &format!("/api/v1/jobs?limit={JOBS_MAX}")).await?;
    if jobs.len() >= JOBS_MAX {
        // Of a long queue the beginning is enough, and what runs wherever it stood.
        for state in ["starting", "running", "stopping"] {
            let running: Vec<Job> = get(client, &format!("/api/v1/jobs?state={state}&limit={JOBS_MAX}")).await?;
            let last = jobs.last().map_or(0, |job| job.id);
            jobs.extend(running.into_iter().filter(|job| job.id > last));
        }
    }
    let since = Timestamp::now().checked_sub(OVER_MINUTES.minutes())?;
    let over = get(client, &format!("/api/v1/jobs?since={since}&limit={OVER_MAX}")).await?;
    let has_groups = jobs.iter().any(|job| job.group.is_some());
    let groups = if has_groups { get(client, "/api/v1/groups?open=true").await? } else { Vec::new() };
    Ok(DaemonView { status, jobs, over, groups })
}

async fn get<T: DeserializeOwned>(client: &Client, path: &str) -> anyhow::Result<T> {
    within(client.call(Method::GET, path, Bytes::new())).await
}

async fn within<T>(work: impl Future<Output = anyhow::Result<T>>) -> anyhow::Result<T> {
    timeout(PATIENCE, work).await.with_context(|| format!("it does not answer within {} seconds", PATIENCE.as_secs()))?
}
