//! Pure: names, privileges, the world, the decision, namespace rules. No I/O, no clock.
