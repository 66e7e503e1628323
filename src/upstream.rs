//! The lineage backend: a pooled client, and one file a kind that reads raw answers as an `Outcome`.
