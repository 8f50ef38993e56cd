//! Objects in a folder.
