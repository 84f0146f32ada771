//! A small writer of SVG: shapes and text with the house typography, the same bytes for the same picture.

use crate::palette::SeriesLook;
use std::fmt::Write;

/// Fonts by preference; the last one that is sure to be there draws the PNG.
pub(crate) const FONTS: &str = "Inter, 'DejaVu Sans', Helvetica, Arial, sans-serif";

pub(crate) const INK: &str = "#1f2933";
pub(crate) const MUTED: &str = "#5b6875";
pub(crate) const GRID: &str = "#e3e8ee";
pub(crate) const AXIS: &str = "#9aa5b1";

/// Which point of a text its position means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Anchor {
    Start,
    Middle,
    End,
}

/// How a text looks.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Style {
    pub size: f64,
    pub bold: bool,
    pub colour: &'static str,
    pub anchor: Anchor,
}

impl Style {
    pub const TITLE: Self = Self { size: 20.0, bold: true, colour: INK, anchor: Anchor::Start };
    pub const SUBTITLE: Self = Self { size: 12.5, bold: false, colour: MUTED, anchor: Anchor::Start };
    pub const HEADING: Self = Self { size: 13.0, bold: true, colour: INK, anchor: Anchor::Start };
    pub const LABEL: Self = Self { size: 11.0, bold: false, colour: MUTED, anchor: Anchor::Start };

    pub fn anchored(self, anchor: Anchor) -> Self {
        Self { anchor, ..self }
    }

    pub fn coloured(self, colour: &'static str) -> Self {
        Self { colour, ..self }
    }

    pub fn sized(self, size: f64) -> Self {
        Self { size, ..self }
    }

    pub fn bold(self) -> Self {
        Self { bold: true, ..self }
    }

    /// Width of a text, by the widest of the fonts.
    pub fn width(self, text: &str) -> f64 {
        let hundredths = text.chars().map(|character| advance(character) + u32::from(self.bold) * 7).sum::<u32>();
        f64::from(hundredths) / 100.0 * self.size
    }

    /// The text, shortened with an ellipsis where it is wider than `width_max`.
    pub fn fitted(self, text: &str, width_max: f64) -> String {
        if self.width(text) <= width_max {
            return text.to_owned();
        }
        let mut kept = text.to_owned();
        while kept.pop().is_some() {
            let shortened = format!("{}…", kept.trim_end());
            if self.width(&shortened) <= width_max {
                return shortened;
            }
        }
        String::new()
    }
}

/// Advance widths of `DejaVu Sans` from space to tilde, in hundredths of the size; it is the widest of our fonts.
const ADVANCES: [u8; 95] = [
    32, 40, 46, 84, 64, 95, 78, 27, 39, 39, 50, 84, 32, 36, 32, 34, 64, 64, 64, 64, 64, 64, 64, 64, 64, 64, 34, 34, 84, 84, 84,
    53, 100, 68, 69, 70, 77, 63, 58, 77, 75, 29, 29, 66, 56, 86, 75, 79, 60, 79, 69, 63, 61, 73, 68, 99, 69, 61, 69, 39, 34, 39,
    84, 50, 50, 61, 63, 55, 63, 62, 35, 63, 63, 28, 28, 58, 28, 97, 63, 61, 63, 63, 41, 52, 39, 63, 59, 82, 59, 59, 52, 64, 34,
    64, 84,
];

fn advance(character: char) -> u32 {
    let position = (character as usize).wrapping_sub(32);
    ADVANCES.get(position).map_or(100, |&width| u32::from(width))
}

/// A rectangle on the page.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Frame {
    pub x: f64,
    pub y: f64,
    pub width: f64,
    pub height: f64,
}

impl Frame {
    pub fn right(self) -> f64 {
        self.x + self.width
    }

    pub fn bottom(self) -> f64 {
        self.y + self.height
    }
}

/// A number in as few characters as a hundredth of a pixel needs.
pub(crate) fn compact(value: f64) -> String {
    let text = format!("{value:.2}");
    let text = text.trim_end_matches('0').trim_end_matches('.');
    if text == "-0" { "0".to_owned() } else { text.to_owned() }
}

/// Text made safe for SVG and HTML, whatever is in it. Characters that XML forbids are replaced.
pub(crate) fn escape(text: &str) -> String {
    let mut safe = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '&' => safe.push_str("&amp;"),
            '<' => safe.push_str("&lt;"),
            '>' => safe.push_str("&gt;"),
            '"' => safe.push_str("&quot;"),
            '\'' => safe.push_str("&#39;"),
            '\u{FFFE}' | '\u{FFFF}' => safe.push('\u{FFFD}'),
            control if control.is_control() => safe.push(' '),
            other => safe.push(other),
        }
    }
    safe
}

/// A picture being drawn.
pub(crate) struct Svg {
    pub width: f64,
    body: String,
}

impl Svg {
    pub fn new(width: f64) -> Self {
        Self { width, body: String::new() }
    }

