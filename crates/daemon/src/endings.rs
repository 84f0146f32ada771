//! Endings: what the end of an attempt means for its job.
//!
//! The exit status is the supervisor's own record. A job that ended by itself before a stop reached it ended by itself.

use crate::acts::EventKindOf;
use crate::api::State;
use crate::config::OnLoss;
use crate::platform::{Message, Outcome, Platform};
use crate::record::Record;
use crate::store::Entry;
use crate::world::{Change, LiveWorld, StopCause};
use rota_core::snapshot::work_done;
use rota_core::{Event, EventKind, Time};
use rota_engine::State as EngineState;
use rota_exec::{Cause, ExitRecord};
use serde_json::json;

/// A machine that could not make a process may be able to a little later.
const LAUNCH_AGAIN_NS: u64 = 10_000_000_000;

/// What becomes of a job whose attempt ended.
enum Verdict {
    /// It is over.
    Over(State),
    /// It waits again, having lost its GPUs to others.
    Preempted,
    /// It waits again, having lost its GPUs with a device or a machine.
    Evicted,
    /// It failed and is tried again.
    TryAgain,
}

impl<P: Platform> LiveWorld<P> {
    pub(crate) fn take_ends(&mut self, ends: Vec<(u64, u32, Outcome)>, state: &mut EngineState, events: &mut Vec<Event>) {
        let mut changes = Vec::new();
        let mut verdicts = Vec::new();
        let mut kept = Vec::new();
        let mut runs = Vec::new();
        for (id, attempt, outcome) in ends {
            let Some(record) = self.jobs.get(&id).filter(|record| can_end(record, attempt)).cloned() else { continue };
            if matches!(outcome, Outcome::HolderGone) && self.hand_on(&record) {
                continue;
            }
            let (mut change, verdict) = self.judge(&record, &outcome);
            if let Some(job) = self.number(id).map(|job| &state.jobs[job.index()]) {
                let work = work_done(job, self.platform.now()).minus(job.done_before);
                change.entry.detail["work_seconds"] = json!(work.seconds());
            }
            verdicts.push((id, verdict, change.record.not_before));
            runs.push((record, change.record.clone(), outcome.clone()));
            changes.push(change);
            kept.push(Message::Ended { job: id, attempt, outcome });
        }
        if self.commit(changes).is_err() {
            // Not lost: the supervisors' records stay where they are, and the store is tried again.
            self.undelivered.append(&mut kept);
            return;
        }
        for (before, after, outcome) in &runs {
            self.learn(before, after, outcome);
            self.reshape_class(after, state, events);
            if before.is_under_mps()
                && let Some(gpu) = before.gpu_uuids.first().and_then(|uuid| self.machine.gpu_of(uuid))
            {
                self.end_mps(gpu);
                self.occupy(gpu, state, events);
            }
        }
        for (id, verdict, not_before) in verdicts {
            match verdict {
                Verdict::Over(state) => {
                    let how = match state {
                        State::Done => EventKindOf::Finished,
                        State::Cancelled => EventKindOf::Cancelled,
                        State::Lost => EventKindOf::Lost,
                        _ => EventKindOf::Failed,
                    };
                    self.leave_play(id, how, events);
                }
                other => self.wait_again(id, &other, not_before, events),
            }
        }
    }

    fn wait_again(&mut self, id: u64, verdict: &Verdict, not_before: Option<u64>, events: &mut Vec<Event>) {
        self.stopping.remove(&id);
        let Some(job) = self.number(id) else { return };
        self.tell(
            events,
            match verdict {
                Verdict::Preempted => EventKind::Preempted { job },
                Verdict::TryAgain => EventKind::Retried { job },
                Verdict::Evicted | Verdict::Over(_) => EventKind::Evicted { job },
            },
        );
        if let Some(due) = not_before {
            self.tell(events, EventKind::Held { job });
            self.timers.insert((Time(due), id));
        }
    }

