//! A table being read: what every format checks alike, wherever its speeds come from.

use crate::cell;
use crate::error::{Fault, Problem, TraceError, excerpt};
use rota_core::ThroughputTable;

/// Faster than anything: beyond it is a slip.
const STEPS_PER_SECOND_MAX: f64 = 1e12;
const ALLOWED: &str = "steps per second from 0 to 1e12";

/// A job type with its gang size.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Gang {
    job_type: String,
    gpus: u32,
}

impl Gang {
    /// Refuses names that are empty or have control characters in them.
    pub fn new(job_type: &str, gpus: u32) -> Result<Self, Problem> {
        match cell::name(job_type)? {
            "" => Err(Problem::Missing { wanted: "a job type" }),
            name => Ok(Self { job_type: name.to_owned(), gpus }),
        }
    }

    fn as_pair(&self) -> (&str, u32) {
        (&self.job_type, self.gpus)
    }

    /// The job in a message.
    pub fn describe(&self) -> String {
        let gpus = if self.gpus == 1 { "GPU" } else { "GPUs" };
        format!("{} ({} {gpus})", excerpt(&self.job_type), self.gpus)
    }
}

/// Where a job's gang is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Placement {
    Close,
    Spread,
}

/// A pair whose jobs must prove to be known alone.
struct PairPlace {
    line: u32,
    first: Gang,
    second: Gang,
    gpu_type: String,
}

/// The speeds read so far.
pub(super) struct Draft {
    table: ThroughputTable,
    pairs: Vec<PairPlace>,
    /// What is known from another file: nothing may contradict it, and it completes pairs.
    known: ThroughputTable,
}

/// A speed that makes sense, under the text it was given as.
pub(super) fn checked_speed(text: &str, speed: f64) -> Result<f64, Problem> {
    // Adding 0 makes -0 a plain 0.
    if (0.0..=STEPS_PER_SECOND_MAX).contains(&speed) { Ok(speed + 0.0) } else { Err(Problem::out_of_range(text, ALLOWED)) }
}

impl Draft {
    pub fn new(source_name: &str, known: ThroughputTable) -> Self {
        Self { table: ThroughputTable::new(source_name), pairs: Vec::new(), known }
    }

    /// The file in messages.
    pub fn source_name(&self) -> &str {
        &self.table.source
    }

    /// A fault at a place in the file.
    pub fn error(&self, line: u32, fault: Fault) -> TraceError {
        TraceError { path: self.table.source.clone(), line, field: fault.field, problem: fault.problem }
    }

    /// Sets the speed of a job on its own.
    pub fn set(&mut self, gang: &Gang, placement: Placement, gpu_type: &str, speed: f64) -> Result<(), Problem> {
        let (job_type, gpus) = gang.as_pair();
        let lookup = |table: &ThroughputTable| match placement {
            Placement::Close => table.get(job_type, gpus, gpu_type),
            Placement::Spread => table.get_spread(job_type, gpus, gpu_type),
        };
        if let Some(known) =
            lookup(&self.table).or_else(|| lookup(&self.known)).filter(|known| known.to_bits() != speed.to_bits())
        {
            return Err(Problem::Contradiction { given: speed.to_string(), known: known.to_string() });
        }
        match placement {
            Placement::Close => self.table.insert(job_type, gpus, gpu_type, speed),
            Placement::Spread => self.table.insert_spread(job_type, gpus, gpu_type, speed),
        }
        Ok(())
    }

    /// Sets the speeds of two jobs that share their GPUs.
    pub fn set_pair(
        &mut self,
        line: u32,
        first: &Gang,
        second: &Gang,
        gpu_type: &str,
        speeds: (f64, f64),
    ) -> Result<(), Problem> {
        // A job beside its like is as fast as the other, and what is known from the other side must be the same.
        let reversed = (first == second).then_some((speeds.1, speeds.0));
        let lookup = |table: &ThroughputTable| table.get_pair(first.as_pair(), second.as_pair(), gpu_type);
        let known = lookup(&self.table).or_else(|| lookup(&self.known));
        let differs = |known: &(f64, f64)| known.0.to_bits() != speeds.0.to_bits() || known.1.to_bits() != speeds.1.to_bits();
        if let Some(known) = known.or(reversed).filter(differs) {
            return Err(Problem::Contradiction { given: spelled(speeds), known: spelled(known) });
        }
        if known.is_none() {
            self.table.insert_pair(first.as_pair(), second.as_pair(), gpu_type, speeds);
            let place = PairPlace { line, first: first.clone(), second: second.clone(), gpu_type: gpu_type.to_owned() };
            self.pairs.push(place);
        }
        Ok(())
    }

    /// The table, if it is whole.
    pub fn finish(self) -> Result<ThroughputTable, TraceError> {
        for pair in &self.pairs {
            for gang in [&pair.first, &pair.second] {
                let speed = |table: &ThroughputTable| table.get(&gang.job_type, gang.gpus, &pair.gpu_type);
                if speed(&self.table).or_else(|| speed(&self.known)).is_none() {
                    let wanted = "its speed alone on this GPU type too, as it is part of a pair there";
                    let field = format!("{}: {}", excerpt(&pair.gpu_type), gang.describe());
                    return Err(self.error(pair.line, Problem::Missing { wanted }.within(field)));
                }
            }
        }
        if self.table.is_empty() {
            let problem = Problem::Missing { wanted: "a line for each job type and gang size" };
            return Err(self.error(0, problem.into()));
        }
        if !self.can_run_anything() {
            return Err(self.error(0, Problem::AllZero.into()));
        }
        Ok(self.table)
    }
}

impl Draft {
    /// Whether some job runs somewhere: a table of zeros is a slip, not a measurement.
    fn can_run_anything(&self) -> bool {
        let gpu_types = self.table.gpu_types();
        let runs = |(job_type, gpus): (&str, u32)| {
            let speeds =
                |gpu_type: &&str| [self.table.get(job_type, gpus, gpu_type), self.table.get_spread(job_type, gpus, gpu_type)];
            gpu_types.iter().flat_map(speeds).flatten().any(|speed| speed > 0.0)
        };
        // Pairs alone, of jobs known from elsewhere, may well all be impossible.
        let gangs = self.table.gangs();
        let says_speeds =
            |&(job_type, gpus): &(&str, u32)| gpu_types.iter().any(|gpu_type| self.table.get(job_type, gpus, gpu_type).is_some());
        !gangs.iter().any(says_speeds) || gangs.into_iter().any(runs)
    }
}

fn spelled(speeds: (f64, f64)) -> String {
    format!("[{}, {}]", speeds.0, speeds.1)
}
