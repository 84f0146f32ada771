//! Notifications: users and sites are told what becomes of jobs, by hooks, chat and mail.
//!
//! One thread follows the journal for every target and hands what is news to threads that deliver it, one at a time for each target and
//! a few in all, so that a target that is slow or gone holds up nobody else, and never the queue. A target's place in the journal is
//! written down when a message has arrived: what a crash interrupts is told again, with the same identity.

mod book;
mod chat;
mod mail;
mod message;
mod reach;
pub mod settings;
mod target;
mod webhook;

use crate::api::{self, NotifyEvent, NotifyKind};
use crate::board::Board;
use crate::clock::{rfc3339, wall_ns};
use crate::platform::{Caller, Refusal, RefusalKind, Reply};
use crate::store::{Archive, StoreError};
use book::{Book, pending};
use message::Message;
use settings::{Mail, Notify, first_line};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender};
use std::time::{Duration, Instant};
use target::{Target, Trust};

/// Deliveries at once, in all.
const DELIVERIES_MAX: usize = 8;
/// Messages handed over in one go.
const MESSAGES_MAX: usize = 50;
/// Events that come within this time are looked at together.
const SETTLE: Duration = Duration::from_millis(50);
/// A place in the journal is written down at least after so many events, even if none was of interest.
const UNSAVED_EVENTS_MAX: u64 = 10_000;
/// How long to wait before the store is tried again after it refused.
const STORE_RETRY: Duration = Duration::from_secs(5);

/// What reaches the thread.
pub enum Post {
    /// Something happened.
    News,
    /// A delivery ended.
    Delivered(Delivered),
    /// Somebody wants to be told.
    Add(api::NewNotifyTarget, Caller, Reply<api::NotifyTarget>),
    /// Who is told?
    List(Caller, Reply<Vec<api::NotifyTarget>>),
    /// Somebody wants to be told no more.
    Remove(u64, Caller, Reply<()>),
    /// Tell something, now.
    Test(u64, Caller, Reply<()>),
}

/// Why a message was not delivered.
#[derive(Debug)]
pub enum Trouble {
    /// It will never be.
    Refused(String),
    /// It may be later.
    Later(String),
}

/// How a delivery ended.
pub struct Delivered {
    target: u64,
    /// The last event that was told.
    told: Option<u64>,
    /// How many were.
    sent: u64,
    /// What the next ran into.
    trouble: Option<Stuck>,
}

/// Messages that were not delivered.
struct Stuck {
    trouble: Trouble,
    /// The last of them.
    seq: u64,
    count: u64,
}

/// What delivering needs to know.
struct Courier {
    settings: Notify,
    mail: Mail,
}

/// A target and what is under way for it.
struct Lane {
    target: Target,
    /// The place that is written down.
    saved: u64,
    failures: u32,
    not_before: Instant,
    is_busy: bool,
    /// Whether there may be something to tell.
    has_news: bool,
}

impl Lane {
    fn new(target: Target) -> Self {
        Self { saved: target.told, target, failures: 0, not_before: Instant::now(), is_busy: false, has_news: true }
    }
}

struct Herald {
    book: Book,
    archive: Archive,
    board: Arc<Board>,
    courier: Arc<Courier>,
    posts: Receiver<Post>,
    own: Sender<Post>,
    lanes: BTreeMap<u64, Lane>,
    /// Tells messages of this store from those of another.
    epoch: String,
    host: String,
    state_dir: PathBuf,
    under_way: usize,
}

/// Starts telling. Whoever sends [`Post::News`] wakes the thread, which ends with the daemon.
pub fn start(
    state_dir: &Path,
    host: &str,
    config: &crate::Config,
    board: Arc<Board>,
    (own, posts): (Sender<Post>, Receiver<Post>),
) -> Result<(), StoreError> {
    let database = state_dir.join("rota.db");
    let archive = Archive::open(&database)?;
    let epoch =
        archive.read(|connection| connection.query_row("SELECT value FROM meta WHERE key = 'epoch_ns'", [], |row| row.get(0)))?;
    let mut herald = Herald {
        book: Book::open(&database)?,
        archive,
        board,
        courier: Arc::new(Courier { settings: config.notify.clone(), mail: config.mail.clone() }),
        posts,
        own,
        lanes: BTreeMap::new(),
        epoch,
        host: host.to_owned(),
        state_dir: state_dir.to_owned(),
        under_way: 0,
    };
    herald.load()?;
    let thread = std::thread::Builder::new().name("notify".to_owned()).spawn(move || herald.run());
    thread.map(|_| ()).map_err(|error| StoreError::Sqlite {
        path: database,
        source: rusqlite::Error::ToSqlConversionFailure(format!("starting the thread of notifications: {error}").into()),
    })
}

