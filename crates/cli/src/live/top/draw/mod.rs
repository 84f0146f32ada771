//! Draws the dashboard: from what [`App`] knows to what a terminal shows, at any size.

mod gpus;
mod looks;
mod queue;
#[cfg(test)]
mod tests;

use super::app::{App, Link, Page};
use super::pages;
use super::words::{age, fit, job_name, plain, width};
use looks::Looks;
use ratatui::Frame;
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::Style;
use ratatui::text::{Line, Span};

/// Rows of the overview, from the top; together they fill the screen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Rows {
    header: u16,
    warning: u16,
    gpus: u16,
    queue: u16,
    log: u16,
    footer: u16,
}

impl Rows {
    /// Divides the screen: GPUs get at most half, the queue what it needs up to three fifths of the rest, the log what is left.
    fn of(app: &App, height: u16) -> Self {
        let header = 1.min(height);
        let footer = u16::from(height > 1);
        let warning = u16::from(height > 5 && !app.status.warnings.is_empty());
        let rest = height - header - footer - warning;
        let gpu_rows = u16::try_from(app.status.gpus.len()).unwrap_or(u16::MAX).saturating_add(1);
        let gpus = if app.status.gpus.is_empty() { 0 } else { gpu_rows.min(rest / 2) };
        let rest = rest - gpus;
        let jobs = u16::try_from(app.jobs.len()).unwrap_or(u16::MAX).saturating_add(1);
        let queue = if rest >= 8 { jobs.clamp(3, rest * 3 / 5) } else { rest };
        Self { header, warning, gpus, queue, log: rest - queue, footer }
    }
}

/// Draws the whole screen.
pub fn screen(app: &App, frame: &mut Frame) {
    let area = frame.area();
    let looks = Looks::of(app);
    let mut canvas = Canvas { buffer: frame.buffer_mut(), area, row: 0 };
    if app.page == Page::Overview {
        let rows = Rows::of(app, area.height);
        canvas.lines(rows.header, [header(app, looks, area.width)]);
        canvas.lines(rows.warning, [warning(app, looks, area.width)]);
        canvas.lines(rows.gpus, gpus::table(app, looks, area.width, rows.gpus));
        canvas.lines(rows.queue, queue::table(app, looks, area.width, rows.queue));
        canvas.lines(rows.log, log(app, looks, area.width, rows.log));
        canvas.lines(rows.footer, [footer(app, looks, area.width)]);
    } else {
        canvas.lines(1, [header(app, looks, area.width)]);
        canvas.lines(1, [rule(&pages::title(app), looks, area.width)]);
        let height = area.height.saturating_sub(3);
        canvas.lines(height, page(app, looks, usize::from(height)));
        canvas.lines(1, [footer(app, looks, area.width)]);
    }
    scrub(frame.buffer_mut());
}

/// Where the next rows go.
struct Canvas<'a> {
    buffer: &'a mut Buffer,
    area: Rect,
    row: u16,
}

impl Canvas<'_> {
    /// Puts lines into the next so many rows; what is too much is left out.
    fn lines<'line>(&mut self, rows: u16, lines: impl IntoIterator<Item = Line<'line>>) {
        let end = self.row.saturating_add(rows);
        for (row, line) in (self.row..end.min(self.area.height)).zip(lines) {
            let place = Rect::new(self.area.x, self.area.y + row, self.area.width, 1);
            self.buffer.set_style(place, line.style);
            self.buffer.set_line(place.x, place.y, &line, place.width);
        }
        self.row = end;
    }
}

/// The last guard: whatever a text went through, nothing but printable letters leaves for the terminal.
fn scrub(buffer: &mut Buffer) {
    for cell in &mut buffer.content {
        let symbol = cell.symbol();
        let safe = plain(symbol);
        if safe != symbol {
            cell.set_symbol("\u{fffd}");
        }
    }
}

fn header(app: &App, looks: Looks, columns: u16) -> Line<'static> {
    let columns = usize::from(columns);
    if let Link::Gone(since, why) = &app.link {
        let text = format!(
            " the daemon is gone since {}, trying again; below is the last it said: {}",
            age(app.now, &since.to_string()),
            plain(why)
        );
        return Line::from(fit(&text, columns)).style(looks.alert());
    }
    let status = &app.status;
    let draining = if status.draining { " · draining: nothing is started" } else { "" };
    let (running, waiting, held) = (status.running, status.waiting, status.held);
    let has_virtual = status.gpus.iter().any(gpus::is_virtual);
    let (badge, short_badge) = if has_virtual { (" · virtual GPUs", "virtual · ") } else { ("", "") };
    let full =
        format!(" rota{badge} · {} · {running} running · {waiting} waiting · {held} held{draining}", plain(&status.policy));
    let short = format!(" {short_badge}{running} running {waiting} waiting {held} held{draining}");
    let left = fit(if width(&full) <= columns { &full } else { &short }, columns);
    let room = columns.saturating_sub(width(&left) + 2);
    let dir = plain(&status.state_dir);
    let right = if width(&dir) <= room { dir } else { String::new() };
    let gap = columns.saturating_sub(width(&left) + width(&right) + 1);
    Line::from(format!("{left}{}{right}", " ".repeat(gap))).style(looks.bar())
}

