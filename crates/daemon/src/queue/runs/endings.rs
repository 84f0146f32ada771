//! Endings: what the end of an attempt means for its job.
//!
//! The exit status is the supervisor's own record. A job that ended by itself before a stop reached it ended by itself.

use crate::config::OnLoss;
use crate::machine::platform::{Message, Outcome, Platform};
use crate::queue::commit::Durability;
use crate::queue::executor_events::UNREADABLE;
use crate::queue::gavel_ends::end_of_gavel_run;
use crate::queue::leases::work_lost;
use crate::queue::runs::run_times::{kept_and_lost, run_time};
use crate::queue::world::LiveWorld;
use crate::store::journal::{Note, RunReport, fold};
use crate::store::record::JobRecord;
use rota_core::event::EventKind;
use rota_core::snapshot::{gpu_time, work_done};
use rota_core::{End, Event, Hold, JobState, Span, StopCause, Time};
use rota_engine::State;
use rota_exec::{Cause, ExitRecord};

/// The exit code of a job that saved its work and goes on later.
pub const SAVED_AND_LEFT: i32 = 85;
/// Why a script for Gavel has failed that exited with 0.
const NO_STEPS: &str =
    "it exited with 0 and has done no step: a script with Gavel's iterator tells its steps and runs until all are done";
/// The number of the signal that no process can ignore.
const KILL: i32 = 9;
/// A run that leaves by itself sooner than this is started again only after as long.
const LEFT_SOON_NS: u64 = 1_000_000_000;
/// A machine that could not start a run is tried again after this time, which doubles with the attempts up to the longest.
const LAUNCH_AGAIN_MIN_NS: u64 = 1_000_000_000;
const LAUNCH_AGAIN_MAX_NS: u64 = 10_000_000_000;

impl<P: Platform> LiveWorld<P> {
    pub(crate) fn take_ends(&mut self, mut ends: Vec<(u64, u32, Outcome)>, state: &State, events: &mut Vec<Event>) {
        if ends.is_empty() {
            return;
        }
        // Of one moment: jobs that ended by themselves come before those that were asked to leave, and those before jobs that went with
        // their nodes, as in the simulator.
        ends.sort_by_key(|(id, _, outcome)| match outcome {
            Outcome::Ended(exit) if exit.cause == Cause::StopRequested => (1, *id),
            Outcome::Rebooted => (2, *id),
            _ => (0, *id),
        });
        self.board.write().warnings.remove(UNREADABLE);
        let mut entries = Vec::new();
        let mut kept = Vec::new();
        let mut runs = Vec::new();
        for (id, attempt, outcome) in ends {
            let Some(record) = self.records.jobs.get(&id).filter(|record| can_end(record, attempt)).cloned() else { continue };
            if matches!(outcome, Outcome::HolderGone) && self.hand_on(&record) {
                continue;
            }
            let (mut end, mut report) = self.judge(&record, &outcome);
            if let Some(run) = self.gavel_run(&record, &outcome) {
                end = end_of_gavel_run(&record, &run);
                report.reason = (end == End::Crashed).then(|| NO_STEPS.to_owned());
                report.has_saved = !run.is_complete;
                entries.push(EventKind::Committed { job: id, step: run.step, checkpoint: None }.into());
                if let Some(doubt) = run.doubt {
                    self.board.write().warnings.insert("gavel", doubt);
                }
            }
            if !end.is_over() && self.row(id).is_none() {
                // The job ran on when the machine came back without some of its GPUs. No GPUs that it could wait for are left.
                end = End::NeverFits;
                report.reason = Some("it does not fit this machine any more".to_owned());
            }
            entries.extend(self.progress_of_run(&record));
            entries.extend(self.speeds_of_run(&record, state));
            entries.extend(report.is_overdue.then(|| work_lost(id)));
            let (now, known) = (self.platform.now(), self.row(id).and_then(|row| Some((row, state.jobs.get(row.index())?))));
            let run_ns = run_time(&record, &outcome, known.map(|(_, job)| job), now);
            let (kept_ns, lost_ns) = kept_and_lost(&record, end, &report, run_ns);
            (report.kept_run_ns, report.lost_run_ns) = (Some(kept_ns), lost_ns);
            if let Some((row, job)) = known {
                report.work_seconds = Some(work_done(job, now).minus(job.done_before).seconds());
                report.kept_work_ns = Some(kept_work(&record, job, end, now).0);
                let held = now.since(job.since + job.overhead);
                let earlier = job.service;
                report.service_ns =
                    if job.phase.has_gpus() { (earlier + gpu_time(state.bound.job(row), held)).0 } else { earlier.0 };
            }
            self.pace.wants_decision |= self.pace.unpromised.remove(&id);
            if end == End::Preempted {
                entries.extend(self.restart_of(&record, state).map(Into::into));
            }
            let event = EventKind::Ended { job: id, end, report };
            runs.extend(fold(Some(&record), &event, self.stamp()).map(|after| (record, after, outcome.clone())));
            entries.push(event.into());
            if !end.is_over() && self.devices.astray.contains_key(&id) {
                // The scheduler held it back, because it ran on without some of its GPUs. Now it can start on others.
                entries.push(EventKind::Released { job: id, hold: Hold::Astray, note: Note::default() }.into());
            }
            kept.push(Message::Ended { job: id, attempt, outcome });
        }
        // An end that a supervisor wrote down is found again there, whatever becomes of this machine: it may wait for the next write.
        let are_proved = runs.iter().all(|(.., outcome)| matches!(outcome, Outcome::Ended(_)));
        let durability = if are_proved { Durability::WithNext } else { Durability::Now };
        if self.commit_by(durability, entries, events).is_err() {
            // Not lost: the supervisors' records stay where they are, and the store is tried again.
            self.backlog.undelivered.append(&mut kept);
            return;
        }
        for (before, ..) in &runs {
            self.free_extras(before, state, events);
        }
        for gpus in runs.iter().filter_map(|(before, ..)| self.devices.astray.remove(&before.id)).collect::<Vec<_>>() {
            self.occupy_all(gpus.into_iter(), state, events);
        }
        for (before, after, outcome) in &runs {
            self.learn(before, after, outcome);
            self.reshape_class(after, state, events);
        }
        self.release_quota(events);
    }

