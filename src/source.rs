//! Where a [`World`](crate::policy::World) comes from: policy files, whose last good one stays when a reload finds faults,
//! and a Gravitino server, which is asked through a cache. [`Source`] judges an event by both.

pub use self::files::Files;
pub use self::gravitino::Gravitino;
pub use self::judge::{Ask, Remote, Ruled, Source, Unjudged};

pub mod cache;
pub mod gravitino;

mod files;
mod judge;
