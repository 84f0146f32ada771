//! Metrics against numbers worked out by hand.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod example;

use example::{at, bind, event, finished, fold, job, meta, started, submitted, three_jobs};
use rota_core::{End, EventKind, Job, JobId, MilliGpu, NodeId, PriceTable, Span};
use rota_report::{
    JobStatus, RunMeta, comparison_table, fairness_ratios, summarise, summary_table, terminal_gantt, write_jobs_csv,
};

fn close(value: Option<f64>, expected: f64) {
    let value = value.unwrap();
    assert!((value - expected).abs() <= 1e-9 * expected.abs().max(1.0), "{value} instead of {expected}");
}

#[test]
fn times_and_percentiles() {
    let (bound, run) = three_jobs();
    let summary = summarise(&run, &bound, &meta("hand"));
    assert_eq!((summary.jobs, summary.completed, summary.failed, summary.preemptions), (3, 3, 0, 1));
    close(summary.makespan_s, 160.0);
    close(summary.jct_mean_s, 100.0);
    close(summary.jct_p50_s, 100.0);
    close(summary.jct_p90_s, 148.0);
    close(summary.jct_p99_s, 158.8);
    close(summary.wait_mean_s, 100.0 / 3.0);
    close(summary.wait_p99_s, 50.0);
    close(summary.turnaround_mean_s, 100.0);
    close(summary.throughput_jobs_per_h, 67.5);
    assert_eq!(summary.slo_violations, 1);
}

#[test]
fn utilisation_energy_and_cost() {
    let (bound, run) = three_jobs();
    let summary = summarise(&run, &bound, &meta("hand"));
    close(summary.utilisation, 250.0 / 320.0);
    close(summary.energy_kwh, 72_600.0 / 3.6e6);
    close(summary.cost_usd, 250.0 / 3600.0 * 2.48);
    let job_joules = run.jobs.iter().map(|record| record.energy_joules).collect::<Vec<_>>();
    assert_eq!(job_joules, [33_000.0, 30_000.0, 6800.0]);
}

#[test]
fn a_gpu_that_jobs_share_is_paid_once() {
    let half = Job { share: MilliGpu(500), ..job(0, 100) };
    let bound = bind(vec![half.clone(), half, job(0, 100), job(0, 100)], "v100:2");
    let mut prices = PriceTable::new("test");
    prices.push("v100", at(0), 36.0).unwrap();
    prices.push("v100", at(50), 72.0).unwrap();
    let bound = bound.with_prices(prices);
    let arrivals = (0..4).map(|job| submitted(0, job));
    // Two halves on GPU 0, one of them 20 s later; two jobs that both hold all of GPU 1, as packing makes them.
    let starts = [started(0, 0, &[0]), started(0, 2, &[1]), started(10, 3, &[1]), started(20, 1, &[0])];
    let ends = [finished(100, 0), finished(100, 2), finished(110, 3), finished(120, 1)];
    let run = fold(&bound, &arrivals.chain(starts).chain(ends).collect::<Vec<_>>());
    // A cent a second, two from second 50 on.
    let first = 0.5 * 20.0 + 30.0 + 2.0 * 50.0 + 0.5 * 2.0 * 20.0;
    let second = 50.0 + 2.0 * 60.0;
    close(run.gpus[0].cost_usd, first / 100.0);
    close(run.gpus[1].cost_usd, second / 100.0);
    close(summarise(&run, &bound, &meta("shared")).cost_usd, (first + second) / 100.0);
}

#[test]
fn deadlines_are_moments_and_count_in_the_window() {
    let due = |deadline: u64| Job { deadline: Some(at(deadline)), ..job(1000, 100) };
    // In time to the second, late, in time again, not finished at the end but due, not finished and not yet due.
    let bound = bind(vec![due(1100), due(1150), due(1250), due(1260), due(9999), job(1000, 100)], "v100:1");
    let mut events = (0..6).map(|job| submitted(1000, job)).collect::<Vec<_>>();
    events.extend([started(1000, 0, &[0]), finished(1100, 0), started(1100, 1, &[0]), finished(1200, 1)]);
    events.extend([started(1200, 2, &[0]), finished(1250, 2), started(1250, 3, &[0])]);
    let run = fold(&bound, &events);
    assert_eq!(run.jobs[3].status, JobStatus::Running);
    let violations = |window: Option<(u32, u32)>| summarise(&run, &bound, &RunMeta { window, ..meta("due") }).slo_violations;
    assert_eq!(violations(None), 1, "the run was cut at 1250, before the fourth was due");
    assert_eq!((violations(Some((0, 0))), violations(Some((1, 1))), violations(Some((2, 5)))), (0, 1, 0));
    let later = bind(vec![due(1100), due(1150)], "v100:1");
    let run = fold(&later, &[submitted(1000, 0), submitted(1000, 1), started(1000, 1, &[0]), finished(1200, 1)]);
    assert_eq!(summarise(&run, &later, &meta("due")).slo_violations, 2, "one late, one still waiting when it was due");
}

