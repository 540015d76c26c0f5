//! Every CEL rule of our CRDs against a real API server: what it accepts, and what it rejects with which words.
//!
//! A rule is known by its message. A rejected object breaks exactly one rule, so that no other rule can hide a broken
//! one; and a rule without a row fails the test that walks the schemas.

use std::collections::BTreeSet;

use fieldkeeper::api::{FieldPolicy, NodePool, crds};
use kube::Api;
use kube::api::{ApiResource, DynamicObject, PostParams};
use serde_json::{Value, json};

use crate::crds::client_with_crds;

/// One rule, or one branch of it.
struct Row {
    /// The rule's message.
    rule: &'static str,
    /// For rules about changes: the object before. Otherwise the objects are created.
    before: Option<&'static str>,
    accepted: &'static str,
    rejected: &'static str,
}

const fn row(rule: &'static str, accepted: &'static str, rejected: &'static str) -> Row {
    Row { rule, before: None, accepted, rejected }
}

const fn change(
    rule: &'static str,
    before: &'static str,
    accepted: &'static str,
    rejected: &'static str,
) -> Row {
    Row { rule, before: Some(before), accepted, rejected }
}

const UNSAFE: &str = "enforcing with failurePolicy Fail on this target can lock up the cluster while no webhook answers: use failurePolicy Ignore, or set allowUnsafe: true";
const NEVER: &str = "this resource is never governed: leases, events, reviews, flow control, API services, admission configuration and FieldPolicies stay out";
const IMMUTABLE: &str = "group and resource of the target are immutable: create another FieldPolicy";
const NO_RULES: &str = "the policy says nothing: give it owners, unlisted or deletion";
const ONE_NAMESPACE: &str = "a ServiceAccount needs exactly one of namespace and namespaceFrom";

