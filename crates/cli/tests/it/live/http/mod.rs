//! The API over HTTP: connections, tokens, requests of all kinds, pages.

mod bad_input;
mod connections;
mod crowds;
mod contract;
mod listening;
mod metrics;
mod pages;
mod past;
pub mod port;
mod tokens;
