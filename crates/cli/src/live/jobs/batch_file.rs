//! The file of `rota batch`: one training a row, checked as a whole before anything starts.

use std::fmt;
use std::path::{Path, PathBuf};

/// The columns, in the order they have in a file without a header.
const COLUMNS: [&str; 5] = ["Directory", "Executable", "Filename", "Epochs", "Priority"];
/// What stands for the Python found first on the `PATH`.
const DEFAULT_PYTHON: &str = "-1";
/// More mistakes than this are only counted.
const PROBLEMS_MAX: usize = 20;

/// Where the header is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Header {
    /// In this row, from 0; rows above it are skipped.
    Row(usize),
    /// Nowhere: the columns have their usual order.
    None,
}

/// One row of the table: one training.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Row {
    /// The row's line in the file, from 1.
    pub line: u64,
    /// The directory that the training runs in.
    pub directory: PathBuf,
    /// The program that runs the script.
    pub executable: String,
    /// The training's script.
    pub filename: String,
    /// The training's number of epochs.
    pub epochs: u32,
    /// Lower runs first.
    pub priority: i32,
}

impl Row {
    /// What is run, without the number that the queue adds.
    pub fn command(&self) -> Vec<String> {
        vec![self.executable.clone(), self.filename.clone(), format!("--epochs={}", self.epochs)]
    }
}

/// Everything that is wrong with a file.
#[derive(Debug)]
pub struct Problems {
    file: PathBuf,
    found: Vec<String>,
    more: usize,
}

impl fmt::Display for Problems {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        for problem in &self.found {
            writeln!(formatter, "{}:{problem}", self.file.display())?;
        }
        if self.more > 0 {
            writeln!(formatter, "and {} more", self.more)?;
        }
        write!(formatter, "nothing was started; correct the file and try again")
    }
}

impl std::error::Error for Problems {}

impl Problems {
    fn add(&mut self, problem: String) {
        if self.found.len() < PROBLEMS_MAX {
            self.found.push(problem);
        } else {
            self.more += 1;
        }
    }
}

/// Reads a file and checks all of it: columns, numbers, directories, programs and scripts.
pub fn read(path: &Path, header: Header) -> anyhow::Result<Vec<Row>> {
    let contents = std::fs::read(path).map_err(|error| anyhow::anyhow!("{}: {error}", path.display()))?;
    let contents = contents.strip_prefix(b"\xef\xbb\xbf").unwrap_or(&contents);
    let mut problems = Problems { file: path.to_owned(), found: Vec::new(), more: 0 };
    let rows = parse(contents, header, &mut problems);
    let mut places = Places::default();
    for row in &rows {
        places.check(row, &mut problems);
    }
    if problems.found.is_empty() { Ok(rows) } else { Err(problems.into()) }
}

fn parse(contents: &[u8], header: Header, problems: &mut Problems) -> Vec<Row> {
    let mut reader = csv::ReaderBuilder::new().has_headers(false).flexible(true).trim(csv::Trim::All).from_reader(contents);
    let mut order: Option<[usize; 5]> = (header == Header::None).then_some([0, 1, 2, 3, 4]);
    let mut rows = Vec::new();
    let mut lines = Lines { contents, counted: 0, line: 1 };
    for (number, record) in reader.byte_records().enumerate() {
        let record = match record {
            Ok(record) => record,
            Err(error) => {
                problems.add(format!("{}: {error}", error.position().map_or(0, csv::Position::line)));
                continue;
            }
        };
        let line = lines.at(record.position().map_or(0, csv::Position::byte));
        match (order, header) {
            (None, Header::Row(at)) if number < at => {}
            (None, _) => {
                let Some(found) = columns(&record, line, problems) else { return rows };
                order = Some(found);
            }
            (Some(order), _) => rows.extend(row(&record, line, order, problems)),
        }
    }
    if order.is_none() {
        problems
            .add("1: there is no header; write `Directory,Executable,Filename,Epochs,Priority`, or use --header none".to_owned());
    }
    rows
}

