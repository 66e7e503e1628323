//! The health listener and the control listener.