    fn judge(&self, record: &JobRecord, outcome: &Outcome) -> (End, RunReport) {
        let now = self.platform.now();
        let mut after = RunReport {
            attempt: record.attempts,
            exit_code: record.exit_code,
            signal: record.signal,
            ended_ns: Some(self.platform.wall_ns()),
            ran_ns: now.0.saturating_sub(record.started_at.unwrap_or(now.0)),
            gpus: record.gpu_indices.clone(),
            peak_memory_mib: record.peak_memory_mib,
            ..RunReport::default()
        };
        if let Some(measured) = self.board.read().measured.get(&record.id) {
            after.energy_joules = Some(measured.energy_joules);
            after.peak_memory_mib = Some(measured.peak_memory_mib).filter(|peak| *peak > 0).or(after.peak_memory_mib);
        }
        let end = match outcome {
            Outcome::HolderGone => {
                after.reason = Some("the process that held it ended".to_owned());
                if record.state.has_gpus() { End::Finished } else { End::Cancelled }
            }
            Outcome::LetGo(why) => {
                after.reason = Some(why.clone());
                if record.state.has_gpus() { End::Finished } else { End::Cancelled }
            }
            Outcome::NeverStarted | Outcome::NotLaunched(_) if record.cancel => End::Cancelled,
            Outcome::NotLaunched(why) => self.end_for_want_of_room(why, &mut after),
            Outcome::NeverStarted => {
                after.reason = None;
                End::Evicted
            }
            Outcome::Lost(why) => {
                after.reason = Some(why.clone());
                end_of_loss(record, End::Lost)
            }
            Outcome::NodeGone(why) => {
                after.reason = Some(why.clone());
                if record.progress.is_leased && record.progress.has_saved && !record.cancel {
                    End::Evicted
                } else {
                    end_of_loss(record, End::Lost)
                }
            }
            Outcome::NodeEnded(why) => {
                after.reason = Some(why.clone());
                let waits_again = self.config.jobs.on_gpu_loss == OnLoss::Requeue && !record.cancel;
                if waits_again { End::Evicted } else { end_of_loss(record, End::Lost) }
            }
            Outcome::Rebooted => {
                after.reason = Some("the machine was restarted while it ran".to_owned());
                if self.config.jobs.on_reboot == OnLoss::Requeue && !record.cancel {
                    End::Evicted
                } else {
                    end_of_loss(record, End::Lost)
                }
            }
            Outcome::Ended(exit) => {
                after.exit_code = exit.code;
                after.signal = exit.signal;
                after.ended_ns = Some(i64::try_from(exit.finished_unix_ns).unwrap_or(i64::MAX));
                self.end_of_exit(record, exit, &mut after)
            }
        };
        let had_no_room = matches!(outcome, Outcome::Ended(exit) if exit.cause == Cause::NoRoom);
        if had_no_room || matches!(outcome, Outcome::NeverStarted | Outcome::NotLaunched(_)) {
            // It had GPUs on paper only.
            after.ended_ns = record.started_ns;
        }
        if end == End::Retried {
            let first = record.spec.ask.retry_delay_seconds.unwrap_or(self.config.jobs.retry_delay_seconds);
            let delay = first * f64::from(1_u32 << record.failures.min(16));
            after.not_before = Some(now.0 + (delay * 1e9) as u64);
        }
        (end, after)
    }