    pub fn rect(&mut self, frame: Frame, fill: &str) {
        self.rect_with(frame, fill, "");
    }

    /// A rectangle with further attributes, which must be safe.
    pub fn rect_with(&mut self, frame: Frame, fill: &str, attributes: &str) {
        let (x, y, width, height) = (compact(frame.x), compact(frame.y), compact(frame.width), compact(frame.height));
        let _ = writeln!(self.body, r#"<rect x="{x}" y="{y}" width="{width}" height="{height}" fill="{fill}"{attributes}/>"#);
    }

    pub fn line(&mut self, from: (f64, f64), to: (f64, f64), colour: &str) {
        let (x1, y1, x2, y2) = (compact(from.0), compact(from.1), compact(to.0), compact(to.1));
        let _ = writeln!(self.body, r#"<path d="M{x1} {y1}L{x2} {y2}" stroke="{colour}" fill="none"/>"#);
    }

    /// A path with attributes, which must be safe.
    pub fn path(&mut self, data: &str, attributes: &str) {
        if !data.is_empty() {
            let _ = writeln!(self.body, r#"<path d="{data}" {attributes}/>"#);
        }
    }

    pub fn text(&mut self, x: f64, y: f64, style: Style, text: &str) {
        self.text_with(x, y, style, text, "");
    }

    fn text_with(&mut self, x: f64, y: f64, style: Style, text: &str, attributes: &str) {
        let anchor = match style.anchor {
            Anchor::Start => "",
            Anchor::Middle => r#" text-anchor="middle""#,
            Anchor::End => r#" text-anchor="end""#,
        };
        let weight = if style.bold { r#" font-weight="bold""# } else { "" };
        let (x, y, size, colour) = (compact(x), compact(y), compact(style.size), style.colour);
        let text = escape(text);
        let _ = writeln!(
            self.body,
            r#"<text x="{x}" y="{y}" font-size="{size}" fill="{colour}"{anchor}{weight}{attributes}>{text}</text>"#
        );
    }

    /// Title and subtitle (of one or several lines) at the top left; returns where the rest may begin.
    pub fn head(&mut self, title: &str, subtitle: &str) -> f64 {
        let room = self.width - 48.0;
        self.text(24.0, 36.0, Style::TITLE, &Style::TITLE.fitted(title, room));
        let mut y = 57.0;
        for line in subtitle.lines() {
            self.text(24.0, y, Style::SUBTITLE, &Style::SUBTITLE.fitted(line, room));
            y += 18.0;
        }
        y
    }

    /// Coloured squares with names, in as many lines as needed; returns where the rest may begin.
    pub fn legend(&mut self, y: f64, entries: &[(String, String)]) -> f64 {
        let style = Style::LABEL.sized(12.0).coloured(INK);
        let (mut x, mut y) = (24.0, y);
        if entries.is_empty() {
            return y;
        }
        for (colour, name) in entries {
            let name = style.fitted(name, 240.0);
            let width = style.width(&name) + 36.0;
            if x + width > self.width - 24.0 {
                x = 24.0;
                y += 20.0;
            }
            self.rect_with(Frame { x, y, width: 12.0, height: 12.0 }, colour, r#" rx="2""#);
            self.text(x + 18.0, y + 10.5, style, &name);
            x += width;
        }
        y + 26.0
    }

    /// The lines of a chart with their names, each as it is drawn in the chart; returns where the rest may begin.
    pub fn line_legend(&mut self, y: f64, names: &[&str]) -> f64 {
        let style = Style::LABEL.sized(12.0).coloured(INK);
        let (mut x, mut y) = (24.0, y);
        if names.is_empty() {
            return y;
        }
        for (position, name) in names.iter().enumerate() {
            let name = style.fitted(name, 240.0);
            let width = style.width(&name) + 54.0;
            if x + width > self.width - 24.0 {
                x = 24.0;
                y += 20.0;
            }
            self.path(&format!("M{} {}h26", compact(x), compact(y + 6.0)), &SeriesLook::of(position).stroke(2.0));
            self.text_with(x + 33.0, y + 10.5, style, &name, &format!(r#" class="s{position}""#));
            x += width;
        }
        y + 26.0
    }

    /// Says in the middle of a frame why nothing is drawn there.
    pub fn empty_state(&mut self, frame: Frame, reason: &str) {
        self.rect_with(frame, "#f6f8fa", r#" rx="6""#);
        let style = Style::SUBTITLE.anchored(Anchor::Middle);
        self.text(frame.x + frame.width / 2.0, frame.y + frame.height / 2.0 + 4.0, style, reason);
    }

    /// The finished picture of this height.
    pub fn finish(self, height: f64) -> String {
        let (width, height) = (compact(self.width), compact(height));
        format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width}\" height=\"{height}\" viewBox=\"0 0 {width} {height}\" \
             font-family=\"{FONTS}\">\n<rect width=\"100%\" height=\"100%\" fill=\"#fff\"/>\n{}</svg>\n",
            self.body
        )
    }
}
