//! Colours and emphasis. Every difference that colours make is also made by a word or a sign, so that none are needed.

use crate::live::top::app::App;
use crate::live::top::pages::Tone;
use ratatui::style::{Color, Modifier, Style};
use rota_daemon::api::{GpuState, JobState};

/// How things look: the terminal's own sixteen colours, or none.
#[derive(Clone, Copy, Debug)]
pub struct Looks {
    has_colours: bool,
}

#[expect(clippy::unused_self, reason = "all looks are asked of one place, whether they depend on colours or not")]
impl Looks {
    /// As the user wants it.
    pub fn of(app: &App) -> Self {
        Self { has_colours: !app.is_plain }
    }

    fn colour(self, colour: Color) -> Style {
        if self.has_colours { Style::new().fg(colour) } else { Style::new() }
    }

    /// The line at the top.
    pub fn bar(self) -> Style {
        Style::new().add_modifier(Modifier::REVERSED)
    }

    /// The style of titles.
    pub fn heading(self) -> Style {
        self.colour(Color::Cyan).add_modifier(Modifier::BOLD)
    }

    /// The style of less important text.
    pub fn dim(self) -> Style {
        Style::new().add_modifier(Modifier::DIM)
    }

    /// The style of warnings.
    pub fn warning(self) -> Style {
        self.colour(Color::Yellow).add_modifier(Modifier::BOLD)
    }

    /// The style of failures.
    pub fn alert(self) -> Style {
        self.colour(Color::Red).add_modifier(Modifier::BOLD | Modifier::REVERSED)
    }

    /// The style of successes.
    pub fn good(self) -> Style {
        self.colour(Color::Green).add_modifier(Modifier::BOLD)
    }

    /// The style of questions.
    pub fn question(self) -> Style {
        self.colour(Color::Yellow).add_modifier(Modifier::BOLD | Modifier::REVERSED)
    }

    /// The selected row.
    pub fn selected(self) -> Style {
        Style::new().add_modifier(Modifier::REVERSED)
    }

    /// The word that tells a virtual GPU from a real one.
    pub fn badge(self) -> Style {
        self.colour(Color::Magenta)
    }

    /// A row of a page.
    pub fn tone(self, tone: Tone) -> Style {
        match tone {
            Tone::Plain => Style::new(),
            Tone::Heading => Style::new().add_modifier(Modifier::BOLD),
            Tone::Alert => self.warning(),
        }
    }

    /// A job's state.
    pub fn state(self, state: JobState) -> Style {
        match state {
            JobState::Running | JobState::Starting => self.colour(Color::Green),
            JobState::Waiting | JobState::Stopping => self.colour(Color::Yellow),
            JobState::Held => self.colour(Color::Magenta),
            JobState::Failed | JobState::Lost => self.colour(Color::Red),
            JobState::Done | JobState::Cancelled => self.dim(),
        }
    }

    /// A GPU's state.
    pub fn gpu(self, state: GpuState) -> Style {
        match state {
            GpuState::Free => self.dim(),
            GpuState::Shared | GpuState::Full => self.colour(Color::Green),
            GpuState::Stranger | GpuState::Drained => self.colour(Color::Yellow),
            GpuState::Lost => self.colour(Color::Red).add_modifier(Modifier::BOLD),
        }
    }

    /// The part of a job in a bar.
    pub fn job(self, id: u64) -> Style {
        const COLOURS: [Color; 5] = [Color::Green, Color::Blue, Color::Cyan, Color::Magenta, Color::LightGreen];
        self.colour(COLOURS[(id % COLOURS.len() as u64) as usize])
    }

    /// The part of a stranger in a bar.
    pub fn stranger(self) -> Style {
        self.colour(Color::Red)
    }

    /// The style of bars that show how busy a GPU is.
    pub fn busy(self) -> Style {
        self.colour(Color::Green)
    }
}
