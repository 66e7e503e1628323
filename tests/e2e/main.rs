//! The whole gate, from socket to backend.
#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::string_slice,
    reason = "a test fails by panicking"
)]

mod admin;
mod answers;
mod auth;
mod batches;
mod bounds;
mod chaos;
mod clients;
mod delivery;
mod dialects;
mod drain;
mod edits;
mod gravitino;
mod issuers;
mod limits;
mod listeners;
mod marquez;
mod parity;
mod passthrough;
mod reload;
mod resend;
mod support;
mod wire;
