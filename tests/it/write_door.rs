//! The one door for writes against a real API server: what each answer is taken for.

use fieldkeeper::cluster::write::{Existing, WriteError, Writer};
use fieldkeeper::managers::Manager;
use k8s_openapi::api::admissionregistration::v1::ValidatingWebhookConfiguration;
use kube::api::{ApiResource, DeleteParams, Patch, PatchParams};
use kube::{Api, Client};
use serde_json::{Map, Value, json};

use crate::harness::ControlPlane;

/// A manager that never forces.
const MANAGER: Manager = Manager::PolicyControllerRules;

async fn client() -> Client {
    ControlPlane::shared().await.unwrap().admin().await.unwrap()
}

/// Makes a configuration with one entry, as an installer does.
async fn install(client: &Client, name: &str) -> Existing {
    let api: Api<ValidatingWebhookConfiguration> = Api::all(client.clone());
    let object = json!({
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "ValidatingWebhookConfiguration",
        "metadata": {"name": name},
        "webhooks": [{
            "name": "a.door.test", "sideEffects": "None", "admissionReviewVersions": ["v1"],
            "clientConfig": {"url": "https://localhost:1/"}, "failurePolicy": "Ignore",
        }],
    });
    let written = api.patch(name, &PatchParams::apply("installer"), &Patch::Apply(&object)).await.unwrap();
    Existing {
        resource: ApiResource::erase::<ValidatingWebhookConfiguration>(&()),
        namespace: String::new(),
        name: name.to_owned(),
        uid: written.metadata.uid.unwrap(),
    }
}

async fn remove(client: &Client, name: &str) {
    let api: Api<ValidatingWebhookConfiguration> = Api::all(client.clone());
    api.delete(name, &DeleteParams::default()).await.unwrap();
}

fn fields(webhook: &Value) -> Map<String, Value> {
    let mut webhook = webhook.clone();
    webhook["name"] = "a.door.test".into();
    json!({"webhooks": [webhook]}).as_object().unwrap().clone()
}

fn rules() -> Value {
    json!({"rules": [{"apiGroups": ["door.test"], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["doors"]}]})
}

#[tokio::test]
async fn an_apply_writes_its_own_fields_under_its_own_name() {
    let client = client().await;
    let object = install(&client, "door-apply").await;
    let written = Writer::new(client.clone()).apply(MANAGER, &object, fields(&rules())).await.unwrap();
    let managers: Vec<_> =
        written.metadata.managed_fields.unwrap().into_iter().filter_map(|entry| entry.manager).collect();
    assert_eq!(managers, ["installer", MANAGER.name()]);
    assert_eq!(written.data["webhooks"][0]["clientConfig"]["url"], "https://localhost:1/");
    remove(&client, &object.name).await;
}

#[tokio::test]
async fn what_was_deleted_is_not_brought_back() {
    let client = client().await;
    let object = install(&client, "door-gone").await;
    remove(&client, &object.name).await;
    let error = Writer::new(client.clone()).apply(MANAGER, &object, Map::new()).await.unwrap_err();
    assert!(matches!(error, WriteError::Gone { .. }), "{error:?}");
    let api: Api<ValidatingWebhookConfiguration> = Api::all(client);
    assert!(api.get_opt(&object.name).await.unwrap().is_none());
}

#[tokio::test]
async fn another_object_of_the_same_name_is_not_written() {
    let client = client().await;
    let old = install(&client, "door-replaced").await;
    remove(&client, &old.name).await;
    let new = install(&client, "door-replaced").await;
    let error = Writer::new(client.clone()).apply(MANAGER, &old, fields(&rules())).await.unwrap_err();
    assert!(matches!(error, WriteError::Gone { .. }), "{error:?}");
    remove(&client, &new.name).await;
}

#[tokio::test]
async fn a_field_of_another_manager_is_named_with_its_holder() {
    let client = client().await;
    let object = install(&client, "door-conflict").await;
    let theirs = fields(&json!({"failurePolicy": "Fail"}));
    let error = Writer::new(client.clone()).apply(MANAGER, &object, theirs).await.unwrap_err();
    let WriteError::OwnershipConflict { causes, .. } = &error else { panic!("{error:?}") };
    assert_eq!(causes[0].manager(), Some("installer"));
    assert_eq!(causes[0].field, r#".webhooks[name="a.door.test"].failurePolicy"#);
    remove(&client, &object.name).await;
}

#[tokio::test]
async fn a_misspelt_field_is_refused_and_not_dropped() {
    let client = client().await;
    let object = install(&client, "door-strict").await;
    let misspelt = fields(&json!({"rulez": []}));
    let error = Writer::new(client.clone()).apply(MANAGER, &object, misspelt).await.unwrap_err();
    assert!(matches!(error, WriteError::Permanent { .. }), "{error:?}");
    assert!(error.to_string().contains("rulez"), "{error}");
    remove(&client, &object.name).await;
}
