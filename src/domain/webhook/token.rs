//! Tokens (RS256 JWT) in the place of a signature.