#[test]
fn energy_of_jobs_and_idle_time_add_up() {
    let shared = |share: u16| Job { share: MilliGpu(share), utilisation: 0.3, ..job(0, 100) };
    let bound = bind(vec![shared(250), shared(500), job(5, 10)], "v100:1,t4:1");
    let events = [
        submitted(0, 0),
        started(0, 0, &[0]),
        submitted(0, 1),
        started(3, 1, &[0]),
        submitted(5, 2),
        started(7, 2, &[1]),
        finished(17, 2),
    ];
    let run = fold(&bound, &[&events[..], &[finished(100, 0), finished(103, 1)]].concat());
    let idle_unattributed =
        [40.0, 10.0].iter().zip(&run.gpus).map(|(watts, gpu)| watts * (103.0 - gpu.busy_seconds)).sum::<f64>();
    let of_jobs = run.jobs.iter().map(|record| record.energy_joules).sum::<f64>();
    assert!((of_jobs + idle_unattributed - run.energy_joules()).abs() < 1e-6);
}

#[test]
fn a_gpu_with_two_owners_is_busy_once() {
    let bound = bind(vec![job(0, 100), job(0, 100)], "v100:1");
    let events = [submitted(0, 0), submitted(0, 1), started(0, 0, &[0]), started(20, 1, &[0]), finished(60, 0), finished(100, 1)];
    let run = fold(&bound, &events);
    close(Some(run.busy_gpu_seconds()), 100.0);
    close(Some(run.energy_joules()), run.gpus[0].busy_seconds * 300.0);
}

#[test]
fn fairness_is_against_a_fluid_share() {
    let (bound, run) = three_jobs();
    let mut ratios = fairness_ratios(&run, &bound, 0..3);
    ratios.sort_by(f64::total_cmp);
    for (ratio, expected) in ratios.into_iter().zip([0.75, 0.9375, 24.0 / 17.0]) {
        close(Some(ratio), expected);
    }
    let summary = summarise(&run, &bound, &meta("hand"));
    close(summary.ftf_worst, 24.0 / 17.0);
    close(summary.ftf_unfair_fraction, 1.0 / 3.0);
}

#[test]
fn a_job_alone_is_exactly_fair() {
    let bound = bind(vec![Job { gpus: 2, ..job(3, 50) }], "v100:2");
    let run = fold(&bound, &[submitted(3, 0), started(3, 0, &[0, 1]), finished(53, 0)]);
    let summary = summarise(&run, &bound, &meta("alone"));
    close(summary.ftf_worst, 1.0);
    close(summary.ftf_unfair_fraction, 0.0);
    close(summary.makespan_s, 50.0);
}

#[test]
fn a_window_limits_job_metrics_only() {
    let (bound, run) = three_jobs();
    let summary = summarise(&run, &bound, &RunMeta { window: Some((1, 2)), ..meta("window") });
    assert_eq!((summary.jobs, summary.completed), (2, 2));
    close(summary.jct_mean_s, 70.0);
    close(summary.ftf_worst, 0.9375);
    close(summary.makespan_s, 160.0);
    close(summary.throughput_jobs_per_h, 67.5);
    let outside = summarise(&run, &bound, &RunMeta { window: Some((7, 9)), ..meta("outside") });
    assert_eq!((outside.jobs, outside.jct_mean_s, outside.ftf_worst), (0, None, None));
}

#[test]
fn failures_retries_and_lost_nodes() {
    let bound = bind(vec![Job { deadline: Some(at(900)), ..job(0, 100) }, job(0, 100), job(0, 100)], "t4:16");
    let failed = |job: u32, end| EventKind::ended(JobId(job), end);
    let run = fold(
        &bound,
        &[
            submitted(0, 0),
            submitted(0, 1),
            submitted(0, 2),
            started(0, 0, &[0]),
            started(0, 1, &[8]),
            event(20, EventKind::ended(JobId(0), End::Retried)),
            started(20, 0, &[0]),
            event(40, failed(0, End::Crashed)),
            event(40, failed(2, End::Dependency)),
            event(50, EventKind::ended(JobId(1), End::Evicted)),
            event(50, EventKind::NodeLost { node: NodeId(1) }),
            event(70, EventKind::NodeReturned { node: NodeId(1) }),
            started(70, 1, &[9]),
            finished(200, 1),
        ],
    );
    let summary = summarise(&run, &bound, &meta("faults"));
    assert_eq!((summary.completed, summary.failed, summary.preemptions, summary.slo_violations), (1, 2, 0, 1));
    assert_eq!(run.jobs[2].running, Span::ZERO);
    assert_eq!((run.absences[0].from, run.absences[0].until), (at(50), at(70)));
    close(summary.wait_mean_s, 20.0);
    assert_eq!(run.timeline.unwrap().bars.len(), 4);
}

