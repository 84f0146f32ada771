//! From what identical jobs got together to what each of them gets.
//!
//! The solver treats identical jobs as one and says how much time they spend on each GPU type in all. Giving every job the average would
//! spread it over as many types as the class uses, and each type is a move. Instead the total is cut into *ways* of one or two types, each
//! of which a job could follow all its time and reach its floor, and jobs follow the ways in order of their ids, the ways that give more than
//! the floor first. Only a job on the border of two ways has more than two types, and there are fewer borders than types.
//! Always: the totals are those given, no job has more than all its time, and no job is below the floor (to rounding, and as far as the
//! average is not).

use smallvec::SmallVec;

/// Jobs that claim the same, solved for together.
pub(super) struct Class<'a> {
    /// Rate on each type.
    pub rates: &'a [f64],
    /// Average time on each type.
    pub shares: &'a [f64],
    /// Rate that each must reach.
    pub floor: f64,
}

/// A division of one job's time between at most two types, and how many jobs follow it (not a whole number).
#[derive(Clone, Copy, Debug, PartialEq)]
struct Way {
    first: (usize, f64),
    second: (usize, f64),
    jobs: f64,
}

/// The ways of a class: few, because there are few types.
type Ways = SmallVec<[Way; 8]>;
/// Types with the time left on them.
type Times = SmallVec<[(usize, f64); 8]>;

/// Writes each member's shares into `shares` (claims × types).
pub(super) fn deal(class: &Class<'_>, members: &[u32], shares: &mut [f64]) {
    let types = class.rates.len();
    let ways = if members.len() > 1 { ways(class, members.len() as f64) } else { Ways::new() };
    let followed: f64 = ways.iter().map(|way| way.jobs).sum();
    // All ways together are followed by all members, up to rounding. Were it otherwise, stretching them would use what is not there.
    if (followed - members.len() as f64).abs() > 1e-6 * members.len() as f64 {
        for &member in members {
            shares[member as usize * types..][..types].copy_from_slice(class.shares);
        }
        return;
    }
    let scale = members.len() as f64 / followed;
    let mut rest = ways.iter().map(|way| Way { jobs: way.jobs * scale, ..*way });
    let mut way = rest.next();
    for &member in members {
        let own = &mut shares[member as usize * types..][..types];
        let mut open: f64 = 1.0;
        while open > 0.0 {
            let Some(current) = &mut way else { break };
            let part = open.min(current.jobs);
            for (gpu_type, time) in [current.first, current.second] {
                own[gpu_type] += part * time;
            }
            open -= part;
            current.jobs -= part;
            // What rounding leaves of a way is not worth a visit.
            if current.jobs <= 1e-9 {
                way = rest.next();
            }
            if open <= 1e-9 {
                break;
            }
        }
    }
}

/// The ways of a class of `count` jobs; their sum is `count` times the average.
fn ways(class: &Class<'_>, count: f64) -> Ways {
    // Fastest first. Time on a type that gives nothing is not dealt out.
    let mut left: Times = class
        .shares
        .iter()
        .enumerate()
        .filter(|(gpu_type, share)| **share > 0.0 && class.rates[*gpu_type] > 0.0)
        .map(|(gpu_type, share)| (gpu_type, share * count))
        .collect();
    left.sort_by(|one, other| class.rates[other.0].total_cmp(&class.rates[one.0]).then(one.0.cmp(&other.0)));
    let rate = |gpu_type: usize| class.rates[gpu_type];
    let total: f64 = left.iter().map(|&(gpu_type, time)| rate(gpu_type) * time).sum();
    let floor = class.floor.min(total / count).max(0.0);
    let mut surplus = total - floor * count;
    let mut jobs_left = count;
    let mut ways = Ways::new();
    // Jobs with all their time on the fastest types, as long as the others keep enough for their floors.
    let negligible = 1e-12 * total;
    let mut start = 0;
    while start < left.len() && surplus > negligible && rate(left[start].0) > floor {
        let (gpu_type, time) = left[start];
        let jobs = time.min(surplus / (rate(gpu_type) - floor)).min(jobs_left);
        ways.push(Way { first: (gpu_type, 1.0), second: (gpu_type, 0.0), jobs });
        surplus -= jobs * (rate(gpu_type) - floor);
        jobs_left -= jobs;
        left[start].1 -= jobs;
        if left[start].1 > 1e-12 * count {
            break;
        }
        start += 1;
    }
    ways.extend(ways_at_floor(class, &left[start..], floor, jobs_left));
    ways
}

