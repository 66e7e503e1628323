//! What operators see: metrics, the audit record of each request, and the process' own log.
//!
//! The request path fills one [`audit::Record`]; [`metrics::Metrics::observe`] and [`audit::Audit::write`] take it from
//! there. Neither waits: a slow disk or pipe costs records, which are counted, and never a request.

pub mod audit;
pub mod log;
pub mod metrics;

mod lines;
