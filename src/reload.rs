//! Watches files and swaps what they hold after it was checked; keeps the last good.
