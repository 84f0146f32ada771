//! What keys mean. Nothing is done to a job before `y`.

use super::app::{App, Page, Question, Verb};
use super::pages;
use crossterm::event::{KeyCode, KeyEvent, KeyEventKind, KeyModifiers};
use rota_daemon::api::JobState;

/// What a key does outside the dashboard's own state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effect {
    /// The key has no effect outside the dashboard.
    None,
    /// The dashboard ends.
    Quit,
    /// The whole screen is drawn again.
    Redraw,
    /// The daemon is asked to change a job.
    Act(Verb, u64),
    /// The daemon is asked to change a group.
    ActOnGroup(Verb, u64),
    /// The daemon is asked to give a job another priority.
    Prioritise(u64, i32),
}

/// Takes a key.
pub fn press(app: &mut App, key: KeyEvent) -> Effect {
    if key.kind == KeyEventKind::Release {
        return Effect::None;
    }
    if key.modifiers.contains(KeyModifiers::CONTROL) {
        return match key.code {
            KeyCode::Char('c') => Effect::Quit,
            KeyCode::Char('l') => Effect::Redraw,
            _ => Effect::None,
        };
    }
    if let Some(question) = app.question.take() {
        let agreed = matches!(key.code, KeyCode::Char('y' | 'Y'));
        return match question.group {
            _ if !agreed => Effect::None,
            Some(fold) => Effect::ActOnGroup(question.verb, fold.group),
            None => Effect::Act(question.verb, question.job),
        };
    }
    if app.arrangement.is_typing {
        find(app, key.code);
        return Effect::None;
    }
    match key.code {
        KeyCode::Char('q') if app.page == Page::Overview => return Effect::Quit,
        KeyCode::Esc if app.page == Page::Overview => set_text(app, String::new()),
        KeyCode::Char('/') if app.page == Page::Overview => app.arrangement.is_typing = true,
        KeyCode::Char('s') if app.page == Page::Overview => {
            app.arrangement.sort = app.arrangement.sort.next();
            app.arrange();
        }
        KeyCode::Char('x') if app.page == Page::Overview => fold(app),
        KeyCode::Char('+') => return prioritise(app, 1),
        KeyCode::Char('-') => return prioritise(app, -1),
        KeyCode::Char('q') | KeyCode::Esc => app.open(Page::Overview),
        KeyCode::Char('?') => turn_to(app, Page::Help),
        KeyCode::Char('g') => turn_to(app, Page::Gpus),
        KeyCode::Char('l') => turn_to_job(app, Page::Log),
        KeyCode::Enter => turn_to_job(app, Page::Job),
        KeyCode::Char('c') => ask(app, Verb::Cancel),
        KeyCode::Char('h') => ask(app, Verb::Hold),
        KeyCode::Char('r') => ask(app, Verb::Release),
        code => go(app, code),
    }
    Effect::None
}

/// Takes a key of the text that is looked for.
fn find(app: &mut App, code: KeyCode) {
    let mut text = app.arrangement.text.clone();
    match code {
        KeyCode::Enter => app.arrangement.is_typing = false,
        KeyCode::Esc => {
            app.arrangement.is_typing = false;
            text.clear();
        }
        KeyCode::Backspace => _ = text.pop(),
        KeyCode::Char(letter) => text.push(letter),
        _ => {}
    }
    set_text(app, text);
}

fn set_text(app: &mut App, text: String) {
    app.arrangement.text = text;
    app.arrange();
}

/// Folds the group of the selected job, or unfolds it.
fn fold(app: &mut App) {
    let Some(group) = app.selected_job().and_then(|job| job.group) else {
        return app.refuse("this job is in no group".to_owned());
    };
    if !app.arrangement.unfolded.remove(&group) {
        app.arrangement.unfolded.insert(group);
    }
    app.arrange();
}

