use super::*;
use proptest::prelude::*;
use serde_json::{Value, json};

fn review() -> Value {
    json!({
        "apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview",
        "request": {
            "uid": "705ab4f5-6393-11e8-b7cc-42010a800002",
            "kind": {"group": "compute.fieldkeeper.dev", "version": "v1alpha1", "kind": "NodePool"},
            "resource": {"group": "compute.fieldkeeper.dev", "version": "v1alpha1", "resource": "nodepools"},
            "requestKind": {"group": "compute.fieldkeeper.dev", "version": "v1alpha1", "kind": "NodePool"},
            "name": "general", "operation": "UPDATE",
            "userInfo": {"username": "alice", "groups": ["dev"], "extra": {"k": ["v"]}},
            "object": {"apiVersion": "compute.fieldkeeper.dev/v1alpha1", "kind": "NodePool",
                       "metadata": {"name": "general", "uid": "1", "resourceVersion": "7"}, "spec": {"targetNodes": 5}},
            "oldObject": {"apiVersion": "compute.fieldkeeper.dev/v1alpha1", "kind": "NodePool",
                          "metadata": {"name": "general", "uid": "1", "resourceVersion": "7"}, "spec": {"targetNodes": 3}},
            "dryRun": true,
            "options": {"kind": "UpdateOptions", "apiVersion": "meta.k8s.io/v1", "fieldManager": "kubectl-edit"}
        }
    })
}

fn with(change: impl FnOnce(&mut Value)) -> String {
    let mut review = review();
    change(&mut review);
    review.to_string()
}

fn problem(change: impl FnOnce(&mut Value)) -> Malformed {
    let body = with(change);
    let opened = open(body.as_bytes()).unwrap();
    assert_eq!(opened.uid, "705ab4f5-6393-11e8-b7cc-42010a800002");
    opened.read().and_then(|request| request.check_names()).unwrap_err()
}

#[test]
fn a_review_is_read() {
    let body = review().to_string();
    let opened = open(body.as_bytes()).unwrap();
    let request = opened.read().unwrap();
    assert_eq!(request.resource.resource, "nodepools");
    assert_eq!(request.subresource, "");
    assert_eq!(request.operation, Operation::Update);
    assert_eq!(request.requester.username, "alice");
    assert_eq!(request.requester.groups, ["dev"]);
    assert_eq!(request.requester.extra["k"], ["v"]);
    assert_eq!(request.field_manager.as_deref(), Some("kubectl-edit"));
    assert!(request.dry_run);
    assert!(!request.is_unchanged());
    assert_eq!(request.check_names(), Ok(()));
}

#[test]
fn a_body_cut_anywhere_is_no_review() {
    let body = review().to_string();
    for end in 0..body.len() {
        assert!(matches!(open(&body.as_bytes()[..end]), Err(Unreadable::NotJson { .. })), "{end}");
    }
}

#[test]
fn what_is_not_exactly_one_json_text_is_no_review() {
    let body = review().to_string();
    assert!(matches!(open(format!("{body}x").as_bytes()), Err(Unreadable::NotJson { .. })));
    assert!(matches!(open(format!("{body}{body}").as_bytes()), Err(Unreadable::NotJson { .. })));
    assert!(matches!(open(format!("\u{feff}{body}").as_bytes()), Err(Unreadable::NotJson { .. })));
    assert!(open(format!("{body}\n").as_bytes()).is_ok());
    assert!(matches!(open(b"[]"), Err(Unreadable::NotJson { .. } | Unreadable::Kind(_))));
    assert!(matches!(open(b"null"), Err(Unreadable::NotJson { .. })));
    assert_eq!(
        open(&body.as_bytes().iter().map(|b| if *b == b'g' { 0xff } else { *b }).collect::<Vec<_>>())
            .unwrap_err(),
        Unreadable::NotUtf8
    );
}

#[test]
fn other_kinds_and_versions_are_no_reviews() {
    let error = |change: fn(&mut Value)| open(with(change).as_bytes()).unwrap_err();
    assert_eq!(error(|r| r["kind"] = json!("Pod")), Unreadable::Kind("Pod".into()));
    assert_eq!(
        error(|r| r["apiVersion"] = json!("admission.k8s.io/v2")),
        Unreadable::Version("admission.k8s.io/v2".into())
    );
    assert_eq!(error(|r| r["request"] = Value::Null), Unreadable::NoRequest);
    assert_eq!(error(|r| r["request"]["uid"] = json!("")), Unreadable::NoUid);
    assert_eq!(error(|r| r["request"]["uid"] = json!("u".repeat(129))), Unreadable::NoUid);
    assert!(matches!(error(|r| r["request"]["uid"] = json!(7)), Unreadable::NotJson { .. }));
    assert!(matches!(
        error(|r| {
            r["request"].as_object_mut().unwrap().remove("uid");
        }),
        Unreadable::NoUid
    ));
}

