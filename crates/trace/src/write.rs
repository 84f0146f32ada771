//! Workloads out: Rota's own CSV and TOML without loss, Gavel's ten columns and SWF as far as they go.

use crate::Format;
use crate::cell::Seconds;
use crate::error::{Problem, TraceError};
use crate::formats::own::OwnField;
use rota_core::{DependencyCondition, Job, MilliGpu, Span, Workload};
use std::io::{self, Write};

/// Writes Rota's own CSV. Columns in which every job has the default are left out.
pub fn write_csv(workload: &Workload, mut output: impl Write) -> Result<(), TraceError> {
    let fields = fields_used(workload);
    let write = |output: &mut dyn Write| -> io::Result<()> {
        writeln!(output, "{}", fields.iter().map(|field| field.name()).collect::<Vec<_>>().join(","))?;
        let mut line = String::new();
        for job in &workload.jobs {
            line.clear();
            for (position, &field) in fields.iter().enumerate() {
                if position > 0 {
                    line.push(',');
                }
                if let Some(text) = field_text(field, job, workload) {
                    push_csv(&mut line, &text, position == 0);
                }
            }
            writeln!(output, "{line}")?;
        }
        output.flush()
    };
    write(&mut output).map_err(|error| write_error(workload, error))
}

/// Writes Rota's own TOML: one `[[job]]` table a job, fields at their default left out.
pub fn write_toml(workload: &Workload, mut output: impl Write) -> Result<(), TraceError> {
    let write = |output: &mut dyn Write| -> io::Result<()> {
        for (position, job) in workload.jobs.iter().enumerate() {
            writeln!(output, "{}[[job]]", if position > 0 { "\n" } else { "" })?;
            for (field, name) in OwnField::ALL {
                let Some(text) = field_text(field, job, workload) else { continue };
                // Numbers are written as they are in CSV: TOML keeps their digits, and they are read as decimals.
                let is_text = matches!(
                    field,
                    OwnField::Id | OwnField::User | OwnField::Project | OwnField::JobType | OwnField::GpuType | OwnField::After
                );
                if is_text {
                    writeln!(output, "{name} = {}", toml::Value::String(text))?;
                } else {
                    writeln!(output, "{name} = {text}")?;
                }
            }
        }
        output.flush()
    };
    write(&mut output).map_err(|error| write_error(workload, error))
}

/// How steps are written in Gavel's ten columns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GavelSteps {
    /// As they are, so that nothing is lost. Gavel's generator draws parts of steps, too.
    Exact,
    /// Whole steps, cut off, as Gavel writes traces: its reader takes no others.
    Whole,
}

/// Writes Gavel's ten columns. Every job needs a job type and steps; commands are left blank (`x`), as simulators ignore them. An SLO is
/// a multiple of the run time, -1 for none.
pub fn write_gavel(workload: &Workload, steps: GavelSteps, mut output: impl Write) -> Result<(), TraceError> {
    for job in &workload.jobs {
        let reason = if !job.kind.is_some() {
            "it has no job type"
        } else if job.steps <= 0.0 {
            "its length is not in steps"
        } else if job.steps < 1.0 && steps == GavelSteps::Whole {
            "it is shorter than one step"
        } else if workload.names.text(job.kind).contains('\t') {
            "its job type has a tabulator in it"
        } else {
            continue;
        };
        return Err(unwritable(workload, job, Format::Gavel10, reason));
    }
    let write = |output: &mut dyn Write| -> io::Result<()> {
        for job in &workload.jobs {
            let slo = job
                .deadline
                .filter(|_| job.work > Span::ZERO)
                .map(|deadline| deadline.since(job.arrival).seconds() / job.work.seconds());
            writeln!(
                output,
                "{}\tx\tx\tx\t0\t{}\t{}\t{}\t{:.6}\t{}",
                workload.names.text(job.kind),
                if steps == GavelSteps::Whole { job.steps.trunc() } else { job.steps },
                job.gpus,
                job.weight,
                slo.unwrap_or(-1.0),
                Seconds(job.arrival.0),
            )?;
        }
        output.flush()
    };
    write(&mut output).map_err(|error| write_error(workload, error))
}

