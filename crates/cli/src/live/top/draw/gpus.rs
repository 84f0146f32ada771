//! The GPUs, one row each: memory by job, how busy now and lately, and the jobs and strangers on it.

use super::looks::Looks;
use crate::live::machine::gpu_state;
use crate::live::top::app::App;
use crate::live::top::history::span_seconds;
use crate::live::top::tenants::{Tenant, tenants};
use crate::live::top::words::{fit, memory, pad, pad_left, plain, short_time};
use ratatui::text::{Line, Span};
use rota_daemon::api::Gpu;

/// Eighths of a cell, from the bottom.
const SPARKS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
/// Columns of `300W 65C`.
const POWER: usize = 8;

/// Columns of each part; none where there is no room for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Columns {
    kind: usize,
    /// The word that marks virtual GPUs.
    badge: &'static str,
    state: usize,
    memory_bar: usize,
    busy_bar: usize,
    spark: usize,
    power: usize,
    who: usize,
}

/// Index, memory in numbers and how busy in percent have their columns everywhere.
const INDEX: usize = 2;
const MEMORY: usize = 8;
const BUSY: usize = 4;

impl Columns {
    fn of(width: usize, has_virtual: bool) -> Self {
        let mut columns = match width {
            0..30 => Self { kind: 0, badge: "", state: 0, memory_bar: 0, busy_bar: 0, spark: 0, power: 0, who: 0 },
            30..60 => Self { kind: 6, badge: "", state: 0, memory_bar: 6, busy_bar: 0, spark: 0, power: 0, who: 0 },
            60..76 => Self { kind: 6, badge: "", state: 8, memory_bar: 6, busy_bar: 0, spark: 8, power: 0, who: 0 },
            76..110 => Self { kind: 6, badge: "", state: 8, memory_bar: 8, busy_bar: 6, spark: 10, power: 0, who: 0 },
            _ => Self { kind: 8, badge: "", state: 8, memory_bar: 12, busy_bar: 8, spark: 18, power: POWER, who: 0 },
        };
        if has_virtual {
            columns.badge = match width {
                0..60 => "",
                60..110 => "virt",
                _ => "virtual",
            };
        }
        // Each column that is there has a blank before it.
        let taken = |columns: Self| {
            let kind = [columns.kind, columns.badge.len(), columns.state];
            let bars = [columns.memory_bar, columns.busy_bar, columns.spark, columns.power];
            let optional = kind.iter().chain(&bars);
            INDEX + 1 + MEMORY + 1 + BUSY + optional.map(|part| part + usize::from(*part > 0)).sum::<usize>()
        };
        let extra = width.saturating_sub(taken(columns) + 24).min(96);
        if width >= 76 {
            columns.spark += extra / 4;
            columns.memory_bar += extra / 8;
            columns.busy_bar += extra / 8;
        }
        columns.who = width.saturating_sub(taken(columns) + 1);
        columns
    }
}

/// The table in so many rows, its head among them.
pub fn table(app: &App, looks: Looks, width: u16, rows: u16) -> Vec<Line<'static>> {
    if rows == 0 {
        return Vec::new();
    }
    let columns = Columns::of(usize::from(width), app.status.gpus.iter().any(is_virtual));
    let gpus = &app.status.gpus;
    let room = usize::from(rows) - 1;
    let shown = if gpus.len() > room { room.saturating_sub(1) } else { gpus.len() };
    let mut lines = vec![head(app, columns).style(looks.heading())];
    lines.extend(gpus.iter().take(shown).map(|gpu| row(app, gpu, looks, columns)));
    if shown < gpus.len() {
        lines.push(
            Line::from(fit(&format!("{} more GPUs: g shows all", gpus.len() - shown), usize::from(width))).style(looks.dim()),
        );
    }
    lines
}

/// Whether the GPU computes nothing, and its use and power are modelled.
pub fn is_virtual(gpu: &Gpu) -> bool {
    rota_gpu::is_virtual_name(&gpu.name)
}

fn head(app: &App, columns: Columns) -> Line<'static> {
    let span = format!("LAST {}", short_time(span_seconds(columns.spark, app.interval_seconds)));
    let memory = if columns.memory_bar > 0 { columns.memory_bar + 1 + MEMORY } else { MEMORY };
    let busy = if columns.busy_bar > 0 { columns.busy_bar + 1 + BUSY } else { BUSY };
    let parts = [
        (pad_left("#", INDEX), INDEX),
        (pad("TYPE", columns.kind), columns.kind),
        (" ".repeat(columns.badge.len()), columns.badge.len()),
        (pad("STATE", columns.state), columns.state),
        (pad("MEMORY", memory), memory),
        (pad("BUSY", busy), busy),
        (pad(&span, columns.spark), columns.spark),
        (pad("POWER", columns.power), columns.power),
        (pad("WHO", columns.who), columns.who),
    ];
    Line::from(parts.into_iter().filter(|(_, width)| *width > 0).map(|(text, _)| text).collect::<Vec<_>>().join(" "))
}

