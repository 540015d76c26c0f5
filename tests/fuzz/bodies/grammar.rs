//! A whole case by grammar: policies that mostly compile, and a review that mostly makes sense.
//!
//! In: bytes as choices. Out: the text of a case as `decide` reads it, so that what is found can be kept
//! and read.

use super::dice::Dice;
use super::kinds::{KINDS, Kind, METADATA};
use super::objects::{Json, blended, set, text, tracked, tracked_after, value};

const SUBJECTS: [&str; 7] = [
    r#"{"kind":"User","name":"ann"}"#,
    r#"{"kind":"User","name":"bob"}"#,
    r#"{"kind":"Group","name":"team"}"#,
    r#"{"kind":"ServiceAccount","namespace":"ponds","name":"ctrl-a"}"#,
    r#"{"kind":"ServiceAccount","namespaceFrom":"Object","name":"ctrl-a"}"#,
    r#"{"kind":"User","name":"bob","uid":"7","extra":{"node":"n-1"}}"#,
    r#"{"kind":"User","name":""}"#,
];

const USERS: [&str; 7] = [
    r#"{"username":"carol"}"#,
    r#"{"username":"ann"}"#,
    r#"{"username":"bob","uid":"7","groups":["team"],"extra":{"node":["n-1"]}}"#,
    r#"{"username":"carol","groups":["team","fieldkeeper.dev:bypass"]}"#,
    r#"{"username":"system:serviceaccount:ponds:ctrl-a"}"#,
    r#"{"username":"system:serviceaccount:kube-system:generic-garbage-collector"}"#,
    r#"{"username":"system:serviceaccount:kube-system:namespace-controller"}"#,
];

const MODES: [&str; 4] = ["\"Enforce\"", "\"Enforce\"", "\"Warn\"", "\"Audit\""];
const MANAGERS: [&str; 4] = ["\"ann\"", "\"autoscaler\"", "\"ctrl-a\"", "\"kubectl-edit\""];

/// The text of a case.
pub fn case(data: &[u8]) -> String {
    let dice = &mut Dice::new(data);
    let kind = if dice.chance(40) { &KINDS[dice.below(KINDS.len())] } else { &KINDS[0] };
    let policies: Vec<Json> = (0..=dice.below(3)).map(|_| policy(dice, kind)).collect();
    let mut case = vec![("policies".to_owned(), Json::List(policies))];
    let (review, parent) = review(dice, kind);
    case.push(("review".to_owned(), review));
    case.extend(parent.map(|parent| ("parent".to_owned(), parent)));
    Json::Object(case).render()
}

fn object<const N: usize>(members: [(&str, Json); N]) -> Json {
    Json::Object(members.map(|(name, value)| (name.to_owned(), value)).into())
}

fn quoted(value: &str) -> Json {
    Json::Text(serde_json::Value::from(value).to_string())
}

fn subjects(dice: &mut Dice<'_>, most: usize) -> Json {
    Json::List((0..dice.below(most + 1)).map(|_| text(dice.pick(&SUBJECTS))).collect())
}

