//! The routes of the API, one file for each kind of thing. [`lookback`] is what all routes about the past share.

pub mod curves;
pub mod events;
pub mod groups;
pub mod history;
pub mod jobs;
pub mod lists;
pub mod logs;
pub mod lookback;
pub mod machine;
pub mod metrics;
pub mod notify;
pub mod predictions;
pub mod simulations;
pub mod timeline;
pub mod tokens;
pub mod usage;
pub mod watchmen;
