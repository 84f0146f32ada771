//! Writing events down: first to the disk, then to the records, the board and the scheduler, and only then is anything done or answered.

use crate::api;
use crate::api::text::Text;
use crate::machine::platform::{Platform, Refusal, RefusalKind};
use crate::machine::telemetry::Telemetry;
use crate::queue::estimates::Estimates;
use crate::queue::records::environment_bytes;
use crate::queue::rows::Translator;
use crate::queue::world::LiveWorld;
use crate::store::journal::{self, QueueEvent, Stamp};
use crate::store::record::JobRecord;
use crate::store::{Store, StoreError, Writer};
use crate::view::board::Board;
use rota_core::event::EventKind;
use rota_core::{Event, JobChange, Time};
use std::collections::HashMap;
use std::sync::Arc;

/// How long to wait before the store is tried again after it refused.
const STORE_RETRY_NS: u64 = 1_000_000_000;
/// Events after which an image of the scheduler is worth writing, beside as many as there are jobs.
const IMAGE_EVENTS: u64 = 5000;

/// When a write must have reached the disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Durability {
    /// Before anything else is done.
    Now,
    /// With the next write that must, and before the queue waits at the latest. It outlives the daemon at once.
    WithNext,
}

/// An event to be written.
pub struct Entry {
    /// The event to be written.
    pub event: QueueEvent,
    /// The environment of a job that is new.
    pub env: Option<Arc<Vec<(Text, Text)>>>,
}

impl From<QueueEvent> for Entry {
    fn from(event: QueueEvent) -> Self {
        Self { event, env: None }
    }
}

/// An event that took effect before it could be written.
struct Unwritten {
    stamp: Stamp,
    event: QueueEvent,
    /// The job as it was before, and as it is after the event.
    before: Arc<JobRecord>,
    after: Arc<JobRecord>,
}

/// The store, and where the journal in it has got to.
pub struct Journal {
    /// The database that the journal is written to.
    pub store: Store,
    next_seq: u64,
    /// Events since the scheduler's image was written.
    since_image: u64,
    /// Decisions that are not written yet: they go with the next event, or before the queue waits.
    decisions: Vec<(Stamp, QueueEvent)>,
    /// Stops that took effect while the store took nothing: they are written before everything else.
    unwritten: Vec<Unwritten>,
    /// Whether something was written that may not have reached the disk and must, see [`Durability::WithNext`].
    owes_sync: bool,
    /// When the store is tried again, after it refused.
    pub retry_at: Option<Time>,
}

impl Journal {
    /// The journal of a store.
    pub fn new(store: Store) -> Result<Self, StoreError> {
        let (_, last_seq, _) = store.last()?;
        // The last events may have been dropped with the image: their numbers are not given again.
        let last_seq = store.image()?.map_or(last_seq, |(seq, _)| last_seq.max(seq));
        Ok(Self {
            store,
            next_seq: last_seq + 1,
            since_image: 0,
            decisions: Vec::new(),
            unwritten: Vec::new(),
            owes_sync: false,
            retry_at: None,
        })
    }

    /// Keeps a decision until it is written.
    pub fn decided(&mut self, stamp: Stamp, event: QueueEvent) {
        self.decisions.push((stamp, event));
    }

    /// Whether an image of the scheduler is worth its writing.
    pub fn wants_image(&self, jobs: usize) -> bool {
        self.since_image > IMAGE_EVENTS + jobs as u64
    }

    /// Writes an image of the scheduler as it is after the last event.
    pub fn put_image(&mut self, content: &[u8]) -> Result<(), StoreError> {
        if !self.unwritten.is_empty() {
            // The image would know events that the journal has only later.
            return Ok(());
        }
        self.flush_decisions()?;
        let seq = self.next_seq - 1;
        // Worth no wait for the disk: if the power fails, the image before it and the journal are as good.
        self.store.transaction_unsynced(|writer| writer.put_image(seq, content))?;
        self.since_image = 0;
        Ok(())
    }

