//! The jobs that ended last, as their records were when they ended: a caller who waited for one, or asks at once how it went, is answered
//! without a look into the store.

use crate::store::record::{JobRecord, command_bytes};
use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

/// The newest so many ended jobs are kept, until the daemon gives memory back.
const JOBS_MAX: usize = 1024;
/// A job with a longer command is read from the store.
const COMMAND_BYTES_MAX: usize = 4096;

/// The jobs that ended last.
#[derive(Default)]
pub struct RecentEnds {
    jobs: HashMap<u64, Arc<JobRecord>>,
    /// Their numbers, in the order of their ends.
    order: VecDeque<u64>,
}

impl RecentEnds {
    /// Keeps a job that is over.
    pub fn keep(&mut self, record: Arc<JobRecord>) {
        if command_bytes(&record.spec.ask.command) > COMMAND_BYTES_MAX {
            return;
        }
        if self.order.len() == JOBS_MAX
            && let Some(oldest) = self.order.pop_front()
        {
            self.jobs.remove(&oldest);
        }
        self.order.push_back(record.id);
        self.jobs.insert(record.id, record);
    }

    /// A job that is over, if it is one of the last.
    pub fn get(&self, id: u64) -> Option<&JobRecord> {
        self.jobs.get(&id).map(|record| &**record)
    }

    /// Forgets all of them: they are in the store.
    pub fn clear(&mut self) {
        *self = Self::default();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::Submit;
    use crate::api::text::Text;
    use crate::store::Stamp;
    use crate::store::journal::Submission;
    use crate::store::record::Spec;

    fn record(id: u64, command: &str) -> Arc<JobRecord> {
        let ask = Submit { command: Arc::new(vec![Text::from(command)]), ..Submit::default() };
        let spec = Some(Arc::new(Spec { ask: Arc::new(ask), ..Spec::default() }));
        Arc::new(JobRecord::new(id, &Submission { spec, ..Submission::default() }, Stamp { at: 0, wall_ns: 0 }))
    }

    #[test]
    fn the_newest_jobs_are_kept_and_none_with_a_long_command() {
        let mut ends = RecentEnds::default();
        let most = JOBS_MAX as u64;
        (1..=most + 1).for_each(|id| ends.keep(record(id, "true")));
        assert_eq!((ends.get(1).is_some(), ends.get(2).is_some(), ends.jobs.len()), (false, true, JOBS_MAX));
        ends.keep(record(most + 2, &"x".repeat(COMMAND_BYTES_MAX)));
        assert!(ends.get(most + 2).is_none() && ends.get(2).is_some());
        ends.clear();
        assert!(ends.get(most + 1).is_none());
    }
}
