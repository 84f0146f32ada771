//! The queue, one row a job: state, owner, GPUs, age, name and the reason it waits or ended for.

use super::looks::Looks;
use crate::live::text::with_local_times;
use crate::live::top::app::App;
use crate::live::top::arrange::Sort;
use crate::live::top::words::{fit, job_age, job_gpus, job_name, pad, pad_left, plain, width as width_of};
use ratatui::style::Style;
use ratatui::text::{Line, Span};
use rota_daemon::api::Job;

/// Columns of each part; none where there is no room for it.
#[derive(Clone, Copy, Debug)]
struct Columns {
    id: usize,
    user: usize,
    gpus: usize,
    name: usize,
    why: usize,
}

const STATE: usize = 9;
const AGE: usize = 4;

impl Columns {
    fn of(app: &App, width: usize) -> Self {
        let widest = |text: fn(&Job) -> String, least: usize, most: usize| {
            app.jobs.iter().map(|job| width_of(&text(job))).max().unwrap_or(0).clamp(least, most.max(least))
        };
        let id = widest(|job| job.id.to_string(), 3, 10);
        let (user, gpus) = match width {
            0..60 => (0, 0),
            60..110 => (widest(|job| plain(&job.user), 4, 8), widest(job_gpus, 4, 7)),
            _ => (widest(|job| plain(&job.user), 5, 16), widest(job_gpus, 4, 16)),
        };
        let taken = 1 + id + 1 + STATE + 1 + AGE + [user, gpus].iter().map(|part| part + usize::from(*part > 0)).sum::<usize>();
        let left = width.saturating_sub(taken);
        let name = widest(job_name, 4, (left * 2 / 5).max(12)).min(left.saturating_sub(1));
        Self { id, user, gpus, name, why: left.saturating_sub(name + 2) }
    }
}

/// The table in so many rows, its head among them; the selected job is always in sight.
pub fn table(app: &App, looks: Looks, width: u16, rows: u16) -> Vec<Line<'static>> {
    if rows == 0 {
        return Vec::new();
    }
    let width = usize::from(width);
    if app.jobs.is_empty() {
        let head = Line::from("QUEUE").style(looks.heading());
        let hint = if app.arrangement.text.is_empty() {
            "nothing waits or runs: give it something with `rota submit COMMAND`".to_owned()
        } else {
            format!("no job has “{}” in its number, name, user or state: esc shows all", plain(&app.arrangement.text))
        };
        return vec![head, Line::from(fit(&hint, width)).style(looks.dim())];
    }
    let columns = Columns::of(app, width);
    let room = usize::from(rows) - 1;
    let selected = app.selected_place().unwrap_or(0);
    let last = app.jobs.len().saturating_sub(room);
    let first = selected.saturating_sub(room / 2).min(last);
    let mut why = match app.left_out() {
        0 => "WHY".to_owned(),
        count => format!("WHY ({count} more wait)"),
    };
    if app.arrangement.sort != Sort::default() {
        why = format!("{why} · by {}", app.arrangement.sort.word());
    }
    if !app.arrangement.text.is_empty() {
        why = format!("{why} · with “{}”", plain(&app.arrangement.text));
    }
    let head = ["ID", "STATE", "USER", "GPUS", "AGE", "NAME", &why].map(str::to_owned);
    let mut lines = vec![Line::from(spans(" ", head, columns, Style::new())).style(looks.heading())];
    for (place, job) in app.jobs.iter().enumerate().skip(first).take(room) {
        let cells = [
            job.id.to_string(),
            job.state.word().to_owned(),
            plain(&job.user),
            job_gpus(job),
            job_age(app.now, job),
            job_name(job),
            plain(&with_local_times(job.reason.as_deref().unwrap_or_default())),
        ];
        let mark = if place == selected { ">" } else { " " };
        let line = Line::from(spans(mark, cells, columns, looks.state(job.state)));
        lines.push(if place == selected { line.style(looks.selected()) } else { line });
    }
    lines
}

fn spans(mark: &str, cells: [String; 7], columns: Columns, state_style: Style) -> Vec<Span<'static>> {
    let [id, state, user, gpus, age, name, why] = cells;
    let optional = |text: &str, width: usize| if width > 0 { format!("{} ", pad(text, width)) } else { String::new() };
    vec![
        Span::raw(format!("{mark}{} ", pad_left(&id, columns.id))),
        Span::styled(pad(&state, STATE), state_style),
        Span::raw(" "),
        Span::raw(optional(&user, columns.user)),
        Span::raw(optional(&gpus, columns.gpus)),
        Span::raw(pad_left(&age, AGE)),
        Span::raw(format!(" {} ", pad(&name, columns.name))),
        Span::raw(fit(&why, columns.why)),
    ]
}