    /// Writes decisions of which nothing came, before the queue waits. They are worth no wait for the disk: a daemon that loses them with
    /// the power decides again. What must be on the disk by now gets there with them.
    pub fn flush_decisions(&mut self) -> Result<(), StoreError> {
        if self.decisions.is_empty() && !self.owes_sync {
            return Ok(());
        }
        let (first, decisions) = (self.next_seq, &self.decisions);
        let write = |writer: &mut Writer<'_>| {
            decisions.iter().zip(first..).try_for_each(|((stamp, event), seq)| writer.event(seq, *stamp, event))
        };
        if !self.owes_sync {
            self.store.transaction_unsynced(write)?;
        } else if decisions.is_empty() {
            // A transaction that changes nothing would not reach the disk.
            self.store.transaction(|writer| writer.set_meta("synced", &first.to_string()))?;
        } else {
            self.store.transaction(write)?;
        }
        self.owes_sync = false;
        self.advance(self.decisions.len());
        self.decisions.clear();
        Ok(())
    }

    fn advance(&mut self, events: usize) {
        self.next_seq += events as u64;
        self.since_image += events as u64;
    }
}

impl<P: Platform> LiveWorld<P> {
    /// The present moment by the queue's clock and by the wall clock.
    pub(crate) fn stamp(&self) -> Stamp {
        Stamp { at: self.platform.now().0, wall_ns: self.platform.wall_ns() }
    }

    /// Writes events to the disk, then takes them in and tells everybody: the scheduler's part of them is added to `events`.
    pub(crate) fn commit(&mut self, entries: Vec<Entry>, events: &mut Vec<Event>) -> Result<(), StoreError> {
        self.commit_by(Durability::Now, entries, events)
    }

    /// The same, for events that may reach the disk together with those that follow them.
    pub(crate) fn commit_by(
        &mut self,
        durability: Durability,
        mut entries: Vec<Entry>,
        events: &mut Vec<Event>,
    ) -> Result<(), StoreError> {
        if entries.is_empty() {
            return Ok(());
        }
        let stamp = self.stamp();
        let records = self.write(durability, &mut entries, stamp)?;
        self.devices.are_stale = true;
        let first_seq = self.journal.next_seq - entries.len() as u64;
        for ((entry, seq), record) in entries.iter().zip(first_seq..).zip(records) {
            if let (EventKind::Admitted { request, .. }, Some(env)) = (&entry.event, &entry.env) {
                self.records.know_environment(request.env_id, || environment_bytes(env) as u64);
            }
            let translator = Translator { machine: &self.devices.machine, estimates: &self.memory.estimates };
            let translated = translator.events(&mut self.rows, &entry.event, stamp, record.as_deref());
            events.extend(translated.into_iter().map(|kind| Event::at(Time(stamp.at), kind)));
            self.remember(&entry.event, record, stamp);
            self.tell(seq, stamp, &entry.event);
        }
        Ok(())
    }

    /// One event, for a caller who waits for an answer.
    pub(crate) fn commit_one(&mut self, event: QueueEvent, events: &mut Vec<Event>) -> Result<(), Refusal> {
        self.commit(vec![event.into()], events).map_err(|error| Refusal::new(RefusalKind::Unavailable, error.to_string()))
    }

    /// Writes an event, and takes it in even if the store takes nothing now: stopping a job must not need room on a disk that the job
    /// itself may have filled. It is written as soon as there is room. If the daemon dies before that, the job's end is found, and the
    /// reason for it is not.
    pub(crate) fn commit_or_keep(&mut self, event: QueueEvent, events: &mut Vec<Event>) {
        if self.commit(vec![event.clone().into()], events).is_ok() {
            return;
        }
        let stamp = self.stamp();
        let Some(before) = event.job().and_then(|id| self.records.jobs.get(&id)).cloned() else { return };
        let Some(after) = journal::fold(Some(&before), &event, stamp).map(Arc::new) else { return };
        let translator = Translator { machine: &self.devices.machine, estimates: &self.memory.estimates };
        let translated = translator.events(&mut self.rows, &event, stamp, Some(&after));
        events.extend(translated.into_iter().map(|kind| Event::at(Time(stamp.at), kind)));
        self.remember(&event, Some(Arc::clone(&after)), stamp);
        self.devices.are_stale = true;
        self.journal.unwritten.push(Unwritten { stamp, event, before, after });
    }

