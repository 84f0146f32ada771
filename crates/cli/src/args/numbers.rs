//! Numbers as they are typed, with their bounds.

fn number(text: &str, least: f64, most: f64) -> Result<f64, String> {
    let value = text.parse::<f64>().ok().filter(|value| (least..=most).contains(value));
    value.ok_or_else(|| format!("give a number from {least} to {most}"))
}

/// A number from 0 to 1.
pub fn fraction(text: &str) -> Result<f64, String> {
    number(text, 0.0, 1.0)
}

/// Seconds, at least 0.
pub fn seconds(text: &str) -> Result<f64, String> {
    number(text, 0.0, 1e9)
}

/// Seconds, more than 0.
pub fn positive_seconds(text: &str) -> Result<f64, String> {
    number(text, 0.001, 1e9)
}

/// Hours, more than 0.
pub fn positive_hours(text: &str) -> Result<f64, String> {
    number(text, 1e-6, 1e6)
}

/// Reads `FIRST:LAST`.
pub fn window(text: &str) -> Result<(u32, u32), String> {
    let parsed = text.split_once(':').and_then(|(first, last)| Some((first.parse().ok()?, last.parse().ok()?)));
    parsed
        .filter(|(first, last)| first <= last)
        .ok_or_else(|| "give FIRST:LAST, two job ids in order, such as 200:499".to_owned())
}

/// A factor of growth.
pub fn factor(text: &str) -> Result<f64, String> {
    number(text, 0.01, 100.0)
}
