//! Where words go: data to stdout, remarks and progress to stderr, progress on a terminal only.

use anyhow::Context;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use std::io::{self, IsTerminal, Write};
use std::path::Path;

/// Writes data to stdout. A reader that went away is an error like any other, so that work stops.
pub fn print(text: &str) -> anyhow::Result<()> {
    let mut stdout = io::stdout().lock();
    stdout.write_all(text.as_bytes())?;
    if !text.ends_with('\n') {
        stdout.write_all(b"\n")?;
    }
    Ok(stdout.flush()?)
}

/// Writes a remark to stderr. A stderr that is closed is no error.
pub fn remark(text: &str) {
    let _ = writeln!(io::stderr(), "{text}");
}

/// Writes one JSON document to stdout.
pub fn print_json(value: &impl serde::Serialize) -> anyhow::Result<()> {
    // A long list is written as it is made: it is never in memory as a whole.
    let mut out = io::BufWriter::with_capacity(1 << 16, io::stdout().lock());
    serde_json::to_writer_pretty(&mut out, value).map_err(io::Error::from)?;
    out.write_all(b"\n")?;
    Ok(out.flush()?)
}

/// Whether an error says that the reader of our output went away.
pub fn is_closed_pipe(error: &anyhow::Error) -> bool {
    let broken = |cause: &(dyn std::error::Error + 'static)| {
        cause.downcast_ref::<io::Error>().is_some_and(|error| error.kind() == io::ErrorKind::BrokenPipe)
    };
    error.chain().any(broken)
}

/// A progress bar on stderr, hidden where stderr is no terminal.
pub fn progress(total: u64, unit: &str) -> ProgressBar {
    let target = if io::stderr().is_terminal() { ProgressDrawTarget::stderr_with_hz(10) } else { ProgressDrawTarget::hidden() };
    let template = format!("{{msg:24!}} {{wide_bar}} {{human_pos}}/{{human_len}} {unit}, {{eta}} left");
    let style = ProgressStyle::with_template(&template).unwrap_or_else(|_| ProgressStyle::default_bar());
    ProgressBar::with_draw_target(Some(total), target).with_style(style)
}

/// The width to draw in: the terminal's, or 100 columns where there is none.
pub fn width() -> usize {
    let columns = std::env::var("COLUMNS").ok().and_then(|columns| columns.parse().ok());
    columns.or_else(terminal_width).unwrap_or(100).clamp(40, 200)
}

/// The width of tables: the terminal's. What goes to a file or another program is never cut.
pub fn table_width() -> usize {
    terminal_width().map_or(usize::MAX, |width| width.max(40))
}

fn terminal_width() -> Option<usize> {
    if !io::stdout().is_terminal() {
        return None;
    }
    crossterm::terminal::size().ok().map(|(columns, _)| usize::from(columns)).filter(|columns| *columns > 0)
}

/// Makes a directory and proves that it can be written, before any long work is done for it.
pub fn make_directory(path: &Path) -> anyhow::Result<()> {
    let cannot = || format!("cannot write to the folder `{}`; name another with --out", path.display());
    std::fs::create_dir_all(path).with_context(cannot)?;
    let probe = path.join(".rota-write-probe");
    std::fs::write(&probe, b"").with_context(cannot)?;
    std::fs::remove_file(&probe).with_context(cannot)
}

/// Writes a file whole or not at all: under a temporary name first.
pub fn write_file(path: &Path, write: impl FnOnce(&mut dyn Write) -> anyhow::Result<()>) -> anyhow::Result<()> {
    let cannot = || format!("cannot write `{}`", path.display());
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(".partial");
    let partial = path.with_file_name(name);
    let file = std::fs::File::create(&partial).with_context(cannot)?;
    let mut buffered = io::BufWriter::new(file);
    let written = write(&mut buffered).and_then(|()| Ok(buffered.flush()?));
    let finished = written.and_then(|()| Ok(std::fs::rename(&partial, path)?));
    if finished.is_err() {
        let _ = std::fs::remove_file(&partial);
    }
    finished.with_context(cannot)
}
