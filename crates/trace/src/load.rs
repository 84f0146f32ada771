//! From a file to a workload: opens it, tells its format, hands it to the reader.

use crate::collect::{Collector, LogZero};
use crate::error::{Problem, TraceError};
use crate::format::{Format, PREFIX_BYTES, detect_named, refuse_binary};
use crate::formats::own_toml::Content;
use crate::formats::{acme_helios, gavel, openb, own_csv, own_toml, pai, philly, philly_json, pollux, sacct, swf};
use crate::lines::Lines;
use rota_core::{Span, ThroughputTable, Workload};
use std::collections::HashMap;
use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::path::Path;

/// The most bytes read of a TOML file, which must be read whole.
const TOML_BYTES_MAX: u64 = 512 << 20;

/// How a trace is to be read.
#[derive(Clone, Debug, Default)]
pub struct ReadOptions {
    /// Its format; found by its content if not given.
    pub format: Option<Format>,
    /// Whether bad lines are skipped and listed, rather than ending the reading.
    pub skip_bad: bool,
    /// The most jobs taken; a file with more is refused.
    pub jobs_max: Option<u32>,
}

/// A workload and how it was read.
#[derive(Debug)]
pub struct Loaded {
    /// The jobs of the trace.
    pub workload: Workload,
    /// The format they were in.
    pub format: Format,
    /// The first 1000 bad lines, if they were to be skipped.
    pub skipped: Vec<TraceError>,
    /// How many bad lines there were.
    pub skipped_count: u64,
    /// The second of the file's own clock that is the zero of the workload's times.
    pub zero_second: f64,
    /// What was assumed or left out, for people.
    pub notes: Vec<String>,
    /// How long jobs waited in the log, by their lines, where the log says so.
    pub waits: HashMap<u32, Span>,
}

/// Reads a trace file.
pub fn read(path: &Path, options: &ReadOptions) -> Result<Loaded, TraceError> {
    read_at_speeds(path, options, None)
}

/// Reads a trace file. If it holds a generator of jobs in steps, these are made with the speeds of `table`.
pub fn read_with(path: &Path, options: &ReadOptions, table: &ThroughputTable) -> Result<Loaded, TraceError> {
    read_at_speeds(path, options, Some(table))
}

fn read_at_speeds(path: &Path, options: &ReadOptions, table: Option<&ThroughputTable>) -> Result<Loaded, TraceError> {
    let source_name = path.display().to_string();
    let (prefix, file) = open(path, &source_name)?;
    let mut input = BufReader::with_capacity(PREFIX_BYTES, prefix.as_slice().chain(file));
    load(&source_name, &prefix, &mut input, options, table)
}

/// Reads a trace from memory. `source_name` stands for the file in messages.
pub fn parse(source_name: &str, text: &[u8], options: &ReadOptions) -> Result<Loaded, TraceError> {
    load(source_name, text, &mut { text }, options, None)
}

/// Opens a file and reads enough of it to tell what it is.
pub(crate) fn open(path: &Path, source_name: &str) -> Result<(Vec<u8>, File), TraceError> {
    let failed = |error| TraceError::whole_file(source_name, Problem::from_read(error));
    let mut file = File::open(path).map_err(failed)?;
    if file.metadata().map_err(failed)?.is_dir() {
        return Err(TraceError::whole_file(source_name, Problem::Directory));
    }
    let mut prefix = Vec::new();
    (&mut file).take(PREFIX_BYTES as u64).read_to_end(&mut prefix).map_err(failed)?;
    Ok((prefix, file))
}

/// Reads all of an input that must be read whole, up to a bound.
pub(crate) fn read_whole(
    source_name: &str,
    input: &mut dyn BufRead,
    limit_bytes: u64,
    format: Format,
) -> Result<Vec<u8>, TraceError> {
    let failed = |problem| TraceError::whole_file(source_name, problem);
    let mut text = Vec::new();
    input.take(limit_bytes + 1).read_to_end(&mut text).map_err(|error| failed(Problem::from_read(error)))?;
    if text.len() as u64 > limit_bytes { Err(failed(Problem::FileTooLarge { limit_bytes, format })) } else { Ok(text) }
}

fn load(
    source_name: &str,
    prefix: &[u8],
    input: &mut dyn BufRead,
    options: &ReadOptions,
    table: Option<&ThroughputTable>,
) -> Result<Loaded, TraceError> {
    let format = match options.format {
        None => detect_named(source_name, prefix)?,
        Some(format) => {
            let problem = if prefix.is_empty() { Err(Problem::Empty) } else { refuse_binary(prefix) };
            problem.map_err(|problem| TraceError::whole_file(source_name, problem))?;
            format
        }
    };
    let mut collector = Collector::new(source_name, format, options);
    let mut zero = LogZero::Seconds;
    match format {
        Format::RotaToml => return load_toml(source_name, input, collector, table),
        Format::PhillyJson => {
            let text = read_whole(source_name, input, philly_json::FILE_BYTES_MAX, format)?;
            philly_json::read(&text, &mut collector)?;
            zero = LogZero::Date;
        }
        _ => {
            let lines = &mut Lines::new(input);
            match format {
                Format::Gavel10 => gavel::read10(lines, &mut collector)?,
                Format::Gavel7 => gavel::read7(lines, &mut collector)?,
                Format::GavelTsv => gavel::read_tsv(lines, &mut collector)?,
                Format::Philly => philly::read(lines, &mut collector)?,
                Format::Helios | Format::Acme => acme_helios::read(lines, &mut collector)?,
                Format::AlibabaPai => pai::read(lines, &mut collector)?,
                Format::Openb => openb::read(lines, &mut collector)?,
                Format::Pollux => pollux::read(lines, &mut collector)?,
                Format::Swf => zero = swf::read(lines, &mut collector)?,
                Format::Sacct => sacct::read(lines, &mut collector)?,
                Format::RotaCsv | Format::RotaToml | Format::PhillyJson => {
                    own_csv::read(lines, &mut collector)?;
                }
            }
            if matches!(format, Format::Philly | Format::Helios | Format::Acme | Format::Sacct) {
                zero = LogZero::Date;
            }
        }
    }
    collector.finish(zero)
}

fn load_toml(
    source_name: &str,
    input: &mut dyn BufRead,
    mut collector: Collector,
    table: Option<&ThroughputTable>,
) -> Result<Loaded, TraceError> {
    let text = read_whole(source_name, input, TOML_BYTES_MAX, Format::RotaToml)?;
    let text = std::str::from_utf8(&text).map_err(|_| TraceError::whole_file(source_name, Problem::NotText))?;
    match own_toml::read(text, &mut collector, table)? {
        Content::Jobs => collector.finish(LogZero::Seconds),
        Content::Generated(workload) => {
            let notes = vec![format!("generated by {}", workload.source)];
            let workload = Workload { source: source_name.to_owned(), ..workload };
            let format = Format::RotaToml;
            Ok(Loaded { workload, format, skipped: Vec::new(), skipped_count: 0, zero_second: 0.0, notes, waits: HashMap::new() })
        }
    }
}
