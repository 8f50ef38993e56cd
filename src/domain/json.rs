//! JSON as Python prints it: the canonical form behind idempotency keys (design, section 3).
