//! What a terminal shows, in the words of its users.

use super::super::app::{News, Page, Verb};
use super::super::fixtures::{app, crowded_gpu, gpu, hit, job, now, room, shown, sight, virtual_gpu};
use crate::live::text::with_local_times;
use crossterm::event::KeyCode;
use ratatui::Terminal;
use ratatui::backend::TestBackend;
use ratatui::style::Color;
use rota_daemon::Text;
use rota_daemon::api::{Blocker, Explanation, JobState};

const PAGES: [Page; 5] = [Page::Overview, Page::Job, Page::Log, Page::Gpus, Page::Help];

fn row<'a>(rows: &'a [String], part: &str) -> &'a str {
    rows.iter().find(|row| row.contains(part)).unwrap_or_else(|| panic!("no row has `{part}`:\n{}", rows.join("\n")))
}

#[test]
fn memory_is_shown_by_job_and_by_stranger() {
    let rows = shown(&mut room(), 80, 24);
    let crowded = row(&rows, "stranger");
    assert!(crowded.contains("████▒▒··   60/80G"), "{crowded}");
    assert!(crowded.contains("█████· ") && crowded.contains(" 90% "), "{crowded}");
    assert!(crowded.ends_with("#17 40G mallory:471…"), "{crowded}");
    assert!(row(&rows, "free").contains("········    0/80G"), "{}", row(&rows, "free"));
    let wide = shown(&mut room(), 140, 24);
    assert!(
        row(&wide, "stranger").contains("61W 33C") && row(&wide, "stranger").ends_with("#17 40G mallory:4711 20G"),
        "{}",
        wide.join("\n")
    );
}

#[test]
fn a_virtual_gpu_has_a_badge_at_every_size_and_a_real_one_has_none() {
    let mut mixed = app(vec![virtual_gpu(0), gpu(1)], vec![job(17, JobState::Running, "train-llama")]);
    for (width, badge) in [(160, " virtual "), (80, " virt "), (60, " virt ")] {
        let rows = shown(&mut mixed, width, 24);
        assert!(rows[0].contains("virtual GPUs") || rows[0].starts_with(" virtual · 1 running"), "{}", rows[0]);
        assert!(rows[2].starts_with(" 0 a100") && rows[2].contains(badge), "{}", rows[2]);
        assert!(rows[3].starts_with(" 1 a100") && !rows[3].contains("virt"), "{}", rows[3]);
        assert!(rows[2].contains(" free ") && rows[3].contains(" free "), "the states stay in their column: {}", rows.join("\n"));
    }
    assert!(shown(&mut mixed, 40, 24)[0].starts_with(" virtual · 1 running"));
    hit(&mut mixed, &[KeyCode::Char('g')]);
    row(&shown(&mut mixed, 80, 24), "Virtual a100");
    assert!(!shown(&mut room(), 160, 24).join("").contains("virt"), "a machine of real GPUs says nothing of it");
}

#[test]
fn how_busy_a_gpu_was_is_a_line_of_the_last_minutes() {
    let mut app = room();
    for minute in 1..=2 {
        app.now = now().checked_add(jiff::SignedDuration::from_mins(minute)).unwrap();
        app.take(News::Seen(Box::new(sight(vec![crowded_gpu(0), gpu(1)], Vec::new()))));
    }
    let rows = shown(&mut app, 80, 24);
    assert!(rows[1].contains("LAST 3m"), "{}", rows[1]);
    assert_eq!(
        rows[2].matches('█').count() + rows[2].matches('▇').count(),
        4 + 5 + 3,
        "memory, busy, and three looks: {}",
        rows[2]
    );
    assert_eq!(rows[3].matches('▁').count(), 3, "{}", rows[3]);
}

