//! What every fuzz target does: reads bytes in one format and checks what comes out of it.

use rota_trace::{Format, ReadOptions, parse, parse_throughputs, write_csv};

/// Reads a trace with and without skipping bad lines. Whatever is read must be in order and survive being written.
pub fn check(format: Option<Format>, text: &[u8]) {
    for skip_bad in [false, true] {
        let options = ReadOptions { format, skip_bad, jobs_max: Some(10_000) };
        match parse("fuzz", text, &options) {
            Err(error) => assert!(!error.to_string().is_empty()),
            Ok(loaded) => {
                let jobs = &loaded.workload.jobs;
                assert!(jobs.is_sorted_by_key(|job| job.arrival));
                assert!(jobs.iter().all(|job| job.gpus > 0 && (job.work.0 > 0 || job.steps > 0.0)));
                let mut written = Vec::new();
                write_csv(&loaded.workload, &mut written).expect("memory can be written to");
                let again = parse("again", &written, &ReadOptions::default()).expect("what was written can be read");
                assert_eq!(again.workload.jobs.len(), jobs.len());
            }
        }
    }
}

/// Reads a throughput table. Whatever is read has a meaning: names, and speeds that are numbers from 0.
pub fn check_throughputs(text: &[u8]) {
    let table = match parse_throughputs("fuzz", text) {
        Err(error) => return assert!(!error.to_string().is_empty()),
        Ok(table) => table,
    };
    assert!(!table.is_empty() && !table.job_types().contains("") && !table.gpu_types().contains(""));
    for job_type in table.job_types() {
        for gpus in table.gang_sizes(job_type) {
            let alone = |gpu_type| table.get(job_type, gpus, gpu_type);
            let speeds = table.gpu_types().into_iter().filter_map(alone).collect::<Vec<_>>();
            assert!(table.knows(job_type, gpus) && !speeds.is_empty());
            assert!(speeds.iter().all(|speed| speed.is_finite() && *speed >= 0.0));
        }
    }
}
