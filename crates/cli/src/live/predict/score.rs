//! `rota predict --score`: past jobs are replayed, their starts are predicted on the way, and compared with what happened.

use crate::args::{PredictArgs, ReadArgs};
use crate::inputs;
use crate::live::client::Client;
use crate::live::past;
use crate::output;
use rota_core::{Bound, Span, ThroughputTable};
use rota_daemon::api::Status;
use rota_forecast::{ForecastOptions, Score, ScoreOptions};
use rota_sim::{Restart, SimOptions};
use std::sync::Arc;

/// Scores and prints.
pub fn run(args: &PredictArgs) -> anyhow::Result<()> {
    let (bound, table, policy) = past_jobs(args)?;
    let restart = Restart { cost: Span::from_seconds(args.restart_cost).unwrap_or_default(), ..Restart::default() };
    let options = SimOptions { restart, ..SimOptions::default() };
    let score_options = ScoreOptions {
        every: args.every,
        again: Span::from_seconds(args.again).filter(|span| *span > Span::ZERO),
        forecast: ForecastOptions { draws: args.draws, ..ForecastOptions::default() },
        engine: options.engine(),
        stop_time: options.stop_time,
        arrivals: !args.no_arrivals,
    };
    let bar = output::progress(bound.jobs.len() as u64, "jobs");
    bar.set_message("replaying");
    let configured = crate::simulate::sim::build_policy(&policy, None)?;
    let table = Arc::new(table);
    let score =
        rota_forecast::score::score(&bound, &table, configured, &score_options, &mut |arrived| bar.set_position(arrived as u64));
    bar.finish_and_clear();
    if args.json {
        return output::print_json(&score);
    }
    output::print(&describe(&score, &policy))
}

/// The jobs, the speeds and the policy: of a trace, or of this site's past.
fn past_jobs(args: &PredictArgs) -> anyhow::Result<(Arc<Bound>, ThroughputTable, String)> {
    if let (Some(trace), Some(cluster)) = (&args.trace, &args.cluster) {
        let table = inputs::load_table(None)?;
        let loaded = inputs::load_trace(trace, &ReadArgs { format: None, skip_bad: false }, &table)?;
        let cluster = inputs::load_cluster(cluster, args.gpus_per_node)?;
        let bound = inputs::bind(loaded.workload, cluster, &table, false)?;
        return Ok((bound, table, args.policy.clone().unwrap_or_else(|| "lag-match".to_owned())));
    }
    let client = Client::new(&args.state)?;
    let status: Status = client.get("/api/v1/status")?;
    let replay = past::replay(&client, None)?;
    for left_out in &replay.left_out {
        output::remark(left_out);
    }
    let table = ThroughputTable::default();
    let bound = inputs::bind(replay.workload, replay.cluster, &table, true)?;
    Ok((bound, table, args.policy.clone().unwrap_or(status.policy)))
}

fn describe(score: &Score, policy: &str) -> String {
    if score.jobs == 0 {
        let why = if score.unknown > 0 {
            format!("{} predictions said that the start is not known yet, because too few jobs had ended", score.unknown)
        } else {
            "no job had to wait".to_owned()
        };
        return format!("policy {policy}: nothing to compare: {why}");
    }
    [
        format!(
            "policy {policy}: {} predictions of starts ({} more said that the start is not known yet)",
            score.jobs, score.unknown
        ),
        format!("between p10 and p90         {:.1} % of the starts (80 % would be right)", 100.0 * score.coverage_p10_p90),
        format!(
            "p50 minus the true start    {:.0} s (median), where the median wait was {:.0} s",
            score.bias_s, score.wait_median_s
        ),
        format!("error of p50                {:.0} s (median)", score.error_median_s),
        format!("error if it were next       {:.0} s", score.next_error_median_s),
        format!("error by users' limits      {:.0} s", score.limits_error_median_s),
    ]
    .join("\n")
}
