//! lineage-gate: a policy-enforcing proxy for OpenLineage events.
//!
//! The life of a request, and the modules in that order:
//!
//! ```text
//! TCP ─ listen ─▶ Request ─ route ─▶ Endpoint ─ auth ─▶ Caller ─ event ─▶ Event ─ policy ─▶ Verdict ─ deliver ─▶ upstream
//!                      │                          │               │                    │                          │
//!                      └──── limit (requests) ────┴─ (requests) ──┴─ (events, bytes) ──┴─ (metalake)              │
//!                                                                                                                 ▼
//!         Response ◀─ dialect ◀─ Refusal (any stage that says no) or Outcome ◀─────────────────────────────────────┘
//! ```
//!
//! `gate` is this picture as one function. A stage takes what the stage before it made, and returns the next thing or
//! its own error, which `answer` turns into a `Refusal`; none reaches back, and only `dialect` knows HTTP status codes.
//! `policy`, `answer`, `dialect`, `event::scan` and the arithmetic of `limit` do no I/O and read no clock.

#[cfg(test)]
extern crate self as lineage_gate;

pub mod cli;

pub mod app;
pub mod config;
pub mod reload;

pub mod gate;
pub mod passthrough;

pub mod listen;
pub mod route;

pub mod auth;

pub mod limit;

pub mod event;

pub mod policy;
pub mod source;

pub mod deliver;
pub mod upstream;

pub mod answer;
pub mod dialect;

pub mod admin;
pub mod observe;
