//! The simulator with the real policies: textbook vectors, properties, determinism.
#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::float_cmp,
    reason = "a test that cannot go on fails, and simulated times are exact"
)]

mod backfill;
mod defects;
mod five_types;
mod history;
mod interference;
mod learning;
mod properties;
mod rounds;
mod scene;
mod sessions;
mod textbook;
mod turns;
mod victims;
