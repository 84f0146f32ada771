//! What is written reads back the same, bit by bit.
#![expect(clippy::unwrap_used, reason = "the helpers are part of the tests")]

mod samples;

use proptest::prelude::*;
use rota_core::{Dependency, DependencyCondition, Job, JobId, MilliGpu, Span, Time, Workload};
use rota_trace::{GavelSteps, ReadOptions, parse, write_csv, write_gavel, write_swf, write_toml};

/// A workload written out in full, names resolved, to compare by.
fn spelled_out(workload: &Workload) -> Vec<String> {
    let text = |name| workload.names.text(name);
    let spell = |job: &Job| {
        let types = job.gpu_types.iter().map(|&name| text(name)).collect::<Vec<_>>();
        let plain = Job {
            line: 0,
            user: rota_core::Name::NONE,
            project: rota_core::Name::NONE,
            kind: rota_core::Name::NONE,
            gpu_types: Box::default(),
            ..job.clone()
        };
        format!(
            "{:?} {:?} {:?} {types:?} {:?} {plain:?}",
            text(job.user),
            text(job.project),
            text(job.kind),
            (job.steps.to_bits(), job.weight.to_bits())
        )
    };
    workload.jobs.iter().map(spell).collect()
}

fn through(workload: &Workload, write: impl Fn(&Workload, &mut Vec<u8>)) -> Workload {
    let mut text = Vec::new();
    write(workload, &mut text);
    parse("again", &text, &ReadOptions::default())
        .unwrap_or_else(|error| panic!("{error}\n{}", String::from_utf8_lossy(&text)))
        .workload
}

fn through_csv(workload: &Workload) -> Workload {
    through(workload, |workload, text| write_csv(workload, text).unwrap())
}

fn through_toml(workload: &Workload) -> Workload {
    through(workload, |workload, text| write_toml(workload, text).unwrap())
}

fn names() -> impl Strategy<Value = String> {
    prop_oneof![
        Just(String::new()),
        "[a-zé]{1,3}",
        "[ -~]{1,12}".prop_map(|name| name.trim().to_owned()),
        Just("# not a comment".to_owned())
    ]
}

fn spans() -> impl Strategy<Value = u64> {
    prop_oneof![1..=3_155_760_000_000_000_000_u64, (1..=1_000_000_u64).prop_map(|seconds| seconds * 1_000_000_000)]
}

prop_compose! {
    fn jobs()(
        (arrival, gpus, share, memory_mib, nodes_max) in (0..=1_000_000_000_000_000_000_u64, 1..=1_000_000_u32, 1..=1000_u16, any::<u32>(), any::<u32>()),
        (work, steps) in prop_oneof![(spans(), Just(0.0)), (spans(), 1e-300..1e15), (spans(), 0.001..1e6)],
        (estimate, deadline, fails_at) in (prop::option::of(spans()), prop::option::of(spans()), prop::option::of(spans())),
        usual in prop::option::of(spans()),
        (priority, weight, tickets, utilisation, retries) in (any::<i32>(), 1e-9..1e9, 1..=u32::MAX, 0.0..=1.0, any::<u32>()),
        (user, kind, gpu_types) in (names(), names(), prop::collection::vec("[a-z0-9_. -]{1,6}", 0..3)),
        label in prop::option::of("[a-z0-9#\"',]{1,4}"),
        after in prop::collection::vec((any::<prop::sample::Index>(), any::<bool>()), 0..3),
    ) -> (Job, String, String, Vec<String>, Option<String>, Vec<(prop::sample::Index, bool)>) {
        // A deadline comes after the arrival, within the time there is.
        let deadline = deadline.map(|later| Time(arrival + 1 + later % 1_000_000_000_000_000_000));
        let job = Job {
            deadline, gpus, share: MilliGpu(share), memory_mib, nodes_max, steps, priority, weight, tickets, utilisation, retries,
            estimate: estimate.map(Span), fails_at: fails_at.map(Span),
            // Where the user says how long the job runs, nothing else is reckoned with.
            usual: usual.filter(|_| estimate.is_none()).map(Span),
            ..Job::new(Time(arrival), Span(work))
        };
        (job, user, kind, gpu_types, label, after)
    }
}

