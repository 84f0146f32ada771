//! The report as one HTML file: template, style, script and packed data, without anything from elsewhere.

use crate::gauges::Gauges;
use crate::metric::{Better, METRICS};
use crate::pack::{Grain, Pack, pack_jobs, pack_run};
use crate::palette::SeriesLook;
use crate::record::Run;
use crate::summary::{RunMeta, Summary};
use crate::svg::escape;
use crate::units::{duration, plural};
use crate::verdict::verdict;
use rota_core::Bound;
use serde_json::{Value, json};
use std::io;

const TEMPLATE: &str = include_str!("../../assets/report.html");
const STYLE: &str = include_str!("../../assets/report.css");
/// One module, in the order in which its parts build on each other.
const SCRIPT: &str = concat!(
    include_str!("../../assets/tools.js"),
    include_str!("../../assets/data.js"),
    include_str!("../../assets/state.js"),
    include_str!("../../assets/tables.js"),
    include_str!("../../assets/canvas.js"),
    include_str!("../../assets/schedule.js"),
    include_str!("../../assets/curves.js"),
    include_str!("../../assets/report.js"),
);

/// Looks of lines that the page is told, for the GPUs of a live queue.
const LOOKS: usize = 24;
/// Metrics that say something about a simulator or a model, and nothing about a queue that really ran.
const SIMULATED_ONLY: [&str; 8] = [
    "allocations",
    "allocation_seconds_mean",
    "allocation_seconds_max",
    "wall_seconds",
    "events",
    "ftf_worst",
    "ftf_unfair_fraction",
    "turnaround_mean_s",
];

/// What the page of a live queue has beside the run itself.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct LivePage {
    /// The moment of the run's time zero, in milliseconds since 1970. Moments are shown by the reader's clock.
    pub zero_ms: i64,
    /// Use and power of the GPUs over time.
    pub gauges: Gauges,
    /// The names of the GPUs, in their order.
    pub gpu_names: Vec<String>,
    /// Waits, failures and waste: a word and what is said about it, in order.
    pub facts: Vec<(String, String)>,
}

pub(crate) fn page(runs: &[(Run, Summary, RunMeta)], bound: &Bound) -> io::Result<String> {
    page_with(runs, bound, None)
}

/// The page about what really ran, in clock time.
pub fn live_page(run: (Run, Summary, RunMeta), bound: &Bound, live: &LivePage) -> io::Result<String> {
    page_with(&[run], bound, Some(live))
}

/// The page of one or several runs.
fn page_with(runs: &[(Run, Summary, RunMeta)], bound: &Bound, live: Option<&LivePage>) -> io::Result<String> {
    let only_runs = runs.iter().map(|(run, _, _)| run).collect::<Vec<_>>();
    let grain = Grain::of(&only_runs, bound);
    let mut pack = Pack::default();
    let jobs = pack_jobs(&mut pack, bound, &grain);
    for (position, (run, _, _)) in runs.iter().enumerate() {
        pack_run(&mut pack, &format!("p{position}_"), run, bound, &grain);
    }
    let (columns, data) = pack.finish()?;
    let head = json!({
        "source": bound.source,
        "job_count": bound.jobs.len(),
        "gpu_count": bound.cluster.gpus.len(),
        "stride": grain.stride,
        "tick_seconds": grain.tick_seconds,
        "origin_seconds": grain.origin_seconds,
        "nodes": bound.cluster.nodes.iter().map(|node| json!([node.name, node.gpus.start, node.gpus.len()])).collect::<Vec<_>>(),
        "jobs": jobs,
        "metrics": metrics(runs, live.is_some()),
        "clock_zero_ms": live.map(|live| live.zero_ms),
        "gauges": live.map(|live| live.gauges.columns(&live.gpu_names)),
        "looks": (0..LOOKS).map(SeriesLook::of).map(look).collect::<Vec<_>>(),
        "policies": runs.iter().enumerate().map(|(position, run)| policy(position, run, &grain)).collect::<Vec<_>>(),
        "columns": columns,
    });
    let title = match runs {
        [_] if live.is_some() => {
            format!("What ran on {}", bound.cluster.nodes.first().map_or("this machine", |node| node.name.as_str()))
        }
        [(_, _, meta)] => format!("{} on {}", meta.policy, bound.source),
        _ => format!("{} policies on {}", runs.len(), bound.source),
    };
    let subtitle = format!("{} on {}", plural(bound.jobs.len(), "job"), bound.cluster.describe());
    let parts = [
        ("{{title}}", escape(&title)),
        ("{{subtitle}}", escape(&subtitle)),
        ("{{verdict}}", escape(&verdict(&runs.iter().map(|(_, summary, _)| summary.clone()).collect::<Vec<_>>()))),
        ("{{facts}}", live.map_or_else(String::new, |live| facts_section(&live.facts))),
        ("{{assumptions}}", assumptions(runs, bound, &grain)),
        ("{{style}}", STYLE.to_owned()),
        ("{{head}}", json_in_html(&head)),
        ("{{data}}", data),
        ("{{script}}", SCRIPT.to_owned()),
    ];
    Ok(fill(TEMPLATE, &parts))
}

