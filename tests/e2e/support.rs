//! What the tests share: a whole gate in process, clients, and a backend that can do anything.

pub(crate) mod client;
pub(crate) mod events;
pub(crate) mod gate;
pub(crate) mod gravitino;
pub(crate) mod upstream;
pub(crate) mod worlds;