#[test]
fn nothing_is_known_about_an_empty_run() {
    let bound = bind(Vec::new(), "t4:1");
    let summary = summarise(&fold(&bound, &[]), &bound, &meta("empty"));
    assert_eq!((summary.jobs, summary.makespan_s, summary.jct_mean_s, summary.utilisation), (0, None, None, None));
    assert_eq!((summary.ftf_worst, summary.energy_kwh), (None, None));
}

#[test]
fn running_jobs_are_cut_at_the_end() {
    let bound = bind(vec![job(0, 100), job(0, 100), job(500, 100)], "unheard-of:1");
    let run = fold(&bound, &[submitted(0, 0), submitted(0, 1), started(0, 0, &[0]), submitted(30, 1)]);
    let summary = summarise(&run, &bound, &meta("cut"));
    assert_eq!((summary.completed, summary.ftf_worst, summary.cost_usd), (0, None, None));
    assert_eq!(
        run.jobs.iter().map(|record| record.status).collect::<Vec<_>>(),
        [JobStatus::Running, JobStatus::Waiting, JobStatus::Pending]
    );
    close(summary.makespan_s, 30.0);
    close(summary.utilisation, 1.0);
}

#[test]
fn jobs_csv_has_the_columns_scripts_rely_on() {
    let (bound, run) = three_jobs();
    let mut csv = Vec::new();
    write_jobs_csv(&run, &bound, &mut csv).unwrap();
    let expected = "\
job_id,job_type,gpus,priority,arrival_s,start_s,finish_s,jct_s,wait_s,service_gpu_s,preemptions,energy_wh,status
0,,1,0,0,0,160,160,50,110,1,9.166667,completed
1,,2,0,10,60,110,100,50,100,0,8.333333,completed
2,,1,0,20,20,60,40,0,40,0,1.888889,completed
";
    assert_eq!(String::from_utf8(csv).unwrap(), expected);
}

#[test]
fn unknown_cells_are_empty() {
    let bound = bind(vec![Job { label: Some("a,\"b".into()), ..job(0, 100) }], "t4:1");
    let run = fold(&bound, &[submitted(0, 0)]);
    let mut csv = Vec::new();
    write_jobs_csv(&run, &bound, &mut csv).unwrap();
    let text = String::from_utf8(csv).unwrap();
    assert_eq!(text.lines().nth(1), Some("\"a,\"\"b\",,1,0,0,,,,,0,0,0,waiting"));
}

#[test]
fn summary_json_keeps_its_names_and_order() {
    let (bound, run) = three_jobs();
    let json = serde_json::to_string(&summarise(&run, &bound, &meta("hand"))).unwrap();
    let names = "policy mechanism seed jobs completed failed makespan_s jct_mean_s jct_p50_s jct_p90_s jct_p99_s wait_mean_s wait_p99_s \
                 turnaround_mean_s throughput_jobs_per_h utilisation energy_kwh cost_usd preemptions ftf_worst ftf_unfair_fraction \
                 slo_violations allocations allocation_seconds_mean allocation_seconds_max wall_seconds events bsld_mean \
                 ftf_bounded_worst";
    let mut rest = json.as_str();
    for name in names.split_whitespace() {
        let wanted = format!("\"{name}\":");
        let position = rest.find(&wanted).unwrap_or_else(|| panic!("{name} is missing or out of order in {json}"));
        rest = &rest[position + wanted.len()..];
    }
    assert_eq!(json.matches("\":").count(), names.split_whitespace().count());
}

#[test]
fn tables_mark_the_best() {
    let (bound, run) = three_jobs();
    let good = summarise(&run, &bound, &meta("good"));
    let mut bad = good.clone();
    bad.policy = "bad".to_owned();
    bad.jct_mean_s = Some(7200.0);
    bad.cost_usd = None;
    let table = comparison_table(&[good.clone(), bad], 100);
    let row = table.lines().find(|line| line.starts_with("mean JCT")).unwrap();
    assert_eq!(row.split_whitespace().collect::<Vec<_>>(), ["mean", "JCT", "↓", "100", "s*", "2.00", "h"]);
    assert!(table.lines().any(|line| line.starts_with("cost") && line.contains('–')));
    assert!(summary_table(&good).contains("makespan"));
}

#[test]
fn the_terminal_shows_who_ran_where() {
    let (bound, run) = three_jobs();
    let expected = "\
GPU 0 │█ 0 ████████▓ 1 ▓▓▓▓▓▓          │
GPU 1 │    █ 2 ████▓ 1 ▓▓▓▓▓▓█ 0 ██████│
       0 s                     2.67 min
";
    assert_eq!(terminal_gantt(&run, &bound, 40, 8), expected);
    assert!(terminal_gantt(&run, &bound, 40, 1).contains("one row a node"));
}
