//! Speeds that were measured are known after a restart, and decide alike.

use super::*;
use crate::queue::restore::save_image;

fn seen(gpu_type: &str, steps: u64, beside: Option<&str>) -> crate::store::journal::QueueEvent {
    EventKind::SpeedMeasured {
        job_type: KINDS[0].into(),
        gpus: 1,
        gpu_type: gpu_type.into(),
        beside: beside.map(Into::into),
        steps,
        ran: Span::from_whole_seconds(1),
    }
}

#[test]
fn measured_speeds_survive_a_kill_and_an_image_that_cannot_be_taken_up() {
    let setting = Setting { policy: "max-min-perf:tick=5", round: None };
    let asks = vec![
        Ask {
            arrival: 0,
            gpus: 1,
            runs: 50,
            says: 50,
            priority: 0,
            memory_mib: None,
            kind: 0,
            preemptible: true,
            fails_at: None,
            user: 0
        };
        3
    ];
    let case = Case { asks, script: Vec::new(), outages: [None; 2], stop_millis: 0 };
    let mut world = daemon(platform(&case, Some(3), &Rc::default()), Store::in_memory(), setting);
    let mut session = world.restore().unwrap();
    crate::server::run_until_exit(&mut session).unwrap();
    let beside = Some(KINDS[0]);
    let samples = [("a100", 100, None), ("t4", 20, None), ("a100", 60, None), ("a100", 40, beside), ("a100", 24, beside)];
    for event in samples.map(|(gpu_type, steps, beside)| seen(gpu_type, steps, beside)) {
        let mut events = Vec::new();
        session.world.commit(vec![event.into()], &mut events).unwrap();
        for event in &events {
            session.replay(event);
        }
    }
    let speeds = |session: &Session<LiveWorld<VirtualPlatform>>| session.engine.state.bound.speeds(JobId(0)).to_vec();
    let known = speeds(&session);
    assert!((known[1] - 0.25).abs() < 0.01 && (known[0] - 1.0).abs() < 1e-9, "half of 100, half of 60, and 20: {known:?}");
    let pair = |session: &Session<LiveWorld<VirtualPlatform>>| {
        let bound = &session.engine.state.bound;
        bound.pair_part(JobId(0), JobId(1), bound.cluster.type_named("a100").unwrap()).unwrap()
    };
    let parts = pair(&session);
    assert!((parts.0 - 0.4).abs() < 1e-9 && (parts.1 - 0.4).abs() < 1e-9, "32 of 80 steps a second: {parts:?}");
    let (measured, changes) = (session.engine.state.measured.clone(), session.engine.state.speed_changes);
    // Killed: everything is replayed from the image of the first start.
    let LiveWorld { platform, journal, .. } = session.world;
    world = daemon(platform, journal.store, setting);
    session = world.restore().unwrap();
    assert_eq!((&session.engine.state.measured, session.engine.state.speed_changes), (&measured, changes));
    assert_eq!((speeds(&session), pair(&session)), (known.clone(), parts), "the replay comes to the same");
    // An image of another form: the scheduler is made anew, and what was measured is still known.
    save_image(&mut session);
    let LiveWorld { platform, mut journal, .. } = session.world;
    journal.put_image(b"of another form").unwrap();
    session = daemon(platform, journal.store, setting).restore().unwrap();
    assert_eq!(session.engine.state.measured, measured);
    assert_eq!((speeds(&session), pair(&session)), (known, parts));
}
