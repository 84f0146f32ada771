//! Tables for the terminal: metrics down, policies across, the best value of a row marked.

use crate::metric::{Better, METRICS};
use crate::summary::Summary;
use std::fmt::Write;

const MARK: char = '*';

/// Several runs side by side, in as many tables as it takes for each to be at most `width_max` wide.
pub fn comparison_table(summaries: &[Summary], width_max: usize) -> String {
    let heads = summaries.iter().map(|summary| summary.policy.clone()).collect::<Vec<_>>();
    let mut rows = Vec::new();
    for metric in &METRICS {
        let best = metric.best(summaries);
        let cells = summaries
            .iter()
            .enumerate()
            .map(|(position, summary)| format!("{}{}", metric.show(summary), if best == Some(position) { MARK } else { ' ' }));
        let arrow = match metric.better {
            Better::Lower => "↓",
            Better::Higher => "↑",
            Better::Neither => " ",
        };
        rows.push((format!("{} {arrow}", metric.label), cells.collect::<Vec<_>>()));
    }
    let mut text = String::new();
    let mut from = 0;
    while from < heads.len() {
        let fits = |until: &usize| table_width(&heads[from..*until], &part(&rows, from, *until)) <= width_max;
        let until = (from + 2..=heads.len()).take_while(fits).last().unwrap_or(from + 1);
        text.push_str(&render(&heads[from..until], &part(&rows, from, until)));
        from = until;
        if from < heads.len() {
            text.push('\n');
        }
    }
    if summaries.len() > 1 {
        text.push_str("↓ less is better, ↑ more is better, * best\n");
    }
    text
}

/// A table of the summary of one run.
pub fn summary_table(summary: &Summary) -> String {
    let rows = METRICS.iter().map(|metric| (metric.label.to_owned(), vec![metric.show(summary)])).collect::<Vec<_>>();
    render(std::slice::from_ref(&summary.policy), &rows)
}

/// The rows with the cells of some columns only.
fn part(rows: &[(String, Vec<String>)], from: usize, until: usize) -> Vec<(String, Vec<String>)> {
    rows.iter().map(|(label, cells)| (label.clone(), cells[from..until].to_vec())).collect()
}

fn table_width(heads: &[String], rows: &[(String, Vec<String>)]) -> usize {
    render(heads, rows).lines().map(width).max().unwrap_or(0)
}

fn width(text: &str) -> usize {
    text.chars().count()
}

fn render(heads: &[String], rows: &[(String, Vec<String>)]) -> String {
    let label_width = rows.iter().map(|(label, _)| width(label)).max().unwrap_or(0);
    let cell_width = |column: usize| rows.iter().map(|(_, cells)| width(&cells[column])).max().unwrap_or(0);
    let widths = heads.iter().enumerate().map(|(column, head)| width(head).max(cell_width(column))).collect::<Vec<_>>();
    let line = |label: &str, cells: &[String]| {
        let mut line = format!("{label:<label_width$}");
        for (cell, width) in cells.iter().zip(&widths) {
            let _ = write!(line, "  {cell:>width$}");
        }
        format!("{}\n", line.trim_end())
    };
    let rule = label_width + widths.iter().map(|width| width + 2).sum::<usize>();
    let mut text = line("", heads);
    let _ = writeln!(text, "{}", "─".repeat(rule));
    for (label, cells) in rows {
        text.push_str(&line(label, cells));
    }
    text
}
