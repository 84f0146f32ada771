//! The checks of the contract, one function each.

use std::time::Duration;

use super::{Caller, Deed, Harness, all_end_once};
use crate::Cause;
use crate::executor::{
    Adoption, ExecutorEvent, KnownRun, LostCause, Node, PrepareError, RunEnd, RunIdentity, RunKey, StartError, Started, Stop,
    StopError,
};

const RUN: RunKey = RunKey { job: 7, attempt: 1 };

/// An inventory has nodes that answer, and devices with a name of their own each.
pub fn inventory_names_nodes_and_devices(harness: &mut dyn Harness) {
    let caller = Caller::new(harness);
    let nodes = caller.executor.inventory();
    assert!(!nodes.is_empty() && nodes.iter().all(|node| node.answers), "{nodes:?}");
    let mut keys = nodes.iter().flat_map(|node| node.devices.iter().map(|device| (&node.name, &device.uuid))).collect::<Vec<_>>();
    let count = keys.len();
    keys.sort();
    keys.dedup();
    assert!(count > 0 && keys.len() == count, "{nodes:?}");
}

/// A run starts, and its end is told once.
pub fn a_run_starts_once_and_ends_once(harness: &mut dyn Harness) {
    let mut caller = Caller::new(harness);
    caller.start(RUN, Deed::Exit(0));
    let record = caller.record_of(RUN);
    assert_eq!((record.code, record.signal, record.cause), (Some(0), None, Cause::Exited));
    assert!(record.finished_unix_ns >= record.started_unix_ns);
    caller.settle_with(8);
    assert_eq!(caller.ends_of(RUN), 1);
    assert_eq!(caller.executor.highest_job().expect("the place can be read"), Some(8));
    all_end_once(&caller.told);
}

/// Exit codes and signals are what they were.
pub fn exit_statuses_are_told_as_they_are(harness: &mut dyn Harness) {
    let mut caller = Caller::new(harness);
    let deeds = [(Deed::Exit(0), Some(0), None), (Deed::Exit(7), Some(7), None), (Deed::KillItself, None, Some(9))];
    for (job, (deed, code, signal)) in (1..).zip(deeds) {
        let run = RunKey { job, attempt: 1 };
        caller.start(run, deed);
        let record = caller.record_of(run);
        assert_eq!((record.code, record.signal, record.cause), (code, signal, Cause::Exited), "{deed:?}");
    }
}

/// A run that takes longer than it may is ended.
pub fn a_time_limit_ends_a_run(harness: &mut dyn Harness) {
    let mut caller = Caller::new(harness);
    let mut request = caller.request(RUN, Deed::Sleep);
    request.limits.time = Some(Duration::from_millis(100));
    caller.start_with(request);
    let record = caller.record_of(RUN);
    assert_eq!((record.cause, record.code), (Cause::TimeLimit, None));
}

/// A program that is not there is said to be missing, by a record like any other.
pub fn a_program_that_is_missing_could_not_start(harness: &mut dyn Harness) {
    let mut caller = Caller::new(harness);
    caller.start(RUN, Deed::Missing);
    let record = caller.record_of(RUN);
    assert_eq!((record.cause, record.code, record.signal), (Cause::CouldNotStart, None, None));
    assert!(record.message.is_some_and(|message| message.contains("no such file")));
}

/// A gentle stop asks the run to end.
pub fn a_gentle_stop_asks(harness: &mut dyn Harness) {
    let mut caller = Caller::new(harness);
    caller.start(RUN, Deed::Sleep);
    caller.harness.until_working(RUN);
    caller.executor.stop(RUN, Stop::Gentle).expect("it is running");
    let record = caller.record_of(RUN);
    assert_eq!((record.signal, record.cause), (Some(15), Cause::StopRequested));
    caller.settle_with(8);
    assert_eq!(caller.ends_of(RUN), 1);
}

/// A run that does not heed a gentle stop is killed by one at once, long before its grace is over.
pub fn a_stop_at_once_kills_and_ends_the_grace(harness: &mut dyn Harness) {
    let mut caller = Caller::new(harness);
    caller.start(RUN, Deed::Stubborn);
    caller.harness.until_working(RUN);
    caller.executor.stop(RUN, Stop::Gentle).expect("it is running");
    caller.settle_with(8);
    assert_eq!(caller.ends_of(RUN), 0, "it was to be stubborn");
    caller.executor.stop(RUN, Stop::AtOnce).expect("it is still running");
    let record = caller.record_of(RUN);
    assert_eq!((record.signal, record.cause), (Some(9), Cause::StopRequested));
}

