//! The commands of `rota`.

use super::{
    AdaptArgs, AllocArgs, ImportArgs, LearnArgs, PoliciesArgs, PredictArgs, SimArgs, SweepArgs, ThroughputsArgs, TraceArgs,
    WhatIfArgs,
};
use crate::live::args::{
    BackupArgs, BatchArgs, ClaimArgs, ConfigArgs, DemoArgs, DoctorArgs, DownArgs, DrainArgs, ExplainArgs, HistoryArgs, JobArgs,
    JobsArgs, LogsArgs, NodeArgs, NotifyArgs, PlainArgs, PolicyArgs, PriorityArgs, ProfilesArgs, QueueArgs, RecordArgs,
    ReportArgs, RestoreArgs, SubmitArgs, TokenArgs, TopArgs, UpArgs, WaitArgs, WorkerArgs, verb_examples,
};
use clap::{Args, CommandFactory, FromArgMatches, Parser, Subcommand};
use std::ffi::OsString;
use std::fmt::Write as _;
use std::path::PathBuf;

/// Rota decides whose turn it is on the GPU.
#[derive(Parser)]
#[command(name = "rota", version, about, long_about = None, max_term_width = WIDTH_MAX, after_help = "\
Examples:
  rota demo                                           try everything, without a GPU
  rota up --detach                                    the queue on this machine's GPUs
  rota submit python train.py                         one job on one GPU
  rota status                                         what runs, what waits and why
  rota sim --trace jobs.csv --cluster a100:8 --policy fcfs --policy sjf
                                                      compare two policies on a log
  rota trace info philly.csv --cluster gpu:400        what is in a trace
  rota policies                                       what there is to choose from")]
pub struct Cli {
    #[command(subcommand)]
    pub command: Command,
}

impl Cli {
    /// What this process was called with; ends it where that cannot be meant, or asks for help.
    pub fn read() -> Self {
        let words: Vec<OsString> = std::env::args_os().collect();
        match words.get(1) {
            // Every supervisor is a copy of this process: it had better be small.
            Some(word) if word == SUPERVISE => {
                return Self { command: Command::Supervise { dir: words.get(2).map(PathBuf::from) } };
            }
            Some(word) if word == rota_daemon::KEEP => return Self { command: Command::Keep },
            Some(word) if word == "submit" || word == "add" => {}
            _ => {
                let mut whole = by_topic(Self::command());
                let matches = whole.try_get_matches_from_mut(&words).unwrap_or_else(|error| error.exit());
                return Self::from_arg_matches(&matches).unwrap_or_else(|error| error.format(&mut whole).exit());
            }
        }
        let mut alone = submit_alone();
        let matches = alone.try_get_matches_from_mut(&words[1..]).unwrap_or_else(|error| error.exit());
        let args = SubmitArgs::from_arg_matches(&matches).unwrap_or_else(|error| error.format(&mut alone).exit());
        Self { command: Command::Submit(args) }
    }
}

/// The commands by what they are about, in the order in which one meets them.
const TOPICS: &[(&str, &[&str])] = &[
    ("Start", &["demo", "up", "worker", "down", "status", "doctor"]),
    ("Give jobs to the queue", &["submit", "run", "batch", "claim"]),
    ("Look at jobs and GPUs", &["queue", "show", "explain", "predict", "logs", "wait", "top", "gpus", "profiles"]),
    ("Change jobs", &["cancel", "hold", "release", "retry", "priority"]),
    ("Look back", &["report", "history", "record"]),
    ("Look after the queue", &["policy", "drain", "resume", "node", "token", "notify", "config", "backup", "restore", "check"]),
    ("Simulate and learn", &["whatif", "sim", "sweep", "trace", "import", "policies", "alloc", "throughputs", "learn", "adapt"]),
    ("Set up the shell", &["completions", "man"]),
];

