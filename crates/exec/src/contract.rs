//! The contract suite: what every executor must do, whatever it runs on. An executor passes it with a [`Harness`] of its own and one line,
//! `rota_exec::executor_contract!(MyHarness::new)`.
//!
//! What a harness cannot bring about, such as the loss of a node on an executor with one node, it says, and the check is passed over.
#![expect(clippy::missing_panics_doc, clippy::expect_used, reason = "a check that fails panics, as a test does")]

mod caller;
pub mod checks;

pub use caller::{Caller, all_end_once};

use std::ffi::OsString;
use std::path::PathBuf;

use crate::executor::{EventSink, Executor, NodeName, RunKey, RunRequest};

/// What a run of the suite does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Deed {
    /// Exits with a code.
    Exit(i32),
    /// Ends itself by signal 9.
    KillItself,
    /// Runs until it is asked to end.
    Sleep,
    /// Runs until it is killed: does not heed a request to end.
    Stubborn,
    /// Writes `hello` and a line break, and exits with 0.
    Print,
    /// Is a program that is not there.
    Missing,
}

/// A place for an executor, with hands on what is behind it.
pub trait Harness {
    /// A new caller on this place. Those before are gone, without having cleaned up.
    fn connect(&mut self, sink: EventSink) -> Box<dyn Executor>;

    /// A command that does a deed.
    fn command(&self, deed: Deed) -> Vec<OsString>;

    /// A working directory for runs.
    fn cwd(&self) -> PathBuf;

    /// Lets a little time pass, so that something may happen. False if nothing ever will: too much time has passed.
    fn pass(&mut self) -> bool;

    /// Waits until a run that was told to run does its deed.
    fn until_working(&mut self, run: RunKey);

    /// Kills the supervisor of a run.
    fn kill_supervisor(&mut self, run: RunKey);

    /// Sees to it that this start will be taken first and running later. False if this cannot be.
    fn take_late(&mut self, request: &mut RunRequest) -> bool;

    /// Sees to it that the end of a run cannot be read until [`Self::let_read`]. False if this cannot be.
    fn keep_unreadable(&mut self, run: RunKey) -> bool;

    /// Lets ends be read again.
    fn let_read(&mut self);

    /// Cuts a node off. False if this cannot be.
    fn lose_node(&mut self, node: &NodeName) -> bool;

    /// Lets a node that was cut off answer again.
    fn return_node(&mut self, node: &NodeName);

    /// Takes away the last device of a node, or adds one. False if this cannot be.
    fn change_devices(&mut self, node: &NodeName) -> bool;
}

/// Makes a test of each check of the contract, for the harness that an expression makes. With `one NAME, HARNESS`, all checks are one
/// function of that name, for executors whose place is made slowly.
#[macro_export]
macro_rules! executor_contract {
    (@each $harness:expr; $($check:ident,)*) => {
        $(
            #[test]
            fn $check() {
                $crate::contract::checks::$check(&mut $harness());
            }
        )*
    };
    (@one $name:ident $harness:expr; $($check:ident,)*) => {
        fn $name() {
            $(
                $crate::contract::checks::$check(&mut $harness());
            )*
        }
    };
    (@checks $($mode:tt)*) => {
        $crate::executor_contract!($($mode)*;
            inventory_names_nodes_and_devices,
            a_run_starts_once_and_ends_once,
            exit_statuses_are_told_as_they_are,
            a_time_limit_ends_a_run,
            a_program_that_is_missing_could_not_start,
            a_gentle_stop_asks,
            a_stop_at_once_kills_and_ends_the_grace,
            a_stop_of_an_unknown_run_is_an_error,
            a_second_start_is_refused,
            a_start_on_an_unknown_node_is_refused,
            a_run_outlives_its_caller_and_is_adopted,
            a_run_that_ended_meanwhile_is_known_as_often_as_asked,
            a_run_that_was_never_started_never_starts,
            a_run_of_another_identity_is_not_adopted,
            an_old_run_makes_way_for_a_new_one_of_its_number,
            a_killed_supervisor_leaves_a_lost_run,
            a_run_that_is_taken_becomes_running,
            a_run_stopped_before_it_runs_never_starts,
            an_end_that_cannot_be_read_is_told_later,
            a_node_goes_and_comes_back,
            devices_that_change_are_told,
            a_log_can_be_read,
            many_runs_each_end_once,
        );
    };
    (one $name:ident, $harness:expr) => {
        $crate::executor_contract!(@checks @one $name $harness);
    };
    ($harness:expr) => {
        $crate::executor_contract!(@checks @each $harness);
    };
}
