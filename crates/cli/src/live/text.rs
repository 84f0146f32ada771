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
    span((jiff::Timestamp::now().as_second() - then.as_second()).max(0))
}

/// A number of seconds, shortly.
fn span(seconds: i64) -> String {
    match seconds {
        0..120 => format!("{seconds} s"),
        120..7200 => format!("{} min", seconds / 60),
        7200..172_800 => format!("{} h", seconds / 3600),
        _ => format!("{} d", seconds / 86_400),
    }
}

/// A moment by the local clock, and how far it is from now: `14:05:09 (3 min ago)`, with its date if that is not today.
pub fn clock_time(rfc3339: &str) -> String {
    let Ok(then) = rfc3339.parse::<jiff::Timestamp>() else { return rfc3339.to_owned() };
    clock_time_at(then, &jiff::Zoned::now())
}

fn clock_time_at(then: jiff::Timestamp, now: &jiff::Zoned) -> String {
    let local = then.to_zoned(now.time_zone().clone());
    let format = if local.date() == now.date() { "%H:%M:%S" } else { "%Y-%m-%d %H:%M:%S" };
    let seconds = now.timestamp().as_second() - then.as_second();
    let distance = if seconds < 0 { format!("in {}", span(-seconds)) } else { format!("{} ago", span(seconds)) };
    format!("{} ({distance})", local.strftime(format))
}

/// A text of the daemon's with its moments by the local clock.
pub fn with_local_times(text: &str) -> String {
    let word = |word: &str| {
        let bare = word.trim_end_matches([',', ';', '.', ')']);
        match bare.parse::<jiff::Timestamp>() {
            Ok(moment) => {
                let local = moment.to_zoned(jiff::tz::TimeZone::system());
                let is_today = local.date() == jiff::Zoned::now().date();
                let shown = local.strftime(if is_today { "%H:%M:%S" } else { "%Y-%m-%d %H:%M" });
                format!("{shown}{}", &word[bare.len()..])
            }
            Err(_) => word.to_owned(),
        }
    };
    text.split(' ').map(word).collect::<Vec<_>>().join(" ")
}

/// A length of time, with tenths where they matter.
pub fn seconds_text(seconds: f64) -> String {
    if seconds < 10.0 { format!("{seconds:.1} s") } else { span(seconds.round() as i64) }
}

/// The widest that a column is made where the terminal has no room for all.
const COLUMN_MAX: usize = 28;

/// Rows in columns that align. Where they do not fit into the width, wide columns are cut, and the last one at the width.
pub fn columns(rows: &[Vec<String>], width: usize) -> String {
    let count = rows.first().map_or(0, Vec::len);
    let length = |text: &str| text.chars().count();
    let natural = (0..count).map(|column| rows.iter().map(|row| length(&row[column])).max().unwrap_or(0)).collect::<Vec<_>>();
    let fits = natural.iter().map(|width| width + 2).sum::<usize>() <= width.saturating_add(2);
    let widths = natural.iter().map(|width| if fits { *width } else { (*width).min(COLUMN_MAX) }).collect::<Vec<_>>();
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

#[cfg(test)]
mod tests {
    use super::*;

    fn row(words: &[&str]) -> Vec<String> {
        words.iter().map(|word| (*word).to_owned()).collect()
    }

    #[test]
    fn a_pipe_gets_every_letter_and_a_terminal_what_fits() {
        let rows = [row(&["ID", "NAME", "WHY"]), row(&["1", &"n".repeat(60), &"w".repeat(300)])];
        let piped = columns(&rows, usize::MAX);
        assert!(piped.contains(&"n".repeat(60)) && piped.contains(&"w".repeat(300)) && !piped.contains('…'));
        let narrow = columns(&rows, 80);
        assert!(narrow.lines().all(|line| line.chars().count() <= 80), "{narrow}");
        assert!(columns(&rows, 500).contains(&"w".repeat(300)));
    }

    #[test]
    fn moments_in_reasons_are_by_the_local_clock() {
        let shown = with_local_times("0 of 4 free; starts about 2001-02-03T04:05:06.789Z, or later");
        assert!(shown.starts_with("0 of 4 free; starts about 2001-02-0") && shown.ends_with(":05, or later"), "{shown}");
    }

    #[test]
    fn times_are_local_and_relative() {
        let zone = jiff::tz::TimeZone::get("Europe/Berlin").unwrap_or(jiff::tz::TimeZone::fixed(jiff::tz::offset(1)));
        let now = "2026-11-17T12:00:00Z".parse::<jiff::Timestamp>().unwrap().to_zoned(zone);
        let shown = |text: &str| clock_time_at(text.parse().unwrap(), &now);
        assert_eq!(shown("2026-11-17T11:57:00Z"), "12:57:00 (3 min ago)");
        assert_eq!(shown("2026-11-16T11:00:00Z"), "2026-11-16 12:00:00 (25 h ago)");
        assert_eq!(shown("2026-11-17T12:30:00Z"), "13:30:00 (in 30 min)");
    }
}