/// Ways that reach exactly the floor: types too slow for it are filled up with faster ones, and who is left stays on one type.
fn ways_at_floor(class: &Class<'_>, left: &[(usize, f64)], floor: f64, jobs: f64) -> Ways {
    let rate = |gpu_type: usize| class.rates[gpu_type];
    let mut ways = Ways::new();
    if floor <= 0.0 {
        // Nobody needs anything of what is left: spread evenly, type by type.
        let time: f64 = left.iter().map(|entry| entry.1).sum();
        let each = if jobs > 0.0 { (time / jobs).min(1.0) } else { 0.0 };
        if each > 0.0 {
            ways.extend(left.iter().map(|&(gpu_type, time)| Way {
                first: (gpu_type, each),
                second: (gpu_type, 0.0),
                jobs: time / each,
            }));
        } else if jobs > 0.0 {
            ways.push(Way { first: (0, 0.0), second: (0, 0.0), jobs });
        }
        return ways;
    }
    let mut fast: Times = left.iter().copied().filter(|entry| rate(entry.0) >= floor).collect();
    let mut slow = left.iter().copied().filter(|entry| rate(entry.0) < floor).collect::<Times>();
    while let (Some(&(quick, quick_time)), Some(&(sluggish, slow_time))) = (fast.last(), slow.last()) {
        // All of a job's time, so divided that it just reaches the floor.
        let part = (floor - rate(sluggish)) / (rate(quick) - rate(sluggish));
        let by_quick = if part > 0.0 { quick_time / part } else { f64::INFINITY };
        let by_slow = if part < 1.0 { slow_time / (1.0 - part) } else { f64::INFINITY };
        let followers = by_quick.min(by_slow);
        if part < 1.0 {
            ways.push(Way { first: (quick, part), second: (sluggish, 1.0 - part), jobs: followers });
        }
        if by_slow <= by_quick {
            slow.pop();
            if let Some(entry) = fast.last_mut() {
                entry.1 -= followers * part;
            }
        } else {
            // A type that just reaches the floor has nothing to spare; it is kept for jobs that use it alone.
            let spent = part >= 1.0;
            let entry = fast.pop();
            if spent && let Some((gpu_type, time)) = entry {
                ways.push(Way { first: (gpu_type, 1.0), second: (gpu_type, 0.0), jobs: time });
            }
            if let Some(entry) = slow.last_mut() {
                entry.1 -= if spent { 0.0 } else { followers * (1.0 - part) };
            }
        }
    }
    // Too slow and nothing left to fill them up with: they miss the floor by rounding only, and their time is not to be lost.
    ways.extend(slow.into_iter().map(|(gpu_type, time)| Way { first: (gpu_type, 1.0), second: (gpu_type, 0.0), jobs: time }));
    for (gpu_type, time) in fast {
        let each = floor / rate(gpu_type);
        ways.push(Way { first: (gpu_type, each), second: (gpu_type, 0.0), jobs: time / each });
    }
    ways
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn dealt(rates: &[f64], shares: &[f64], floor: f64, count: usize) -> Vec<f64> {
        let members: Vec<u32> = (0..count as u32).collect();
        let mut all = vec![0.0; count * rates.len()];
        deal(&Class { rates, shares, floor }, &members, &mut all);
        all
    }

    fn used(row: &[f64]) -> usize {
        row.iter().filter(|share| **share > 1e-9).count()
    }

    #[test]
    fn extra_goes_to_the_first_and_the_rest_keep_the_floor() {
        // Half the time of four jobs on the fast type, half on the slow one; 1 is enough.
        let all = dealt(&[2.0, 1.0], &[0.5, 0.5], 1.0, 4);
        assert_eq!(all, [1.0, 0.0, 1.0, 0.0, 0.0, 1.0, 0.0, 1.0]);
    }

    #[test]
    fn types_too_slow_are_filled_up_with_a_faster_one() {
        let all = dealt(&[3.0, 1.0], &[0.5, 0.5], 2.0, 3);
        for row in all.chunks_exact(2) {
            assert!((3.0 * row[0] + row[1] - 2.0).abs() < 1e-12);
        }
    }

    #[test]
    fn a_floor_missed_by_rounding_uses_no_more_than_there_is() {
        // Nearly all time on the slow type, a trace on the fast one, and a floor between the slow rate and the average.
        let all = dealt(&[1.0, 16.0], &[1.0 - 3e-12, 3e-12], 1.0 + 1e-12, 2);
        assert!(all[1] + all[3] <= 7e-12 && all[0] + all[2] >= 2.0 - 1e-9, "{all:?}");
    }

    #[test]
    fn without_a_floor_the_first_take_all() {
        let all = dealt(&[2.0], &[0.5], 0.0, 4);
        assert_eq!(all, [1.0, 1.0, 0.0, 0.0]);
    }

    prop_compose! {
        fn any_class()(types in 1..=6_usize)(
            rates in prop::collection::vec(prop_oneof![3 => 0.05..5.0_f64, 1 => Just(0.0), 1 => Just(1.0)], types),
            shares in prop::collection::vec(prop_oneof![3 => 0.0..1.0_f64, 2 => Just(0.0)], types),
            time in prop_oneof![1 => Just(1.0), 2 => 0.01..1.0_f64],
            part in prop_oneof![1 => Just(1.0), 1 => Just(0.0), 2 => 0.0..1.0_f64],
            count in 1..60_usize,
        ) -> (Vec<f64>, Vec<f64>, f64, usize) {
            let mut shares: Vec<f64> = shares.iter().zip(&rates).map(|(share, rate)| if *rate > 0.0 { *share } else { 0.0 }).collect();
            let sum: f64 = shares.iter().sum();
            if sum > 0.0 {
                for share in &mut shares {
                    *share *= time / sum;
                }
            }
            let average: f64 = shares.iter().zip(&rates).map(|(share, rate)| share * rate).sum();
            (rates, shares, average * part, count)
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(2000))]
        #[test]
        fn totals_are_conserved_and_everybody_has_enough((rates, shares, floor, count) in any_class()) {
            let types = rates.len();
            let all = dealt(&rates, &shares, floor, count);
            for (gpu_type, share) in shares.iter().enumerate() {
                let total: f64 = all.chunks_exact(types).map(|row| row[gpu_type]).sum();
                prop_assert!((total - share * count as f64).abs() <= 1e-9 * count as f64, "type {gpu_type}: {total} for {share} x {count}");
            }
            for row in all.chunks_exact(types) {
                prop_assert!(row.iter().sum::<f64>() <= 1.0 + 1e-9 && row.iter().all(|share| *share >= 0.0));
                let rate: f64 = row.iter().zip(&rates).map(|(share, rate)| share * rate).sum();
                prop_assert!(rate >= floor * (1.0 - 1e-9), "{rate} under {floor}");
            }
            if count > 1 {
                let spread = all.chunks_exact(types).filter(|row| used(row) > 2).count();
                prop_assert!(spread <= 2 * types, "{spread} of {count} on more than two types");
            }
        }
    }
}
