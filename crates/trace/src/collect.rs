//! Where the readers of all formats put their jobs: counts what is left out, keeps bad lines apart, and ends
//! with a workload in order.

use crate::clock::moment_text;
use crate::error::{Fault, Problem, TraceError, excerpt};
use crate::{Format, Loaded, ReadOptions};
use rota_core::{Dependency, DependencyCondition, Job, JobId, Names, Span, Time, Workload};
use std::collections::{BTreeMap, HashMap, HashSet};

/// Bad lines kept with their message; later ones are only counted.
const SKIPPED_KEPT: usize = 1000;

/// A dependency by the id its file gives, to be found when all jobs are known.
pub(crate) struct NamedDependency {
    pub id: String,
    pub condition: DependencyCondition,
}

/// The jobs read so far.
pub(crate) struct Collector {
    source_name: String,
    options: ReadOptions,
    format: Format,
    jobs: Vec<Job>,
    /// Users, job types and GPU types.
    pub names: Names,
    skipped: Vec<TraceError>,
    skipped_count: u64,
    left_out: BTreeMap<&'static str, u64>,
    notes: Vec<String>,
    /// Ids other than the job's own number, with the job's position.
    labels: HashMap<Box<str>, u32>,
    has_numeric_label: bool,
    waiting: Vec<(u32, Vec<NamedDependency>)>,
    /// How long jobs waited in the log, by their lines.
    waits: HashMap<u32, Span>,
    /// Jobs that started before they came, and the line of the first.
    early_starts: u64,
    first_early_start: Option<u32>,
    rows: u32,
    line: u32,
}

impl Collector {
    pub fn new(source_name: &str, format: Format, options: &ReadOptions) -> Self {
        Self {
            source_name: source_name.to_owned(),
            options: options.clone(),
            format,
            jobs: Vec::new(),
            names: Names::default(),
            skipped: Vec::new(),
            skipped_count: 0,
            left_out: BTreeMap::new(),
            notes: Vec::new(),
            labels: HashMap::new(),
            has_numeric_label: false,
            waiting: Vec::new(),
            waits: HashMap::new(),
            early_starts: 0,
            first_early_start: None,
            rows: 0,
            line: 0,
        }
    }

    /// The most jobs that may come of the file.
    pub fn jobs_max(&self) -> u32 {
        self.options.jobs_max.unwrap_or(u32::MAX - 1)
    }

    /// A fault at a place in the file.
    pub fn error(&self, line: u32, fault: Fault) -> TraceError {
        TraceError { path: self.source_name.clone(), line, field: fault.field, problem: fault.problem }
    }

    /// A bad line: kept apart if bad lines are to be skipped, an error otherwise.
    pub fn bad_line(&mut self, line: u32, fault: Fault) -> Result<(), TraceError> {
        if !self.options.skip_bad || fault.problem.is_fatal() {
            return Err(self.error(line, fault));
        }
        self.skipped_count += 1;
        if self.skipped.len() < SKIPPED_KEPT {
            let error = self.error(line, fault);
            self.skipped.push(error);
        }
        Ok(())
    }

    /// Says which line the next job is from. Every row counts as a number, so that a skipped one does not shift the others.
    pub fn begin_row(&mut self, line: u32) {
        self.line = line;
        self.rows = self.rows.saturating_add(1);
    }

    /// The line being read.
    pub fn line(&self) -> u32 {
        self.line
    }

    /// A job left out for a good reason, such as `without GPUs`.
    pub fn leave_out(&mut self, reason: &'static str) {
        *self.left_out.entry(reason).or_default() += 1;
    }

    /// How long the job of this line waited in the log.
    pub fn note_wait(&mut self, wait: Span) {
        self.waits.insert(self.line, wait);
    }

    /// When the job of this line came and started in the log. A start before that says nothing about how long it waited.
    pub fn note_start(&mut self, arrival: u64, start: u64) {
        if let Some(wait) = start.checked_sub(arrival) {
            self.note_wait(Span(wait));
        } else {
            self.early_starts += 1;
            self.first_early_start.get_or_insert(self.line);
        }
    }

    /// Something the user should know about how the file was read.
    pub fn note(&mut self, note: impl Into<String>) {
        self.notes.push(note.into());
    }

    fn add(&mut self, mut job: Job) -> Result<(), Fault> {
        let limit = self.jobs_max();
        if self.jobs.len() >= limit as usize {
            return Err(Problem::TooManyJobs { limit }.into());
        }
        job.line = self.line;
        self.jobs.push(job);
        Ok(())
    }

