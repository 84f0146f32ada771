//! What is probably not meant in a submit, told before the job waits for an hour and fails: a program that is not there, a whole
//! command in one word, a parameter that is misspelt.

use anyhow::bail;
use rota_core::nearest;
use rota_daemon::Text;
use rota_daemon::api::Submit;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

/// Refuses what cannot be meant, and gives warnings about what may not be.
pub fn check(ask: &Submit, is_forced: bool) -> anyhow::Result<Vec<String>> {
    let mut warnings = Vec::new();
    check_marks(ask, &mut warnings)?;
    let Some(program) = ask.command.first().filter(|_| !is_forced) else { return Ok(warnings) };
    let text = program.lossy();
    if text.contains('{') || is_program(program, ask) {
        return Ok(warnings);
    }
    if text.trim().contains(char::is_whitespace) && ask.command.len() == 1 {
        bail!("`{text}` is one word, and no program has this name: write it without quotes, or as `sh -c \"{text}\"`");
    }
    let is_path = text.contains('/');
    let place = if is_path { format!("from {}", ask.cwd.lossy()) } else { "in PATH".to_owned() };
    // A job that runs before this one may make the program.
    if !ask.after.is_empty() || ask.hold {
        warnings.push(format!("there is no program `{text}` {place} yet"));
        return Ok(warnings);
    }
    let hint = if is_path { String::new() } else { suggestion(&text, ask) };
    bail!("there is no program `{text}` {place}{hint} (--force submits it anyway)")
}

/// Marks in the command that stand for no parameter.
fn check_marks(ask: &Submit, warnings: &mut Vec<String>) -> anyhow::Result<()> {
    let has_index = !ask.array.is_empty();
    let known = || ask.params.iter().map(|param| param.name.as_str()).chain(has_index.then_some("index"));
    for mark in ask.command.iter().flat_map(|part| marks(&part.lossy())) {
        if known().any(|name| name == mark) {
            continue;
        }
        if known().next().is_none() {
            if mark == "index" {
                warnings.push("`{index}` stands for nothing without --array".to_owned());
            }
            continue;
        }
        let all = known().map(|name| format!("{{{name}}}")).collect::<Vec<_>>().join(", ");
        match nearest(&mark, known()) {
            Some(meant) => bail!("`{{{mark}}}` is not a parameter of this submit; did you mean `{{{meant}}}`?"),
            None => warnings.push(format!("`{{{mark}}}` is not a parameter of this submit, which has {all}: it stays as it is")),
        }
    }
    Ok(())
}

/// Names in braces, as `lr` in `--lr={lr}`.
fn marks(text: &str) -> Vec<String> {
    let parts = text.split('{').skip(1).filter_map(|part| part.split_once('}')).map(|(name, _)| name);
    let is_name = |name: &&str| !name.is_empty() && name.chars().all(|letter| letter.is_alphanumeric() || "_-".contains(letter));
    parts.filter(is_name).map(str::to_owned).collect()
}

/// Whether the job will find its program, as a shell would.
fn is_program(program: &Text, ask: &Submit) -> bool {
    let name = Path::new(OsStr::from_bytes(&program.0));
    let cwd = Path::new(OsStr::from_bytes(&ask.cwd.0));
    if program.0.contains(&b'/') {
        return is_executable(&cwd.join(name));
    }
    search_path(ask).iter().any(|dir| is_executable(&cwd.join(dir).join(name)))
}

fn search_path(ask: &Submit) -> Vec<PathBuf> {
    let path = ask.env.iter().find(|(name, _)| name.0 == b"PATH").map(|(_, value)| value.0.clone());
    let path = path.unwrap_or_else(|| b"/usr/local/bin:/usr/bin:/bin".to_vec());
    std::env::split_paths(OsStr::from_bytes(&path)).collect()
}

fn is_executable(path: &Path) -> bool {
    std::fs::metadata(path).is_ok_and(|meta| meta.is_file() && meta.permissions().mode() & 0o111 != 0)
}

/// A program of a similar name.
fn suggestion(text: &str, ask: &Submit) -> String {
    let folders = search_path(ask);
    let entries = folders.iter().filter_map(|dir| std::fs::read_dir(dir).ok()).flatten().flatten();
    let names = entries.filter_map(|entry| entry.file_name().into_string().ok()).collect::<Vec<_>>();
    nearest(text, names.iter().map(String::as_str)).map_or_else(String::new, |meant| format!("; did you mean `{meant}`?"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use rota_daemon::api::SweepParam;
    use std::sync::Arc;

    fn ask(command: &[&str], params: &[&str]) -> Submit {
        let param = |name: &&str| SweepParam { name: (*name).to_owned(), values: vec!["1".to_owned()] };
        Submit {
            command: Arc::new(command.iter().map(|word| Text::from(*word)).collect()),
            cwd: Text::from("/"),
            env: Arc::new(vec![(Text::from("PATH"), Text::from("/usr/bin:/bin"))]),
            params: params.iter().map(param).collect(),
            ..Submit::default()
        }
    }

    fn refusal(command: &[&str], params: &[&str]) -> String {
        check(&ask(command, params), false).unwrap_err().to_string()
    }

    #[test]
    fn mistakes_are_told_at_once() {
        assert!(refusal(&["slep", "3"], &[]).starts_with("there is no program `slep` in PATH; did you mean `sleep`?"));
        assert!(refusal(&["sleep 3"], &[]).contains("is one word, and no program has this name"));
        assert!(refusal(&["./nowhere"], &[]).contains("there is no program `./nowhere` from /"));
        assert_eq!(refusal(&["sleep", "{rl}"], &["lr"]), "`{rl}` is not a parameter of this submit; did you mean `{lr}`?");
    }

    #[test]
    fn what_may_be_meant_is_taken_with_a_warning() {
        assert_eq!(check(&ask(&["sh", "-c", "awk '{print $1}' {x y}"], &[]), false).unwrap(), Vec::<String>::new());
        assert_eq!(check(&ask(&["sleep", "{seed}", "{momentum}"], &["seed"]), false).unwrap().len(), 1);
        assert_eq!(check(&ask(&["sleep", "{index}"], &[]), false).unwrap(), ["`{index}` stands for nothing without --array"]);
        assert!(check(&ask(&["nowhere"], &[]), true).is_ok());
        let later = Submit { hold: true, ..ask(&["nowhere"], &[]) };
        assert_eq!(check(&later, false).unwrap(), ["there is no program `nowhere` in PATH yet"]);
    }
}