/// The same command with its help by topic.
fn by_topic(command: clap::Command) -> clap::Command {
    // Memory takes everything.
    let mut text = String::new();
    let width = command.get_subcommands().map(|subcommand| subcommand.get_name().len()).max().unwrap_or(0);
    for (topic, names) in TOPICS {
        _ = writeln!(text, "{topic}:");
        for subcommand in names.iter().filter_map(|name| command.find_subcommand(name)) {
            let about = subcommand.get_about().map(ToString::to_string).unwrap_or_default();
            _ = writeln!(text, "  {:<width$}  {about}", subcommand.get_name());
        }
        text.push('\n');
    }
    command.help_template(format!(
        "{{about-with-newline}}\n{{usage-heading}} {{usage}}\n\n{text}Options:\n{{options}}{{after-help}}"
    ))
}

/// `rota submit` by itself. It is called in loops, and the options of all the other commands, which it does not need, take
/// longer to set up than the daemon takes to answer.
fn submit_alone() -> clap::Command {
    let command = clap::Command::new("submit").bin_name("rota submit").max_term_width(WIDTH_MAX);
    SubmitArgs::augment_args(command).about(SUBMIT_ABOUT)
}

const SUPERVISE: &str = "__supervise";
const SUBMIT_ABOUT: &str = "Give a job to the queue, and print its number";
const WIDTH_MAX: usize = 100;

