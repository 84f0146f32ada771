//! Options of the commands about the site: `drain`, `policy`, `token`, `notify`, `config`, `doctor`.

use super::{StateArgs, duration};
use clap::{Args, Subcommand, ValueEnum};
use std::path::PathBuf;

/// `rota drain` and `rota resume`.
#[derive(Args)]
pub struct DrainArgs {
    #[command(flatten)]
    pub state: StateArgs,
    /// Only these GPUs; everything if none is named
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    pub gpus: Vec<u32>,
}

/// `rota policy`.
#[derive(Args)]
pub struct PolicyArgs {
    #[command(subcommand)]
    pub verb: PolicyVerb,
}

/// What to do with the policy.
#[derive(Subcommand)]
pub enum PolicyVerb {
    /// Change the policy now
    Set {
        #[command(flatten)]
        state: StateArgs,
        /// e.g. `priority` or `fcfs:backfill=conservative`
        #[arg(value_name = "P")]
        policy: String,
    },
    /// Say which policy is in force
    Show {
        #[command(flatten)]
        state: StateArgs,
    },
}

/// `rota token`.
#[derive(Args)]
#[command(after_help = "\
Examples:
  rota token create --name laptop                        to submit, and to touch your own jobs
  rota token create --name wall --scope read --expires 30d
  rota token create --name berta --scope worker > berta-token     for `rota worker` on one machine
  rota token list
  rota token revoke laptop

On this machine nobody needs one: the daemon's socket knows its callers. Over the port, send `Authorization: Bearer TOKEN`.")]
pub struct TokenArgs {
    #[command(subcommand)]
    pub verb: TokenVerb,
}

/// What a token allows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum ScopeWord {
    /// To join `rota worker`s, and nothing else; for administrators
    Worker,
    /// To look
    Read,
    /// To submit, and to touch its owner's jobs
    Submit,
    /// Everything, for administrators
    Admin,
}

/// What to do with tokens.
#[derive(Subcommand)]
pub enum TokenVerb {
    /// Create a token, and print it; it is not shown again
    Create {
        #[command(flatten)]
        state: StateArgs,
        /// What to call it
        #[arg(long, value_name = "NAME")]
        name: String,
        /// What it allows
        #[arg(long, value_enum, default_value = "submit")]
        scope: ScopeWord,
        /// The token's owner [default: you]
        #[arg(long, value_name = "USER")]
        user: Option<String>,
        /// When it ends, as 12h or 30d [default: never]
        #[arg(long, value_name = "TIME", value_parser = duration)]
        expires: Option<f64>,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// List your tokens, or all tokens for an administrator
    List {
        #[command(flatten)]
        state: StateArgs,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Revoke a token, and end every session that was opened with it
    Revoke {
        #[command(flatten)]
        state: StateArgs,
        /// Its number or its name
        #[arg(value_name = "ID|NAME")]
        token: String,
    },
}

/// `rota notify`.
#[derive(Args)]
pub struct NotifyArgs {
    #[command(subcommand)]
    pub verb: NotifyVerb,
}

/// What to do with targets of notifications.
#[derive(Subcommand)]
pub enum NotifyVerb {
    /// Send notifications about your jobs to an address from now on
    #[command(after_help = "\
Examples:
  rota notify add --mail me@example.org
  rota notify add --webhook https://ci.example.org/rota --secret \"$SECRET\" --on started,finished,failed,cancelled
  rota notify add --slack https://hooks.example.org/services/… --on failed")]
    Add {
        #[command(flatten)]
        state: StateArgs,
        /// A program: JSON by POST, signed with --secret
        #[arg(long, value_name = "URL", group = "target", required_unless_present_any = ["mail", "slack", "dingtalk"])]
        webhook: Option<String>,
        /// A person by mail
        #[arg(long, value_name = "ADDRESS", group = "target")]
        mail: Option<String>,
        /// A chat hook that takes `{"text": …}`
        #[arg(long, value_name = "URL", group = "target")]
        slack: Option<String>,
        /// A chat hook of `DingTalk`, signed with --secret
        #[arg(long, value_name = "URL", group = "target")]
        dingtalk: Option<String>,
        /// What messages are signed with
        #[arg(long, value_name = "S", env = "ROTA_NOTIFY_SECRET", hide_env_values = true)]
        secret: Option<String>,
        /// The events to tell of: started, finished, failed, cancelled [default: finished,failed]
        #[arg(long, value_name = "LIST", value_delimiter = ',', value_parser = crate::live::daemon::event)]
        on: Vec<rota_daemon::api::NotifyEvent>,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// List the targets of notifications
    List {
        #[command(flatten)]
        state: StateArgs,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Remove a target of notifications
    Remove {
        #[command(flatten)]
        state: StateArgs,
        /// The targets
        #[arg(value_name = "ID", required = true)]
        ids: Vec<u64>,
    },
    /// Send something now, and say whether it arrived
    Test {
        #[command(flatten)]
        state: StateArgs,
        /// The target
        #[arg(value_name = "ID")]
        id: u64,
    },
}

/// `rota doctor`.
#[derive(Args)]
#[command(after_help = "\
Exit code 0 if jobs can run, 1 if something is to be fixed first.

Examples:
  rota doctor
  rota doctor --json | jq '.[] | select(.level != \"ok\")'")]
pub struct DoctorArgs {
    #[command(flatten)]
    pub state: StateArgs,
    /// The daemon's settings [default: /etc/rota.toml if it is there]
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

/// `rota config`.
#[derive(Args)]
pub struct ConfigArgs {
    #[command(subcommand)]
    pub verb: ConfigVerb,
}

/// What to do with the configuration.
#[derive(Subcommand)]
pub enum ConfigVerb {
    /// Check a file with settings
    Check {
        /// The file
        #[arg(value_name = "FILE")]
        file: PathBuf,
    },
    /// Print all settings, with those of a file in place
    Show {
        /// The file
        #[arg(value_name = "FILE")]
        file: Option<PathBuf>,
    },
    /// Print every setting with its default and its meaning
    Schema,
}
