//! No input panics, in any format: arbitrary bytes, and good files spoiled in a few places.

mod samples;

use proptest::prelude::*;
use rota_core::Cluster;
use rota_trace::{Format, ReadOptions, detect, parse, parse_prices, parse_throughputs};

/// Reads a text in every way there is; jobs must come in order.
fn read_every_way(text: &[u8], formats: &[Option<Format>]) {
    let _ = detect(text);
    for &format in formats {
        for skip_bad in [false, true] {
            if let Ok(loaded) = parse("drawn", text, &ReadOptions { format, skip_bad, jobs_max: Some(1000) }) {
                let jobs = &loaded.workload.jobs;
                assert!(jobs.is_sorted_by_key(|job| job.arrival));
                assert!(jobs.iter().enumerate().all(|(position, job)| job.id.index() == position && job.gpus > 0));
                assert!(jobs.iter().flat_map(|job| &job.after).all(|dependency| dependency.job.index() < jobs.len()));
            }
        }
    }
}

fn all_formats() -> Vec<Option<Format>> {
    Format::WORDS.iter().map(|&(format, _)| Some(format)).chain([None]).collect()
}

/// A change to a file: a byte replaced, bytes cut out, or text put in.
#[derive(Clone, Debug)]
enum Spoil {
    Replace(prop::sample::Index, u8),
    Cut(prop::sample::Index, usize),
    Insert(prop::sample::Index, Vec<u8>),
}

fn spoils() -> impl Strategy<Value = Spoil> {
    let awkward = prop::sample::select(vec![
        "\n",
        ",",
        "\t",
        "|",
        "\"",
        "-1",
        "nan",
        "inf",
        "1e308",
        "-",
        "0",
        "99999999999999999999",
        "é",
        ";",
        "#",
        "[",
        "]",
        "{",
        "}",
        "=",
        ".",
        ":",
        "a:any",
        "None",
    ]);
    prop_oneof![
        (any::<prop::sample::Index>(), any::<u8>()).prop_map(|(at, byte)| Spoil::Replace(at, byte)),
        (any::<prop::sample::Index>(), 1..40_usize).prop_map(|(at, length)| Spoil::Cut(at, length)),
        (any::<prop::sample::Index>(), awkward).prop_map(|(at, text)| Spoil::Insert(at, text.as_bytes().to_vec())),
    ]
}

fn spoil(text: &str, spoils: &[Spoil]) -> Vec<u8> {
    let mut bytes = text.as_bytes().to_vec();
    for spoil in spoils {
        if bytes.is_empty() {
            break;
        }
        match spoil {
            Spoil::Replace(at, byte) => {
                let at = at.index(bytes.len());
                bytes[at] = *byte;
            }
            Spoil::Cut(at, length) => {
                let at = at.index(bytes.len());
                bytes.drain(at..bytes.len().min(at + length));
            }
            Spoil::Insert(at, text) => {
                let at = at.index(bytes.len());
                bytes.splice(at..at, text.iter().copied());
            }
        }
    }
    bytes
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn arbitrary_bytes_never_panic(text in prop::collection::vec(any::<u8>(), 0..400)) {
        read_every_way(&text, &all_formats());
    }

    #[test]
    fn arbitrary_lines_never_panic(text in "([0-9a-z,|\t;\\[\\]{}=.\" -]{0,30}\n){0,6}") {
        read_every_way(text.as_bytes(), &all_formats());
    }

    #[test]
    fn spoiled_samples_never_panic(spoils in prop::collection::vec(spoils(), 1..5)) {
        for (format, text) in samples::ALL {
            read_every_way(&spoil(text, &spoils), &[Some(format), None]);
        }
        read_every_way(&spoil(samples::GENERATE, &spoils), &[None]);
        read_every_way(&spoil(samples::GENERATE_GAVEL, &spoils), &[None]);
    }

    #[test]
    fn spoiled_prices_never_panic(spoils in prop::collection::vec(spoils(), 0..5)) {
        let cluster = Cluster::from_spec("v100:1,k80:1", 1).unwrap();
        let history = "time_s,gpu_type,usd_per_gpu_hour\n0,v100,0.74\n5,k80,0.135\n3600,v100,0.9\n";
        for text in [history, "[usd_per_gpu_hour]\nv100 = 0.74\nk80 = 0.135\n"] {
            let read = parse_prices("drawn", &spoil(text, &spoils), &cluster);
            prop_assert!(!spoils.is_empty() || read.is_ok(), "{}", read.unwrap_err());
            if let Ok(prices) = read {
                let series = prices.series("v100").unwrap();
                let cost = series.cost_usd(rota_core::Time::ZERO, rota_core::Time(u64::MAX / 4)).unwrap();
                prop_assert!(cost.is_finite() && cost >= 0.0);
            }
        }
    }

    #[test]
    fn spoiled_throughputs_never_panic(spoils in prop::collection::vec(spoils(), 0..5)) {
        for text in [samples::THROUGHPUTS_CSV, samples::THROUGHPUTS_TOML, samples::THROUGHPUTS_JSON] {
            let read = parse_throughputs("drawn", &spoil(text, &spoils));
            prop_assert!(!spoils.is_empty() || read.is_ok(), "{}", read.unwrap_err());
            if let Ok(table) = read {
                let speeds = table.job_types().into_iter().filter_map(|job_type| table.get(job_type, 1, "v100"));
                prop_assert!(speeds.into_iter().all(|speed| (0.0..=1e12).contains(&speed)));
            }
        }
    }

    #[test]
    fn arbitrary_throughputs_never_panic(text in "(\\{|\\[\\[speed\\]\\]\n|job_type,gpus,v100\n)[0-9a-z,'\"()\\[\\]{}=:.\n -]{0,80}") {
        let _ = parse_throughputs("drawn", text.as_bytes());
    }
}
