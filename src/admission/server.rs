//! The accept loop: a bounded number of HTTP/1.1 connections, plain or TLS.
//!
//! Input: a listener, what answers, and a phase that goes from serving through draining to closing.
//! Output: answers; the loop returns when it is told to close and the last answer is out, or when
//! that takes too long. It knows nothing of reviews.

use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwap;
use axum::Router;
use http::{Request, Response};
use hyper::body::Incoming;
use rustls::{CertificateError, ServerConfig};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};
use tokio::time::{sleep, timeout};
use tokio_rustls::TlsAcceptor;
use tower::ServiceExt as _;

use super::connection;
pub use super::connection::{Answer, Phase};
use crate::telemetry::metrics::{ResultLabels, WebhookMetrics};

/// Connections to one port. An API server keeps 25 idle ones and opens more in a burst; beyond this
/// new ones wait in the kernel's queue, before any TLS work. Below the usual limit of 1024 files.
const MAX_CONNECTIONS: usize = 800;

/// A handshake takes two round trips; the API server waits 10 s for it.
const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(5);

/// What is still being answered when the port closes may take this long: longer than any review.
const FINISH_TIMEOUT: Duration = Duration::from_secs(8);

/// Pause after a failed accept, which means that files or memory ran out.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// What connections are wrapped in.
#[derive(Clone, Debug)]
pub enum Transport {
    /// Nothing.
    Plain,
    /// TLS under the configuration of the moment.
    Tls(Tls),
}

/// See [`Transport::Tls`].
#[derive(Clone, Debug)]
pub struct Tls {
    /// Replaced as a whole when certificates change.
    pub config: Arc<ArcSwap<ServerConfig>>,
    /// Counts connections and failed handshakes.
    pub metrics: WebhookMetrics,
}

impl Answer for Router {
    type Body = axum::body::Body;

    async fn answer(&self, request: Request<Incoming>) -> Response<Self::Body> {
        let answered = self.clone().oneshot(request.map(axum::body::Body::new)).await;
        answered.unwrap_or_else(|never| match never {})
    }
}

/// How many connections a port has, and may have. Clones share them, so that a port may be served by several threads.
#[derive(Clone, Debug)]
pub struct Places(Arc<Semaphore>);

impl Default for Places {
    fn default() -> Self {
        Self(Arc::new(Semaphore::new(MAX_CONNECTIONS)))
    }
}

/// Answers on `listener` until `phase` says [`Phase::Closing`].
pub async fn serve(
    listener: TcpListener,
    transport: Transport,
    answer: impl Answer,
    phase: watch::Receiver<Phase>,
    Places(places): Places,
) {
    let mut closing = phase.clone();
    let accept = async {
        loop {
            let Ok(place) = Arc::clone(&places).acquire_owned().await else { return };
            match listener.accept().await {
                Ok((stream, _)) => {
                    let caller = Caller { place, places: Arc::clone(&places), phase: phase.clone() };
                    tokio::spawn(caller.serve(stream, transport.clone(), answer.clone()));
                }
                Err(error) => {
                    tracing::warn!(%error, "accept failed");
                    sleep(ACCEPT_PAUSE).await;
                }
            }
        }
    };
    tokio::select! {
        () = accept => {}
        // An error means that nobody is left who could say so.
        _ = closing.wait_for(|phase| *phase == Phase::Closing) => {}
    }
    drop(listener);
    let all = u32::try_from(MAX_CONNECTIONS).unwrap_or(u32::MAX);
    if timeout(FINISH_TIMEOUT, places.acquire_many(all)).await.is_err() {
        tracing::warn!("connections were cut that did not finish in time");
    }
}

/// One accepted connection and its place among the others.
struct Caller {
    place: OwnedSemaphorePermit,
    places: Arc<Semaphore>,
    phase: watch::Receiver<Phase>,
}

impl Caller {
    async fn serve(self, stream: TcpStream, transport: Transport, answer: impl Answer) {
        // Answers are small and complete: waiting for more to send would only delay them.
        let _ = stream.set_nodelay(true);
        let Self { place, places, phase } = self;
        let is_full = move || places.available_permits() == 0;
        match transport {
            Transport::Plain => connection::serve(stream, answer, phase, is_full).await,
            Transport::Tls(tls) => {
                tls.metrics.connections.inc();
                if let Some(stream) = shake_hands(stream, &tls).await {
                    connection::serve(stream, answer, phase, is_full).await;
                }
                tls.metrics.connections.dec();
            }
        }
        drop(place);
    }
}

async fn shake_hands(stream: TcpStream, tls: &Tls) -> Option<tokio_rustls::server::TlsStream<TcpStream>> {
    let acceptor = TlsAcceptor::from(tls.config.load_full());
    let result = match timeout(HANDSHAKE_TIMEOUT, acceptor.accept(stream)).await {
        Ok(Ok(stream)) => return Some(stream),
        Ok(Err(error)) => {
            tracing::debug!(%error, "handshake failed");
            failure(&error)
        }
        Err(_) => "timeout",
    };
    tls.metrics.handshake_failures.get_or_create(&ResultLabels { result }).inc();
    None
}

fn failure(error: &std::io::Error) -> &'static str {
    let cause = error.get_ref().and_then(|cause| cause.downcast_ref::<rustls::Error>());
    match cause {
        Some(rustls::Error::InvalidCertificate(CertificateError::ApplicationVerificationFailure)) => {
            "client_name"
        }
        Some(rustls::Error::InvalidCertificate(_) | rustls::Error::NoCertificatesPresented) => {
            "client_certificate"
        }
        _ => "other",
    }
}