#[rustfmt::skip]
const FIELD_POLICIES: &[Row] = &[
    row("the name of a FieldPolicy has at most 63 characters",
        "{metadata: {name: a23456789-123456789-123456789-123456789-123456789-123456789-123}, spec: {target: {group: apps, version: v1, resource: deployments}, unlisted: Deny}}",
        "{metadata: {name: a23456789-123456789-123456789-123456789-123456789-123456789-1234}, spec: {target: {group: apps, version: v1, resource: deployments}, unlisted: Deny}}"),
    row(NO_RULES,
        "{spec: {target: {group: apps, version: v1, resource: deployments}, unlisted: Warn}}",
        "{spec: {target: {group: apps, version: v1, resource: deployments}}}"),
    row(NO_RULES,
        "{spec: {target: {group: apps, version: v1, resource: deployments}, deletion: {}}}",
        "{spec: {target: {group: apps, version: v1, resource: deployments}, owners: []}}"),
    row(UNSAFE,
        "{spec: {target: {version: v1, resource: pods}, mode: Enforce, unlisted: Deny, allowUnsafe: true}}",
        "{spec: {target: {version: v1, resource: pods}, mode: Enforce, unlisted: Deny}}"),
    row(UNSAFE,
        "{spec: {target: {version: v1, resource: secrets}, mode: Enforce, unlisted: Deny, failurePolicy: Ignore}}",
        "{spec: {target: {version: v1, resource: secrets}, mode: Enforce, unlisted: Deny}}"),
    row(UNSAFE,
        "{spec: {target: {group: discovery.k8s.io, version: v1, resource: endpointslices}, mode: Warn, unlisted: Deny}}",
        "{spec: {target: {group: discovery.k8s.io, version: v1, resource: endpointslices}, mode: Enforce, unlisted: Deny}}"),
    row(UNSAFE,
        "{spec: {target: {group: apps, version: v1, resource: pods}, mode: Enforce, unlisted: Deny}}",
        "{spec: {target: {group: rbac.authorization.k8s.io, version: v1, resource: roles}, mode: Enforce, unlisted: Deny}}"),
    row(UNSAFE,
        "{spec: {target: {group: apiextensions.k8s.io, version: v1, resource: customresourcedefinitions}, unlisted: Deny}}",
        "{spec: {target: {group: apiextensions.k8s.io, version: v1, resource: customresourcedefinitions}, mode: Enforce, unlisted: Deny}}"),
    row(UNSAFE,
        "{spec: {target: {version: v1, resource: nodes}, owners: [{name: a, mode: Warn, fields: [{path: .spec}]}]}}",
        "{spec: {target: {version: v1, resource: nodes}, owners: [{name: a, mode: Enforce, fields: [{path: .spec}]}]}}"),
    row(UNSAFE,
        "{spec: {target: {version: v1, resource: services}, owners: [{name: a, fields: [{path: .spec, mode: Warn}]}]}}",
        "{spec: {target: {version: v1, resource: services}, owners: [{name: a, fields: [{path: .spec, mode: Enforce}]}]}}"),
    row(UNSAFE,
        "{spec: {target: {version: v1, resource: namespaces}, unlisted: Deny, integrity: {mode: Warn}}}",
        "{spec: {target: {version: v1, resource: namespaces}, unlisted: Deny, integrity: {mode: Enforce}}}"),
    row(UNSAFE,
        "{spec: {target: {version: v1, resource: endpoints}, unlisted: Deny, integrity: {coOwnership: Warn}}}",
        "{spec: {target: {version: v1, resource: endpoints}, unlisted: Deny, integrity: {coOwnership: Enforce}}}"),
    change(IMMUTABLE,
        "{spec: {target: {group: example.com, version: v1, resource: things}, unlisted: Deny}}",
        "{spec: {target: {group: example.com, version: v2, resource: things}, unlisted: Deny}}",
        "{spec: {target: {group: example.com, version: v1, resource: others}, unlisted: Deny}}"),
    change(IMMUTABLE,
        "{spec: {target: {group: example.com, version: v1, resource: things}, unlisted: Deny}}",
        "{spec: {target: {group: example.com, version: v1, resource: things}, unlisted: Warn}}",
        "{spec: {target: {group: example.org, version: v1, resource: things}, unlisted: Deny}}"),
    row(NEVER,
        "{spec: {target: {group: coordination.k8s.io, version: v1, resource: leasecandidates}, unlisted: Deny}}",
        "{spec: {target: {group: coordination.k8s.io, version: v1, resource: leases}, unlisted: Deny}}"),
    row(NEVER,
        "{spec: {target: {version: v1, resource: configmaps}, unlisted: Deny}}",
        "{spec: {target: {version: v1, resource: events}, unlisted: Deny}}"),
    row(NEVER,
        "{spec: {target: {group: example.com, version: v1, resource: events}, unlisted: Deny}}",
        "{spec: {target: {group: events.k8s.io, version: v1, resource: events}, unlisted: Deny}}"),
    row(NEVER,
        "{spec: {target: {group: example.com, version: v1, resource: tokenreviews}, unlisted: Deny}}",
        "{spec: {target: {group: authentication.k8s.io, version: v1, resource: tokenreviews}, unlisted: Deny}}"),
    row(NEVER,
        "{spec: {target: {group: example.com, version: v1, resource: apiservices}, unlisted: Deny}}",
        "{spec: {target: {group: apiregistration.k8s.io, version: v1, resource: apiservices}, unlisted: Deny}}"),
    row(NEVER,
        "{spec: {target: {group: example.com, version: v1, resource: flowschemas}, unlisted: Deny}}",
        "{spec: {target: {group: flowcontrol.apiserver.k8s.io, version: v1, resource: flowschemas}, unlisted: Deny}}"),
    row(NEVER,
        "{spec: {target: {group: compute.fieldkeeper.dev, version: v1alpha1, resource: nodepools}, unlisted: Deny}}",
        "{spec: {target: {group: fieldkeeper.dev, version: v1alpha1, resource: fieldpolicies}, unlisted: Deny}}"),
    row(NEVER,
        "{spec: {target: {group: rbac.authorization.k8s.io, version: v1, resource: roles}, unlisted: Deny}}",
        "{spec: {target: {group: authorization.k8s.io, version: v1, resource: subjectaccessreviews}, unlisted: Deny}}"),
    row(NEVER,
        "{spec: {target: {group: policy, version: v1, resource: poddisruptionbudgets}, unlisted: Deny}}",
        "{spec: {target: {group: admissionregistration.k8s.io, version: v1, resource: validatingwebhookconfigurations}, unlisted: Deny}}"),
    row("group is an API group such as apps, or empty for the core group",
        "{spec: {target: {group: example-1.com, version: v1, resource: things}, unlisted: Deny}}",
        "{spec: {target: {group: '*', version: v1, resource: things}, unlisted: Deny}}"),
    row("version is one API version such as v1 or v1alpha1",
        "{spec: {target: {group: apps, version: v1beta2, resource: deployments}, unlisted: Deny}}",
        "{spec: {target: {group: apps, version: apps/v1, resource: deployments}, unlisted: Deny}}"),
    row("resource is the plural name in lower case, such as deployments, without subresource",
        "{spec: {target: {group: apps, version: v1, resource: deployments}, unlisted: Deny}}",
        "{spec: {target: {group: apps, version: v1, resource: deployments/scale}, unlisted: Deny}}"),
    row("an owner needs at least one field or one field manager",
        "{spec: {target: {group: apps, version: v1, resource: deployments}, owners: [{name: a, fieldManagers: [{name: helm}]}]}}",
        "{spec: {target: {group: apps, version: v1, resource: deployments}, owners: [{name: a, formerFieldManagers: [helm]}]}}"),
    row("the name of an owner is lower case letters, digits and dashes",
        "{spec: {target: {group: apps, version: v1, resource: deployments}, owners: [{name: node-pool-2, fields: [{path: .spec}]}]}}",
        "{spec: {target: {group: apps, version: v1, resource: deployments}, owners: [{name: Node_Pool, fields: [{path: .spec}]}]}}"),
    row("a former field manager's name has no control characters",
        "{spec: {target: {group: apps, version: v1, resource: deployments}, owners: [{name: a, formerFieldManagers: ['kubectl edit/é'], fields: [{path: .spec}]}]}}",
        "{spec: {target: {group: apps, version: v1, resource: deployments}, owners: [{name: a, formerFieldManagers: [ok, \"a\\tb\"], fields: [{path: .spec}]}]}}"),
    row(ONE_NAMESPACE,
        "{spec: {target: {group: apps, version: v1, resource: deployments}, deletion: {subjects: [{kind: ServiceAccount, name: a, namespace: b}]}}}",
        "{spec: {target: {group: apps, version: v1, resource: deployments}, deletion: {subjects: [{kind: ServiceAccount, name: a}]}}}"),
    row(ONE_NAMESPACE,
        "{spec: {target: {group: apps, version: v1, resource: deployments}, deletion: {subjects: [{kind: ServiceAccount, name: a, namespaceFrom: Object}]}}}",
        "{spec: {target: {group: apps, version: v1, resource: deployments}, deletion: {subjects: [{kind: ServiceAccount, name: a, namespace: b, namespaceFrom: Object}]}}}"),
    row("only a ServiceAccount has a namespace",
        "{spec: {target: {group: apps, version: v1, resource: deployments}, owners: [{name: a, subjects: [{kind: User, name: u}], fields: [{path: .spec}]}]}}",
        "{spec: {target: {group: apps, version: v1, resource: deployments}, owners: [{name: a, subjects: [{kind: User, name: u, namespace: b}], fields: [{path: .spec}]}]}}"),
    row("a field manager's name has no control characters",
        "{spec: {target: {group: apps, version: v1, resource: deployments}, owners: [{name: a, fieldManagers: [{name: 'a b/c é'}]}]}}",
        "{spec: {target: {group: apps, version: v1, resource: deployments}, owners: [{name: a, fieldManagers: [{name: \"a\\nb\"}]}]}}"),
    row("a path begins with a dot, such as .spec.replicas",
        "{spec: {target: {group: apps, version: v1, resource: deployments}, owners: [{name: a, fields: [{path: .spec.replicas}]}]}}",
        "{spec: {target: {group: apps, version: v1, resource: deployments}, owners: [{name: a, fields: [{path: spec.replicas}]}]}}"),
    row("the advice in instead is one line without control characters",
        "{spec: {target: {group: apps, version: v1, resource: deployments}, owners: [{name: a, fields: [{path: .spec, instead: 'ask «é»'}]}]}}",
        "{spec: {target: {group: apps, version: v1, resource: deployments}, owners: [{name: a, fields: [{path: .spec, instead: \"ask\\nfor it\"}]}]}}"),
];

