//! The loop that all line-based formats share: one line at a time, bad ones to the collector.

use crate::collect::Collector;
use crate::error::{Fault, Problem, TraceError};
use crate::fields::{Fields, Header};
use crate::lines::Lines;

/// How lines are split into columns.
#[derive(Clone, Copy)]
pub(crate) enum Split {
    /// Columns are split at a character; quotation marks protect it.
    At(u8),
    /// At a character, quotation marks being ordinary (shell commands and job names have them).
    Plainly(u8),
    /// Columns are split at runs of blanks.
    AtBlanks,
}

impl Split {
    /// Only tables with commas wrap their columns in quotation marks.
    fn of(delimiter: u8) -> Self {
        if delimiter == b',' { Self::At(delimiter) } else { Self::Plainly(delimiter) }
    }

    fn apply(self, fields: &mut Fields, line: &str) -> Result<(), Fault> {
        match self {
            Self::At(delimiter) => fields.split(line, delimiter)?,
            Self::Plainly(delimiter) => fields.split_plainly(line, delimiter),
            Self::AtBlanks => fields.split_blanks(line),
        }
        Ok(())
    }
}

/// Calls `row` with every line that is neither blank nor a comment. `comment` sees the others.
pub(crate) fn each_row(
    lines: &mut Lines<'_>,
    collector: &mut Collector,
    split: Split,
    comment_mark: Option<char>,
    mut comment: impl FnMut(&str),
    mut row: impl FnMut(&Fields, &mut Collector) -> Result<(), Fault>,
) -> Result<(), TraceError> {
    let mut fields = Fields::default();
    loop {
        match lines.advance() {
            Ok(true) => {}
            Ok(false) => return Ok(()),
            Err(fault) => return Err(collector.error(lines.number(), fault)),
        }
        let text = match lines.text() {
            Ok(text) => text,
            Err(fault) => {
                collector.begin_row(lines.number());
                collector.bad_line(lines.number(), fault)?;
                continue;
            }
        };
        if text.trim_ascii().is_empty() {
            continue;
        }
        if let Some(mark) = comment_mark
            && text.trim_ascii_start().starts_with(mark)
        {
            comment(text);
            continue;
        }
        collector.begin_row(lines.number());
        if let Err(fault) = split.apply(&mut fields, text).and_then(|()| row(&fields, collector)) {
            collector.bad_line(lines.number(), fault)?;
        }
    }
}

/// Reads the header: the first line that is neither blank nor a `#` comment.
pub(crate) fn header(lines: &mut Lines<'_>, collector: &Collector, delimiter: u8) -> Result<Header, TraceError> {
    let mut fields = Fields::default();
    loop {
        match lines.advance() {
            Ok(true) => {}
            Ok(false) => return Err(collector.error(0, Problem::Empty.into())),
            Err(fault) => return Err(collector.error(lines.number(), fault)),
        }
        let located = |fault| collector.error(lines.number(), fault);
        let text = lines.text().map_err(located)?;
        if text.trim_ascii().is_empty() || text.trim_ascii_start().starts_with('#') {
            continue;
        }
        Split::of(delimiter).apply(&mut fields, text).map_err(located)?;
        return Header::new(&fields).map_err(located);
    }
}

/// Reads a table with a header, binding its columns once and every row by them.
pub(crate) fn each_record<Columns>(
    lines: &mut Lines<'_>,
    collector: &mut Collector,
    delimiter: u8,
    bind: impl FnOnce(&Header) -> Result<Columns, Fault>,
    mut row: impl FnMut(&Columns, &Fields, &mut Collector) -> Result<(), Fault>,
) -> Result<(), TraceError> {
    let header = header(lines, collector, delimiter)?;
    let columns = bind(&header).map_err(|fault| collector.error(lines.number(), fault))?;
    let width = header.names().len();
    each_row(
        lines,
        collector,
        Split::of(delimiter),
        Some('#'),
        |_| {},
        |fields, collector| {
            fields.expect(width)?;
            row(&columns, fields, collector)
        },
    )
}
