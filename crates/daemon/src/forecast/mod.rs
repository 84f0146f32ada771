//! Forecasts: when waiting jobs start. The queue's own scheduler is copied and run forward, in a thread of its own.
//!
//! [`fork`] is the copy that the queue's thread hands out when it is asked; that is all it does for a forecast. [`learned`] is what earlier
//! jobs taught about lengths. [`recent`] are the jobs that came lately. [`changes`] says what would start a job sooner. [`forecaster`] is the thread: it asks for a copy, runs it forward, and puts the result on the board.

pub mod changes;
pub mod forecaster;
pub mod fork;
pub mod learned;
pub mod recent;