#[rustfmt::skip]
const NODE_POOLS: &[Row] = &[
    row("the name of a NodePool has at most 40 characters",
        "{metadata: {name: a23456789-123456789-123456789-1234567890}, spec: {maxNodes: 5, provider: {type: Simulated, simulated: {capacity: {cpu: '1'}}}}}",
        "{metadata: {name: a23456789-123456789-123456789-1234567890a}, spec: {maxNodes: 5, provider: {type: Simulated, simulated: {capacity: {cpu: '1'}}}}}"),
    row("minNodes is above maxNodes",
        "{spec: {minNodes: 5, maxNodes: 5, provider: {type: Simulated, simulated: {capacity: {cpu: '1'}}}}}",
        "{spec: {minNodes: 6, maxNodes: 5, provider: {type: Simulated, simulated: {capacity: {cpu: '1'}}}}}"),
    row("targetNodes is outside minNodes and maxNodes",
        "{spec: {targetNodes: 5, maxNodes: 5, provider: {type: Simulated, simulated: {capacity: {cpu: '1'}}}}}",
        "{spec: {targetNodes: 6, maxNodes: 5, provider: {type: Simulated, simulated: {capacity: {cpu: '1'}}}}}"),
    row("targetNodes is outside minNodes and maxNodes",
        "{spec: {handOff: Direct, targetNodes: 1, minNodes: 2, maxNodes: 5, provider: {type: Simulated, simulated: {capacity: {cpu: '1'}}}}}",
        "{spec: {targetNodes: 1, minNodes: 2, maxNodes: 5, provider: {type: Simulated, simulated: {capacity: {cpu: '1'}}}}}"),
    row("a requester is lower case letters, digits and dashes",
        "{spec: {maxNodes: 5, requested: [{requester: team-a, nodes: 9}], provider: {type: Simulated, simulated: {capacity: {cpu: '1'}}}}}",
        "{spec: {maxNodes: 5, requested: [{requester: team/a, nodes: 9}], provider: {type: Simulated, simulated: {capacity: {cpu: '1'}}}}}"),
    row("the member simulated goes with type Simulated",
        "{spec: {maxNodes: 5, provider: {type: Simulated, simulated: {capacity: {cpu: 500m, memory: 8Gi}}}}}",
        "{spec: {maxNodes: 5, provider: {type: Simulated}}}"),
    row("the member simulated goes with type Simulated",
        "{spec: {maxNodes: 5, provider: {type: ExternalGRPC, externalGRPC: {connection: c, nodeGroupID: g}}}}",
        "{spec: {maxNodes: 5, provider: {type: ExternalGRPC, externalGRPC: {connection: c, nodeGroupID: g}, simulated: {capacity: {cpu: '1'}}}}}"),
    row("the member externalGRPC goes with type ExternalGRPC",
        "{spec: {maxNodes: 5, provider: {type: ExternalGRPC, externalGRPC: {connection: c, nodeGroupID: g}}}}",
        "{spec: {maxNodes: 5, provider: {type: ExternalGRPC}}}"),
    change("the provider's type is immutable: the machines would be orphaned",
        "{spec: {maxNodes: 5, provider: {type: Simulated, simulated: {capacity: {cpu: '1'}}}}}",
        "{spec: {maxNodes: 5, provider: {type: Simulated, simulated: {capacity: {cpu: '2'}}}}}",
        "{spec: {maxNodes: 5, provider: {type: ExternalGRPC, externalGRPC: {connection: c, nodeGroupID: g}}}}"),
    change("nodeGroupID is immutable: the machines would be orphaned",
        "{spec: {maxNodes: 5, provider: {type: ExternalGRPC, externalGRPC: {connection: c, nodeGroupID: g}}}}",
        "{spec: {maxNodes: 5, provider: {type: ExternalGRPC, externalGRPC: {connection: d, nodeGroupID: g}}}}",
        "{spec: {maxNodes: 5, provider: {type: ExternalGRPC, externalGRPC: {connection: c, nodeGroupID: h}}}}"),
];

