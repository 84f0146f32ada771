//! The default decision maker: a ridge regression that forecasts how much better than its table's mean a triple ends, learned from all
//! recorded tables at once.
//!
//! The target is the settled accuracy, standardised for each table, so that a table of large differences does not outweigh the others.
//! The penalty shrinks what the noise of single runs suggests. Which features, which penalty and whether noisy tables count less is chosen
//! inside the training tables, by leaving each of them out in turn. Blocks are described by kind and depth, not by number, so that a
//! network with any number of blocks can be decided on.

use crate::adapt::network::architecture::{Architecture, BlockKind};
use crate::adapt::record::noise::reliability;
use crate::adapt::record::reward::standardised;
use crate::adapt::record::table::{DECISIONS, Table, Triple, triple_at};
use rota_core::random::RandomStream;

/// Runs of a training table that a seed leaves out: one in this many.
const LEFT_OUT: usize = 10;

/// What an action does, whatever its number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Role {
    /// Deepens a convolution in the first half of them.
    Front,
    /// Deepens a convolution in the second half.
    Back,
    /// Deepens a dense block.
    Dense,
    /// Leaves the network as it is.
    Nothing,
}

const ROLES: [Role; 4] = [Role::Front, Role::Back, Role::Dense, Role::Nothing];

/// The role of every action of a network.
fn roles(architecture: &Architecture) -> Vec<Role> {
    let kinds = (0..architecture.blocks()).map(|block| architecture.block_kind(block)).collect::<Vec<_>>();
    let convolutions = kinds.iter().filter(|kind| **kind == Some(BlockKind::Convolution)).count();
    let mut seen = 0;
    let mut roles = Vec::with_capacity(kinds.len() + 1);
    for kind in kinds {
        roles.push(match kind {
            Some(BlockKind::Convolution) => {
                seen += 1;
                if 2 * seen <= convolutions.max(2) { Role::Front } else { Role::Back }
            }
            _ => Role::Dense,
        });
    }
    roles.push(Role::Nothing);
    roles
}

/// How much the forecast may look at; each family has the features of those before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Family {
    /// How often each role occurs.
    Counts,
    /// Counts that change with the time left.
    Time,
    /// Whether convolutions come early or late in the triple.
    Order,
    /// Squares and products of counts.
    Squares,
    /// The role at each position.
    Positions,
}

const FAMILIES: [Family; 5] = [Family::Counts, Family::Time, Family::Order, Family::Squares, Family::Positions];
const PENALTIES: [f64; 4] = [1.0, 10.0, 100.0, 1000.0];

/// What is chosen inside the training tables.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Settings {
    family: Family,
    penalty: f64,
    weighing: Weighing,
}

/// How much a table counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Weighing {
    /// Every table counts the same.
    Equal,
    /// By the part of its variance that is not noise.
    Reliability,
}

/// The settings where there is nothing to choose by: fewer than two tables.
const WITHOUT_CHOICE: Settings = Settings { family: Family::Squares, penalty: 10.0, weighing: Weighing::Equal };

/// The features of a triple when this part of the time is left.
fn features(family: Family, triple: [Role; DECISIONS], part_left: f64) -> Vec<f64> {
    let count = |role: Role| triple.iter().filter(|own| **own == role).count() as f64;
    let one = |condition: bool| f64::from(u8::from(condition));
    let [front, back, dense, nothing] = ROLES.map(count);
    let convolutions = front + back;
    let base = [convolutions, dense, nothing, one(convolutions as usize == DECISIONS), front - back];
    let mut row = base.to_vec();
    if family >= Family::Time {
        row.extend(base.map(|value| value * (part_left - 0.5)));
    }
    if family >= Family::Order {
        let deepens = |place: usize| one(matches!(triple[place], Role::Front | Role::Back));
        row.extend([deepens(0), -deepens(2), one(triple[0] == Role::Front), one(triple[2] == Role::Back)]);
    }
    if family >= Family::Squares {
        row.extend([front * front, back * back, front * back]);
    }
    if family >= Family::Positions {
        row.extend(triple.iter().flat_map(|own| ROLES.map(|role| one(*own == role))));
    }
    row
}

/// A training table, in the numbers that a fit needs.
struct Lesson {
    roles: Vec<Role>,
    part_left: f64,
    reliability: f64,
    settled: Vec<f64>,
    target: Vec<f64>,
    kept: Vec<bool>,
}

