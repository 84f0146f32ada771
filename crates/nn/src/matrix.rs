//! Products of matrices of any layout, by the crate `matrixmultiply`, with every bound checked before it is called.

/// A matrix to read.
#[derive(Clone, Copy, Debug)]
pub struct Matrix<'a> {
    data: &'a [f32],
    rows: usize,
    columns: usize,
    row_stride: usize,
    column_stride: usize,
}

impl<'a> Matrix<'a> {
    /// A matrix that lies row by row.
    pub fn new(data: &'a [f32], rows: usize, columns: usize) -> Self {
        Self::strided(data, rows, columns, columns)
    }

    /// A matrix whose rows begin `row_stride` numbers apart.
    pub fn strided(data: &'a [f32], rows: usize, columns: usize, row_stride: usize) -> Self {
        Self { data, rows, columns, row_stride, column_stride: 1 }
    }

    /// The same numbers with rows and columns exchanged.
    #[must_use]
    pub fn transposed(self) -> Self {
        let Self { data, rows, columns, row_stride, column_stride } = self;
        Self { data, rows: columns, columns: rows, row_stride: column_stride, column_stride: row_stride }
    }
}

/// What happens to the numbers that stand where a product goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Product {
    /// The product replaces them.
    Replaces,
    /// The product is added to them.
    IsAdded,
}

/// Writes `left` times `right` to `target`, whose rows begin `target_stride` numbers apart.
///
/// # Panics
/// If the sizes do not fit each other or a matrix is larger than its data: a fault of the caller, never of input.
pub fn multiply(left: Matrix<'_>, right: Matrix<'_>, product: Product, target: &mut [f32], target_stride: usize) {
    let (rows, inner, columns) = (left.rows, left.columns, right.columns);
    assert_eq!(inner, right.rows, "the matrices do not fit each other");
    if rows == 0 || columns == 0 {
        return;
    }
    let end = |rows: usize, row_stride: usize, columns: usize, column_stride: usize| {
        rows.saturating_sub(1) * row_stride + columns.saturating_sub(1) * column_stride
    };
    assert!(inner == 0 || end(rows, left.row_stride, inner, left.column_stride) < left.data.len(), "left is too short");
    assert!(inner == 0 || end(inner, right.row_stride, columns, right.column_stride) < right.data.len(), "right is too short");
    assert!(target_stride >= columns, "rows of the target overlap");
    assert!(end(rows, target_stride, columns, 1) < target.len(), "the target is too short");
    let kept = match product {
        Product::Replaces => 0.0,
        Product::IsAdded => 1.0,
    };
    // SAFETY: the furthest element of each matrix was shown to lie inside its slice, and the target's rows do not overlap.
    #[expect(unsafe_code, reason = "the library takes pointers")]
    unsafe {
        matrixmultiply::sgemm(
            rows,
            inner,
            columns,
            1.0,
            left.data.as_ptr(),
            left.row_stride.cast_signed(),
            left.column_stride.cast_signed(),
            right.data.as_ptr(),
            right.row_stride.cast_signed(),
            right.column_stride.cast_signed(),
            kept,
            target.as_mut_ptr(),
            target_stride.cast_signed(),
            1,
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_product_goes_where_it_belongs() {
        let left = [1.0, 2.0, 3.0, 4.0, 5.0, 6.0];
        let right = [1.0, 0.0, 0.0, 1.0, 1.0, 1.0];
        let mut target = [10.0; 6];
        multiply(Matrix::new(&left, 2, 3), Matrix::new(&right, 3, 2), Product::IsAdded, &mut target, 3);
        assert_eq!(target.map(f32::to_bits), [14.0_f32, 15.0, 10.0, 20.0, 21.0, 10.0].map(f32::to_bits));
        let mut square = [0.0; 4];
        multiply(Matrix::new(&left, 2, 3), Matrix::new(&left, 2, 3).transposed(), Product::Replaces, &mut square, 2);
        assert_eq!(square.map(f32::to_bits), [14.0_f32, 32.0, 32.0, 77.0].map(f32::to_bits));
    }

    #[test]
    #[should_panic(expected = "left is too short")]
    fn a_matrix_larger_than_its_data_is_refused() {
        multiply(Matrix::new(&[1.0], 2, 2), Matrix::new(&[1.0; 4], 2, 2), Product::Replaces, &mut [0.0; 4], 2);
    }
}