    /// The end of a run that this machine could not start. The job waits, and is tried again a little later.
    fn end_for_want_of_room(&self, why: &str, after: &mut RunReport) -> End {
        after.reason = Some(format!("this machine could not start it: {why}"));
        let pause = LAUNCH_AGAIN_MIN_NS << after.attempt.saturating_sub(1).min(16);
        after.not_before = Some(self.platform.now().0 + pause.min(LAUNCH_AGAIN_MAX_NS));
        End::Evicted
    }

    /// The end of a job that was asked to make room for others. One that can save says by its exit how that went.
    fn end_of_notice(&self, record: &JobRecord, exit: &ExitRecord, after: &mut RunReport) -> End {
        let notice = record.spec.ask.preempt.as_ref();
        after.reason = None;
        if exit.code == Some(SAVED_AND_LEFT) {
            after.has_saved = true;
            return End::Preempted;
        }
        if notice.is_none() && !record.progress.is_leased {
            return End::Preempted;
        }
        let own_signal = notice.and_then(|notice| signal_number(&notice.signal));
        if own_signal.is_some() && exit.signal == own_signal {
            after.has_saved = true;
            return End::Preempted;
        }
        if exit.code == Some(0) {
            return End::Finished;
        }
        if exit.code.is_none() && exit.signal.is_none() {
            // It was told to leave before it had begun: nothing is lost.
            return End::Evicted;
        }
        if exit.signal == Some(KILL) {
            let grace = record.notice_grace(self.config.jobs.grace_seconds);
            after.reason = Some(format!(
                "it did not leave within {grace} s of its notice and was killed; it goes on from what it saved before"
            ));
            after.is_overdue = true;
            return End::Evicted;
        }
        let how = match (exit.code, exit.signal) {
            (Some(code), _) => format!("exit code {code}"),
            (None, Some(signal)) => format!("ended by signal {signal}{}", signal_name(signal)),
            (None, None) => "it ended without a status".to_owned(),
        };
        after.reason = Some(format!("{how} after its notice; a job that has saved leaves with exit code {SAVED_AND_LEFT}"));
        end_of_loss(record, End::Crashed)
    }

