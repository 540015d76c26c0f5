use super::*;
use serde_json::{Value, json};

mod properties;
mod refine;

/// A NodePool-like kind: taints by key and effect, a set, labels, an atomic list,
/// free-form settings.
pub(super) fn node_pool() -> Schema {
    let (text, int) = (json!({"type": "string"}), json!({"type": "integer"}));
    Schema::from_crd(&json!({"type": "object", "properties": {
        "spec": {"type": "object", "properties": {
            "targetNodes": int,
            "note": {"type": "string", "nullable": true},
            "limits": {"type": "object", "properties": {"cpu": text, "memory": text}},
            "zones": {"type": "array", "items": text, "x-kubernetes-list-type": "set"},
            "weights": {"type": "array", "items": {"type": "number"}, "x-kubernetes-list-type": "set"},
            "args": {"type": "array", "items": text},
            "labels": {"type": "object", "additionalProperties": text},
            "selector": {"type": "object", "x-kubernetes-map-type": "atomic", "additionalProperties": text},
            "settings": {"x-kubernetes-preserve-unknown-fields": true},
            "port": {"x-kubernetes-int-or-string": true},
            "taints": {"type": "array", "x-kubernetes-list-type": "map",
                "x-kubernetes-list-map-keys": ["key", "effect"],
                "items": {"type": "object", "properties": {
                    "key": text, "value": text,
                    "effect": {"type": "string", "default": "NoSchedule"}}}},
            "containers": {"type": "array", "x-kubernetes-list-type": "map",
                "x-kubernetes-list-map-keys": ["name"],
                "items": {"type": "object", "properties": {
                    "name": text, "image": text,
                    "env": {"type": "array", "x-kubernetes-list-type": "map",
                        "x-kubernetes-list-map-keys": ["name"],
                        "items": {"type": "object", "properties": {"name": text, "value": text}}}}}}}},
        "status": {"type": "object", "properties": {"nodes": int}}}}))
    .unwrap()
}

