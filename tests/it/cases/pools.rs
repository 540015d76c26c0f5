//! The node pool that the cases are about, its policy, and the people and programs that write it.
//!
//! It is a kind of the arena: what every case says is that the same fields have the same owners, whoever else writes.

use serde_json::{Value, json};
use tokio::sync::OnceCell;

use crate::arena::{Call, Kind, Pond, Reply};
use crate::harness::Identity;

/// Writes `.spec.targetNodes`.
pub fn autoscaler() -> Identity {
    Identity::service_account("np-system", "autoscaler")
}

/// Writes the status and its finalizer.
pub fn nodepool_controller() -> Identity {
    Identity::service_account("np-system", "nodepool-controller")
}

/// Applies manifests; with dana the owner of the rest of the spec.
pub fn gitops() -> Identity {
    Identity::service_account("gitops", "applier")
}

/// A human.
pub fn dana() -> Identity {
    Identity::person("dana", &[])
}

/// On call, with the right to break the glass.
pub fn oncall() -> Identity {
    Identity::person("oncall-7", &["np-breakglass"])
}

/// Restores backups.
pub fn velero() -> Identity {
    Identity::person("velero-server", &[])
}

const AUTOSCALER: &str = "{kind: ServiceAccount, namespace: np-system, name: autoscaler}";
const CONTROLLER: &str = "{kind: ServiceAccount, namespace: np-system, name: nodepool-controller}";
const PEOPLE: &str = "{kind: ServiceAccount, namespace: gitops, name: applier}, {kind: User, name: dana}";
const LAST_APPLIED: &str = r#"metadata.annotations["kubectl.kubernetes.io/last-applied-configuration"]"#;

/// The owners of the cases, as the `spec` of a policy; all else is by default. `rest` is put beside them or in their
/// place.
pub fn owners(rest: Value) -> Value {
    let text = format!(
        r#"
mode: Enforce
owners:
- name: people
  subjects: [{PEOPLE}]
  fields:
  - path: .spec
  - {{path: '.{LAST_APPLIED}', mode: Audit}}
- name: autoscaler
  subjects: [{AUTOSCALER}]
  fieldManagers: [{{name: autoscaler}}, {{name: kube-controller-manager}}]
  formerFieldManagers: [autoscaler-v1]
  fields: [{{path: .spec.targetNodes}}, {{path: .status.pendingRequests}}]
- name: nodepool-controller
  subjects: [{CONTROLLER}]
  fields: [{{path: .status}}, {{path: '.metadata.finalizers[="fleet.example.io/drain"]'}}]
- name: netops
  subjects: [{{kind: User, name: nora}}]
  fields: [{{path: '.spec.ports[port=80,protocol="TCP"]'}}, {{path: '.spec.ports[port=443]'}}]
creation: {{except: [{{kind: User, name: velero-server}}]}}
breakGlass: {{subjects: [{{kind: Group, name: np-breakglass}}]}}
"#
    );
    let mut spec: Value = serde_saphyr::from_str(&text).unwrap();
    spec.as_object_mut().unwrap().extend(rest.as_object().unwrap().clone());
    spec
}

/// The hand-over of the size: closed where it is requested, lent to a delegate while a person says so, the autoscaler's
/// otherwise. The instance type can be set once.
pub fn handed_over() -> Value {
    let text = format!(
        r#"
mode: Enforce
owners:
- name: people
  subjects: [{PEOPLE}]
  fields: [{{path: .spec}}]
- name: autoscaler
  subjects: [{AUTOSCALER}]
  fields: [{{path: .spec.targetNodes, when: "oldObject.spec.handOff != 'ScaleRequest' && oldObject.spec.delegate == null"}}]
- name: sleeper
  subjects: [{{kind: User, name: sleeper}}]
  fields: [{{path: .spec.targetNodes, when: oldObject.spec.delegate == 'sleeper'}}]
- name: nodepool-controller
  subjects: [{CONTROLLER}]
  fields: [{{path: .status}}]
- name: requests-only
  fields: [{{path: .spec.targetNodes, when: oldObject.spec.handOff == 'ScaleRequest', instead: create a ScaleRequest}}]
- name: set-once
  fields: [{{path: .spec.instanceType, when: oldObject.spec.instanceType != null}}]
creation: {{policy: Anyone}}
"#
    );
    serde_saphyr::from_str(&text).unwrap()
}

/// [`owners`] with all that is off by default: claims on foreign fields refused, names of managers reserved (that of
/// netops on trial), deletion kept to the cleaner, and one mutating webhook that may set the size, to three.
pub fn strict() -> Value {
    let mut spec = owners(json!({"integrity": {"coOwnership": "Enforce"}, "deletion": {"subjects": [
        {"kind": "ServiceAccount", "namespace": "np-system", "name": "cleaner"}]}}));
    spec["owners"][1]["fieldManagers"] = json!([{"name": "autoscaler", "use": "Reserve"}]);
    spec["owners"][1]["fields"][0]["mutators"] =
        json!([{"name": "ours", "when": "object.spec.targetNodes == 3"}]);
    spec["owners"][3]["fieldManagers"] = json!([{"name": "nora", "use": "Reserve"}]);
    spec["owners"][3]["mode"] = json!("Audit");
    spec
}

