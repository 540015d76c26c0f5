use super::*;
use crate::ownership::path::Path;
use serde_json::{Value, json};

fn crd(spec: &Value) -> Schema {
    Schema::from_crd(&json!({"type": "object", "properties": {"spec": spec}})).unwrap()
}

fn node<'s>(schema: &'s Schema, path: &str) -> Option<&'s SchemaNode> {
    let mut node = schema.root();
    for name in path.split('.') {
        node = match name {
            "[]" => node.list()?.item(),
            name => node.map()?.field(name)?,
        };
    }
    Some(node)
}

fn shape(schema: &Schema, path: &str) -> String {
    let Some(node) = node(schema, path) else { return "none".to_owned() };
    let mut forms = Vec::new();
    if node.is_scalar() {
        forms.push("scalar".to_owned());
    }
    if let Some(list) = node.list() {
        forms.push(match list.shape() {
            ListShape::Atomic => "atomic list".to_owned(),
            ListShape::Set => "set".to_owned(),
            ListShape::Keyed(keys) => {
                let keys: Vec<_> = keys
                    .iter()
                    .map(|key| match &key.default {
                        Some(default) => format!("{}={default}", key.name),
                        None => key.name.to_string(),
                    })
                    .collect();
                format!("list by {}", keys.join(","))
            }
        });
    }
    if let Some(map) = node.map() {
        forms.push(if map.is_atomic() { "atomic map" } else { "map" }.to_owned());
    }
    forms.join("|")
}

#[test]
fn every_kind_of_node_gets_its_topology() {
    let text = json!({"type": "string"});
    let item = json!({"type": "object", "properties": {
        "key": text, "effect": {"type": "string", "default": "NoSchedule"}}});
    let schema = crd(&json!({"type": "object", "properties": {
        "plain": {"type": "array", "items": text},
        "declared": {"type": "array", "items": text, "x-kubernetes-list-type": "atomic"},
        "set": {"type": "array", "items": text, "x-kubernetes-list-type": "set"},
        "setOfMaps": {"type": "array", "items": item, "x-kubernetes-list-type": "set"},
        "taints": {"type": "array", "items": item, "x-kubernetes-list-type": "map",
            "x-kubernetes-list-map-keys": ["key", "effect"]},
        "selector": {"type": "object", "x-kubernetes-map-type": "atomic", "properties": {"a": text}},
        "labels": {"type": "object", "additionalProperties": text},
        "intOrString": {"x-kubernetes-int-or-string": true},
        "time": {"type": "string", "format": "date-time"},
        "free": {"type": "object"},
        "closed": {"type": "object", "additionalProperties": false},
        "any": {"x-kubernetes-preserve-unknown-fields": true}}}));
    for (path, expected) in [
        ("spec", "map"),
        ("spec.plain", "atomic list"),
        ("spec.declared", "atomic list"),
        ("spec.set", "set"),
        ("spec.setOfMaps", "atomic list"),
        ("spec.taints", "list by effect=\"NoSchedule\",key"),
        ("spec.taints.[].key", "scalar"),
        ("spec.selector", "atomic map"),
        ("spec.labels.x", "scalar"),
        ("spec.intOrString", "scalar|atomic list|map"),
        ("spec.time", "scalar"),
        ("spec.free.x", "scalar|atomic list|map"),
        ("spec.free.x.y.z", "scalar|atomic list|map"),
        ("spec.closed.x", "none"),
        ("spec.any.x", "scalar|atomic list|map"),
        ("spec.any.x.[]", "scalar|atomic list|atomic map"),
        ("spec.unknown", "none"),
        ("status", "none"),
    ] {
        assert_eq!(shape(&schema, path), expected, "{path}");
    }
}

