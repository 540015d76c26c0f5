//! Makes the inputs that fuzzing begins with, from test data and samples of the repository.
//!
//! `cargo run --example seeds` writes `seeds/TARGET/`; `cargo run --example seeds -- show FILE` prints
//! the case that an input of `decide` stands for, to be kept and read.

#[path = "bodies/mod.rs"]
#[allow(dead_code, reason = "only the grammar of cases is needed")]
mod bodies;

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

/// Inputs of `decide` that are choices and no text, and their length.
const CHOICES: u64 = 12;
const CHOICES_LENGTH: usize = 600;

const CONDITIONS: [&str; 9] = [
    "oldObject.spec.handOff == 'Direct'",
    "oldObject.spec.handOff in ['ScaleRequest', 'Requested']",
    "has(oldObject.metadata.labels['a.b/c']) && !(oldObject.spec.n >= 1.5e3 || oldObject.spec.?m != null)",
    "oldObject.spec.n > -9223372036854775808 && oldObject.spec.n < 0x1Fu",
    "object.spec.size == oldObject.spec.size",
    "oldObject.spec.list == [1, 2.0, 'a\\u0041\\x41\\101', true, null, [r'\\']]",
    "'x' in oldObject.spec.list || \"k\" in oldObject.spec",
    "((((oldObject.spec.a))))",
    "!!!oldObject.spec.a",
];

const PATHS: [&str; 9] = [
    ".spec.taints[effect=\"NoSchedule\",key=\"a\"].value",
    ".metadata.labels[\"a.b/c\"]",
    ".spec.zones[=\"a\"]",
    ".spec[*][\"*\"]",
    ".spec.ports[ port = 80 , protocol = \"TCP\" ]",
    ".a[=1.0][=true][=null][=-1e3]",
    "[\"\\u00e9\\n\\\"\"]",
    ".spec.",
    ".spec[0]",
];

fn repository(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(path)
}

fn write(target: &str, name: &str, input: &[u8]) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("seeds").join(target);
    fs::create_dir_all(&folder).expect("a folder for seeds");
    fs::write(folder.join(name), input).expect("a seed is written");
}

fn number<T: AsRef<[u8]>>(target: &str, inputs: impl IntoIterator<Item = T>) {
    for (index, input) in inputs.into_iter().enumerate() {
        write(target, &format!("{index:02}"), input.as_ref());
    }
}

/// The specs of a policy file.
fn spec(path: &str) -> Value {
    let text = fs::read_to_string(repository(path)).expect("a policy");
    let policy: Value = serde_saphyr::from_str(&text).expect("YAML");
    policy["spec"].clone()
}

/// The claims of a policy, one by one.
fn claims(spec: &Value) -> Vec<Value> {
    let owners = spec["owners"].as_array().into_iter().flatten();
    owners.flat_map(|owner| owner["fields"].as_array().cloned().unwrap_or_default()).collect()
}

fn texts<'a>(claims: &'a [Value], name: &'a str) -> impl Iterator<Item = String> + 'a {
    claims.iter().filter_map(move |claim| claim[name].as_str().map(str::to_owned))
}

fn fieldsv1() {
    let folder = fs::read_dir(repository("tests/data/differential")).expect("kept cases");
    let mut paths: Vec<PathBuf> = folder.map(|entry| entry.expect("an entry").path()).collect();
    paths.sort();
    let cases = paths.iter().map(|path| {
        let text = fs::read_to_string(path).expect("a case");
        serde_json::from_str::<Value>(&text).expect("a case is JSON")
    });
    let fields: Vec<String> = cases.filter_map(|case| case["fieldsV1"].as_str().map(str::to_owned)).collect();
    number(
        "fieldsv1",
        fields.iter().enumerate().map(|(index, text)| {
            let text = text.replace('\n', " ");
            let other = &fields[(index + 1) % fields.len()];
            format!("{text}\n{other}")
        }),
    );
}

/// A stored pool and reviews of it.
fn pool() -> Value {
    json!({
        "apiVersion": "compute.fieldkeeper.dev/v1alpha1", "kind": "NodePool",
        "metadata": {"name": "general", "uid": "u-1", "resourceVersion": "10", "managedFields": [{
            "apiVersion": "compute.fieldkeeper.dev/v1alpha1", "fieldsType": "FieldsV1", "manager": "autoscaler",
            "operation": "Apply", "time": "2026-01-01T00:00:00Z", "fieldsV1": {"f:spec": {"f:targetNodes": {}}},
        }]},
        "spec": {"handOff": "Direct", "minNodes": 1, "targetNodes": 5},
    })
}

