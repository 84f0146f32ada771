//! What can be wrong with a trace, said so that its user can mend it: file, line, field, and what would be right.

use crate::Format;
use rota_core::{ClusterError, Span, Time};
use std::borrow::Cow;
use std::fmt;

/// A fault in a file, with its place.
#[derive(Debug)]
pub struct TraceError {
    /// The file, as its user named it.
    pub path: String,
    /// The line, from 1; 0 if the fault is the whole file's.
    pub line: u32,
    /// The column or key, if the fault lies in one.
    pub field: Option<Cow<'static, str>>,
    /// What is wrong, and what would be right.
    pub problem: Problem,
}

impl std::error::Error for TraceError {
    /// What lies behind the problem: the problem itself is already in the message.
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        std::error::Error::source(&self.problem)
    }
}

impl fmt::Display for TraceError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}", self.path)?;
        if self.line > 0 {
            write!(formatter, ":{}", self.line)?;
        }
        if let Some(field) = &self.field {
            write!(formatter, ": {field}")?;
        }
        write!(formatter, ": {}", self.problem)
    }
}

impl TraceError {
    /// A fault of the file as a whole.
    pub(crate) fn whole_file(path: &str, problem: Problem) -> Self {
        Self { path: path.to_owned(), line: 0, field: None, problem }
    }
}