    /// Writes what took effect while the store took nothing.
    pub(crate) fn write_unwritten(&mut self) {
        if !self.journal.unwritten.is_empty() {
            let stamp = self.stamp();
            // If the store refuses again it is tried again.
            _ = self.write(Durability::Now, &mut [], stamp);
        }
    }

    /// Writes events in one transaction; gives the record that each leads to, if it is about a job.
    fn write(
        &mut self,
        durability: Durability,
        entries: &mut [Entry],
        stamp: Stamp,
    ) -> Result<Vec<Option<Arc<JobRecord>>>, StoreError> {
        let began = std::time::Instant::now();
        let decisions = std::mem::take(&mut self.journal.decisions);
        let unwritten = std::mem::take(&mut self.journal.unwritten);
        let first_seq = self.journal.next_seq;
        let records_of =
            RecordWriter { estimates: &self.memory.estimates, telemetry: &self.devices.telemetry, board: &self.board };
        let jobs = &self.records.jobs;
        let write = |writer: &mut Writer<'_>| {
            let mut seqs = first_seq..;
            let mut number = || seqs.next().unwrap_or(u64::MAX);
            for kept in &unwritten {
                records_of.write(writer, &kept.event, Some(&kept.before), &kept.after, kept.stamp)?;
                writer.event(number(), kept.stamp, &kept.event)?;
            }
            for (stamp, event) in &decisions {
                writer.event(number(), *stamp, event)?;
            }
            let mut changed: HashMap<u64, Arc<JobRecord>> = HashMap::new();
            let mut records = Vec::with_capacity(entries.len());
            for entry in entries.iter_mut() {
                if let (EventKind::Admitted { request, .. }, Some(env)) = (&mut entry.event, &entry.env) {
                    request.env_id = writer.environment(env)?;
                }
                let before = entry.event.job().and_then(|id| changed.get(&id).or_else(|| jobs.get(&id)));
                let after = entry.event.job().and_then(|_| journal::fold(before.map(|record| &**record), &entry.event, stamp));
                if let Some(record) = &after {
                    records_of.write(writer, &entry.event, before.map(|record| &**record), record, stamp)?;
                }
                writer.event(number(), stamp, &entry.event)?;
                let after = after.map(Arc::new);
                changed.extend(after.iter().map(|record| (record.id, Arc::clone(record))));
                records.push(after);
            }
            Ok(records)
        };
        let written = match durability {
            Durability::Now => self.journal.store.transaction(write),
            Durability::WithNext => self.journal.store.transaction_unsynced(write),
        };
        self.board.metrics.wrote(began.elapsed());
        self.note_store(&written);
        if written.is_err() {
            (self.journal.decisions, self.journal.unwritten) = (decisions, unwritten);
            return written;
        }
        self.journal.owes_sync = durability == Durability::WithNext;
        self.journal.advance(unwritten.len() + decisions.len() + entries.len());
        for (kept, seq) in unwritten.iter().zip(first_seq..) {
            self.tell(seq, kept.stamp, &kept.event);
        }
        written
    }

    /// Memory, and those who look.
    fn remember(&mut self, event: &QueueEvent, record: Option<Arc<JobRecord>>, stamp: Stamp) {
        self.switches.take_in(event, &self.devices.machine, &mut self.devices.drained);
        let Some(record) = record else { return };
        let id = record.id;
        let before = self.records.jobs.get(&id).cloned();
        self.board.metrics.changed(before.as_deref(), &record, journal::word(event), stamp.at);
        if before.is_some_and(|before| before.state.has_gpus()) && !record.state.has_gpus() {
            self.devices.telemetry.end_run(&record, stamp.wall_ns / 1_000_000_000);
        }
        self.records.put(Arc::clone(&record));
        if let Some(leases) = &self.leases {
            leases.follow(&record);
        }
        let mut view = self.board.write();
        view.clients.note(&record, stamp);
        if record.state.is_over() {
            view.jobs.remove(&id);
            view.promises.remove(&id);
            view.notes.remove(&id);
            view.measured.remove(&id);
            view.recent_ends.keep(record);
        } else {
            view.jobs.insert(id, record);
        }
    }

    fn tell(&self, seq: u64, stamp: Stamp, event: &QueueEvent) {
        let kind = journal::word(event);
        if !journal::INNER.contains(&kind) {
            let (at, detail) = (crate::clock::rfc3339(stamp.wall_ns), journal::detail(event));
            self.board.tell(api::LiveEvent { seq, at, kind: kind.to_owned(), job: event.job(), detail });
        }
    }

    /// A store that refuses is an administrator's business, and is tried again.
    pub(crate) fn note_store<T>(&mut self, outcome: &Result<T, StoreError>) {
        let mut view = self.board.write();
        match outcome {
            Ok(_) => _ = view.warnings.remove("store"),
            Err(error) => {
                view.warnings.insert("store", error.to_string());
                self.journal.retry_at = Some(Time(self.platform.now().0 + STORE_RETRY_NS));
            }
        }
    }

    /// The daemon was started on a full disk: nothing is started until there is room, and what runs can be cancelled.
    pub(crate) fn note_full_disk(&mut self, database: &std::path::Path) {
        self.note_store::<()>(&Err(StoreError::DiskFull(database.to_owned())));
        let text = "the daemon was started on a full disk: other programs cannot read its store until it is started again";
        self.board.write().warnings.insert("alone", text.to_owned());
    }

    /// Writes something small where the store refused last, so that it is known when it works again.
    pub(crate) fn try_store(&mut self) {
        let refused = self.board.read().warnings.contains_key("store");
        if refused {
            let outcome = self.journal.store.transaction(|writer| writer.set_meta("tried", "yes"));
            self.note_store(&outcome);
        }
    }

    pub(crate) fn retry_store_later(&mut self) {
        self.journal.retry_at = Some(Time(self.platform.now().0 + STORE_RETRY_NS));
    }

    /// What the store could not take is tried at the next occasion.
    pub(crate) fn retry_store_now(&mut self) {
        self.journal.retry_at = Some(self.platform.now());
    }
}

