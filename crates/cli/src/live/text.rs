//! How the live queue looks in a terminal.

use rota_daemon::Text;
use rota_daemon::api::JobState;

/// A command as one would type it.
pub fn command_line(command: &[Text]) -> String {
    let quote = |text: &Text| {
        let shown = text.lossy();
        let plain = !shown.is_empty() && shown.chars().all(|letter| letter.is_alphanumeric() || "-_./=:,+@%".contains(letter));
        if plain { shown } else { format!("'{}'", shown.replace('\'', "'\\''").escape_debug().to_string().replace("\\'", "'")) }
    };
    command.iter().map(quote).collect::<Vec<_>>().join(" ")
}

/// A state as one word.
pub fn state_word(state: JobState) -> String {
    state.word().to_owned()
}

/// How long ago a moment was, shortly.
pub fn ago(rfc3339: &str) -> String {
    let Ok(then) = rfc3339.parse::<jiff::Timestamp>() else { return rfc3339.to_owned() };
    let seconds = (jiff::Timestamp::now().as_second() - then.as_second()).max(0);
    match seconds {
        0..120 => format!("{seconds} s"),
        120..7200 => format!("{} min", seconds / 60),
        7200..172_800 => format!("{} h", seconds / 3600),
        _ => format!("{} d", seconds / 86_400),
    }
}

/// Rows in columns that align; the last one is cut at the width.
pub fn columns(rows: &[Vec<String>], width: usize) -> String {
    const NAME_MAX: usize = 28;
    let count = rows.first().map_or(0, Vec::len);
    let length = |text: &str| text.chars().count();
    let widths =
        (0..count).map(|column| rows.iter().map(|row| length(&row[column])).max().unwrap_or(0).min(NAME_MAX)).collect::<Vec<_>>();
    let cut = |text: &str, most: usize| {
        if length(text) <= most { text.to_owned() } else { text.chars().take(most.saturating_sub(1)).chain(['…']).collect() }
    };
    let mut lines = Vec::new();
    for row in rows {
        let mut line = String::new();
        for (column, text) in row.iter().enumerate() {
            if column + 1 == count {
                let left = width.saturating_sub(length(&line)).max(20);
                line.push_str(&cut(text, left));
            } else {
                let text = cut(text, widths[column]);
                let padding = widths[column] - length(&text);
                line.push_str(&text);
                line.extend(std::iter::repeat_n(' ', padding + 2));
            }
        }
        lines.push(line.trim_end().to_owned());
    }
    lines.join("\n")
}