    /// Adds a job of a log, its arrival being nanoseconds since any zero.
    pub fn add_logged(&mut self, mut job: Job, id: Option<&str>) -> Result<(), Fault> {
        job.label = id.filter(|id| !id.is_empty()).map(Into::into);
        self.add(job)
    }

    /// Adds a job of a workload given in order, under an id or else its row number.
    pub fn add_ordered(
        &mut self,
        mut job: Job,
        id: Option<&str>,
        after: Vec<NamedDependency>,
        fields: OrderFields,
    ) -> Result<(), Fault> {
        if let Some(previous) = self.jobs.last().map(|job| job.arrival).filter(|&previous| job.arrival < previous) {
            return Err(Problem::ArrivalOrder { arrival: job.arrival, previous }.within(fields.arrival));
        }
        let position = self.jobs.len() as u32;
        let row = self.rows - 1;
        let label = match id {
            Some(id) if number_of(id) != Some(position) => Some(Box::<str>::from(id)),
            None if row != position => Some(row.to_string().into()),
            _ => None,
        };
        match &label {
            Some(label) => {
                if let Some(earlier) = self.position_of(label) {
                    return Err(self.repeated(label, earlier).within(fields.id));
                }
                self.has_numeric_label |= number_of(label).is_some();
            }
            None if self.has_numeric_label => {
                if let Some(&earlier) = self.labels.get(position.to_string().as_str()) {
                    return Err(self.repeated(&position.to_string(), earlier).within(fields.id));
                }
            }
            None => {}
        }
        job.label.clone_from(&label);
        self.add(job)?;
        if let Some(label) = label {
            self.labels.insert(label, position);
        }
        if !after.is_empty() {
            self.waiting.push((position, after));
        }
        Ok(())
    }

    fn repeated(&self, id: &str, earlier: u32) -> Problem {
        Problem::RepeatedId { id: excerpt(id), first_line: self.jobs[earlier as usize].line }
    }

    fn position_of(&self, id: &str) -> Option<u32> {
        let by_number = number_of(id).filter(|&number| self.jobs.get(number as usize).is_some_and(|job| job.label.is_none()));
        by_number.or_else(|| self.labels.get(id).copied())
    }

    /// Turns ids of dependencies into positions. A job that waits for one that is not there is a bad line itself.
    fn resolve(&mut self) -> Result<(), TraceError> {
        let waiting = std::mem::take(&mut self.waiting);
        let mut gone = HashSet::new();
        for (position, dependencies) in &waiting {
            let mut after = Vec::with_capacity(dependencies.len());
            for dependency in dependencies {
                let Some(other) = self.position_of(&dependency.id) else {
                    let skipped = self.skipped_count > 0;
                    let problem = Problem::UnknownDependency { id: excerpt(&dependency.id), skipped };
                    self.bad_line(self.jobs[*position as usize].line, problem.within("after"))?;
                    gone.insert(*position);
                    break;
                };
                after.push(Dependency { job: JobId(other), condition: dependency.condition });
            }
            self.jobs[*position as usize].after = after.into();
        }
        self.drop_jobs(gone, &waiting)
    }

    /// Takes jobs out, with all that wait for them, and closes the gaps.
    fn drop_jobs(&mut self, mut gone: HashSet<u32>, waiting: &[(u32, Vec<NamedDependency>)]) -> Result<(), TraceError> {
        if gone.is_empty() {
            return Ok(());
        }
        let mut dependants: HashMap<u32, Vec<u32>> = HashMap::new();
        for (position, _) in waiting {
            for dependency in &self.jobs[*position as usize].after {
                dependants.entry(dependency.job.0).or_default().push(*position);
            }
        }
        let mut to_visit = gone.iter().copied().collect::<Vec<_>>();
        to_visit.sort_unstable();
        while let Some(missing) = to_visit.pop() {
            for &position in dependants.get(&missing).into_iter().flatten() {
                if gone.insert(position) {
                    let id =
                        self.jobs[missing as usize].label.as_ref().map_or_else(|| missing.to_string(), |label| excerpt(label));
                    let problem = Problem::UnknownDependency { id, skipped: true };
                    self.bad_line(self.jobs[position as usize].line, problem.within("after"))?;
                    to_visit.push(position);
                }
            }
        }
        let mut new_positions = vec![0; self.jobs.len()];
        let jobs = std::mem::take(&mut self.jobs);
        for (position, mut job) in jobs.into_iter().enumerate() {
            if gone.contains(&(position as u32)) {
                continue;
            }
            new_positions[position] = self.jobs.len() as u32;
            if job.label.is_none() && position != self.jobs.len() {
                job.label = Some(position.to_string().into());
            }
            self.jobs.push(job);
        }
        for job in &mut self.jobs {
            for dependency in &mut job.after {
                dependency.job = JobId(new_positions[dependency.job.index()]);
            }
        }
        Ok(())
    }