/// Counts lines as an editor does. The reader's own count does not move over the second half of a line's end, nor over empty lines.
struct Lines<'a> {
    contents: &'a [u8],
    counted: usize,
    line: u64,
}

impl Lines<'_> {
    /// The line of the first cell at or after a place, which must not go back.
    fn at(&mut self, place: u64) -> u64 {
        let place = usize::try_from(place).unwrap_or(usize::MAX).min(self.contents.len());
        let blank = self.contents[place..].iter().take_while(|byte| matches!(byte, b'\r' | b'\n')).count();
        let passed = &self.contents[self.counted.min(place + blank)..place + blank];
        self.line += memchr::memchr_iter(b'\n', passed).count() as u64;
        self.counted = place + blank;
        self.line
    }
}

fn columns(record: &csv::ByteRecord, line: u64, problems: &mut Problems) -> Option<[usize; 5]> {
    let mut order = [0; 5];
    for (column, place) in COLUMNS.iter().zip(&mut order) {
        let found = record.iter().position(|cell| cell.eq_ignore_ascii_case(column.as_bytes()));
        let Some(found) = found else {
            let given = record.iter().map(String::from_utf8_lossy).collect::<Vec<_>>().join("`, `");
            problems.add(format!("{line}: no column `{column}` in the header: it has `{given}`; --header names its row"));
            return None;
        };
        *place = found;
    }
    Some(order)
}

fn row(record: &csv::ByteRecord, line: u64, order: [usize; 5], problems: &mut Problems) -> Option<Row> {
    let mut cells = [""; 5];
    for ((cell, place), column) in cells.iter_mut().zip(order).zip(COLUMNS) {
        let Some(bytes) = record.get(place) else {
            problems.add(format!(
                "{line}: column {column}: it is missing; the row has {} of {} cells",
                record.len(),
                order.len()
            ));
            return None;
        };
        let Ok(text) = str::from_utf8(bytes) else {
            problems.add(format!("{line}: column {column}: it is not UTF-8"));
            return None;
        };
        if text.is_empty() {
            problems.add(format!("{line}: column {column}: it is empty"));
            return None;
        }
        *cell = text;
    }
    let [directory, executable, filename, epochs, priority] = cells;
    let epochs = epochs.parse::<u32>().ok().filter(|epochs| *epochs > 0).or_else(|| {
        problems.add(format!("{line}: column Epochs: `{epochs}` is not a whole number from 1"));
        None
    });
    let priority = priority.parse::<i32>().ok().or_else(|| {
        problems.add(format!("{line}: column Priority: `{priority}` is not a whole number (lower runs first)"));
        None
    });
    Some(Row {
        line,
        directory: PathBuf::from(directory),
        executable: if executable == DEFAULT_PYTHON { "python3".to_owned() } else { executable.to_owned() },
        filename: filename.to_owned(),
        epochs: epochs?,
        priority: priority?,
    })
}

/// What was looked for on the disk: a hundred thousand rows name few places.
#[derive(Default)]
struct Places {
    directories: std::collections::HashMap<PathBuf, bool>,
    files: std::collections::HashMap<PathBuf, bool>,
    programs: std::collections::HashMap<String, bool>,
}