#[test]
fn every_rule_of_a_crd_has_a_row() {
    let mut rules = BTreeSet::new();
    for crd in crds() {
        collect_messages(&serde_json::to_value(&crd).unwrap(), &mut rules);
    }
    let rows: BTreeSet<String> =
        FIELD_POLICIES.iter().chain(NODE_POOLS).map(|row| row.rule.to_owned()).collect();
    assert_eq!(rules, rows, "rules on the left, rows on the right");
}

fn collect_messages(schema: &Value, into: &mut BTreeSet<String>) {
    match schema {
        Value::Object(members) => {
            for (name, member) in members {
                if name == "x-kubernetes-validations" {
                    for rule in member.as_array().unwrap() {
                        into.insert(rule["message"].as_str().expect("a rule has a message").to_owned());
                    }
                } else {
                    collect_messages(member, into);
                }
            }
        }
        Value::Array(items) => items.iter().for_each(|item| collect_messages(item, into)),
        _ => {}
    }
}

#[tokio::test]
async fn field_policies_are_judged_by_the_api_server() {
    judge_all(ApiResource::erase::<FieldPolicy>(&()), FIELD_POLICIES).await;
}

#[tokio::test]
async fn node_pools_are_judged_by_the_api_server() {
    judge_all(ApiResource::erase::<NodePool>(&()), NODE_POOLS).await;
}

