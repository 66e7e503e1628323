//! The health listener and the control listener: plain HTTP/1.1, apart from the listeners for events.
//!
//! Health is open and read-only, and tells no configuration. Control is for loopback or a socket of mode 0600, always
//! wants its token over TCP, and answers no browser that another site sent.

pub use self::bind::{Bound, Error};
pub(crate) use self::readiness::printable;
pub use self::readiness::{Check, CheckState, Described, Readiness, Report};
pub use self::serve::Metrics;

pub mod control;
pub mod health;

mod bind;
mod readiness;
mod serve;
