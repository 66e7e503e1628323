mod cache;
mod checklist;
mod keys;
mod kubernetes;
mod remote;
pub(super) mod support;
