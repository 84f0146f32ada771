//! Against the reference data beside the repository (`make parity`): what our own policies reach on Gavel's trace.

use crate::rota::{json, root};

/// The folder of reference data; without it there is nothing to compare with, which only CI takes for a failure.
fn reference() -> Option<std::path::PathBuf> {
    let folder = root().join("../shared/data/gavel");
    let there = folder.is_dir();
    assert!(there || std::env::var("CI").is_err(), "{} is missing", folder.display());
    there.then_some(folder)
}

#[test]
fn lag_policies_beat_their_marks_on_the_96_job_trace() {
    let Some(folder) = reference() else {
        println!("skipped: no reference data");
        return;
    };
    let at = |name: &str| folder.join(name).to_str().unwrap().to_owned();
    let (trace, table) = (at("traces/max_min_fairness.trace"), at("physical_cluster_throughputs.json"));
    // Gavel's max_min_fairness_perf has a mean JCT of 13,766 s here, and no schedule can have less than 10,241 s.
    for (policy, jct_max) in [("lag-match", 12_400.0), ("lag-gittins:sigma=1", 12_100.0), ("lag-srsf", 11_600.0)] {
        let args = ["sim", "--trace", &trace, "--cluster", "8:16:24", "--throughputs", &table, "--policy", policy, "--json"];
        let summary = json(&args);
        let (jct, rho) = (summary["jct_mean_s"].as_f64().unwrap(), summary["ftf_worst"].as_f64().unwrap());
        assert!(jct <= jct_max, "{policy}: mean JCT {jct}");
        assert!(rho <= 1.1, "{policy}: worst rho {rho}");
        assert_eq!(summary["completed"], 96);
    }
}
