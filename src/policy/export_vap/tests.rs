//! Generated text by example.

use std::sync::Arc;

use serde_json::json;

use super::*;
use crate::ownership::pattern::Pattern;
use crate::ownership::rule::ScalePath;
use crate::ownership::schema::Schema;
use crate::policy::compile::compile;

fn schema() -> Schema {
    let text = json!({"type": "string"});
    Schema::from_crd(&json!({"type": "object", "properties": {
        "spec": {"type": "object", "properties": {
            "size": text, "mode": text, "count": {"type": "integer"},
            "shape": {"type": "string", "default": "round"},
            "labels": {"type": "object", "additionalProperties": text},
            "zones": {"type": "array", "x-kubernetes-list-type": "set", "items": text},
            "args": {"type": "array", "items": text},
            "taints": {"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["key"],
                "items": {"type": "object", "properties": {"key": text, "value": text}}},
            "free": {"type": "object", "x-kubernetes-preserve-unknown-fields": true},
            "gone": {"type": "object", "nullable": true, "properties": {"x": text}},
        }},
        "status": {"type": "object", "properties": {"phase": text}},
    }}))
    .unwrap()
}

fn says(yaml: &str) -> Generated {
    let target = "target: {group: example.com, version: v1, resource: things}\nmode: Enforce\n";
    let spec = serde_saphyr::from_str(&format!("{target}{yaml}")).unwrap();
    let policy = compile("p", 1, &spec).unwrap();
    let target = Target {
        group: "example.com".into(),
        resource: "things".into(),
        version: "v1".into(),
        any_version: false,
        schema: Arc::new(schema()),
        versions: Vec::new(),
        scale: Some(ScalePath { replicas: Pattern::parse(".spec.count").unwrap() }),
        sensitive: false,
        policies: Vec::new(),
    };
    let excluded_namespaces = EXCLUDED_NAMESPACES.map(str::to_owned).into();
    let facts = Facts {
        target: &target,
        schema_known: true,
        subresources: &["status", "scale"],
        custom: true,
        excluded_namespaces: &excluded_namespaces,
        action: Action::Deny,
    };
    generate(&policy, &facts)
}

fn spec(generated: &Generated) -> ValidatingAdmissionPolicySpec {
    generated.objects.as_deref().unwrap().0.spec.clone().unwrap()
}

fn expressions(generated: &Generated) -> Vec<String> {
    spec(generated).validations.unwrap().into_iter().map(|rule| rule.expression.replace('\n', " ")).collect()
}

fn variable(generated: &Generated, name: &str) -> String {
    let variables = spec(generated).variables.unwrap();
    variables.into_iter().find(|variable| variable.name == name).unwrap().expression
}

fn left_out(generated: &Generated) -> Vec<String> {
    generated.left_out.iter().map(ToString::to_string).collect()
}

const ANN: &str = "subjects: [{kind: User, name: ann}]";

#[test]
fn a_plain_field_is_compared_and_its_owner_and_a_mutator_are_let_through() {
    let found = says(&format!(
        "creation: {{policy: Anyone}}\nowners: [{{name: a-b, {ANN}, fields: [{{path: .spec.size}}]}}]"
    ));
    assert_eq!(
        expressions(&found),
        ["variables.unjudged || object.?spec.?size == variables.old.?spec.?size || variables.owner0_a_b || \
          (variables.tracked && object.?spec.?size.hasValue() && \
          !variables.held.exists(f, f[?'f:spec'][?'f:size'].hasValue()) && \
          !variables.heldNow.exists(f, [f[?'f:spec']].exists(a, a.hasValue() && a.value().all(n, n == '.'))))"]
    );
    assert_eq!(variable(&found, "owner0_a_b"), "request.userInfo.username == 'ann'");
    assert!(variable(&found, "unjudged").ends_with("|| variables.creating)"), "anyone may create");
    let spec = spec(&found);
    assert_eq!(spec.failure_policy.as_deref(), Some("Ignore"));
    let rule = &spec.match_constraints.unwrap().resource_rules.unwrap()[0];
    assert_eq!(rule.operations.as_deref().unwrap(), ["UPDATE"]);
    assert_eq!(rule.resources.as_deref().unwrap(), ["things"]);
    let message = spec.validations.unwrap()[0].message.clone().unwrap();
    assert!(
        message.starts_with("FieldPolicy p: .spec.size: owned by a-b (User ann). Instead: "),
        "{message}"
    );
}

