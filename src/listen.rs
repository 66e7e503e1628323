//! Accept loop, TLS, the strict guard on HTTP/1 heads, HTTP/2, drain.
