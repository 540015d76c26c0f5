//! The paths of the admission port.
//!
//! Input: HTTP requests. Output: answers to reviews, or an HTTP error in plain text. An error status
//! makes the API server go by its failure policy, so it is used only where no review could be
//! answered. The text never repeats the body.

use std::sync::Arc;
use std::time::Instant;

use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Method, Request, Response, StatusCode, header};
use http_body_util::Full;
use hyper::body::{Body, Incoming};
use prometheus_client::metrics::histogram::Histogram;

use super::body::{BODY_BUDGET, BodyError, Budget};
use super::handle::{Edge, ReviewError};
use super::judge::Endpoint;
use super::server::Answer;
use crate::telemetry::metrics::{EndpointLabels, ReviewLabels};

const JSON: HeaderValue = HeaderValue::from_static("application/json");
const TEXT: HeaderValue = HeaderValue::from_static("text/plain; charset=utf-8");

/// `POST /validate` and `POST /observe`; 404 and 405 for everything else. Clones share what is counted and the memory
/// for bodies.
///
/// Two paths need no router; what every review passes through is kept short, because between two of them the processor
/// has forgotten all of it.
#[derive(Clone, Debug)]
pub struct AdmissionPort {
    edge: Arc<Edge>,
    budget: Budget,
    validate_seconds: Histogram,
    observe_seconds: Histogram,
}

/// Why a request gets no review.
#[derive(Debug, thiserror::Error)]
enum Rejection {
    #[error("content type must be application/json")]
    ContentType,
    #[error("content encodings are not supported")]
    ContentEncoding,
    #[error(transparent)]
    Body(#[from] BodyError),
    #[error(transparent)]
    Review(#[from] ReviewError),
}

impl AdmissionPort {
    /// The port of this edge.
    #[must_use]
    pub fn new(edge: Arc<Edge>) -> Self {
        let metrics = edge.metrics();
        let budget = Budget::new(BODY_BUDGET, metrics.body_bytes.clone());
        let [validate_seconds, observe_seconds] = [Endpoint::Validate, Endpoint::Observe].map(|endpoint| {
            metrics.review_seconds.get_or_create_owned(&EndpointLabels { endpoint: endpoint.as_str() })
        });
        Self { edge, budget, validate_seconds, observe_seconds }
    }

    /// Answers one request, whatever it asks for.
    pub async fn respond<B>(&self, request: Request<B>) -> Response<Full<Bytes>>
    where
        B: Body<Data = Bytes> + Unpin,
    {
        let (endpoint, seconds) = match request.uri().path() {
            "/validate" => (Endpoint::Validate, &self.validate_seconds),
            "/observe" => (Endpoint::Observe, &self.observe_seconds),
            _ => return response(StatusCode::NOT_FOUND, TEXT, "no such path\n"),
        };
        if request.method() != Method::POST {
            let mut response = response(StatusCode::METHOD_NOT_ALLOWED, TEXT, "only POST\n");
            response.headers_mut().insert(header::ALLOW, HeaderValue::from_static("POST"));
            return response;
        }
        let started = Instant::now();
        let answered = self.review(endpoint, request).await;
        seconds.observe(started.elapsed().as_secs_f64());
        let rejection = match answered {
            Ok(body) => return response(StatusCode::OK, JSON, body),
            Err(rejection) => rejection,
        };
        // A review that cannot be read has been counted and logged where it was read.
        if !matches!(rejection, Rejection::Review(_)) {
            let endpoint = endpoint.as_str();
            let labels = ReviewLabels { endpoint, operation: "unknown", outcome: "error" };
            self.edge.metrics().reviews.get_or_create(&labels).inc();
            tracing::warn!(endpoint, error = %rejection, "request rejected");
        }
        response(rejection.status(), TEXT, format!("{rejection}\n"))
    }

    async fn review<B>(&self, endpoint: Endpoint, request: Request<B>) -> Result<Vec<u8>, Rejection>
    where
        B: Body<Data = Bytes> + Unpin,
    {
        let (head, body) = request.into_parts();
        check_headers(&head.headers)?;
        let body = self.budget.read(body, announced_length(&head.headers)).await?;
        Ok(self.edge.review(endpoint, body.bytes.clone()).await?)
    }
}

impl Answer for AdmissionPort {
    type Body = Full<Bytes>;

    async fn answer(&self, request: Request<Incoming>) -> Response<Self::Body> {
        self.respond(request).await
    }
}

fn response(status: StatusCode, kind: HeaderValue, body: impl Into<Bytes>) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::new(body.into()));
    *response.status_mut() = status;
    response.headers_mut().insert(header::CONTENT_TYPE, kind);
    response
}

fn check_headers(headers: &HeaderMap) -> Result<(), Rejection> {
    // Nothing is ever decompressed: a few bytes could become gigabytes.
    if headers.contains_key(header::CONTENT_ENCODING) {
        return Err(Rejection::ContentEncoding);
    }
    let mut kinds = headers.get_all(header::CONTENT_TYPE).iter();
    match (kinds.next(), kinds.next()) {
        (Some(kind), None) if is_json(kind) => Ok(()),
        _ => Err(Rejection::ContentType),
    }
}

/// `application/json`, with no parameter but `charset=utf-8`.
fn is_json(kind: &HeaderValue) -> bool {
    let Ok(kind) = kind.to_str() else { return false };
    let mut parts = kind.split(';').map(str::trim);
    parts.next().is_some_and(|kind| kind.eq_ignore_ascii_case("application/json"))
        && parts.all(|parameter| {
            parameter.split_once('=').is_some_and(|(name, value)| {
                name.eq_ignore_ascii_case("charset") && value.trim_matches('"').eq_ignore_ascii_case("utf-8")
            })
        })
}

/// hyper has made sure that there is one length at most, and no length beside chunks.
fn announced_length(headers: &HeaderMap) -> Option<u64> {
    headers.get(header::CONTENT_LENGTH)?.to_str().ok()?.parse().ok()
}

impl Rejection {
    fn status(&self) -> StatusCode {
        match self {
            Self::ContentType | Self::ContentEncoding => StatusCode::UNSUPPORTED_MEDIA_TYPE,
            Self::Body(BodyError::TooLarge) => StatusCode::PAYLOAD_TOO_LARGE,
            Self::Body(BodyError::TooSlow) => StatusCode::REQUEST_TIMEOUT,
            Self::Body(BodyError::Busy) => StatusCode::SERVICE_UNAVAILABLE,
            Self::Body(BodyError::Broken) | Self::Review(ReviewError::Unreadable(_)) => {
                StatusCode::BAD_REQUEST
            }
            Self::Review(ReviewError::Internal) => StatusCode::INTERNAL_SERVER_ERROR,
        }
    }
}
