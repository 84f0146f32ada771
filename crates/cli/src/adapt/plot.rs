//! `rota adapt plot`: learns what the study learned (from scratch, by transfers, by curricula) and draws its 25 plots.

use crate::args::AdaptPlotArgs;
use crate::output::{make_directory, print, print_json, progress, write_file};
use rayon::prelude::*;
use rota_core::random::RandomStream;
use rota_learn::adapt::choose::game::Game;
use rota_learn::adapt::choose::policy::PolicyNetwork;
use rota_learn::adapt::choose::reinforce::{Learner, RATE};
use rota_learn::adapt::choose::vocabulary::Vocabulary;
use rota_learn::adapt::record::reward::tangents;
use rota_learn::adapt::record::table::{Table, find, read_tables};
use rota_report::{Look, PointChart, PointSeries, point_chart};

/// Scenarios by their letters in names of plots.
const SCENARIOS: [(&str, &str); 5] =
    [("E", "early"), ("EM", "early_middle"), ("M", "middle"), ("ML", "middle_late"), ("L", "late")];
/// Dots and points of a line that are drawn at most.
const DRAWN_MAX: usize = 1500;
/// Random triples that the baseline is the mean of.
const BASELINE: usize = 10;

/// One step of learning: a scenario, and the temperature that it begins with.
type Lesson = (&'static str, f64);

/// What a chain of lessons gave: the policy, and objective and accuracy of each episode of the last lesson.
struct Learned {
    network: PolicyNetwork,
    objective: Vec<f64>,
    accuracy: Vec<f64>,
}

struct School<'a> {
    tables: &'a [Table],
    vocabulary: Vocabulary,
    seed: u64,
    episodes_max: u64,
}

impl School<'_> {
    fn table(&self, model: &str, scenario: &str) -> anyhow::Result<&Table> {
        Ok(find(self.tables, &format!("{model}/{scenario}"))?)
    }

    /// Learns a chain on `ConvNet2`: the first scenario from scratch, each further one from the policy before.
    fn learn(&self, chain: &[Lesson]) -> anyhow::Result<Learned> {
        let mut network = PolicyNetwork::random(4, &mut RandomStream::new(self.seed, "policy"));
        let (mut objective, mut accuracy) = (Vec::new(), Vec::new());
        for (place, (scenario, temperature)) in chain.iter().enumerate() {
            let table = self.table("ConvNet2", scenario)?;
            let game = Game::new(table, &self.vocabulary)?;
            let rewards = tangents(table)?;
            let episodes = match (place, *scenario) {
                (0, "early") => 75_000,
                (0, "middle") => 20_000,
                _ => 10_000,
            };
            let mut learner = Learner::new(network, RATE, *temperature);
            let mut stream = RandomStream::new(self.seed, &format!("episodes {chain:?} {place}"));
            (objective, accuracy) = (Vec::new(), Vec::new());
            for _ in 0..episodes.min(self.episodes_max) {
                let episode = learner.play(&game, &rewards, &mut stream);
                objective.push(episode.objective);
                accuracy.push(table.run(episode.triple).accuracy);
            }
            network = learner.network;
        }
        Ok(Learned { network, objective, accuracy })
    }
}

