//! lineage-gate
fn main() {}