impl Lesson {
    fn new(table: &Table, stream: &mut RandomStream) -> Self {
        let settled = table.runs.iter().map(|run| run.settled).collect::<Vec<_>>();
        Self {
            roles: roles(&table.architecture),
            part_left: table.part_left(),
            reliability: reliability(table, &settled),
            target: standardised(&settled),
            kept: settled.iter().map(|_| stream.below(LEFT_OUT as u64) > 0).collect(),
            settled,
        }
    }

    fn triple(&self, place: usize) -> [Role; DECISIONS] {
        triple_at(place, self.roles.len()).map(|action| self.roles[action])
    }

    /// The sums that a fit is made of: features times features, and features times targets, both from their means.
    fn sums(&self, family: Family) -> (Vec<Vec<f64>>, Vec<f64>) {
        let places = (0..self.target.len()).filter(|place| self.kept[*place]);
        let rows = places.clone().map(|place| features(family, self.triple(place), self.part_left)).collect::<Vec<_>>();
        let targets = places.map(|place| self.target[place]).collect::<Vec<_>>();
        let width = features(family, [Role::Nothing; DECISIONS], 0.0).len();
        let count = rows.len().max(1) as f64;
        let means = (0..width).map(|at| rows.iter().map(|row| row[at]).sum::<f64>() / count).collect::<Vec<_>>();
        let mut squares = vec![vec![0.0; width]; width];
        let mut products = vec![0.0; width];
        for (row, target) in rows.iter().zip(&targets) {
            for one in 0..width {
                let value = row[one] - means[one];
                products[one] += value * target;
                for other in 0..width {
                    squares[one][other] += value * (row[other] - means[other]);
                }
            }
        }
        (squares, products)
    }
}

/// The default decision maker.
#[derive(Clone, Debug)]
pub struct Forecaster {
    family: Family,
    weights: Vec<f64>,
    /// The settings that were chosen, in words.
    pub settings: String,
}

impl Forecaster {
    /// Learns from tables; the seed leaves a tenth of the runs out.
    pub fn learn(tables: &[&Table], seed: u64) -> Self {
        let mut stream = RandomStream::new(seed, "forecast");
        let lessons = tables.iter().map(|table| Lesson::new(table, &mut stream)).collect::<Vec<_>>();
        let settings = choose(&lessons);
        let sums = lessons.iter().map(|lesson| lesson.sums(settings.family)).collect::<Vec<_>>();
        let all = lessons.iter().zip(&sums);
        let weights = fit(all, settings);
        let Settings { family, penalty, weighing } = settings;
        Self { family, weights, settings: format!("features {family:?}, penalty {penalty}, weighing {weighing:?}") }
    }

    /// The forecast of a triple, in standard deviations of its table.
    fn forecast(&self, roles: [Role; DECISIONS], part_left: f64) -> f64 {
        let row = features(self.family, roles, part_left);
        row.iter().zip(&self.weights).map(|(value, weight)| value * weight).sum()
    }

    /// The triple with the best forecast, for a network and the part of its time that is left.
    pub fn triple(&self, architecture: &Architecture, part_left: f64) -> Triple {
        let roles = roles(architecture);
        let count = roles.len();
        let forecast = |triple: &Triple| self.forecast(triple.map(|action| roles[action]), part_left);
        let triples = (0..count.pow(DECISIONS as u32)).map(|place| triple_at(place, count));
        let better = |best: (Triple, f64), triple: Triple| {
            let value = forecast(&triple);
            if value > best.1 + 1e-12 { (triple, value) } else { best }
        };
        triples.fold(([count - 1; DECISIONS], f64::NEG_INFINITY), better).0
    }
}

/// The settings with the least mean settled regret when each training table is left out in turn.
fn choose(lessons: &[Lesson]) -> Settings {
    if lessons.len() < 2 {
        return WITHOUT_CHOICE;
    }
    let mut best = (f64::INFINITY, WITHOUT_CHOICE);
    for family in FAMILIES {
        let sums = lessons.iter().map(|lesson| lesson.sums(family)).collect::<Vec<_>>();
        for penalty in PENALTIES {
            for weighing in [Weighing::Equal, Weighing::Reliability] {
                let settings = Settings { family, penalty, weighing };
                let regret = (0..lessons.len()).map(|left_out| regret_without(lessons, &sums, settings, left_out)).sum::<f64>();
                if regret < best.0 - 1e-12 {
                    best = (regret, settings);
                }
            }
        }
    }
    best.1
}