#[test]
fn a_member_that_stands_twice_is_no_review() {
    let body = review().to_string();
    for member in [
        r#""object":null"#,
        r#""userInfo":{}"#,
        r#""uid":"x""#,
        r#""operation":"DELETE""#,
        r#""o\u0062ject":{}"#,
    ] {
        let twice = body.replacen(r#""request":{"#, &format!(r#""request":{{{member},"#), 1);
        assert_ne!(twice, body);
        assert!(matches!(open(twice.as_bytes()), Err(Unreadable::NotJson { .. })), "{member}");
    }
    let twice = body.replacen('{', r#"{"kind":"AdmissionReview","#, 1);
    assert!(matches!(open(twice.as_bytes()), Err(Unreadable::NotJson { .. })));
}

#[test]
fn inner_members_that_stand_twice_are_refused() {
    let body = review().to_string();
    for (from, to) in [
        (r#""userInfo":{"#, r#""userInfo":{"username":"root","#),
        (r#""extra":{"#, r#""extra":{"k":["w"],"#),
        (r#""options":{"#, r#""options":{"fieldManager":"other","#),
        (r#""resource":{"#, r#""resource":{"group":"apps","#),
    ] {
        let twice = body.replacen(from, to, 1);
        assert_ne!(twice, body);
        assert!(matches!(open(twice.as_bytes()).unwrap().read(), Err(Malformed::Member(_))), "{from}");
    }
}

#[test]
fn the_old_format_is_opened_but_not_read() {
    let body = with(|r| r["apiVersion"] = json!("admission.k8s.io/v1beta1"));
    let opened = open(body.as_bytes()).unwrap();
    assert_eq!(opened.version, ReviewVersion::V1Beta1);
    assert_eq!(opened.read().unwrap_err(), Malformed::OldVersion);
}

#[test]
fn operation_and_objects_have_to_go_together() {
    let shape = |operation: &'static str, problem: &'static str| Malformed::Shape { operation, problem };
    let operation = |name: &'static str| move |r: &mut Value| r["request"]["operation"] = json!(name);
    assert_eq!(problem(operation("CREATE")), shape("CREATE", "with oldObject"));
    assert_eq!(problem(operation("DELETE")), shape("DELETE", "with object"));
    assert_eq!(problem(|r| r["request"]["oldObject"] = Value::Null), shape("UPDATE", "without oldObject"));
    assert_eq!(problem(|r| r["request"]["object"] = Value::Null), shape("UPDATE", "without object"));
    assert_eq!(
        problem(|r| {
            r["request"]["object"] = Value::Null;
            r["request"]["oldObject"] = Value::Null;
            operation("DELETE")(r);
        }),
        shape("DELETE", "without oldObject")
    );
    assert_eq!(problem(operation("update")), Malformed::Operation("update".into()));
}

#[test]
fn members_of_the_wrong_type_are_refused_by_name() {
    for member in
        ["kind", "resource", "subResource", "name", "namespace", "operation", "userInfo", "options", "dryRun"]
    {
        assert_eq!(problem(|r| r["request"][member] = json!([1])), Malformed::Member(member), "{member}");
    }
    for member in ["kind", "resource", "userInfo", "options", "object"] {
        assert_eq!(problem(|r| r["request"][member] = json!([])), Malformed::Member(member), "{member}");
    }
    assert_eq!(problem(|r| r["request"]["object"]["metadata"] = json!([])), Malformed::Member("object"));
    assert_eq!(problem(|r| r["request"]["userInfo"] = Value::Null), Malformed::Member("userInfo"));
    assert_eq!(problem(|r| r["request"]["resource"]["resource"] = json!("")), Malformed::Member("resource"));
    assert_eq!(problem(|r| r["request"]["object"] = json!("text")), Malformed::Member("object"));
}

#[test]
fn the_object_is_the_one_that_the_request_names() {
    assert_eq!(problem(|r| r["request"]["object"]["kind"] = json!("Pod")), Malformed::Mismatch("kind"));
    assert_eq!(problem(|r| r["request"]["object"]["apiVersion"] = json!("v1")), Malformed::Mismatch("kind"));
    assert_eq!(
        problem(|r| r["request"]["object"]["metadata"]["name"] = json!("other")),
        Malformed::Mismatch("name")
    );
    assert_eq!(
        problem(|r| {
            r["request"]["namespace"] = json!("a");
            r["request"]["object"]["metadata"]["namespace"] = json!("b");
        }),
        Malformed::Mismatch("namespace")
    );
}

#[test]
fn unknown_members_are_skipped_however_deep() {
    let deep = format!("{}{}", "[".repeat(100_000), "]".repeat(100_000));
    let body = review().to_string().replacen(r#""request":{"#, &format!(r#""request":{{"later":{deep},"#), 1);
    assert!(open(body.as_bytes()).unwrap().read().is_ok());
}

#[test]
fn deep_objects_are_raw_and_cost_no_stack() {
    let deep = format!("{}{}", "[".repeat(1_000_000), "]".repeat(1_000_000));
    let body = review().to_string().replacen(r#""spec":{"#, &format!(r#""spec":{{"deep":{deep},"#), 1);
    let opened = open(body.as_bytes()).unwrap();
    assert_eq!(opened.read().unwrap().check_names(), Ok(()));
}

proptest! {
    /// Whatever is done to the bytes of a review: an error, or a request with a uid.
    #[test]
    fn spoilt_reviews_never_panic(changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..6)) {
        let mut body = review().to_string().into_bytes();
        for (place, byte) in changes {
            let place = place.index(body.len());
            body[place] = byte;
        }
        if let Ok(opened) = open(&body) {
            prop_assert!(!opened.uid.is_empty());
            let _ = opened.read().and_then(|request| request.check_names());
        }
    }

    #[test]
    fn any_text_is_an_error(text in ".{0,200}") {
        prop_assert!(open(text.as_bytes()).is_err());
    }
}
