//! `rota predict --score`: past jobs are replayed, their starts are predicted on the way, and compared with what happened.

use crate::args::{PredictArgs, ReadArgs};
use crate::inputs;
use crate::live::client::Client;
use crate::live::past;
use crate::output;
use crate::whatif::out_file::OutFile;
use rota_core::{Bound, Span, ThroughputTable, Time};
use rota_daemon::Outside;
use rota_forecast::{Accuracy, ForecastOptions, Outcome, Score, ScoreOptions};
use rota_sim::{Restart, SimOptions};
use std::sync::Arc;

/// Of a past of more jobs than this, a sample is predicted unless `--every` says otherwise.
const SAMPLED: usize = 500;

/// Scores and prints.
pub fn run(args: &PredictArgs) -> anyhow::Result<()> {
    let csv = args.csv.as_deref().map(OutFile::create).transpose()?;
    let Past { bound, table, policy, options } = past_jobs(args)?;
    let every = args.every.unwrap_or_else(|| (bound.jobs.len() / SAMPLED).max(1) as u32);
    if args.every.is_none() && every > 1 {
        output::remark(&format!("one in {every} of the jobs that have to wait is predicted; `--every 1` predicts all"));
    }
    let score_options = ScoreOptions {
        every,
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
    let outcomes =
        rota_forecast::score::replay(&bound, &table, configured, &score_options, &mut |arrived| bar.set_position(arrived as u64));
    bar.finish_and_clear();
    let score = Score::of(&outcomes);
    let printed = if args.json { output::print_json(&score) } else { output::print(&describe(&score, &policy, every)) };
    if let Some(file) = csv {
        file.finish(&table_of(&outcomes))?;
    }
    printed
}

/// The jobs, the speeds, the policy and how the scheduler is set: of a trace, or of this site's past.
struct Past {
    bound: Arc<Bound>,
    table: ThroughputTable,
    policy: String,
    options: SimOptions,
}

fn past_jobs(args: &PredictArgs) -> anyhow::Result<Past> {
    let restart_cost = args.restart_cost.and_then(Span::from_seconds);
    if let (Some(trace), Some(cluster)) = (&args.trace, &args.cluster) {
        let table = inputs::load_table(None)?;
        let loaded = inputs::load_trace(trace, &ReadArgs { format: args.format.clone(), skip_bad: args.skip_bad }, &table)?;
        let cluster = inputs::load_cluster(cluster, args.gpus_per_node)?;
        let bound = inputs::bind(loaded.workload, cluster, &table, args.skip_bad)?;
        let policy = args.policy.clone().unwrap_or_else(|| "lag-match".to_owned());
        let restart = Restart { cost: restart_cost.unwrap_or_default(), ..Restart::default() };
        return Ok(Past { bound, table, policy, options: SimOptions { restart, ..SimOptions::default() } });
    }
    let replay = past::replay_up_to_now(&Client::new(&args.state), None)?;
    let settings = past::settings_of(&replay)?;
    let options = past::as_set(settings, restart_cost, None)?;
    let policy = args.policy.clone().unwrap_or_else(|| settings.policy.clone());
    for left_out in replay.left_out.iter().chain(&replay.not_held(Outside::Ignored)) {
        output::remark(left_out);
    }
    let table = ThroughputTable::default();
    let cluster = past::given_out(replay.cluster.clone(), settings);
    let bound = inputs::bind(replay.workload, cluster, &table, true)?;
    Ok(Past { bound, table, policy, options })
}

/// Every prediction beside what happened. Times are seconds since the beginning of the trace; what is not known is left empty.
fn table_of(outcomes: &[Outcome]) -> String {
    let mut text =
        "id,at_submission,made_at_s,p10_s,p50_s,p90_s,drawn_p10_s,drawn_p50_s,drawn_p90_s,if_next_s,by_limits_s,start_s\n"
            .to_owned();
    for outcome in outcomes {
        let mut row = vec![outcome.number.to_string(), u8::from(outcome.is_first).to_string(), seconds(Some(outcome.made_at))];
        for quantiles in [outcome.said, outcome.drawn] {
            row.extend((0..3).map(|place| seconds(quantiles.map(|quantiles| quantiles[place]))));
        }
        row.extend([outcome.if_next, outcome.by_limits, Some(outcome.start)].map(seconds));
        text += &row.join(",");
        text += "\n";
    }
    text
}

fn seconds(time: Option<Time>) -> String {
    time.map(|time| format!("{:.3}", time.seconds())).unwrap_or_default()
}

fn describe(score: &Score, policy: &str, every: u32) -> String {
    let (jobs, unknown) = (score.all.jobs, score.all.unknown);
    if jobs == 0 {
        let why = match unknown {
            0 if every == 1 => "no job had to wait".to_owned(),
            0 => format!("fewer than {every} jobs had to wait, and one in {every} is predicted (`--every 1` for all)"),
            1 => "1 prediction said that the start is not known yet, because too few jobs had ended".to_owned(),
            _ => format!("{unknown} predictions said that the start is not known yet, because too few jobs had ended"),
        };
        return format!("policy {policy}: nothing to compare: {why}");
    }
    let predictions = if jobs == 1 { "prediction of a start" } else { "predictions of starts" };
    let mut lines = vec![
        format!("policy {policy}: {jobs} {predictions} ({unknown} more said that the start is not known yet)"),
        format!("{:35} {:>11} {:>15} {:>13}", "", "all", "at submission", "while waiting"),
    ];
    let columns = [&score.all, &score.at_submission, &score.while_waiting];
    for (name, figure) in FIGURES {
        let [all, first, later] = columns.map(figure);
        let line = format!("{name:35} {all:>11} {first:>15} {later:>13}");
        lines.push(line.trim_end().to_owned());
    }
    lines.join("\n")
}

/// A figure of some predictions, in words; blank where there is none.
type Figure = fn(&Accuracy) -> String;

/// The rows of the table.
const FIGURES: [(&str, Figure); 7] = [
    ("predictions", |part| part.jobs.to_string()),
    ("between p10 and p90 (80 % is right)", |part| {
        part.coverage_p10_p90.map(|coverage| format!("{:.1} %", 100.0 * coverage)).unwrap_or_default()
    }),
    ("median wait", |part| whole_seconds(part.wait_median_s)),
    ("p50 minus true start, median", |part| whole_seconds(part.bias_s)),
    ("error of p50, median", |part| whole_seconds(part.error_median_s)),
    ("error if it were next", |part| whole_seconds(part.next_error_median_s)),
    ("error of backfill by users' limits", |part| whole_seconds(part.limits_error_median_s)),
];

fn whole_seconds(seconds: Option<f64>) -> String {
    seconds.map(|seconds| format!("{seconds:.0} s")).unwrap_or_default()
}
