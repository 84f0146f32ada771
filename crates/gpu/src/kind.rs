//! The type of a GPU in one word, from its maker's name for it.

/// Words that name the maker or the market, not the type.
const MAKERS: &[&str] = &["nvidia", "tesla", "geforce", "quadro", "grid", "amd", "instinct", "radeon", "virtual"];
/// Families whose name is part of the type: `rtx4090`, `titanv`.
const FAMILIES: &[&str] = &["rtx", "gtx", "gt", "titan"];
/// Words after the number that make it another type.
const VARIANTS: &[&str] = &["ti", "super", "ada", "pro", "max", "v", "x", "xp", "z", "black"];

/// The type word of a device, in lower case: `NVIDIA A100-SXM4-40GB` is an `a100`, `NVIDIA GeForce RTX 2080 Ti` an `rtx2080ti`, and
/// `NVIDIA A100-SXM4-40GB MIG 1g.5gb` an `a100-mig-1g.5gb`. Boards of one chip are one type, whatever their memory or socket: what
/// they have of those is in the device. An unknown name gives its words joined; an empty one gives `gpu`.
pub fn kind_of(name: &str) -> String {
    let name = name.to_lowercase();
    let (whole, part) = name.split_once(" mig ").map_or((name.as_str(), None), |(whole, part)| (whole, Some(part.trim())));
    let kind = kind_of_whole(whole);
    part.map_or(kind.clone(), |part| format!("{kind}-mig-{}", plain(part)))
}

fn kind_of_whole(name: &str) -> String {
    let words = name.split_whitespace().filter(|word| !MAKERS.contains(word)).collect::<Vec<_>>();
    let laptop = if words.contains(&"laptop") { "-laptop" } else { "" };
    // `A100-SXM4-40GB`: what follows the dash is socket, memory or a slice of time.
    let words = words.iter().map(|word| plain(word.split('-').next().unwrap_or(word))).filter(|word| !word.is_empty());
    let words = words.collect::<Vec<_>>();
    let Some((first, rest)) = words.split_first() else {
        return "gpu".to_owned();
    };
    if !FAMILIES.contains(&first.as_str()) {
        // `H100 80GB HBM3`: a first word with a digit is the whole of it. Without one it is a name like `Graphics Device`.
        let kind = if has_digit(first) { first.clone() } else { words.join("-") };
        return kind + laptop;
    }
    match rest.first() {
        // `RTX A6000` is called `a6000` everywhere.
        Some(model) if first == "rtx" && is_workstation(model) => model.clone() + laptop,
        _ => {
            let belongs = |word: &&String| has_model_number(word) || FAMILIES.contains(&word.as_str()) || is_variant(word);
            let model = rest.iter().take_while(belongs).map(String::as_str).collect::<String>();
            format!("{first}{model}{laptop}")
        }
    }
}

fn has_digit(word: &str) -> bool {
    word.contains(|character: char| character.is_ascii_digit())
}

/// `4090` or `3060ti`, and not `12gb`.
fn has_model_number(word: &str) -> bool {
    has_digit(word) && !word.ends_with("gb")
}

fn is_variant(word: &str) -> bool {
    VARIANTS.contains(&word)
}

fn is_workstation(word: &str) -> bool {
    word.strip_prefix('a').is_some_and(|number| !number.is_empty() && number.chars().all(|character| character.is_ascii_digit()))
}

/// Only characters that are safe in commands, files and lists: no spaces, commas, colons.
fn plain(word: &str) -> String {
    if word.starts_with('(') {
        return String::new();
    }
    word.chars().filter(|character| character.is_alphanumeric() || ".+-_".contains(*character)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_become_types() {
        for (name, kind) in [
            ("NVIDIA A100-SXM4-40GB", "a100"),
            ("NVIDIA A100 80GB PCIe", "a100"),
            ("A100-PCIE-40GB", "a100"),
            ("NVIDIA A10G", "a10g"),
            ("NVIDIA H100 80GB HBM3", "h100"),
            ("NVIDIA H100 PCIe", "h100"),
            ("NVIDIA GH200 480GB", "gh200"),
            ("NVIDIA L40S", "l40s"),
            ("Tesla V100-SXM2-16GB", "v100"),
            ("Tesla P100-PCIE-16GB", "p100"),
            ("Tesla K80", "k80"),
            ("Tesla T4", "t4"),
            ("GRID T4-16Q", "t4"),
            ("NVIDIA GeForce RTX 4090", "rtx4090"),
            ("GeForce RTX 2080 Ti", "rtx2080ti"),
            ("NVIDIA GeForce RTX 4070 Ti SUPER", "rtx4070tisuper"),
            ("NVIDIA GeForce RTX 3060 12GB", "rtx3060"),
            ("NVIDIA GeForce RTX 4090 Laptop GPU", "rtx4090-laptop"),
            ("NVIDIA GeForce GTX 1080 Ti", "gtx1080ti"),
            ("NVIDIA RTX A6000", "a6000"),
            ("Quadro RTX 6000", "rtx6000"),
            ("Quadro RTX 6000 with Max-Q Design", "rtx6000"),
            ("NVIDIA RTX 6000 Ada Generation", "rtx6000ada"),
            ("NVIDIA RTX PRO 6000 Blackwell Server Edition", "rtxpro6000"),
            ("Quadro P4000", "p4000"),
            ("NVIDIA TITAN RTX", "titanrtx"),
            ("TITAN V", "titanv"),
            ("TITAN X (Pascal)", "titanx"),
            ("NVIDIA TITAN Xp", "titanxp"),
            ("AMD Instinct MI250X", "mi250x"),
            ("NVIDIA A100-SXM4-40GB MIG 1g.5gb", "a100-mig-1g.5gb"),
            ("NVIDIA H100 80GB HBM3 MIG 1g.10gb+me", "h100-mig-1g.10gb+me"),
            ("NVIDIA Graphics Device", "graphics-device"),
            ("Virtual A100", "a100"),
            ("", "gpu"),
            ("NVIDIA", "gpu"),
            ("a,b:c", "abc"),
        ] {
            assert_eq!(kind_of(name), kind, "{name}");
        }
    }
}
