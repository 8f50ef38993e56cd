//! The `webhook-signature` header.