fn review(operation: &str, subresource: &str, old: Option<&Value>, new: Option<&Value>) -> Value {
    let kind =
        |name: &str, of: &str| json!({"group": "compute.fieldkeeper.dev", "version": "v1alpha1", name: of});
    json!({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": {
        "uid": "705ab4f5-6393-11e8-b7cc-42010a800002", "kind": kind("kind", "NodePool"),
        "resource": kind("resource", "nodepools"), "subResource": subresource, "name": "general", "namespace": "",
        "operation": operation, "userInfo": {"username": "alice", "groups": ["system:authenticated"], "extra": {"a": ["b"]}},
        "object": new, "oldObject": old, "dryRun": false, "options": {"fieldManager": "kubectl"},
    }})
}

fn reviews() -> Vec<Value> {
    let old = pool();
    let mut new = old.clone();
    new["spec"]["targetNodes"] = json!(6);
    new["metadata"]["labels"] = json!({"team": "red"});
    let mut moved = old.clone();
    moved["metadata"]["managedFields"] = json!([]);
    let scale = |count: u64| {
        json!({"apiVersion": "autoscaling/v1", "kind": "Scale", "spec": {"replicas": count},
        "metadata": {"name": "general", "uid": "u-1", "resourceVersion": "10"}})
    };
    vec![
        review("UPDATE", "", Some(&old), Some(&new)),
        review("UPDATE", "", Some(&old), Some(&moved)),
        review("UPDATE", "", Some(&old), Some(&old)),
        review("UPDATE", "status", Some(&old), Some(&new)),
        review("UPDATE", "scale", Some(&scale(5)), Some(&scale(6))),
        review("CREATE", "", None, Some(&new)),
        review("DELETE", "", Some(&old), None),
        review("CONNECT", "", None, None),
    ]
}

fn main() {
    let mut arguments = std::env::args().skip(1);
    if let (Some("show"), Some(file)) = (arguments.next().as_deref(), arguments.next()) {
        let input = fs::read(file).expect("an input");
        println!("{}", bodies::decide::case(&input).unwrap_or_default());
        return;
    }
    let specs = [spec("deploy/samples/nodepools-policy.yaml"), spec("tests/data/arena-policy.yaml")];
    let claims: Vec<Value> = specs.iter().flat_map(claims).collect();
    fieldsv1();
    number("path", texts(&claims, "path").chain(PATHS.map(str::to_owned)));
    let object = json!({"spec": {"handOff": "Direct", "n": 3, "list": [1, "x"], "a": true}, "metadata": {"labels": {}}});
    let conditions = texts(&claims, "when").chain(CONDITIONS.map(str::to_owned));
    number("when", conditions.map(|text| format!("{text}\0{object}")));
    let reviews = reviews();
    let mut bodies: Vec<String> = reviews.iter().map(Value::to_string).collect();
    bodies.push(bodies[0].replace("admission.k8s.io/v1", "admission.k8s.io/v1beta1"));
    bodies.push(bodies[0].replace("\"uid\":\"705", "\"\\u0075id\":\"\\u0037\\n05"));
    let mut policy = review("CREATE", "", None, Some(&json!({"metadata": {"name": "p"}, "spec": specs[0]})));
    for part in ["kind", "resource"] {
        policy["request"][part] = json!({"group": "fieldkeeper.dev", "version": "v1alpha1", "kind": "FieldPolicy", "resource": "fieldpolicies"});
    }
    bodies.push(policy.to_string());
    number("envelope", bodies);
    let cases = reviews
        .iter()
        .map(|review| json!({"policies": [specs[0]], "review": review, "parent": pool()}).to_string());
    number("decide", cases);
    for seed in 1..=CHOICES {
        // A linear congruence: the bytes only have to be many and the same every time.
        let mut state = seed;
        let choices: Vec<u8> = std::iter::repeat_with(|| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            state.to_be_bytes()[0]
        })
        .take(CHOICES_LENGTH)
        .collect();
        write("decide", &format!("choices-{seed:02}"), &choices);
    }
}