fn policy(dice: &mut Dice<'_>, kind: &Kind) -> Json {
    let mut base: Vec<Json> = kind
        .read
        .iter()
        .map(|path| object([("path", quoted(path)), ("mode", text("\"Enforce\""))]))
        .collect();
    if dice.chance(20) {
        base.push(object([("path", text("\".metadata.labels\"")), ("mode", text("\"Enforce\""))]));
    }
    let selects = base.len() > kind.read.len() && dice.chance(80);
    let mut owners = vec![object([
        ("name", text("\"base\"")),
        ("subjects", subjects(dice, 2)),
        ("fields", Json::List(base)),
    ])];
    for index in 0..dice.below(4) {
        let fields = (0..=dice.below(4)).map(|_| claim(dice, kind)).collect();
        let mut owner = object([
            ("name", quoted(&format!("owner-{index}"))),
            ("subjects", subjects(dice, 2)),
            ("fields", Json::List(fields)),
        ]);
        if dice.chance(35) {
            let usage = dice.pick(&["\"Expect\"", "\"Reserve\"", "\"Require\""]);
            let manager = object([("name", text(dice.pick(&MANAGERS))), ("use", text(usage))]);
            set(&mut owner, "fieldManagers", Json::List(vec![manager]));
        }
        if dice.chance(15) {
            set(&mut owner, "formerFieldManagers", Json::List(vec![text(dice.pick(&MANAGERS))]));
        }
        if dice.chance(20) {
            set(&mut owner, "mode", text(dice.pick(&MODES)));
        }
        owners.push(owner);
    }
    let target = object([
        ("group", quoted(kind.group)),
        ("version", quoted(kind.version)),
        ("resource", quoted(kind.resource)),
    ]);
    let integrity = object([
        ("mode", text(dice.pick(&MODES))),
        ("coOwnership", text(dice.pick(&MODES))),
        ("editors", if dice.chance(10) { subjects(dice, 2) } else { Json::List(Vec::new()) }),
    ]);
    let creation = object([
        ("policy", text(dice.pick(&["\"Owners\"", "\"Owners\"", "\"Anyone\""]))),
        ("except", if dice.chance(10) { subjects(dice, 2) } else { Json::List(Vec::new()) }),
    ]);
    let mut spec = object([
        ("target", target),
        ("mode", text(dice.pick(&MODES))),
        ("owners", Json::List(owners)),
        ("unlisted", text(dice.pick(&["\"Allow\"", "\"Allow\"", "\"Deny\"", "\"Warn\""]))),
        ("creation", creation),
        ("integrity", integrity),
    ]);
    if selects {
        set(
            &mut spec,
            "match",
            text(dice.pick(&[
                r#"{"objectSelector":{"matchLabels":{"team":"a"}}}"#,
                r#"{"objectSelector":{"matchExpressions":[{"key":"x","operator":"DoesNotExist"}]}}"#,
                r#"{"namespaceSelector":{"matchLabels":{"team":"a"}}}"#,
            ])),
        );
    }
    if dice.chance(25) {
        set(&mut spec, "deletion", object([("subjects", subjects(dice, 2))]));
    }
    if dice.chance(15) {
        set(&mut spec, "breakGlass", object([("subjects", subjects(dice, 2))]));
    }
    if dice.chance(5) {
        // The time of reviews is a quarter of an hour before the first of these.
        let times = ["\"2027-01-15T08:15:00Z\"", "\"2027-01-17T08:00:00Z\"", "\"1970-01-01T00:00:00Z\""];
        set(&mut spec, "pausedUntil", text(dice.pick(&times)));
    }
    spec
}

fn claim(dice: &mut Dice<'_>, kind: &Kind) -> Json {
    let mut claim = object([("path", quoted(dice.pick(kind.paths)))]);
    if dice.chance(30) {
        set(&mut claim, "when", quoted(dice.pick(kind.conditions)));
    }
    if dice.chance(25) {
        set(&mut claim, "mode", text(dice.pick(&MODES)));
    }
    if dice.chance(15) {
        set(&mut claim, "compare", text(dice.pick(&["\"Quantity\"", "\"Duration\"", "\"EmptyIsAbsent\""])));
    }
    if dice.chance(10) {
        set(&mut claim, "sensitive", text("true"));
    }
    if dice.chance(10) {
        let mut mutator = object([("name", text("\"m\""))]);
        if dice.chance(60) {
            let condition =
                dice.pick(&["object.metadata.name == 'general'", "object.spec.size == oldObject.spec.size"]);
            set(&mut mutator, "when", quoted(condition));
        }
        set(&mut claim, "mutators", Json::List(vec![mutator]));
    }
    if dice.chance(10) {
        set(&mut claim, "instead", text("\"ask ann\""));
    }
    claim
}

