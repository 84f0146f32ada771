//! What a policy sees: the active jobs in the order of their ids, their pairs in the order of both, the types by name.

/// An active job.
#[derive(Clone, Debug)]
pub(crate) struct JobView<'a> {
    pub id: u32,
    /// The job's gang size.
    pub gpus: u32,
    pub weight: f64,
    pub steps_left: f64,
    /// Seconds since its arrival.
    pub age_seconds: f64,
    pub deadline_seconds: Option<f64>,
    /// Steps per second alone, one per type.
    pub speeds: &'a [f64],
}

/// Two active jobs of equal gang size on the same GPUs.
#[derive(Clone, Debug)]
pub(crate) struct PairView<'a> {
    /// Positions of the two among the jobs, ascending.
    pub members: [usize; 2],
    /// Steps per second of either, one pair of numbers per type.
    pub speeds: &'a [[f64; 2]],
}

/// The state that an allocation is made for.
#[derive(Clone, Debug)]
pub(crate) struct View<'a> {
    pub now_seconds: f64,
    /// GPUs of each type.
    pub counts: &'a [f64],
    /// Position of the type whose speeds stand for all of them where a policy does not tell types apart.
    pub reference_type: Option<usize>,
    /// Dollars per hour, one per type.
    pub prices: Option<&'a [f64]>,
    pub jobs: Vec<JobView<'a>>,
    pub pairs: Vec<PairView<'a>>,
}

impl View<'_> {
    pub fn types(&self) -> usize {
        self.counts.len()
    }

    /// Rows of shares: jobs, then pairs.
    pub fn rows(&self) -> usize {
        self.jobs.len() + self.pairs.len()
    }

    /// The column of a row's share on a type in the problems that are solved: type by type, as Gavel's solver has them. Rounding
    /// breaks the ties between equal jobs, so even this order shows in its schedules.
    pub fn column(&self, row: usize, kind: usize) -> usize {
        kind * self.rows() + row
    }

    /// The gang size of a row.
    pub fn row_gpus(&self, row: usize) -> f64 {
        let job = row.checked_sub(self.jobs.len()).map_or(row, |pair| self.pairs[pair].members[0]);
        f64::from(self.jobs[job].gpus)
    }

    /// For each job the rows it is in, with its place there.
    pub fn rows_of_jobs(&self) -> Vec<Vec<(usize, usize)>> {
        let mut rows = (0..self.jobs.len()).map(|job| vec![(job, 0)]).collect::<Vec<_>>();
        for (index, pair) in self.pairs.iter().enumerate() {
            for (place, &job) in pair.members.iter().enumerate() {
                rows[job].push((self.jobs.len() + index, place));
            }
        }
        rows
    }

    /// The speed on a type of the job that has a place in a row.
    pub fn speed(&self, row: usize, place: usize, kind: usize) -> f64 {
        row.checked_sub(self.jobs.len()).map_or_else(|| self.jobs[row].speeds[kind], |pair| self.pairs[pair].speeds[kind][place])
    }
}
