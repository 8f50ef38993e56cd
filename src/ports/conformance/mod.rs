//! One conformance suite per port: every adapter passes them.
