//! The ledger in one DynamoDB table.
