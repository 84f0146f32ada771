//! General linear programs behind a small trait, and Clarabel as the one implementation.
//!
//! Always maximisation. A backend says how it stopped and never calls an answer optimal that it does not believe to be; callers that need a
//! proof compute their own bound from the duals.

use crate::error::{SolveError, check_length};
use clarabel::algebra::CscMatrix;
use clarabel::solver::{DefaultSettings, DefaultSolver, IPSolver, SolverStatus, SupportedConeT};

/// The relation of a row to its right-hand side.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Relation {
    /// Left side at most the right side.
    AtMost,
    /// Left side at least the right side.
    AtLeast,
    /// Both sides equal.
    Equal,
}

/// One constraint: sparse coefficients by variable.
#[derive(Debug, Clone, PartialEq)]
pub struct Constraint {
    /// (variable, coefficient) pairs; a variable may appear once.
    pub terms: Vec<(usize, f64)>,
    /// How the two sides compare.
    pub relation: Relation,
    /// The right-hand side.
    pub bound: f64,
}

/// Maximise `objective·x` under constraints, with `lower ≤ x ≤ upper` (infinite = no bound).
#[derive(Debug, Clone, PartialEq, Default)]
pub struct LinearProgram {
    /// One coefficient per variable.
    pub objective: Vec<f64>,
    /// The constraints, one row each.
    pub constraints: Vec<Constraint>,
    /// Lower bounds, one per variable.
    pub lower: Vec<f64>,
    /// Upper bounds, one per variable.
    pub upper: Vec<f64>,
}

impl LinearProgram {
    /// Adds a variable of at least zero and returns its index.
    pub fn add_variable(&mut self, objective: f64) -> usize {
        self.objective.push(objective);
        self.lower.push(0.0);
        self.upper.push(f64::INFINITY);
        self.objective.len() - 1
    }

    /// Adds a constraint and returns its index.
    pub fn add_constraint(&mut self, terms: Vec<(usize, f64)>, relation: Relation, bound: f64) -> usize {
        self.constraints.push(Constraint { terms, relation, bound });
        self.constraints.len() - 1
    }

    fn check(&self) -> Result<(), SolveError> {
        let variables = self.objective.len();
        if variables == 0 {
            return Err(SolveError::Empty("variables"));
        }
        check_length("lower bounds", self.lower.len(), variables)?;
        check_length("upper bounds", self.upper.len(), variables)?;
        let finite = |what, index, value: f64| {
            if value.is_finite() { Ok(()) } else { Err(SolveError::Number { what, index, value, wanted: "finite" }) }
        };
        for (index, &coefficient) in self.objective.iter().enumerate() {
            finite("objective", index, coefficient)?;
            if self.lower[index].is_nan() || self.upper[index].is_nan() {
                return Err(SolveError::Number { what: "variable bound", index, value: f64::NAN, wanted: "a number" });
            }
        }
        for (index, constraint) in self.constraints.iter().enumerate() {
            finite("constraint bound", index, constraint.bound)?;
            for &(variable, coefficient) in &constraint.terms {
                finite("constraint coefficient", index, coefficient)?;
                if variable >= variables {
                    return Err(SolveError::Shape { what: "constraint terms", expected: variables, found: variable + 1 });
                }
            }
        }
        Ok(())
    }
}

/// How a backend stopped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LpStatus {
    /// Optimal to the backend's tolerance.
    Optimal,
    /// A solution of reduced accuracy.
    Inaccurate,
    /// No point satisfies the constraints.
    Infeasible,
    /// The objective grows without bound.
    Unbounded,
    /// Time or iterations ran out, or numbers broke down.
    Limit,
}

/// What a backend returns; `values` and `duals` mean something for `Optimal` and `Inaccurate` only.
#[derive(Debug, Clone, PartialEq)]
pub struct LpSolution {
    /// How the backend stopped.
    pub status: LpStatus,
    /// One value per variable.
    pub values: Vec<f64>,
    /// The objective at `values`.
    pub objective: f64,
    /// One multiplier per constraint: what one more unit of the right-hand side adds to the objective.
    pub duals: Vec<f64>,
}

/// A solver of linear programs.
pub trait LpBackend {
    /// Solves within a number of seconds.
    fn solve(&self, program: &LinearProgram, time_limit_seconds: f64) -> Result<LpSolution, SolveError>;

    /// The backend's name, for reports.
    fn name(&self) -> &'static str;
}

