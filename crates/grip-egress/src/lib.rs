//! The one way out: HTTP requests that reach public hosts only, politely and within limits.
