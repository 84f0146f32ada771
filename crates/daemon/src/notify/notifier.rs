//! The notifier: one thread that follows the journal for every target.
//!
//! It hands what is news to threads that deliver it, one at a time for each target and a few in all, so that a target that is slow or
//! gone holds up nobody else, and never the queue. A target's place in the journal is written down when a message has arrived: what a
//! crash interrupts is told again, with the same identity.

use super::notification::Notification;
use super::settings::{Mail, Notify, first_line};
use super::target::{self, Target, Trust};
use super::target_store::{self, TargetStore, pending};
use super::{chat, mail, webhook};
use crate::api::{self, NotifyEvent, NotifyKind};
use crate::clock::{rfc3339, wall_ns};
use crate::machine::platform::{Caller, Refusal, RefusalKind, Reply};
use crate::store::{Access, Archive, StoreError};
use crate::view::board::Board;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender};
use std::time::{Duration, Instant};

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

/// A message to the notifier's thread.
pub enum NotifierMessage {
    /// The journal has new events.
    News,
    /// A delivery ended.
    Delivered(Delivered),
    /// A caller adds a target.
    Add(api::NewNotifyTarget, Caller, Reply<api::NotifyTarget>),
    /// A caller lists the targets.
    List(Caller, Reply<Vec<api::NotifyTarget>>),
    /// A caller removes a target.
    Remove(u64, Caller, Reply<()>),
    /// A caller sends a test notification to a target, now.
    Test(u64, Caller, Reply<()>),
}

/// Why a notification was not delivered.
#[derive(Debug)]
pub enum DeliveryError {
    /// The receiver refuses the message for good.
    Refused(String),
    /// The message may arrive on a later try.
    Later(String),
}

/// How a delivery ended.
pub struct Delivered {
    target: u64,
    /// The last event that was delivered.
    told: Option<u64>,
    /// The number of notifications that were delivered.
    sent: u64,
    /// The notifications that could not be delivered, if any.
    trouble: Option<Undelivered>,
}

/// Notifications that were not delivered, and why.
struct Undelivered {
    trouble: DeliveryError,
    /// The event of the last of them.
    seq: u64,
    count: u64,
}

/// Delivers notifications by the site's settings.
struct Deliverer {
    settings: Notify,
    mail: Mail,
}

/// A target, and the state of its deliveries.
struct TargetQueue {
    target: Target,
    /// The target's place in the journal as it is on the disk.
    saved: u64,
    failures: u32,
    not_before: Instant,
    is_busy: bool,
    /// Whether the journal may have something for the target.
    has_news: bool,
}

impl TargetQueue {
    fn new(target: Target) -> Self {
        Self { saved: target.told, target, failures: 0, not_before: Instant::now(), is_busy: false, has_news: true }
    }
}

struct Notifier {
    targets: TargetStore,
    archive: Archive,
    board: Arc<Board>,
    deliverer: Arc<Deliverer>,
    inbox: Receiver<NotifierMessage>,
    own: Sender<NotifierMessage>,
    queues: BTreeMap<u64, TargetQueue>,
    /// Tells messages of this store from those of another.
    epoch: String,
    host: String,
    state_dir: PathBuf,
    under_way: usize,
}

/// Starts the notifier's thread, which ends with the daemon. [`NotifierMessage::News`] wakes it.
pub fn start(
    (state_dir, access): (&Path, Access),
    host: &str,
    config: &crate::Config,
    board: Arc<Board>,
    (own, inbox): (Sender<NotifierMessage>, Receiver<NotifierMessage>),
) -> Result<(), StoreError> {
    let database = state_dir.join("rota.db");
    let archive = Archive::open(&database, access)?;
    let epoch =
        archive.read(|connection| connection.query_row("SELECT value FROM meta WHERE key = 'epoch_ns'", [], |row| row.get(0)))?;
    let mut notifier = Notifier {
        targets: TargetStore::open(&database, access)?,
        archive,
        board,
        deliverer: Arc::new(Deliverer { settings: config.notify.clone(), mail: config.mail.clone() }),
        inbox,
        own,
        queues: BTreeMap::new(),
        epoch,
        host: host.to_owned(),
        state_dir: state_dir.to_owned(),
        under_way: 0,
    };
    notifier.load()?;
    let thread = std::thread::Builder::new().name("notify".to_owned()).spawn(move || notifier.run());
    thread.map(|_| ()).map_err(|error| StoreError::Sqlite {
        path: database,
        source: rusqlite::Error::ToSqlConversionFailure(format!("starting the thread of notifications: {error}").into()),
    })
}

