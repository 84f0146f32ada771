//! A table as a game of three decisions: what a policy sees before each of them. There are 21 such states with four actions.

use crate::adapt::choose::policy::{PolicyState, time_encoding};
use crate::adapt::choose::vocabulary::{Vocabulary, VocabularyError};
use crate::adapt::record::table::{DECISIONS, Table, TableError, Triple};

/// The states of a table, by the actions before them.
#[derive(Clone, Debug)]
pub struct Game {
    actions: usize,
    states: Vec<PolicyState>,
}

/// A table that a vocabulary cannot describe.
#[derive(Debug, thiserror::Error)]
#[expect(missing_docs, reason = "the messages say it")]
pub enum GameError {
    #[error(transparent)]
    Table(#[from] TableError),
    #[error(transparent)]
    Vocabulary(#[from] VocabularyError),
    #[error("the policy chooses from {policy} actions, but {table} has {actions}")]
    Actions { policy: usize, table: String, actions: usize },
}

impl Game {
    /// The game of a table. The time left is that of the triple made of the actions so far and zeros, as in the study.
    pub fn new(table: &Table, vocabulary: &Vocabulary) -> Result<Self, GameError> {
        let actions = table.actions();
        let mut states = Vec::new();
        for step in 0..DECISIONS {
            for place in 0..actions.pow(step as u32) {
                let mut triple = [0; DECISIONS];
                let before = (0..step).map(|earlier| place / actions.pow((step - 1 - earlier) as u32) % actions);
                triple.iter_mut().zip(before).for_each(|(target, action)| *target = action);
                let grown = table.architecture.after(&triple[..step]).map_err(TableError::from)?;
                let left_s = table.run(triple).time_left_s[step];
                let time = time_encoding(left_s, table.total_s);
                states.push(PolicyState { layers: vocabulary.rows(grown.leaves())?, time });
            }
        }
        Ok(Self { actions, states })
    }

    /// The number of the state after these actions.
    pub fn place(&self, before: &[usize]) -> usize {
        let first = (0..before.len()).map(|step| self.actions.pow(step as u32)).sum::<usize>();
        first + before.iter().fold(0, |place, action| place * self.actions + action)
    }

    /// The state after these actions.
    pub fn state(&self, before: &[usize]) -> &PolicyState {
        &self.states[self.place(before)]
    }

    /// The states of the game, each at its place.
    pub fn states(&self) -> &[PolicyState] {
        &self.states
    }

    /// The triple that a policy's most probable actions make, with the probabilities at each step.
    pub fn greedy(&self, network: &crate::adapt::choose::policy::PolicyNetwork) -> (Triple, [Vec<f32>; DECISIONS]) {
        let mut decision = crate::adapt::choose::policy::Decision::default();
        let mut triple = [0; DECISIONS];
        let mut probabilities: [Vec<f32>; DECISIONS] = Default::default();
        for step in 0..DECISIONS {
            network.decide(self.state(&triple[..step]), &mut decision);
            triple[step] = decision.greedy();
            probabilities[step].clone_from(&decision.probabilities);
        }
        (triple, probabilities)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::adapt::record::table::tests::example;

    #[test]
    fn every_history_has_a_state_of_its_own() {
        let game = Game::new(&example(), &Vocabulary::Free(1)).unwrap();
        assert_eq!(game.states().len(), 21);
        assert_eq!((game.place(&[]), game.place(&[0]), game.place(&[3]), game.place(&[3, 3])), (0, 1, 4, 20));
        let rows = |before: &[usize]| game.state(before).layers.len() / crate::adapt::choose::vocabulary::EMBEDDING;
        assert_eq!((rows(&[]), rows(&[0]), rows(&[0, 1]), rows(&[3, 2])), (10, 13, 16, 12));
    }
}