async fn judge_all(resource: ApiResource, rows: &[Row]) {
    let client = client_with_crds().await;
    let api: Api<DynamicObject> = Api::all_with(client, &resource);
    let mut wrong = Vec::new();
    for (index, row) in rows.iter().enumerate() {
        let name = format!("rules-{index}");
        let object = |text| object(&resource, &name, text);
        if let Some(before) = row.before {
            api.create(&PostParams::default(), &object(before)).await.unwrap();
        }
        if let Err(error) = dry_run(&api, row, object(row.accepted)).await {
            wrong.push(format!("{}\n  must be accepted: {}\n  {error}", row.rule, row.accepted));
        }
        match dry_run(&api, row, object(row.rejected)).await {
            Ok(()) => wrong.push(format!("{}\n  must be rejected: {}", row.rule, row.rejected)),
            Err(kube::Error::Api(status)) => {
                let causes =
                    status.details.as_ref().map(|details| details.causes.clone()).unwrap_or_default();
                let one = matches!(&causes[..], [cause] if cause.message.contains(row.rule));
                if status.code != 422 || !one {
                    wrong.push(format!(
                        "{}\n  must be the one reason against: {}\n  {status:?}",
                        row.rule, row.rejected
                    ));
                }
            }
            Err(other) => panic!("{other}"),
        }
        if row.before.is_some() {
            api.delete(&name, &kube::api::DeleteParams::default()).await.unwrap();
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n\n"));
}

/// Judged by the API server, kept by nobody.
async fn dry_run(api: &Api<DynamicObject>, row: &Row, mut object: DynamicObject) -> kube::Result<()> {
    let params = PostParams { dry_run: true, ..PostParams::default() };
    if row.before.is_some() {
        let name = object.metadata.name.clone().unwrap();
        object.metadata.resource_version = api.get(&name).await?.metadata.resource_version;
        api.replace(&name, &params, &object).await?;
    } else {
        api.create(&params, &object).await?;
    }
    Ok(())
}

fn object(resource: &ApiResource, name: &str, text: &str) -> DynamicObject {
    let mut object: Value = serde_saphyr::from_str(text).unwrap_or_else(|error| panic!("{text}: {error}"));
    object["apiVersion"] = json!(resource.api_version);
    object["kind"] = json!(resource.kind);
    if object.get("metadata").is_none() {
        object["metadata"] = json!({"name": name});
    }
    serde_json::from_value(object).unwrap()
}
