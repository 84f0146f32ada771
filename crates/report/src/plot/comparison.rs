//! Policies against each other: one small bar chart a metric, the same order and colours in each.

use super::WIDTH;
use crate::metric::{Better, METRICS, Metric};
use crate::palette::{policy_colour, tint};
use crate::summary::Summary;
use crate::svg::{Frame, INK, MUTED, Style, Svg};
use crate::units::plural;
use rota_core::Bound;

const COLUMNS: usize = 4;
const BAR: f64 = 20.0;

pub(crate) fn comparison(summaries: &[Summary], bound: &Bound) -> String {
    let mut svg = Svg::new(WIDTH);
    let setting = format!(
        "{} on {}; the best of each in bold; bars start at zero",
        plural(bound.jobs.len(), "job"),
        bound.cluster.describe()
    );
    let top = svg.head(&format!("{} compared", plural(summaries.len(), "policy").replace("policys", "policies")), &setting);
    let known = |metric: &&Metric| metric.charted && summaries.iter().any(|summary| (metric.value)(summary).is_some());
    let metrics = METRICS.iter().filter(known).collect::<Vec<_>>();
    let gutter = 28.0;
    let width = (WIDTH - 48.0 - gutter * (COLUMNS - 1) as f64) / COLUMNS as f64;
    let height = 34.0 + summaries.len() as f64 * BAR + 22.0;
    for (position, metric) in metrics.iter().enumerate() {
        let x = 24.0 + (width + gutter) * (position % COLUMNS) as f64;
        let y = top + 8.0 + height * (position / COLUMNS) as f64;
        draw(&mut svg, Frame { x, y, width, height }, metric, summaries);
    }
    svg.finish(top + 8.0 + height * metrics.len().div_ceil(COLUMNS) as f64 + 8.0)
}

fn draw(svg: &mut Svg, frame: Frame, metric: &Metric, summaries: &[Summary]) {
    let arrow = match metric.better {
        Better::Lower => "less is better",
        Better::Higher => "more is better",
        Better::Neither => "",
    };
    svg.text(frame.x, frame.y + 14.0, Style::HEADING, metric.label);
    let beside = frame.x + Style::HEADING.width(metric.label) + 8.0;
    svg.text(beside, frame.y + 14.0, Style::LABEL.sized(10.0), arrow);
    let style = Style::LABEL.sized(11.0);
    let names_width =
        summaries.iter().map(|summary| style.bold().width(&summary.policy)).fold(0.0, f64::max).min(frame.width * 0.42);
    let values_width = summaries.iter().map(|summary| style.bold().width(&metric.show(summary))).fold(0.0, f64::max);
    let room = (frame.width - names_width - values_width - 16.0).max(10.0);
    let largest = summaries.iter().filter_map(metric.value).fold(0.0, f64::max);
    let best = metric.best(summaries);
    for (position, summary) in summaries.iter().enumerate() {
        let y = frame.y + 26.0 + BAR * position as f64;
        let value = (metric.value)(summary);
        let is_best = best == Some(position);
        let text_style = if is_best { style.bold().coloured(INK) } else { style.coloured(MUTED) };
        svg.text(frame.x, y + 12.0, text_style, &text_style.fitted(&summary.policy, names_width + 2.0));
        let length = if largest > 0.0 { room * value.unwrap_or(0.0) / largest } else { 0.0 };
        let x = frame.x + names_width + 8.0;
        let colour = policy_colour(position);
        let fill = if is_best || best.is_none() { colour.to_owned() } else { tint(colour, 0.62) };
        svg.rect_with(Frame { x, y, width: length.max(0.8), height: BAR - 5.0 }, &fill, r#" rx="1.5""#);
        svg.text(x + length + 5.0, y + 12.0, text_style, &metric.show(summary));
    }
}