#[test]
fn who_is_never_asked_stands_in_the_match_conditions() {
    let found = says(&format!(
        "breakGlass: {{subjects: [{{kind: User, name: eve}}]}}\nowners: [{{name: a, {ANN}, fields: [{{path: .spec.size}}]}}]"
    ));
    let conditions = spec(&found).match_conditions.unwrap();
    let names: Vec<&str> = conditions.iter().map(|condition| condition.name.as_str()).collect();
    assert_eq!(names, ["not-bypassed", "not-a-system-writer", "not-break-glass"]);
    assert!(conditions[0].expression.contains("'fieldkeeper.dev:bypass' in"));
    assert!(
        conditions[1].expression.contains("'system:serviceaccount:kube-system:generic-garbage-collector'")
    );
    assert_eq!(conditions[2].expression, "!(request.userInfo.username == 'eve')");
}

#[test]
fn the_more_specific_claim_is_taken_out_of_the_broad_one() {
    let found = says(
        "owners:\n- {name: all, subjects: [{kind: User, name: ann}], fields: [{path: .spec.labels}]}\n\
         - {name: one, subjects: [{kind: User, name: bob}], fields: [{path: '.spec.labels[\"a/b\"]'}]}",
    );
    let found = expressions(&found);
    let [one, all] = found.as_slice() else { panic!("{found:?}") };
    assert!(one.contains(
        "object.?spec.?labels[?'a/b'] == variables.old.?spec.?labels[?'a/b'] || variables.owner1_one"
    ));
    assert!(
        all.contains("k in ['a/b'] || ") && all.contains("variables.owner0_all") && !all.contains("owner1"),
        "{all}"
    );
}

#[test]
fn a_condition_is_asked_of_the_stored_object_and_of_the_new_one_where_it_legally_changes() {
    let found = says(&format!(
        "owners:\n- {{name: a, {ANN}, fields: [{{path: .spec.mode}}]}}\n\
         - {{name: b, subjects: [{{kind: User, name: bob}}], fields: [{{path: .spec.size, when: \"oldObject.spec.mode == 'x'\"}}]}}\n\
         - {{name: nobody, fields: [{{path: .spec.size, when: \"oldObject.spec.mode == 'y'\"}}]}}"
    ));
    let size = expressions(&found).into_iter().find(|rule| rule.contains("?size ==")).unwrap();
    assert!(size.contains("variables.owner1_b"), "{size}");
    assert!(size.contains("variables.switched && "), "{size}");
    assert_eq!(variable(&found, "when1"), "(variables.stored.?spec.?mode.orValue(null) == dyn('x'))");
    assert!(variable(&found, "switched").starts_with("(!variables.creating && "));
    let mode = expressions(&found).into_iter().find(|rule| rule.contains("?mode ==")).unwrap();
    assert!(!mode.contains("switched"), "what a condition reads is judged by the stored state only: {mode}");
}

#[test]
fn a_closed_field_has_no_way_through_and_says_so() {
    let found = says("owners: [{name: nobody, fields: [{path: .spec.size, instead: 'create a request'}]}]");
    let rules = spec(&found).validations.unwrap();
    assert!(!rules[0].expression.contains("owner"), "{}", rules[0].expression);
    assert_eq!(
        rules[0].message.as_deref(),
        Some("FieldPolicy p: .spec.size: nobody may write it. Instead: create a request")
    );
}

#[test]
fn on_creation_a_default_was_set_by_nobody() {
    let found = says(&format!("owners: [{{name: a, {ANN}, fields: [{{path: .spec.shape}}]}}]"));
    let rule = &expressions(&found)[0];
    assert!(
        rule.contains("(variables.creating && object.?spec.?shape == optional.of(dyn('round')))"),
        "{rule}"
    );
}

#[test]
fn an_item_may_be_added_and_removed_by_its_owner_with_what_others_own_in_it() {
    let found = says(
        "owners:\n- {name: item, subjects: [{kind: User, name: ann}], fields: [{path: '.spec.taints[key=\"x\"]'}]}\n\
         - {name: part, subjects: [{kind: User, name: bob}], fields: [{path: '.spec.taints[key=\"x\"].value'}]}",
    );
    let rules = expressions(&found);
    let [item, part] = rules.as_slice() else { panic!("{rules:?}") };
    assert!(
        item.contains("size(variables.items1new) == size(variables.items1old) || variables.owner0_item"),
        "{item}"
    );
    assert!(part.contains("variables.item1new.?value == variables.item1old.?value || "), "{part}");
    assert!(
        part.contains("(variables.owner1_part || (size(variables.items1new) != size(variables.items1old) && variables.owner0_item))"),
        "{part}"
    );
    assert_eq!(
        variable(&found, "items1new"),
        "dyn(object).?spec.?taints.orValue([]).filter(i, i.?key.orValue(null) == 'x')"
    );
}

