//! The API over HTTP: connections, tokens, requests of all kinds, pages.

mod bad_input;
mod connections;
mod contract;
mod crowds;
mod listening;
mod metrics;
mod pages;
mod past;
pub mod port;
mod privacy;
mod tokens;