/// Asks for a higher or lower priority of the selected job.
fn prioritise(app: &mut App, by: i32) -> Effect {
    if matches!(app.page, Page::Gpus | Page::Help | Page::Log) {
        return Effect::None;
    }
    match app.selected_job() {
        Some(job) if app.selected_fold().is_none() && matches!(job.state, JobState::Waiting | JobState::Held) => {
            Effect::Prioritise(job.id, job.priority.saturating_add(by))
        }
        _ => {
            app.refuse("only a job that waits or is held can be given another priority".to_owned());
            Effect::None
        }
    }
}

fn turn_to(app: &mut App, page: Page) {
    app.open(if app.page == page { Page::Overview } else { page });
}

fn turn_to_job(app: &mut App, page: Page) {
    if app.selected.is_some() {
        turn_to(app, page);
    } else {
        app.refuse("there is no job to show".to_owned());
    }
}

fn ask(app: &mut App, verb: Verb) {
    // These pages do not show which job is selected.
    if matches!(app.page, Page::Gpus | Page::Help) {
        return;
    }
    match app.selected_job() {
        None => app.refuse(format!("there is no job to {}", verb.word())),
        Some(job) if job.state.is_over() => {
            app.refuse(format!("job {} is {}: there is nothing to {}", job.id, job.state.word(), verb.word()));
        }
        Some(job) => app.question = Some(Question { verb, job: job.id, group: app.selected_fold() }),
    }
}

/// Moves: the selection on the overview, the text elsewhere.
fn go(app: &mut App, code: KeyCode) {
    let page = isize::try_from(pages::height(app)).unwrap_or(1).max(1);
    let down = match code {
        KeyCode::Down | KeyCode::Char('j') => 1,
        KeyCode::Up | KeyCode::Char('k') => -1,
        KeyCode::PageDown | KeyCode::Char(' ') => page,
        KeyCode::PageUp => -page,
        KeyCode::Home => isize::MIN,
        KeyCode::End | KeyCode::Char('G') => isize::MAX,
        _ => return,
    };
    match app.page {
        Page::Overview => app.select(down),
        // A log is read from its end.
        Page::Log => app.scroll = app.scroll.saturating_add_signed(down.saturating_neg()).min(pages::scroll_max(app)),
        _ => app.scroll = app.scroll.saturating_add_signed(down).min(pages::scroll_max(app)),
    }
}

#[cfg(test)]
mod tests {
    use super::super::app::{Focus, News};
    use super::super::fixtures::{app, hit, job, room, shown, sight};
    use super::*;

    const Y: KeyCode = KeyCode::Char('y');

    #[test]
    fn nothing_is_done_to_a_job_before_the_user_agrees() {
        for (key, verb) in [('c', Verb::Cancel), ('h', Verb::Hold), ('r', Verb::Release)] {
            let mut app = room();
            assert_eq!(hit(&mut app, &[KeyCode::Char(key)]), Effect::None);
            assert_eq!(hit(&mut app, &[Y]), Effect::Act(verb, 17));
            for other in [KeyCode::Char('n'), KeyCode::Esc, KeyCode::Enter, KeyCode::Char('q'), KeyCode::Char(key)] {
                assert_eq!(hit(&mut app, &[KeyCode::Char(key), other]), Effect::None);
                assert_eq!(hit(&mut app, &[Y]), Effect::None, "the question is gone");
            }
        }
    }

    #[test]
    fn the_answer_is_for_the_job_that_was_asked_about() {
        let mut app = room();
        hit(&mut app, &[KeyCode::Char('c')]);
        app.take(News::Seen(Box::new(sight(Vec::new(), vec![job(30, JobState::Running, "another")]))));
        assert_eq!(app.selected, Some(30));
        assert_eq!(hit(&mut app, &[Y]), Effect::Act(Verb::Cancel, 17));
    }

