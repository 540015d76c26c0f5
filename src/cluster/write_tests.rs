//! Against a server that answers as told: what is sent, and how answers are read.

use std::sync::{Arc, Mutex};

use http::{Request, Response};
use http_body_util::BodyExt as _;
use kube::client::Body;
use tower::service_fn;

use super::*;

struct Seen {
    path: String,
    query: String,
    body: Value,
}

/// A writer whose server answers every request with `code` and `answer`, and the requests it saw.
fn writer(code: u16, answer: &Value) -> (Writer, Arc<Mutex<Vec<Seen>>>) {
    let seen = Arc::new(Mutex::new(Vec::new()));
    let log = seen.clone();
    let answer = answer.to_string();
    let service = service_fn(move |request: Request<Body>| {
        let (log, answer) = (log.clone(), answer.clone());
        async move {
            let (parts, body) = request.into_parts();
            let bytes = body.collect().await.unwrap().to_bytes();
            log.lock().unwrap().push(Seen {
                path: parts.uri.path().to_owned(),
                query: parts.uri.query().unwrap_or_default().to_owned(),
                body: serde_json::from_slice(&bytes).unwrap(),
            });
            let response = Response::builder().status(code).body(Body::from(answer.into_bytes()));
            Ok::<_, std::convert::Infallible>(response.unwrap())
        }
    });
    (Writer::new(Client::new(service, "default")), seen)
}

fn policy() -> Existing {
    Existing {
        resource: ApiResource {
            group: "fieldkeeper.dev".into(),
            version: "v1alpha1".into(),
            api_version: "fieldkeeper.dev/v1alpha1".into(),
            kind: "FieldPolicy".into(),
            plural: "fieldpolicies".into(),
        },
        namespace: String::new(),
        name: "nodepools".into(),
        uid: "u-1".into(),
    }
}

fn failure(code: u16, reason: &str, message: &str, details: &Value) -> Value {
    json!({"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": code,
           "reason": reason, "message": message, "details": details})
}

async fn error_of(code: u16, answer: &Value) -> WriteError {
    let (writer, _) = writer(code, answer);
    writer.apply(Manager::PolicyControllerRules, &policy(), Map::new()).await.unwrap_err()
}

#[tokio::test]
async fn an_apply_names_its_manager_is_strict_and_carries_the_uid() {
    let (writer, seen) = writer(200, &json!({"metadata": {"name": "nodepools"}}));
    let fields = json!({"webhooks": [], "metadata": {"uid": "forged", "labels": {"a": "b"}}});
    let fields = fields.as_object().unwrap().clone();
    writer.apply(Manager::PolicyControllerRules, &policy(), fields).await.unwrap();
    let seen = seen.lock().unwrap();
    assert_eq!(seen[0].path, "/apis/fieldkeeper.dev/v1alpha1/fieldpolicies/nodepools");
    assert!(seen[0].query.contains("fieldManager=policy-controller-rules"), "{}", seen[0].query);
    assert!(seen[0].query.contains("fieldValidation=Strict"), "{}", seen[0].query);
    assert!(!seen[0].query.contains("force"), "{}", seen[0].query);
    assert_eq!(
        seen[0].body,
        json!({"apiVersion": "fieldkeeper.dev/v1alpha1", "kind": "FieldPolicy", "webhooks": [],
               "metadata": {"name": "nodepools", "uid": "u-1", "labels": {"a": "b"}}})
    );
}

#[tokio::test]
async fn status_goes_through_its_subresource_and_is_forced_as_declared() {
    let (writer, seen) = writer(200, &json!({"metadata": {"name": "nodepools"}}));
    writer.apply_status(Manager::PolicyControllerStatus, &policy(), json!({"a": 1})).await.unwrap();
    let seen = seen.lock().unwrap();
    assert_eq!(seen[0].path, "/apis/fieldkeeper.dev/v1alpha1/fieldpolicies/nodepools/status");
    assert!(seen[0].query.contains("force=true"), "{}", seen[0].query);
    assert_eq!(seen[0].body["status"], json!({"a": 1}));
}

