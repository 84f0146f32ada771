//! Which formats there are, and which one a text is in.

use crate::error::{Problem, TraceError};
use crate::fields::Fields;
use std::fmt;
use std::str::FromStr;

/// A trace format.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Format {
    /// Rota's own table.
    RotaCsv,
    /// Rota's own tables in TOML, or a generator.
    RotaToml,
    /// Gavel's trace of ten columns.
    Gavel10,
    /// Gavel's older trace of seven columns.
    Gavel7,
    /// Gavel's generated workloads with a header.
    GavelTsv,
    /// The Philly trace as a table.
    Philly,
    /// The Philly trace as first published.
    PhillyJson,
    /// The Helios logs.
    Helios,
    /// The Acme logs.
    Acme,
    /// The task table of Alibaba's 2020 GPU trace.
    AlibabaPai,
    /// The pod list of Alibaba's 2023 GPU trace.
    Openb,
    /// Workloads of Pollux and Sia.
    Pollux,
    /// The Standard Workload Format.
    Swf,
    /// What `sacct -P` prints.
    Sacct,
}

impl Format {
    /// Every format with its word, in the order they are listed to people.
    pub const WORDS: [(Self, &'static str); 14] = [
        (Self::RotaCsv, "rota-csv"),
        (Self::RotaToml, "rota-toml"),
        (Self::Gavel10, "gavel10"),
        (Self::Gavel7, "gavel7"),
        (Self::GavelTsv, "gavel-tsv"),
        (Self::Philly, "philly"),
        (Self::PhillyJson, "philly-json"),
        (Self::Helios, "helios"),
        (Self::Acme, "acme"),
        (Self::AlibabaPai, "alibaba-pai"),
        (Self::Openb, "openb"),
        (Self::Pollux, "pollux"),
        (Self::Swf, "swf"),
        (Self::Sacct, "sacct"),
    ];

    /// The words, with commas between them.
    pub fn known() -> String {
        Self::WORDS.map(|(_, word)| word).join(", ")
    }

    /// Whether it is a record of what happened, to be sorted and set to zero, rather than a workload given in order.
    pub fn is_log(self) -> bool {
        !matches!(self, Self::RotaCsv | Self::RotaToml | Self::Gavel10 | Self::Gavel7 | Self::GavelTsv)
    }
}

impl fmt::Display for Format {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let word = Self::WORDS.iter().find(|(format, _)| format == self).map_or("", |(_, word)| word);
        formatter.pad(word)
    }
}

impl FromStr for Format {
    type Err = Problem;

    fn from_str(text: &str) -> Result<Self, Problem> {
        Self::WORDS
            .iter()
            .find(|(_, word)| *word == text)
            .map(|&(format, _)| format)
            .ok_or_else(|| Problem::UnknownFormatName { given: crate::error::excerpt(text), known: Self::known() })
    }
}

/// How much of a file is looked at to tell its format.
pub(crate) const PREFIX_BYTES: usize = 64 << 10;

/// Tells the format of a text from its beginning.
pub fn detect(text: &[u8]) -> Result<Format, TraceError> {
    detect_named("trace", text)
}

/// As [`detect`], with the name of the file for messages.
pub(crate) fn detect_named(source_name: &str, text: &[u8]) -> Result<Format, TraceError> {
    let fault = |line, problem| TraceError { path: source_name.to_owned(), line, field: None, problem };
    refuse_binary(text).map_err(|problem| fault(0, problem))?;
    let prefix = &text[..text.len().min(PREFIX_BYTES)];
    let prefix = prefix.strip_prefix(b"\xef\xbb\xbf").unwrap_or(prefix);
    if prefix.trim_ascii().is_empty() && text.len() <= PREFIX_BYTES {
        return Err(fault(0, Problem::Empty));
    }
    let unknown = || fault(0, Problem::UnknownFormat { known: Format::known() });
    let Some(first) = first_line(prefix) else {
        return Err(fault(0, Problem::NoJobs { left_out: String::new() }));
    };
    if let Some(format) = detect_by_mark(prefix, first) {
        return Ok(format);
    }
    // A long first line may be cut by the prefix, in the middle of a letter.
    let line = match std::str::from_utf8(first) {
        Ok(line) => line,
        Err(error) => std::str::from_utf8(&first[..error.valid_up_to()]).unwrap_or_default(),
    };
    if is_node_list(line) {
        return Err(fault(0, Problem::IsCluster));
    }
    detect_by_columns(line).ok_or_else(unknown)
}

/// The first line that is neither blank nor a `#` comment.
pub(crate) fn first_line(prefix: &[u8]) -> Option<&[u8]> {
    prefix
        .split(|&byte| byte == b'\n')
        .map(<[u8]>::trim_ascii_end)
        .find(|line| !line.trim_ascii().is_empty() && !line.trim_ascii_start().starts_with(b"#"))
}

