//! Every way a file can be wrong, and the words in which its user is told.

#![expect(clippy::unwrap_used, reason = "the helpers are part of the tests")]

mod samples;

use rota_trace::{Format, ReadOptions, parse, read};
use std::io::Write;
use std::path::Path;

fn message(name: &str, text: impl AsRef<[u8]>) -> String {
    parse(name, text.as_ref(), &ReadOptions::default()).unwrap_err().to_string()
}

fn message_as(format: Format, name: &str, text: &str) -> String {
    parse(name, text.as_bytes(), &ReadOptions { format: Some(format), ..ReadOptions::default() }).unwrap_err().to_string()
}

#[test]
fn files_that_are_no_traces() {
    assert_eq!(message("t.csv", ""), "t.csv: is empty");
    assert_eq!(message("t.csv", "\n  \n"), "t.csv: is empty");
    assert_eq!(message("t.csv", "# nothing\n"), "t.csv: has no jobs");
    assert_eq!(message("t.csv", "arrival_s,duration_s\n"), "t.csv: has no jobs");
    assert_eq!(message("t.gz", b"\x1f\x8b\x08\x00"), "t.gz: is gzip-compressed: decompress it first with `gunzip`");
    assert_eq!(message("t.zst", b"\x28\xb5\x2f\xfd"), "t.zst: is zstd-compressed: decompress it first with `unzstd`");
    assert_eq!(message("t.bin", b"arrival_s\0"), "t.bin: is not text: a trace is a UTF-8 text file");
    assert_eq!(message("t.csv", b"arrival_s,duration_s\n0,1\n0,\xff\n"), "t.csv:3: is not text: a trace is a UTF-8 text file");
    assert!(
        message("t.txt", "hello world\n")
            .starts_with("t.txt: is in no known format; name one with --format (rota-csv, rota-toml, gavel10,")
    );
    assert_eq!(
        message("n.csv", "sn,cpu_milli,memory_mib,gpu,model\na,1,1,1,T4\n"),
        "n.csv: lists machines, not jobs; give it as the cluster"
    );
    for (format, _) in samples::ALL {
        let message = message_as(format, "t", "\n");
        assert!(message == "t: is empty" || message == "t: has no jobs" || format == Format::PhillyJson, "{format}: {message}");
        assert_eq!(message_as(format, "t", ""), "t: is empty");
    }
}

#[test]
fn files_that_cannot_be_read() {
    let directory = tempfile::tempdir().unwrap();
    let message = |path: &Path| {
        let shown = path.display().to_string();
        read(path, &ReadOptions::default()).unwrap_err().to_string().replace(&shown, "FILE")
    };
    assert_eq!(message(directory.path()), "FILE: is a directory; give one file of it");
    assert_eq!(message(&directory.path().join("none.csv")), "FILE: there is no such file");
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        let path = directory.path().join("secret.csv");
        std::fs::write(&path, "arrival_s,duration_s\n0,1\n").unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o000)).unwrap();
        // Root may read everything.
        if std::fs::File::open(&path).is_err() {
            assert_eq!(message(&path), "FILE: you may not read it: its permissions forbid it");
        }
    }
}

#[test]
fn a_line_without_end_is_refused_without_reading_it() {
    let mut file = tempfile::NamedTempFile::new().unwrap();
    file.write_all(b"arrival_s,duration_s\n0,1\n").unwrap();
    // Two gigabytes that take no room on the disk: holes read as zeros.
    file.as_file().set_len(2 << 30).unwrap();
    let started = std::time::Instant::now();
    let error = read(file.path(), &ReadOptions { skip_bad: true, ..ReadOptions::default() }).unwrap_err();
    // The holes are zero bytes, seen in the first kilobytes.
    assert!(error.to_string().ends_with("is not text: a trace is a UTF-8 text file"), "{error}");
    let mut long = b"arrival_s,duration_s\n0,1\n".to_vec();
    long.resize(3 << 20, b'1');
    assert_eq!(message("t.csv", &long), "t.csv:3: the line is longer than 1024 KiB; a trace has one job a line");
    assert!(parse("t.csv", &long, &ReadOptions { skip_bad: true, ..ReadOptions::default() }).is_err());
    assert!(started.elapsed().as_secs() < 5);
}

