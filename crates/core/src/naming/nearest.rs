//! The word that was probably meant: suggestions for what was typed wrongly.

/// The candidate that is nearest to a word, if one is near: at most two letters are wrong, missing, too many or exchanged.
pub fn nearest<'a>(word: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let word = word.to_lowercase();
    let allowed = if word.chars().count() <= 3 { 1 } else { 2 };
    let distances = candidates.into_iter().map(|candidate| (distance(&word, &candidate.to_lowercase()), candidate));
    let best = distances.min_by_key(|(distance, _)| *distance);
    best.filter(|(distance, _)| *distance <= allowed).map(|(_, candidate)| candidate)
}

/// Letters to change, add, leave out or exchange with their neighbour to make one word of the other.
fn distance(from: &str, to: &str) -> usize {
    let (from, to) = (from.chars().collect::<Vec<_>>(), to.chars().collect::<Vec<_>>());
    let mut rows = vec![(0..=to.len()).collect::<Vec<_>>()];
    for (i, &letter) in from.iter().enumerate() {
        let mut row = vec![i + 1];
        for (j, &other) in to.iter().enumerate() {
            let change = rows[i][j] + usize::from(letter != other);
            let mut best = change.min(rows[i][j + 1] + 1).min(row[j] + 1);
            if i > 0 && j > 0 && letter == to[j - 1] && from[i - 1] == other {
                best = best.min(rows[i - 1][j - 1] + 1);
            }
            row.push(best);
        }
        rows.push(row);
    }
    rows[from.len()][to.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slip_of_the_fingers_is_understood_and_nothing_else() {
        let known = ["fcfs", "sjf", "srtf", "lottery", "max-min"];
        for (typed, meant) in [("fcsf", "fcfs"), ("lotery", "lottery"), ("SJF", "sjf"), ("maxmin", "max-min"), ("rl", "lr")] {
            assert_eq!(nearest(typed, known.into_iter().chain(["lr"])), Some(meant), "{typed}");
        }
        for typed in ["", "xyz", "priority"] {
            assert_eq!(nearest(typed, known), None, "{typed}");
        }
    }
}
