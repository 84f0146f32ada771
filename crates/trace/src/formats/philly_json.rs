//! The Philly trace as first published: one JSON array of jobs with their attempts.
//!
//! A job's length is the sum of its attempts, its gang the largest of them. Failed jobs fail at their end; killed ones
//! count as finished, because their users had what they wanted of them.

use crate::cell::{self, GANG_MAX};
use crate::clock::{is_unknown, moment};
use crate::collect::Collector;
use crate::error::{Fault, Problem, TraceError};
use rota_core::{Job, Span, Time};
use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::Deserializer;
use std::borrow::Cow;

/// The most bytes read of such a file; the published one has 0.1 GB.
pub(crate) const FILE_BYTES_MAX: u64 = 4 << 30;

#[derive(Deserialize)]
struct Record<'t> {
    #[serde(default, borrow)]
    status: Option<Cow<'t, str>>,
    #[serde(default, borrow)]
    vc: Option<Cow<'t, str>>,
    #[serde(default, borrow)]
    jobid: Option<Cow<'t, str>>,
    #[serde(default, borrow)]
    attempts: Option<Vec<Attempt<'t>>>,
    #[serde(default, borrow)]
    submitted_time: Option<Cow<'t, str>>,
    #[serde(default, borrow)]
    user: Option<Cow<'t, str>>,
}

#[derive(Deserialize)]
struct Attempt<'t> {
    #[serde(default, borrow)]
    start_time: Option<Cow<'t, str>>,
    #[serde(default, borrow)]
    end_time: Option<Cow<'t, str>>,
    #[serde(default)]
    detail: Option<Vec<Machine>>,
}

#[derive(Deserialize)]
struct Machine {
    #[serde(default)]
    gpus: Option<Vec<IgnoredAny>>,
}

pub(crate) fn read(text: &[u8], collector: &mut Collector) -> Result<(), TraceError> {
    let mut cursor = Cursor { text, position: 0, line: 1 };
    cursor.skip_blanks();
    cursor.expect(b'[', "a list of jobs in `[` and `]`").map_err(|problem| collector.error(cursor.line, problem.into()))?;
    cursor.skip_blanks();
    if cursor.peek() == Some(b']') {
        return Ok(());
    }
    loop {
        cursor.skip_blanks();
        collector.begin_row(cursor.line);
        let line = cursor.line;
        let mut records = Deserializer::from_slice(&text[cursor.position..]).into_iter::<Record<'_>>();
        match records.next() {
            Some(Ok(record)) => {
                let length = records.byte_offset();
                if let Err(fault) = add(&record, collector) {
                    collector.bad_line(line, fault)?;
                }
                cursor.advance(length);
            }
            // Behind broken JSON no job can be found again, so there is nothing to skip to.
            Some(Err(error)) => {
                let line = line.saturating_add(error.line().saturating_sub(1) as u32);
                // Its own line counts from the job, not from the file.
                let message = error.to_string();
                let message = message.rsplit_once(" at line ").map_or(message.as_str(), |(message, _)| message);
                let message = message.chars().take(200).collect();
                return Err(collector.error(line, Problem::Json { message }.into()));
            }
            None => {
                return Err(collector.error(line, Problem::Json { message: "it ends within the list".to_owned() }.into()));
            }
        }
        cursor.skip_blanks();
        match cursor.peek() {
            Some(b',') => cursor.advance(1),
            Some(b']') => return Ok(()),
            _ => {
                let message = "`,` or `]` belongs behind a job".to_owned();
                return Err(collector.error(cursor.line, Problem::Json { message }.into()));
            }
        }
    }
}

/// A place in the text, with its line.
struct Cursor<'t> {
    text: &'t [u8],
    position: usize,
    line: u32,
}

impl Cursor<'_> {
    fn peek(&self) -> Option<u8> {
        self.text.get(self.position).copied()
    }

    fn advance(&mut self, length: usize) {
        let passed = &self.text[self.position..self.position + length];
        let newlines = passed.split(|&byte| byte == b'\n').count() - 1;
        self.line = self.line.saturating_add(newlines as u32);
        self.position += length;
    }

    fn skip_blanks(&mut self) {
        let blanks = self.text[self.position..].iter().take_while(|byte| byte.is_ascii_whitespace()).count();
        self.advance(blanks);
    }

    fn expect(&mut self, byte: u8, wanted: &str) -> Result<(), Problem> {
        if self.peek() != Some(byte) {
            return Err(Problem::Json { message: format!("it must be {wanted}") });
        }
        self.advance(1);
        Ok(())
    }
}

/// A text that is there and known.
fn known<'t>(text: Option<&'t Cow<'_, str>>) -> Option<&'t str> {
    text.map(AsRef::as_ref).filter(|text: &&str| !is_unknown(text))
}

fn add(record: &Record<'_>, collector: &mut Collector) -> Result<(), Fault> {
    let submitted = known(record.submitted_time.as_ref())
        .ok_or_else(|| Problem::Missing { wanted: "the time the job was submitted" }.within("submitted_time"))?;
    let submitted = moment(submitted).map_err(|problem| problem.within("submitted_time"))?;
    let id = cell::id(known(record.jobid.as_ref()).unwrap_or_default()).map_err(|problem| problem.within("jobid"))?;
    let user = known(record.user.as_ref()).or(known(record.vc.as_ref())).unwrap_or_default();
    let user = cell::name(user).map_err(|problem| problem.within("user"))?;
    let attempts = record.attempts.as_deref().unwrap_or_default();
    let mut work = Span::ZERO;
    let mut gpus = 0;
    for attempt in attempts {
        let count: usize = attempt.detail.iter().flatten().map(|machine| machine.gpus.as_ref().map_or(0, Vec::len)).sum();
        gpus = gpus.max(count);
        if let (Some(start), Some(end)) = (known(attempt.start_time.as_ref()), known(attempt.end_time.as_ref())) {
            let start = moment(start).map_err(|problem| problem.within("start_time"))?;
            let end = moment(end).map_err(|problem| problem.within("end_time"))?;
            let length =
                end.checked_sub(start).ok_or_else(|| Problem::EndsBeforeStart { by: Span(start - end) }.within("end_time"))?;
            work += Span(length);
        }
    }
    let reason = if attempts.is_empty() {
        Some("without attempts")
    } else if gpus == 0 {
        Some("without GPUs")
    } else if work == Span::ZERO {
        Some("that ran for no time")
    } else {
        None
    };
    if let Some(reason) = reason {
        collector.leave_out(reason);
        return Ok(());
    }
    if gpus > GANG_MAX as usize || work.seconds() > rota_core::time::SECONDS_MAX {
        return Err(Problem::out_of_range(&gpus.to_string(), "at most 1000000 GPUs for at most 100 years").within("attempts"));
    }
    let user = collector.names.intern(user);
    let project = cell::name(known(record.vc.as_ref()).unwrap_or_default()).map_err(|problem| problem.within("vc"))?;
    let project = collector.names.intern(project);
    let failed = known(record.status.as_ref()).is_some_and(|status| status.eq_ignore_ascii_case("failed"));
    let job = Job { gpus: gpus as u32, user, project, fails_at: failed.then_some(work), ..Job::new(Time(submitted), work) };
    collector.add_logged(job, Some(id))
}
