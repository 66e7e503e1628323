//! The path of a request, in one function.
