//! GPUs in the words of Slurm's versions: `gpu:v100:2(S:0-1)`, `gres:gpu:v100:2`, `gres/gpu:v100=2`, `gres/gpu:2`.

/// GPUs of one type.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GpuCount {
    /// The type; `None` where Slurm was told none.
    pub kind: Option<String>,
    /// How many GPUs.
    pub count: u32,
}

/// The GPUs in a list of resources. A total beside counts by type is left out.
pub fn gpus_of(list: &str) -> Vec<GpuCount> {
    let mut found: Vec<GpuCount> = Vec::new();
    for part in outside_brackets(list) {
        let Some(one) = gpu_of(part) else { continue };
        match found.iter_mut().find(|known| known.kind == one.kind) {
            Some(known) => known.count = known.count.saturating_add(one.count),
            None => found.push(one),
        }
    }
    if found.iter().any(|one| one.kind.is_some()) {
        let typed: u32 = found.iter().filter(|one| one.kind.is_some()).map(|one| one.count).sum();
        // `gres/gpu=2,gres/gpu:v100=2` says the same thing twice.
        found.retain(|one| one.kind.is_some() || one.count > typed);
        for one in found.iter_mut().filter(|one| one.kind.is_none()) {
            one.count -= typed;
        }
    }
    found.retain(|one| one.count > 0);
    found
}

/// The parts between commas; a comma in brackets, as in `(IDX:0,2)`, parts nothing.
fn outside_brackets(list: &str) -> impl Iterator<Item = &str> {
    let mut depth = 0_i32;
    list.split(move |letter| {
        match letter {
            '(' => depth += 1,
            ')' => depth -= 1,
            _ => {}
        }
        letter == ',' && depth == 0
    })
}

fn gpu_of(part: &str) -> Option<GpuCount> {
    let part = part.split('(').next()?.trim();
    let part = part.strip_prefix("gres:").or_else(|| part.strip_prefix("gres/")).unwrap_or(part);
    let rest = part.strip_prefix("gpu")?;
    if rest.is_empty() {
        return Some(GpuCount { kind: None, count: 1 });
    }
    if let Some((kind, count)) = rest.split_once('=') {
        let kind = kind.strip_prefix(':').filter(|kind| !kind.is_empty()).map(str::to_owned);
        return Some(GpuCount { kind, count: count.parse().ok()? });
    }
    let words = rest.strip_prefix(':')?.split(':').collect::<Vec<_>>();
    match words.as_slice() {
        [word] => match word.parse() {
            Ok(count) => Some(GpuCount { kind: None, count }),
            Err(_) => Some(GpuCount { kind: Some((*word).to_owned()), count: 1 }),
        },
        [kind, count] => Some(GpuCount { kind: Some((*kind).to_owned()), count: count.parse().ok()? }),
        // `gpu:a100:no_consume:4` is no GPU that is given out.
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(list: &str) -> String {
        let word = |one: &GpuCount| format!("{}:{}", one.kind.as_deref().unwrap_or("-"), one.count);
        gpus_of(list).iter().map(word).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn the_words_of_all_versions() {
        assert_eq!(of("gpu:v100:4(S:0-1)"), "v100:4");
        assert_eq!(of("gpu:v100:2(IDX:0,3),gpu:k80:1(IDX:2),license:7"), "v100:2 k80:1");
        assert_eq!(of("gres:gpu:v100:2"), "v100:2");
        assert_eq!(of("gres/gpu:v100:2"), "v100:2");
        assert_eq!(of("gres/gpu:4"), "-:4");
        assert_eq!(of("gres:gpu:a100"), "a100:1");
        assert_eq!(of("gres/gpu"), "-:1");
        assert_eq!(of("billing=8,cpu=8,gres/gpu=2,gres/gpu:a100=2,mem=64G,node=1"), "a100:2");
        assert_eq!(of("gres/gpu=3,gres/gpu:a100=2"), "-:1 a100:2");
        for empty in ["(null)", "N/A", "", "gpu:v100:0(IDX:N/A)", "craynetwork:4", "gpu:x:y"] {
            assert_eq!(of(empty), "", "{empty}");
        }
    }
}