fn row(app: &App, gpu: &Gpu, looks: Looks, columns: Columns) -> Line<'static> {
    let tenants = tenants(gpu);
    let mut spans = vec![Span::raw(pad_left(&gpu.index.to_string(), INDEX))];
    let mut add = |width: usize, parts: Vec<Span<'static>>| {
        if width > 0 {
            spans.push(Span::raw(" "));
            spans.extend(parts);
        }
    };
    add(columns.kind, vec![Span::raw(pad(&plain(&gpu.kind), columns.kind))]);
    let badge = if is_virtual(gpu) { columns.badge } else { "" };
    add(columns.badge.len(), vec![Span::styled(pad(badge, columns.badge.len()), looks.badge())]);
    add(columns.state, vec![Span::styled(pad(gpu_state(gpu.state), columns.state), looks.gpu(gpu.state))]);
    add(columns.memory_bar, memory_bar(gpu, &tenants, looks, columns.memory_bar));
    add(MEMORY, vec![Span::raw(pad_left(&memory_words(gpu), MEMORY))]);
    let busy = gpu.utilisation_percent;
    add(columns.busy_bar, vec![Span::styled(bar(busy.unwrap_or(0), columns.busy_bar), looks.busy())]);
    add(BUSY, vec![Span::raw(pad_left(&busy.map_or_else(|| "?".to_owned(), |busy| format!("{busy}%")), BUSY))]);
    add(columns.spark, vec![Span::styled(sparkline(app, gpu, columns.spark), looks.busy())]);
    add(columns.power, vec![Span::raw(pad(&power_words(gpu), columns.power))]);
    let who = tenants.iter().map(Tenant::short).collect::<Vec<_>>().join(" ");
    add(columns.who, vec![Span::raw(fit(&who, columns.who))]);
    Line::from(spans)
}

fn memory_words(gpu: &Gpu) -> String {
    let total = memory(gpu.memory_total_mib);
    let used = gpu.memory_used_mib.map_or_else(|| "?".to_owned(), memory);
    // One unit is enough where both have the same.
    let used = if total.ends_with('G') { used.strip_suffix('G').unwrap_or(&used) } else { &used };
    format!("{used}/{total}")
}

fn power_words(gpu: &Gpu) -> String {
    let watts = gpu.power_watts.map(|watts| format!("{watts:.0}W"));
    let degrees = gpu.temperature_c.map(|degrees| format!("{degrees}C"));
    watts.into_iter().chain(degrees).collect::<Vec<_>>().join(" ")
}

/// The memory of a GPU in parts: jobs, strangers, memory of unknown processes, and free memory.
fn memory_bar(gpu: &Gpu, tenants: &[Tenant], looks: Looks, width: usize) -> Vec<Span<'static>> {
    let total = gpu.memory_total_mib.max(1);
    let cells = |mib: u64| ((mib.min(total) as f64 / total as f64) * width as f64).round() as usize;
    let mut spans = Vec::new();
    let mut sum = 0;
    let mut drawn = 0;
    let mut add = |mib: u64, sign: &str, style: ratatui::style::Style| {
        sum += mib;
        let end = cells(sum).max(drawn);
        spans.push(Span::styled(sign.repeat(end - drawn), style));
        drawn = end;
    };
    for (place, tenant) in tenants.iter().enumerate() {
        let mib = tenant.memory_mib.unwrap_or(0);
        match tenant.job {
            Some(job) => add(mib, if place % 2 == 0 { "█" } else { "▓" }, looks.job(job)),
            None => add(mib, "▒", looks.stranger()),
        }
    }
    let owned = tenants.iter().filter_map(|tenant| tenant.memory_mib).sum::<u64>();
    add(gpu.memory_used_mib.unwrap_or(0).saturating_sub(owned), "░", looks.dim());
    spans.push(Span::styled("·".repeat(width - drawn), looks.dim()));
    spans
}

/// A bar of whole cells; anything above nothing is seen.
fn bar(percent: u32, width: usize) -> String {
    let full = (f64::from(percent.min(100)) / 100.0 * width as f64).round() as usize;
    let full = if percent > 0 { full.max(1) } else { 0 }.min(width);
    "█".repeat(full) + &"·".repeat(width - full)
}

fn sparkline(app: &App, gpu: &Gpu, width: usize) -> String {
    let cells = app.history.get(&gpu.uuid).map(|history| history.cells(app.now.as_second(), width, app.interval_seconds));
    let spark =
        |busy: Option<u32>| busy.map_or(' ', |busy| SPARKS[(busy.min(100) as usize * SPARKS.len() / 101).min(SPARKS.len() - 1)]);
    cells.map_or_else(|| " ".repeat(width), |cells| cells.into_iter().map(spark).collect())
}
