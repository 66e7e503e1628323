//! Where a [`World`](crate::policy::World) comes from: policy files. The last good one stays when a reload finds faults.
//!
//! Beside it, or instead: an Apache Gravitino server that is asked ([`gravitino`]).

pub use self::files::Files;

mod files;
pub mod gravitino;