    fn judge(&self, record: &Record, outcome: &Outcome) -> (Change, Verdict) {
        let mut after = record.clone();
        let now = self.platform.now();
        after.finished_ns = Some(self.platform.wall_ns());
        if let Some(measured) = self.board.read().measured.get(&record.id) {
            after.energy_joules = Some(measured.energy_joules);
            after.peak_memory_mib = Some(measured.peak_memory_mib).filter(|peak| *peak > 0).or(after.peak_memory_mib);
        }
        let verdict = match outcome {
            Outcome::HolderGone => {
                after.reason = Some("the process that held it ended".to_owned());
                Verdict::Over(if record.state.has_gpus() { State::Done } else { State::Cancelled })
            }
            Outcome::LetGo(why) => {
                after.reason = Some(why.clone());
                Verdict::Over(if record.state.has_gpus() { State::Done } else { State::Cancelled })
            }
            Outcome::NeverStarted | Outcome::NotLaunched(_) if record.cancel => Verdict::Over(State::Cancelled),
            Outcome::NotLaunched(why) => {
                after.reason = Some(format!("this machine could not start it: {why}"));
                after.not_before = Some(now.0 + LAUNCH_AGAIN_NS);
                Verdict::Evicted
            }
            Outcome::NeverStarted => {
                after.reason = None;
                Verdict::Evicted
            }
            Outcome::Lost(why) => {
                after.reason = Some(why.clone());
                verdict_of_loss(record, State::Lost)
            }
            Outcome::Rebooted => {
                after.reason = Some("the machine was restarted while it ran".to_owned());
                if self.config.jobs.on_reboot == OnLoss::Requeue && !record.cancel {
                    Verdict::Evicted
                } else {
                    verdict_of_loss(record, State::Lost)
                }
            }
            Outcome::Ended(exit) => {
                after.exit_code = exit.code;
                after.signal = exit.signal;
                after.finished_ns = Some(i64::try_from(exit.finished_unix_ns).unwrap_or(i64::MAX));
                self.verdict_of_exit(record, exit, &mut after)
            }
        };
        let ended_ns = match outcome {
            // It had GPUs on paper only.
            Outcome::NeverStarted | Outcome::NotLaunched(_) => record.started_ns,
            _ => after.finished_ns,
        };
        let ran = now.0.saturating_sub(record.started_at.unwrap_or(now.0));
        let kind = match verdict {
            Verdict::Over(state) => {
                after.state = state;
                match state {
                    State::Done => "finished",
                    State::Cancelled => "cancelled",
                    State::Lost => "lost",
                    _ => "failed",
                }
            }
            Verdict::Preempted => {
                after.preemptions += 1;
                after.service_ns += ran.saturating_mul(u64::from(record.spec.ask.gpus.max(1)));
                "preempted"
            }
            Verdict::Evicted => "evicted",
            Verdict::TryAgain => {
                after.failures += 1;
                let first = record.spec.ask.retry_delay_seconds.unwrap_or(self.config.jobs.retry_delay_seconds);
                let delay = first * f64::from(1_u32 << after.failures.saturating_sub(1).min(16));
                after.not_before = Some(now.0 + (delay * 1e9) as u64);
                "retried"
            }
        };
        if !after.state.is_over() {
            after.state = if record.user_hold { State::Held } else { State::Waiting };
            after.finished_ns = None;
            after.started_at = None;
        }
        let detail = json!({
            "attempt": record.attempts, "exit_code": after.exit_code, "signal": after.signal, "reason": after.reason,
            "seconds": ran as f64 / 1e9, "gpus": record.gpu_indices, "ended_at": ended_ns.map(crate::clock::rfc3339),
        });
        let entry = Entry { job: Some(record.id), kind, detail };
        (Change { record: after, env: None, entry }, verdict)
    }

    fn verdict_of_exit(&self, record: &Record, exit: &ExitRecord, after: &mut Record) -> Verdict {
        match self.ran_out_of_memory(record, exit, after) {
            Some(true) => return Verdict::Evicted,
            Some(false) => return verdict_of_loss(record, State::Failed),
            None => {}
        }
        let reason = &mut after.reason;
        let stopped_for = self.stopping.get(&record.id).cloned().or_else(|| record.cancel.then_some(StopCause::Cancel));
        match (&exit.cause, stopped_for) {
            (Cause::StopRequested, Some(StopCause::Preempt)) => {
                *reason = None;
                return Verdict::Preempted;
            }
            (Cause::StopRequested, Some(StopCause::Evict)) => return Verdict::Evicted,
            (Cause::StopRequested, Some(StopCause::Fail(why))) => {
                *reason = Some(why);
                return verdict_of_loss(record, State::Failed);
            }
            (Cause::StopRequested, Some(StopCause::Cancel | StopCause::Overuse)) => {
                *reason = Some("cancelled".to_owned());
                return Verdict::Over(State::Cancelled);
            }
            // Asked to make room by a daemon that died before it had gone.
            (Cause::StopRequested, None) if record.spec.ask.preemptible => {
                *reason = None;
                return Verdict::Preempted;
            }
            (Cause::StopRequested, None) => {
                *reason = Some("its supervisor was told to stop it, and nobody had cancelled it".to_owned());
                return verdict_of_loss(record, State::Lost);
            }
            (Cause::Exited, _) if exit.code == Some(0) => {
                *reason = None;
                return Verdict::Over(State::Done);
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
            Cause::CouldNotStart => Verdict::Over(State::Failed),
            _ => verdict_of_loss(record, State::Failed),
        }
    }
}

/// A job that did not end well: cancelled, to be tried again, or over.
fn verdict_of_loss(record: &Record, end: State) -> Verdict {
    if record.cancel {
        Verdict::Over(State::Cancelled)
    } else if record.failures < record.spec.ask.retries {
        Verdict::TryAgain
    } else {
        Verdict::Over(end)
    }
}

/// Whether an end can be meant for the attempt that is under way: a claim may end while it waits.
fn can_end(record: &Record, attempt: u32) -> bool {
    record.is_claim() || (record.state.has_gpus() && record.attempts == attempt)
}

fn signal_name(signal: i32) -> String {
    const NAMES: [(i32, &str); 9] =
        [(1, "HUP"), (2, "INT"), (3, "QUIT"), (6, "ABRT"), (7, "BUS"), (9, "KILL"), (11, "SEGV"), (13, "PIPE"), (15, "TERM")];
    NAMES.iter().find(|(number, _)| *number == signal).map_or_else(String::new, |(_, name)| format!(" ({name})"))
}
