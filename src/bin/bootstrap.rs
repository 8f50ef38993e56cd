//! The program of all Lambda functions.

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), lambda_runtime::Error> {
    gleaner::lambda::main().await
}
