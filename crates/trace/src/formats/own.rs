//! The fields of Rota's own format, the same in CSV and TOML.

use crate::cell;
use crate::collect::{Collector, NamedDependency, OrderFields};
use crate::error::{Fault, Problem};
use rota_core::{DependencyCondition, Job, Span, Time};

/// Names of the fields that are checked across jobs.
pub(crate) const ORDER_FIELDS: OrderFields = OrderFields { arrival: "arrival_s", id: "id" };

/// A field of a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum OwnField {
    Id,
    User,
    Project,
    JobType,
    Arrival,
    Gpus,
    GpuType,
    Share,
    Memory,
    NodesMax,
    Duration,
    Steps,
    Estimate,
    Usual,
    Priority,
    Weight,
    Tickets,
    Deadline,
    After,
    Utilisation,
    FailsAt,
    Retries,
}

impl OwnField {
    /// Every field with its name, in the order they are written.
    pub const ALL: [(Self, &'static str); 22] = [
        (Self::Id, "id"),
        (Self::User, "user"),
        (Self::Project, "project"),
        (Self::JobType, "job_type"),
        (Self::Arrival, "arrival_s"),
        (Self::Gpus, "gpus"),
        (Self::GpuType, "gpu_type"),
        (Self::Share, "share"),
        (Self::Memory, "memory_mib"),
        (Self::NodesMax, "nodes_max"),
        (Self::Duration, "duration_s"),
        (Self::Steps, "steps"),
        (Self::Estimate, "estimate_s"),
        (Self::Usual, "usual_s"),
        (Self::Priority, "priority"),
        (Self::Weight, "weight"),
        (Self::Tickets, "tickets"),
        (Self::Deadline, "deadline_s"),
        (Self::After, "after"),
        (Self::Utilisation, "utilisation"),
        (Self::FailsAt, "fails_at_s"),
        (Self::Retries, "retries"),
    ];

    pub fn name(self) -> &'static str {
        Self::ALL.iter().find(|(field, _)| *field == self).map_or("", |(_, name)| name)
    }

    /// The field of a name.
    pub fn named(name: &str) -> Result<Self, Fault> {
        Self::ALL.iter().find(|(_, known)| *known == name).map(|&(field, _)| field).ok_or_else(|| {
            let known = Self::ALL.map(|(_, known)| known).join(", ");
            Problem::UnknownColumn { known }.within(crate::error::excerpt(name))
        })
    }
}

/// A job while its fields come in.
pub(crate) struct Draft {
    job: Job,
    has_arrival: bool,
    has_length: bool,
    id: Option<String>,
    after: Vec<NamedDependency>,
}

impl Draft {
    pub fn new() -> Self {
        Self { job: Job::new(Time::ZERO, Span::ZERO), has_arrival: false, has_length: false, id: None, after: Vec::new() }
    }

    /// Sets a field from its text. An empty one is as good as none.
    pub fn set(&mut self, field: OwnField, text: &str, collector: &mut Collector) -> Result<(), Fault> {
        if text.is_empty() {
            Ok(())
        } else {
            self.set_given(field, text, collector).map_err(|problem| problem.within(field.name()))
        }
    }

    fn set_given(&mut self, field: OwnField, text: &str, collector: &mut Collector) -> Result<(), Problem> {
        let job = &mut self.job;
        match field {
            OwnField::Id => self.id = Some(cell::id(text)?.to_owned()),
            OwnField::User => job.user = collector.names.intern(cell::name(text)?),
            OwnField::Project => job.project = collector.names.intern(cell::name(text)?),
            OwnField::JobType => job.kind = collector.names.intern(cell::name(text)?),
            OwnField::Arrival => {
                job.arrival = cell::time(text)?;
                self.has_arrival = true;
            }
            OwnField::Gpus => job.gpus = cell::gpus(text)?,
            OwnField::GpuType => {
                let intern = |name: &str| cell::gpu_type(name).map(|name| collector.names.intern(name));
                job.gpu_types = text.split('|').map(intern).collect::<Result<_, _>>()?;
            }
            OwnField::Share => job.share = cell::share(text)?,
            OwnField::Memory => job.memory_mib = cell::count(text, "a whole number of MiB")?,
            OwnField::NodesMax => job.nodes_max = cell::count(text, "a whole number of nodes")?,
            OwnField::Duration => {
                job.work = cell::span_above_zero(text)?;
                self.has_length = true;
            }
            OwnField::Steps => {
                job.steps = cell::quantity(text, "a number of steps")?;
                self.has_length = true;
            }
            OwnField::Estimate => job.estimate = Some(cell::span_above_zero(text)?),
            OwnField::Usual => job.usual = Some(cell::span_above_zero(text)?),
            OwnField::Priority => job.priority = cell::priority(text)?,
            OwnField::Weight => job.weight = cell::quantity(text, "a number above 0")?,
            OwnField::Tickets => {
                job.tickets = cell::count_above_zero(text, "a whole number of tickets")?;
            }
            OwnField::Deadline => job.deadline = Some(cell::time(text)?),
            OwnField::After => self.after = dependencies(text)?,
            OwnField::Utilisation => job.utilisation = cell::fraction(text)?,
            OwnField::FailsAt => job.fails_at = Some(cell::span_above_zero(text)?),
            OwnField::Retries => job.retries = cell::count(text, "a whole number of retries")?,
        }
        Ok(())
    }

    /// Adds the job if nothing is missing.
    pub fn add(self, collector: &mut Collector) -> Result<(), Fault> {
        if !self.has_arrival {
            return Err(Problem::Missing { wanted: "the seconds at which the job is submitted" }.within("arrival_s"));
        }
        if !self.has_length {
            return Err(Problem::Missing { wanted: "the seconds the job runs, or its `steps`" }.within("duration_s"));
        }
        if self.job.steps > 0.0 && !self.job.kind.is_some() && self.job.work == Span::ZERO {
            return Err(Problem::Missing { wanted: "the type whose steps these are" }.within("job_type"));
        }
        if let Some(deadline) = self.job.deadline.filter(|deadline| *deadline <= self.job.arrival) {
            let problem = Problem::DeadlineBeforeArrival { deadline, arrival: self.job.arrival };
            return Err(problem.within(OwnField::Deadline.name()));
        }
        collector.add_ordered(self.job, self.id.as_deref(), self.after, ORDER_FIELDS)
    }
}

/// `3`, `3:ok`, `3:any`, several with `;` or blanks between them.
fn dependencies(text: &str) -> Result<Vec<NamedDependency>, Problem> {
    let parts = text.split(|character: char| character == ';' || character.is_whitespace()).filter(|part| !part.is_empty());
    parts
        .map(|part| {
            let (id, condition) = part.rsplit_once(':').unwrap_or((part, "ok"));
            let condition = match condition {
                "ok" => DependencyCondition::Ok,
                "any" => DependencyCondition::Any,
                _ => {
                    return Err(Problem::malformed(part, "a dependency such as `3:ok` or `3:any`"));
                }
            };
            match cell::id(id)? {
                "" => Err(Problem::malformed(part, "a dependency such as `3:ok` or `3:any`")),
                id => Ok(NamedDependency { id: id.to_owned(), condition }),
            }
        })
        .collect()
}
