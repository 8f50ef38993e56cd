//! How large an item may become.