    /// Sets the zero of a log to its earliest submission and sorts it. Gives the second of the file that is zero now.
    fn settle_log(&mut self, zero: LogZero) -> f64 {
        let first = self.jobs.iter().map(|job| job.arrival.0).min().unwrap_or(0);
        for job in &mut self.jobs {
            job.arrival = Time(job.arrival.0 - first);
        }
        match zero {
            LogZero::Date => self.note(format!("time zero is {}", moment_text(first))),
            LogZero::DateAt(nanos) => {
                self.note(format!("time zero is {} UTC", moment_text(nanos.saturating_add(first))));
            }
            LogZero::Seconds if first > 0 => {
                self.note(format!("time zero is second {} of the file", crate::cell::Seconds(first)));
            }
            LogZero::Seconds => {}
        }
        // Sorting ids by hand, because the sorted position decides which labels are only numbers.
        self.jobs.sort_by_cached_key(|job| job.arrival);
        let mut seen: HashMap<Box<str>, u32> = HashMap::new();
        for (position, job) in self.jobs.iter_mut().enumerate() {
            let Some(label) = &mut job.label else { continue };
            let times = seen.entry(label.clone()).or_default();
            *times += 1;
            if *times > 1 {
                // A log may list a job once for each time it was queued; each is a job of its own here.
                *label = format!("{label}#{times}").into();
            }
            if number_of(label) == Some(position as u32) {
                job.label = None;
            }
        }
        Time(first).seconds()
    }

    /// The workload, checked as a whole.
    pub fn finish(mut self, zero: LogZero) -> Result<Loaded, TraceError> {
        let zero_second = if self.format.is_log() {
            self.settle_log(zero)
        } else {
            self.resolve()?;
            0.0
        };
        for (reason, count) in std::mem::take(&mut self.left_out) {
            self.notes.push(format!("{count} {} {reason} left out", if count == 1 { "job" } else { "jobs" }));
        }
        if let Some(line) = self.first_early_start {
            let jobs = if self.early_starts == 1 { "job starts" } else { "jobs start" };
            self.notes.push(format!(
                "{} {jobs} before {} submitted, the first in line {line}: how long {} waited is not known",
                self.early_starts,
                if self.early_starts == 1 { "it was" } else { "they were" },
                if self.early_starts == 1 { "it" } else { "they" },
            ));
        }
        if self.jobs.is_empty() {
            let mut reasons = self.notes.iter().filter(|note| note.ends_with("left out")).cloned().collect::<Vec<_>>();
            if let Some(first) = self.skipped.first() {
                reasons.push(format!("{} bad lines skipped, the first: {first}", self.skipped_count));
            }
            return Err(TraceError::whole_file(&self.source_name, Problem::NoJobs { left_out: reasons.join(", ") }));
        }
        let mut workload = Workload { source: self.source_name, names: self.names, jobs: self.jobs };
        workload.finish();
        let Self { format, skipped, skipped_count, notes, waits, .. } = self;
        Ok(Loaded { workload, format, skipped, skipped_count, zero_second, notes, waits })
    }
}

/// What a format calls the columns that are checked across jobs.
#[derive(Clone, Copy)]
pub(crate) struct OrderFields {
    pub arrival: &'static str,
    pub id: &'static str,
}

/// What the times of a log count from.
#[derive(Clone, Copy)]
pub(crate) enum LogZero {
    /// Times are dates.
    Date,
    /// They are seconds since this date, in nanoseconds since 1970.
    DateAt(u64),
    /// Times are seconds since an unknown moment.
    Seconds,
}

/// The number an id is, if it is one and written plainly.
fn number_of(id: &str) -> Option<u32> {
    let is_plain = id == "0" || !id.starts_with(['0', '+']);
    id.parse().ok().filter(|_| is_plain)
}