/// The review, and for `/scale` the object behind it.
fn review(dice: &mut Dice<'_>, kind: &Kind) -> (Json, Option<Json>) {
    let subresource = dice.pick(kind.subresources);
    let operation = match subresource {
        "eviction" => "CREATE",
        _ => dice.pick(&["UPDATE", "UPDATE", "UPDATE", "UPDATE", "CREATE", "DELETE", "CONNECT"]),
    };
    let api_version = match kind.group {
        "" => kind.version.to_owned(),
        group => format!("{group}/{}", kind.version),
    };
    let (old, new) = states(dice, kind, &api_version);
    let (old, new, parent) = match subresource {
        "scale" => {
            let parent = dice.chance(85).then_some(old);
            (scale(dice), scale(dice), parent)
        }
        _ => (old, new, None),
    };
    let version = if dice.chance(2) { "v2" } else { kind.version };
    let mut request = object([
        ("uid", text("\"705ab4f5-6393-11e8-b7cc-42010a800002\"")),
        (
            "kind",
            object([
                ("group", quoted(kind.group)),
                ("version", quoted(version)),
                ("kind", quoted(kind.name)),
            ]),
        ),
        (
            "resource",
            object([
                ("group", quoted(kind.group)),
                ("version", quoted(version)),
                ("resource", quoted(kind.resource)),
            ]),
        ),
        ("subResource", quoted(subresource)),
        ("name", text("\"general\"")),
        ("namespace", quoted(kind.namespace)),
        ("operation", quoted(operation)),
        ("userInfo", text(dice.pick(&USERS))),
    ]);
    if subresource == "scale" {
        set(&mut request, "kind", text(r#"{"group":"autoscaling","version":"v1","kind":"Scale"}"#));
    }
    if matches!(operation, "CREATE" | "UPDATE") {
        set(&mut request, "object", new);
    }
    if matches!(operation, "DELETE" | "UPDATE") {
        set(&mut request, "oldObject", old);
    }
    if dice.chance(40) {
        let manager = dice.pick(&MANAGERS);
        set(&mut request, "options", object([("fieldManager", text(manager))]));
    }
    let review = object([
        ("apiVersion", text("\"admission.k8s.io/v1\"")),
        ("kind", text("\"AdmissionReview\"")),
        ("request", request),
    ]);
    (review, parent)
}

/// The stored object and the new one.
fn states(dice: &mut Dice<'_>, kind: &Kind, api_version: &str) -> (Json, Json) {
    let mut old = value(dice, &kind.shape);
    let mut metadata = value(dice, &METADATA);
    let other = value(dice, &kind.shape);
    let other_metadata = value(dice, &METADATA);
    let mut new = blended(dice, &old, &other);
    let mut new_metadata =
        if dice.chance(30) { blended(dice, &metadata, &other_metadata) } else { metadata.clone() };
    let holds = |body: &Json, metadata: &Json| {
        let mut whole = body.clone();
        set(&mut whole, "metadata", metadata.clone());
        whole
    };
    let before = tracked(dice, &holds(&old, &metadata), api_version);
    let after = tracked_after(dice, &before, &holds(&new, &new_metadata), api_version);
    for (object, metadata, entries) in
        [(&mut old, &mut metadata, before), (&mut new, &mut new_metadata, after)]
    {
        set(metadata, "name", text("\"general\""));
        set(metadata, "namespace", quoted(kind.namespace));
        set(metadata, "uid", text("\"u-1\""));
        set(metadata, "resourceVersion", text("\"10\""));
        if !entries.is_empty() || dice.chance(10) {
            set(metadata, "managedFields", Json::List(entries));
        }
        set(object, "metadata", metadata.clone());
        set(object, "apiVersion", quoted(api_version));
        set(object, "kind", quoted(kind.name));
    }
    (old, new)
}

fn scale(dice: &mut Dice<'_>) -> Json {
    let counts =
        ["{}", r#"{"replicas":0}"#, r#"{"replicas":1}"#, r#"{"replicas":2}"#, r#"{"replicas":"2"}"#, "null"];
    object([
        ("apiVersion", text("\"autoscaling/v1\"")),
        ("kind", text("\"Scale\"")),
        ("metadata", text(r#"{"name":"general","uid":"u-1","resourceVersion":"10"}"#)),
        ("spec", text(dice.pick(&counts))),
    ])
}
