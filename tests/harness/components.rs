//! The arguments of etcd, kube-apiserver, kube-controller-manager and kube-scheduler.
//!
//! Input: a folder, ports, files. Output: argument lists.
//! Must not: start anything, or listen beyond loopback.

use std::path::Path;

use super::pki::KeyPairFiles;

/// Where everything is; the same after a restart of the API server.
#[derive(Debug)]
pub struct Layout {
    pub etcd_port: u16,
    pub peer_port: u16,
    pub api_port: u16,
    pub ca: String,
    pub serving: KeyPairFiles,
    pub tokens: KeyPairFiles,
}

pub fn etcd(dir: &Path, layout: &Layout) -> Vec<String> {
    let client = format!("http://127.0.0.1:{}", layout.etcd_port);
    let peer = format!("http://127.0.0.1:{}", layout.peer_port);
    vec![
        flag("data-dir", dir.join("etcd").display()),
        flag("listen-client-urls", &client),
        flag("advertise-client-urls", &client),
        flag("listen-peer-urls", &peer),
        flag("initial-advertise-peer-urls", &peer),
        flag("initial-cluster", format_args!("default={peer}")),
        // The data is thrown away anyway, and one member need not wait long for the others' votes.
        flag("unsafe-no-fsync", true),
        flag("heartbeat-interval", 20),
        flag("election-timeout", 200),
    ]
}

pub fn api_server(dir: &Path, layout: &Layout, extra: &[String]) -> Vec<String> {
    let mut args = vec![
        flag("etcd-servers", format_args!("http://127.0.0.1:{}", layout.etcd_port)),
        flag("bind-address", "127.0.0.1"),
        // Or it looks for an address to advertise and fails on a machine without a network.
        flag("advertise-address", "127.0.0.1"),
        flag("secure-port", layout.api_port),
        // The default publishes the server's address as endpoints, which must not be loopback.
        flag("endpoint-reconciler-type", "none"),
        flag("cert-dir", dir.join("pki").display()),
        flag("tls-cert-file", layout.serving.certificate.display()),
        flag("tls-private-key-file", layout.serving.key.display()),
        flag("client-ca-file", &layout.ca),
        flag("service-account-issuer", "https://kubernetes.default.svc"),
        flag("service-account-key-file", layout.tokens.certificate.display()),
        flag("service-account-signing-key-file", layout.tokens.key.display()),
        flag("service-cluster-ip-range", "10.0.0.0/24"),
        flag("authorization-mode", "Node,RBAC"),
        flag("enable-admission-plugins", "NodeRestriction"),
        flag("audit-policy-file", dir.join("audit-policy.yaml").display()),
        flag("audit-log-path", dir.join("audit.log").display()),
        flag("audit-log-maxsize", 1024),
    ];
    args.extend_from_slice(extra);
    args
}

pub fn controller_manager(layout: &Layout, kubeconfig: &Path) -> Vec<String> {
    let mut args = with_kubeconfig(kubeconfig);
    args.extend([
        flag("use-service-account-credentials", true),
        flag("service-account-private-key-file", layout.tokens.key.display()),
        flag("root-ca-file", &layout.ca),
    ]);
    args
}

pub fn scheduler(kubeconfig: &Path) -> Vec<String> {
    with_kubeconfig(kubeconfig)
}

fn with_kubeconfig(kubeconfig: &Path) -> Vec<String> {
    let file = kubeconfig.display();
    vec![
        flag("kubeconfig", &file),
        flag("authentication-kubeconfig", &file),
        flag("authorization-kubeconfig", &file),
        flag("leader-elect", false),
        // One client per controller, all made at the start: the default rate costs five seconds of waiting.
        flag("kube-api-qps", 500),
        flag("kube-api-burst", 1000),
        // Nobody asks it for its health or metrics.
        flag("secure-port", 0),
    ]
}

fn flag(name: &str, value: impl std::fmt::Display) -> String {
    format!("--{name}={value}")
}