    #[test]
    fn a_job_that_is_over_is_not_asked_about() {
        let mut app = room();
        hit(&mut app, &[KeyCode::End, KeyCode::Char('c')]);
        assert_eq!((app.question, app.notice().unwrap().text.as_str()), (None, "job 16 is done: there is nothing to cancel"));
        let mut empty = app_without_jobs();
        hit(&mut empty, &[KeyCode::Char('h'), KeyCode::Enter, KeyCode::Down, KeyCode::End]);
        assert_eq!((empty.question, empty.page, empty.selected), (None, Page::Overview, None));
    }

    fn app_without_jobs() -> App {
        app(Vec::new(), Vec::new())
    }

    #[test]
    fn the_selection_stays_with_its_job_and_goes_to_a_neighbour_when_that_is_gone() {
        let mut app = room();
        hit(&mut app, &[KeyCode::Char('j')]);
        assert_eq!(app.focus(), Focus { job: Some(18), explain: false });
        let started =
            vec![job(18, JobState::Running, "evaluate"), job(19, JobState::Held, "sweep"), job(20, JobState::Waiting, "new")];
        app.take(News::Seen(Box::new(sight(Vec::new(), started))));
        assert_eq!(app.selected, Some(18));
        app.take(News::Seen(Box::new(sight(
            Vec::new(),
            vec![job(20, JobState::Waiting, "new"), job(19, JobState::Held, "sweep")],
        ))));
        assert_eq!(app.selected, Some(20));
    }

    #[test]
    fn pages_are_opened_and_left_by_the_same_keys() {
        let mut app = room();
        for (key, page) in [
            (KeyCode::Enter, Page::Job),
            (KeyCode::Char('l'), Page::Log),
            (KeyCode::Char('g'), Page::Gpus),
            (KeyCode::Char('?'), Page::Help),
        ] {
            hit(&mut app, &[key]);
            assert_eq!(app.page, page);
            assert_eq!(
                (hit(&mut app, &[KeyCode::Char('q')]), app.page),
                (Effect::None, Page::Overview),
                "q goes back before it quits"
            );
            hit(&mut app, &[key, key]);
            assert_eq!(app.page, Page::Overview);
        }
        assert_eq!(hit(&mut app, &[KeyCode::Char('q')]), Effect::Quit);
    }

    #[test]
    fn ctrl_c_quits_from_anywhere_even_from_a_question() {
        let mut app = room();
        hit(&mut app, &[KeyCode::Char('l'), KeyCode::Char('c')]);
        assert_eq!(press(&mut app, KeyEvent::new(KeyCode::Char('c'), KeyModifiers::CONTROL)), Effect::Quit);
    }

    #[test]
    fn a_log_is_followed_until_the_user_reads_further_up() {
        let mut app = room();
        app.take(News::LogBegins(17));
        (1..=100).for_each(|line| app.take(News::LogGrew(17, format!("line {line}\n").into_bytes())));
        hit(&mut app, &[KeyCode::Char('l')]);
        assert_eq!(shown(&mut app, 80, 24)[22], "line 100");
        hit(&mut app, &[KeyCode::PageUp]);
        assert_eq!(shown(&mut app, 80, 24)[22], "line 79");
        app.take(News::LogGrew(17, b"line 101\nline 102\n".to_vec()));
        assert_eq!(shown(&mut app, 80, 24)[22], "line 79", "it stands still while it is read");
        hit(&mut app, &[KeyCode::End]);
        assert_eq!(shown(&mut app, 80, 24)[22], "line 102");
        hit(&mut app, &[KeyCode::Home]);
        assert_eq!(shown(&mut app, 80, 24)[2], "line 1");
    }

    #[test]
    fn what_came_of_an_action_is_news_for_some_seconds() {
        let mut app = room();
        app.take(News::Acted(Verb::Hold, 18, Ok(())));
        assert_eq!(app.notice().unwrap().text, "job 18 is held");
        app.now = app.now.checked_add(jiff::SignedDuration::from_secs(10)).unwrap();
        assert_eq!(app.notice(), None);
    }
}
