//! Gemini as a server: for trying out, and for tests that count paid work.
