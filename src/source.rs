//! Where worlds come from: policy files. The last good world is kept.
