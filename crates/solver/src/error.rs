//! What can be wrong with a problem, in full: every public entry of this crate returns one of these and never panics on numbers.

use thiserror::Error;

/// Why a problem was refused or could not be solved.
#[derive(Debug, Clone, PartialEq, Error)]
pub enum SolveError {
    /// There is nothing to decide.
    #[error("the problem has no {0}")]
    Empty(&'static str),
    /// Two inputs that describe the same things differ in length.
    #[error("{what} has {found} entries where {expected} were expected")]
    Shape {
        /// The input at fault.
        what: &'static str,
        /// The length that would fit.
        expected: usize,
        /// The length that was given.
        found: usize,
    },
    /// A number is not finite, or lies outside its range.
    #[error("{what} at index {index} is {value}, which is not {wanted}")]
    Number {
        /// The input at fault.
        what: &'static str,
        /// Position in that input.
        index: usize,
        /// The offending number.
        value: f64,
        /// The values that are allowed.
        wanted: &'static str,
    },
    /// A row asks for progress and no column can give it any.
    #[error("row {0} has no column with a positive rate")]
    HopelessRow(usize),
    /// The floors alone ask for more than the pools hold.
    #[error("the floors cannot all be met")]
    Infeasible,
    /// The backend gave up; the text is its own word for why.
    #[error("the linear-program backend stopped: {0}")]
    Backend(String),
}

/// Refuses a list of the wrong length.
pub(crate) fn check_length(what: &'static str, found: usize, expected: usize) -> Result<(), SolveError> {
    if found == expected { Ok(()) } else { Err(SolveError::Shape { what, expected, found }) }
}

/// Refuses a list that holds NaN, an infinity or a negative number.
pub(crate) fn check_non_negative(what: &'static str, numbers: &[f64]) -> Result<(), SolveError> {
    check_range(what, numbers, 0.0, "finite and at least zero")
}

/// Refuses a list that holds NaN, an infinity, zero or a negative number.
pub(crate) fn check_positive(what: &'static str, numbers: &[f64]) -> Result<(), SolveError> {
    // The smallest number above zero.
    check_range(what, numbers, f64::from_bits(1), "finite and above zero")
}

/// Refuses a list that holds NaN or an infinity.
pub(crate) fn check_finite(what: &'static str, numbers: &[f64]) -> Result<(), SolveError> {
    check_range(what, numbers, f64::MIN, "finite")
}

/// Refuses a list that holds NaN, an infinity or less than `least`.
fn check_range(what: &'static str, numbers: &[f64], least: f64, wanted: &'static str) -> Result<(), SolveError> {
    let is_fine = |number: f64| (least..=f64::MAX).contains(&number);
    // All numbers are checked without a way out in between, which makes it quick. The bad one is searched for only if there is one.
    if numbers.iter().fold(true, |fine, &number| fine & is_fine(number)) {
        return Ok(());
    }
    match numbers.iter().position(|&number| !is_fine(number)) {
        None => Ok(()),
        Some(index) => Err(SolveError::Number { what, index, value: numbers[index], wanted }),
    }
}
