//! Rota's own tables in TOML: `[[job]]` with the fields of the CSV, or one `[generate]` table.

use super::own::{Draft, OwnField};
use crate::collect::Collector;
use crate::error::{Fault, Problem, TraceError, excerpt};
use crate::generate::Generator;
use rota_core::{ThroughputTable, Workload};
use serde::Deserialize;
use std::ops::Range;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

/// What a TOML file turned out to hold.
pub(crate) enum Content {
    /// Jobs, now in the collector.
    Jobs,
    /// A generator, already run.
    Generated(Workload),
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct GeneratorFile {
    generate: Generator,
}

/// Finds the line of a byte. Tables come in the order of the file, but their keys sorted by name, so that looking for
/// each key from the start of its table, not of the file, keeps a large file from taking for ever.
struct LineFinder<'t> {
    text: &'t str,
    table: Place,
    latest: Place,
}

#[derive(Clone, Copy)]
struct Place {
    position: usize,
    line: u32,
}

impl<'t> LineFinder<'t> {
    const START: Place = Place { position: 0, line: 1 };

    fn new(text: &'t str) -> Self {
        Self { text, table: Self::START, latest: Self::START }
    }

    fn line_of(&mut self, span: &Range<usize>) -> u32 {
        let known = [self.latest, self.table].into_iter().find(|place| place.position <= span.start);
        let from = known.unwrap_or(Self::START);
        let passed = self.text.as_bytes().get(from.position..span.start).unwrap_or_default();
        let newlines = passed.split(|&byte| byte == b'\n').count() as u32 - 1;
        self.latest = Place { position: span.start, line: from.line + newlines };
        self.latest.line
    }

    /// The line of a table, whose keys will be asked for next.
    fn line_of_table(&mut self, span: &Range<usize>) -> u32 {
        let line = self.line_of(span);
        self.table = self.latest;
        line
    }
}

/// Reads jobs, or runs a generator; `table` is for generators that need speeds, the built-in one if there is none.
pub(crate) fn read(text: &str, collector: &mut Collector, table: Option<&ThroughputTable>) -> Result<Content, TraceError> {
    let mut finder = LineFinder::new(text);
    let document = DeTable::parse(text).map_err(|error| toml_error(&error, &mut finder, collector))?;
    let document = document.get_ref();
    let generate = document.get("generate");
    for (key, value) in document {
        let line = finder.line_of(&value.span());
        match key.get_ref().as_ref() {
            "generate" => {}
            "job" if generate.is_some() => {
                return Err(collector.error(line, Problem::JobsAndGenerator.into()));
            }
            "job" => read_jobs(value, &mut finder, collector)?,
            other => {
                let fault = Problem::UnknownColumn { known: "job, generate".to_owned() }.within(excerpt(other));
                return Err(collector.error(line, fault));
            }
        }
    }
    if generate.is_none() {
        return Ok(Content::Jobs);
    }
    let file = toml::from_str::<GeneratorFile>(text).map_err(|error| toml_error(&error, &mut finder, collector))?;
    let line = generate.map_or(0, |table| finder.line_of(&table.span()));
    file.generate.check(collector.jobs_max()).map_err(|fault| collector.error(line, fault))?;
    let workload = match table {
        Some(table) => file.generate.run_with(table)?,
        None => file.generate.run_with(&crate::default_throughputs())?,
    };
    Ok(Content::Generated(workload))
}

fn toml_error(error: &toml::de::Error, finder: &mut LineFinder<'_>, collector: &Collector) -> TraceError {
    let line = error.span().map_or(0, |span| finder.line_of(&span));
    collector.error(line, Problem::Toml { message: excerpt_long(error.message()) }.into())
}

/// Messages of the TOML reader list what it expected, which is longer than a value.
fn excerpt_long(message: &str) -> String {
    message.chars().map(|character| if character.is_control() { ' ' } else { character }).take(400).collect()
}

fn read_jobs(value: &Spanned<DeValue<'_>>, finder: &mut LineFinder<'_>, collector: &mut Collector) -> Result<(), TraceError> {
    let line = finder.line_of(&value.span());
    let DeValue::Array(tables) = value.get_ref() else {
        return Err(collector.error(line, Problem::malformed("job", "a list of tables; write `[[job]]`").into()));
    };
    for table in tables {
        let mut line = finder.line_of_table(&table.span());
        collector.begin_row(line);
        if let Err(fault) = read_job(table, &mut line, finder, collector) {
            collector.bad_line(line, fault)?;
        }
    }
    Ok(())
}

/// Reads one `[[job]]`; `line` is moved to the field that is wrong.
fn read_job(
    table: &Spanned<DeValue<'_>>,
    line: &mut u32,
    finder: &mut LineFinder<'_>,
    collector: &mut Collector,
) -> Result<(), Fault> {
    let DeValue::Table(fields) = table.get_ref() else {
        return Err(Problem::malformed("job", "a table; write `[[job]]`").into());
    };
    let start = *line;
    let mut draft = Draft::new();
    for (key, value) in fields {
        *line = finder.line_of(&value.span());
        let field = OwnField::named(key.get_ref())?;
        let text = plain_text(value.get_ref(), field)?;
        draft.set(field, &text, collector)?;
    }
    *line = start;
    draft.add(collector)
}

/// The value as the CSV would have it, so that both are read by the same rules.
fn plain_text(value: &DeValue<'_>, field: OwnField) -> Result<String, Fault> {
    let joint = match field {
        OwnField::GpuType => "|",
        OwnField::After => ";",
        _ => "",
    };
    match value {
        DeValue::String(text) => Ok(text.as_ref().to_owned()),
        // Underscores between digits are TOML's; `_` never gets this far elsewhere.
        DeValue::Integer(integer) if integer.radix() == 10 => Ok(integer.as_str().replace('_', "")),
        DeValue::Float(float) => Ok(float.as_str().replace('_', "")),
        DeValue::Array(parts) if !joint.is_empty() => {
            let texts = parts.iter().map(|part| match part.get_ref() {
                DeValue::String(text) if !text.contains(joint) => Ok(text.as_ref().to_owned()),
                DeValue::Integer(integer) if field == OwnField::After && integer.radix() == 10 => Ok(integer.as_str().to_owned()),
                _ => Err(Problem::malformed("[…]", "a list of texts").within(field.name())),
            });
            Ok(texts.collect::<Result<Vec<_>, _>>()?.join(joint))
        }
        _ => Err(Problem::malformed(kind_of(value), "a number or a text").within(field.name())),
    }
}

fn kind_of(value: &DeValue<'_>) -> &'static str {
    match value {
        DeValue::String(_) => "text",
        DeValue::Integer(_) => "a number in another base",
        DeValue::Float(_) => "a number",
        DeValue::Boolean(_) => "true or false",
        DeValue::Datetime(_) => "a date",
        DeValue::Array(_) => "a list",
        DeValue::Table(_) => "a table",
    }
}
