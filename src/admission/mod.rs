//! The HTTP edge: admission reviews in, verdicts out.
//!
//! | file | does |
//! | --- | --- |
//! | `envelope`, `head` | body to uid, then to request |
//! | `judge` | request to reply, pure |
//! | `reply` | reply to body |
//! | `handle` | one review from body to body: parent read, counts, log line |
//! | `body`, `port` | limits, paths, HTTP errors |
//! | `connection`, `server`, `threads` | patience, accept loop, drain |
//! | `tls`, `client_names` | certificates, who may call |
//! | `state` | what other parts plug into |
//! | `snapshot`, `hooks`, `notices` | the cluster side: policies in, live reads, events out |
//!
//! [`run`] puts them together. What needs a cluster is handed in by the caller.

pub mod body;
mod client_names;
mod connection;
pub mod envelope;
pub mod handle;
mod head;
pub mod hooks;
pub mod judge;
pub mod notices;
pub mod policy_review;
pub mod port;
pub mod reply;
pub mod server;
pub mod snapshot;
pub mod state;
mod threads;
pub mod tls;

use std::future::Future;
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwap;
use futures::future::BoxFuture;
use tokio::net::TcpListener;
use tokio::runtime::Handle;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

use self::handle::Edge;
use self::port::AdmissionPort;
use self::server::{Phase, Places, Tls, Transport, serve};
use self::state::{Hooks, Readiness, Snapshots};
use self::threads::serve_on_threads;
use self::tls::{Follower, TlsFiles};
use crate::telemetry::health::{health_router, metrics_router};
use crate::telemetry::metrics::{self, WebhookMetrics};
use crate::telemetry::policies::PolicyMetrics;

/// How long the end may take once nobody is served any more.
const FAREWELL: Duration = Duration::from_secs(1);

/// How to run the webhook.
#[derive(Clone, Debug)]
pub struct Options {
    /// HTTPS address of `/validate` and `/observe`.
    pub listen: SocketAddr,
    /// HTTP address of `/livez` and `/readyz`.
    pub listen_health: SocketAddr,
    /// HTTP address of `/metrics`.
    pub listen_metrics: SocketAddr,
    /// Certificates.
    pub tls: TlsFiles,
    /// How long to serve on after the signal to stop, while others take notice.
    pub shutdown_delay: Duration,
}

/// What the cluster side adds.
pub struct Connected {
    /// Answers to what the edge has to ask.
    pub hooks: Hooks,
    /// Feeds the snapshots for as long as the server runs; its gates tell when it is of use.
    pub background: BoxFuture<'static, ()>,
    /// What to say to the cluster when the server has ended as it was asked to.
    pub farewell: BoxFuture<'static, ()>,
}

/// Why the webhook does not run.
#[derive(Debug, thiserror::Error)]
pub enum RunError<E> {
    /// A port is taken or not allowed.
    #[error("cannot listen on {address}: {source}")]
    Listen {
        /// The address that was asked for.
        address: SocketAddr,
        /// What the system says.
        source: io::Error,
    },
    /// The cluster side could not be set up.
    #[error(transparent)]
    Connect(E),
    /// The system refuses signal handlers.
    #[error("cannot wait for signals: {0}")]
    Signals(io::Error),
    /// The system refuses threads or what they need.
    #[error("cannot serve the admission port: {0}")]
    Threads(io::Error),
    /// A server or the cluster side ended by itself, which they never should.
    #[error("a task ended that should not have")]
    Ended,
}