#[test]
fn the_queue_says_who_waits_how_long_and_why() {
    let rows = shown(&mut room(), 80, 24);
    assert_eq!(rows[4], "  ID STATE     USER  GPUS  AGE NAME        WHY");
    assert_eq!(rows[5], "> 17 running   alice 0     10m train-llama");
    assert_eq!(rows[6], "  18 waiting   alice (1)   20m evaluate    needs 1 GPU; GPU 0 is held by job 17");
    assert_eq!(rows[7], "  19 held      alice (1)   20m sweep");
    assert_eq!(rows[8], "  16 done      alice (1)   30s prepare");
    assert!(
        rows[0].contains("rota · priority · 1 running · 1 waiting · 1 held") && rows[0].ends_with("/var/lib/rota"),
        "{}",
        rows[0]
    );
}

#[test]
fn the_end_of_the_selected_jobs_log_is_below_the_queue() {
    let mut app = room();
    app.take(News::LogBegins(17));
    (1..=40).for_each(|epoch| app.take(News::LogGrew(17, format!("epoch {epoch}\n").into_bytes())));
    let rows = shown(&mut app, 80, 24);
    assert_eq!(
        (row(&rows, "log of job").starts_with("── log of job 17 · train-llama ──"), rows[22].as_str()),
        (true, "epoch 40")
    );
    hit(&mut app, &[KeyCode::Down]);
    let rows = shown(&mut app, 80, 24);
    assert!(row(&rows, "log of job").contains("18 · evaluate") && !rows.join("").contains("epoch"), "{}", rows.join("\n"));
    row(&rows, "it has not started: nothing is written yet");
}

#[test]
fn keys_are_named_at_the_bottom_and_questions_take_their_place() {
    let mut app = room();
    let keys = shown(&mut app, 80, 24).pop().unwrap();
    assert_eq!(keys, " ? help  q quit  ⏎ why  l log  c cancel  h hold  r free  / find  s sort  x fold");
    hit(&mut app, &[KeyCode::Char('c')]);
    assert_eq!(shown(&mut app, 80, 24).pop().unwrap(), " cancel job 17? y/n · train-llama of alice");
    assert!(shown(&mut app, 24, 10).pop().unwrap().starts_with(" cancel job 17? y/n"));
    hit(&mut app, &[KeyCode::Char('n')]);
    app.take(News::Acted(Verb::Release, 17, Err("job 17 is not held: it is running".to_owned())));
    assert_eq!(shown(&mut app, 80, 24).pop().unwrap(), " release job 17: job 17 is not held: it is running");
}

#[test]
fn enter_shows_what_stands_in_a_jobs_way() {
    let mut app = room();
    hit(&mut app, &[KeyCode::Down, KeyCode::Enter]);
    let blocker =
        Blocker { kind: "gpu".to_owned(), text: "GPU 0 is held by job 17".to_owned(), gpu: Some(0), job: Some(17), pid: None };
    let start_p50 = Some("2026-11-16T12:30:00Z".to_owned());
    let plain = Explanation::plain(18, JobState::Waiting, "needs 1 GPU".to_owned());
    let why = Explanation { blockers: vec![blocker], start_p50, ..plain };
    app.take(News::Explained(18, Ok(why)));
    let rows = shown(&mut app, 80, 24);
    assert!(rows[1].starts_with("── job 18 · evaluate · waiting ──"), "{}", rows[1]);
    let start = format!("expected to start in 30m ({})", with_local_times("2026-11-16T12:30:00Z"));
    assert_eq!(rows[2..5], ["needs 1 GPU", "  gpu: GPU 0 is held by job 17", &start]);
    row(&rows, "command      python train.py");
}

#[test]
fn a_daemon_that_is_gone_is_said_and_the_last_it_said_stays() {
    let mut app = room();
    app.take(News::Gone("no daemon on /var/lib/rota".to_owned()));
    app.now = now().checked_add(jiff::SignedDuration::from_secs(12)).unwrap();
    app.take(News::Gone("no daemon on /var/lib/rota".to_owned()));
    let rows = shown(&mut app, 120, 24);
    assert!(
        rows[0].starts_with(" the daemon is gone since 12s, trying again; below is the last it said: no daemon on"),
        "{}",
        rows[0]
    );
    row(&rows, "train-llama");
    app.take(News::Seen(Box::new(sight(vec![gpu(0)], Vec::new()))));
    assert!(shown(&mut app, 80, 24)[0].contains("0 running"));
}