#[test]
fn preserving_unknown_fields_is_inherited_but_declared_fields_keep_their_topology() {
    let schema = crd(&json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true, "properties": {
        "inner": {"type": "object", "properties": {
            "ports": {"type": "array", "x-kubernetes-list-type": "map",
                "x-kubernetes-list-map-keys": ["port"],
                "items": {"type": "object", "properties": {"port": {"type": "integer"}}}}}}}}));
    assert_eq!(shape(&schema, "spec.inner.ports"), "list by port");
    assert_eq!(shape(&schema, "spec.inner.ports.[].other"), "scalar|atomic list|map");
    let old_style = json!({"type": "object", "properties": {"spec": {"type": "object", "properties": {
        "a": {"type": "string"}}}}});
    assert_eq!(shape(&Schema::from_crd(&old_style).unwrap(), "spec.b"), "none");
    assert_eq!(shape(&Schema::from_crd_preserving(&old_style).unwrap(), "spec.b"), "scalar|atomic list|map");
}

#[test]
fn metadata_is_the_built_in_one_whatever_the_crd_says() {
    let embedded = json!({"type": "object", "x-kubernetes-embedded-resource": true,
        "x-kubernetes-preserve-unknown-fields": true});
    let schema = Schema::from_crd(&json!({"type": "object", "properties": {
        "metadata": {"type": "object", "properties": {"name": {"type": "string", "maxLength": 5}}},
        "spec": {"type": "object", "properties": {"template": embedded}}}}))
    .unwrap();
    for prefix in ["", "spec.template."] {
        for (path, expected) in [
            ("kind", "scalar"),
            ("apiVersion", "scalar"),
            ("metadata", "map"),
            ("metadata.labels.x", "scalar"),
            ("metadata.annotations", "map"),
            ("metadata.finalizers", "set"),
            ("metadata.ownerReferences", "list by uid=\"\""),
            ("metadata.ownerReferences.[]", "atomic map"),
            ("metadata.managedFields", "atomic list"),
            ("metadata.creationTimestamp", "scalar"),
            ("metadata.nonsense", "none"),
        ] {
            assert_eq!(shape(&schema, &format!("{prefix}{path}")), expected, "{prefix}{path}");
        }
    }
    assert_eq!(shape(&schema, "spec.template.spec.x"), "scalar|atomic list|map");
}

#[test]
fn without_a_schema_metadata_is_deduced_too() {
    assert_eq!(shape(&Schema::deduced(), "metadata.finalizers"), "scalar|atomic list|map");
}

#[test]
fn built_in_kinds_are_read_through_references() {
    let gvk = json!([{"group": "apps", "version": "v1", "kind": "Deployment"}]);
    let document = json!({"components": {"schemas": {
        "io.k8s.Deployment": {"type": "object", "x-kubernetes-group-version-kind": gvk, "properties": {
            "spec": {"default": {}, "allOf": [{"$ref": "#/components/schemas/io.k8s.Spec"}]}}},
        "io.k8s.Spec": {"type": "object", "properties": {
            "replicas": {"type": "integer"},
            "raw": {"$ref": "#/components/schemas/io.k8s.apimachinery.pkg.runtime.RawExtension"},
            "size": {"$ref": "#/components/schemas/io.k8s.apimachinery.pkg.api.resource.Quantity"},
            "self": {"$ref": "#/components/schemas/io.k8s.Spec"},
            "selector": {"allOf": [{"$ref": "#/components/schemas/io.k8s.Map"}],
                "x-kubernetes-map-type": "atomic"},
            "tolerated": {"type": "array", "items": {"type": "string"},
                "x-kubernetes-patch-strategy": "merge"},
            "containers": {"type": "array", "x-kubernetes-patch-strategy": "merge,retainKeys",
                "x-kubernetes-patch-merge-key": "name",
                "items": {"$ref": "#/components/schemas/io.k8s.Map"}}}},
        "io.k8s.Map": {"type": "object", "properties": {"name": {"type": "string"}}},
        "io.k8s.apimachinery.pkg.runtime.RawExtension": {"type": "object"},
        "io.k8s.apimachinery.pkg.api.resource.Quantity": {"type": "string"}}}});
    let schema = Schema::from_openapi(&document, "apps", "v1", "Deployment").unwrap();
    for (path, expected) in [
        ("spec.replicas", "scalar"),
        ("spec.raw", "scalar|atomic list|atomic map"),
        ("spec.size", "scalar"),
        ("spec.self", "scalar|atomic list|map"),
        ("spec.selector", "atomic map"),
        ("spec.tolerated", "set"),
        ("spec.containers", "list by name"),
        ("spec.containers.[]", "map"),
    ] {
        assert_eq!(shape(&schema, path), expected, "{path}");
    }
    let missing = Schema::from_openapi(&document, "apps", "v1", "StatefulSet").unwrap_err();
    assert_eq!(missing.category(), "schema_missing");
}