/// What is written of a job when an event changes it.
struct RecordWriter<'a> {
    estimates: &'a Estimates,
    telemetry: &'a Telemetry,
    board: &'a Board,
}

impl RecordWriter<'_> {
    fn write(
        &self,
        writer: &mut Writer<'_>,
        event: &QueueEvent,
        before: Option<&JobRecord>,
        record: &JobRecord,
        stamp: Stamp,
    ) -> rusqlite::Result<()> {
        match event {
            EventKind::Admitted { .. } => writer.put_job(record)?,
            EventKind::Promised { .. } => {}
            _ => writer.update_job(record)?,
        }
        match event {
            EventKind::Changed { job, change: JobChange::Priority(to), .. } => writer.update_priority(*job, *to)?,
            EventKind::Started { .. } => writer.begin_run(record, self.estimates.of(record).1, stamp)?,
            EventKind::Ended { end, report, .. } => {
                let measure = before.map(|before| self.telemetry.measure_of(before)).unwrap_or_default();
                writer.end_run(record, journal::end_word(*end), measure, report.ended_ns.unwrap_or(stamp.wall_ns))?;
            }
            _ => {}
        }
        if record.spec.client.is_some() {
            writer.put_client(&self.board.read().clients.row(record, stamp.wall_ns))?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rota_core::event::Occasion;

    #[test]
    fn what_may_reach_the_disk_later_gets_there_before_the_queue_waits() {
        let mut journal = Journal::new(Store::in_memory()).unwrap();
        let is_synced = |journal: &Journal| journal.store.meta("synced").unwrap().is_some();
        journal.flush_decisions().unwrap();
        assert!(!is_synced(&journal), "nothing was to be written");
        // A decision goes to the disk with what is owed; nothing else needs to be written for that.
        journal.owes_sync = true;
        journal.decided(Stamp { at: 1, wall_ns: 1 }, EventKind::Decided { occasion: Occasion::Event });
        journal.flush_decisions().unwrap();
        assert!(!journal.owes_sync && !is_synced(&journal));
        assert_eq!(journal.store.last().unwrap().1, 1);
        journal.owes_sync = true;
        journal.flush_decisions().unwrap();
        assert!(!journal.owes_sync && is_synced(&journal), "without a decision something else is written");
    }
}