/// Runs the webhook until it is told to stop. `connect` starts what needs a cluster.
pub async fn run<F, E>(
    options: Options,
    connect: impl FnOnce(Snapshots, Readiness, PolicyMetrics) -> F,
) -> Result<(), RunError<E>>
where
    F: Future<Output = Result<Connected, E>>,
{
    let mut signals = Signals::new().map_err(RunError::Signals)?;
    let mut registry = metrics::registry();
    let metrics = WebhookMetrics::register(&mut registry);
    let policies = PolicyMetrics::register(&mut registry);
    let readiness = Readiness::default();
    let running = readiness.gate("running", "starting");
    let certificate = readiness.gate("certificate", "not loaded yet");

    let admission = bind(options.listen).await?;
    let health = bind(options.listen_health).await?;
    let numbers = bind(options.listen_metrics).await?;
    tracing::info!(
        admission = address(&admission),
        health = address(&health),
        metrics = address(&numbers),
        "listening"
    );

    let (phase, watched) = watch::channel(Phase::Serving);
    let mut servers = JoinSet::new();
    let mut serve_plain = |listener, routes| {
        servers.spawn(serve(listener, Transport::Plain, routes, watched.clone(), Places::default()));
    };
    serve_plain(health, health_router(readiness.clone()));
    serve_plain(numbers, metrics_router(Arc::new(registry)));

    let snapshots = Snapshots::default();
    let connected =
        connect(snapshots.clone(), readiness.clone(), policies).await.map_err(RunError::Connect)?;
    let mut background = JoinSet::new();
    background.spawn(connected.background);
    let edge = Arc::new(Edge::new(snapshots, connected.hooks, metrics.clone(), Handle::current()));

    let mut follower = Follower::new(options.tls, certificate, metrics.clone());
    let first = tokio::select! {
        first = follower.first() => first,
        () = signals.stop() => return Ok(()),
    };
    let config = Arc::new(ArcSwap::new(first));
    background.spawn(follower.follow(Arc::clone(&config)));
    let tls = Transport::Tls(Tls { config, metrics });
    serve_on_threads(admission, &tls, &AdmissionPort::new(edge), &watched, &mut servers)
        .map_err(RunError::Threads)?;
    running.open();

    tokio::select! {
        () = signals.stop() => {}
        _ = servers.join_next() => return Err(RunError::Ended),
        // Without watches it would never be ready again; a new process may be.
        _ = background.join_next() => return Err(RunError::Ended),
    }
    running.close("shutting down");
    phase.send_replace(Phase::Draining);
    tracing::info!(delay_ms = options.shutdown_delay.as_millis(), "shutting down");
    tokio::select! {
        () = sleep(options.shutdown_delay) => {}
        // Asked twice: whoever asks does not want to wait.
        () = signals.stop() => {}
    }
    phase.send_replace(Phase::Closing);
    while servers.join_next().await.is_some() {}
    // Nobody judges by what is reported any more, and the report must not be renewed.
    background.shutdown().await;
    if timeout(FAREWELL, connected.farewell).await.is_err() {
        tracing::debug!("the cluster did not answer the farewell");
    }
    tracing::info!("stopped");
    Ok(())
}

/// The signals by which a process is asked to end.
struct Signals {
    terminate: Signal,
    interrupt: Signal,
}

impl Signals {
    fn new() -> io::Result<Self> {
        Ok(Self { terminate: signal(SignalKind::terminate())?, interrupt: signal(SignalKind::interrupt())? })
    }

    async fn stop(&mut self) {
        tokio::select! {
            _ = self.terminate.recv() => {}
            _ = self.interrupt.recv() => {}
        }
    }
}

/// `[::]` takes both families; where the kernel has no IPv6 it means all of IPv4.
async fn bind<E>(address: SocketAddr) -> Result<TcpListener, RunError<E>> {
    let source = match TcpListener::bind(address).await {
        Ok(listener) => return Ok(listener),
        Err(error) => error,
    };
    if address.is_ipv6() && address.ip().is_unspecified() {
        let fallback = SocketAddr::from((Ipv4Addr::UNSPECIFIED, address.port()));
        if let Ok(listener) = TcpListener::bind(fallback).await {
            return Ok(listener);
        }
    }
    Err(RunError::Listen { address, source })
}

fn address(listener: &TcpListener) -> String {
    listener.local_addr().map(|address| address.to_string()).unwrap_or_default()
}
