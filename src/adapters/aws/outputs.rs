//! The outputs of a stack: how a person's own machine finds its parts.

use std::collections::HashMap;

use aws_config::SdkConfig;
use aws_sdk_cloudformation::error::ProvideErrorMetadata;
use thiserror::Error;

use super::fault::{Fault, judge};
use super::stack::Names;
use super::tuned;

/// Why a stack's parts were not found: a person must act, or try again.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum OutputsError {
    /// There is no such stack in this account and region.
    #[error("there is no stack {0} in this account and region: is AWS_REGION or AWS_PROFILE another one?")]
    NoStack(String),
    /// It has no such output.
    #[error("the stack {stack} has no output {output}: is it one of gleaner's, and of this version?")]
    NoOutput {
        /// The stack.
        stack: String,
        /// The output.
        output: &'static str,
    },
    /// AWS could not be asked.
    #[error("AWS could not be asked about the stack {0}: {1}")]
    NoAnswer(String, String),
}

/// The outputs of one stack.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Outputs {
    stack: String,
    values: HashMap<String, String>,
}

impl Outputs {
    /// Reads the outputs of the stack of that name.
    ///
    /// # Errors
    /// [`OutputsError::NoStack`], [`OutputsError::NoAnswer`].
    pub async fn read(config: &SdkConfig, stack: &str) -> Result<Self, OutputsError> {
        let client = aws_sdk_cloudformation::Client::new(&tuned(config));
        let described = client.describe_stacks().stack_name(stack).send().await.map_err(|error| {
            // CloudFormation has no error of its own for it.
            let absent = error.code() == Some("ValidationError")
                && error.message().is_some_and(|message| message.contains("does not exist"));
            if absent {
                OutputsError::NoStack(stack.to_owned())
            } else {
                let (Fault::Busy(why) | Fault::NeedsPerson(why)) = judge("asking CloudFormation", &error);
                OutputsError::NoAnswer(stack.to_owned(), why)
            }
        })?;
        let found = described.stacks().first().ok_or_else(|| OutputsError::NoStack(stack.to_owned()))?;
        let outputs = found.outputs().iter();
        let pair = |output: &aws_sdk_cloudformation::types::Output| {
            Some((output.output_key()?.to_owned(), output.output_value()?.to_owned()))
        };
        Ok(Self { stack: stack.to_owned(), values: outputs.filter_map(pair).collect() })
    }

    /// The value of an output.
    ///
    /// # Errors
    /// [`OutputsError::NoOutput`].
    pub fn get(&self, output: &'static str) -> Result<&str, OutputsError> {
        let missing = || OutputsError::NoOutput { stack: self.stack.clone(), output };
        self.values.get(output).map(String::as_str).ok_or_else(missing)
    }

    /// What its parts are called.
    ///
    /// # Errors
    /// [`OutputsError::NoOutput`].
    pub fn names(&self) -> Result<Names, OutputsError> {
        Ok(Names {
            table: self.get("Table")?.to_owned(),
            bucket: self.get("Bucket")?.to_owned(),
            work_queue: self.get("WorkQueue")?.to_owned(),
            dead_letters: self.get("DeadLetters")?.to_owned(),
            gemini_secret: self.get("GeminiSecret")?.to_owned(),
        })
    }
}