/// The command to run.
#[derive(Subcommand)]
pub enum Command {
    /// Simulate policies on a workload and compare them
    Sim(SimArgs),
    /// Say what other policies, GPUs or habits would have changed about past jobs
    #[command(name = "whatif")]
    WhatIf(WhatIfArgs),
    /// Simulate a grid of policies, clusters, loads and seeds on all cores
    Sweep(SweepArgs),
    /// Look into, convert and generate traces
    Trace(TraceArgs),
    /// Turn the accounts of a cluster manager into a trace
    Import(ImportArgs),
    /// Divide the GPUs' time among jobs once, with a proof of how good the division is
    Alloc(AllocArgs),
    /// Look into and convert throughput tables, measure speeds, and estimate what was not measured
    Throughputs(ThroughputsArgs),
    /// Train models that decide who runs next, judge them, and try them on past jobs
    Learn(LearnArgs),
    /// Let a network grow while it trains under a time budget: run, sweep, learn, compare
    Adapt(AdaptArgs),
    /// List the policies and their parameters
    Policies(PoliciesArgs),
    /// Start the daemon: the queue on this machine's GPUs
    Up(UpArgs),
    /// Stop the daemon; jobs run on
    Down(DownArgs),
    /// Show the daemon, the queue and the GPUs at a glance
    Status(PlainArgs),
    /// Watch the GPUs and the queue, and act on jobs
    Top(TopArgs),
    #[command(about = SUBMIT_ABOUT, visible_alias = "add")]
    Submit(SubmitArgs),
    /// Submit, show the output, and end with the job's exit code
    Run(SubmitArgs),
    /// Run a table of trainings, packed by what they need of the GPUs' memory
    Batch(BatchArgs),
    /// Show how much GPU memory programs were seen to need
    Profiles(ProfilesArgs),
    /// List waiting and running jobs
    #[command(visible_alias = "ps", visible_alias = "ls")]
    Queue(QueueArgs),
    /// Show one job in full
    Show(JobArgs),
    /// Say why a job waits, with numbers
    Explain(ExplainArgs),
    /// Say when waiting jobs are expected to start
    Predict(PredictArgs),
    /// Show a job's output
    Logs(LogsArgs),
    /// Cancel jobs. Cancelling again kills them immediately
    #[command(visible_alias = "kill", after_help = verb_examples("cancel", "--state waiting --user all", "every waiting job (administrators)"))]
    Cancel(JobsArgs),
    /// Keep waiting jobs from starting
    #[command(after_help = verb_examples("hold", "--state waiting", "your jobs that wait"))]
    Hold(JobsArgs),
    /// Let held jobs start
    #[command(after_help = verb_examples("release", "--state held", "your jobs that are held"))]
    Release(JobsArgs),
    /// Move a job that waits ahead of others, or behind them
    Priority(PriorityArgs),
    /// Run jobs that are over again, as new jobs
    #[command(after_help = verb_examples("retry", "--state failed", "your jobs that failed"))]
    Retry(JobsArgs),
    /// Wait until jobs are over; exit code 0 if all ended with 0
    Wait(WaitArgs),
    /// Show the GPUs, with the jobs and strangers on them
    Gpus(PlainArgs),
    /// Lend this machine's GPUs to a daemon on another machine
    Worker(WorkerArgs),
    /// List the machines whose GPUs are used, or forget one that is gone for good
    Node(NodeArgs),
    /// Claim GPUs for the calling process, as long as it lives
    Claim(ClaimArgs),
    /// Start no more jobs, on some GPUs or on all
    Drain(DrainArgs),
    /// Start jobs again after a drain
    Resume(DrainArgs),
    /// Show or change the policy
    Policy(PolicyArgs),
    /// Make, list and revoke tokens for the daemon's port
    Token(TokenArgs),
    /// Export the past as a trace that `rota sim` reads
    History(HistoryArgs),
    /// Write a page about the past: Gantt chart, use, power, energy of jobs
    Report(ReportArgs),
    /// Write GPU use over time in the columns of nvidia-smi
    Record(RecordArgs),
    /// Get notified about your jobs, by mail, chat or a hook
    Notify(NotifyArgs),
    /// Write a copy of the daemon's database, also while it runs
    Backup(BackupArgs),
    /// Put a backup in place of the database of a daemon that is down
    Restore(RestoreArgs),
    /// Compare the database with the run directories, and say what the daemon will do
    Check(PlainArgs),
    /// Check this machine's setup, and say what to fix
    Doctor(DoctorArgs),
    /// Check and show the daemon's settings
    Config(ConfigArgs),
    /// Print what a shell needs to complete commands
    Completions(crate::shell::CompletionsArgs),
    /// Write the manual pages, one for each command
    Man(crate::shell::ManArgs),
    /// Try everything at once: virtual GPUs, example jobs, the dashboard
    Demo(DemoArgs),
    /// Words that complete a command line: called by shells
    #[command(name = "__complete", hide = true, trailing_var_arg = true)]
    Complete {
        /// The words so far, the last of which is being typed
        #[arg(allow_hyphen_values = true)]
        words: Vec<String>,
    },
    /// Keep jobs' processes: called by the daemon
    #[command(name = SUPERVISE, hide = true)]
    Supervise {
        /// The run directory of one job; otherwise the daemon says on standard input which
        dir: Option<PathBuf>,
    },
    /// Start the processes of a gang, one for each GPU: called for jobs with Gavel's iterator
    #[command(name = "__gang", hide = true)]
    Gang {
        /// The GPU of each process
        #[arg(long, value_delimiter = ',', required = true)]
        workers: Vec<u32>,
        /// The program and its arguments
        #[arg(last = true, required = true)]
        command: Vec<OsString>,
    },
    /// Keep connections whose answers are held back: called by the daemon
    #[command(name = rota_daemon::KEEP, hide = true)]
    Keep,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_shown_command_is_in_the_help_under_one_topic() {
        let whole = Cli::command();
        let mut shown = whole
            .get_subcommands()
            .filter(|command| !command.is_hide_set())
            .map(|command| command.get_name().to_owned())
            .collect::<Vec<_>>();
        let mut listed = TOPICS.iter().flat_map(|(_, names)| names.iter().map(|name| (*name).to_owned())).collect::<Vec<_>>();
        shown.sort_unstable();
        listed.sort_unstable();
        assert_eq!(shown, listed);
        let help = by_topic(Cli::command()).render_help().to_string();
        assert!(help.contains("Change jobs:\n  cancel       Cancel jobs. Cancelling again kills them immediately"), "{help}");
    }

    #[test]
    fn commands_about_predictions_have_examples_and_ask_for_what_they_take() {
        let mut whole = Cli::command();
        let mut help_of = |name: &str| whole.find_subcommand_mut(name).unwrap().render_help().to_string();
        for name in ["predict", "explain", "whatif", "submit"] {
            assert!(help_of(name).contains("\nExamples:\n  rota "), "{name}");
        }
        assert!(!help_of("explain").contains("group"), "one job alone can be explained: {}", help_of("explain"));
        assert!(help_of("submit").contains("rota submit --dry-run "), "{}", help_of("submit"));
    }

