//! The paths of the admission port.
//!
//! Input: HTTP requests. Output: answers to reviews, or an HTTP error in plain text. An error status
//! makes the API server go by its failure policy, so it is used only where no review could be
//! answered. The text never repeats the body.

use std::sync::Arc;
use std::time::Instant;

use axum::Router;
use axum::body::Body;
use axum::extract::{Request, State};
use axum::response::{IntoResponse, Response};
use axum::routing::post;
use http::{HeaderMap, HeaderValue, StatusCode, header};

use super::body::{BODY_BUDGET, BodyError, Budget};
use super::handle::{Edge, ReviewError};
use super::judge::Endpoint;
use crate::telemetry::metrics::{EndpointLabels, ReviewLabels};

#[derive(Clone)]
struct Port {
    edge: Arc<Edge>,
    budget: Budget,
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

/// `POST /validate` and `POST /observe`; 404 and 405 for everything else.
pub fn router(edge: Arc<Edge>) -> Router {
    let budget = Budget::new(BODY_BUDGET, edge.metrics().body_bytes.clone());
    Router::new()
        .route(
            "/validate",
            post(async |State(port), request| serve(&port, Endpoint::Validate, request).await),
        )
        .route("/observe", post(async |State(port), request| serve(&port, Endpoint::Observe, request).await))
        .with_state(Port { edge, budget })
}

async fn serve(port: &Port, endpoint: Endpoint, request: Request) -> Response {
    let started = Instant::now();
    let answered = answer(port, endpoint, request).await;
    let metrics = port.edge.metrics();
    let labels = EndpointLabels { endpoint: endpoint.as_str() };
    metrics.review_seconds.get_or_create(&labels).observe(started.elapsed().as_secs_f64());
    match answered {
        Ok(body) => {
            let json = HeaderValue::from_static("application/json");
            ([(header::CONTENT_TYPE, json)], body).into_response()
        }
        Err(rejection) => {
            // A review that cannot be read has been counted and logged where it was read.
            if !matches!(rejection, Rejection::Review(_)) {
                let labels =
                    ReviewLabels { endpoint: endpoint.as_str(), operation: "unknown", outcome: "error" };
                metrics.reviews.get_or_create(&labels).inc();
                tracing::warn!(endpoint = endpoint.as_str(), error = %rejection, "request rejected");
            }
            rejection.into_response()
        }
    }
}

async fn answer(port: &Port, endpoint: Endpoint, request: Request) -> Result<Vec<u8>, Rejection> {
    let (head, body) = request.into_parts();
    check_headers(&head.headers)?;
    let body = port.budget.read(body, announced_length(&head.headers)).await?;
    Ok(port.edge.review(endpoint, body.bytes.clone()).await?)
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

impl IntoResponse for Rejection {
    fn into_response(self) -> Response {
        let status = match self {
            Self::ContentType | Self::ContentEncoding => StatusCode::UNSUPPORTED_MEDIA_TYPE,
            Self::Body(BodyError::TooLarge) => StatusCode::PAYLOAD_TOO_LARGE,
            Self::Body(BodyError::TooSlow) => StatusCode::REQUEST_TIMEOUT,
            Self::Body(BodyError::Busy) => StatusCode::SERVICE_UNAVAILABLE,
            Self::Body(BodyError::Broken) | Self::Review(ReviewError::Unreadable(_)) => {
                StatusCode::BAD_REQUEST
            }
            Self::Review(ReviewError::Internal) => StatusCode::INTERNAL_SERVER_ERROR,
        };
        (status, Body::from(format!("{self}\n"))).into_response()
    }
}