#[test]
fn a_schema_that_the_api_server_would_refuse_is_an_error_with_its_place() {
    for (spec, message) in [
        (json!({"type": "array"}), "schema at .spec: an array needs `items`"),
        (json!({"type": "text"}), "schema at .spec: unknown type \"text\""),
        (json!(3), "schema at .spec: a schema is an object"),
        (
            json!({"type": "array", "items": {}, "x-kubernetes-list-type": "map"}),
            "schema at .spec: a list of type map needs x-kubernetes-list-map-keys",
        ),
        (
            json!({"type": "array", "items": {}, "x-kubernetes-list-type": "bag"}),
            "schema at .spec: unknown x-kubernetes-list-type",
        ),
        (
            json!({"type": "object", "x-kubernetes-map-type": "bag"}),
            "schema at .spec: unknown x-kubernetes-map-type",
        ),
    ] {
        let schema = json!({"type": "object", "properties": {"spec": spec}});
        assert_eq!(Schema::from_crd(&schema).unwrap_err().to_string(), message);
    }
}

#[test]
fn a_schema_without_end_is_refused() {
    let mut deep = json!({"type": "string"});
    for _ in 0..MAX_SCHEMA_DEPTH {
        deep = json!({"type": "object", "properties": {"a": deep}});
    }
    assert_eq!(Schema::from_crd(&deep).unwrap_err().category(), "schema_depth");
}

