//! The admission port on real sockets: handshakes, certificates, patience, drain.

use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use arc_swap::ArcSwap;
use axum::Router;
use axum::routing::get;
use fieldkeeper::admission::server::{Phase, Places, Tls, Transport, serve};
use fieldkeeper::admission::tls::TlsFiles;
use fieldkeeper::telemetry::metrics::{ResultLabels, WebhookMetrics, registry};
use jiff::Timestamp;
use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair, PKCS_ECDSA_P256_SHA256};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, RootCertStore, ServerConfig, SupportedProtocolVersion, version};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

/// A certificate with its key.
struct Pair {
    certificate: String,
    key: String,
}

/// An authority that signs both sides.
struct Authority {
    issuer: Issuer<'static, KeyPair>,
    certificate: String,
}

impl Authority {
    fn new() -> Self {
        let key = KeyPair::generate_for(&PKCS_ECDSA_P256_SHA256).unwrap();
        let mut params = CertificateParams::new(Vec::<String>::new()).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let certificate = params.self_signed(&key).unwrap().pem();
        Self { issuer: Issuer::new(params, key), certificate }
    }

    fn issue(&self, common_name: &str, dns: &[&str]) -> Pair {
        let key = KeyPair::generate_for(&PKCS_ECDSA_P256_SHA256).unwrap();
        let names = dns.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
        let mut params = CertificateParams::new(names).unwrap();
        params.distinguished_name.push(DnType::CommonName, common_name);
        Pair { certificate: params.signed_by(&key, &self.issuer).unwrap().pem(), key: key.serialize_pem() }
    }
}

/// The port, with what can be changed while it serves.
struct Port {
    address: SocketAddr,
    authority: Authority,
    config: Arc<ArcSwap<ServerConfig>>,
    phase: watch::Sender<Phase>,
    metrics: WebhookMetrics,
    server: JoinHandle<()>,
}

#[derive(Clone, Copy, Default)]
struct Settings<'a> {
    clients: Option<&'a Authority>,
    names: &'a [&'a str],
    tls12: bool,
}

fn server_config(pair: &Pair, settings: Settings<'_>) -> Arc<ServerConfig> {
    let directory = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| {
        let path = directory.path().join(name);
        std::fs::write(&path, text).unwrap();
        path
    };
    let files = TlsFiles {
        certificate: write("tls.crt", &pair.certificate),
        key: write("tls.key", &pair.key),
        client_ca: settings.clients.map(|authority| write("ca.crt", &authority.certificate)),
        client_names: settings.names.iter().map(|name| (*name).to_owned()).collect(),
        tls12: settings.tls12,
    };
    files.configure(&files.read().unwrap(), Timestamp::now()).unwrap().config
}

async fn port(settings: Settings<'_>) -> Port {
    let authority = Authority::new();
    let config = server_config(&authority.issue("webhook", &["localhost"]), settings);
    let config = Arc::new(ArcSwap::new(config));
    let metrics = WebhookMetrics::register(&mut registry());
    let (phase, watched) = watch::channel(Phase::Serving);
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let router = Router::new()
        .route("/", get(async || "here\n"))
        .route("/slow", get(async || tokio::time::sleep(Duration::from_millis(500)).await));
    let tls = Tls { config: Arc::clone(&config), metrics: metrics.clone() };
    let server = tokio::spawn(serve(listener, Transport::Tls(tls), router, watched, Places::default()));
    Port { address, authority, config, phase, metrics, server }
}

struct Client<'a> {
    pair: Option<&'a Pair>,
    versions: &'a [&'static SupportedProtocolVersion],
    alpn: &'a [&'a str],
}

const PLAIN: Client<'_> = Client { pair: None, versions: &[&version::TLS13], alpn: &["http/1.1"] };

impl Port {
    /// A handshake. With TLS 1.3 the client learns of a refusal only when it reads.
    async fn connect(&self, client: Client<'_>) -> std::io::Result<TlsStream<TcpStream>> {
        let mut roots = RootCertStore::empty();
        roots.add(CertificateDer::from_pem_slice(self.authority.certificate.as_bytes()).unwrap()).unwrap();
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let builder = ClientConfig::builder_with_provider(provider)
            .with_protocol_versions(client.versions)
            .unwrap()
            .with_root_certificates(roots);
        let mut config = match client.pair {
            None => builder.with_no_client_auth(),
            Some(pair) => {
                let chain = vec![CertificateDer::from_pem_slice(pair.certificate.as_bytes()).unwrap()];
                let key = PrivateKeyDer::from_pem_slice(pair.key.as_bytes()).unwrap();
                builder.with_client_auth_cert(chain, key).unwrap()
            }
        };
        config.alpn_protocols = client.alpn.iter().map(|name| name.as_bytes().to_vec()).collect();
        let stream = TcpStream::connect(self.address).await?;
        let name = ServerName::try_from("localhost").unwrap();
        TlsConnector::from(Arc::new(config)).connect(name, stream).await
    }

    async fn is_served(&self, client: Client<'_>) -> bool {
        let Ok(mut stream) = self.connect(client).await else { return false };
        ask(&mut stream, "/").await.is_some_and(|text| text.ends_with("here\n"))
    }

    fn failures(&self, result: &'static str) -> u64 {
        self.metrics.handshake_failures.get_or_create(&ResultLabels { result }).get()
    }
}