fn workloads() -> impl Strategy<Value = Workload> {
    prop::collection::vec(jobs(), 1..12).prop_map(|drafts| {
        let mut workload = Workload::new("drawn");
        let count = drafts.len();
        let mut seen = std::collections::HashSet::new();
        for (mut job, user, kind, gpu_types, label, after) in drafts {
            job.user = workload.names.intern(&user);
            job.kind = workload.names.intern(&kind);
            // Any of the drawn names will do for a project.
            job.project = job.user;
            let types = gpu_types.iter().map(|name| name.trim()).filter(|name| !name.is_empty());
            job.gpu_types = types.map(|name| workload.names.intern(name)).collect();
            // Plain numbers are kept for the jobs that have no label.
            job.label = label.filter(|label| label.parse::<u32>().is_err() && seen.insert(label.clone())).map(Into::into);
            let condition = |is_ok| if is_ok { DependencyCondition::Ok } else { DependencyCondition::Any };
            job.after = after
                .iter()
                .map(|(index, is_ok)| Dependency { job: JobId::from_index(index.index(count)), condition: condition(*is_ok) })
                .collect();
            workload.push(job);
        }
        workload.finish();
        workload
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn csv_to_toml_to_csv_loses_nothing(workload in workloads()) {
        let expected = spelled_out(&workload);
        let from_csv = through_csv(&workload);
        prop_assert_eq!(&spelled_out(&from_csv), &expected);
        let from_toml = through_toml(&from_csv);
        prop_assert_eq!(&spelled_out(&from_toml), &expected);
        prop_assert_eq!(&spelled_out(&through_csv(&from_toml)), &expected);
    }
}

#[test]
fn every_sample_survives_conversion_to_our_formats() {
    for (format, text) in samples::ALL {
        let workload = parse("sample", text.as_bytes(), &ReadOptions::default()).unwrap().workload;
        assert_eq!(spelled_out(&through_csv(&workload)), spelled_out(&workload), "{format}");
        assert_eq!(spelled_out(&through_toml(&workload)), spelled_out(&workload), "{format}");
    }
}

#[test]
fn written_csv_is_short() {
    let text = "arrival_s,duration_s\n0,1.5\n2,3\n";
    let workload = parse("t.csv", text.as_bytes(), &ReadOptions::default()).unwrap().workload;
    let mut written = Vec::new();
    write_csv(&workload, &mut written).unwrap();
    assert_eq!(String::from_utf8(written).unwrap(), "arrival_s,gpus,duration_s\n0,1,1.5\n2,1,3\n");
}

#[test]
fn gavel_and_swf_keep_what_they_have_words_for() {
    let workload = parse("g", samples::GAVEL10.as_bytes(), &ReadOptions::default()).unwrap().workload;
    let again = through(&workload, |workload, text| write_gavel(workload, GavelSteps::Exact, text).unwrap());
    assert_eq!(spelled_out(&again), spelled_out(&workload));
    let error = write_swf(&workload, Vec::new()).unwrap_err().to_string();
    assert_eq!(error, "g:1: job 0 cannot be written as swf: its length is in steps, not in time");
    let workload = parse("w", samples::SWF.as_bytes(), &ReadOptions::default()).unwrap().workload;
    let again = through(&workload, |workload, text| write_swf(workload, text).unwrap());
    let row = |job: &Job| (job.arrival, job.gpus, job.work, job.estimate, job.fails_at);
    assert_eq!(again.jobs.iter().map(row).collect::<Vec<_>>(), workload.jobs.iter().map(row).collect::<Vec<_>>());
    let error = write_gavel(&workload, GavelSteps::Exact, Vec::new()).unwrap_err().to_string();
    assert_eq!(error, "w:4: job 1 cannot be written as gavel10: it has no job type");
}

#[test]
fn gavel_has_steps_as_they_are_or_whole_and_the_slo_as_a_multiple() {
    let text =
        "[generate]\nmodel = 'gavel-continuous'\nseed = 2\njobs = 30\nmulti_gpu = true\nmulti_priority = true\nslo = true\n";
    let workload = parse("g.toml", text.as_bytes(), &ReadOptions::default()).unwrap().workload;
    let mut written = Vec::new();
    write_gavel(&workload, GavelSteps::Whole, &mut written).unwrap();
    let written = String::from_utf8(written).unwrap();
    assert_eq!(written.lines().count(), 30);
    for (line, job) in written.lines().zip(&workload.jobs) {
        let columns = line.split('\t').collect::<Vec<_>>();
        assert_eq!(columns.len(), 10);
        assert_eq!(columns[5], (job.steps as u64).to_string(), "cut off, not rounded");
        assert_eq!(columns[6], job.gpus.to_string());
        assert!(["1", "5"].contains(&columns[7]) && ["1.200000", "2.000000", "10.000000"].contains(&columns[8]), "{line}");
    }
    let again = parse("again", written.as_bytes(), &ReadOptions::default()).unwrap().workload;
    assert!(again.jobs.iter().zip(&workload.jobs).all(|(one, other)| one.arrival == other.arrival && one.gpus == other.gpus));
    let exact = through(&workload, |workload, text| write_gavel(workload, GavelSteps::Exact, text).unwrap());
    assert!(exact.jobs.iter().zip(&workload.jobs).all(|(one, other)| one.steps.to_bits() == other.steps.to_bits()));
    let short = "id,job_type,arrival_s,gpus,steps\na,net,0,1,0.9\n";
    let short = parse("t.csv", short.as_bytes(), &ReadOptions::default()).unwrap().workload;
    let error = write_gavel(&short, GavelSteps::Whole, Vec::new()).unwrap_err().to_string();
    assert_eq!(error, "t.csv:2: job a cannot be written as gavel10: it is shorter than one step");
}