#[test]
fn nothing_that_a_job_is_called_or_writes_reaches_the_terminal_as_a_command() {
    let nasty = "\u{1b}]0;owned\u{7}\u{1b}[2J\u{9b}31m\u{202e}evil\r\n\t";
    let mut bad = job(17, JobState::Running, nasty);
    bad.user = nasty.to_owned();
    bad.reason = Some(nasty.to_owned());
    bad.cwd = Text::from(nasty);
    bad.command = vec![Text::from(nasty), Text(b"\xff\x1b[2J".to_vec())];
    bad.log_path = Some(nasty.to_owned());
    let mut bad_gpu = crowded_gpu(0);
    bad_gpu.kind = nasty.to_owned();
    bad_gpu.name = nasty.to_owned();
    bad_gpu.processes[0].user = Some(nasty.to_owned());
    let mut app = app(vec![bad_gpu], vec![bad]);
    app.status.policy = nasty.to_owned();
    app.status.warnings = vec![nasty.to_owned()];
    app.take(News::LogBegins(17));
    app.take(News::LogGrew(17, nasty.as_bytes().to_vec()));
    for gone in [false, true] {
        for page in PAGES {
            app.open(page);
            if gone {
                app.take(News::Gone(nasty.to_owned()));
                hit(&mut app, &[KeyCode::Char('c')]);
            }
            let text = shown(&mut app, 80, 24).join("");
            let wrong = text.chars().find(|letter| letter.is_control() || *letter == '\u{202e}');
            assert_eq!(wrong, None, "{page:?}: {text}");
        }
    }
}

#[test]
fn every_page_can_be_drawn_at_every_size() {
    let mut app = room();
    app.status.warnings = vec!["the disk is full".to_owned(), "a GPU is lost".to_owned()];
    app.take(News::LogBegins(17));
    app.take(News::LogGrew(17, "長い行 ".repeat(100).into_bytes()));
    for page in PAGES {
        app.open(page);
        for (width, height) in [(1, 1), (2, 3), (10, 5), (40, 10), (59, 6), (80, 24), (300, 100)] {
            assert_eq!(shown(&mut app, width, height).len(), usize::from(height), "{page:?}");
            hit(&mut app, &[KeyCode::PageDown, KeyCode::End, KeyCode::PageUp, KeyCode::Home]);
        }
    }
}

#[test]
fn a_small_screen_shows_gpus_queue_and_keys() {
    let rows = shown(&mut room(), 40, 10);
    assert!(rows[1].contains("MEMORY") && rows[2].contains("60/80G"), "{}", rows.join("\n"));
    row(&rows, "17 running");
    assert!(rows[9].starts_with(" ? help  q quit"), "{}", rows[9]);
}

#[test]
fn more_gpus_and_jobs_than_rows_are_counted_and_reached() {
    let jobs = (1..=200).map(|id| job(id, JobState::Waiting, &format!("job-{id}"))).collect();
    let mut app = app((0..16).map(gpu).collect(), jobs);
    app.status.waiting = 5000;
    let rows = shown(&mut app, 80, 24);
    row(&rows, "7 more GPUs: g shows all");
    row(&rows, "WHY (4800 more wait)");
    hit(&mut app, &[KeyCode::End]);
    row(&shown(&mut app, 80, 24), "job-200");
    hit(&mut app, &[KeyCode::Char('g'), KeyCode::End]);
    row(&shown(&mut app, 80, 24), "15 NVIDIA A100 free");
}

#[test]
fn without_colours_there_are_none() {
    let mut app = room();
    app.is_plain = true;
    app.status.warnings = vec!["the disk is full".to_owned()];
    for page in PAGES {
        app.open(page);
        hit(&mut app, &[KeyCode::Char('c')]);
        let mut terminal = Terminal::new(TestBackend::new(80, 24)).unwrap();
        terminal.draw(|frame| super::screen(&app, frame)).unwrap();
        let coloured = terminal.backend().buffer().content.iter().any(|cell| cell.fg != Color::Reset || cell.bg != Color::Reset);
        assert!(!coloured, "{page:?}");
        app.question = None;
    }
}
