//! Notices by a topic of SNS.

use async_trait::async_trait;
use aws_sdk_sns::Client;

use super::fault::{Fault, judge};
use crate::ports::notices::{NoticeError, Notices};

/// The most characters of a subject: SNS wants fewer than 100, all of them ASCII and none of them a control character
/// (<https://docs.aws.amazon.com/sns/latest/api/API_Publish.html>).
const SUBJECT: usize = 99;

/// One topic.
#[derive(Debug, Clone)]
pub struct SnsTopic {
    client: Client,
    arn: String,
}

impl SnsTopic {
    /// The topic of that ARN. Nothing is sent yet.
    #[must_use]
    pub const fn new(client: Client, arn: String) -> Self {
        Self { client, arn }
    }
}

#[async_trait]
impl Notices for SnsTopic {
    async fn tell(&self, subject: &str, text: &str) -> Result<(), NoticeError> {
        let request = self.client.publish().topic_arn(&self.arn).subject(fitting(subject)).message(text);
        request.send().await.map(drop).map_err(|error| match judge(&format!("publishing to {}", self.arn), &error) {
            Fault::Busy(why) => NoticeError::Busy(why),
            Fault::NeedsPerson(why) => NoticeError::NeedsPerson(why),
        })
    }
}

/// A subject as SNS takes it.
fn fitting(subject: &str) -> String {
    let plain = |c: char| if c.is_ascii_graphic() || c == ' ' { c } else { '?' };
    subject.trim_start().chars().map(plain).take(SUBJECT).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_subject_is_made_to_fit() {
        assert_eq!(fitting("gleaner: 3 dead letters"), "gleaner: 3 dead letters");
        assert_eq!(fitting(" \n名前: a\tb\u{7f}"), "??: a?b?");
        assert_eq!(fitting(&"x".repeat(200)).len(), 99);
    }
}
