//! A Service in small, for webhooks that come and go.
//!
//! Input: replicas with their health ports. Output: one port on which new connections go to ready replicas in
//! turn, or are closed at once where none is ready; established ones stay where they are, as with kube-proxy.
//! Must not: look into what it carries, or repair what a replica breaks.

use std::net::TcpListener as StdListener;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use anyhow::Result;
use tokio::io::copy_bidirectional;
use tokio::net::{TcpListener, TcpStream};
use tokio::time::sleep;

use crate::harness::{eventually, get};

/// How often readiness is asked; also how late the news of a draining replica may come.
const PROBE: Duration = Duration::from_millis(100);

#[derive(Clone, Debug)]
struct Replica {
    port: u16,
    health: u16,
    ready: bool,
}

#[derive(Default)]
struct State {
    replicas: Vec<Replica>,
    turn: usize,
    connections: usize,
}

/// See the module. Its thread and port stay until the process ends, so that tests can take turns with it.
#[derive(Clone)]
pub struct Balancer(Arc<Mutex<State>>);

impl Balancer {
    pub fn listen(port: u16) -> Result<Self> {
        let listener = StdListener::bind(("127.0.0.1", port))?;
        listener.set_nonblocking(true)?;
        let this = Self(Arc::default());
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let balancer = this.clone();
        // A runtime of its own: those of the tests end one after the other.
        std::thread::spawn(move || {
            runtime.block_on(async {
                let listener = TcpListener::from_std(listener).unwrap();
                tokio::join!(balancer.accept(listener), balancer.probe())
            })
        });
        Ok(this)
    }

    pub fn add(&self, port: u16, health: u16) {
        self.0.lock().unwrap().replicas.push(Replica { port, health, ready: false });
    }

    pub fn remove(&self, port: u16) {
        self.0.lock().unwrap().replicas.retain(|replica| replica.port != port);
    }

    /// Waits until new connections go to this replica, or do not any more.
    pub async fn sees(&self, port: u16, ready: bool) -> Result<()> {
        let what = format!("the replica on port {port} to be {}", if ready { "ready" } else { "left alone" });
        let seen = async || (self.is_ready(port) == ready).then_some(());
        eventually(&what, Duration::from_secs(20), seen).await
    }

    pub fn is_ready(&self, port: u16) -> bool {
        self.0.lock().unwrap().replicas.iter().any(|replica| replica.port == port && replica.ready)
    }

    /// How many connections it has led to a replica so far.
    pub fn connections(&self) -> usize {
        self.0.lock().unwrap().connections
    }

    async fn accept(&self, listener: TcpListener) {
        loop {
            let Ok((mut client, _)) = listener.accept().await else { continue };
            let Some(port) = self.next() else { continue };
            tokio::spawn(async move {
                let Ok(mut server) = TcpStream::connect(("127.0.0.1", port)).await else { return };
                let _ = (client.set_nodelay(true), server.set_nodelay(true));
                let _ = copy_bidirectional(&mut client, &mut server).await;
            });
        }
    }

    fn next(&self) -> Option<u16> {
        let mut state = self.0.lock().unwrap();
        let ready: Vec<u16> = state.replicas.iter().filter(|one| one.ready).map(|one| one.port).collect();
        state.turn += 1;
        let port = ready.get(state.turn % ready.len().max(1)).copied()?;
        state.connections += 1;
        Some(port)
    }

    async fn probe(&self) {
        loop {
            let replicas = self.0.lock().unwrap().replicas.clone();
            for Replica { port, health, .. } in replicas {
                let ready = matches!(get(health, "/readyz").await, Ok((200, _)));
                let mut state = self.0.lock().unwrap();
                if let Some(replica) = state.replicas.iter_mut().find(|replica| replica.port == port) {
                    replica.ready = ready;
                }
            }
            sleep(PROBE).await;
        }
    }
}
