//! Requests over HTTP as Lambda gets them: API Gateway's payload formats 2.0 and 1.0, and function URLs, whose events have
//! the form of 2.0 (<https://docs.aws.amazon.com/apigateway/latest/developerguide/http-api-develop-integrations-lambda.html>).

use std::fmt;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use serde::Deserialize;
use serde::de::{Deserializer, MapAccess, Visitor};
use serde_json::{Value, json};
use thiserror::Error;

use crate::domain::webhook::{LARGEST, Request};

/// Why an event holds no request.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub(super) enum HttpError {
    /// It is no event of an HTTP request.
    #[error("the event is no HTTP request of API Gateway or of a function URL")]
    NotHttp,
    /// The body says that it is base64 and isn't.
    #[error("the body is not base64")]
    Base64,
}

/// A request and its method.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Http {
    pub(super) method: String,
    pub(super) request: Request,
}

/// An event of either format, as far as it matters.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Event {
    request_context: Option<Context>,
    http_method: Option<String>,
    #[serde(default)]
    headers: Pairs<Option<String>>,
    /// Format 1.0 only: each value of a header that came more than once.
    #[serde(default)]
    multi_value_headers: Pairs<Option<Vec<String>>>,
    body: Option<String>,
    #[serde(default)]
    is_base64_encoded: bool,
}

#[derive(Deserialize)]
struct Context {
    http: Option<Method>,
}

#[derive(Deserialize)]
struct Method {
    method: String,
}

/// The members of a JSON object as they came: a name that comes twice is there twice.
struct Pairs<T>(Vec<(String, T)>);

impl<T> Default for Pairs<T> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Pairs<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Members<T>(std::marker::PhantomData<T>);
        impl<'de, T: Deserialize<'de>> Visitor<'de> for Members<T> {
            type Value = Pairs<T>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object, or null")
            }

            fn visit_unit<E>(self) -> Result<Self::Value, E> {
                Ok(Pairs::default())
            }

            fn visit_map<M: MapAccess<'de>>(self, mut members: M) -> Result<Self::Value, M::Error> {
                let mut pairs = Vec::new();
                while let Some(pair) = members.next_entry()? {
                    pairs.push(pair);
                }
                Ok(Pairs(pairs))
            }
        }
        deserializer.deserialize_any(Members(std::marker::PhantomData))
    }
}

impl Http {
    /// Reads an event.
    ///
    /// # Errors
    /// An event of another kind, or a body that can't be decoded.
    pub(super) fn read(event: &str) -> Result<Self, HttpError> {
        let event: Event = serde_json::from_str(event).map_err(|_| HttpError::NotHttp)?;
        let in_context = event.request_context.and_then(|context| context.http).map(|http| http.method);
        let method = in_context.or(event.http_method).ok_or(HttpError::NotHttp)?;
        let body = event.body.unwrap_or_default();
        let body = match event.is_base64_encoded {
            // A longer one than is taken need not be decoded to be too long.
            true if body.len() > 2 * LARGEST => Bytes::from(body),
            true => STANDARD.decode(body).map_err(|_| HttpError::Base64)?.into(),
            false => Bytes::from(body),
        };
        let Pairs(single) = event.headers;
        let Pairs(multi) = event.multi_value_headers;
        // Format 1.0 has each header in both, `headers` with its last value.
        let mut headers: Vec<(String, String)> = multi
            .into_iter()
            .flat_map(|(name, values)| values.unwrap_or_default().into_iter().map(move |value| (name.clone(), value)))
            .collect();
        let is_known = |headers: &[(String, String)], name: &str| headers.iter().any(|(known, _)| known == name);
        let only_single: Vec<_> = single.into_iter().filter(|(name, _)| !is_known(&headers, name)).collect();
        headers.extend(only_single.into_iter().filter_map(|(name, value)| Some((name, value?))));
        Ok(Self { method, request: Request { headers, body } })
    }
}

/// An answer, in the form that both formats take.
pub(super) fn answer(status: u16, headers: &[(&str, &str)], body: &str) -> Value {
    let mut all = serde_json::Map::new();
    all.insert("content-type".to_owned(), json!("application/json"));
    all.extend(headers.iter().map(|(name, value)| ((*name).to_owned(), json!(value))));
    json!({"statusCode": status, "headers": all, "body": body, "isBase64Encoded": false})
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(event: &Value) -> Result<Http, HttpError> {
        Http::read(&event.to_string())
    }

    fn headers(pairs: &[(&str, &str)]) -> Vec<(String, String)> {
        pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
    }

    #[test]
    fn both_formats_and_function_urls_are_read() {
        let body = "{\"type\":\"完了\"}";
        let encoded = STANDARD.encode(body);
        let two = json!({"version": "2.0", "headers": {"webhook-id": "msg_a", "x": "1,2"}, "body": encoded,
            "isBase64Encoded": true, "requestContext": {"http": {"method": "POST", "path": "/webhook"}}});
        let one = json!({"version": "1.0", "httpMethod": "POST", "headers": {"Webhook-Id": "msg_b", "X": "2"},
            "multiValueHeaders": {"Webhook-Id": ["msg_a", "msg_b"], "X": ["1"]}, "body": body,
            "isBase64Encoded": false, "requestContext": {"resourcePath": "/webhook"}});
        let two = read(&two).unwrap();
        assert_eq!((two.method.as_str(), &*two.request.body), ("POST", body.as_bytes()));
        assert_eq!(two.request.headers, headers(&[("webhook-id", "msg_a"), ("x", "1,2")]));
        let one = read(&one).unwrap();
        assert_eq!((one.method.as_str(), &*one.request.body), ("POST", body.as_bytes()));
        assert_eq!(one.request.headers, headers(&[("Webhook-Id", "msg_a"), ("Webhook-Id", "msg_b"), ("X", "1")]));
    }

    #[test]
    fn a_name_that_comes_twice_in_the_event_is_seen_twice() {
        let event = r#"{"requestContext":{"http":{"method":"POST"}},"headers":{"webhook-id":"a","webhook-id":"b"}}"#;
        assert_eq!(Http::read(event).unwrap().request.headers, headers(&[("webhook-id", "a"), ("webhook-id", "b")]));
        let other_case =
            r#"{"httpMethod":"POST","headers":{"webhook-id":"a"},"multiValueHeaders":{"Webhook-Id":["b"]}}"#;
        assert_eq!(Http::read(other_case).unwrap().request.headers.len(), 2);
    }

    #[test]
    fn what_is_no_request_is_told() {
        for event in [json!({}), json!([]), json!({"headers": {}}), json!({"requestContext": {}}), json!("x")] {
            assert_eq!(read(&event), Err(HttpError::NotHttp), "{event}");
        }
        let broken = json!({"httpMethod": "POST", "body": "%%%", "isBase64Encoded": true});
        assert_eq!(read(&broken), Err(HttpError::Base64));
        let bare = read(&json!({"httpMethod": "GET", "headers": null, "body": null})).unwrap();
        assert_eq!((bare.request.headers.len(), bare.request.body.len()), (0, 0));
    }
}
