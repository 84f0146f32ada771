//! Matrix completion: the holes of a matrix of low rank, from what is known of it.
//!
//! The matrix is taken as `U V'` with [`FACTORS`] columns in each. Alternating least squares: with `V` fixed, every row of `U` is a
//! ridge regression on the known entries of its row, and the other way round. The ridge keeps every system positive definite, however
//! few entries a row has: a row or column of which nothing is known comes out as zeros.

use nalgebra::{DMatrix, DVector};
use rota_core::random::RandomStream;

/// Columns of the two factors, as in Gavel.
const FACTORS: usize = 10;
/// Weight of the ridge, as in Gavel.
const RIDGE: f64 = 0.01;
/// Most rounds over both factors, as in Gavel.
const ROUNDS_MAX: u32 = 100;
/// The rounds end when the entries change by less than this, as a root mean square. Gavel stops at a change of 0.001 over the whole
/// matrix divided by its entries, some 500 times as soon; on its table with four fifths of the pairs unknown the mean error is then a
/// fifth to two fifths larger.
const CHANGE_MIN: f64 = 1e-4;

/// A matrix with holes, row by row.
pub(super) type Holed = Vec<Vec<Option<f64>>>;

/// All entries of the matrix, known ones included, as the factors give them. All rows must have one length.
pub(super) fn complete(holed: &Holed, stream: &mut RandomStream) -> Vec<Vec<f64>> {
    let (rows, columns) = (holed.len(), holed.first().map_or(0, Vec::len));
    let by_column = (0..columns).map(|column| holed.iter().map(|row| row[column]).collect()).collect::<Holed>();
    let mut right = DMatrix::from_fn(columns, FACTORS, |_, _| stream.normal());
    let mut product = DMatrix::zeros(rows, columns);
    for _ in 0..ROUNDS_MAX {
        let left = regress_all(holed, &right);
        right = regress_all(&by_column, &left);
        let next = &left * right.transpose();
        let change = (&next - &product).norm() / ((rows * columns).max(1) as f64).sqrt();
        product = next;
        if change < CHANGE_MIN {
            break;
        }
    }
    (0..rows).map(|row| product.row(row).iter().copied().collect()).collect()
}

/// The factor whose product with the other one comes nearest to the known entries.
fn regress_all(holed: &Holed, other: &DMatrix<f64>) -> DMatrix<f64> {
    let mut factor = DMatrix::zeros(holed.len(), FACTORS);
    for (position, entries) in holed.iter().enumerate() {
        factor.row_mut(position).tr_copy_from(&regress(entries, other));
    }
    factor
}

fn regress(entries: &[Option<f64>], other: &DMatrix<f64>) -> DVector<f64> {
    let mut normal = DMatrix::from_diagonal_element(FACTORS, FACTORS, RIDGE);
    let mut goal = DVector::zeros(FACTORS);
    for (position, value) in entries.iter().enumerate() {
        let Some(value) = value else { continue };
        let factors = other.row(position).transpose();
        normal.ger(1.0, &factors, &factors, 1.0);
        goal.axpy(*value, &factors, 1.0);
    }
    // The ridge makes the matrix positive definite; only overflow could take that away, and then nothing is known.
    normal.cholesky().map_or_else(|| DVector::zeros(FACTORS), |cholesky| cholesky.solve(&goal))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A matrix of rank 2 with entries in [0, 1].
    fn planted(rows: usize, columns: usize) -> Vec<Vec<f64>> {
        let mut stream = RandomStream::new(3, "planted");
        let mut factors = |count: usize| (0..count).map(|_| (stream.unit(), stream.unit())).collect::<Vec<_>>();
        let (left, right) = (factors(rows), factors(columns));
        left.iter().map(|a| right.iter().map(|b| f64::midpoint(a.0 * b.0, a.1 * b.1)).collect()).collect()
    }

    #[test]
    fn holes_of_a_planted_matrix_are_filled() {
        let truth = planted(21, 40);
        let mut holed = truth.iter().map(|row| row.iter().copied().map(Some).collect()).collect::<Holed>();
        for (column, entry) in holed[20].iter_mut().enumerate() {
            if column % 4 != 0 {
                *entry = None;
            }
        }
        let filled = complete(&holed, &mut RandomStream::new(0, "test"));
        let worst = |row: usize| (0..40).map(|column| (filled[row][column] - truth[row][column]).abs()).fold(0.0, f64::max);
        assert!(worst(0) < 0.02, "known: {}", worst(0));
        assert!(worst(20) < 0.03, "held out: {}", worst(20));
    }

    #[test]
    fn a_row_or_column_without_any_entry_becomes_zeros() {
        let mut holed = planted(5, 6).into_iter().map(|row| row.into_iter().map(Some).collect()).collect::<Holed>();
        holed[2].fill(None);
        for row in &mut holed {
            row[4] = None;
        }
        let filled = complete(&holed, &mut RandomStream::new(0, "test"));
        assert!(filled[2].iter().all(|value| *value == 0.0), "{:?}", filled[2]);
        assert!(filled.iter().all(|row| row[4] == 0.0 && row.iter().all(|value| value.is_finite())));
        let zeros = complete(&vec![vec![Some(0.0); 3]; 2], &mut RandomStream::new(0, "test"));
        assert!(zeros.iter().flatten().all(|value| value.abs() < 1e-9));
        assert!(complete(&Vec::new(), &mut RandomStream::new(0, "test")).is_empty());
    }
}
