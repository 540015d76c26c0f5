//! The generated files are fresh, and the types read what the API server stores.

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;

use super::field_policy::{CreationPolicy, FailurePolicy, ManagerUse, Mode, SubjectKind};
use super::*;

#[test]
fn the_files_in_crds_are_the_ones_that_the_types_say() {
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("crds");
    let files = crd_files().unwrap();
    for (name, content) in &files {
        let committed = std::fs::read_to_string(folder.join(name)).unwrap_or_default();
        assert!(committed == *content, "crds/{name} is stale; refresh it with: {REFRESH_COMMAND}");
    }
    let mut present: Vec<_> =
        std::fs::read_dir(folder).unwrap().map(|e| e.unwrap().file_name().into_string().unwrap()).collect();
    present.sort();
    let mut expected: Vec<_> = files.into_iter().map(|(name, _)| name).collect();
    expected.sort();
    assert_eq!(present, expected, "crds/ holds exactly the generated files");
}

#[test]
fn the_yaml_of_a_crd_reads_back_as_the_same_crd() {
    for (crd, (name, content)) in crds().into_iter().zip(crd_files().unwrap()) {
        let read: CustomResourceDefinition = serde_saphyr::from_str(&content).unwrap();
        assert_eq!(read, crd, "{name}");
    }
}

#[test]
fn no_field_of_a_crd_is_nullable() {
    for (name, content) in crd_files().unwrap() {
        assert!(!content.contains("nullable"), "{name}");
    }
}

#[test]
fn an_almost_empty_policy_audits_and_fails_closed() {
    let policy: FieldPolicySpec =
        serde_saphyr::from_str("target: {group: apps, version: v1, resource: deployments}").unwrap();
    assert_eq!(policy.mode, Mode::Audit);
    assert_eq!(policy.failure_policy, FailurePolicy::Fail);
    assert_eq!(policy.creation.policy, CreationPolicy::Owners);
    assert_eq!(policy.integrity.mode, None);
    assert_eq!(policy.integrity.co_ownership, Mode::Audit);
    assert!(policy.deletion.is_none());
}

#[test]
fn a_policy_with_everything_survives_a_round_trip() {
    let text = r#"
target: {group: compute.fieldkeeper.dev, version: v1alpha1, resource: nodepools}
match: {objectSelector: {matchLabels: {tier: general}}}
mode: Enforce
admissionPolicy: Deny
owners:
- name: autoscaler
  subjects: [{kind: ServiceAccount, namespaceFrom: Object, name: autoscaler, uid: u, extra: {k: v}}]
  mode: Warn
  fieldManagers: [{name: autoscaler, use: Reserve}, {name: other}]
  formerFieldManagers: [scaler]
  fields:
  - {path: .spec.targetNodes, when: "oldObject.spec.handOff == 'Direct'", mode: Audit, compare: Quantity,
     sensitive: true, instead: ask, mutators: [{name: m, when: "object.spec.paused"}]}
creation: {policy: Anyone, except: [{kind: User, name: velero}]}
deletion: {}
integrity: {mode: Enforce, coOwnership: Enforce, editors: [{kind: Group, name: migrators}]}
breakGlass: {subjects: [{kind: Group, name: oncall}]}
pausedUntil: "2026-12-01T00:00:00Z"
"#;
    let policy: FieldPolicySpec = serde_saphyr::from_str(text).unwrap();
    let owner = &policy.owners[0];
    assert_eq!(owner.subjects[0].kind, SubjectKind::ServiceAccount);
    assert_eq!(owner.field_managers[0].usage, ManagerUse::Reserve);
    assert_eq!(owner.field_managers[1].usage, ManagerUse::Expect);
    assert_eq!(policy.deletion.as_ref().map(|d| d.subjects.len()), Some(0));

    let json = serde_json::to_value(&policy).unwrap();
    assert_eq!(json["owners"][0]["fieldManagers"][0]["use"], "Reserve");
    assert_eq!(json["match"]["objectSelector"]["matchLabels"]["tier"], "general");
    let status = FieldPolicyStatus { accepted_spec: Some(json), ..FieldPolicyStatus::default() };
    assert_eq!(status.accepted().unwrap().unwrap(), policy);
}

#[test]
fn modes_are_ordered_by_strictness() {
    assert!(Mode::Audit < Mode::Warn && Mode::Warn < Mode::Enforce);
}