#[tokio::test]
async fn a_conflict_over_fields_says_which_and_whose() {
    let causes = json!({"causes": [{
        "reason": "FieldManagerConflict", "field": ".webhooks[name=\"enforce\"].rules",
        "message": "conflict with \"helm\" using admissionregistration.k8s.io/v1",
    }]});
    let error = error_of(409, &failure(409, "Conflict", "Apply failed with 1 conflict", &causes)).await;
    let WriteError::OwnershipConflict { causes, .. } = &error else { panic!("{error:?}") };
    assert_eq!(causes[0].manager(), Some("helm"));
    assert_eq!(causes[0].field, ".webhooks[name=\"enforce\"].rules");
    assert!(!error.is_transient());
    assert!(error.to_string().starts_with("FieldPolicy nodepools: "), "{error}");
}

#[tokio::test]
async fn a_conflict_of_versions_asks_for_a_new_read() {
    let message = "Operation cannot be fulfilled: the object has been modified";
    let error = error_of(409, &failure(409, "Conflict", message, &json!({}))).await;
    assert!(matches!(error, WriteError::VersionConflict { .. }), "{error:?}");
    assert!(error.is_transient());
}

#[tokio::test]
async fn an_object_that_was_replaced_is_gone() {
    let message = "uid mismatch: the provided object specified uid u-1, and no existing object was found";
    let error = error_of(409, &failure(409, "Conflict", message, &json!({}))).await;
    assert!(matches!(error, WriteError::Gone { .. }), "{error:?}");
    let causes =
        json!({"causes": [{"reason": "FieldValueInvalid", "field": "metadata.uid", "message": "immutable"}]});
    let error = error_of(422, &failure(422, "Invalid", "field is immutable", &causes)).await;
    assert!(matches!(error, WriteError::Gone { .. }), "{error:?}");
}

#[tokio::test]
async fn a_field_that_the_server_does_not_know_will_not_be_known_later() {
    let message = "failed to create typed patch object: .spec.rulez: field not declared in schema";
    let error = error_of(500, &failure(500, "", message, &json!({}))).await;
    assert!(matches!(error, WriteError::Permanent { .. }), "{error:?}");
    let error = error_of(500, &failure(500, "InternalError", "failed calling webhook", &json!({}))).await;
    assert!(matches!(error, WriteError::Transient { .. }), "{error:?}");
}

#[tokio::test]
async fn overload_is_transient_and_says_how_long_to_wait() {
    let details = json!({"retryAfterSeconds": 7});
    let error = error_of(429, &failure(429, "TooManyRequests", "busy", &details)).await;
    let WriteError::Transient { retry_after, .. } = error else { panic!("{error:?}") };
    assert_eq!(retry_after, Some(Duration::from_secs(7)));
}

#[tokio::test]
async fn what_is_refused_or_invalid_is_permanent() {
    for (code, reason) in [(403, "Forbidden"), (422, "Invalid"), (400, "BadRequest")] {
        let error = error_of(code, &failure(code, reason, "no", &json!({}))).await;
        assert!(matches!(error, WriteError::Permanent { code: got, .. } if got == code), "{error:?}");
        assert_eq!(error.category(), "permanent");
    }
}

#[tokio::test]
async fn a_server_that_never_answers_does_not_hold_the_writer() {
    let service = service_fn(|_: Request<Body>| async {
        std::future::pending::<()>().await;
        Ok::<_, std::convert::Infallible>(Response::new(Body::empty()))
    });
    let client = Client::new(service, "default");
    let writer = Writer { client, timeout: Duration::from_millis(20) };
    let error = writer.apply(Manager::PolicyControllerRules, &policy(), Map::new()).await.unwrap_err();
    assert!(matches!(error, WriteError::Transient { .. }), "{error:?}");
}