/// Wakes the thread whenever something happens that may be news to somebody.
pub async fn follow(board: Arc<Board>, posts: Sender<Post>) {
    use tokio::sync::broadcast::error::RecvError;
    let mut events = board.listen();
    loop {
        let is_news = match events.recv().await {
            Ok(event) => book::may_matter(&event.kind),
            Err(RecvError::Lagged(_)) => true,
            Err(RecvError::Closed) => return,
        };
        if is_news && posts.send(Post::News).is_err() {
            return;
        }
    }
}

impl Herald {
    /// The targets of the store, with the site's as they are set now.
    fn load(&mut self) -> Result<(), StoreError> {
        let mut known = self.book.targets()?;
        let head = self.head()?;
        for wanted in &self.courier.settings.site {
            let secret = match &wanted.secret_file {
                Some(path) => match first_line(path) {
                    Ok(secret) => Some(secret),
                    Err(error) => {
                        let warning = format!("notify.site: {}: {error}; it is not told of anything", path.display());
                        self.board.write().warnings.insert("notify.site", warning);
                        continue;
                    }
                },
                None => None,
            };
            let target = Target {
                id: 0,
                uid: None,
                user: String::new(),
                kind: wanted.kind,
                address: wanted.address.clone(),
                secret,
                on: wanted.on.clone(),
                trust: Trust::Administrator,
                told: head,
                given_up: 0,
                problem: None,
            };
            let same = |other: &Target| other.uid.is_none() && other.kind == target.kind && other.address == target.address;
            if let Some(place) = known.iter().position(same) {
                let before = known.remove(place);
                self.book.change(before.id, &target)?;
                let after = Target { secret: target.secret, on: target.on, ..before };
                self.lanes.insert(after.id, Lane::new(after));
            } else {
                let id = self.book.add(&target)?;
                self.lanes.insert(id, Lane::new(Target { id, ..target }));
            }
        }
        for target in known {
            if target.uid.is_none() {
                // The site does not want it any more.
                self.book.remove(target.id)?;
            } else {
                self.lanes.insert(target.id, Lane::new(target));
            }
        }
        self.warn();
        Ok(())
    }

    fn run(mut self) {
        let mut nap = Duration::ZERO;
        loop {
            match self.posts.recv_timeout(nap) {
                Ok(Post::News) => {
                    // More of a burst is on its way.
                    std::thread::sleep(SETTLE);
                    self.take(Post::News);
                    while let Ok(post) = self.posts.try_recv() {
                        self.take(post);
                    }
                }
                Ok(post) => self.take(post),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return,
            }
            nap = match self.pass() {
                Ok(()) => self.next_due(),
                Err(error) => {
                    self.board.write().warnings.insert("notify.store", format!("notifications wait: {error}"));
                    STORE_RETRY
                }
            };
        }
    }

    fn take(&mut self, post: Post) {
        // Who has gone away does not want the answer any more.
        match post {
            Post::News => self.lanes.values_mut().for_each(|lane| lane.has_news = true),
            Post::Delivered(delivered) => self.settle(delivered),
            Post::Add(wanted, caller, reply) => _ = reply.send(self.add(wanted, &caller)),
            Post::List(caller, reply) => _ = reply.send(Ok(self.list(&caller))),
            Post::Remove(id, caller, reply) => _ = reply.send(self.remove(id, &caller)),
            Post::Test(id, caller, reply) => self.test(id, &caller, reply),
        }
    }

    fn head(&self) -> Result<u64, StoreError> {
        let newest: Option<u64> =
            self.archive.read(|connection| connection.query_row("SELECT max(seq) FROM events", [], |row| row.get(0)))?;
        Ok(newest.unwrap_or(0))
    }