    fn end_of_exit(&self, record: &JobRecord, exit: &ExitRecord, after: &mut RunReport) -> End {
        match self.ran_out_of_memory(record, exit, after) {
            Some(true) => return End::Evicted,
            Some(false) => return end_of_loss(record, End::Crashed),
            None => {}
        }
        if exit.cause == Cause::NoRoom && !record.cancel {
            return self.end_for_want_of_room(exit.message.as_deref().unwrap_or("it has no room"), after);
        }
        let reason = &mut after.reason;
        let stopped_for = record.stop_cause.clone().or_else(|| record.cancel.then_some(StopCause::Cancel));
        match (&exit.cause, stopped_for) {
            (Cause::StopRequested, Some(StopCause::Preempt)) => return self.end_of_notice(record, exit, after),
            (Cause::StopRequested, Some(StopCause::Evict)) => return End::Evicted,
            (Cause::StopRequested, Some(StopCause::Fail(why))) => {
                *reason = Some(why);
                return end_of_loss(record, End::Crashed);
            }
            (Cause::StopRequested, Some(StopCause::Cancel | StopCause::Overuse)) => {
                *reason = Some("cancelled".to_owned());
                return End::Cancelled;
            }
            // Asked to make room by a daemon that died before it had gone.
            (Cause::StopRequested, None) if record.spec.ask.preemptible => return self.end_of_notice(record, exit, after),
            (Cause::StopRequested, None) => {
                *reason = Some("its supervisor was told to stop it, and nobody had cancelled it".to_owned());
                return end_of_loss(record, End::Lost);
            }
            (Cause::Exited, _) if exit.code == Some(0) => {
                *reason = None;
                return End::Finished;
            }
            (Cause::Exited, _) if exit.code == Some(SAVED_AND_LEFT) && record.spec.ask.preemptible => {
                *reason = Some("it saved its work and left by itself; it goes on later".to_owned());
                after.has_saved = true;
                if after.ran_ns < LEFT_SOON_NS {
                    // One that leaves again and again would keep the machine busy with its starts.
                    after.not_before = Some(self.platform.now().0 + LEFT_SOON_NS);
                }
                return End::Evicted;
            }
            _ => {}
        }
        *reason = Some(match exit.cause {
            Cause::TimeLimit => {
                format!("its time limit of {} s was reached", record.spec.ask.time_limit_seconds.unwrap_or_default())
            }
            Cause::OutOfMemory => "it used more of the machine's memory than it may, and was ended".to_owned(),
            Cause::CouldNotStart => exit.message.clone().unwrap_or_else(|| "it could not be started".to_owned()),
            _ => match (exit.code, exit.signal) {
                (Some(code), _) => format!("exit code {code}"),
                (None, Some(signal)) => format!("ended by signal {signal}{}", signal_name(signal)),
                (None, None) => "it ended without a status".to_owned(),
            },
        });
        match exit.cause {
            // Another try would find the same.
            Cause::CouldNotStart => End::Crashed,
            _ => end_of_loss(record, End::Crashed),
        }
    }
}

/// The work that is kept of a job whose run ended so.
fn kept_work(record: &JobRecord, job: &JobState, end: End, now: Time) -> Span {
    match end {
        End::Preempted | End::Evicted | End::Retried if record.progress.has_saved => job.saved,
        End::Preempted if record.spec.ask.saves_progress => work_done(job, now),
        End::Preempted | End::Retried => Span::ZERO,
        End::Evicted => job.done_before,
        _ => work_done(job, now),
    }
}

/// A job that did not end well: cancelled, to be tried again, or over.
fn end_of_loss(record: &JobRecord, end: End) -> End {
    if record.cancel {
        End::Cancelled
    } else if record.failures < record.spec.ask.retries {
        End::Retried
    } else {
        end
    }
}

/// Whether an end can be meant for the attempt that is under way: a claim may end while it waits.
fn can_end(record: &JobRecord, attempt: u32) -> bool {
    record.is_claim() || (record.state.has_gpus() && record.attempts == attempt)
}

/// Signals by number and name.
const SIGNALS: [(i32, &str); 14] = [
    (1, "HUP"),
    (2, "INT"),
    (3, "QUIT"),
    (6, "ABRT"),
    (7, "BUS"),
    (9, "KILL"),
    (10, "USR1"),
    (11, "SEGV"),
    (12, "USR2"),
    (13, "PIPE"),
    (14, "ALRM"),
    (15, "TERM"),
    (24, "XCPU"),
    (28, "WINCH"),
];

/// The signals by which a job may be told that it must save and leave.
pub const NOTICE_SIGNALS: [&str; 9] = ["HUP", "INT", "QUIT", "USR1", "USR2", "ALRM", "TERM", "XCPU", "WINCH"];

/// The number of a signal by its name.
pub fn signal_number(name: &str) -> Option<i32> {
    SIGNALS.iter().find(|(_, known)| *known == name).map(|(number, _)| *number)
}

fn signal_name(signal: i32) -> String {
    SIGNALS.iter().find(|(number, _)| *number == signal).map_or_else(String::new, |(_, name)| format!(" ({name})"))
}