    /// All commands below this one, with their names in full.
    fn all_below(command: &clap::Command, path: &str, found: &mut Vec<(String, String)>) {
        let help = command.get_after_help().map_or_else(String::new, ToString::to_string);
        found.push((path.to_owned(), help));
        command.get_subcommands().for_each(|below| all_below(below, &format!("{path} {}", below.get_name()), found));
    }

    #[test]
    fn examples_are_of_their_own_command_and_fit_the_width_of_help() {
        let mut found = Vec::new();
        all_below(&Cli::command(), "rota", &mut found);
        for (path, help) in found {
            let lines = help.lines().collect::<Vec<_>>();
            for (line, next) in lines.iter().zip(lines.iter().skip(1).chain(&[""])) {
                let is_example = line.starts_with("  ");
                let has_meaning = line.trim().contains("   ");
                assert!(!(is_example && has_meaning) || line.chars().count() <= WIDTH_MAX, "{path}: too wide: {line}");
                let goes_on = !is_example && !line.is_empty() && !next.is_empty() && !next.starts_with(' ');
                assert!(!goes_on || line.ends_with(['.', ':']), "{path}: broken inside a sentence: {line}");
            }
            let first = lines.iter().find_map(|line| line.strip_prefix("  rota "));
            let own = path.strip_prefix("rota ").unwrap_or("");
            let others = ["worker", "run", "restore"];
            assert!(first.is_none_or(|words| words.starts_with(own)) || others.contains(&own), "{path}: {first:?}");
        }
    }

    /// The commands of a text: lines that begin with `rota`, without what is said of them.
    fn commands_in(text: &str) -> Vec<String> {
        let joined = text.replace("\\\n", " ").replace(" && ", " ; ");
        let lines = joined.lines().filter_map(|line| line.trim_start().strip_prefix("rota "));
        let said = |line: &str| [" # ", "  ", " > "].iter().filter_map(|mark| line.find(mark)).min();
        let bare = lines.map(|line| format!("rota {}", &line[..said(line).unwrap_or(line.len())]));
        bare.flat_map(|line| line.split([';', '|', '&', '>']).map(|part| part.trim().to_owned()).collect::<Vec<_>>())
            .filter(|command| command.starts_with("rota ") && !command.contains('$'))
            .collect()
    }

    #[test]
    fn every_command_in_the_readme_the_docs_and_the_help_can_be_typed_as_it_stands() {
        let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        let docs = std::fs::read_dir(root.join("docs")).unwrap().map(|entry| entry.unwrap().path());
        let mut texts = Vec::new();
        for file in docs.chain([root.join("README.md")]).filter(|path| path.extension().is_some_and(|ending| ending == "md")) {
            let whole = std::fs::read_to_string(&file).unwrap();
            // Every second part is a block of code.
            texts.extend(whole.split("```").skip(1).step_by(2).map(|block| (file.display().to_string(), block.to_owned())));
        }
        all_below(&Cli::command(), "rota", &mut texts);
        let (mut count, mut wrong) = (0, Vec::new());
        for (place, command) in
            texts.iter().flat_map(|(place, text)| commands_in(text).into_iter().map(move |command| (place, command)))
        {
            let words = shlex::split(&command).unwrap_or_else(|| panic!("{place}: {command}"));
            let refused = Cli::command().try_get_matches_from(&words).err();
            wrong.extend(refused.map(|error| format!("{place}: {command}: {error}")));
            count += 1;
        }
        assert!(wrong.is_empty(), "{}", wrong.join("\n"));
        assert!(count > 200, "only {count} commands were found");
    }

    #[test]
    fn submit_by_itself_is_the_submit_of_the_whole() {
        let mut whole = Cli::command();
        whole.build();
        let submit = whole.find_subcommand_mut("submit").unwrap();
        assert_eq!(submit_alone().render_long_help().to_string(), submit.render_long_help().to_string());
        assert_eq!(submit_alone().render_help().to_string(), submit.render_help().to_string());
        let refusal =
            |command: &mut clap::Command, words: &[&str]| command.try_get_matches_from_mut(words).unwrap_err().to_string();
        assert_eq!(
            refusal(&mut submit_alone(), &["submit", "--gpu", "x"]),
            refusal(&mut Cli::command(), &["rota", "submit", "--gpu", "x"])
        );
    }
}