/// Makes the arena's CRD one of node pools, in both versions.
pub fn node_pools(crd: &mut Value) {
    let text = r"
type: object
properties:
  spec:
    type: object
    properties:
      minNodes: {type: integer}
      maxNodes: {type: integer}
      targetNodes: {type: integer, format: int32}
      instanceType: {type: string}
      handOff: {type: string}
      delegate: {type: string}
      zones: {type: array, x-kubernetes-list-type: set, items: {type: string}}
      taints:
        type: array
        x-kubernetes-list-type: map
        x-kubernetes-list-map-keys: [key, effect]
        items:
          type: object
          required: [key, effect]
          properties: {key: {type: string}, effect: {type: string}, value: {type: string}}
      ports:
        type: array
        x-kubernetes-list-type: map
        x-kubernetes-list-map-keys: [port, protocol]
        items:
          type: object
          required: [port]
          properties: {port: {type: integer}, protocol: {type: string, default: TCP}, name: {type: string}}
  data: {type: object, additionalProperties: {type: string}}
  status:
    type: object
    properties:
      observedGeneration: {type: integer}
      readyNodes: {type: integer, format: int32}
      pendingRequests: {type: integer}
      conditions:
        type: array
        x-kubernetes-list-type: map
        x-kubernetes-list-map-keys: [type]
        items:
          type: object
          required: [type]
          properties: {type: {type: string}, status: {type: string}}
";
    let schema: Value = serde_saphyr::from_str(text).unwrap();
    for version in crd["spec"]["versions"].as_array_mut().unwrap() {
        version["schema"]["openAPIV3Schema"] = schema.clone();
        version["subresources"]["scale"] =
            json!({"specReplicasPath": ".spec.targetNodes", "statusReplicasPath": ".status.readyNodes"});
    }
}

/// The schema of `spec` or `status` in all versions.
pub fn with_properties(crd: &mut Value, of: &str, change: impl Fn(&mut Value)) {
    for version in crd["spec"]["versions"].as_array_mut().unwrap() {
        change(&mut version["schema"]["openAPIV3Schema"]["properties"][of]);
    }
}

/// Node pools under another policy.
pub async fn under(plural: &str, spec: Value) -> Kind {
    Kind::with_crd(plural, spec, node_pools).await
}

/// Those that most cases share.
pub async fn pools() -> &'static Kind {
    static KIND: OnceCell<Kind> = OnceCell::const_new();
    KIND.get_or_init(|| under("nodepools", owners(json!({})))).await
}

/// Those with [`handed_over`].
pub async fn handed_over_pools() -> &'static Kind {
    static KIND: OnceCell<Kind> = OnceCell::const_new();
    KIND.get_or_init(|| under("handedpools", handed_over())).await
}

/// Those with [`strict`].
pub async fn strict_pools() -> &'static Kind {
    static KIND: OnceCell<Kind> = OnceCell::const_new();
    KIND.get_or_init(|| under("strictpools", strict())).await
}

pub fn taint(effect: &str, value: &str) -> Value {
    json!({"key": "team", "effect": effect, "value": value})
}

/// What stands in the manifest of the GitOps applier: all but the size.
pub fn manifest() -> Value {
    json!({"spec": {"minNodes": 2, "maxNodes": 10, "instanceType": "m.large", "zones": ["a", "b"],
        "taints": [taint("NoSchedule", "red")]}})
}

pub fn target(nodes: i64) -> Value {
    json!({"spec": {"targetNodes": nodes}})
}

/// A pool of four nodes of the shared kind, as its owners have written it.
pub async fn pool(name: &str) -> Pond {
    pool_of(pools().await, name).await
}

pub async fn pool_of(kind: &Kind, name: &str) -> Pond {
    let pool = sizeless(kind, name).await;
    pool.apply(&autoscaler(), "autoscaler", &target(4)).await.allowed();
    let drain = json!({"metadata": {"finalizers": ["fleet.example.io/drain"]}});
    let call = Call::merge_patch(&pool.at(""), &drain).manager("nodepool-controller");
    pool.send(&call, &nodepool_controller()).await.allowed();
    apply_status(&pool, &nodepool_controller(), "nodepool-controller", &json!({"readyNodes": 4}))
        .await
        .allowed();
    pool
}

/// Applied by GitOps alone.
pub async fn sizeless(kind: &Kind, name: &str) -> Pond {
    let pool = Pond::absent(kind, name).await;
    pool.apply(&gitops(), "gitops-applier", &manifest()).await.allowed();
    pool
}

/// Who holds a path, by name: the API server sorts entries by time, which has steps of a second.
pub async fn holders(pool: &Pond, path: &str) -> Vec<String> {
    let mut holders = pool.holders(path).await;
    holders.sort();
    holders
}

/// An apply of the status, by force.
pub async fn apply_status(pool: &Pond, who: &Identity, manager: &str, status: &Value) -> Reply {
    let body = pool.body(&json!({"status": status}));
    pool.send(&Call::apply(&pool.at("/status"), manager, &body).force(), who).await
}