/// Refuses what is plainly not text, naming the compression if it is one.
pub(crate) fn refuse_binary(text: &[u8]) -> Result<(), Problem> {
    let magics: [(&[u8], &str, &str); 5] = [
        (b"\x1f\x8b", "gzip", "gunzip"),
        (b"\x28\xb5\x2f\xfd", "zstd", "unzstd"),
        (b"\xfd7zXZ", "xz", "unxz"),
        (b"BZh", "bzip2", "bunzip2"),
        (b"PK\x03\x04", "zip", "unzip"),
    ];
    for (magic, kind, tool) in magics {
        if text.starts_with(magic) {
            return Err(Problem::Compressed { kind, tool });
        }
    }
    if text[..text.len().min(PREFIX_BYTES)].contains(&0) { Err(Problem::NotText) } else { Ok(()) }
}

/// Formats that give themselves away by their first character.
pub(crate) fn detect_by_mark(prefix: &[u8], first: &[u8]) -> Option<Format> {
    let first = first.trim_ascii_start();
    if first.starts_with(b";") {
        return Some(Format::Swf);
    }
    if first.starts_with(b"{") {
        return Some(Format::PhillyJson);
    }
    if let Some(rest) = first.strip_prefix(b"[") {
        // `[[job]]` and `[generate]` are TOML; `[` and `{`, perhaps lines apart, are JSON.
        if let Some(next) = rest.trim_ascii_start().first() {
            return Some(if matches!(next, b'{' | b']') { Format::PhillyJson } else { Format::RotaToml });
        }
        let after = prefix.iter().skip_while(|&&byte| byte != b'[').skip(1).find(|byte| !byte.is_ascii_whitespace());
        return Some(if matches!(after, None | Some(b'{' | b']')) { Format::PhillyJson } else { Format::RotaToml });
    }
    let key = first.split(|&byte| byte == b'=').next().unwrap_or_default();
    let is_key = key.len() < first.len()
        && !key.trim_ascii().is_empty()
        && key.trim_ascii().iter().all(|byte| byte.is_ascii_alphanumeric() || b"_-.\"'".contains(byte));
    is_key.then_some(Format::RotaToml)
}

/// Whether a header is that of a list of machines.
pub(crate) fn is_node_list(line: &str) -> bool {
    let has = |name: &str| line.split(',').any(|column| column.trim().eq_ignore_ascii_case(name));
    has("sn") && has("gpu") && has("model")
}

/// Formats told apart by the columns of their first line.
fn detect_by_columns(line: &str) -> Option<Format> {
    let columns_of = |delimiter: u8| {
        let mut fields = Fields::default();
        fields.split(line, delimiter).ok()?;
        Some((0..fields.len()).map(|index| fields.get(index).trim().to_ascii_lowercase()).collect::<Vec<_>>())
    };
    let is_number = |text: &String| text.parse::<f64>().is_ok();
    let bars = columns_of(b'|')?;
    if bars.len() > 1 && bars.iter().any(|column| column == "jobid" || column == "jobidraw") {
        return Some(Format::Sacct);
    }
    let tabs = columns_of(b'\t')?;
    if tabs.len() > 1 {
        let is_header = tabs.iter().any(|column| column == "total_steps");
        return match tabs.len() {
            _ if is_header => Some(Format::GavelTsv),
            10 => Some(Format::Gavel10),
            7 => Some(Format::Gavel7),
            18 if tabs.iter().all(is_number) => Some(Format::Swf),
            _ => None,
        };
    }
    let commas = columns_of(b',')?;
    let has = |name: &str| commas.iter().any(|column| column == name);
    let by_header: [(Format, &[&str]); 9] = [
        (Format::RotaCsv, &["arrival_s"]),
        (Format::Philly, &["timestamp", "duration", "num_gpus"]),
        (Format::Acme, &["gpu_num", "submit_time", "gpu_time"]),
        (Format::Acme, &["gpu_num", "submit_time", "type"]),
        (Format::Helios, &["gpu_num", "submit_time"]),
        (Format::Openb, &["num_gpu", "creation_time"]),
        (Format::AlibabaPai, &["plan_gpu"]),
        (Format::AlibabaPai, &["job_name", "inst_id"]),
        (Format::Pollux, &["time", "application"]),
    ];
    if let Some((format, _)) = by_header.iter().find(|(_, names)| names.iter().all(|name| has(name))) {
        return Some(*format);
    }
    // Rota's own columns without the one that is needed: reading it as such says what is missing.
    if commas.len() > 1 && has("gpus") && (has("duration_s") || has("steps")) {
        return Some(Format::RotaCsv);
    }
    if commas.len() == 10 && (is_number(&commas[2]) || commas[2].is_empty()) && (is_number(&commas[4]) || commas[4].is_empty()) {
        return Some(Format::AlibabaPai);
    }
    let words = line.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
    (words.len() == 18 && words.iter().all(is_number)).then_some(Format::Swf)
}
