//! Objects, and the inbox, in one S3 bucket.
