//! Where a [`World`](crate::policy::World) comes from: policy files. The last good one stays when a reload finds faults.

pub use self::files::Files;

mod files;