type Sums = (Vec<Vec<f64>>, Vec<f64>);

fn regret_without(lessons: &[Lesson], sums: &[Sums], settings: Settings, left_out: usize) -> f64 {
    let others = lessons.iter().zip(sums).enumerate().filter(|(place, _)| *place != left_out).map(|(_, lesson)| lesson);
    let model = Forecaster { family: settings.family, weights: fit(others, settings), settings: String::new() };
    let lesson = &lessons[left_out];
    let forecasts = (0..lesson.settled.len()).map(|place| model.forecast(lesson.triple(place), lesson.part_left));
    let better = |best: (usize, f64), (place, value): (usize, f64)| if value > best.1 + 1e-12 { (place, value) } else { best };
    let chosen = forecasts.enumerate().fold((0, f64::NEG_INFINITY), better).0;
    lesson.settled.iter().copied().fold(f64::NEG_INFINITY, f64::max) - lesson.settled[chosen]
}

fn fit<'a>(lessons: impl Iterator<Item = (&'a Lesson, &'a Sums)>, settings: Settings) -> Vec<f64> {
    let width = features(settings.family, [Role::Nothing; DECISIONS], 0.0).len();
    let mut squares = vec![vec![0.0; width]; width];
    let mut products = vec![0.0; width];
    for (lesson, (own_squares, own_products)) in lessons {
        let weight = match settings.weighing {
            Weighing::Equal => 1.0,
            Weighing::Reliability => lesson.reliability.max(1e-3),
        };
        for (row, own) in squares.iter_mut().zip(own_squares) {
            row.iter_mut().zip(own).for_each(|(value, own)| *value += weight * own);
        }
        products.iter_mut().zip(own_products).for_each(|(value, own)| *value += weight * own);
    }
    squares.iter_mut().enumerate().for_each(|(place, row)| row[place] += settings.penalty);
    solve(squares, products)
}

/// Solves a symmetric positive system by Cholesky's method.
fn solve(mut matrix: Vec<Vec<f64>>, mut right: Vec<f64>) -> Vec<f64> {
    let count = right.len();
    for column in 0..count {
        for row in column..count {
            let known = (0..column).map(|at| matrix[row][at] * matrix[column][at]).sum::<f64>();
            let rest = matrix[row][column] - known;
            matrix[row][column] = if row == column { rest.max(1e-12).sqrt() } else { rest / matrix[column][column] };
        }
    }
    for row in 0..count {
        let known = (0..row).map(|at| matrix[row][at] * right[at]).sum::<f64>();
        right[row] = (right[row] - known) / matrix[row][row];
    }
    for row in (0..count).rev() {
        let known = (row + 1..count).map(|at| matrix[at][row] * right[at]).sum::<f64>();
        right[row] = (right[row] - known) / matrix[row][row];
    }
    right
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::adapt::network::architecture::{FinalRelu, InputShape, ModelKind};
    use crate::adapt::record::table::tests::example;

    #[test]
    fn a_system_is_solved() {
        let solved = solve(vec![vec![4.0, 2.0], vec![2.0, 3.0]], vec![10.0, 8.0]);
        assert!((solved[0] - 1.75).abs() < 1e-12 && (solved[1] - 1.5).abs() < 1e-12, "{solved:?}");
    }

    #[test]
    fn what_was_best_in_other_tables_is_chosen_for_any_number_of_blocks() {
        // In the example deepening the first convolution is best, then the second; dense and nothing are worst.
        let table = example();
        let model = Forecaster::learn(&[&table, &table], 1);
        assert_eq!(model.triple(&table.architecture, 0.5), [0, 0, 0]);
        let large = Architecture::new(ModelKind::LargeConvNet, InputShape::CIFAR, FinalRelu::Dropped).unwrap();
        let triple = model.triple(&large, 0.5);
        assert!(triple.iter().all(|action| *action < 3), "{triple:?}");
        let dense = Architecture::new(ModelKind::FeedForward2, InputShape::CIFAR, FinalRelu::Dropped).unwrap();
        assert!(model.triple(&dense, 0.5).iter().all(|action| *action < 2));
    }
}
