//! An exchange with the backend, in a task of its own: a client that leaves does not cancel it.
