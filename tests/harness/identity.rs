//! Who a test or a step of the tour acts as.
//!
//! Input: a name. Output: a kubeconfig file or a client with that identity, authenticated as in a real cluster.
//! Must not: grant rights; RBAC objects are the test's own.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use http::HeaderValue;
use http::header::USER_AGENT;
use k8s_openapi::api::authentication::v1::TokenRequest;
use k8s_openapi::api::core::v1::{Namespace, ServiceAccount};
use kube::api::PostParams;
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Api, Client, Config};
use serde_json::{Value, json};

use super::control_plane::ControlPlane;
use super::pki::KeyPairFiles;

/// How the API server is told who is asking.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Identity {
    /// By client certificate; two groups at most.
    Person { name: String, groups: Vec<String> },
    /// By a bound token from the `TokenRequest` API; account and namespace are made where they are missing.
    ServiceAccount { namespace: String, name: String },
    /// By a token that the test has got itself.
    Bearer { name: String, token: String },
    /// The administrator who acts as somebody else, with any number of groups.
    Impersonated { name: String, groups: Vec<String> },
}

impl Identity {
    /// May do everything: a member of `system:masters`.
    pub fn admin() -> Self {
        Self::person("admin", &["system:masters"])
    }

    pub fn person(name: &str, groups: &[&str]) -> Self {
        Self::Person { name: name.to_owned(), groups: owned(groups) }
    }

    pub fn service_account(namespace: &str, name: &str) -> Self {
        Self::ServiceAccount { namespace: namespace.to_owned(), name: name.to_owned() }
    }

    /// `name` is whom the token is for, as the API server will see.
    pub fn bearer(name: &str, token: &str) -> Self {
        Self::Bearer { name: name.to_owned(), token: token.to_owned() }
    }

    pub fn impersonated(name: &str, groups: &[&str]) -> Self {
        Self::Impersonated { name: name.to_owned(), groups: owned(groups) }
    }

    /// As authorisation, admission and the audit log name it.
    pub fn username(&self) -> String {
        match self {
            Self::Person { name, .. } | Self::Impersonated { name, .. } | Self::Bearer { name, .. } => {
                name.clone()
            }
            Self::ServiceAccount { namespace, name } => format!("system:serviceaccount:{namespace}:{name}"),
        }
    }
}

fn owned(groups: &[&str]) -> Vec<String> {
    groups.iter().map(|group| (*group).to_owned()).collect()
}

impl ControlPlane {
    /// The administrator's kubeconfig file.
    pub fn admin_kubeconfig(&self) -> PathBuf {
        self.dir().join("kubeconfig").join("admin")
    }

    /// A kubeconfig file for `identity`; the same file each time.
    pub async fn kubeconfig(&self, identity: &Identity) -> Result<PathBuf> {
        if *identity == Identity::admin() {
            return Ok(self.admin_kubeconfig());
        }
        let mut known = self.identities().lock().await;
        if let Some(path) = known.get(identity) {
            return Ok(path.clone());
        }
        let user = identity.username();
        let file = format!("{}-{}", user.replace(|c: char| !c.is_ascii_alphanumeric(), "-"), known.len());
        let path = self.admin_kubeconfig().with_file_name(&file);
        match identity {
            Identity::Person { name, groups } => {
                let pair = self.authority().client(&file, name, groups)?;
                write(&path, self.url(), self.authority_file(), &user, &by_certificate(&pair))?;
            }
            Identity::Impersonated { name, groups } => {
                let mut user_entry = by_certificate(&self.admin_certificate());
                if let Some(entry) = user_entry.as_object_mut() {
                    entry.insert("as".to_owned(), json!(name));
                    entry.insert("as-groups".to_owned(), json!(groups));
                }
                write(&path, self.url(), self.authority_file(), &user, &user_entry)?;
            }
            Identity::Bearer { token, .. } => {
                write(&path, self.url(), self.authority_file(), &user, &json!({"token": token}))?;
            }
            Identity::ServiceAccount { namespace, name } => {
                let token = self.authority_file().with_file_name(format!("{file}.token"));
                fs::write(&token, self.token(namespace, name).await?)?;
                let by_token = json!({"tokenFile": token});
                write(&path, self.url(), self.authority_file(), &user, &by_token)?;
            }
        }
        known.insert(identity.clone(), path.clone());
        Ok(path)
    }

    /// A client for `identity`. Each call makes a new one: it lives on the runtime of the calling test, while the
    /// control plane may be shared by many.
    pub async fn client(&self, identity: &Identity, user_agent: &str) -> Result<Client> {
        client(&self.kubeconfig(identity).await?, user_agent).await
    }

    /// A client that may do everything.
    pub async fn admin(&self) -> Result<Client> {
        client(&self.admin_kubeconfig(), "test-setup").await
    }

    /// A bound token for a service account, which is made first where it is missing.
    pub async fn token(&self, namespace: &str, name: &str) -> Result<String> {
        let admin = self.admin().await?;
        self.ensure_namespace(namespace).await?;
        let accounts: Api<ServiceAccount> = Api::namespaced(admin, namespace);
        let account = serde_json::from_value(json!({"metadata": {"name": name}}))?;
        unless_it_exists(accounts.create(&PostParams::default(), &account).await)?;
        let request: TokenRequest = serde_json::from_value(json!({
            "spec": {"audiences": [], "expirationSeconds": 86_400}
        }))?;
        let answer = accounts.create_token_request(name, &PostParams::default(), &request).await?;
        Ok(answer.status.context("a TokenRequest came back without a token")?.token)
    }

    pub async fn ensure_namespace(&self, name: &str) -> Result<()> {
        let namespaces: Api<Namespace> = Api::all(self.admin().await?);
        let namespace = serde_json::from_value(json!({"metadata": {"name": name}}))?;
        unless_it_exists(namespaces.create(&PostParams::default(), &namespace).await)
    }
}

/// Creating what must be there is done when it is there.
pub fn unless_it_exists<T>(result: kube::Result<T>) -> Result<()> {
    match result {
        Ok(_) => Ok(()),
        Err(kube::Error::Api(status)) if status.code == 409 => Ok(()),
        Err(error) => Err(error.into()),
    }
}

pub fn by_certificate(pair: &KeyPairFiles) -> Value {
    json!({"client-certificate": pair.certificate, "client-key": pair.key})
}

/// Files are named, not embedded, so that a person can look at them.
pub fn write(path: &Path, url: &str, authority: &Path, name: &str, user: &Value) -> Result<()> {
    let config = json!({
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "fieldkeeper", "cluster": {"server": url, "certificate-authority": authority}}],
        "users": [{"name": name, "user": user}],
        "contexts": [{"name": "fieldkeeper", "context": {"cluster": "fieldkeeper", "user": name}}],
        "current-context": "fieldkeeper",
    });
    fs::write(path, serde_saphyr::to_string(&config)?)?;
    Ok(())
}

pub async fn client(kubeconfig: &Path, user_agent: &str) -> Result<Client> {
    // Two providers may be compiled in; the first to be chosen stays, whoever chooses it.
    let _ = rustls::crypto::aws_lc_rs::default_provider().install_default();
    let kubeconfig = Kubeconfig::read_from(kubeconfig)?;
    let mut config = Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await?;
    config.proxy_url = None;
    // A test must see every answer, also a 429 or 503 that the client would hide by asking again.
    config.default_retry = false;
    config.headers.push((USER_AGENT, HeaderValue::from_str(user_agent)?));
    Ok(Client::try_from(config)?)
}
