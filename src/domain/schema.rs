//! Gemini's upper-case OpenAPI dialect of schemas, mapped to JSON Schema, and checks against either.