/// Clarabel's interior-point method: fast and robust, but its optimum lies inside the optimal face, not at a vertex.
#[derive(Debug, Clone, Copy)]
pub struct Clarabel {
    /// Relative and absolute tolerance for gap and feasibility.
    pub tolerance: f64,
}

impl Default for Clarabel {
    fn default() -> Self {
        Self { tolerance: 1e-10 }
    }
}

/// The constraints in Clarabel's form (equalities first), with the place and sign of each of ours.
struct Standard {
    matrix: CscMatrix<f64>,
    bounds: Vec<f64>,
    cones: Vec<SupportedConeT<f64>>,
    places: Vec<(usize, f64)>,
}

impl Clarabel {
    fn standard(program: &LinearProgram) -> Standard {
        let (mut rows, mut columns, mut entries) = (Vec::new(), Vec::new(), Vec::new());
        let mut bounds = Vec::new();
        let mut places = vec![(0, 0.0); program.constraints.len()];
        for equalities in [true, false] {
            for (index, constraint) in program.constraints.iter().enumerate() {
                if (constraint.relation == Relation::Equal) == equalities {
                    let sign = if constraint.relation == Relation::AtLeast { -1.0 } else { 1.0 };
                    places[index] = (bounds.len(), sign);
                    for &(variable, coefficient) in &constraint.terms {
                        rows.push(bounds.len());
                        columns.push(variable);
                        entries.push(sign * coefficient);
                    }
                    bounds.push(sign * constraint.bound);
                }
            }
        }
        for (limits, sign) in [(&program.lower, -1.0), (&program.upper, 1.0)] {
            for (variable, &limit) in limits.iter().enumerate().filter(|(_, limit)| limit.is_finite()) {
                rows.push(bounds.len());
                columns.push(variable);
                entries.push(sign);
                bounds.push(sign * limit);
            }
        }
        let equal = program.constraints.iter().filter(|constraint| constraint.relation == Relation::Equal).count();
        let cones = vec![SupportedConeT::ZeroConeT(equal), SupportedConeT::NonnegativeConeT(bounds.len() - equal)];
        let matrix = CscMatrix::new_from_triplets(bounds.len(), program.objective.len(), rows, columns, entries);
        Standard { matrix, bounds, cones, places }
    }
}

impl LpBackend for Clarabel {
    fn solve(&self, program: &LinearProgram, time_limit_seconds: f64) -> Result<LpSolution, SolveError> {
        program.check()?;
        let variables = program.objective.len();
        let standard = Self::standard(program);
        let settings = DefaultSettings {
            verbose: false,
            time_limit: if time_limit_seconds > 0.0 { time_limit_seconds } else { f64::MIN_POSITIVE },
            tol_gap_abs: self.tolerance,
            tol_gap_rel: self.tolerance,
            tol_feas: self.tolerance,
            max_iter: 200,
            ..DefaultSettings::default()
        };
        // Clarabel minimises.
        let costs: Vec<f64> = program.objective.iter().map(|coefficient| -coefficient).collect();
        let quadratic = CscMatrix::zeros((variables, variables));
        let mut solver = DefaultSolver::new(&quadratic, &costs, &standard.matrix, &standard.bounds, &standard.cones, settings)
            .map_err(|error| SolveError::Backend(error.to_string()))?;
        solver.solve();
        let status = match solver.solution.status {
            SolverStatus::Solved => LpStatus::Optimal,
            SolverStatus::AlmostSolved => LpStatus::Inaccurate,
            // At the tightest tolerances the last digits may not come, though the point is good: say so rather than throw it away.
            SolverStatus::InsufficientProgress if solver.info.gap_rel < 1e-5 => LpStatus::Inaccurate,
            SolverStatus::PrimalInfeasible | SolverStatus::AlmostPrimalInfeasible => LpStatus::Infeasible,
            SolverStatus::DualInfeasible | SolverStatus::AlmostDualInfeasible => LpStatus::Unbounded,
            _ => LpStatus::Limit,
        };
        let duals = standard.places.iter().map(|&(place, sign)| sign * solver.solution.z[place]).collect();
        let values = solver.solution.x.clone();
        let objective = values.iter().zip(&program.objective).map(|(value, coefficient)| value * coefficient).sum();
        Ok(LpSolution { status, values, objective, duals })
    }

    fn name(&self) -> &'static str {
        "clarabel"
    }
}