/// A run that is not there cannot be stopped.
pub fn a_stop_of_an_unknown_run_is_an_error(harness: &mut dyn Harness) {
    let mut caller = Caller::new(harness);
    assert!(matches!(caller.executor.stop(RUN, Stop::Gentle), Err(StopError::Unknown { run: RUN })));
    caller.start(RUN, Deed::Exit(0));
    caller.end_of(RUN);
    assert!(matches!(caller.executor.stop(RUN, Stop::AtOnce), Err(StopError::Unknown { run: RUN })));
}

/// A second start of a run is refused, while it runs and after, and changes nothing.
pub fn a_second_start_is_refused(harness: &mut dyn Harness) {
    let mut caller = Caller::new(harness);
    let request = caller.request(RUN, Deed::Sleep);
    caller.start_with(request.clone());
    assert!(matches!(caller.refusal(request.clone()), StartError::Duplicate { run: RUN }));
    caller.harness.until_working(RUN);
    caller.executor.stop(RUN, Stop::Gentle).expect("it is running");
    caller.record_of(RUN);
    assert!(matches!(caller.refusal(request.clone()), StartError::Duplicate { run: RUN }));
    caller.crash();
    assert!(matches!(caller.refusal(request), StartError::Duplicate { run: RUN }));
    caller.settle_with(8);
    assert_eq!(caller.ends_of(RUN), 1);
}

/// A run is refused on a node that is not there, and without a node.
pub fn a_start_on_an_unknown_node_is_refused(harness: &mut dyn Harness) {
    let mut caller = Caller::new(harness);
    let mut request = caller.request(RUN, Deed::Exit(0));
    request.places[0].node = "nowhere".into();
    let refused = caller.refusal(request.clone());
    assert!(matches!(refused, StartError::Place { .. }) && refused.to_string().contains("nowhere"), "{refused}");
    request.places.clear();
    assert!(matches!(caller.refusal(request), StartError::Place { .. }));
    caller.settle_with(8);
    assert_eq!(caller.ends_of(RUN), 0);
}

/// A run goes on when its caller is gone, and the next caller has it in hand.
pub fn a_run_outlives_its_caller_and_is_adopted(harness: &mut dyn Harness) {
    let mut caller = Caller::new(harness);
    let known = caller.start(RUN, Deed::Sleep);
    caller.harness.until_working(RUN);
    caller.crash();
    assert!(matches!(caller.executor.adopt(&known), Adoption::Running));
    // Asked twice, it is still one run with one end.
    assert!(matches!(caller.executor.adopt(&known), Adoption::Running));
    caller.executor.settle();
    caller.executor.stop(RUN, Stop::Gentle).expect("it is adopted");
    assert_eq!(caller.record_of(RUN).signal, Some(15));
    caller.settle_with(8);
    assert_eq!(caller.ends_of(RUN), 1);
    all_end_once(&caller.told);
}

/// The end of a run that ended while nobody was there is not lost.
pub fn a_run_that_ended_meanwhile_is_known_as_often_as_asked(harness: &mut dyn Harness) {
    let mut caller = Caller::new(harness);
    let known = caller.start(RUN, Deed::Exit(7));
    caller.end_of(RUN);
    for _ in 0..2 {
        caller.crash();
        match caller.executor.adopt(&known) {
            Adoption::Ended(RunEnd::Ended(record)) => assert_eq!(record.code, Some(7)),
            other => panic!("expected an end, found {other:?}"),
        }
    }
    caller.settle_with(8);
    assert_eq!(caller.ends_of(RUN), 1, "an adoption that answers with the end is followed by no event");
}

/// A run whose caller died between writing its start down and starting it has never run, and never will.
pub fn a_run_that_was_never_started_never_starts(harness: &mut dyn Harness) {
    let mut caller = Caller::new(harness);
    let request = caller.request(RUN, Deed::Exit(0));
    let known = super::caller::known(&request);
    caller.crash();
    assert!(matches!(caller.executor.adopt(&known), Adoption::Ended(RunEnd::NeverStarted)));
    // A start that was on its way all the time comes too late.
    assert!(matches!(caller.refusal(request), StartError::Duplicate { .. }));
    caller.settle_with(8);
    assert_eq!(caller.ends_of(RUN), 0);
}

/// A run of the same number, which another database knew, is not taken for this one.
pub fn a_run_of_another_identity_is_not_adopted(harness: &mut dyn Harness) {
    let mut caller = Caller::new(harness);
    let known = caller.start(RUN, Deed::Exit(0));
    caller.end_of(RUN);
    caller.crash();
    let other = KnownRun { identity: Some(RunIdentity::from_text("another")), ..known };
    let adoption = caller.executor.adopt(&other);
    assert!(matches!(adoption, Adoption::Ended(RunEnd::Lost(LostCause::AnotherRun(_)))), "{adoption:?}");
}