impl Places {
    fn check(&mut self, row: &Row, problems: &mut Problems) {
        let line = row.line;
        let directory = &row.directory;
        if !*self.directories.entry(directory.clone()).or_insert_with(|| directory.is_dir()) {
            problems.add(format!("{line}: column Directory: there is no directory `{}`", directory.display()));
            return;
        }
        let script = directory.join(&row.filename);
        if !*self.files.entry(script.clone()).or_insert_with(|| script.is_file()) {
            problems.add(format!("{line}: column Filename: there is no file `{}`", script.display()));
        }
        let program = &row.executable;
        let found = self.programs.entry(program.clone()).or_insert_with(|| {
            if program.contains('/') {
                directory.join(program).is_file()
            } else {
                let path = std::env::var_os("PATH").unwrap_or_default();
                std::env::split_paths(&path).any(|folder| folder.join(program).is_file())
            }
        });
        if !*found {
            problems.add(format!("{line}: column Executable: there is no program `{program}`"));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(text: &str, header: Header) -> Result<Vec<Row>, String> {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("a.py"), "").unwrap();
        let path = folder.path().join("jobs.csv");
        let text = text.replace("DIR", &folder.path().display().to_string());
        std::fs::write(&path, text).unwrap();
        let rows = read(&path, header).map_err(|error| error.to_string().replace(&folder.path().display().to_string(), "DIR"));
        rows.map(|mut rows| {
            for row in &mut rows {
                row.directory = PathBuf::from("DIR");
            }
            rows
        })
    }

    fn rows(text: &str, header: Header) -> Vec<(u64, u32, i32)> {
        told(text, header).unwrap().iter().map(|row| (row.line, row.epochs, row.priority)).collect()
    }

    #[test]
    fn headers_marks_line_ends_and_quotes() {
        let plain = "Directory,Executable,Filename,Epochs,Priority\nDIR,-1,a.py,5,2\nDIR,sh,a.py,3,-1\n";
        assert_eq!(rows(plain, Header::Row(0)), [(2, 5, 2), (3, 3, -1)]);
        assert_eq!(told(plain, Header::Row(0)).unwrap()[0].executable, "python3");
        let windows = format!("\u{feff}{}", plain.replace('\n', "\r\n"));
        assert_eq!(rows(&windows, Header::Row(0)), [(2, 5, 2), (3, 3, -1)]);
        assert_eq!(rows("DIR,-1,a.py,5,2\n", Header::None), [(1, 5, 2)]);
        assert_eq!(rows(&format!("a comment\n{plain}"), Header::Row(1)), [(3, 5, 2), (4, 3, -1)]);
        assert_eq!(
            rows("Priority,\"Epochs\",Filename,Executable,Directory\n1,\"7\",a.py,\"sh\",\"DIR\"\n", Header::Row(0)),
            [(2, 7, 1)]
        );
        assert_eq!(rows("Directory,Executable,Filename,Epochs,Priority\n", Header::Row(0)), []);
    }

    #[test]
    fn mistakes_are_named_by_line_and_column() {
        let head = "Directory,Executable,Filename,Epochs,Priority\n";
        for (text, part) in [
            ("", "there is no header"),
            ("Directory,Executable,Filename,Epochs\n", "1: no column `Priority`"),
            (&format!("{head}DIR,-1,a.py,5\n"), "2: column Priority: it is missing; the row has 4 of 5"),
            (&format!("{head}DIR,-1,a.py,-5,1\n"), "2: column Epochs: `-5`"),
            (&format!("{head}DIR,-1,a.py,0,1\n"), "2: column Epochs: `0`"),
            (&format!("{head}DIR,-1,a.py,5,high\n"), "2: column Priority: `high`"),
            (&format!("{head}\nDIR,-1,b.py,5,1\n"), "3: column Filename: there is no file `DIR/b.py`"),
            (&format!("{head}DIR/x,-1,a.py,5,1\n"), "2: column Directory: there is no directory `DIR/x`"),
            (&format!("{head}DIR,nosuchprogram,a.py,5,1\n"), "2: column Executable: there is no program"),
            (&format!("{head}DIR,,a.py,5,1\n"), "2: column Executable: it is empty"),
        ] {
            let message = told(text, Header::Row(0)).unwrap_err();
            assert!(message.contains(part) && message.contains("DIR/jobs.csv:"), "{text:?}: {message}");
        }
    }

    #[test]
    fn many_mistakes_are_counted() {
        let text = format!("Directory,Executable,Filename,Epochs,Priority\n{}", "DIR,-1,a.py,x,1\n".repeat(100));
        let message = told(&text, Header::Row(0)).unwrap_err();
        assert!(message.contains("and 80 more"), "{message}");
    }
}
