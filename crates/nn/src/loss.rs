//! Softmax and cross entropy.

/// Turns scores into probabilities.
pub fn softmax(scores: &mut [f32]) {
    let most = scores.iter().copied().fold(f32::NEG_INFINITY, f32::max);
    for score in scores.iter_mut() {
        *score = (*score - most).exp();
    }
    let sum = scores.iter().sum::<f32>();
    for score in scores.iter_mut() {
        *score /= sum;
    }
}

/// The mean cross entropy of rows of scores against labels; writes its slopes over the scores and counts the rows whose highest score is
/// the label's. A label beyond the row is a row that is never right.
pub fn cross_entropy(scores: &mut [f32], classes: usize, labels: &[u8]) -> (f64, usize) {
    let count = labels.len().max(1) as f32;
    let (mut loss, mut right) = (0.0, 0);
    for (row, &label) in scores.chunks_exact_mut(classes).zip(labels) {
        let label = usize::from(label);
        right += usize::from(highest(row) == label);
        softmax(row);
        loss -= f64::from(row.get(label).copied().unwrap_or(0.0).max(f32::MIN_POSITIVE)).ln();
        for slope in row.iter_mut() {
            *slope /= count;
        }
        if let Some(slope) = row.get_mut(label) {
            *slope -= 1.0 / count;
        }
    }
    (loss / f64::from(count), right)
}

/// The place of the highest number, the first of equals.
pub fn highest(row: &[f32]) -> usize {
    let better = |best: usize, place: usize| if row[place] > row[best] { place } else { best };
    (1..row.len()).fold(0, better)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::{assert_slopes, noise};

    #[test]
    fn gradients_equal_finite_differences() {
        let mut draw = noise(5);
        let scores = (0..12).map(|_| 4.0 * draw()).collect::<Vec<_>>();
        let labels = [1, 3, 0];
        let mut slopes = scores.clone();
        cross_entropy(&mut slopes, 4, &labels);
        assert_slopes(&scores, &slopes, |moved| cross_entropy(&mut moved.to_vec(), 4, &labels).0);
    }

    #[test]
    fn probabilities_sum_to_one_also_for_scores_far_apart() {
        let mut scores = [1000.0, 0.0, -1000.0];
        softmax(&mut scores);
        assert_eq!(scores.map(f32::to_bits), [1.0_f32, 0.0, 0.0].map(f32::to_bits));
    }
}
