//! `rota top`: the dashboard. Threads bring keys, signals and the daemon's answers; [`app`] folds them into what is known, [`draw`]
//! shows it. The terminal is given back as it was, whatever happens.

mod app;
mod arrange;
mod draw;
mod feed;
#[cfg(test)]
mod fixtures;
mod history;
mod input;
mod pages;
mod tail;
mod tenants;
mod words;

use crate::live::args::TopArgs;
use crate::live::client::{Client, Failure};
use anyhow::{Context, bail};
use app::{App, News};
use crossterm::event::Event;
use feed::Request;
use input::Effect;
use jiff::Timestamp;
use ratatui::DefaultTerminal;
use std::io::{self, IsTerminal};
use std::process::ExitCode;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::Duration;
use tokio::sync::mpsc::UnboundedSender;
use words::plain;

/// The screen is looked after at least so often: ages go on while nothing happens.
const TICK: Duration = Duration::from_secs(1);

/// What the dashboard's loop waits for.
enum Message {
    /// A key, or a change of the terminal's size.
    Terminal(Event),
    /// The terminal cannot be read any more.
    TerminalLost(io::Error),
    /// News from the daemon.
    News(News),
    /// A signal to end.
    Stop(u8),
}

/// Draws until the user has seen enough.
pub fn run(args: &TopArgs) -> anyhow::Result<ExitCode> {
    let is_dumb = std::env::var_os("TERM").is_some_and(|term| term == "dumb");
    if !io::stdout().is_terminal() || is_dumb {
        bail!(
            "`rota top` draws on a terminal, and stdout is none (or TERM is dumb); `rota status` and `rota queue` print once, with --json for programs"
        );
    }
    let client = Client::new(&args.state);
    // No daemon at all is told as every command tells it; one that goes away later is waited for.
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let sight = runtime.block_on(feed::look(&client))?;
    let mut app = App::new(sight, Timestamp::now(), args.interval);
    app.is_plain = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());

    let (sender, inbox) = channel();
    let (requests, asked) = tokio::sync::mpsc::unbounded_channel();
    let every = Duration::from_secs_f64(args.interval);
    let stop = sender.clone();
    start("signals", move || wait_for_signals(&stop))?;
    // Its end, even by a panic, ends the channel below: the screen does not stand still for ever.
    let (alive, is_alive) = channel::<()>();
    let news = sender.clone();
    start("daemon", move || {
        let _alive = alive;
        runtime.block_on(feed::run(&client, every, asked, |told| news.send(Message::News(told)).is_ok()));
    })?;

    let _given_back = GivenBack;
    let mut terminal = ratatui::try_init().context("preparing the terminal")?;
    start("keys", move || read_terminal(&sender))?;
    let code = watch(&mut terminal, &mut app, &inbox, &requests, &is_alive)?;
    Ok(ExitCode::from(code))
}

fn start(name: &str, work: impl FnOnce() + Send + 'static) -> io::Result<()> {
    std::thread::Builder::new().name(name.to_owned()).spawn(work).map(|_| ())
}

/// Gives the terminal back when it goes. A panic does so before its message, through the hook that `try_init` sets.
struct GivenBack;

impl Drop for GivenBack {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            // A terminal that is gone needs nothing back.
            _ = ratatui::try_restore();
        }
    }
}

/// Folds and draws until something ends it; the exit code.
fn watch(
    terminal: &mut DefaultTerminal,
    app: &mut App,
    inbox: &Receiver<Message>,
    requests: &UnboundedSender<Request>,
    is_alive: &Receiver<()>,
) -> anyhow::Result<u8> {
    let mut focus = None;
    loop {
        if focus != Some(app.focus()) {
            focus = Some(app.focus());
            _ = requests.send(Request::Look(app.focus()));
        }
        let size = terminal.size().context("asking for the terminal's size")?;
        app.size = (size.width, size.height);
        terminal.draw(|frame| draw::screen(app, frame)).context("drawing")?;
        let mut next = match inbox.recv_timeout(TICK) {
            Ok(message) => Some(message),
            Err(RecvTimeoutError::Timeout) => None,
            Err(RecvTimeoutError::Disconnected) => return Ok(0),
        };
        app.now = Timestamp::now();
        // Everything that has happened meanwhile is one change of the screen.
        while let Some(message) = next {
            match message {
                Message::News(news) => app.take(news),
                Message::Stop(code) => return Ok(code),
                Message::TerminalLost(error) => return Err(error).context("reading the terminal"),
                Message::Terminal(Event::Key(key)) => match input::press(app, key) {
                    Effect::None => {}
                    Effect::Quit => return Ok(0),
                    Effect::Redraw => terminal.clear().context("drawing")?,
                    Effect::Act(verb, job) => _ = requests.send(Request::Act(verb, job)),
                    Effect::ActOnGroup(verb, group) => _ = requests.send(Request::ActOnGroup(verb, group)),
                    Effect::Prioritise(job, priority) => _ = requests.send(Request::Prioritise(job, priority)),
                },
                // A new size is asked for before every drawing.
                Message::Terminal(_) => {}
            }
            next = inbox.try_recv().ok();
        }
        if is_alive.try_recv() == Err(std::sync::mpsc::TryRecvError::Disconnected) {
            return Err(anyhow::Error::new(Failure("the part that speaks to the daemon has failed".to_owned())));
        }
    }
}

fn read_terminal(sender: &Sender<Message>) {
    loop {
        let message = match crossterm::event::read() {
            Ok(event) => Message::Terminal(event),
            Err(error) => {
                _ = sender.send(Message::TerminalLost(error));
                return;
            }
        };
        if sender.send(message).is_err() {
            return;
        }
    }
}

/// In raw mode ctrl-c is a key. A signal from elsewhere must restore the terminal all the same.
fn wait_for_signals(sender: &Sender<Message>) {
    use tokio::signal::unix::{SignalKind, signal};
    let Ok(runtime) = tokio::runtime::Builder::new_current_thread().enable_all().build() else { return };
    runtime.block_on(async {
        let kinds = [SignalKind::interrupt(), SignalKind::terminate(), SignalKind::hangup()];
        let [Ok(mut interrupt), Ok(mut terminate), Ok(mut hangup)] = kinds.map(signal) else { return };
        let number = tokio::select! {
            _ = interrupt.recv() => kinds[0],
            _ = terminate.recv() => kinds[1],
            _ = hangup.recv() => kinds[2],
        };
        // As a shell tells a death by a signal.
        _ = sender.send(Message::Stop(u8::try_from(128 + number.as_raw_value()).unwrap_or(1)));
    });
}