/// What a run left that the caller does not know of is not in the way of a new run of its number, unless it still runs.
pub fn an_old_run_makes_way_for_a_new_one_of_its_number(harness: &mut dyn Harness) {
    let mut caller = Caller::new(harness);
    caller.start(RUN, Deed::Sleep);
    caller.harness.until_working(RUN);
    let refused = caller.executor.prepare(RUN);
    assert!(matches!(refused, Err(PrepareError::Occupied { .. })), "{refused:?}");
    caller.executor.stop(RUN, Stop::Gentle).expect("it is running");
    caller.end_of(RUN);
    caller.crash();
    caller.told.clear();
    caller.start(RUN, Deed::Exit(7));
    assert_eq!(caller.record_of(RUN).code, Some(7), "it ran itself");
}

/// A run whose supervisor was killed is lost, with nothing left of it, and its end is not guessed.
pub fn a_killed_supervisor_leaves_a_lost_run(harness: &mut dyn Harness) {
    let mut caller = Caller::new(harness);
    let known = caller.start(RUN, Deed::Sleep);
    caller.harness.until_working(RUN);
    caller.harness.kill_supervisor(RUN);
    assert_eq!(caller.end_of(RUN), RunEnd::Lost(LostCause::SupervisorKilled));
    caller.crash();
    let adoption = caller.executor.adopt(&known);
    assert!(matches!(adoption, Adoption::Ended(RunEnd::Lost(LostCause::SupervisorKilled))), "{adoption:?}");
    caller.settle_with(8);
    assert_eq!(caller.ends_of(RUN), 1);
}

/// A run that was taken is running later, and ends as any other.
pub fn a_run_that_is_taken_becomes_running(harness: &mut dyn Harness) {
    let mut caller = Caller::new(harness);
    let mut request = caller.request(RUN, Deed::Sleep);
    if !caller.harness.take_late(&mut request) {
        return;
    }
    assert_eq!(caller.start_with(request.clone()).0, Started::Taken);
    assert!(matches!(caller.refusal(request), StartError::Duplicate { .. }));
    caller.until("running", |event| *event == ExecutorEvent::Running { run: RUN });
    caller.harness.until_working(RUN);
    caller.executor.stop(RUN, Stop::Gentle).expect("it is running");
    assert_eq!(caller.record_of(RUN).signal, Some(15));
    let told = caller.told.iter().filter(|event| event.run() == Some(RUN));
    let told = told.filter(|event| !matches!(event, ExecutorEvent::Accepted { .. })).count();
    assert_eq!(told, 2, "{:?}", caller.told);
    all_end_once(&caller.told);
}

/// A run that was taken and is stopped before it runs does not run, or ends like one that was stopped.
pub fn a_run_stopped_before_it_runs_never_starts(harness: &mut dyn Harness) {
    let mut caller = Caller::new(harness);
    let mut request = caller.request(RUN, Deed::Sleep);
    if !caller.harness.take_late(&mut request) {
        return;
    }
    assert_eq!(caller.start_with(request).0, Started::Taken);
    caller.executor.stop(RUN, Stop::Gentle).expect("it is taken");
    match caller.end_of(RUN) {
        RunEnd::NeverStarted => {}
        RunEnd::Ended(record) => assert_eq!(record.cause, Cause::StopRequested),
        other => panic!("unexpected end {other:?}"),
    }
    caller.settle_with(8);
    assert_eq!(caller.ends_of(RUN), 1);
    all_end_once(&caller.told);
}

/// An end that cannot be read is no end: it is told when it can be read, as it was.
pub fn an_end_that_cannot_be_read_is_told_later(harness: &mut dyn Harness) {
    let mut caller = Caller::new(harness);
    let known = caller.start(RUN, Deed::Sleep);
    caller.harness.until_working(RUN);
    if !caller.harness.keep_unreadable(RUN) {
        return;
    }
    caller.executor.stop(RUN, Stop::Gentle).expect("it is running");
    caller.until("that it cannot be read", |event| matches!(event, ExecutorEvent::Unreadable { run: RUN, .. }));
    assert_eq!(caller.ends_of(RUN), 0);
    // A caller that comes now does not know more.
    caller.crash();
    assert!(matches!(caller.executor.adopt(&known), Adoption::Unknown));
    caller.harness.let_read();
    assert_eq!(caller.record_of(RUN).signal, Some(15));
    assert_eq!(caller.ends_of(RUN), 1);
}

