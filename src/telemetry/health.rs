//! Liveness, readiness with reasons, and the metrics page, as routes.
//!
//! Input: gates held by the tasks that know. Nothing here decides anything.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use axum::Router;
use axum::extract::{RawQuery, State};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use http::{StatusCode, header};
use prometheus_client::registry::Registry;

/// Named conditions that must all hold before the process calls itself ready. Clones share them.
#[derive(Clone, Debug, Default)]
pub struct Readiness(Arc<Mutex<BTreeMap<&'static str, Option<String>>>>);

impl Readiness {
    /// Adds a condition that does not hold yet, and why. It must hold from now on.
    pub fn gate(&self, name: &'static str, reason: &str) -> Gate {
        let gate = Gate { name, readiness: self.clone() };
        gate.close(reason);
        gate
    }

    /// Each gate with the reason why it is closed, `None` where it is open.
    #[must_use]
    pub fn gates(&self) -> Vec<(&'static str, Option<String>)> {
        self.lock().iter().map(|(name, reason)| (*name, reason.clone())).collect()
    }

    /// Whether there are gates and all of them are open.
    #[must_use]
    pub fn is_ready(&self) -> bool {
        let gates = self.lock();
        !gates.is_empty() && gates.values().all(Option::is_none)
    }

    /// Sets a gate, and says whether that changed anything.
    fn set(&self, name: &'static str, reason: Option<String>) -> bool {
        let mut gates = self.lock();
        let changed = gates.get(name) != Some(&reason);
        gates.insert(name, reason);
        changed
    }

    /// A panic while the lock was held cannot leave the map half changed, so poison is ignored.
    fn lock(&self) -> MutexGuard<'_, BTreeMap<&'static str, Option<String>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// One condition of [`Readiness`], held by the task that knows about it.
///
/// Dropping it closes it for good: a task that has ended cannot vouch for anything.
#[derive(Debug)]
#[must_use = "a gate closes when it is dropped"]
pub struct Gate {
    name: &'static str,
    readiness: Readiness,
}

impl Gate {
    /// The condition holds.
    pub fn open(&self) {
        if self.readiness.set(self.name, None) {
            tracing::info!(gate = self.name, "ready");
        }
    }

    /// The condition does not hold, and why.
    pub fn close(&self, reason: &str) {
        if self.readiness.set(self.name, Some(reason.to_owned())) {
            tracing::info!(gate = self.name, reason, "not ready");
        }
    }
}

impl Drop for Gate {
    /// Silent: it happens at every orderly end as well, and whoever minds the task tells the other ones.
    fn drop(&mut self) {
        self.readiness.set(self.name, Some("its task has ended".to_owned()));
    }
}

/// `/livez` and `/readyz`.
pub fn health_router(readiness: Readiness) -> Router {
    Router::new().route("/livez", get(async || "ok\n")).route("/readyz", get(readyz)).with_state(readiness)
}

/// `/metrics`.
pub fn metrics_router(registry: Arc<Registry>) -> Router {
    Router::new().route("/metrics", get(metrics)).with_state(registry)
}

/// `ok`, or one line for each gate, as on the API server; `?verbose` lists them in any case.
async fn readyz(State(readiness): State<Readiness>, RawQuery(query): RawQuery) -> (StatusCode, String) {
    let ready = readiness.is_ready();
    let mut text = String::new();
    if !ready || query.is_some_and(|query| query.split('&').any(|part| part.starts_with("verbose"))) {
        for (name, reason) in readiness.gates() {
            let _ = match reason {
                None => writeln!(text, "[+]{name} ok"),
                Some(reason) => writeln!(text, "[-]{name} {reason}"),
            };
        }
    }
    text.push_str(if ready { "ok\n" } else { "not ready\n" });
    (if ready { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE }, text)
}

async fn metrics(State(registry): State<Arc<Registry>>) -> Response {
    let mut text = String::new();
    match prometheus_client::encoding::text::encode(&mut text, &registry) {
        Ok(()) => {
            let kind = "application/openmetrics-text; version=1.0.0; charset=utf-8";
            ([(header::CONTENT_TYPE, kind)], text).into_response()
        }
        Err(_) => StatusCode::INTERNAL_SERVER_ERROR.into_response(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use axum::body::Body;
    use http::Request;
    use http_body_util::BodyExt as _;
    use tower::ServiceExt as _;

    #[test]
    fn ready_needs_a_gate_and_all_of_them_open() {
        let readiness = Readiness::default();
        assert!(!readiness.is_ready());
        let policies = readiness.gate("policies", "not listed yet");
        let certificate = readiness.gate("certificate", "not loaded yet");
        policies.open();
        assert!(!readiness.is_ready());
        certificate.open();
        assert!(readiness.is_ready());
        policies.close("the watch has failed for a minute");
        assert_eq!(
            readiness.gates(),
            [("certificate", None), ("policies", Some("the watch has failed for a minute".to_owned()))]
        );
    }

    #[test]
    fn a_task_that_ends_takes_its_gate_along() {
        let readiness = Readiness::default();
        let gate = readiness.gate("policies", "not listed yet");
        gate.open();
        drop(gate);
        assert!(!readiness.is_ready());
    }

    async fn page(readiness: &Readiness, path: &str) -> (StatusCode, String) {
        let request = Request::get(path).body(Body::empty()).unwrap();
        let response = health_router(readiness.clone()).oneshot(request).await.unwrap();
        let status = response.status();
        let bytes = response.into_body().collect().await.unwrap().to_bytes();
        (status, String::from_utf8(bytes.to_vec()).unwrap())
    }

    #[tokio::test]
    async fn readyz_says_why_not() {
        let readiness = Readiness::default();
        let gate = readiness.gate("policies", "not listed yet");
        let text = "[-]policies not listed yet\nnot ready\n".to_owned();
        assert_eq!(page(&readiness, "/readyz").await, (StatusCode::SERVICE_UNAVAILABLE, text));
        assert_eq!(page(&readiness, "/livez").await, (StatusCode::OK, "ok\n".to_owned()));
        gate.open();
        assert_eq!(page(&readiness, "/readyz").await, (StatusCode::OK, "ok\n".to_owned()));
        assert_eq!(page(&readiness, "/readyz?verbose").await.1, "[+]policies ok\nok\n");
    }
}