    /// How long nothing will be due.
    fn next_due(&self) -> Duration {
        let waits = self.lanes.values().filter(|lane| lane.has_news && !lane.is_busy);
        let due = waits.map(|lane| lane.not_before.saturating_duration_since(Instant::now())).min();
        // With all hands full, the next to come back decides.
        let due = if self.under_way >= DELIVERIES_MAX { None } else { due };
        due.unwrap_or(Duration::from_hours(1))
    }

    /// Hands over whatever is due.
    fn pass(&mut self) -> Result<(), StoreError> {
        let now = Instant::now();
        let due = |lane: &&Lane| lane.has_news && !lane.is_busy && lane.not_before <= now;
        let due = self.lanes.values().filter(due).map(|lane| lane.target.id).collect::<Vec<_>>();
        if due.is_empty() {
            return Ok(());
        }
        let head = self.head()?;
        for id in due {
            if self.under_way >= DELIVERIES_MAX {
                break;
            }
            self.hand_over(id, head)?;
        }
        self.board.write().warnings.remove("notify.store");
        Ok(())
    }

    fn hand_over(&mut self, id: u64, head: u64) -> Result<(), StoreError> {
        let Some(lane) = self.lanes.get_mut(&id) else { return Ok(()) };
        let found = pending(&self.archive, &lane.target, head, MESSAGES_MAX)?;
        let mut messages = Vec::with_capacity(found.events.len());
        for (event, what) in found.events {
            let job = event.job.map(|job| self.archive.job(job)).transpose()?.flatten();
            messages.push(Message {
                id: format!("{}-{}-{id}", self.epoch, event.seq),
                event: what,
                at: rfc3339(event.wall_ns),
                host: self.host.clone(),
                job: job.map(|record| record.view(&self.state_dir, None, None)),
                seq: event.seq,
                wall_ns: event.wall_ns,
            });
        }
        if lane.failures > 0 {
            let patience = Duration::from_secs_f64(self.courier.settings.give_up_hours * 3600.0);
            let now_ns = wall_ns();
            let stale = messages.iter().take_while(|message| book::age(message, now_ns) > patience).count();
            let last = messages.drain(..stale).next_back();
            if let Some(last) = last {
                lane.target.told = last.seq;
                lane.target.given_up += stale as u64;
                lane.saved = lane.target.told;
                self.board.metrics.notifications_given_up(stale as u64);
                self.book.note(&lane.target)?;
                self.warn();
                return Ok(());
            }
        }
        if messages.is_empty() {
            lane.has_news = false;
            lane.target.told = found.until;
            if lane.target.told - lane.saved > UNSAVED_EVENTS_MAX {
                lane.saved = lane.target.told;
                self.book.note(&lane.target)?;
            }
            return Ok(());
        }
        lane.is_busy = true;
        self.under_way += 1;
        let (target, courier, own) = (lane.target.clone(), Arc::clone(&self.courier), self.own.clone());
        let work = move || {
            let delivered = courier.deliver(&target, &messages);
            // The daemon may have ended meanwhile.
            _ = own.send(Post::Delivered(delivered));
        };
        if std::thread::Builder::new().name("deliver".to_owned()).spawn(work).is_err() {
            let trouble = Trouble::Later("this machine could not start a thread".to_owned());
            self.settle(Delivered { target: id, told: None, sent: 0, trouble: Some(Stuck { trouble, seq: 0, count: 1 }) });
        }
        Ok(())
    }

