//! `rota completions` and `rota man`: what a shell and `man` are told about the commands, from the same types as `--help`.

use crate::args::Cli;
use crate::output;
use anyhow::Context;
use clap::{Args, CommandFactory, ValueEnum};
use std::path::{Path, PathBuf};

/// The shells that completions can be written for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Shell {
    Bash,
    Zsh,
    Fish,
}

/// `rota completions`.
#[derive(Args)]
#[command(after_help = "\
Examples:
  rota completions bash > ~/.local/share/bash-completion/completions/rota
  rota completions zsh > ~/.zfunc/_rota                                     with ~/.zfunc in $fpath
  rota completions fish > ~/.config/fish/completions/rota.fish")]
pub struct CompletionsArgs {
    /// The shell
    #[arg(value_enum)]
    pub shell: Shell,
}

/// `rota man`.
#[derive(Args)]
#[command(after_help = "Example:\n  rota man --out /usr/share/man/man1")]
pub struct ManArgs {
    /// The directory for the pages
    #[arg(long, value_name = "DIR")]
    pub out: PathBuf,
}

/// Prints what a shell reads to complete commands.
pub fn completions(args: &CompletionsArgs) -> anyhow::Result<()> {
    output::print(&String::from_utf8(script(args.shell))?)
}

/// Writes the manual pages.
pub fn man(args: &ManArgs) -> anyhow::Result<()> {
    output::make_directory(&args.out)?;
    let count = write_pages(&args.out)?;
    output::print(&format!("{count} pages in {}", args.out.display()))
}

/// Completions of jobs, names, states and policies, which only the queue knows. Where it knows none, the rest of the script completes.
const LIVE_BASH: &str = r#"
_rota_live() {
    local line="${COMP_LINE:0:$COMP_POINT}" current word found
    current="${line##*[[:space:]]}"
    local -a typed
    read -ra typed <<< "$line"
    [[ "$line" == *[[:space:]] ]] && typed+=("")
    found=$("${typed[0]}" __complete -- "${typed[@]:1}" 2>/dev/null)
    if [[ -z "$found" ]]; then
        _rota "$@"
        return
    fi
    COMPREPLY=()
    # bash takes the part before a colon for a word of its own.
    while IFS= read -r word; do COMPREPLY+=("${word#"${current%"${current##*:}"}"}"); done <<< "$found"
}
complete -F _rota_live -o bashdefault -o default rota
"#;

const LIVE_ZSH: &str = r#"
_rota_live() {
    local -a found
    found=(${(f)"$(${words[1]} __complete -- ${words[2,CURRENT]} 2>/dev/null)"})
    if (( $#found )); then compadd -- $found; else _rota "$@"; fi
}
compdef _rota_live rota
"#;

const LIVE_FISH: &str = r"
complete -c rota -a '(rota __complete -- (commandline -opc)[2..-1] (commandline -ct) 2>/dev/null)'
";

fn script(shell: Shell) -> Vec<u8> {
    use clap_complete::{generate, shells};
    let mut command = visible(&Cli::command());
    let mut script = Vec::new();
    match shell {
        Shell::Bash => generate(shells::Bash, &mut command, "rota", &mut script),
        Shell::Zsh => generate(shells::Zsh, &mut command, "rota", &mut script),
        Shell::Fish => generate(shells::Fish, &mut command, "rota", &mut script),
    }
    script.extend_from_slice(match shell {
        Shell::Bash => LIVE_BASH.as_bytes(),
        Shell::Zsh => LIVE_ZSH.as_bytes(),
        Shell::Fish => LIVE_FISH.as_bytes(),
    });
    script
}

fn write_pages(dir: &Path) -> anyhow::Result<usize> {
    let mut command = visible(&Cli::command()).disable_help_subcommand(true);
    command.build();
    write_page(command, dir)
}

fn write_page(command: clap::Command, dir: &Path) -> anyhow::Result<usize> {
    let mut count = 1;
    for subcommand in command.get_subcommands() {
        count += write_page(subcommand.clone(), dir)?;
    }
    let page = clap_mangen::Man::new(command);
    page.generate_to(dir).with_context(|| format!("cannot write `{}`", dir.join(page.get_filename()).display()))?;
    Ok(count)
}

/// The command without its hidden subcommands, which the generators would show.
fn visible(command: &clap::Command) -> clap::Command {
    let subcommands = command.get_subcommands().filter(|subcommand| !subcommand.is_hide_set()).map(visible);
    let mut copy = clap::Command::new(kept(command.get_name()))
        .visible_aliases(command.get_all_aliases().map(kept))
        .subcommand_required(command.is_subcommand_required_set())
        .args(command.get_arguments().cloned())
        .subcommands(subcommands);
    if let Some(about) = command.get_about() {
        copy = copy.about(about.clone());
    }
    if let Some(more) = command.get_after_help() {
        copy = copy.after_help(more.clone());
    }
    if let Some(version) = command.get_version() {
        copy = copy.version(kept(version));
    }
    copy
}

/// clap takes names that live as long as the program; this one ends when they are written.
fn kept(text: &str) -> &'static str {
    text.to_owned().leak()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every command that `--help` shows, as words from the first: `trace info`.
    fn shown(command: &clap::Command, before: &[String]) -> Vec<Vec<String>> {
        let mut all = Vec::new();
        for subcommand in command.get_subcommands().filter(|subcommand| !subcommand.is_hide_set()) {
            let words = [before, &[subcommand.get_name().to_owned()]].concat();
            all.extend(shown(subcommand, &words));
            all.push(words);
        }
        all
    }

    #[test]
    fn every_shown_command_can_be_completed_and_no_hidden_one() {
        for shell in [Shell::Bash, Shell::Zsh, Shell::Fish] {
            let script = String::from_utf8(script(shell)).unwrap();
            for words in shown(&Cli::command(), &[]) {
                let told = match shell {
                    Shell::Bash => script.contains(&format!("rota__subcmd__{}", words.join("__subcmd__").replace('-', "__"))),
                    Shell::Zsh => {
                        script.contains(&format!("rota__subcmd__{}_commands", words.join("__subcmd__").replace('-', "__")))
                    }
                    Shell::Fish => script.contains(&format!("-a \"{}\"", words[words.len() - 1])),
                };
                assert!(told, "{shell:?}: {}", words.join(" "));
            }
            assert!(!script.contains("supervise"), "{shell:?}");
        }
    }

    #[test]
    fn every_shown_command_has_a_page_and_no_hidden_one() {
        let dir = tempfile::tempdir().unwrap();
        let commands = shown(&Cli::command(), &[]);
        assert_eq!(write_pages(dir.path()).unwrap(), commands.len() + 1);
        for words in &commands {
            let page = std::fs::read_to_string(dir.path().join(format!("rota-{}.1", words.join("-")))).unwrap();
            assert!(page.contains(".SH SYNOPSIS"), "{}", words.join(" "));
        }
        let first = std::fs::read_to_string(dir.path().join("rota.1")).unwrap();
        let named = commands
            .iter()
            .filter(|words| words.len() == 1)
            .all(|words| first.contains(&format!("rota\\-{}(1)", words[0].replace('-', "\\-"))));
        assert!(named && !first.contains("supervise"), "{first}");
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), commands.len() + 1);
    }
}
