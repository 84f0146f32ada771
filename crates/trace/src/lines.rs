//! Lines of a file, read one at a time and never longer than a bound.
//!
//! A file of any size is read in the memory of its longest line, and a line without end is refused after
//! [`LINE_BYTES_MAX`] rather than read.

use crate::error::{Fault, Problem};
use std::io::{BufRead, Read};

/// Longest line read. A job of any format fits into a few hundred bytes.
pub(crate) const LINE_BYTES_MAX: u64 = 1 << 20;

/// The lines of an input.
pub(crate) struct Lines<'r> {
    input: &'r mut dyn BufRead,
    buffer: Vec<u8>,
    number: u32,
}

impl<'r> Lines<'r> {
    pub fn new(input: &'r mut dyn BufRead) -> Self {
        Self { input, buffer: Vec::new(), number: 0 }
    }

    /// The number of the line last read, from 1.
    pub fn number(&self) -> u32 {
        self.number
    }

    /// Reads the next line, without its end. False at the end of the input.
    pub fn advance(&mut self) -> Result<bool, Fault> {
        self.buffer.clear();
        let read = (&mut *self.input).take(LINE_BYTES_MAX + 1).read_until(b'\n', &mut self.buffer);
        let length = read.map_err(|error| Fault::from(Problem::from_read(error)))?;
        if length == 0 {
            return Ok(false);
        }
        self.number = self.number.saturating_add(1);
        if length as u64 > LINE_BYTES_MAX {
            return Err(Problem::LineTooLong { limit_bytes: LINE_BYTES_MAX }.into());
        }
        while let Some(b'\n' | b'\r') = self.buffer.last() {
            self.buffer.pop();
        }
        if self.number == 1 && self.buffer.starts_with(b"\xef\xbb\xbf") {
            self.buffer.drain(..3);
        }
        Ok(true)
    }

    /// The line last read.
    pub fn text(&self) -> Result<&str, Fault> {
        match std::str::from_utf8(&self.buffer) {
            Ok(text) if !text.contains('\0') => Ok(text),
            _ => Err(Problem::NotText.into()),
        }
    }
}