#[test]
fn own_csv_names_line_and_field() {
    let header = "id,arrival_s,duration_s,gpus,after\n";
    for (rows, expected) in [
        ("a,0,1,1\n", "t.csv:2: has 4 columns where 5 belong"),
        ("a,0,1,x,\n", "t.csv:2: gpus: `x` is not a whole number of GPUs"),
        ("a,0,1,0,\n", "t.csv:2: gpus: `0` is out of range: give a number of GPUs from 1 to 1000000"),
        ("a,0,1,1000001,\n", "t.csv:2: gpus: `1000001` is out of range: give a number of GPUs from 1 to 1000000"),
        ("a,0,1,99999999999999999999,\n", "t.csv:2: gpus: `99999999999999999999` is out of range: give a number that fits"),
        ("a,-1,1,1,\n", "t.csv:2: arrival_s: `-1` is out of range: give seconds from 0 to 3155760000 (100 years)"),
        ("a,nan,1,1,\n", "t.csv:2: arrival_s: `nan` is out of range: give seconds from 0 to 3155760000 (100 years)"),
        ("a,soon,1,1,\n", "t.csv:2: arrival_s: `soon` is not a number of seconds"),
        ("a,0,inf,1,\n", "t.csv:2: duration_s: `inf` is out of range: give seconds from 0 to 3155760000 (100 years)"),
        ("a,0,1e99,1,\n", "t.csv:2: duration_s: `1e99` is out of range: give seconds from 0 to 3155760000 (100 years)"),
        ("a,0,0,1,\n", "t.csv:2: duration_s: `0` is out of range: give seconds above 0"),
        ("a,0,,1,\n", "t.csv:2: duration_s: is missing: give the seconds the job runs, or its `steps`"),
        ("a,,1,1,\n", "t.csv:2: arrival_s: is missing: give the seconds at which the job is submitted"),
        ("a,10,1,1,\n# c\nb,5,1,1,\n", "t.csv:4: arrival_s: arrivals must not go back: 5 s after 10 s"),
        ("a,0,1,1,\na,0,1,1,\n", "t.csv:3: id: `a` is already the job of line 2"),
        ("1,0,1,1,\n1,0,1,1,\n", "t.csv:3: id: `1` is already the job of line 2"),
        ("a,0,1,1,\n0,0,1,1,\n,0,1,1,\n,0,1,1,b\n", "t.csv:5: after: there is no job `b` to wait for"),
        ("a,0,1,1,b:maybe\n", "t.csv:2: after: `b:maybe` is not a dependency such as `3:ok` or `3:any`"),
        ("a b,0,1,1,\n", "t.csv:2: id: `a b` is not an id: ids have no blanks, `;` or `:` in them"),
        ("\"a,0,1,1,\n", "t.csv:2: a quotation mark is opened and not closed on the line"),
        ("\"a\"b,0,1,1,\n", "t.csv:2: `b,0,1,1,` is not the end of a quoted column"),
        ("a\u{7},0,1,1,\n", "t.csv:2: id: `a\\u{7}` has a control character in it; names are plain text"),
    ] {
        assert_eq!(message("t.csv", format!("{header}{rows}")), expected);
    }
}

#[test]
fn own_csv_headers_are_checked() {
    for (text, expected) in [
        (
            "arrival_s,gpus\n0,1\n",
            "t.csv:1: duration_s: the header has no such column, which is needed for how long a job runs (or `steps`)",
        ),
        (
            "duration_s,gpus\n1,1\n",
            "t.csv:1: arrival_s: the header has no such column, which is needed for when a job is submitted",
        ),
        ("arrival_s,duration_s,arrival_s\n0,1,0\n", "t.csv:1: arrival_s: the header has this column twice"),
    ] {
        assert_eq!(message("t.csv", text), expected);
    }
    assert_eq!(
        message("t.csv", "arrival_s,duration_s,speed\n0,1,2\n"),
        "t.csv:1: speed: is no column of this format; the columns are id, user, project, job_type, arrival_s, gpus, gpu_type, share, memory_mib, \
         nodes_max, duration_s, steps, estimate_s, usual_s, priority, weight, tickets, deadline_s, after, utilisation, fails_at_s, retries"
    );
}