/// Wakes the notifier whenever an event happens that a target may want to hear of.
pub async fn follow(board: Arc<Board>, posts: Sender<NotifierMessage>) {
    use tokio::sync::broadcast::error::RecvError;
    let mut events = board.listen();
    loop {
        let is_news = match events.recv().await {
            Ok(event) => target_store::may_matter(&event.kind),
            Err(RecvError::Lagged(_)) => true,
            Err(RecvError::Closed) => return,
        };
        if is_news && posts.send(NotifierMessage::News).is_err() {
            return;
        }
    }
}

impl Notifier {
    /// The targets of the store, with the site's as they are set now.
    fn load(&mut self) -> Result<(), StoreError> {
        let mut known = self.targets.targets()?;
        let head = self.head()?;
        for wanted in &self.deliverer.settings.site {
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
                self.targets.change(before.id, &target)?;
                let after = Target { secret: target.secret, on: target.on, ..before };
                self.queues.insert(after.id, TargetQueue::new(after));
            } else {
                let id = self.targets.add(&target)?;
                self.queues.insert(id, TargetQueue::new(Target { id, ..target }));
            }
        }
        for target in known {
            if target.uid.is_none() {
                // The site does not want it any more.
                self.targets.remove(target.id)?;
            } else {
                self.queues.insert(target.id, TargetQueue::new(target));
            }
        }
        self.warn();
        Ok(())
    }

    fn run(mut self) {
        let mut nap = Duration::ZERO;
        loop {
            match self.inbox.recv_timeout(nap) {
                Ok(NotifierMessage::News) => {
                    // More of a burst is on its way.
                    std::thread::sleep(SETTLE);
                    self.take(NotifierMessage::News);
                    while let Ok(post) = self.inbox.try_recv() {
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

    fn take(&mut self, post: NotifierMessage) {
        // A caller that has gone away does not want its answer any more.
        match post {
            NotifierMessage::News => self.queues.values_mut().for_each(|queue| queue.has_news = true),
            NotifierMessage::Delivered(delivered) => self.settle(delivered),
            NotifierMessage::Add(wanted, caller, reply) => _ = reply.send(self.add(wanted, &caller)),
            NotifierMessage::List(caller, reply) => _ = reply.send(Ok(self.list(&caller))),
            NotifierMessage::Remove(id, caller, reply) => _ = reply.send(self.remove(id, &caller)),
            NotifierMessage::Test(id, caller, reply) => self.test(id, &caller, reply),
        }
    }

    fn head(&self) -> Result<u64, StoreError> {
        let newest: Option<u64> =
            self.archive.read(|connection| connection.query_row("SELECT max(seq) FROM events", [], |row| row.get(0)))?;
        Ok(newest.unwrap_or(0))
    }

    /// The time until the next delivery is due.
    fn next_due(&self) -> Duration {
        let waits = self.queues.values().filter(|queue| queue.has_news && !queue.is_busy);
        let due = waits.map(|queue| queue.not_before.saturating_duration_since(Instant::now())).min();
        // With all hands full, the next to come back decides.
        let due = if self.under_way >= DELIVERIES_MAX { None } else { due };
        due.unwrap_or(Duration::from_hours(1))
    }

    /// Starts all deliveries that are due.
    fn pass(&mut self) -> Result<(), StoreError> {
        let now = Instant::now();
        let due = |queue: &&TargetQueue| queue.has_news && !queue.is_busy && queue.not_before <= now;
        let due = self.queues.values().filter(due).map(|queue| queue.target.id).collect::<Vec<_>>();
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
        let Some(queue) = self.queues.get_mut(&id) else { return Ok(()) };
        let found = pending(&self.archive, &queue.target, head, MESSAGES_MAX)?;
        let mut messages = Vec::with_capacity(found.events.len());
        for (event, what) in found.events {
            let job = event.job.map(|job| self.archive.job(job)).transpose()?.flatten();
            messages.push(Notification {
                id: format!("{}-{}-{id}", self.epoch, event.seq),
                event: what,
                at: rfc3339(event.wall_ns),
                host: self.host.clone(),
                job: job.map(|record| record.view(&self.state_dir, None, None)),
                seq: event.seq,
                wall_ns: event.wall_ns,
            });
        }
        if queue.failures > 0 {
            let patience = Duration::from_secs_f64(self.deliverer.settings.give_up_hours * 3600.0);
            let now_ns = wall_ns();
            let stale = messages.iter().take_while(|message| target_store::age(message, now_ns) > patience).count();
            let last = messages.drain(..stale).next_back();
            if let Some(last) = last {
                queue.target.told = last.seq;
                queue.target.given_up += stale as u64;
                queue.saved = queue.target.told;
                self.board.metrics.notifications_given_up(stale as u64);
                self.targets.note(&queue.target)?;
                self.warn();
                return Ok(());
            }
        }
        if messages.is_empty() {
            queue.has_news = false;
            queue.target.told = found.until;
            if queue.target.told - queue.saved > UNSAVED_EVENTS_MAX {
                queue.saved = queue.target.told;
                self.targets.note(&queue.target)?;
            }
            return Ok(());
        }
        queue.is_busy = true;
        self.under_way += 1;
        let (target, deliverer, own) = (queue.target.clone(), Arc::clone(&self.deliverer), self.own.clone());
        let work = move || {
            let outcome = deliverer.deliver(&target, &messages);
            // The daemon may have ended meanwhile.
            _ = own.send(NotifierMessage::Delivered(outcome));
        };
        if std::thread::Builder::new().name("deliver".to_owned()).spawn(work).is_err() {
            let trouble = DeliveryError::Later("this machine could not start a thread".to_owned());
            self.settle(Delivered { target: id, told: None, sent: 0, trouble: Some(Undelivered { trouble, seq: 0, count: 1 }) });
        }
        Ok(())
    }

    /// Notes how a delivery went.
    fn settle(&mut self, delivered: Delivered) {
        self.under_way = self.under_way.saturating_sub(1);
        self.board.metrics.notifications_sent(delivered.sent);
        // It may have been removed meanwhile.
        let Some(queue) = self.queues.get_mut(&delivered.target) else { return };
        queue.is_busy = false;
        let target = &mut queue.target;
        target.told = delivered.told.unwrap_or(target.told);
        if delivered.sent > 0 {
            target.given_up = 0;
            target.problem = None;
            queue.failures = 0;
        }
        let settings = &self.deliverer.settings;
        let wait = match delivered.trouble {
            None if target.gathers() => Duration::from_secs_f64(settings.gather_seconds),
            None => Duration::ZERO,
            Some(Undelivered { trouble: DeliveryError::Refused(why), seq, count }) => {
                target.told = target.told.max(seq);
                target.given_up += count;
                target.problem = Some(why);
                self.board.metrics.notifications_given_up(count);
                Duration::ZERO
            }
            Some(Undelivered { trouble: DeliveryError::Later(why), .. }) => {
                queue.failures += 1;
                target.problem = Some(why);
                self.board.metrics.notification_failed();
                backoff(settings, queue.failures)
            }
        };
        queue.not_before = Instant::now() + wait;
        queue.saved = target.told;
        // Not written down, it is told again after a restart, which is better than not at all.
        _ = self.targets.note(&queue.target);
        self.warn();
    }

    /// Puts a warning on the board about targets that notifications did not reach.
    fn warn(&self) {
        let lost = self.queues.values().filter(|queue| queue.target.given_up > 0).map(|queue| {
            let why = queue.target.problem.as_deref().unwrap_or("it was too long ago");
            format!("{} to {}: {why}", queue.target.given_up, queue.target.label())
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
        let reach = if self.deliverer.settings.allow_private { Trust::Administrator } else { trust };
        target::check(wanted.kind, &wanted.address, wanted.secret.as_deref(), reach, &self.deliverer.mail)
            .map_err(|problem| Refusal::new(RefusalKind::BadInput, problem))?;
        let own = self.queues.values().filter(|queue| queue.target.uid == Some(caller.uid)).count();
        let most = self.deliverer.settings.targets_max;
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
        let id = self.targets.add(&target).map_err(unavailable)?;
        let target = Target { id, ..target };
        let view = target.view();
        self.queues.insert(id, TargetQueue::new(target));
        Ok(view)
    }

    fn list(&self, caller: &Caller) -> Vec<api::NotifyTarget> {
        let is_shown = |queue: &&TargetQueue| caller.is_admin || queue.target.uid == Some(caller.uid);
        self.queues.values().filter(is_shown).map(|queue| queue.target.view()).collect()
    }

    fn find(&self, id: u64, caller: &Caller) -> Result<&Target, Refusal> {
        needs_writer(caller)?;
        let found = self.queues.get(&id).map(|queue| &queue.target);
        // Other users' targets stay hidden, even that they exist.
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
        self.targets.remove(id).map_err(|error| Refusal::new(RefusalKind::Unavailable, error.to_string()))?;
        self.queues.remove(&id);
        self.warn();
        Ok(())
    }

    /// A target that has no delivery under way.
    fn ready(&mut self, id: u64, caller: &Caller) -> Result<Target, Refusal> {
        let target = self.find(id, caller)?.clone();
        let is_busy = self.queues.get(&id).is_some_and(|queue| queue.is_busy);
        if is_busy || self.under_way >= 2 * DELIVERIES_MAX {
            return Err(Refusal::new(RefusalKind::TooMany, "a message is just being sent; try again soon"));
        }
        Ok(target)
    }

    /// Sends a test notification at once and answers how it went. If it arrives, all that waits for this target is due.
    fn test(&mut self, id: u64, caller: &Caller, reply: Reply<()>) {
        let target = match self.ready(id, caller) {
            Ok(target) => target,
            Err(refusal) => {
                _ = reply.send(Err(refusal));
                return;
            }
        };
        let now_ns = wall_ns();
        let message = Notification {
            id: format!("{}-test-{now_ns}-{id}", self.epoch),
            event: NotifyEvent::Test,
            at: rfc3339(now_ns),
            host: self.host.clone(),
            job: None,
            seq: target.told,
            wall_ns: now_ns,
        };
        if let Some(queue) = self.queues.get_mut(&id) {
            queue.is_busy = true;
        }
        self.under_way += 1;
        let (deliverer, own) = (Arc::clone(&self.deliverer), self.own.clone());
        std::thread::spawn(move || {
            let outcome = deliverer.deliver(&target, &[message]);
            let answer = match &outcome.trouble {
                None => Ok(()),
                Some(Undelivered { trouble: DeliveryError::Refused(why) | DeliveryError::Later(why), .. }) => {
                    Err(Refusal::new(RefusalKind::Conflict, format!("it did not arrive: {why}")))
                }
            };
            _ = own.send(NotifierMessage::Delivered(Delivered { trouble: None, told: None, ..outcome }));
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

impl Deliverer {
    /// Delivers messages in order, until one cannot be.
    fn deliver(&self, target: &Target, messages: &[Notification]) -> Delivered {
        let mut delivered = Delivered { target: target.id, told: None, sent: 0, trouble: None };
        let at_once = if target.gathers() { messages.len().max(1) } else { 1 };
        for part in messages.chunks(at_once) {
            let last = part.last().map_or(target.told, |message| message.seq);
            if let Err(trouble) = self.send(target, part) {
                delivered.trouble = Some(Undelivered { trouble, seq: last, count: part.len() as u64 });
                break;
            }
            delivered.told = Some(last);
            delivered.sent += part.len() as u64;
        }
        delivered
    }

    fn send(&self, target: &Target, messages: &[Notification]) -> Result<(), DeliveryError> {
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
