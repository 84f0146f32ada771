//! Pictures of learning: a training curve, and means with their intervals.

use rota_learn::train::Point;
use std::fmt::Write as _;

const WIDTH: f64 = 720.0;
const HEIGHT: f64 = 360.0;
const LEFT: f64 = 90.0;
const RIGHT: f64 = 20.0;
const TOP: f64 = 50.0;
const BOTTOM: f64 = 40.0;
/// The height of one player's line.
const LINE: f64 = 28.0;

/// Room between the smallest and the largest value.
struct Scale {
    from: f64,
    to: f64,
    begin: f64,
    end: f64,
}

impl Scale {
    fn new(values: impl Iterator<Item = f64>, begin: f64, end: f64) -> Self {
        let finite = values.filter(|value| value.is_finite());
        let (from, to) = finite.fold((f64::INFINITY, f64::NEG_INFINITY), |(from, to), value| (from.min(value), to.max(value)));
        let (from, to) = if from <= to { (from, to) } else { (0.0, 1.0) };
        let margin = if to > from { (to - from) * 0.05 } else { from.abs() * 0.05 + 1e-9 };
        Self { from: from - margin, to: to + margin, begin, end }
    }

    fn at(&self, value: f64) -> f64 {
        self.begin + (value - self.from) / (self.to - self.from) * (self.end - self.begin)
    }
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

fn head(title: &str, height: f64) -> String {
    format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height}\" font-family=\"sans-serif\" font-size=\"12\">\n\
         <rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n<text x=\"{LEFT}\" y=\"24\" font-size=\"15\">{}</text>\n",
        escaped(title)
    )
}

/// The validation cost against the steps: every checkpoint as a dot, the best so far as a line.
pub fn curve(title: &str, points: &[Point]) -> String {
    let mut svg = head(title, HEIGHT);
    let x = Scale::new(points.iter().map(|point| point.steps as f64), LEFT, WIDTH - RIGHT);
    let y = Scale::new(points.iter().map(|point| point.validation_cost), HEIGHT - BOTTOM, TOP);
    let mut best = f64::INFINITY;
    let mut path = String::new();
    for point in points {
        best = best.min(point.validation_cost);
        let (right, down) = (x.at(point.steps as f64), y.at(best));
        _ = write!(path, "{}{right:.1},{down:.1}", if path.is_empty() { "M" } else { " L" });
        let dot = y.at(point.validation_cost);
        _ = writeln!(svg, "<circle cx=\"{right:.1}\" cy=\"{dot:.1}\" r=\"2\" fill=\"#9aa5b1\"/>");
    }
    _ = writeln!(svg, "<path d=\"{path}\" fill=\"none\" stroke=\"#1f6feb\" stroke-width=\"2\"/>");
    for value in [y.from, y.to] {
        _ = writeln!(svg, "<text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\">{value:.4}</text>", LEFT - 8.0, y.at(value) + 4.0);
    }
    let steps = points.last().map_or(0, |point| point.steps);
    _ = writeln!(
        svg,
        "<text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\">{steps} steps; line: best validation cost so far</text>\n</svg>",
        WIDTH - RIGHT,
        HEIGHT - 12.0
    );
    svg
}

/// One line a player: the mean as a dot, its interval as a bar.
pub fn intervals(title: &str, players: &[(String, [f64; 3])]) -> String {
    let height = TOP + BOTTOM + LINE * players.len() as f64;
    let mut svg = head(title, height);
    let x = Scale::new(players.iter().flat_map(|(_, values)| *values), WIDTH * 0.45, WIDTH - RIGHT);
    for (place, (name, [low, mean, high])) in players.iter().enumerate() {
        let y = TOP + LINE * (place as f64 + 0.5);
        let (low, dot, high) = (x.at(*low), x.at(*mean), x.at(*high));
        _ = writeln!(svg, "<text x=\"8\" y=\"{:.1}\">{} {mean:.2}</text>", y + 4.0, escaped(name));
        _ = writeln!(
            svg,
            "<line x1=\"{low:.1}\" x2=\"{high:.1}\" y1=\"{y:.1}\" y2=\"{y:.1}\" stroke=\"#1f6feb\" stroke-width=\"2\"/>"
        );
        _ = writeln!(svg, "<circle cx=\"{dot:.1}\" cy=\"{y:.1}\" r=\"4\" fill=\"#1f6feb\"/>");
    }
    svg.push_str("</svg>\n");
    svg
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pictures_are_whole_whatever_the_numbers() {
        let point = |steps, validation_cost| Point { steps, validation_cost };
        for points in [&[][..], &[point(0, 3.0)], &[point(0, 3.0), point(9, f64::INFINITY), point(20, 1.0)]] {
            let svg = curve("a < b", points);
            assert!(svg.starts_with("<svg") && svg.ends_with("</svg>\n") && svg.contains("a &lt; b"), "{svg}");
            assert!(!svg.contains("NaN"), "{svg}");
        }
        let svg = intervals("wait", &[("sjf".to_owned(), [1.0, 2.0, 3.0]), ("m&m".to_owned(), [2.0, 2.0, 2.0])]);
        assert!(svg.contains("m&amp;m") && !svg.contains("NaN"), "{svg}");
    }
}
