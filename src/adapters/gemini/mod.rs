//! Gemini over HTTPS.