fn facts_section(facts: &[(String, String)]) -> String {
    let item = |(word, text): &(String, String)| format!("<dt>{}</dt><dd>{}</dd>", escape(word), escape(text));
    let items = facts.iter().map(item).collect::<String>();
    format!(
        "<section aria-labelledby=\"facts-title\">\n<h2 id=\"facts-title\">Waits, failures and waste</h2>\n<dl class=\"facts\">{items}</dl>\n</section>"
    )
}

/// Replaces each mark once, from left to right, so that text from outside is never searched for marks.
pub(crate) fn fill(template: &str, parts: &[(&str, String)]) -> String {
    let mut page = String::with_capacity(template.len() + parts.iter().map(|(_, text)| text.len()).sum::<usize>());
    let mut rest = template;
    while let Some(start) = rest.find("{{") {
        page.push_str(&rest[..start]);
        rest = &rest[start..];
        if let Some((mark, text)) = parts.iter().find(|(mark, _)| rest.starts_with(mark)) {
            page.push_str(text);
            rest = &rest[mark.len()..];
        } else {
            page.push_str("{{");
            rest = &rest[2..];
        }
    }
    page.push_str(rest);
    page
}

/// JSON that cannot end the script element it stands in, whatever is in its texts.
fn json_in_html(value: &Value) -> String {
    value.to_string().replace('<', "\\u003c").replace('>', "\\u003e").replace('&', "\\u0026")
}

fn metrics(runs: &[(Run, Summary, RunMeta)], is_live: bool) -> Vec<Value> {
    let better = |better: Better| match better {
        Better::Lower => -1,
        Better::Higher => 1,
        Better::Neither => 0,
    };
    let entry = |metric: &crate::metric::Metric| {
        json!({
            "key": metric.key,
            "label": metric.label,
            "meaning": metric.meaning,
            "better": better(metric.better),
            "format": metric.format.word(),
            "charted": metric.charted,
            "best": metric.best(runs.iter().map(|(_, summary, _)| summary)),
        })
    };
    METRICS.iter().filter(|metric| !is_live || !SIMULATED_ONLY.contains(&metric.key)).map(entry).collect()
}

fn look(look: SeriesLook) -> Value {
    json!({ "colour": look.colour, "dash": look.dash, "isStrong": look.is_strong })
}

fn policy(position: usize, (run, summary, _): &(Run, Summary, RunMeta), grain: &Grain) -> Value {
    let since_origin = |time: rota_core::Time| time.seconds() - grain.origin_seconds;
    let look = SeriesLook::of(position);
    let absences =
        run.absences.iter().map(|absence| json!([absence.node.0, since_origin(absence.from), since_origin(absence.until)]));
    json!({
        "name": summary.policy,
        "colour": look.colour,
        "dash": look.dash,
        "isStrong": look.is_strong,
        "summary": summary,
        "until": since_origin(run.until),
        "absences": absences.collect::<Vec<_>>(),
    })
}

/// What a reader must know to believe the numbers, as list items; what holds for all policies is said once.
fn assumptions(runs: &[(Run, Summary, RunMeta)], bound: &Bound, grain: &Grain) -> String {
    let mut lines: Vec<(String, Vec<&str>)> = Vec::new();
    for (_, _, meta) in runs {
        let round = meta.round_seconds.map(|seconds| format!(", rounds of {}", duration(seconds))).unwrap_or_default();
        let mut said = Vec::new();
        if meta.mechanism != "live" {
            said.push(format!("mechanism {}{round}, seed {}", meta.mechanism, meta.seed));
            said.push(format!("a restart costs {}", duration(meta.restart_cost_seconds)));
        }
        said.extend(meta.window.map(|(first, last)| format!("job metrics over jobs {first} to {last} only")));
        said.extend(meta.assumptions.iter().cloned());
        for line in said {
            match lines.iter_mut().find(|(known, _)| *known == line) {
                Some((_, policies)) if !policies.contains(&meta.policy.as_str()) => {
                    policies.push(&meta.policy);
                }
                Some(_) => {}
                None => lines.push((line, vec![&meta.policy])),
            }
        }
    }
    let item = |(line, policies): &(String, Vec<&str>)| {
        let whose = if policies.len() == runs.len() { String::new() } else { format!("{}: ", policies.join(", ")) };
        format!("<li>{}</li>", escape(&format!("{whose}{line}")))
    };
    let mut items = lines.iter().map(item).collect::<Vec<_>>();
    if let Some(table) = &bound.throughput_source {
        items.push(format!("<li>{}</li>", escape(&format!("throughputs from {table}"))));
    }
    if !bound.skipped.is_empty() {
        items.push(format!("<li>{} left out, because they cannot run on this cluster</li>", plural(bound.skipped.len(), "job")));
    }
    if grain.stride > 1 {
        let shown = plural(bound.jobs.len().div_ceil(grain.stride), "job");
        items.push(format!(
            "<li>this page holds every {}th job ({shown}); metrics, utilisation and the view by GPU are of all jobs</li>",
            grain.stride
        ));
    }
    items.join("\n")
}
