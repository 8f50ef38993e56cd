//! A replay whose process ends at any of its moments, or right before or after a call.