#[test]
fn own_fields_have_their_ranges() {
    for (field, value, expected) in [
        ("share", "0", "`0` is out of range: give a share of a GPU from 0.001 to 1"),
        ("share", "1.5", "`1.5` is out of range: give a share of a GPU from 0.001 to 1"),
        ("utilisation", "2", "`2` is out of range: give a fraction from 0 to 1"),
        ("weight", "0", "`0` is out of range: give a number above 0, at most 1e15"),
        ("weight", "NaN", "`NaN` is not a number above 0"),
        ("tickets", "0", "`0` is out of range: give a whole number from 1 to 4294967295"),
        ("memory_mib", "-5", "`-5` is out of range: give a whole number from 0 to 4294967295"),
        ("priority", "high", "`high` is not a whole number"),
        ("priority", "3000000000", "`3000000000` is out of range: give a whole number from -2147483648 to 2147483647"),
        ("steps", "-1", "`-1` is out of range: give a number above 0, at most 1e15"),
        ("gpu_type", "a||b", "`` is not the name of a GPU type"),
        ("fails_at_s", "0", "`0` is out of range: give seconds above 0"),
    ] {
        let text = format!("arrival_s,duration_s,{field}\n0,1,{value}\n");
        assert_eq!(message("t.csv", text), format!("t.csv:2: {field}: {expected}"));
    }
    let expected = "t.csv:2: job_type: is missing: give the type whose steps these are";
    assert_eq!(message("t.csv", "arrival_s,steps\n0,1\n"), expected);
}

#[test]
fn own_toml_names_line_and_key() {
    for (text, expected) in [
        ("[[job]]\narrival_s = 0\nduration_s = 'x'\n", "t.toml:3: duration_s: `x` is not a number of seconds"),
        (
            "[[job]]\narrival_s = 0\n\n[[job]]\nduration_s = 1\n",
            "t.toml:1: duration_s: is missing: give the seconds the job runs, or its `steps`",
        ),
        ("[[job]]\narrival_s = 0\nduration_s = 1\ngpus = true\n", "t.toml:4: gpus: `true or false` is not a number or a text"),
        (
            "[[job]]\narrival_s = 0\nduration_s = 1\ngpus = 0x10\n",
            "t.toml:4: gpus: `a number in another base` is not a number or a text",
        ),
        ("job = 3\n", "t.toml:1: `job` is not a list of tables; write `[[job]]`"),
        ("[cluster]\n", "t.toml:1: cluster: is no column of this format; the columns are job, generate"),
        ("[[job]]\n[generate]\nmodel='poisson'\n", "t.toml:1: a file has either `[[job]]` tables or a `[generate]` table"),
        (
            "[generate]\nmodel='poisson'\njobs=0\n",
            "t.toml:1: jobs: `0` is out of range: give a number of jobs from 1 to 20000000",
        ),
        (
            "[generate]\nmodel='poisson'\n[generate.gangs]\n1=0\n",
            "t.toml:1: gangs: is missing: give a weight above 0 for at least one gang size, such as `1 = 0.7`",
        ),
        (
            "[generate]\nmodel='gavel-static'\nfixed_duration_s=0\n",
            "t.toml:1: fixed_duration_s: `0` is out of range: give seconds from 0.001 to 31536000 (a year)",
        ),
        (
            "[generate]\nmodel='gavel-continuous'\nseconds_between_jobs=nan\n",
            "t.toml:1: seconds_between_jobs: `NaN` is out of range: give seconds from 0 to 31536000 (a year)",
        ),
        (
            "[generate]\nmodel='gavel-trace'\nhours_min=5\n",
            "t.toml:1: hours_max: `4` is out of range: give hours from `hours_min` to 8760 (a year)",
        ),
        (
            "[generate]\nmodel='gavel-trace'\ndurations=0\n",
            "t.toml:1: durations: `0` is out of range: give a number from 1 to 1000000",
        ),
        (
            "[generate]\nmodel='classroom'\ntasks=[5,4]\n",
            "t.toml:1: tasks: `[5, 4]` is out of range: give a range such as `[40, 50]`",
        ),
    ] {
        assert_eq!(message("t.toml", text), expected);
    }
    for (text, words) in [
        ("[[job]\n", "t.toml:1: is not TOML: "),
        (
            "[generate]\nmodel='marbles'\n",
            "unknown variant `marbles`, expected one of `classroom`, `poisson`, `gavel-continuous`, `gavel-static`, `gavel-trace`",
        ),
        ("[generate]\nmodel='poisson'\nspeed=1\n", "unknown field `speed`, expected one of `jobs`, `jobs_per_hour`,"),
        ("[generate]\nmodel='gavel-static'\njobs_per_hour=1\n", "unknown field `jobs_per_hour`, expected one of `jobs`,"),
        ("[generate]\nmodel='poisson'\nseed=-1\n", "seed: give a whole number from 0"),
        ("[generate]\nmodel='poisson'\ngangs={0=1}\n", "`0` is out of range: give a number of GPUs from 1 to 1000000"),
        ("[generate]\nmodel='poisson'\nduration={distribution='fixed'}\n", "missing field `seconds`"),
    ] {
        let message = message("t.toml", text);
        assert!(message.contains(words), "{message}");
    }
}

