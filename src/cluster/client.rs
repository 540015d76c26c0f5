//! The one constructor of Kubernetes clients.
//!
//! Input: where the credentials are, and which part of fieldkeeper asks.
//! Output: a [`Client`] that names itself in every request.
//!
//! Must not be bypassed: kube sends no User-Agent of its own, and the API
//! server files writes without one under the manager `unknown`.
//!
//! **Retries** are off. kube's default retries 429, 503 and 504 up to 15 times
//! with growing delays, POST and PATCH included. Our loops re-read before they
//! retry, because a write that was right a minute ago may be wrong now; watches
//! bring their own back-off. So one call is one request, and its caller's
//! timeout means what it says.

use std::path::PathBuf;
use std::time::Duration;

use http::HeaderValue;
use http::header::USER_AGENT;
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Client, Config};

/// A local API server answers in milliseconds; a node of an HA set that is
/// gone must not hold a start for the 30 seconds of kube's default.
pub const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// For any single request that is not a watch. Above the 3 seconds that our own
/// webhook may take, and the time that other people's webhooks take in practice.
pub const CALL_TIMEOUT: Duration = Duration::from_secs(10);

/// The part of fieldkeeper that talks, as the User-Agent names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Component {
    /// `fieldkeeper webhook`.
    Webhook,
    /// `fieldkeeper controller policy`.
    PolicyController,
    /// The command line.
    Cli,
}

impl Component {
    /// Its name in User-Agent and logs.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Webhook => "webhook",
            Self::PolicyController => "policy-controller",
            Self::Cli => "cli",
        }
    }

    /// The User-Agent. Its first part is what a write without a `fieldManager` would be filed under.
    #[must_use]
    pub fn user_agent(self) -> String {
        format!("fieldkeeper/{} ({})", env!("CARGO_PKG_VERSION"), self.as_str())
    }
}

/// Where to find the cluster.
#[derive(Clone, Debug, Default)]
pub struct Source {
    /// `--kubeconfig`; without it `KUBECONFIG`, the user's file, then the pod's service account.
    pub kubeconfig: Option<PathBuf>,
    /// `--context`; without it the file's current one.
    pub context: Option<String>,
}

/// No client can be made.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A file was named and does not work.
    #[error("cannot use kubeconfig {path}: {source}")]
    Kubeconfig {
        /// The file, or where one was looked for.
        path: String,
        /// What is wrong with it.
        #[source]
        source: Box<kube::config::KubeconfigError>,
    },
    /// Nothing was named and nothing was found.
    #[error("found neither a kubeconfig nor a service account of a pod: {0}")]
    Infer(#[source] Box<kube::config::InferConfigError>),
    /// The configuration was read but makes no client.
    #[error("cannot make a client from the configuration: {0}")]
    Client(#[source] Box<kube::Error>),
    /// The User-Agent is no header value.
    #[error("the User-Agent is no header value: {0}")]
    UserAgent(#[from] http::header::InvalidHeaderValue),
}

/// A client for `component`, from the first source that works.
pub async fn connect(component: Component, source: &Source) -> Result<Client, Error> {
    from_config(component, config(source).await?)
}

/// A client for `component` from a configuration that the caller already has.
pub fn from_config(component: Component, mut config: Config) -> Result<Client, Error> {
    config.headers.retain(|(name, _)| name != USER_AGENT);
    config.headers.push((USER_AGENT, HeaderValue::from_str(&component.user_agent())?));
    config.connect_timeout = Some(CONNECT_TIMEOUT);
    config.default_retry = false;
    Client::try_from(config).map_err(|error| Error::Client(Box::new(error)))
}

async fn config(source: &Source) -> Result<Config, Error> {
    let options = KubeConfigOptions { context: source.context.clone(), ..KubeConfigOptions::default() };
    match (&source.kubeconfig, &source.context) {
        (Some(path), _) => {
            let failed =
                |error| Error::Kubeconfig { path: path.display().to_string(), source: Box::new(error) };
            let file = Kubeconfig::read_from(path).map_err(failed)?;
            Config::from_custom_kubeconfig(file, &options).await.map_err(failed)
        }
        // A context only means something in a file.
        (None, Some(context)) => Config::from_kubeconfig(&options).await.map_err(|error| Error::Kubeconfig {
            path: format!("(context {context})"),
            source: Box::new(error),
        }),
        (None, None) => Config::infer().await.map_err(|error| Error::Infer(Box::new(error))),
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read as _, Write as _};
    use std::net::TcpListener;
    use std::sync::mpsc;

    use super::*;

    /// Answers every request with `status` and returns those that arrived until the client gave up.
    async fn requests_seen(status: &'static str) -> Vec<String> {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let (log, seen) = mpsc::channel();
        // Ends with the test process: nobody connects any more.
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let mut stream = stream.unwrap();
                let mut buffer = vec![0; 4096];
                let read = stream.read(&mut buffer).unwrap();
                let _ = log.send(String::from_utf8_lossy(&buffer[..read]).to_lowercase());
                let answer =
                    format!("HTTP/1.1 {status}\r\ncontent-length: 2\r\nconnection: close\r\n\r\n{{}}");
                stream.write_all(answer.as_bytes()).unwrap();
            }
        });
        let config = Config::new(format!("http://{address}").parse().unwrap());
        let client = from_config(Component::PolicyController, config).unwrap();
        let call = tokio::time::timeout(Duration::from_secs(2), client.apiserver_version()).await;
        assert_eq!(call.expect("no waiting for a retry").is_ok(), status.starts_with("200"));
        seen.try_iter().collect()
    }

    #[tokio::test]
    async fn every_request_names_the_program_and_the_component() {
        let seen = requests_seen("200 OK").await;
        let expected = format!("user-agent: {}\r\n", Component::PolicyController.user_agent());
        assert!(seen[0].contains(&expected), "{}", seen[0]);
        assert_eq!(seen[0].matches("user-agent").count(), 1);
    }

    #[tokio::test]
    async fn a_busy_server_is_asked_once() {
        assert_eq!(requests_seen("503 Service Unavailable").await.len(), 1);
    }

    #[tokio::test]
    async fn a_named_file_that_is_missing_is_an_error_that_names_it() {
        let source = Source { kubeconfig: Some("/nowhere/kubeconfig".into()), context: None };
        let error = connect(Component::Cli, &source).await.err().unwrap();
        assert!(error.to_string().contains("/nowhere/kubeconfig"), "{error}");
    }
}