fn lookup(schema: &Schema, steps: &[Step<'_>]) -> (usize, Option<Problem>, Option<usize>, Option<usize>) {
    let found = schema.lookup(steps.iter().copied());
    (found.reached, found.problem, found.atomic_at, found.untyped_at)
}

#[test]
fn a_lookup_says_how_far_the_schema_knows_a_path() {
    let text = json!({"type": "string"});
    let schema = crd(&json!({"type": "object", "properties": {
        "size": text,
        "set": {"type": "array", "items": text, "x-kubernetes-list-type": "set"},
        "plain": {"type": "array", "items": {"type": "object", "properties": {"a": text}}},
        "free": {"type": "object", "x-kubernetes-preserve-unknown-fields": true},
        "taints": {"type": "array", "x-kubernetes-list-type": "map",
            "x-kubernetes-list-map-keys": ["key", "effect"],
            "items": {"type": "object", "properties": {
                "key": text, "effect": {"type": "string", "default": "x"}, "value": text}}}}}));
    let field = Element::field;
    let key = |names: &[&str]| {
        Element::key(names.iter().map(|name| (Arc::from(*name), Scalar::string("x"))).collect())
    };
    let (spec, size, set, plain) = (field("spec"), field("size"), field("set"), field("plain"));
    let (free, taints, value) = (field("free"), field("taints"), field("value"));
    let a = field("a");
    let (full, partial, wrong) = (key(&["effect", "key"]), key(&["effect"]), key(&["name"]));
    let member = Element::value(Scalar::string("x"));
    let e = Step::Element;
    assert_eq!(lookup(&schema, &[e(&spec), e(&size)]), (2, None, None, None));
    assert_eq!(lookup(&schema, &[e(&spec), e(&value)]), (1, Some(Problem::UnknownField), None, None));
    assert_eq!(lookup(&schema, &[e(&spec), e(&size), e(&value)]), (2, Some(Problem::NotAMap), None, None));
    assert_eq!(lookup(&schema, &[e(&spec), e(&member)]), (1, Some(Problem::NotAList), None, None));
    assert_eq!(lookup(&schema, &[e(&spec), e(&set), e(&member)]), (3, None, None, None));
    assert_eq!(lookup(&schema, &[e(&spec), e(&set), e(&full)]), (2, Some(Problem::IsASet), None, None));
    assert_eq!(lookup(&schema, &[e(&spec), e(&free), e(&value)]), (3, None, None, None));
    assert_eq!(lookup(&schema, &[e(&spec), e(&free), e(&value), e(&value)]), (4, None, None, Some(3)));
    assert_eq!(lookup(&schema, &[e(&spec), e(&plain), Step::Any, e(&a)]), (4, None, Some(2), None));
    assert_eq!(lookup(&schema, &[e(&spec), e(&taints), e(&full), e(&value)]), (4, None, None, None));
    assert!(matches!(
        lookup(&schema, &[e(&spec), e(&taints), e(&wrong)]),
        (2, Some(Problem::WrongKeys(_)), None, None)
    ));
    let found = schema.lookup([e(&spec), e(&taints), e(&partial), e(&value)]);
    assert_eq!(found.partial, [(2, vec![Arc::from("key")])]);
    assert!(
        schema.lookup([e(&spec), e(&taints), e(&key(&["key"]))]).partial.is_empty(),
        "effect has a default"
    );
}

#[test]
fn a_default_is_found_at_its_field_and_inside_the_default_of_a_field_above() {
    let schema = crd(&json!({"type": "object", "default": {"mode": "Auto"}, "properties": {
        "size": {"type": "integer", "default": 3},
        "mode": {"type": "string", "default": "Manual"}}}));
    let is = |name: &str, value: &str| {
        let path = Path::from(vec![Element::field("spec"), Element::field(name)]);
        schema.is_default(&path, Raw::parse(value).unwrap()).unwrap()
    };
    assert!(is("size", "3") && is("size", "3.0") && !is("size", "4") && !is("size", "\"3\""));
    assert!(is("mode", "\"Auto\"") && is("mode", "\"Manual\"") && !is("mode", "\"Direct\""));
    assert!(!is("other", "3"));
    assert_eq!(node(&schema, "spec.size").unwrap().default_value().unwrap().text(), "3");
}

#[test]
fn what_stands_for_a_null_member_or_item_is_no_default() {
    let schema = crd(&json!({"type": "object", "properties": {
        "labels": {"type": "object", "additionalProperties": {"type": "string", "default": ""}},
        "args": {"type": "array", "x-kubernetes-list-type": "set", "items": {"type": "string", "default": "x"}},
        "ports": {"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["port"],
            "items": {"type": "object", "default": {}, "properties": {
                "port": {"type": "integer"}, "protocol": {"type": "string", "default": "TCP"}}}}}}));
    let is = |path: &[Element], value: &str| {
        let path: Vec<Element> =
            std::iter::once(Element::field("spec")).chain(path.iter().cloned()).collect();
        schema.is_default(&path, Raw::parse(value).unwrap()).unwrap()
    };
    assert!(!is(&[Element::field("labels"), Element::field("a")], "\"\""));
    assert!(!is(&[Element::field("args"), Element::value(Scalar::string("x"))], "\"x\""));
    let port = Element::key(vec![(Arc::from("port"), Scalar::parse("1").unwrap())]);
    assert!(is(&[Element::field("ports"), port, Element::field("protocol")], "\"TCP\""));
}
