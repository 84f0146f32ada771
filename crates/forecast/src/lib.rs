//! The future of a queue: the real scheduler is forked and run forward from its present state.
//!
//! Nobody knows how long jobs run. [`lengths`] says what is believed of it, from the jobs that ran before. [`starts`] draws lengths from that
//! some hundred times, draws the jobs that will come from those that came lately ([`arrivals`]), lets the forked scheduler decide in a [`world`] of its own, and reads off when each waiting job starts.
//! [`changes`] asks the same of a job that asks for something else. [`score`] compares what was said with what happened, and [`calibration`] corrects
//! forecasts by it.
//!
//! Nothing here changes the queue: a fork is a copy. Same state, same seed, same answer.

pub mod accuracy;
pub mod arrivals;
pub mod calibration;
pub mod changes;
mod holds;
pub mod lengths;
pub mod score;
mod simpler;
pub mod starts;
pub mod world;

pub use accuracy::{Accuracy, Outcome, Score};
pub use arrivals::{ArrivalPool, RecentArrivals};
pub use calibration::{Calibration, Said, TurnedOut};
pub use changes::{Change, ChangeOptions, Changes, Counterfactual, Subject};
pub use holds::Holds;
pub use lengths::{LengthBelief, Lengths, RunLength};
pub use rota_sim::QuotaLimits;
pub use score::ScoreOptions;
pub use starts::{Forecast, ForecastOptions, Fork};
pub use world::ArrivingWorld;
