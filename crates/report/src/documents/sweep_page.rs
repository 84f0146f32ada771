//! The report of a sweep: one HTML file with its verdicts, a table of policies that can be sorted, and all its pictures.

use crate::files::{Folder, ReportError};
use crate::page::fill;
use crate::plot::lines::{LineChart, lines_chart};
use crate::plot::sweep_cdf::{Distribution, fairness_distribution, jct_distributions};
use crate::svg::escape;
use crate::units::duration;
use std::fmt::Write;
use std::path::Path;

const TEMPLATE: &str = include_str!("../../assets/sweep.html");
const STYLE: &str = include_str!("../../assets/report.css");
const SCRIPT: &str = include_str!("../../assets/sweep.js");

/// The report of a sweep.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SweepPage {
    /// What was swept, in a few words.
    pub title: String,
    /// The size of the sweep, in a line.
    pub subtitle: String,
    /// A sentence for each cluster and load: which policy was best, and by how much.
    pub verdicts: Vec<String>,
    /// The names of the columns of the table, after that of the policy.
    pub columns: Vec<String>,
    /// The rows: a policy, and its time in seconds in each column, where there is one.
    pub rows: Vec<(String, Vec<Option<f64>>)>,
    /// The pictures, in order.
    pub parts: Vec<SweepPart>,
}

/// One picture of a sweep.
#[derive(Clone, Debug, PartialEq)]
pub enum SweepPart {
    /// A time against the load.
    Lines(LineChart),
    /// The distributions of completion times and fairness at one load, which is named.
    Distributions(String, Vec<Distribution>),
}

/// Writes the report of a sweep as `report.html`.
pub fn write_sweep_page(directory: &Path, page: &SweepPage) -> Result<(), ReportError> {
    let mut written = Vec::new();
    Folder::open(directory, &mut written)?.write("report.html", html(page).as_bytes())
}

fn html(page: &SweepPage) -> String {
    let mut verdicts = String::new();
    for verdict in &page.verdicts {
        let _ = write!(verdicts, "<p class=\"verdict\">{}</p>", escape(verdict));
    }
    let parts = [
        ("{{title}}", escape(&page.title)),
        ("{{subtitle}}", escape(&page.subtitle)),
        ("{{style}}", STYLE.to_owned()),
        ("{{verdicts}}", verdicts),
        ("{{table}}", table(page)),
        ("{{parts}}", page.parts.iter().map(picture).collect()),
        ("{{script}}", SCRIPT.to_owned()),
    ];
    fill(TEMPLATE, &parts)
}

fn picture(part: &SweepPart) -> String {
    match part {
        SweepPart::Lines(chart) => framed(&chart.title, &lines_chart(chart)),
        SweepPart::Distributions(setting, lines) => {
            let times = format!("Completion times on {setting}");
            let fairness = format!("Finish-time fairness on {setting}");
            framed(&times, &jct_distributions(&times, lines)) + &framed(&fairness, &fairness_distribution(&fairness, lines))
        }
    }
}

fn framed(name: &str, svg: &str) -> String {
    format!("<div class=\"picture\" role=\"group\" aria-label=\"{}\" tabindex=\"0\">{svg}</div>\n", escape(name))
}

/// The table: a row for each policy, in each column the lowest value marked unless another looks the same.
fn table(page: &SweepPage) -> String {
    let heading =
        |name: &str| format!("<th scope=\"col\" aria-sort=\"none\"><button type=\"button\">{}</button></th>", escape(name));
    let mut text = format!("<table><thead><tr>{}", heading("policy"));
    text.extend(page.columns.iter().map(|name| heading(name)));
    text.push_str("</tr></thead><tbody>");
    let best = (0..page.columns.len()).map(|column| best_of(page, column)).collect::<Vec<_>>();
    for (position, (policy, values)) in page.rows.iter().enumerate() {
        let _ = write!(text, "<tr><th scope=\"row\">{}</th>", escape(policy));
        for (value, best) in values.iter().zip(&best) {
            let class = if *best == Some(position) { " class=\"best\"" } else { "" };
            let _ = match value {
                Some(seconds) => write!(text, "<td data-value=\"{seconds}\"{class}>{}</td>", escape(&duration(*seconds))),
                None => write!(text, "<td data-value=\"1e300\">–</td>"),
            };
        }
        text.push_str("</tr>");
    }
    text + "</tbody></table>"
}

fn best_of(page: &SweepPage, column: usize) -> Option<usize> {
    let value = |(position, row): (usize, &(String, Vec<Option<f64>>))| Some((position, (*row.1.get(column)?)?));
    let mut values = page.rows.iter().enumerate().filter_map(value).collect::<Vec<_>>();
    values.sort_by(|a, b| a.1.total_cmp(&b.1));
    match values[..] {
        [(position, best), (_, second), ..] if duration(best) != duration(second) => Some(position),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plot::lines::{Line, LinePoint};

    #[test]
    fn one_page_has_verdicts_a_table_and_labelled_pictures() {
        let line = |name: &str| Line { name: name.to_owned(), points: vec![LinePoint::over(1.0, &[10.0])] };
        let chart = LineChart {
            title: "Mean JCT".to_owned(),
            x_name: "jobs an hour".to_owned(),
            y_name: "mean JCT".to_owned(),
            lines: vec![line("<fcfs>"), line("sjf")],
        };
        let page = SweepPage {
            title: "2 policies".to_owned(),
            verdicts: vec!["sjf: 50 % lower".to_owned()],
            columns: vec!["at 1".to_owned(), "at 2".to_owned()],
            rows: vec![("<fcfs>".to_owned(), vec![Some(20.0), Some(5.0)]), ("sjf".to_owned(), vec![Some(10.0), Some(5.0001)])],
            parts: vec![SweepPart::Lines(chart)],
            ..SweepPage::default()
        };
        let text = html(&page);
        for part in ["sjf: 50 % lower", "jobs an hour", "mean JCT (s)", "&lt;fcfs&gt;", "class=\"best\">10.0 s"] {
            assert!(text.contains(part), "{part} is missing");
        }
        // The second column is a tie.
        assert_eq!(text.matches("class=\"best\"").count(), 1);
        assert!(!text.contains("<fcfs>"));
    }
}