#[test]
fn deletion_and_scale_have_rules_of_their_own() {
    let found = says(&format!(
        "deletion: {{subjects: [{{kind: User, name: root}}]}}\nowners: [{{name: a, {ANN}, fields: [{{path: .spec.count}}]}}]"
    ));
    let rules = expressions(&found);
    assert!(rules.iter().any(|rule| rule
        == "request.?subResource.orValue('') != 'scale' || dyn(object).?spec.?replicas.orValue(0) == \
            variables.old.?spec.?replicas.orValue(0) || variables.owner0_a"));
    assert!(
        rules
            .iter()
            .any(|rule| rule == "(request.operation != 'DELETE' || request.userInfo.username == 'root')")
    );
    let rule = spec(&found).match_constraints.unwrap().resource_rules.unwrap().remove(0);
    assert_eq!(rule.operations.unwrap(), ["CREATE", "UPDATE", "DELETE"]);
    assert_eq!(rule.resources.unwrap(), ["things", "things/scale"]);
}

#[test]
fn what_cannot_be_said_is_left_out_with_its_reason() {
    for (fields, path, why) in [
        ("{path: '.spec.taints[*]'}", ".spec.taints[*]", "all of their keys"),
        ("{path: .spec.taints}", ".spec.taints", "no claim names"),
        ("{path: .spec.size, mode: Warn}", ".spec.size", "mode Warn"),
        ("{path: .spec.count, compare: Quantity}", ".spec.count", "comparison"),
        ("{path: '.spec.args[=\"x\"]'}", ".spec.args[=\"x\"]", "one value"),
        ("{path: .spec.gone.x}", ".spec.gone.x", "null"),
        ("{path: .spec.lost}", ".spec.lost", "no such field"),
        (
            "{path: .spec.size, when: \"oldObject.metadata.labels.x == 'y'\"}, {path: .metadata.labels, compare: EmptyIsAbsent}",
            ".spec.size",
            "a condition reads .metadata.labels.x",
        ),
    ] {
        let found = says(&format!("owners: [{{name: a, {ANN}, fields: [{fields}]}}]"));
        let all = left_out(&found);
        assert!(
            all.iter().any(|line| line.starts_with(&format!("{path}: ")) && line.contains(why)),
            "{fields}: {all:?}"
        );
        assert!(found.objects.is_none(), "{fields}: {:?}", expressions(&found));
        assert!(found.covered.is_empty());
    }
}

#[test]
fn selectors_become_those_of_the_admission_policy() {
    let found = says(&format!(
        "match: {{namespaceSelector: {{matchLabels: {{team: a}}}}, objectSelector: {{matchExpressions: [{{key: x, operator: Exists}}]}}}}\n\
         owners: [{{name: a, {ANN}, fields: [{{path: .spec.count}}, {{path: .metadata.labels.x}}]}}]"
    ));
    let constraints = spec(&found).match_constraints.unwrap();
    let namespaces = constraints.namespace_selector.unwrap().match_expressions.unwrap();
    let shown: Vec<_> = namespaces.iter().map(|one| (one.key.as_str(), one.operator.as_str())).collect();
    assert_eq!(shown, [("kubernetes.io/metadata.name", "NotIn"), ("team", "In")]);
    assert_eq!(constraints.object_selector.unwrap().match_expressions.unwrap()[0].operator, "Exists");
    let resources = constraints.resource_rules.unwrap().remove(0).resources.unwrap();
    assert_eq!(resources, ["things"], "a Scale shows no labels");
    assert!(left_out(&found).iter().any(|line| line.contains("through /scale: match reads labels")));
}

#[test]
fn a_policy_with_more_fields_than_there_is_room_for_says_so() {
    let fields: Vec<String> =
        (0..=MAX_RULES).map(|number| format!("{{path: '.spec.labels.l{number}'}}")).collect();
    let found = says(&format!("owners: [{{name: a, {ANN}, fields: [{}]}}]", fields.join(", ")));
    assert_eq!(found.rules(), MAX_RULES);
    assert!(left_out(&found).iter().any(|line| line.starts_with("there is room for")));
}
