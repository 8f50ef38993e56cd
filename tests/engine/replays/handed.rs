//! Results that could not be handed on, and attempts of batch runs.
