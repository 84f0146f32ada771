//! Colours that people with any colour vision can tell apart, the same for the same thing in every picture.

use rota_core::{Bound, Job, JobId, Name};
use std::collections::HashMap;

/// Series colours, after Okabe and Ito, without their yellow, which drowns on white.
pub(crate) const SERIES: [&str; 8] = ["#0072b2", "#d55e00", "#009e73", "#cc79a7", "#56b4e9", "#e69f00", "#5b5f97", "#8a6d3b"];
/// Everything that did not get a colour of its own.
pub(crate) const OTHER: &str = "#8d99a6";
/// Time spent waiting.
pub(crate) const WAITING: &str = "#dde4ec";
/// Time a node was away.
pub(crate) const AWAY: &str = "#c3cad3";
/// The colour of attempts that failed.
pub(crate) const FAILED: &str = "#8b0000";

/// Lines at full strength in one picture. An eye cannot follow more of them; the others are pale.
pub(crate) const STRONG_SERIES: usize = 6;
/// The dashes of lines whose colour was used before, by how often it was used.
const DASHES: [&str; 4] = ["", "6 3", "2 3", "10 3 2 3"];

/// The colour of the policy at a position among those compared.
pub(crate) fn policy_colour(position: usize) -> &'static str {
    SERIES[position % STRONG_SERIES]
}

/// How the line of one policy looks. The line and its entry in the legend are both drawn by it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SeriesLook {
    /// The position of the policy, by which a page finds its line and its entry in the legend.
    pub position: usize,
    pub colour: &'static str,
    /// Lengths of dashes and gaps; empty for a solid line.
    pub dash: &'static str,
    /// Whether the line is among those at full strength.
    pub is_strong: bool,
}

impl SeriesLook {
    /// The look of the policy at a position: solid colours first, then the same colours with dashes, and pale.
    pub fn of(position: usize) -> Self {
        Self {
            position,
            colour: policy_colour(position),
            dash: DASHES[(position / STRONG_SERIES) % DASHES.len()],
            is_strong: position < STRONG_SERIES,
        }
    }

    /// The attributes of a line with this look.
    pub fn stroke(self, width: f64) -> String {
        let dash = if self.dash.is_empty() { String::new() } else { format!(r#" stroke-dasharray="{}""#, self.dash) };
        let (width, pale) = if self.is_strong { (width, "") } else { (width * 0.6, r#" stroke-opacity="0.4""#) };
        let (position, colour) = (self.position, self.colour);
        format!(r#"class="s{position}" fill="none" stroke="{colour}" stroke-width="{width}" stroke-linejoin="round"{dash}{pale}"#)
    }
}

/// A colour mixed with white: `strength` 1 is the colour itself.
pub(crate) fn tint(colour: &str, strength: f64) -> String {
    let channel = |from: usize| u8::from_str_radix(colour.get(from..from + 2).unwrap_or("80"), 16).unwrap_or(128);
    let mixed = [1, 3, 5].map(|from| (255.0 + (f64::from(channel(from)) - 255.0) * strength).round() as u8);
    format!("#{:02x}{:02x}{:02x}", mixed[0], mixed[1], mixed[2])
}

/// Whether white text reads better on a colour than black.
pub(crate) fn is_dark(colour: &str) -> bool {
    let channel = |from: usize| f64::from(u8::from_str_radix(colour.get(from..from + 2).unwrap_or("80"), 16).unwrap_or(128));
    0.299 * channel(1) + 0.587 * channel(3) + 0.114 * channel(5) < 140.0
}

/// What the colours of jobs stand for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Meaning {
    Kind,
    User,
    Job,
    Nothing,
}

/// The colours of jobs: by type where there are types, else by user, else by job where these are few.
pub(crate) struct JobColours {
    meaning: Meaning,
    of_name: HashMap<Name, usize>,
    legend: Vec<(String, String)>,
}

impl JobColours {
    pub fn of(bound: &Bound) -> Self {
        for (meaning, name_of) in [(Meaning::Kind, kind_of as fn(&Job) -> Name), (Meaning::User, user_of)] {
            let mut counts: HashMap<Name, usize> = HashMap::new();
            for job in &bound.jobs {
                *counts.entry(name_of(job)).or_default() += 1;
            }
            if counts.len() >= 2 {
                return Self::by_name(bound, meaning, counts);
            }
        }
        let meaning = if bound.jobs.len() <= SERIES.len() { Meaning::Job } else { Meaning::Nothing };
        Self { meaning, of_name: HashMap::new(), legend: Vec::new() }
    }

    /// The most frequent names get colours; the others share one.
    fn by_name(bound: &Bound, meaning: Meaning, counts: HashMap<Name, usize>) -> Self {
        let mut names = counts.into_iter().map(|(name, count)| (name, count, bound.names.text(name))).collect::<Vec<_>>();
        names.sort_by(|a, b| b.1.cmp(&a.1).then(a.2.cmp(b.2)));
        let coloured = names.len().min(SERIES.len());
        let mut legend = Vec::new();
        for (position, (_, _, text)) in names.iter().take(coloured).enumerate() {
            let shown = if text.is_empty() { "(none)" } else { text };
            legend.push((SERIES[position].to_owned(), shown.to_owned()));
        }
        if names.len() > coloured {
            let what = if meaning == Meaning::Kind { "types" } else { "users" };
            legend.push((OTHER.to_owned(), format!("{} other {what}", names.len() - coloured)));
        }
        let of_name = names.iter().take(coloured).enumerate().map(|(position, entry)| (entry.0, position)).collect();
        Self { meaning, of_name, legend }
    }

    /// How many different colours there are, [`JobColours::OTHER_INDEX`] included.
    pub const COUNT: usize = SERIES.len() + 1;
    const OTHER_INDEX: usize = SERIES.len();

    /// The number of a job's colour.
    pub fn index(&self, bound: &Bound, job: JobId) -> usize {
        let named = |name: Name| self.of_name.get(&name).copied().unwrap_or(Self::OTHER_INDEX);
        match self.meaning {
            Meaning::Kind => named(bound.job(job).kind),
            Meaning::User => named(bound.job(job).user),
            Meaning::Job => job.index() % SERIES.len(),
            Meaning::Nothing => 0,
        }
    }

    /// The colour of a number.
    pub fn colour(index: usize) -> &'static str {
        SERIES.get(index).copied().unwrap_or(OTHER)
    }

    /// What the colours stand for: `coloured by job type`.
    pub fn meaning(&self) -> &'static str {
        match self.meaning {
            Meaning::Kind => "coloured by job type",
            Meaning::User => "coloured by user",
            Meaning::Job => "one colour a job",
            Meaning::Nothing => "",
        }
    }

    /// Colours and names, most frequent first; empty where a name would say nothing.
    pub fn legend(&self) -> &[(String, String)] {
        &self.legend
    }
}

fn kind_of(job: &Job) -> Name {
    job.kind
}

fn user_of(job: &Job) -> Name {
    job.user
}
