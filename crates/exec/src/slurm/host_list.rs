//! Slurm's short form for many nodes: `v[1-3,07],p1`.

/// The most names that one list may stand for.
const NAMES_MAX: usize = 100_000;

/// The names that a list stands for; `None` if it is not in Slurm's form or stands for too many.
pub fn expand(list: &str) -> Option<Vec<String>> {
    let mut names = Vec::new();
    for part in split(list.trim())? {
        expand_one(part, &mut names)?;
    }
    Some(names)
}

/// Splits at commas that are not in brackets.
fn split(list: &str) -> Option<Vec<&str>> {
    let (mut parts, mut from, mut depth) = (Vec::new(), 0, 0_u32);
    for (index, letter) in list.char_indices() {
        match letter {
            '[' => depth += 1,
            ']' => depth = depth.checked_sub(1)?,
            ',' if depth == 0 => {
                parts.push(&list[from..index]);
                from = index + 1;
            }
            _ => {}
        }
    }
    parts.push(&list[from..]);
    parts.retain(|part| !part.is_empty());
    (depth == 0).then_some(parts)
}

fn expand_one(part: &str, names: &mut Vec<String>) -> Option<()> {
    let Some(open) = part.find('[') else {
        names.push(part.to_owned());
        return (names.len() <= NAMES_MAX).then_some(());
    };
    let close = open + part[open..].find(']')?;
    let (head, ranges, tail) = (&part[..open], &part[open + 1..close], &part[close + 1..]);
    for range in ranges.split(',') {
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        let (low, high) = (first.parse::<u32>().ok()?, last.parse::<u32>().ok()?);
        if low > high || (high - low) as usize >= NAMES_MAX {
            return None;
        }
        for number in low..=high {
            expand_one(&format!("{head}{number:0width$}{tail}", width = first.len()), names)?;
        }
    }
    Some(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_of_nodes() {
        let of = |list| expand(list).map(|names| names.join(" "));
        assert_eq!(of("v1").as_deref(), Some("v1"));
        assert_eq!(of("k1,p1,v[1-2]").as_deref(), Some("k1 p1 v1 v2"));
        assert_eq!(of("gpu[08-11,20]-ib").as_deref(), Some("gpu08-ib gpu09-ib gpu10-ib gpu11-ib gpu20-ib"));
        assert_eq!(of("r[1-2]n[1-2]").as_deref(), Some("r1n1 r1n2 r2n1 r2n2"));
        assert_eq!(of("").as_deref(), Some(""));
        for list in ["v[1-", "v1]", "v[a]", "v[3-1]", "v[0-4000000000]"] {
            assert_eq!(of(list), None, "{list}");
        }
    }
}