#[test]
fn foreign_formats_name_their_own_columns() {
    for (name, text, expected) in [
        ("philly.csv", samples::PHILLY.replace(",8,", ",x,"), "philly.csv:3: num_gpus: `x` is not a whole number of GPUs"),
        (
            "philly.csv",
            samples::PHILLY.replace("2017-10-09 06", "2017-10-32 06"),
            "philly.csv:3: timestamp: `2017-10-32 06:13:03` is not a time such as `2017-09-04 10:30:41`",
        ),
        (
            "philly.csv",
            samples::PHILLY.replace("66.0,1,", "-66.0,1,"),
            "philly.csv:2: duration: `-66.0` is out of range: give seconds from 0 to 3155760000 (100 years)",
        ),
        ("g.trace", samples::GAVEL10.replace("925982", "many"), "g.trace:1: total_steps: `many` is not a number of steps"),
        (
            "g.trace",
            samples::GAVEL10.replace("\t0\n", "\t11\n"),
            "g.trace:2: arrival_time: arrivals must not go back: 10.5 s after 11 s",
        ),
        ("g.trace", samples::GAVEL10.replace("\t1.200000\t", "\t"), "g.trace:2: has 9 columns where 10 belong"),
        (
            "g.trace",
            samples::GAVEL7.replace("\t16\n", "\t0\n"),
            "g.trace:2: scale_factor: `0` is out of range: give a number of GPUs from 1 to 1000000",
        ),
        (
            "g.tsv",
            samples::GAVEL_TSV.replace("1000.5", "inf"),
            "g.tsv:3: duration_v100_s: `inf` is out of range: give seconds from 0 to 3155760000 (100 years)",
        ),
        (
            "g.tsv",
            samples::GAVEL_TSV.replace("\t5\t2\n", "\t5\t1e99\n"),
            "g.tsv:3: slo_mult: `1e99` is out of range: give a multiple that ends within 100 years",
        ),
        ("h.csv", samples::HELIOS.replace(",600,5", ",ten,5"), "h.csv:2: duration: `ten` is not a number of seconds"),
        (
            "p.csv",
            samples::PAI.replace(",50.0,T4", ",-50.0,T4"),
            "p.csv:1: plan_gpu: `-50.0` is out of range: give per cent of a GPU: 100 is one, 50 half of one",
        ),
        (
            "p.csv",
            samples::PAI.replace("494329.0,600.0,58", "494309.0,600.0,58"),
            "p.csv:1: end_time: it ends 10.0s before it starts",
        ),
        (
            "p.csv",
            "job_name,inst_id,user,status,start_time,end_time\na,b,c,d,1,2\n".to_owned(),
            "p.csv:1: plan_gpu: the job table does not say how many GPUs a job has; give the task table (`pai_task_table.csv`) instead",
        ),
    ] {
        assert_eq!(message(name, text), expected);
    }
}

#[test]
fn more_foreign_formats_name_their_own_columns() {
    for (name, text, expected) in [
        (
            "o.csv",
            samples::OPENB.replace(",460,", ",1460,"),
            "o.csv:3: gpu_milli: `1460` is out of range: give thousandths of a GPU from 1 to 1000",
        ),
        (
            "w.csv",
            "name,time,application,num_replicas,batch_size\na,0,net,1,8\n".to_owned(),
            "w.csv:1: the file does not say how long jobs run; add a column `duration` (seconds on `num_replicas` GPUs; or `steps`, with a throughput table that knows the applications)",
        ),
        ("j.swf", samples::SWF.replace(" 100 4 ", " abc 4 "), "j.swf:4: run time: `abc` is not a number of seconds"),
        (
            "j.swf",
            samples::SWF.replace(" 1 0 5 100", " 1 0 -500 100"),
            "j.swf:4: wait time: `-500` is out of range: give seconds from 0 to 3155760000 (100 years)",
        ),
        ("j.swf", samples::SWF.replace(" 8 200 -1 ", " 8 200 "), "j.swf:4: has 17 columns where 18 belong"),
        ("s.txt", samples::SACCT.replace("gpu=2,mem", "gpu=two,mem"), "s.txt:2: AllocTRES: `two` is not a whole number of GPUs"),
        (
            "s.txt",
            samples::SACCT.replace("|1-00:00:00|", "|a day|"),
            "s.txt:2: Timelimit: `a day` is not a length of time such as `1-02:03:04`",
        ),
        (
            "s.txt",
            samples::SACCT.replace("|State|", "|Status|"),
            "s.txt:1: State: the header has no such column, which is needed for how a job ended",
        ),
        (
            "l.json",
            samples::PHILLY_JSON.replace("2017-10-07 01:13:00", "2017-10-07 01:11:00"),
            "l.json:2: end_time: it ends 1m00s before it starts",
        ),
        (
            "l.json",
            "[{\"submitted_time\": null}]".to_owned(),
            "l.json:1: submitted_time: is missing: give the time the job was submitted",
        ),
        ("l.json", "{}".to_owned(), "l.json:1: is not a job log in JSON: it must be a list of jobs in `[` and `]`"),
    ] {
        assert_eq!(message(name, text), expected);
    }
    let cut = &samples::PHILLY_JSON[..300];
    assert_eq!(message("l.json", cut), "l.json:4: is not a job log in JSON: EOF while parsing a string");
}

