//! The last lines of a log, from the bytes a job wrote. Jobs write anything: what is kept is bounded, and fit to be shown.

use super::plain;
use std::collections::VecDeque;

/// The most lines that are kept.
const LINES_MAX: usize = 2000;
/// Bytes kept of one line.
const LINE_BYTES_MAX: usize = 4096;
/// Columns from one tabulator stop to the next.
const TAB: usize = 8;

/// Where in an escape sequence the last byte was.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Escape {
    /// The text is in no escape sequence.
    #[default]
    Text,
    /// After the escape character.
    Begun,
    /// In a control sequence (colours, cursor), up to its final letter.
    Control,
    /// In a string for the terminal (titles, links), up to its terminator.
    Message,
    /// In such a string, after an escape character.
    MessageEnding,
}

/// The last lines of a log.
#[derive(Clone, Debug, Default)]
pub struct Tail {
    finished: VecDeque<String>,
    open: Vec<u8>,
    escape: Escape,
    /// The next letter begins the line again: progress bars are written over themselves.
    returned: bool,
}

impl Tail {
    /// Takes what the job wrote next, cut anywhere.
    #[expect(clippy::match_same_arms, reason = "the order of the arms is the order of the rules")]
    pub fn push(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            self.escape = match (self.escape, byte) {
                (Escape::Begun, b'[') => Escape::Control,
                (Escape::Begun, b']' | b'P' | b'X' | b'^' | b'_') => Escape::Message,
                // The intermediate letters of a short sequence, such as a choice of character set.
                (Escape::Begun, 0x20..=0x2f) => Escape::Begun,
                (Escape::Control, 0x20..=0x3f) => Escape::Control,
                (Escape::Begun | Escape::Control, 0x30..=0x7e) => Escape::Text,
                (Escape::Message, 0x1b) => Escape::MessageEnding,
                (Escape::Message, 0x07) | (Escape::MessageEnding, b'\\') => Escape::Text,
                // A title that is never ended must not swallow the log.
                (Escape::Message | Escape::MessageEnding, byte) if byte != b'\n' => Escape::Message,
                (_, 0x1b) => Escape::Begun,
                (_, byte) => {
                    self.letter(byte);
                    Escape::Text
                }
            };
        }
    }

    fn letter(&mut self, byte: u8) {
        if byte == b'\n' {
            self.returned = false;
            let line = shown(&self.open);
            self.open.clear();
            if self.finished.len() == LINES_MAX {
                self.finished.pop_front();
            }
            self.finished.push_back(line);
        } else if byte == b'\r' {
            self.returned = true;
        } else {
            if std::mem::take(&mut self.returned) {
                self.open.clear();
            }
            let room = LINE_BYTES_MAX.saturating_sub(self.open.len());
            match byte {
                b'\t' => self.open.extend(std::iter::repeat_n(b' ', (TAB - self.open.len() % TAB).min(room))),
                0x08 => _ = self.open.pop(),
                0..0x20 | 0x7f => {}
                byte if room > 0 => self.open.push(byte),
                _ => {}
            }
        }
    }

    /// The lines, the one being written among them, oldest first.
    pub fn lines(&self) -> impl DoubleEndedIterator<Item = String> + '_ {
        let open = (!self.open.is_empty()).then(|| shown(&self.open));
        self.finished.iter().cloned().chain(open)
    }

    /// Whether nothing was written yet.
    pub fn is_empty(&self) -> bool {
        self.finished.is_empty() && self.open.is_empty()
    }
}

fn shown(line: &[u8]) -> String {
    plain(&String::from_utf8_lossy(line))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(pieces: &[&[u8]]) -> Vec<String> {
        let mut tail = Tail::default();
        for piece in pieces {
            tail.push(piece);
        }
        tail.lines().collect()
    }

    #[test]
    fn a_line_cut_between_two_reads_is_one_line() {
        assert_eq!(lines(&[b"epo", b"ch 1\nepoch", b" 2"]), ["epoch 1", "epoch 2"]);
        assert_eq!(lines(&["naï".as_bytes().split_at(3).0, b"\xafve\n"]), ["naïve"]);
    }

    #[test]
    fn a_progress_bar_is_its_last_state() {
        assert_eq!(lines(&[b" 10%|#    |\r 50%|###  |\r100%|#####|\r\ndone\r\n"]), ["100%|#####|", "done"]);
    }

    #[test]
    fn colours_titles_and_links_are_taken_out_even_when_cut() {
        assert_eq!(
            lines(&[b"\x1b[1;3", b"1mred\x1b[0m \x1b]0;title\x07\x1b]8;;http://x\x1b\\link\x1b]8;;\x1b\\\x1b(B\n"]),
            ["red link"]
        );
        assert_eq!(lines(&[b"\x1b]0;never ended\nnext"]), ["", "next"]);
    }

    #[test]
    fn other_control_characters_are_taken_out() {
        assert_eq!(lines(&[b"a\x07b\x00c\x08d\x7f\te\n"]), ["abd     e"]);
        let nasty = lines(&["csi \u{9b}31m and \u{202e}backwards\n".as_bytes()]);
        assert_eq!(nasty, ["csi \u{fffd}31m and \u{fffd}backwards"]);
    }

    #[test]
    fn a_log_of_any_length_is_bounded() {
        let mut tail = Tail::default();
        tail.push(&vec![b'x'; 3 * LINE_BYTES_MAX]);
        tail.push(&b"\n".repeat(2 * LINES_MAX));
        tail.push(b"last\n");
        assert_eq!((tail.lines().count(), tail.lines().last().unwrap()), (LINES_MAX, "last".to_owned()));
        tail.push(&vec![b'x'; 3 * LINE_BYTES_MAX]);
        assert_eq!(tail.lines().last().unwrap().len(), LINE_BYTES_MAX);
    }
}