async fn ask(stream: &mut TlsStream<TcpStream>, path: &str) -> Option<String> {
    stream.write_all(format!("GET {path} HTTP/1.1\r\nhost: x\r\n\r\n").as_bytes()).await.ok()?;
    let mut buffer = vec![0; 4096];
    let size = stream.read(&mut buffer).await.ok().filter(|size| *size > 0)?;
    buffer.truncate(size);
    String::from_utf8(buffer).ok()
}

#[tokio::test]
async fn only_new_tls_and_old_http_are_spoken() {
    let port = port(Settings::default()).await;
    assert!(port.is_served(PLAIN).await);
    assert!(port.is_served(Client { alpn: &[], ..PLAIN }).await);
    assert!(port.is_served(Client { alpn: &["h2", "http/1.1"], ..PLAIN }).await);
    assert!(!port.is_served(Client { alpn: &["h2"], ..PLAIN }).await);
    assert!(!port.is_served(Client { versions: &[&version::TLS12], ..PLAIN }).await);
    assert_eq!(port.failures("other"), 2);
    let lenient = self::port(Settings { tls12: true, ..Settings::default() }).await;
    assert!(lenient.is_served(Client { versions: &[&version::TLS12], ..PLAIN }).await);
}

#[tokio::test]
async fn only_clients_of_the_authority_and_of_a_name_are_served() {
    let (clients, strangers) = (Authority::new(), Authority::new());
    let port = port(Settings { clients: Some(&clients), names: &["kube-apiserver"], tls12: false }).await;
    let served = async |pair: Pair| port.is_served(Client { pair: Some(&pair), ..PLAIN }).await;
    assert!(served(clients.issue("kube-apiserver", &[])).await);
    assert!(served(clients.issue("other", &["kube-apiserver"])).await);
    assert!(!port.is_served(PLAIN).await);
    assert!(!served(strangers.issue("kube-apiserver", &[])).await);
    assert_eq!(port.failures("client_certificate"), 2);
    assert!(!served(clients.issue("kube-apiserver.evil", &["x"])).await);
    assert_eq!(port.failures("client_name"), 1);
}

#[tokio::test]
async fn a_new_certificate_is_served_to_new_connections_and_disturbs_no_old_one() {
    let port = port(Settings::default()).await;
    let mut old = port.connect(PLAIN).await.unwrap();
    let certificate = |stream: &TlsStream<TcpStream>| {
        stream.get_ref().1.peer_certificates().unwrap().first().unwrap().clone().into_owned()
    };
    let first = certificate(&old);
    let next = port.authority.issue("webhook", &["localhost"]);
    port.config.store(server_config(&next, Settings::default()));
    let new = port.connect(PLAIN).await.unwrap();
    assert_ne!(certificate(&new), first);
    assert_eq!(certificate(&new), CertificateDer::from_pem_slice(next.certificate.as_bytes()).unwrap());
    assert!(ask(&mut old, "/").await.unwrap().ends_with("here\n"));
}

#[tokio::test]
async fn who_never_shakes_hands_is_dropped_while_others_are_served() {
    let port = port(Settings::default()).await;
    let start = Instant::now();
    let mut silent = Vec::new();
    for _ in 0..100 {
        silent.push(TcpStream::connect(port.address).await.unwrap());
    }
    assert!(port.is_served(PLAIN).await);
    assert!(start.elapsed() < Duration::from_secs(2), "{:?}", start.elapsed());
    for mut stream in silent {
        let mut rest = Vec::new();
        let _ = stream.read_to_end(&mut rest).await;
    }
    assert!(start.elapsed() < Duration::from_secs(8), "{:?}", start.elapsed());
    assert_eq!(port.failures("timeout"), 100);
}

#[tokio::test]
async fn a_drain_finishes_what_has_begun() {
    let port = port(Settings::default()).await;
    let (mut idle, mut busy) = (port.connect(PLAIN).await.unwrap(), port.connect(PLAIN).await.unwrap());
    assert!(ask(&mut idle, "/").await.is_some());
    port.phase.send_replace(Phase::Draining);
    assert!(port.is_served(PLAIN).await, "new connections are still served");
    let pending = tokio::spawn(async move { ask(&mut busy, "/slow").await });
    tokio::time::sleep(Duration::from_millis(100)).await;
    port.phase.send_replace(Phase::Closing);
    let answer = pending.await.unwrap().unwrap();
    assert!(answer.starts_with("HTTP/1.1 200") && answer.contains("connection: close"), "{answer}");
    port.server.await.unwrap();
    assert!(ask(&mut idle, "/").await.is_none());
    assert!(TcpStream::connect(port.address).await.is_err());
}

#[tokio::test]
async fn http_without_tls_is_not_answered() {
    let port = port(Settings::default()).await;
    let mut stream = TcpStream::connect(port.address).await.unwrap();
    stream.write_all(b"GET / HTTP/1.1\r\nhost: x\r\n\r\n").await.unwrap();
    let mut answer = Vec::new();
    let _ = stream.read_to_end(&mut answer).await;
    assert!(!String::from_utf8_lossy(&answer).contains("here"));
}

/// The shipped files are read like any other.
#[tokio::test]
async fn missing_files_are_named() {
    let files = TlsFiles {
        certificate: Path::new("nowhere/tls.crt").into(),
        key: Path::new("nowhere/tls.key").into(),
        client_ca: None,
        client_names: Vec::new(),
        tls12: false,
    };
    assert!(files.read().unwrap_err().to_string().contains("nowhere/tls.crt"));
}
