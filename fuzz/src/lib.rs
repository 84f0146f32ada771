//! What every fuzz target does: reads bytes in one format and checks what comes out of it.

use rota_trace::{Format, ReadOptions, parse, write_csv};

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
