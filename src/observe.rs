//! Metrics and the audit record of each request.