/// A node that does not answer takes no runs, keeps the ends of those it has, and tells of them when it is back.
pub fn a_node_goes_and_comes_back(harness: &mut dyn Harness) {
    let mut caller = Caller::new(harness);
    let node = caller.executor.inventory().swap_remove(0);
    let known = caller.start(RUN, Deed::Sleep);
    caller.harness.until_working(RUN);
    if !caller.harness.lose_node(&node.name) {
        return;
    }
    caller.until("the loss", |event| matches!(event, ExecutorEvent::NodeGone { node: gone, .. } if *gone == node.name));
    assert!(caller.executor.inventory().iter().any(|now| now.name == node.name && !now.answers));
    let other = RunKey { job: 8, attempt: 1 };
    let request = caller.request(other, Deed::Exit(0));
    assert!(matches!(caller.refusal(request), StartError::Place { .. }));
    caller.executor.stop(RUN, Stop::Gentle).expect("it may be running");
    // The others go on, and who comes now learns nothing of the one that is gone.
    assert_eq!(caller.ends_of(RUN), 0);
    caller.crash();
    assert!(matches!(caller.executor.adopt(&known), Adoption::Unknown));
    caller.harness.return_node(&node.name);
    caller.until("the return", |event| matches!(event, ExecutorEvent::NodeBack(back) if back.name == node.name));
    assert_eq!(caller.record_of(RUN).signal, Some(15));
    caller.settle_with(9);
    assert_eq!(caller.ends_of(RUN), 1);
    all_end_once(&caller.told);
}

/// Devices that come or go are told, and listed from then on.
pub fn devices_that_change_are_told(harness: &mut dyn Harness) {
    let mut caller = Caller::new(harness);
    let node = caller.executor.inventory().swap_remove(0);
    if !caller.harness.change_devices(&node.name) {
        return;
    }
    // A node that is new is told of in the same way.
    let is_change = |now: &Node| now.name == node.name && now.devices != node.devices;
    let event = caller.until("the change", |event| matches!(event, ExecutorEvent::InventoryChanged(now) if is_change(now)));
    let ExecutorEvent::InventoryChanged(changed) = event else { panic!("{event:?}") };
    assert!(caller.executor.inventory().contains(&changed));
}

/// The output of a run can be read, while it may go on and after.
pub fn a_log_can_be_read(harness: &mut dyn Harness) {
    let mut caller = Caller::new(harness);
    caller.start(RUN, Deed::Print);
    caller.end_of(RUN);
    assert_eq!(caller.executor.log_end(RUN, 3).expect("it has a log"), b"lo\n");
    assert_eq!(caller.executor.log_end(RUN, 100).expect("it has a log"), b"hello\n");
    if let Some(path) = caller.executor.log_path(RUN) {
        assert_eq!(std::fs::read(path).expect("it is there"), b"hello\n");
    }
    assert!(caller.executor.log_end(RunKey { job: 99, attempt: 1 }, 3).is_err());
}

/// Many runs at once, some of them stopped, with a caller that is gone in between: each ends once, as it should.
pub fn many_runs_each_end_once(harness: &mut dyn Harness) {
    let mut caller = Caller::new(harness);
    let run = |job: u64| RunKey { job, attempt: 1 };
    let known = (1..=12).map(|job| caller.start(run(job), if job % 3 == 0 { Deed::Sleep } else { Deed::Exit(job as i32) }));
    let known = known.collect::<Vec<_>>();
    (3..=12).step_by(3).for_each(|job| caller.harness.until_working(run(job)));
    caller.crash();
    let mut answered = 0;
    for known in &known {
        // An end may have been told to the caller before, and is then told again to the one after it.
        if let Adoption::Ended(end) = caller.executor.adopt(known) {
            assert!(matches!(&end, RunEnd::Ended(record) if record.code == Some(known.run.job as i32)), "{end:?}");
            answered += 1;
        }
    }
    caller.told.clear();
    for job in (3..=12).step_by(3) {
        caller.executor.stop(run(job), Stop::Gentle).expect("it is running");
        assert_eq!(caller.record_of(run(job)).signal, Some(15));
    }
    caller.settle_with(20);
    let is_over = |caller: &mut Caller<'_>| (1..=12).map(|job| caller.ends_of(run(job))).sum::<usize>() + answered == 12;
    while !is_over(&mut caller) {
        assert!(caller.harness.pass(), "not all ended: {:?}", caller.told);
    }
    all_end_once(&caller.told);
}
