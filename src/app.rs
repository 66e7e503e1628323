//! Configuration → a running gate. The only place that wires things together.