/// Writes the Standard Workload Format. Every job needs a length in time; users become numbers.
pub fn write_swf(workload: &Workload, mut output: impl Write) -> Result<(), TraceError> {
    if let Some(job) = workload.jobs.iter().find(|job| job.work == Span::ZERO) {
        return Err(unwritable(workload, job, Format::Swf, "its length is in steps, not in time"));
    }
    let mut users = std::collections::HashMap::new();
    let mut write = |output: &mut dyn Write| -> io::Result<()> {
        writeln!(output, "; Version: 2.2\n; MaxJobs: {}\n; Note: a processor is a GPU", workload.jobs.len())?;
        for job in &workload.jobs {
            let next_user = i64::try_from(users.len()).unwrap_or(i64::MAX - 1) + 1;
            let user = if job.user.is_some() { *users.entry(job.user).or_insert(next_user) } else { -1 };
            let estimate = job.estimate.or(job.usual).map_or_else(|| "-1".to_owned(), |span| Seconds(span.0).to_string());
            writeln!(
                output,
                "{} {} -1 {} {} -1 -1 {} {estimate} -1 {} {user} -1 -1 -1 -1 -1 -1",
                job.id.0 + 1,
                Seconds(job.arrival.0),
                Seconds(job.fails_at.map_or(job.work, |at| at.min(job.work)).0),
                job.gpus,
                job.gpus,
                u8::from(job.fails_at.is_none_or(|at| at > job.work)),
            )?;
        }
        output.flush()
    };
    write(&mut output).map_err(|error| write_error(workload, error))
}

fn write_error(workload: &Workload, error: io::Error) -> TraceError {
    TraceError::whole_file(&workload.source, Problem::Write(error))
}

fn unwritable(workload: &Workload, job: &Job, format: Format, reason: &'static str) -> TraceError {
    let problem = Problem::Unwritable { job: job.display_id(), format, reason };
    TraceError { path: workload.source.clone(), line: job.line, field: None, problem }
}

/// The columns a workload needs.
fn fields_used(workload: &Workload) -> Vec<OwnField> {
    let all_have_steps_only = workload.jobs.iter().all(|job| job.work == Span::ZERO && job.steps > 0.0);
    let is_used = |field: OwnField| match field {
        OwnField::Arrival | OwnField::Gpus => true,
        OwnField::Duration => !all_have_steps_only,
        _ => workload.jobs.iter().any(|job| field_text(field, job, workload).is_some()),
    };
    OwnField::ALL.iter().map(|&(field, _)| field).filter(|&field| is_used(field)).collect()
}

/// A field as it is written; `None` at its default.
fn field_text(field: OwnField, job: &Job, workload: &Workload) -> Option<String> {
    let name = |name: rota_core::Name| name.is_some().then(|| workload.names.text(name).to_owned());
    let span = |span: Span| Seconds(span.0).to_string();
    match field {
        OwnField::Id => job.label.as_ref().map(ToString::to_string),
        OwnField::User => name(job.user),
        OwnField::Project => name(job.project),
        OwnField::JobType => name(job.kind),
        OwnField::Arrival => Some(Seconds(job.arrival.0).to_string()),
        OwnField::Gpus => Some(job.gpus.to_string()),
        OwnField::GpuType => {
            let names = job.gpu_types.iter().map(|&name| workload.names.text(name)).collect::<Vec<_>>();
            (!names.is_empty()).then(|| names.join("|"))
        }
        OwnField::Share => (job.share != MilliGpu::WHOLE).then(|| job.share.to_string()),
        OwnField::Memory => (job.memory_mib > 0).then(|| job.memory_mib.to_string()),
        OwnField::NodesMax => (job.nodes_max > 0).then(|| job.nodes_max.to_string()),
        OwnField::Duration => (job.work > Span::ZERO).then(|| span(job.work)),
        OwnField::Steps => (job.steps > 0.0).then(|| job.steps.to_string()),
        OwnField::Estimate => job.estimate.map(span),
        OwnField::Usual => job.usual.filter(|_| job.estimate.is_none()).map(span),
        OwnField::Priority => (job.priority != 0).then(|| job.priority.to_string()),
        OwnField::Weight => (job.weight.to_bits() != 1.0_f64.to_bits()).then(|| job.weight.to_string()),
        OwnField::Tickets => (job.tickets != 1).then(|| job.tickets.to_string()),
        OwnField::Deadline => job.deadline.map(|deadline| Seconds(deadline.0).to_string()),
        OwnField::After => {
            let parts = job.after.iter().map(|dependency| {
                let other = workload.jobs.get(dependency.job.index()).map_or_else(|| dependency.job.to_string(), Job::display_id);
                let condition = if dependency.condition == DependencyCondition::Ok { "ok" } else { "any" };
                format!("{other}:{condition}")
            });
            (!job.after.is_empty()).then(|| parts.collect::<Vec<_>>().join(";"))
        }
        OwnField::Utilisation => (job.utilisation.to_bits() != 1.0_f64.to_bits()).then(|| job.utilisation.to_string()),
        OwnField::FailsAt => job.fails_at.map(span),
        OwnField::Retries => (job.retries > 0).then(|| job.retries.to_string()),
    }
}

/// Appends a column, in quotation marks where it would not read back as it is.
pub(crate) fn push_csv(line: &mut String, text: &str, is_first: bool) {
    let needs_quotes = text.contains([',', '"']) || text.trim_ascii() != text || (is_first && text.starts_with('#'));
    if needs_quotes {
        line.push('"');
        line.push_str(&text.replace('"', "\"\""));
        line.push('"');
    } else {
        line.push_str(text);
    }
}