/// Found by fuzzing: such a name could not have been written to Rota's own format and read again.
#[test]
fn a_gpu_type_is_one_name() {
    let text = samples::PAI.replace(",T4", ",T4||V100");
    assert_eq!(message("p.csv", text), "p.csv:1: gpu_type: `T4||V100` is not the name of a GPU type");
}

#[test]
fn the_message_does_not_repeat_its_source() {
    let error = parse("t.csv", b"", &ReadOptions::default()).unwrap_err();
    assert!(std::error::Error::source(&error).is_none());
}

#[test]
fn nothing_left_says_why() {
    let text = samples::HELIOS.lines().filter(|line| !line.contains("COMPLETED,2020-04-01 00:10") && !line.contains("FAILED"));
    let text = text.collect::<Vec<_>>().join("\n");
    assert_eq!(message("h.csv", text), "h.csv: has no jobs: 1 job that ran for no time left out, 1 job without GPUs left out");
}

#[test]
fn bad_lines_can_be_skipped_and_are_listed() {
    let options = ReadOptions { skip_bad: true, ..ReadOptions::default() };
    let text = "arrival_s,duration_s,after\n0,1,\n0,x,\n1,1,\n2,1,2\n3,1,1\n4,1,4\n0.5,1,\n5,1,0\n";
    let loaded = parse("t.csv", text.as_bytes(), &options).unwrap();
    let jobs = &loaded.workload.jobs;
    // Row 1 is bad, row 4 waits for it, row 5 waits for row 4, row 6 goes back in time.
    assert_eq!(jobs.iter().map(rota_core::Job::display_id).collect::<Vec<_>>(), ["0", "2", "3", "7"]);
    assert_eq!((jobs[2].after[0].job.0, jobs[3].after[0].job.0), (1, 0));
    assert_eq!(loaded.skipped_count, 4);
    assert_eq!(
        loaded.skipped.iter().map(ToString::to_string).collect::<Vec<_>>(),
        [
            "t.csv:3: duration_s: `x` is not a number of seconds",
            "t.csv:8: arrival_s: arrivals must not go back: 0.5 s after 4 s",
            "t.csv:6: after: there is no job `1` to wait for (its line was skipped)",
            "t.csv:7: after: there is no job `4` to wait for (its line was skipped)",
        ]
    );
    let many = format!("arrival_s,duration_s\n0,1\n{}", "bad\n".repeat(5000));
    let loaded = parse("t.csv", many.as_bytes(), &options).unwrap();
    assert_eq!((loaded.workload.jobs.len(), loaded.skipped.len(), loaded.skipped_count), (1, 1000, 5000));
    let error = parse("t.csv", b"arrival_s,duration_s\nx,1\n", &options).unwrap_err().to_string();
    assert_eq!(error, "t.csv: has no jobs: 1 bad lines skipped, the first: t.csv:2: arrival_s: `x` is not a number of seconds");
}

#[test]
fn a_bound_on_jobs_is_kept() {
    let options = ReadOptions { jobs_max: Some(1), skip_bad: true, ..ReadOptions::default() };
    let error = parse("t.csv", b"arrival_s,duration_s\n0,1\n0,1\n", &options).unwrap_err();
    assert_eq!(error.to_string(), "t.csv:3: has more than 1 jobs");
    let error = parse("t.toml", samples::GENERATE.as_bytes(), &options).unwrap_err();
    assert_eq!(error.to_string(), "t.toml:1: tasks: has more than 1 jobs");
}
