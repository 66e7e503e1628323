//! Rate limits: a plan of all that match, charged together or not at all; `RateLimit` fields.
