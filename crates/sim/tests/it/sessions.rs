//! A session can be stepped, forked, and saved and taken up again at any decision, and nothing comes out differently. A policy sees the
//! past and not the future.

use crate::properties::{CLUSTER, POLICIES, options, workload};
use crate::scene::{on_cluster, run_with};
use proptest::prelude::*;
use rota_core::{Bound, Cluster, Durations, Event, Job, Span, ThroughputTable, Time};
use rota_engine::{Engine, Session};
use rota_policy::Registry;
use rota_sim::{Mechanism, SimOptions, SimulatedWorld};
use std::sync::Arc;

fn cluster() -> Cluster {
    Cluster::from_toml(CLUSTER).unwrap()
}

fn start(bound: &Arc<Bound>, policy: &str, options: &SimOptions) -> Session<SimulatedWorld> {
    rota_sim::session(bound, rota_policy::build(policy).unwrap(), options)
}

/// The same engine after it was written down and read again.
fn read_back(engine: &Engine, options: &SimOptions) -> Engine {
    let bound = &engine.state.bound;
    let round = match options.mechanism {
        Mechanism::Event => None,
        Mechanism::Rounds { length } => Some(length),
    };
    let table = Arc::new(ThroughputTable::default());
    Engine::from_image(&engine.image(), &bound.cluster, bound.prices.clone(), table, &Registry::default(), round).unwrap()
}

fn step(session: &mut Session<SimulatedWorld>, events: &mut Vec<Event>) -> bool {
    let mut observe = |event: &Event| events.push(event.clone());
    let is_due = session.advance(&mut observe).is_some();
    if is_due {
        let target = session.ask();
        session.hand_in(&target, &mut observe);
    }
    is_due
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(12))]

    #[test]
    fn a_session_that_is_saved_or_forked_goes_on_the_same(jobs in workload(), options in options(), every in 1_usize..9) {
        let bound = on_cluster(cluster(), jobs);
        for policy in POLICIES {
            let uninterrupted = run_with(&bound, policy, &options).events;
            let mut session = start(&bound, policy, &options);
            let mut events = Vec::new();
            let mut decisions = 0;
            while step(&mut session, &mut events) {
                decisions += 1;
                if decisions % every == 0 {
                    session.engine = read_back(&session.engine, &options);
                }
                if decisions % (every * 3) == 0 {
                    let mut fork = session.clone();
                    let mut told = events.clone();
                    while step(&mut fork, &mut told) {}
                    prop_assert_eq!(&told, &uninterrupted, "{} forked after {} decisions", policy, decisions);
                }
            }
            prop_assert_eq!(&events, &uninterrupted, "{} saved after every {} decisions", policy, every);
        }
    }

    #[test]
    fn nobody_sees_the_future(jobs in workload(), options in options(), cut_seconds in 1_u32..60) {
        let cut = Time::from_seconds(f64::from(cut_seconds)).unwrap();
        // The world, not the policy, gives jobs up whose nodes are lost for good once nobody else will come.
        let cluster = || Cluster { outages: Vec::new(), ..cluster() };
        let mut jobs = jobs.into_iter().map(|job| Job { after: Box::default(), ..job }).collect::<Vec<_>>();
        jobs.sort_by_key(|job| job.arrival);
        let bound = on_cluster(cluster(), jobs.clone());
        // Jobs that have not come by then never come; where lengths are hidden, those that have not ended by then are longer.
        let early = jobs.iter().filter(|job| job.arrival < cut).cloned().collect::<Vec<_>>();
        let options = SimOptions { faults: None, ..options };
        for policy in POLICIES {
            let told = run_with(&bound, policy, &options).events;
            let before = |events: &[Event]| events.iter().filter(|event| event.time_ns < cut).cloned().collect::<Vec<_>>();
            let fewer = on_cluster(cluster(), early.clone());
            prop_assert_eq!(before(&told), before(&run_with(&fewer, policy, &options).events), "{}: jobs to come", policy);
            if rota_policy::build(policy).unwrap().durations == Durations::Hidden {
                let ended = before(&told).iter().filter_map(|event| event.kind.job().filter(|_| is_end(event))).collect::<Vec<_>>();
                let longer = bound.jobs.iter().map(|job| {
                    let work = bound.truth(job.id).work;
                    let more = if ended.contains(&job.id) { Span::ZERO } else { Span::from_whole_seconds(1000) };
                    Job { work: work + more, fails_at: bound.truth(job.id).fails_at, ..jobs[job.id.index()].clone() }
                });
                let longer = on_cluster(cluster(), longer);
                prop_assert_eq!(before(&told), before(&run_with(&longer, policy, &options).events), "{}: lengths", policy);
            }
        }
    }
}

fn is_end(event: &Event) -> bool {
    matches!(event.kind, rota_core::EventKind::Ended { .. })
}