fn warning(app: &App, looks: Looks, columns: u16) -> Line<'static> {
    let more = match app.status.warnings.len() {
        0 | 1 => String::new(),
        count => format!("({count} warnings, g shows all) "),
    };
    let first = app.status.warnings.first().map_or_else(String::new, |warning| plain(warning));
    Line::from(fit(&format!("! {more}{first}"), usize::from(columns))).style(looks.warning())
}

/// A title in a line across the screen.
fn rule(title: &str, looks: Looks, columns: u16) -> Line<'static> {
    let title = fit(&format!("── {title} "), usize::from(columns));
    let missing = usize::from(columns).saturating_sub(width(&title));
    Line::from(title + &"─".repeat(missing)).style(looks.heading())
}

/// The end of the selected job's log, as much as fits.
fn log(app: &App, looks: Looks, columns: u16, rows: u16) -> Vec<Line<'static>> {
    let Some(job) = app.selected_job() else { return Vec::new() };
    let mut lines = vec![rule(&format!("log of job {} · {}", job.id, job_name(job)), looks, columns)];
    if let Some(why) = pages::silence(app) {
        lines.push(Line::from(fit(&plain(&why), usize::from(columns))).style(looks.dim()));
        return lines;
    }
    let mut last = app.log.tail.lines().rev().take(usize::from(rows).saturating_sub(1)).collect::<Vec<_>>();
    last.reverse();
    lines.extend(last.into_iter().map(|line| Line::from(fit(&line, usize::from(columns)))));
    lines
}

/// The part of a page that is in sight.
fn page(app: &App, looks: Looks, height: usize) -> Vec<Line<'static>> {
    let rows = pages::rows(app);
    let last = rows.len().saturating_sub(height);
    let scroll = app.scroll.min(last);
    let first = if app.page == Page::Log { last - scroll } else { scroll };
    rows.into_iter().skip(first).take(height).map(|row| Line::from(row.text).style(looks.tone(row.tone))).collect()
}

/// The keys; or a question, or what came of the last action.
fn footer(app: &App, looks: Looks, columns: u16) -> Line<'static> {
    let columns = usize::from(columns);
    if let Some(question) = app.question {
        let named = app.jobs.iter().find(|job| job.id == question.job);
        let named = named.map_or_else(String::new, |job| format!(" · {} of {}", job_name(job), plain(&job.user)));
        let what = match question.group {
            Some(fold) => format!("group:{} ({} jobs)", fold.group, fold.jobs),
            None => format!("job {}", question.job),
        };
        let text = format!(" {} {what}? y/n{named}", question.verb.word());
        return Line::from(fit(&text, columns)).style(looks.question());
    }
    if app.arrangement.is_typing {
        let text = format!(" find: {}▏  enter keeps it, esc shows all", plain(&app.arrangement.text));
        return Line::from(fit(&text, columns)).style(looks.question());
    }
    if let Some(notice) = app.notice() {
        let style = if notice.is_refusal { looks.alert() } else { looks.good() };
        return Line::from(fit(&format!(" {}", plain(&notice.text)), columns)).style(style);
    }
    let keys: &[(&str, &str)] = match app.page {
        Page::Overview => &[
            ("?", "help"),
            ("q", "quit"),
            ("⏎", "why"),
            ("l", "log"),
            ("c", "cancel"),
            ("h", "hold"),
            ("r", "free"),
            ("/", "find"),
            ("s", "sort"),
            ("x", "fold"),
            ("g", "GPUs"),
            ("+-", "priority"),
        ],
        Page::Job => &[("q", "back"), ("↑↓", "scroll"), ("l", "log"), ("c", "cancel"), ("h", "hold"), ("r", "release")],
        Page::Log => &[("q", "back"), ("↑↓", "scroll"), ("End", "follow"), ("⏎", "why"), ("c", "cancel")],
        Page::Gpus | Page::Help => &[("q", "back"), ("↑↓", "scroll")],
    };
    keys_line(keys, looks, columns)
}

/// As many keys as fit, the first ones first.
fn keys_line(keys: &[(&str, &str)], looks: Looks, columns: usize) -> Line<'static> {
    let mut spans = Vec::new();
    let mut taken = 0;
    for (key, meaning) in keys {
        let needed = 1 + width(key) + 1 + width(meaning) + 1;
        if taken + needed > columns {
            break;
        }
        taken += needed;
        spans.push(Span::styled(format!(" {key}"), looks.heading()));
        spans.push(Span::styled(format!(" {meaning} "), Style::new()));
    }
    Line::from(spans)
}
