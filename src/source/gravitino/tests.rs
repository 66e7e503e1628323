//! The source against a double of the server, which answers as the recorded servers did.

mod double;
mod online;
mod probes;
mod snapshots;
mod trouble;