/// What is wrong. Everything a file can get wrong has its own variant.
#[derive(Debug, thiserror::Error)]
pub enum Problem {
    /// The file is not there.
    #[error("there is no such file")]
    NotFound,
    /// The file may not be read.
    #[error("you may not read it: its permissions forbid it")]
    PermissionDenied,
    /// The path is a directory.
    #[error("is a directory; give one file of it")]
    Directory,
    /// The system could not read it.
    #[error("could not be read")]
    Read(#[source] std::io::Error),
    /// The system could not write it.
    #[error("could not be written")]
    Write(#[source] std::io::Error),
    /// Nothing is in it.
    #[error("is empty")]
    Empty,
    /// There is text, but no job.
    #[error("has no jobs{}", if left_out.is_empty() { String::new() } else { format!(": {left_out}") })]
    NoJobs {
        /// Why the jobs of the file do not count.
        left_out: String,
    },
    /// The file is compressed.
    #[error("is {kind}-compressed: decompress it first with `{tool}`")]
    Compressed {
        /// The compression of the file.
        kind: &'static str,
        /// The command that undoes it.
        tool: &'static str,
    },
    /// The file is not text.
    #[error("is not text: a trace is a UTF-8 text file")]
    NotText,
    /// A line too long to be a job.
    #[error("the line is longer than {} KiB; a trace has one job a line", limit_bytes >> 10)]
    LineTooLong {
        /// The longest line read.
        limit_bytes: u64,
    },
    /// A file too large to be read whole, in a format that must be.
    #[error("is larger than {} MiB, the most that is read of a {format} file", limit_bytes >> 20)]
    FileTooLarge {
        /// The most bytes read.
        limit_bytes: u64,
        /// The format of the file.
        format: Format,
    },
    /// More jobs than asked for, or than ids can number.
    #[error("has more than {limit} jobs")]
    TooManyJobs {
        /// The most jobs taken.
        limit: u32,
    },
    /// Nothing known looks like this.
    #[error(
        "is in no known format; name one with --format ({known}), or start it with a header such as `arrival_s,duration_s,gpus`"
    )]
    UnknownFormat {
        /// The formats there are.
        known: String,
    },
    /// A list of machines where jobs belong.
    #[error("lists machines, not jobs; give it as the cluster")]
    IsCluster,
    /// A format name that does not exist.
    #[error("unknown trace format `{given}`; known are {known}")]
    UnknownFormatName {
        /// The text that was given.
        given: String,
        /// The formats there are.
        known: String,
    },
    /// A value that does not read as what belongs there.
    #[error("`{given}` is not {wanted}")]
    Malformed {
        /// The text in the file.
        given: String,
        /// What the field must be.
        wanted: Cow<'static, str>,
    },
    /// A value that reads well but makes no sense.
    #[error("`{given}` is out of range: give {allowed}")]
    OutOfRange {
        /// The text in the file.
        given: String,
        /// The values that are allowed.
        allowed: &'static str,
    },
    /// Nothing where something belongs.
    #[error("is missing: give {wanted}")]
    Missing {
        /// What the field must be.
        wanted: &'static str,
    },
    /// Too many or too few columns.
    #[error("has {found} columns where {expected} belong{}", if *.expected == 1 { "s" } else { "" })]
    ColumnCount {
        /// Columns on the line.
        found: usize,
        /// Columns there should be.
        expected: usize,
    },
    /// The file has a column that its format does not know.
    #[error("is no column of this format; the columns are {known}")]
    UnknownColumn {
        /// The columns there are.
        known: String,
    },
    /// A needed column that the header does not have.
    #[error("the header has no such column, which is needed for {wanted}")]
    MissingColumn {
        /// What the column says about a job.
        wanted: &'static str,
    },
    /// A column that appears twice.
    #[error("the header has this column twice")]
    RepeatedColumn,
    /// A quotation that never ends.
    #[error("a quotation mark is opened and not closed on the line")]
    OpenQuote,
    /// A name with a line break or the like in it.
    #[error("`{given}` has a control character in it; names are plain text")]
    ControlCharacter {
        /// The name, with the character made visible.
        given: String,
    },
    /// Jobs in a file that must be in order are not.
    #[error("arrivals must not go back: {} s after {} s", arrival.seconds(), previous.seconds())]
    ArrivalOrder {
        /// This job's arrival.
        arrival: Time,
        /// The arrival of the one before.
        previous: Time,
    },
    /// Two jobs of one name.
    #[error("`{id}` is already the job of line {first_line}")]
    RepeatedId {
        /// The id of the job.
        id: String,
        /// The line that had it first.
        first_line: u32,
    },
    /// A dependency on a job that is not there.
    #[error("there is no job `{id}` to wait for{}", if *.skipped { " (its line was skipped)" } else { "" })]
    UnknownDependency {
        /// The id of the job.
        id: String,
        /// Whether it may be missing because bad lines were skipped.
        skipped: bool,
    },
    /// Something ended before it began.
    #[error("it ends {} before it starts", .by)]
    EndsBeforeStart {
        /// The time between the two.
        by: Span,
    },
    /// The file does not say how long a job runs, and nothing else does.
    #[error("the file does not say how long jobs run; add a column `{column}` ({meaning})")]
    NoLength {
        /// The column to add.
        column: &'static str,
        /// What the column must hold.
        meaning: &'static str,
    },
    /// A table that has no GPUs in it.
    #[error("the job table does not say how many GPUs a job has; give the task table (`pai_task_table.csv`) instead")]
    NoGpuColumn,
    /// The file is not TOML.
    #[error("is not TOML: {message}")]
    Toml {
        /// What the TOML reader says.
        message: String,
    },
    /// The file is not JSON, or JSON of another shape.
    #[error("is not a job log in JSON: {message}")]
    Json {
        /// What the JSON reader says.
        message: String,
    },
    /// Not JSON, or JSON of another shape than a throughput table.
    #[error("is not a throughput table in JSON: {message}")]
    ThroughputJson {
        /// What the JSON reader says.
        message: String,
    },
    /// The file says the same thing twice, with different values.
    #[error("`{given}` contradicts `{known}`, given for the same before")]
    Contradiction {
        /// The text in the file.
        given: String,
        /// The value that was there before.
        known: String,
    },
    /// A throughput table of nothing but zeros.
    #[error("every speed is 0: give the steps per second of at least one job type on a GPU type it runs on")]
    AllZero,
    /// A price that cannot be.
    #[error(transparent)]
    Price(#[from] rota_core::PriceError),
    /// A deadline that was over before the job was there.
    #[error("the deadline must come after the arrival: {} s is not after {} s", deadline.seconds(), arrival.seconds())]
    DeadlineBeforeArrival {
        /// The job's deadline.
        deadline: Time,
        /// The job's arrival.
        arrival: Time,
    },
    /// A GPU type that is not among those it must be among.
    #[error("`{given}` is not a GPU type of {owner}")]
    UnknownGpuType {
        /// The text in the file.
        given: String,
        /// The table that names the GPU types, and the types it has.
        owner: String,
    },
    /// A key that its table has already had.
    #[error("appears twice")]
    RepeatedKey,
    /// A file with jobs and a generator at once.
    #[error("a file has either `[[job]]` tables or a `[generate]` table")]
    JobsAndGenerator,
    /// A file of jobs where a generator belongs.
    #[error("has no `[generate]` table; add one with `model = \"poisson\"` or another model")]
    NoGenerator,
    /// A job that the format to be written has no words for.
    #[error("job {job} cannot be written as {format}: {reason}")]
    Unwritable {
        /// The job's name.
        job: String,
        /// The format asked for.
        format: Format,
        /// The reason why it cannot be used.
        reason: &'static str,
    },
    /// The file does not describe a cluster.
    #[error(transparent)]
    Cluster(#[from] ClusterError),
}

impl Problem {
    /// Whether reading cannot go on behind it, even when bad lines are skipped.
    pub(crate) fn is_fatal(&self) -> bool {
        matches!(self, Self::LineTooLong { .. } | Self::Read(_) | Self::TooManyJobs { .. })
    }

    /// A system error in words.
    pub(crate) fn from_read(error: std::io::Error) -> Self {
        match error.kind() {
            std::io::ErrorKind::NotFound => Self::NotFound,
            std::io::ErrorKind::PermissionDenied => Self::PermissionDenied,
            std::io::ErrorKind::IsADirectory => Self::Directory,
            _ => Self::Read(error),
        }
    }
}

/// A fault of one line, not yet knowing which line it is.
#[derive(Debug)]
pub(crate) struct Fault {
    pub field: Option<Cow<'static, str>>,
    pub problem: Problem,
}

impl From<Problem> for Fault {
    fn from(problem: Problem) -> Self {
        Self { field: None, problem }
    }
}

impl Problem {
    /// The fault, in a field.
    pub(crate) fn within(self, field: impl Into<Cow<'static, str>>) -> Fault {
        Fault { field: Some(field.into()), problem: self }
    }

    pub(crate) fn malformed(given: &str, wanted: impl Into<Cow<'static, str>>) -> Self {
        Self::Malformed { given: excerpt(given), wanted: wanted.into() }
    }

    pub(crate) fn out_of_range(given: &str, allowed: &'static str) -> Self {
        Self::OutOfRange { given: excerpt(given), allowed }
    }
}

/// At most 60 characters of a value, safe to print: a message must not carry a megabyte or terminal codes.
pub(crate) fn excerpt(text: &str) -> String {
    let mut shown = String::new();
    for (position, character) in text.chars().enumerate() {
        if position == 60 {
            shown.push('…');
            break;
        }
        if character.is_control() {
            shown.extend(character.escape_default());
        } else {
            shown.push(character);
        }
    }
    shown
}
