//! A line split into its columns, and a header that knows them by name.

use crate::error::{Fault, Problem, excerpt};

/// The columns of one line. One value is used for all lines of a file, so that splitting does not allocate.
#[derive(Default)]
pub(crate) struct Fields {
    text: String,
    ends: Vec<Column>,
}

#[derive(Clone, Copy)]
struct Column {
    from: usize,
    to: usize,
}

impl Fields {
    /// Splits a line. A column may be wrapped in quotation marks, doubled inside it; it may not contain a line break.
    pub fn split(&mut self, line: &str, delimiter: u8) -> Result<(), Problem> {
        self.text.clear();
        self.ends.clear();
        if line.as_bytes().contains(&b'"') {
            return self.split_quoted(line, delimiter);
        }
        self.split_plainly(line, delimiter);
        Ok(())
    }

    /// Splits a line at every delimiter, whatever else is in it.
    pub fn split_plainly(&mut self, line: &str, delimiter: u8) {
        self.text.clear();
        self.ends.clear();
        self.text.push_str(line);
        let mut from = 0;
        for (position, &byte) in line.as_bytes().iter().enumerate() {
            if byte == delimiter {
                self.ends.push(Column { from, to: position });
                from = position + 1;
            }
        }
        self.ends.push(Column { from, to: line.len() });
        for column in &mut self.ends {
            let text = &line[column.from..column.to];
            column.from += text.len() - text.trim_ascii_start().len();
            column.to = column.from + text.trim_ascii().len();
        }
    }

    fn split_quoted(&mut self, line: &str, delimiter: u8) -> Result<(), Problem> {
        let mut rest = line;
        loop {
            let from = self.text.len();
            let start = rest.trim_ascii_start();
            let tail = if let Some(quoted) = start.strip_prefix('"') {
                self.unquote(quoted)?
            } else {
                let end = rest.bytes().position(|byte| byte == delimiter).unwrap_or(rest.len());
                self.text.push_str(rest[..end].trim_ascii());
                &rest[end..]
            };
            self.ends.push(Column { from, to: self.text.len() });
            let tail = if tail.as_bytes().first() == Some(&delimiter) { tail } else { tail.trim_ascii_start() };
            match tail.as_bytes().first() {
                None => return Ok(()),
                Some(byte) if *byte == delimiter => rest = &tail[1..],
                Some(_) => return Err(Problem::malformed(tail, "the end of a quoted column")),
            }
        }
    }

    /// Appends what stands before the closing quotation mark; gives what stands behind it.
    fn unquote<'t>(&mut self, quoted: &'t str) -> Result<&'t str, Problem> {
        let mut rest = quoted;
        loop {
            let (before, behind) = rest.split_once('"').ok_or(Problem::OpenQuote)?;
            self.text.push_str(before);
            match behind.strip_prefix('"') {
                Some(further) => {
                    self.text.push('"');
                    rest = further;
                }
                None => return Ok(behind),
            }
        }
    }

    /// Splits at any run of blanks.
    pub fn split_blanks(&mut self, line: &str) {
        self.text.clear();
        self.ends.clear();
        for word in line.split_ascii_whitespace() {
            let from = self.text.len();
            self.text.push_str(word);
            self.ends.push(Column { from, to: self.text.len() });
        }
    }

    /// How many columns there are.
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    /// A column by position; empty behind the last.
    pub fn get(&self, index: usize) -> &str {
        self.ends.get(index).map_or("", |column| &self.text[column.from..column.to])
    }

    /// A column that may not be there; `None` if it is not, or is empty.
    pub fn optional(&self, index: Option<usize>) -> Option<&str> {
        index.map(|index| self.get(index)).filter(|text| !text.is_empty())
    }

    /// Refuses a line with another number of columns.
    pub fn expect(&self, expected: usize) -> Result<(), Fault> {
        if self.len() == expected { Ok(()) } else { Err(Problem::ColumnCount { found: self.len(), expected }.into()) }
    }
}

/// The names of the columns of a table.
pub(crate) struct Header {
    names: Vec<String>,
    spellings: Vec<String>,
}

impl Header {
    /// Takes a line of names; names are compared without regard to case.
    pub fn new(fields: &Fields) -> Result<Self, Fault> {
        let names = (0..fields.len()).map(|index| fields.get(index).to_ascii_lowercase()).collect::<Vec<_>>();
        for (position, name) in names.iter().enumerate() {
            if !name.is_empty() && names[..position].contains(name) {
                return Err(Problem::RepeatedColumn.within(excerpt(name)));
            }
        }
        let spellings = (0..fields.len()).map(|index| fields.get(index).to_owned()).collect();
        Ok(Self { names, spellings })
    }

    /// The name of a column as the file spells it.
    pub fn spelling(&self, index: usize) -> &str {
        self.spellings.get(index).map_or("", String::as_str)
    }

    /// The names of the columns, in the file's order.
    pub fn names(&self) -> &[String] {
        &self.names
    }

    /// Where a column is, under the first of these names that there is.
    pub fn find(&self, names: &[&'static str]) -> Option<usize> {
        names.iter().find_map(|name| self.names.iter().position(|known| known.eq_ignore_ascii_case(name)))
    }

    /// Where a column is that must be there; `wanted` says what for.
    pub fn require(&self, names: &[&'static str], wanted: &'static str) -> Result<usize, Fault> {
        self.find(names).ok_or_else(|| Problem::MissingColumn { wanted }.within(names.first().copied().unwrap_or_default()))
    }
}
