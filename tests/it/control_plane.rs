//! The harness itself: what it promises to every other test.

use std::time::{Duration, Instant};

use k8s_openapi::api::authentication::v1::{SelfSubjectReview, UserInfo};
use k8s_openapi::api::core::v1::{ConfigMap, Node, Pod};
use kube::api::{ListParams, Patch, PatchParams, PostParams};
use kube::{Api, Client};
use serde_json::json;

use crate::harness::{ControlPlane, Identity, Options, Signal, eventually};

#[tokio::test]
async fn a_control_plane_of_ones_own_starts_in_seconds() {
    ControlPlane::shared().await.unwrap(); // so that a build of the programs is not counted
    let start = Instant::now();
    let plane = ControlPlane::start(Options::api_only()).await.unwrap();
    let version = plane.admin().await.unwrap().apiserver_version().await.unwrap();
    assert!(version.git_version.starts_with("v1."), "{version:?}");
    assert!(start.elapsed() < Duration::from_mins(1), "{:?}", start.elapsed());
    assert!(!plane.has_controller_manager());
}

#[tokio::test]
async fn rbac_refuses_a_stranger() {
    let plane = ControlPlane::shared().await.unwrap();
    let stranger = plane.client(&Identity::person("mallory", &[]), "test").await.unwrap();
    let refused = Api::<ConfigMap>::namespaced(stranger, "default").list(&ListParams::default()).await;
    let Err(kube::Error::Api(status)) = refused else { panic!("{refused:?}") };
    assert_eq!(status.code, 403);
    assert!(status.message.contains(r#"User "mallory" cannot list"#), "{}", status.message);
}

#[tokio::test]
async fn a_person_is_known_by_certificate_with_both_groups() {
    let plane = ControlPlane::shared().await.unwrap();
    let alice = Identity::person("alice", &["platform-admins", "on-call"]);
    let user = who_am_i(plane.client(&alice, "test").await.unwrap()).await;
    assert_eq!(user.username.as_deref(), Some("alice"));
    assert_eq!(sorted(user.groups), ["on-call", "platform-admins", "system:authenticated"]);
}

#[tokio::test]
async fn a_third_group_does_not_fit_into_a_certificate_and_is_refused() {
    let plane = ControlPlane::shared().await.unwrap();
    let error = plane.kubeconfig(&Identity::person("bob", &["a", "b", "c"])).await.unwrap_err();
    assert!(error.to_string().contains("impersonate"), "{error}");
}

#[tokio::test]
async fn the_administrator_can_act_as_somebody_with_many_groups() {
    let plane = ControlPlane::shared().await.unwrap();
    let user =
        who_am_i(plane.client(&Identity::impersonated("bob", &["a", "b", "c"]), "test").await.unwrap()).await;
    assert_eq!(user.username.as_deref(), Some("bob"));
    assert_eq!(sorted(user.groups), ["a", "b", "c", "system:authenticated"]);
}

#[tokio::test]
async fn a_service_account_is_known_by_a_real_token() {
    let plane = ControlPlane::shared().await.unwrap();
    let identity = Identity::service_account("harness-tokens", "autoscaler");
    let user = who_am_i(plane.client(&identity, "test").await.unwrap()).await;
    assert_eq!(user.username, Some(identity.username()));
    assert!(user.groups.unwrap().contains(&"system:serviceaccounts:harness-tokens".to_owned()));
    assert!(user.extra.unwrap().contains_key("authentication.kubernetes.io/credential-id"));
}

#[tokio::test]
async fn kubectl_acts_as_whom_it_is_told_to() {
    let plane = ControlPlane::shared().await.unwrap();
    let args = ["auth", "whoami", "--as=carol", "--as-group=devs", "-o=jsonpath={.status.userInfo.username}"];
    assert_eq!(plane.kubectl(&args).await.unwrap().ok().unwrap(), "carol");

    let account = plane.kubeconfig(&Identity::service_account("harness-tokens", "viewer")).await.unwrap();
    let refused = plane.run_kubectl(&account, &["get", "secrets", "-A"], "").await.unwrap();
    assert!(!refused.success);
    assert!(refused.stderr.contains("(Forbidden)"), "{}", refused.stderr);
}

#[tokio::test]
async fn the_audit_log_shows_who_did_what() {
    let plane = ControlPlane::shared().await.unwrap();
    plane.ensure_namespace("harness-audit").await.unwrap();
    plane.apply(EDITOR_ROLE).await.unwrap();
    let editor = Identity::service_account("harness-audit", "editor");
    let client = plane.client(&editor, "audited/1.0").await.unwrap();
    let maps: Api<ConfigMap> = Api::namespaced(client, "harness-audit");
    let map = serde_json::from_value(json!({"metadata": {"name": "seen"}})).unwrap();
    maps.create(&PostParams::default(), &map).await.unwrap();
    maps.delete("seen", &kube::api::DeleteParams::default()).await.unwrap_err();

    let created = plane
        .audit_event("the creation", |e| e.verb == "create" && e.object_ref.name == "seen")
        .await
        .unwrap();
    assert_eq!(created.actor(), "system:serviceaccount:harness-audit:editor");
    assert_eq!(created.user_agent, "audited/1.0");
    assert_eq!(created.code(), 201);
    let refused = plane
        .audit_event("the refusal", |e| e.verb == "delete" && e.object_ref.name == "seen")
        .await
        .unwrap();
    assert_eq!(refused.code(), 403);

    let args =
        ["-n=harness-audit", "label", "configmap", "seen", "a=b", "--as=dave", "--as-group=system:masters"];
    plane.kubectl(&args).await.unwrap().ok().unwrap();
    let labelled =
        plane.audit_event("the label", |e| e.verb == "patch" && e.object_ref.name == "seen").await.unwrap();
    assert_eq!((labelled.actor(), labelled.user.username.as_str()), ("dave", "admin"));
}

#[tokio::test]
async fn controllers_and_scheduler_bring_a_deployment_to_a_node() {
    let plane = ControlPlane::shared().await.unwrap();
    if !plane.has_controller_manager() || !plane.has_scheduler() {
        return; // said by the harness when it started
    }
    let admin = plane.admin().await.unwrap();
    plane.apply(NODE).await.unwrap();
    let ready = json!({"status": {
        "capacity": {"cpu": "4", "memory": "8Gi", "pods": "10"},
        "allocatable": {"cpu": "4", "memory": "8Gi", "pods": "10"},
        "conditions": [{"type": "Ready", "status": "True", "reason": "Test", "message": "",
            "lastHeartbeatTime": now(), "lastTransitionTime": now()}],
    }});
    let nodes: Api<Node> = Api::all(admin.clone());
    nodes.patch_status("harness-node", &PatchParams::default(), &Patch::Merge(&ready)).await.unwrap();
    plane.apply(DEPLOYMENT).await.unwrap();
    let pods: Api<Pod> = Api::namespaced(admin, "default");
    let node = eventually("a scheduled pod", Duration::from_secs(30), || async {
        let list = pods.list(&ListParams::default().labels("app=harness")).await.ok()?;
        list.items.into_iter().find_map(|pod| pod.spec?.node_name)
    })
    .await
    .unwrap();
    assert_eq!(node, "harness-node");
}

#[tokio::test]
async fn a_restarted_api_server_has_the_same_address_and_the_same_data() {
    let mut plane = ControlPlane::start(Options::api_only()).await.unwrap();
    plane.ensure_namespace("kept").await.unwrap();
    let admin = plane.admin().await.unwrap();
    plane.stop_api_server().await.unwrap();
    assert!(admin.apiserver_version().await.is_err());
    plane.start_api_server().await.unwrap();
    let namespaces: Api<k8s_openapi::api::core::v1::Namespace> = Api::all(admin);
    namespaces.get("kept").await.unwrap();
}

#[tokio::test]
async fn a_failed_start_shows_the_end_of_the_log() {
    let mut options = Options::api_only();
    options.api_server_flags.push("--no-such-flag".to_owned());
    let error = ControlPlane::start(options).await.unwrap_err();
    let text = format!("{error:#}");
    assert!(text.contains("kube-apiserver ended with"), "{text}");
    assert!(text.contains("unknown flag: --no-such-flag"), "{text}");
}

#[tokio::test]
async fn a_program_beside_the_control_plane_can_end_in_its_own_way() {
    let plane = ControlPlane::shared().await.unwrap();
    let script =
        r#"trap 'echo "bye $GREETING"; exit 3' TERM; echo "up $KUBECONFIG"; while :; do sleep 0.1; done"#;
    let kubeconfig = plane.admin_kubeconfig();
    let sh = std::path::Path::new("/bin/sh");
    let mut process =
        plane.run_beside("harness-sh", sh, &kubeconfig, &["-c", script], &[("GREETING", "world")]).unwrap();
    process.wait_for_log("up /", Duration::from_secs(10)).await.unwrap();
    let status = process.stop(Duration::from_secs(10)).await.unwrap();
    assert_eq!(status.code(), Some(3));
    assert!(process.log().ends_with("bye world\n"), "{}", process.log());

    let mut early =
        plane.run_beside("harness-early", sh, &kubeconfig, &["-c", "echo no; exit 4"], &[]).unwrap();
    let error = early.wait_for_log("yes", Duration::from_secs(10)).await.unwrap_err().to_string();
    assert!(error.contains("exit status: 4") && error.contains("\nno\n"), "{error}");
}

#[tokio::test]
async fn a_program_that_does_not_heed_sigterm_is_killed() {
    let plane = ControlPlane::shared().await.unwrap();
    let script = "trap '' TERM; echo up; while :; do sleep 0.1; done";
    let sh = std::path::Path::new("/bin/sh");
    let mut process =
        plane.run_beside("harness-deaf", sh, &plane.admin_kubeconfig(), &["-c", script], &[]).unwrap();
    process.wait_for_log("up", Duration::from_secs(10)).await.unwrap();
    process.signal(Signal::TERM).unwrap();
    let status = process.stop(Duration::from_millis(300)).await.unwrap();
    assert_eq!(std::os::unix::process::ExitStatusExt::signal(&status), Some(9));
}

async fn who_am_i(client: Client) -> UserInfo {
    let reviews: Api<SelfSubjectReview> = Api::all(client);
    let review = reviews.create(&PostParams::default(), &SelfSubjectReview::default()).await.unwrap();
    review.status.unwrap().user_info.unwrap()
}

fn sorted(groups: Option<Vec<String>>) -> Vec<String> {
    let mut groups = groups.unwrap();
    groups.sort();
    groups
}

fn now() -> String {
    jiff::Timestamp::now().strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}

const EDITOR_ROLE: &str = "
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata: {name: editor, namespace: harness-audit}
rules:
- {apiGroups: [''], resources: [configmaps], verbs: [create]}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: editor, namespace: harness-audit}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: editor}
subjects:
- {kind: ServiceAccount, name: editor, namespace: harness-audit}
";

const NODE: &str = "
apiVersion: v1
kind: Node
metadata: {name: harness-node, labels: {test: harness}}
";

const DEPLOYMENT: &str = "
apiVersion: apps/v1
kind: Deployment
metadata: {name: harness, namespace: default}
spec:
  selector: {matchLabels: {app: harness}}
  template:
    metadata: {labels: {app: harness}}
    spec:
      nodeSelector: {test: harness}
      containers: [{name: main, image: none}]
";
