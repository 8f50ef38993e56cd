//! The system's clock and randomness.