    /// Takes in how a delivery went.
    fn settle(&mut self, delivered: Delivered) {
        self.under_way = self.under_way.saturating_sub(1);
        self.board.metrics.notifications_sent(delivered.sent);
        // It may have been removed meanwhile.
        let Some(lane) = self.lanes.get_mut(&delivered.target) else { return };
        lane.is_busy = false;
        let target = &mut lane.target;
        target.told = delivered.told.unwrap_or(target.told);
        if delivered.sent > 0 {
            target.given_up = 0;
            target.problem = None;
            lane.failures = 0;
        }
        let settings = &self.courier.settings;
        let wait = match delivered.trouble {
            None if target.gathers() => Duration::from_secs_f64(settings.gather_seconds),
            None => Duration::ZERO,
            Some(Stuck { trouble: Trouble::Refused(why), seq, count }) => {
                target.told = target.told.max(seq);
                target.given_up += count;
                target.problem = Some(why);
                self.board.metrics.notifications_given_up(count);
                Duration::ZERO
            }
            Some(Stuck { trouble: Trouble::Later(why), .. }) => {
                lane.failures += 1;
                target.problem = Some(why);
                self.board.metrics.notification_failed();
                backoff(settings, lane.failures)
            }
        };
        lane.not_before = Instant::now() + wait;
        lane.saved = target.told;
        // Not written down, it is told again after a restart, which is better than not at all.
        _ = self.book.note(&lane.target);
        self.warn();
    }

    /// Says on the board whom messages did not reach.
    fn warn(&self) {
        let lost = self.lanes.values().filter(|lane| lane.target.given_up > 0).map(|lane| {
            let why = lane.target.problem.as_deref().unwrap_or("it was too long ago");
            format!("{} to {}: {why}", lane.target.given_up, lane.target.label())
        });
        let lost = lost.collect::<Vec<_>>();
        let mut view = self.board.write();
        if lost.is_empty() {
            view.warnings.remove("notify");
        } else {
            let warning = format!("notifications were given up: {}; `rota notify test` tries a target again", lost.join("; "));
            view.warnings.insert("notify", warning);
        }
    }

    fn add(&mut self, wanted: api::NewNotifyTarget, caller: &Caller) -> Result<api::NotifyTarget, Refusal> {
        needs_writer(caller)?;
        let trust = if caller.is_admin { Trust::Administrator } else { Trust::User };
        let reach = if self.courier.settings.allow_private { Trust::Administrator } else { trust };
        target::check(wanted.kind, &wanted.address, wanted.secret.as_deref(), reach, &self.courier.mail)
            .map_err(|problem| Refusal::new(RefusalKind::BadInput, problem))?;
        let own = self.lanes.values().filter(|lane| lane.target.uid == Some(caller.uid)).count();
        let most = self.courier.settings.targets_max;
        if own >= most {
            return Err(Refusal::new(
                RefusalKind::TooMany,
                format!("{} has {own} targets already, and may have {most}", caller.user),
            ));
        }
        let mut on = if wanted.on.is_empty() { target::usual_events() } else { wanted.on };
        on.retain(|event| *event != NotifyEvent::Test);
        let unavailable = |error: StoreError| Refusal::new(RefusalKind::Unavailable, error.to_string());
        let target = Target {
            id: 0,
            uid: Some(caller.uid),
            user: caller.user.clone(),
            kind: wanted.kind,
            address: wanted.address,
            secret: wanted.secret,
            on,
            trust,
            told: self.head().map_err(unavailable)?,
            given_up: 0,
            problem: None,
        };
        let id = self.book.add(&target).map_err(unavailable)?;
        let target = Target { id, ..target };
        let view = target.view();
        self.lanes.insert(id, Lane::new(target));
        Ok(view)
    }

    fn list(&self, caller: &Caller) -> Vec<api::NotifyTarget> {
        let is_shown = |lane: &&Lane| caller.is_admin || lane.target.uid == Some(caller.uid);
        self.lanes.values().filter(is_shown).map(|lane| lane.target.view()).collect()
    }

    fn find(&self, id: u64, caller: &Caller) -> Result<&Target, Refusal> {
        needs_writer(caller)?;
        let found = self.lanes.get(&id).map(|lane| &lane.target);
        // Others' targets are nobody's business, not even that they are there.
        let found = found.filter(|target| caller.is_admin || target.uid == Some(caller.uid));
        found.ok_or_else(|| {
            Refusal::new(RefusalKind::NotFound, format!("there is no target {id}; `rota notify list` shows yours"))
        })
    }

    fn remove(&mut self, id: u64, caller: &Caller) -> Result<(), Refusal> {
        if self.find(id, caller)?.uid.is_none() {
            let message = format!("target {id} is set in the daemon's configuration, and can be removed there");
            return Err(Refusal::new(RefusalKind::Conflict, message));
        }
        self.book.remove(id).map_err(|error| Refusal::new(RefusalKind::Unavailable, error.to_string()))?;
        self.lanes.remove(&id);
        self.warn();
        Ok(())
    }