/// One line for each change: sign, path, what it is unless a plain leaf.
pub(super) fn show(changes: &[Change<'_>]) -> Vec<String> {
    let mut lines: Vec<String> = changes
        .iter()
        .map(|change| {
            let sign = match change.kind {
                ChangeKind::Added => '+',
                ChangeKind::Removed => '-',
                ChangeKind::Modified => '~',
            };
            let node = match (change.node, change.leaf) {
                (NodeKind::Leaf, _) => String::new(),
                (node, true) => format!(" {node:?}"),
                (node, false) => format!(" {node:?} of"),
            };
            let part = change.atomic_at.map(|at| format!(" in {at}")).unwrap_or_default();
            let split = if change.split { " split" } else { "" };
            format!("{sign} {}{node}{split}{part}", change.path)
        })
        .collect();
    lines.sort();
    lines
}

/// The changes between two objects with these specs.
fn spec(old: Value, new: Value) -> Vec<String> {
    let object = |spec: Value| json!({"apiVersion": "v1", "kind": "NodePool", "spec": spec}).to_string();
    let (old, new) = (object(old), object(new));
    changes(Some(&old), Some(&new), &node_pool()).unwrap()
}

fn changes(old: Option<&str>, new: Option<&str>, schema: &Schema) -> Result<Vec<String>, DiffError> {
    let raw = |text| Raw::parse(text).unwrap();
    diff(old.map(raw), new.map(raw), schema, None).map(|changes| show(&changes))
}

#[test]
fn equal_objects_have_no_changes_however_they_are_written() {
    assert!(spec(json!({"targetNodes": 1}), json!({"targetNodes": 1})).is_empty());
    let old = r#"{"spec":{"targetNodes":1,"settings":{"a":"x/y","b":[1,{"c":2,"d":3}]}}}"#;
    let new = r#"{ "spec": {"settings": {"b":[1.0,{"d":3,"c":2e0}], "a":"x\/y"}, "targetNodes": 1.0}}"#;
    assert!(changes(Some(old), Some(new), &node_pool()).unwrap().is_empty());
}

#[test]
fn a_changed_scalar_is_one_change_with_both_values() {
    let (old, new) = (r#"{"spec":{"targetNodes":3}}"#, r#"{"spec":{"targetNodes":5}}"#);
    let (old, new) = (Raw::parse(old).unwrap(), Raw::parse(new).unwrap());
    let changes = diff(Some(old), Some(new), &node_pool(), None).unwrap();
    assert_eq!(show(&changes), ["~ .spec.targetNodes"]);
    let values = changes.first().map(|change| (change.old.unwrap().text(), change.new.unwrap().text()));
    assert_eq!(values, Some(("3", "5")));
}

#[test]
fn numbers_and_their_strings_differ_and_large_integers_do_too() {
    assert_eq!(spec(json!({"targetNodes": 1}), json!({"targetNodes": "1"})), ["~ .spec.targetNodes"]);
    let big = |n: &str| format!(r#"{{"spec":{{"targetNodes":{n}}}}}"#);
    let (old, new) = (big("18446744073709551616"), big("18446744073709551617"));
    assert_eq!(changes(Some(&old), Some(&new), &node_pool()).unwrap(), ["~ .spec.targetNodes"]);
}

#[test]
fn creation_adds_every_leaf_and_each_container_and_item() {
    let new = json!({"apiVersion": "v1", "kind": "NodePool", "metadata": {"name": "x", "uid": "1",
        "generateName": "x-", "labels": {"a.b/c": "1"}},
        "spec": {"targetNodes": 1, "zones": ["a"], "taints": [{"key": "k"}], "args": [], "limits": {}}})
    .to_string();
    let expected = [
        "+ .metadata.generateName",
        "+ .metadata.labels Container of",
        "+ .metadata.labels[\"a.b/c\"]",
        "+ .spec Container of",
        "+ .spec.args Atomic",
        "+ .spec.limits",
        "+ .spec.taints Container of",
        "+ .spec.taints[effect=\"NoSchedule\",key=\"k\"] Item of",
        "+ .spec.taints[effect=\"NoSchedule\",key=\"k\"].key",
        "+ .spec.targetNodes",
        "+ .spec.zones Container of",
        "+ .spec.zones[=\"a\"] Item",
    ];
    assert_eq!(changes(None, Some(&new), &node_pool()).unwrap(), expected);
    let removed = changes(Some(&new), None, &node_pool()).unwrap();
    assert_eq!(removed, expected.map(|line| line.replace('+', "-")));
}

#[test]
fn a_removed_parent_removes_each_leaf_below_it() {
    let old = json!({"targetNodes": 1, "limits": {"cpu": "1", "memory": "2"}});
    assert_eq!(
        spec(old, json!({"targetNodes": 1})),
        ["- .spec.limits Container of", "- .spec.limits.cpu", "- .spec.limits.memory"]
    );
}

#[test]
fn an_emptied_map_removes_its_leaves_but_not_itself() {
    let old = json!({"limits": {"cpu": "1"}});
    assert_eq!(spec(old.clone(), json!({"limits": {}})), ["- .spec.limits.cpu"]);
    assert_eq!(spec(old.clone(), json!({"limits": null})), ["- .spec.limits.cpu"]);
    assert_eq!(spec(json!({}), json!({"limits": {}})), ["+ .spec.limits"]);
    assert_eq!(spec(json!({"limits": {}}), json!({"limits": null})), ["~ .spec.limits"]);
}

#[test]
fn null_and_absent_differ() {
    assert_eq!(spec(json!({}), json!({"note": null})), ["+ .spec.note"]);
    assert_eq!(spec(json!({"note": "x"}), json!({"note": null})), ["~ .spec.note"]);
}

#[test]
fn the_order_of_keyed_lists_and_sets_is_free_and_that_of_atomic_lists_is_not() {
    let old = json!({"zones": ["a", "b"], "taints": [{"key": "a"}, {"key": "b"}]});
    let new = json!({"zones": ["b", "a"], "taints": [{"key": "b"}, {"key": "a"}]});
    assert!(spec(old, new).is_empty());
    assert_eq!(spec(json!({"args": ["a", "b"]}), json!({"args": ["b", "a"]})), ["~ .spec.args Atomic"]);
}

#[test]
fn renaming_the_key_of_an_item_removes_one_item_and_adds_another() {
    let taint = |key: &str| json!({"taints": [{"key": key, "effect": "NoExecute"}]});
    assert_eq!(
        spec(taint("a"), taint("zz")),
        [
            "+ .spec.taints[effect=\"NoExecute\",key=\"zz\"] Item of",
            "+ .spec.taints[effect=\"NoExecute\",key=\"zz\"].effect",
            "+ .spec.taints[effect=\"NoExecute\",key=\"zz\"].key",
            "- .spec.taints[effect=\"NoExecute\",key=\"a\"] Item of",
            "- .spec.taints[effect=\"NoExecute\",key=\"a\"].effect",
            "- .spec.taints[effect=\"NoExecute\",key=\"a\"].key",
        ]
    );
}

#[test]
fn an_item_that_leaves_a_key_out_is_the_one_with_the_default() {
    let old = json!({"taints": [{"key": "a", "effect": "NoSchedule", "value": "1"}]});
    let new = json!({"taints": [{"key": "a", "value": "2"}]});
    assert_eq!(
        spec(old, new),
        [
            "- .spec.taints[effect=\"NoSchedule\",key=\"a\"].effect",
            "~ .spec.taints[effect=\"NoSchedule\",key=\"a\"].value"
        ]
    );
}

#[test]
fn an_item_that_has_only_defaulted_keys_is_a_leaf_when_empty() {
    assert_eq!(
        spec(json!({"taints": []}), json!({"taints": [{}]})),
        ["+ .spec.taints[effect=\"NoSchedule\"] Item"]
    );
}

#[test]
fn an_item_without_any_key_cannot_be_judged() {
    for item in [json!({"image": "x"}), json!(null), json!("x"), json!({"name": {"a": 1}})] {
        let new = json!({"spec": {"containers": [item]}}).to_string();
        let error = changes(Some("{}"), Some(&new), &node_pool()).unwrap_err();
        assert_eq!(error.category(), "list_item");
        assert!(error.to_string().starts_with(".spec.containers: "), "{error}");
    }
    let new = r#"{"spec":{"zones":[["a"]]}}"#;
    assert_eq!(changes(None, Some(new), &node_pool()).unwrap_err().category(), "list_item");
}

#[test]
fn duplicates_are_one_leaf_as_on_the_server() {
    let zones = |zones: &[&str]| json!({"zones": zones});
    assert_eq!(
        spec(zones(&["a"]), zones(&["a", "a"])),
        ["+ .spec.zones[=\"a\"] Duplicates", "- .spec.zones[=\"a\"] Item",]
    );
    assert_eq!(
        spec(zones(&["a", "a"]), zones(&["a"])),
        ["+ .spec.zones[=\"a\"] Item", "- .spec.zones[=\"a\"] Duplicates",]
    );
    assert_eq!(
        spec(zones(&["a", "a"]), zones(&["b"])),
        ["+ .spec.zones[=\"b\"] Item", "- .spec.zones[=\"a\"] Duplicates",]
    );
    let twins = |value: &str| json!({"containers": [{"name": "a"}, {"name": "a", "image": value}]});
    assert_eq!(spec(twins("x"), twins("y")), ["~ .spec.containers[name=\"a\"] Duplicates"]);
    assert!(spec(twins("x"), twins("x")).is_empty());
}

#[test]
fn members_of_a_set_are_compared_by_value() {
    let old = r#"{"spec":{"weights":[1,2.50]}}"#;
    let new = r#"{"spec":{"weights":[2.5,10e-1,3]}}"#;
    assert_eq!(changes(Some(old), Some(new), &node_pool()).unwrap(), ["+ .spec.weights[=3] Item"]);
}

#[test]
fn an_atomic_map_is_one_change() {
    assert_eq!(
        spec(json!({"selector": {"a": "1"}}), json!({"selector": {"a": "1", "b": "2"}})),
        ["~ .spec.selector Atomic"]
    );
    assert_eq!(spec(json!({}), json!({"selector": {"a": "1"}})), ["+ .spec.selector Atomic"]);
}

#[test]
fn below_preserve_unknown_maps_are_granular_and_lists_are_not() {
    let old = json!({"settings": {"a": {"b": 1, "c": [{"name": "x", "v": 1}]}}});
    let new = json!({"settings": {"a": {"b": 2, "c": [{"name": "x", "v": 2}]}}});
    assert_eq!(spec(old, new), ["~ .spec.settings.a.b", "~ .spec.settings.a.c Atomic"]);
}

#[test]
fn another_type_modifies_the_node_and_changes_the_parts_of_the_one_that_is_a_map() {
    let (scalar, map) = (json!({"settings": {"a": 1}}), json!({"settings": {"a": {"b": 1}}}));
    assert_eq!(spec(scalar.clone(), map.clone()), ["+ .spec.settings.a.b", "~ .spec.settings.a"]);
    assert_eq!(spec(map.clone(), scalar), ["- .spec.settings.a.b", "~ .spec.settings.a"]);
    let list = json!({"settings": {"a": [1]}});
    assert_eq!(spec(map, list), ["- .spec.settings.a.b", "~ .spec.settings.a Atomic"]);
    assert_eq!(spec(json!({"port": 80}), json!({"port": "http"})), ["~ .spec.port"]);
}

#[test]
fn a_value_that_its_schema_forbids_is_still_a_change() {
    assert_eq!(spec(json!({"limits": 5}), json!({"limits": 6})), ["~ .spec.limits"]);
    assert_eq!(
        spec(json!({"limits": {"cpu": "1"}}), json!({"limits": 6})),
        ["- .spec.limits.cpu", "~ .spec.limits"]
    );
    assert_eq!(
        spec(json!({"targetNodes": {"a": 1}}), json!({"targetNodes": {"a": 2}})),
        ["~ .spec.targetNodes"]
    );
    assert_eq!(spec(json!({}), json!({"zones": "a"})), ["+ .spec.zones"]);
}

#[test]
fn a_field_that_the_schema_does_not_know_is_judged_by_what_it_holds() {
    assert_eq!(
        spec(json!({"extra": {"a": 1}}), json!({"extra": {"a": 2}, "more": true})),
        ["+ .spec.more", "~ .spec.extra.a"]
    );
}

#[test]
fn what_names_an_object_and_what_only_the_server_writes_is_never_a_change() {
    let old =
        json!({"apiVersion": "a/v1", "kind": "A", "metadata": {"name": "a", "uid": "1", "generation": 1}});
    let new = json!({"apiVersion": "a/v2", "kind": "B", "metadata": {
        "name": "b", "namespace": "n", "uid": "2", "generation": 2, "resourceVersion": "9",
        "creationTimestamp": null, "selfLink": "x", "clusterName": "c", "managedFields": [{}],
        "deletionTimestamp": "now", "deletionGracePeriodSeconds": 0}});
    assert!(changes(Some(&old.to_string()), Some(&new.to_string()), &node_pool()).unwrap().is_empty());
    let inner = |name: &str| json!({"settings": {"kind": name, "metadata": {"name": name}}});
    assert_eq!(spec(inner("a"), inner("b")), ["~ .spec.settings.kind", "~ .spec.settings.metadata.name"]);
}

#[test]
fn finalizers_are_a_set_and_owner_references_are_atomic_by_uid() {
    let owner = |uid: &str, name: &str| json!({"uid": uid, "name": name, "kind": "K", "apiVersion": "v1"});
    let meta = |metadata: Value| json!({"metadata": metadata}).to_string();
    let old = meta(json!({"finalizers": ["a", "b"], "ownerReferences": [owner("1", "x"), owner("2", "y")]}));
    let new = meta(json!({"finalizers": ["b", "c"], "ownerReferences": [owner("3", "z"), owner("2", "w")]}));
    assert_eq!(
        changes(Some(&old), Some(&new), &node_pool()).unwrap(),
        [
            "+ .metadata.finalizers[=\"c\"] Item",
            "+ .metadata.ownerReferences[uid=\"3\"] Item",
            "- .metadata.finalizers[=\"a\"] Item",
            "- .metadata.ownerReferences[uid=\"1\"] Item",
            "~ .metadata.ownerReferences[uid=\"2\"] Atomic",
        ]
    );
}

#[test]
fn a_deployment_without_list_keys_in_its_fields_is_compared_container_by_container() {
    let env = |value: &str| json!([{"name": "A", "value": "1"}, {"name": "B", "value": value}]);
    let containers = |image: &str, value: &str| json!({"containers": [{"name": "app", "image": image, "env": env(value)}, {"name": "side", "image": "s"}]});
    assert_eq!(
        spec(containers("app:1", "x"), containers("app:2", "y")),
        ["~ .spec.containers[name=\"app\"].env[name=\"B\"].value", "~ .spec.containers[name=\"app\"].image",]
    );
}

#[test]
fn a_doubled_name_in_what_changed_cannot_be_judged() {
    let new = r#"{"spec":{"limits":{"cpu":"1","cpu":"2"}}}"#;
    let error = changes(Some(r#"{"spec":{"limits":{"cpu":"1"}}}"#), Some(new), &node_pool()).unwrap_err();
    assert_eq!(error.to_string(), ".spec.limits: the name \"cpu\" occurs twice in one object");
    let twice = r#"{"spec":{},"spec":{"targetNodes":1}}"#;
    assert_eq!(changes(Some("{}"), Some(twice), &node_pool()).unwrap_err().category(), "json");
}

#[test]
fn what_is_no_object_cannot_be_judged() {
    assert_eq!(changes(Some("[]"), Some("{}"), &node_pool()).unwrap_err().category(), "not_an_object");
    assert_eq!(
        changes(None, Some(r#"{"metadata":3}"#), &node_pool()).unwrap_err().category(),
        "not_an_object"
    );
}

#[test]
fn depth_beyond_the_limit_cannot_be_judged_and_does_no_harm() {
    let nested = |levels: usize, leaf: &str| {
        format!(r#"{{"spec":{{"settings":{}{leaf}{}}}}}"#, r#"{"a":"#.repeat(levels), "}".repeat(levels))
    };
    for levels in [100, 127, 128, 129, MAX_DEPTH - 2] {
        let (old, new) = (nested(levels, "1"), nested(levels, "2"));
        assert_eq!(changes(Some(&old), Some(&new), &node_pool()).unwrap().len(), 1, "{levels}");
    }
    for levels in [MAX_DEPTH, 10_000, 1_000_000] {
        let (old, new) = (nested(levels, "1"), nested(levels, "2"));
        let error = changes(Some(&old), Some(&new), &node_pool()).unwrap_err();
        assert_eq!(error.category(), "too_deep");
        assert!(
            changes(Some(&old), Some(&old), &node_pool()).unwrap().is_empty(),
            "equal text needs no descent"
        );
    }
    let lists =
        |leaf: &str| format!(r#"{{"spec":{{"args":{}{leaf}{}}}}}"#, "[".repeat(9000), "]".repeat(9000));
    let error = changes(Some(&lists("1")), Some(&lists("2")), &node_pool()).unwrap_err();
    assert_eq!(error.category(), "too_deep");
}

#[test]
fn a_deep_and_wide_object_is_refused_before_its_paths_fill_the_memory() {
    let leaves: Vec<String> = (0..40_000).map(|n| format!("\"{n}\":1")).collect();
    let new = format!(
        r#"{{"spec":{{"settings":{}{{{}}}{}}}}}"#,
        r#"{"a":"#.repeat(80),
        leaves.join(","),
        "}".repeat(80)
    );
    assert_eq!(changes(None, Some(&new), &node_pool()).unwrap_err(), DiffError::Size);
}

#[test]
fn unowned_paths_are_those_that_the_difference_leaves_out() {
    let path = |names: &[&str]| names.iter().map(|name| Element::field(name)).collect::<Vec<_>>();
    for names in [&["kind"][..], &["metadata"], &["metadata", "name"], &["metadata", "managedFields"]] {
        assert!(is_unowned(&path(names)), "{names:?}");
    }
    for names in [&["spec"][..], &["metadata", "labels"], &["spec", "kind"], &["metadata", "labels", "name"]]
    {
        assert!(!is_unowned(&path(names)), "{names:?}");
    }
}
