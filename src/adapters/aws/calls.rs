//! A log line for each call to AWS: what a function's role must allow, seen from inside.

use aws_sdk_dynamodb::config::{ConfigBag, Intercept, RuntimeComponents};
use aws_smithy_runtime_api::box_error::BoxError;
use aws_smithy_runtime_api::client::interceptors::context::BeforeSerializationInterceptorContextRef;
use aws_smithy_runtime_api::client::interceptors::dyn_dispatch_hint;
use aws_smithy_runtime_api::client::orchestrator::Metadata;
use tracing::debug;

/// Who wants these lines and no others says `GLEANER_LOG=info,gleaner::aws=debug`.
const TARGET: &str = "gleaner::aws";

/// Logs service and operation of every call, at level debug under a target of their own.
#[derive(Debug, Clone, Copy)]
pub struct Calls;

#[dyn_dispatch_hint]
impl Intercept for Calls {
    fn name(&self) -> &'static str {
        "Calls"
    }

    // The first hook that knows the operation.
    fn read_before_serialization(
        &self,
        _: &BeforeSerializationInterceptorContextRef<'_>,
        _: &RuntimeComponents,
        config: &mut ConfigBag,
    ) -> Result<(), BoxError> {
        if let Some(call) = config.load::<Metadata>() {
            debug!(target: TARGET, { aws.service = call.service(), aws.operation = call.name() }, "call");
        }
        Ok(())
    }
}