/// A transfer with several temperatures: from, to, the temperatures, and the ends of the axis of accuracy.
type Exploration = (&'static str, &'static str, &'static [f64], (f64, f64));

/// Chains whose curves are drawn together: a name, the target scenario, and the chains with their names.
struct Group {
    name: String,
    title: String,
    accuracy_range: (f64, f64),
    curves: Vec<(String, Vec<Lesson>)>,
    jumpstart: bool,
}

fn groups() -> Vec<Group> {
    let explorations: [Exploration; 4] = [
        ("early", "late", &[1.0, 10.0], (0.55, 0.70)),
        ("early", "middle", &[1.0, 10.0, 100.0, 1000.0], (0.60, 0.75)),
        ("middle", "early", &[1.0, 10.0], (0.60, 0.75)),
        ("middle", "late", &[1.0, 10.0], (0.55, 0.70)),
    ];
    let exploring = explorations.into_iter().map(|(from, to, temperatures, accuracy_range)| Group {
        name: format!("exploration_{from}_to_{to}"),
        title: format!("ConvNet2, {from} to {to}: temperatures"),
        accuracy_range,
        curves: temperatures.iter().map(|heat| (format!("T = {heat}"), vec![(from, 1.0), (to, *heat)])).collect(),
        jumpstart: false,
    });
    let transfers = [("late", "early", 1.0), ("late", "middle", 1.0), ("early", "middle", 1.0), ("early", "late", 10.0)];
    let transferring = transfers.into_iter().map(|(from, to, heat)| Group {
        name: format!("transfer_{from}_to_{to}"),
        title: format!("ConvNet2, {from} to {to}: a transfer against learning from scratch"),
        accuracy_range: (0.55, 0.75),
        curves: vec![
            ("from scratch".to_owned(), vec![(to, 1.0)]),
            (format!("from {from}, T = {heat}"), vec![(from, 1.0), (to, heat)]),
        ],
        jumpstart: true,
    });
    exploring.chain(transferring).collect()
}

/// Curricula of three scenarios: the name, the lessons, and the models and scenarios that each is drawn on.
const CURRICULA: [(&str, [Lesson; 3], bool); 4] = [
    ("lme", [("late", 1.0), ("middle", 1.0), ("early", 1.0)], true),
    ("elm", [("early", 1.0), ("late", 10.0), ("middle", 1.0)], true),
    ("lem", [("late", 1.0), ("early", 1.0), ("middle", 1.0)], false),
    ("eml", [("early", 1.0), ("middle", 1.0), ("late", 1.0)], false),
];

pub fn run(args: &AdaptPlotArgs) -> anyhow::Result<()> {
    let tables = read_tables(&args.tables)?;
    let episodes_max = args.episodes_max.unwrap_or(u64::MAX);
    let school = School { tables: &tables, vocabulary: Vocabulary::compat(args.seed), seed: args.seed, episodes_max };
    for model in ["ConvNet2", "ConvNet3"] {
        for (_, scenario) in SCENARIOS {
            school.table(model, scenario)?;
        }
    }
    make_directory(&args.out)?;
    let (groups, scratch) = (groups(), ["early", "middle", "late"]);
    let mut chains = scratch.map(|scenario| vec![(scenario, 1.0)]).to_vec();
    chains.extend(groups.iter().flat_map(|group| group.curves.iter().map(|(_, chain)| chain.clone())));
    chains.extend(CURRICULA.iter().map(|(_, lessons, _)| lessons.to_vec()));
    let bar = progress(chains.len() as u64, "policies");
    let learned = chains.par_iter().map(|chain| {
        let learned = school.learn(chain);
        bar.inc(1);
        learned
    });
    let learned = learned.collect::<anyhow::Result<Vec<_>>>()?;
    bar.finish_and_clear();
    let of = |chain: &[Lesson]| chains.iter().position(|other| other == chain).map(|place| &learned[place]);
    let mut charts: Vec<(String, PointChart)> = Vec::new();
    for scenario in scratch {
        if let Some(learned) = of(&[(scenario, 1.0)]) {
            charts.push((format!("objective_simulation_{scenario}_learn2"), scratch_chart(scenario, learned)));
        }
    }
    for group in &groups {
        let curves = group.curves.iter().filter_map(|(name, chain)| Some((name.as_str(), of(chain)?))).collect::<Vec<_>>();
        charts.push((format!("objective_{}", group.name), objective_chart(group, &curves)));
        charts.push((format!("accuracy_{}", group.name), accuracy_chart(group, &curves)));
    }
    for (name, lessons, every) in &CURRICULA {
        let Some(learned) = of(lessons) else { continue };
        let models = if *every { &["ConvNet2", "ConvNet3"][..] } else { &["ConvNet2"] };
        for model in models {
            let file = format!("acc_{name}_{}_{}", if *every { "all" } else { "some" }, model.to_lowercase());
            charts.push((file, scenario_chart(&school, name, model, *every, &learned.network)?));
        }
    }
    let names = charts.iter().map(|(name, _)| format!("{name}.svg")).collect::<Vec<_>>();
    for (name, (_, chart)) in names.iter().zip(&charts) {
        write_file(&args.out.join(name), |file| Ok(file.write_all(point_chart(chart).as_bytes())?))?;
    }
    if args.json { print_json(&names) } else { print(&format!("wrote {} plots to {}", names.len(), args.out.display())) }
}

/// The mean over a window, drawn at the window's first episode; few enough points to be drawn.
fn running_mean(values: &[f64], window: usize) -> Vec<(f64, f64)> {
    let window = window.min(values.len()).max(1);
    let count = values.len() + 1 - window;
    let every = count.div_ceil(DRAWN_MAX).max(1);
    let mean = |first: usize| values[first..first + window].iter().sum::<f64>() / window as f64;
    (0..count).step_by(every).map(|first| (first as f64, mean(first))).collect()
}

fn dots(values: &[f64]) -> Vec<(f64, f64)> {
    let every = values.len().div_ceil(DRAWN_MAX).max(1);
    values.iter().enumerate().step_by(every).map(|(episode, value)| (episode as f64, *value)).collect()
}

fn scratch_chart(scenario: &str, learned: &Learned) -> PointChart {
    let raw = PointSeries { name: "episode".to_owned(), points: dots(&learned.objective), look: Look::Dots, colour: 0 };
    let points = running_mean(&learned.objective, 75);
    let mean = PointSeries { name: "mean of 75 episodes".to_owned(), points, look: Look::Line, colour: 1 };
    PointChart {
        title: format!("ConvNet2, {scenario}: learning from scratch"),
        subtitle: "objective: mean of -log p · reward over the three decisions".to_owned(),
        x_name: "episode".to_owned(),
        y_name: "objective".to_owned(),
        series: vec![raw, mean],
        ..PointChart::default()
    }
}

fn objective_chart(group: &Group, curves: &[(&str, &Learned)]) -> PointChart {
    let series = curves.iter().enumerate().map(|(colour, (name, learned))| PointSeries {
        name: (*name).to_owned(),
        points: running_mean(&learned.objective, 50),
        look: Look::Line,
        colour,
    });
    let series = series.collect::<Vec<_>>();
    let highest = series.iter().flat_map(|series| &series.points).map(|point| point.1).fold(0.0, f64::max);
    let first = |place: usize| series.get(place).and_then(|series| series.points.first()).copied();
    let arrow = first(0).zip(first(1)).filter(|_| group.jumpstart);
    PointChart {
        title: group.title.clone(),
        subtitle: "objective, mean of 50 episodes".to_owned(),
        x_name: "episode".to_owned(),
        y_name: "objective".to_owned(),
        y_range: Some((0.0, highest.max(1e-9))),
        arrow: arrow.map(|(from, to)| (from, to, "jumpstart".to_owned())),
        series,
        ..PointChart::default()
    }
}

fn accuracy_chart(group: &Group, curves: &[(&str, &Learned)]) -> PointChart {
    let series = curves.iter().enumerate().map(|(colour, (name, learned))| PointSeries {
        name: (*name).to_owned(),
        points: dots(&learned.accuracy),
        look: Look::Line,
        colour,
    });
    PointChart {
        title: group.title.clone(),
        subtitle: "final accuracy of each episode".to_owned(),
        x_name: "episode".to_owned(),
        y_name: "accuracy".to_owned(),
        y_range: Some(group.accuracy_range),
        series: series.collect(),
        ..PointChart::default()
    }
}

/// Baseline, agent and best for each scenario; the agent is the curriculum's last policy, never the one that it came from.
fn scenario_chart(
    school: &School<'_>,
    name: &str,
    model: &str,
    every: bool,
    network: &PolicyNetwork,
) -> anyhow::Result<PointChart> {
    let shown = SCENARIOS.iter().filter(|(letter, _)| every || letter.len() == 1).collect::<Vec<_>>();
    let (mut baseline, mut agent, mut best, mut nothing) = (Vec::new(), Vec::new(), Vec::new(), 0.0);
    for (place, (_, scenario)) in shown.iter().enumerate() {
        let table = school.table(model, scenario)?;
        let x = place as f64;
        baseline.push((x, random_mean(table)));
        let (triple, _) = Game::new(table, &school.vocabulary)?.greedy(network);
        agent.push((x, table.run(triple).accuracy));
        best.push((x, table.best()));
        nothing += table.run(table.nothing()).accuracy / shown.len() as f64;
    }
    let series = |name: &str, points, look, colour| PointSeries { name: name.to_owned(), points, look, colour };
    Ok(PointChart {
        title: format!("{model}: the curriculum {} learned on ConvNet2", name.to_uppercase()),
        subtitle: format!("baseline: mean of {BASELINE} random triples; best: the best triple of the table"),
        x_name: "scenario".to_owned(),
        y_name: "accuracy".to_owned(),
        y_range: Some((0.0, 1.0)),
        cases: shown.iter().map(|(_, scenario)| scenario.replace('_', "-")).collect(),
        series: vec![
            series("baseline", baseline, Look::Plus, 0),
            series("agent", agent, Look::Cross, 1),
            series("best", best, Look::Triangle, 2),
        ],
        level: Some((nothing, "nothing, mean over scenarios".to_owned())),
        arrow: None,
    })
}

/// The mean accuracy of some triples, drawn without replacement.
fn random_mean(table: &Table) -> f64 {
    let mut places = (0..table.runs.len()).collect::<Vec<_>>();
    let mut stream = RandomStream::new(42, &table.name());
    let drawn = (0..BASELINE.min(places.len())).map(|_| places.swap_remove(stream.below(places.len() as u64) as usize));
    let drawn = drawn.collect::<Vec<_>>();
    drawn.iter().map(|place| table.runs[*place].accuracy).sum::<f64>() / drawn.len() as f64
}
