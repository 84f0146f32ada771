//! What cannot be meant in a submit, before anything is looked up.

use crate::api::Submit;
use crate::machine::platform::{Refusal, RefusalKind};
use crate::queue::endings::NOTICE_SIGNALS;
use crate::queue::records::environment_bytes;
use crate::store::record::command_bytes;

/// Says what cannot be meant, by the name of the option.
pub fn check(ask: &Submit, command_kib: usize) -> Result<(), Refusal> {
    let bad = |message: String| Err(Refusal::new(RefusalKind::BadInput, message));
    if ask.command.is_empty() || ask.command[0].0.is_empty() {
        return bad("there is no command; write it after `--`, as in `rota submit -- python train.py`".to_owned());
    }
    let bytes = command_bytes(&ask.command) + environment_bytes(&ask.env);
    if bytes > command_kib << 10 {
        return bad(format!(
            "the command and its environment have {bytes} bytes, and {} is the most a program is given (limits.command_kib): put long lists into a file",
            command_kib << 10
        ));
    }
    if ask.command.iter().chain(std::iter::once(&ask.cwd)).any(|text| text.0.contains(&0)) {
        return bad("a command cannot hold a zero byte".to_owned());
    }
    if ask
        .env
        .iter()
        .any(|(name, value)| name.0.is_empty() || name.0.contains(&b'=') || name.0.contains(&0) || value.0.contains(&0))
    {
        return bad("--env: write NAME=VALUE; a name is not empty and holds no `=`".to_owned());
    }
    if !ask.cwd.0.starts_with(b"/") {
        return bad(format!("--cwd: `{}` is not a full path", ask.cwd.lossy()));
    }
    if ask.memory_auto && (ask.memory_mib.is_some() || ask.share.is_some() || ask.gpus == 0) {
        return bad("--memory auto: it cannot go with a number of MiB, with --share or with --gpus 0".to_owned());
    }
    if ask.profile_epochs == Some(0) {
        return bad("--profile-epochs: 0 epochs measure nothing; write 1 or more".to_owned());
    }
    if let Some(share) = ask.share
        && !(0.001..=1.0).contains(&share)
    {
        return bad(format!("--share: {share} is not between 0.001 and 1"));
    }
    if !(ask.weight.is_finite() && ask.weight > 0.0 && ask.weight <= 1e6) {
        return bad(format!("--weight: {} is not a number above 0", ask.weight));
    }
    let times = [
        ("--estimate", ask.estimate_seconds),
        ("--time-limit", ask.time_limit_seconds),
        ("--grace", ask.grace_seconds),
        ("--retry-delay", ask.retry_delay_seconds),
    ];
    for (option, value) in times {
        if let Some(value) = value
            && !(value.is_finite() && (0.0..=1e9).contains(&value))
        {
            return bad(format!("{option}: {value} is not a length of time in seconds"));
        }
    }
    check_preemption(ask)?;
    crate::queue::extras::check(ask)?;
    if ask.time_limit_seconds == Some(0.0) {
        return bad("--time-limit: 0 leaves no time to run".to_owned());
    }
    if ask.tickets == 0 {
        return bad("--tickets: a job needs at least one".to_owned());
    }
    if ask.threads_percent.is_some_and(|percent| percent == 0 || percent > 100) {
        return bad("--threads-percent: write 1 to 100".to_owned());
    }
    check_names(ask)
}

/// What a job says of being stopped for others.
fn check_preemption(ask: &Submit) -> Result<(), Refusal> {
    let bad = |message: String| Err(Refusal::new(RefusalKind::BadInput, message));
    if let Some(preempt) = &ask.preempt {
        if !NOTICE_SIGNALS.contains(&preempt.signal.as_str()) {
            let known = NOTICE_SIGNALS.join(", ");
            return bad(format!("--preempt: a job cannot save when it gets signal {}; write one of {known}", preempt.signal));
        }
        if let Some(grace) = preempt.grace_seconds
            && !(grace.is_finite() && grace > 0.0 && grace <= 1e9)
        {
            return bad(format!("--preempt: grace={grace} is not a length of time in seconds above 0"));
        }
    }
    if let Some(gavel) = &ask.gavel {
        if gavel.total_steps == 0 {
            return bad("--total-steps: a script with Gavel's iterator needs its number of steps; write 1 or more".to_owned());
        }
        if gavel.steps_arg.is_empty() || gavel.steps_arg.contains('\0') || ask.gpus == 0 {
            return bad("--gavel: it needs a GPU, and the option by which the script is told its steps (--steps-arg)".to_owned());
        }
    }
    let may_go_on = ask.preemptible || ask.saves_progress || ask.preempt.is_some() || ask.gavel.is_some();
    if ask.resume_arg.is_some() && !may_go_on {
        return bad(
            "--resume-arg: only a job that is stopped for others goes on later; add --preemptible or --preempt".to_owned()
        );
    }
    Ok(())
}

/// GPUs that are named, and texts that lists show.
fn check_names(ask: &Submit) -> Result<(), Refusal> {
    let bad = |message: String| Err(Refusal::new(RefusalKind::BadInput, message));
    let mut seen = ask.gpu_ids.clone();
    seen.sort_unstable();
    seen.dedup();
    if seen.len() != ask.gpu_ids.len() {
        return bad("--gpu-ids: a GPU is named twice".to_owned());
    }
    let texts = [&ask.name, &ask.project, &ask.key, &ask.profile_as, &ask.job_type, &ask.number_argument, &ask.group_name];
    for text in texts.into_iter().flatten() {
        if text.is_empty() || text.len() > 256 || text.chars().any(char::is_control) {
            let these = "--name, --project, --key, --profile-as and --job-type";
            return bad(format!("{these}: 1 to 256 characters, none of them a control character"));
        }
    }
    Ok(())
}