    /// A target that can be told something at once.
    fn ready(&mut self, id: u64, caller: &Caller) -> Result<Target, Refusal> {
        let target = self.find(id, caller)?.clone();
        let is_busy = self.lanes.get(&id).is_some_and(|lane| lane.is_busy);
        if is_busy || self.under_way >= 2 * DELIVERIES_MAX {
            return Err(Refusal::new(RefusalKind::TooMany, "a message is just being sent; try again soon"));
        }
        Ok(target)
    }

    /// Tells a target something at once, and says how that went; if it arrives, whatever waits for this target is due.
    fn test(&mut self, id: u64, caller: &Caller, reply: Reply<()>) {
        let target = match self.ready(id, caller) {
            Ok(target) => target,
            Err(refusal) => {
                _ = reply.send(Err(refusal));
                return;
            }
        };
        let now_ns = wall_ns();
        let message = Message {
            id: format!("{}-test-{now_ns}-{id}", self.epoch),
            event: NotifyEvent::Test,
            at: rfc3339(now_ns),
            host: self.host.clone(),
            job: None,
            seq: target.told,
            wall_ns: now_ns,
        };
        if let Some(lane) = self.lanes.get_mut(&id) {
            lane.is_busy = true;
        }
        self.under_way += 1;
        let (courier, own) = (Arc::clone(&self.courier), self.own.clone());
        std::thread::spawn(move || {
            let delivered = courier.deliver(&target, &[message]);
            let answer = match &delivered.trouble {
                None => Ok(()),
                Some(Stuck { trouble: Trouble::Refused(why) | Trouble::Later(why), .. }) => {
                    Err(Refusal::new(RefusalKind::Conflict, format!("it did not arrive: {why}")))
                }
            };
            _ = own.send(Post::Delivered(Delivered { trouble: None, told: None, ..delivered }));
            _ = reply.send(answer);
        });
    }
}

fn needs_writer(caller: &Caller) -> Result<(), Refusal> {
    if caller.may_write { Ok(()) } else { Err(Refusal::new(RefusalKind::Forbidden, "this token may only read")) }
}

/// How long to wait after so many failures in a row.
fn backoff(settings: &Notify, failures: u32) -> Duration {
    let seconds = settings.retry_seconds * f64::from(1_u32 << failures.saturating_sub(1).min(30));
    Duration::from_secs_f64(seconds.min(settings.retry_seconds_max))
}

impl Courier {
    /// Delivers messages in order, until one cannot be.
    fn deliver(&self, target: &Target, messages: &[Message]) -> Delivered {
        let mut delivered = Delivered { target: target.id, told: None, sent: 0, trouble: None };
        let at_once = if target.gathers() { messages.len().max(1) } else { 1 };
        for part in messages.chunks(at_once) {
            let last = part.last().map_or(target.told, |message| message.seq);
            if let Err(trouble) = self.send(target, part) {
                delivered.trouble = Some(Stuck { trouble, seq: last, count: part.len() as u64 });
                break;
            }
            delivered.told = Some(last);
            delivered.sent += part.len() as u64;
        }
        delivered
    }

    fn send(&self, target: &Target, messages: &[Message]) -> Result<(), Trouble> {
        match target.kind {
            NotifyKind::Webhook => messages.iter().try_for_each(|message| webhook::send(target, message, &self.settings)),
            NotifyKind::Slack => chat::send_slack(target, messages, &self.settings),
            NotifyKind::Dingtalk => chat::send_dingtalk(target, messages, &self.settings),
            NotifyKind::Mail => mail::send(target, messages, &self.settings, &self.mail),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patience_doubles_up_to_a_bound() {
        let settings = Notify::default();
        let waits = (1..=14).map(|failures| backoff(&settings, failures)).collect::<Vec<_>>();
        assert_eq!(waits[..4], [1, 2, 4, 8].map(Duration::from_secs));
        assert_eq!(waits[13], Duration::from_mins(10));
        assert_eq!(backoff(&settings, u32::MAX), Duration::from_mins(10));
    }
}
