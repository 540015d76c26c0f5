//! The API server's own record of who did what.
//!
//! Input: the audit log. Output: [`AuditEvent`]s.
//! Must not: record reads by the control plane itself, which would bury the rest.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result};
use serde::Deserialize;
use serde_json::Value;

use super::control_plane::ControlPlane;
use super::wait::eventually;

/// Bodies only for our own kinds: they are small, and never a Secret.
pub const POLICY: &str = r#"
apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived, ResponseStarted]
rules:
- level: None
  nonResourceURLs: ["*"]
- level: None
  users:
  - system:apiserver
  - system:kube-controller-manager
  - system:kube-scheduler
  verbs: [get, list, watch]
- level: None
  resources:
  - {group: coordination.k8s.io, resources: [leases]}
- level: RequestResponse
  verbs: [create, update, patch, delete, deletecollection]
  resources:
  - {group: fieldkeeper.dev}
  - {group: compute.fieldkeeper.dev}
- level: Metadata
"#;

/// One finished request.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct AuditEvent {
    pub verb: String,
    #[serde(rename = "requestURI")]
    pub request_uri: String,
    pub user: AuditUser,
    /// Who the user acted as, if impersonating.
    pub impersonated_user: Option<AuditUser>,
    #[serde(default)]
    pub user_agent: String,
    #[serde(default)]
    pub object_ref: AuditObject,
    pub response_status: Option<AuditStatus>,
    /// Also those of admission webhooks, under `<webhook name>/<key>`.
    #[serde(default)]
    pub annotations: BTreeMap<String, String>,
    pub request_object: Option<Value>,
    pub response_object: Option<Value>,
}

impl AuditEvent {
    /// The name that authorisation and admission saw.
    pub fn actor(&self) -> &str {
        &self.impersonated_user.as_ref().unwrap_or(&self.user).username
    }

    /// The HTTP status; 0 where there is none.
    pub fn code(&self) -> u16 {
        self.response_status.as_ref().map_or(0, |status| status.code)
    }
}

#[derive(Clone, Debug, Deserialize)]
pub struct AuditUser {
    pub username: String,
    #[serde(default)]
    pub groups: Vec<String>,
    #[serde(default)]
    pub uid: String,
    #[serde(default)]
    pub extra: BTreeMap<String, Vec<String>>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct AuditObject {
    pub api_group: String,
    pub resource: String,
    pub subresource: String,
    pub namespace: String,
    pub name: String,
}

#[derive(Clone, Debug, Deserialize)]
pub struct AuditStatus {
    #[serde(default)]
    pub code: u16,
    #[serde(default)]
    pub reason: String,
    #[serde(default)]
    pub message: String,
}

impl ControlPlane {
    /// Every event so far.
    pub fn audit_log(&self) -> Result<Vec<AuditEvent>> {
        read(&self.dir().join("audit.log"))
    }

    /// Waits for an event: the server writes it after it has answered.
    pub async fn audit_event(&self, what: &str, wanted: impl Fn(&AuditEvent) -> bool) -> Result<AuditEvent> {
        eventually(&format!("an audit event: {what}"), Duration::from_secs(5), || {
            let found = self.audit_log().ok().and_then(|events| events.into_iter().find(&wanted));
            async { found }
        })
        .await
    }
}

fn read(path: &Path) -> Result<Vec<AuditEvent>> {
    let text = fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?;
    // The last line may be half written.
    let complete = text.rfind('\n').map_or("", |end| text.get(..end).unwrap_or_default());
    complete.lines().map(|line| serde_json::from_str(line).with_context(|| line.to_owned())).collect()
}
