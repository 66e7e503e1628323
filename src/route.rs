//! Method and path → endpoint.
