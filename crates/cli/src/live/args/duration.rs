//! Durations as they are typed.

/// Seconds from a number with a unit.
pub fn duration(text: &str) -> Result<f64, String> {
    let wrong = || format!("`{text}` is not a length of time; write seconds, or 90s, 15m, 2h, 1d");
    let (number, unit) = match text.char_indices().find(|(_, letter)| letter.is_ascii_alphabetic()) {
        Some((at, _)) => text.split_at(at),
        None => (text, "s"),
    };
    let factor = match unit {
        "s" => 1.0,
        "m" => 60.0,
        "h" => 3600.0,
        "d" => 86_400.0,
        _ => return Err(wrong()),
    };
    let number: f64 = number.trim().parse().map_err(|_| wrong())?;
    let seconds = number * factor;
    if seconds.is_finite() && (0.0..=1e9).contains(&seconds) { Ok(seconds) } else { Err(wrong()) }
}
