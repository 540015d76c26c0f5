//! A conversion webhook: version v2 of a kind calls `.spec.size` of v1 `.spec.width`.

use serde_json::{Value, json};

use crate::harness::ControlPlane;

/// Starts one that serves as long as the calling test runs, and returns `spec.conversion` of a CRD that asks it.
pub async fn converter(plane: &ControlPlane, name: &str) -> Value {
    let served = plane.serve_webhook(name, |request| std::future::ready(answer(request.body())));
    let (endpoint, _) = served.await.unwrap();
    json!({"strategy": "Webhook", "webhook": {
        "conversionReviewVersions": ["v1"], "clientConfig": endpoint.client_config("/convert"),
    }})
}

fn answer(body: &[u8]) -> Value {
    let review: Value = serde_json::from_slice(body).unwrap();
    let wanted = review["request"]["desiredAPIVersion"].as_str().unwrap();
    let objects = review["request"]["objects"].as_array().unwrap();
    let converted: Vec<Value> = objects.iter().map(|object| convert(object.clone(), wanted)).collect();
    json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "ConversionReview", "response": {
        "uid": review["request"]["uid"], "result": {"status": "Success"}, "convertedObjects": converted,
    }})
}

fn convert(mut object: Value, wanted: &str) -> Value {
    let (from, to) = if wanted.ends_with("/v2") { ("size", "width") } else { ("width", "size") };
    object["apiVersion"] = json!(wanted);
    if let Some(spec) = object.get_mut("spec").and_then(Value::as_object_mut)
        && let Some(value) = spec.remove(from)
    {
        spec.insert(to.to_owned(), value);
    }
    object
}

/// Renames the field in the schema of v2.
pub fn rename_in_v2(crd: &mut Value) {
    let properties = crd.pointer_mut("/spec/versions/1/schema/openAPIV3Schema/properties/spec/properties");
    let properties = properties.unwrap().as_object_mut().unwrap();
    let size = properties.remove("size").unwrap();
    properties.insert("width".to_owned(), size);
}
