//! Pieces of schema that the derives cannot say, and the last touch on generated CRDs.
//!
//! - **Input**: schemas from the derives.
//! - **Output**: bounded schemas for types that are not ours (label selectors, conditions), and CRDs without `nullable`.
//! - **Must not**: change what a schema accepts beyond that.

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::{
    CustomResourceDefinition, JSONSchemaProps, JSONSchemaPropsOrArray, JSONSchemaPropsOrBool,
};
use schemars::{Schema, SchemaGenerator, json_schema};

/// Conditions in one object; the API conventions' own ceiling for a status is of this order.
pub(crate) const MAX_CONDITIONS: usize = 16;
/// Requirements in one label selector; real ones have a handful.
const MAX_REQUIREMENTS: usize = 32;
/// A label key: prefix of 253, a slash, a name of 63.
pub(crate) const MAX_LABEL_KEY: usize = 317;
/// A label value.
pub(crate) const MAX_LABEL_VALUE: usize = 63;
/// What the API server accepts as a label value.
const LABEL_VALUE: &str = "^(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?$";

/// `metav1.Condition`s with the bounds of Kubernetes' own CRD markers; k8s-openapi states none.
pub(crate) fn conditions(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "array",
        "maxItems": MAX_CONDITIONS,
        "x-kubernetes-list-type": "map",
        "x-kubernetes-list-map-keys": ["type"],
        "items": {
            "type": "object",
            "required": ["lastTransitionTime", "message", "reason", "status", "type"],
            "properties": {
                "lastTransitionTime": {"type": "string", "format": "date-time",
                    "description": "When status last changed from one value to another."},
                "message": {"type": "string", "maxLength": super::conditions::MAX_MESSAGE,
                    "description": "A sentence for people."},
                "observedGeneration": {"type": "integer", "format": "int64", "minimum": 0,
                    "description": "metadata.generation that the condition was set for."},
                "reason": {"type": "string", "minLength": 1, "maxLength": 1024,
                    "pattern": "^[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?$",
                    "description": "Why, in one CamelCase word from a fixed set."},
                "status": {"type": "string", "enum": ["True", "False", "Unknown"],
                    "description": "Whether the condition holds."},
                "type": {"type": "string", "maxLength": 316,
                    "pattern": "^([a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*/)?(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])$",
                    "description": "Name of the condition."},
            },
        },
    })
}

/// A bounded `metav1.LabelSelector`.
pub(crate) fn label_selector(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "object",
        "x-kubernetes-map-type": "atomic",
        "properties": {
            "matchLabels": {"type": "object", "maxProperties": MAX_REQUIREMENTS,
                "additionalProperties": {"type": "string", "maxLength": MAX_LABEL_VALUE, "pattern": LABEL_VALUE}},
            "matchExpressions": {"type": "array", "maxItems": MAX_REQUIREMENTS, "x-kubernetes-list-type": "atomic",
                "items": {
                    "type": "object",
                    "required": ["key", "operator"],
                    "properties": {
                        "key": {"type": "string", "minLength": 1, "maxLength": MAX_LABEL_KEY},
                        "operator": {"type": "string", "enum": ["In", "NotIn", "Exists", "DoesNotExist"]},
                        "values": {"type": "array", "maxItems": MAX_REQUIREMENTS, "x-kubernetes-list-type": "atomic",
                            "items": {"type": "string", "maxLength": MAX_LABEL_VALUE, "pattern": LABEL_VALUE}},
                    },
                }},
        },
    })
}

/// A map of strings with at most `entries` entries and values of at most `length` bytes.
pub(crate) fn string_map(entries: usize, length: usize) -> Schema {
    json_schema!({
        "type": "object",
        "maxProperties": entries,
        "additionalProperties": {"type": "string", "maxLength": length},
    })
}

/// A map of label values with at most `entries` entries.
pub(crate) fn label_map(entries: usize) -> Schema {
    json_schema!({
        "type": "object",
        "maxProperties": entries,
        "additionalProperties": {"type": "string", "maxLength": MAX_LABEL_VALUE, "pattern": LABEL_VALUE},
    })
}

/// An object that is stored as it is: no pruning, no rules, no cost.
pub(crate) fn any_object(_: &mut SchemaGenerator) -> Schema {
    json_schema!({"type": "object", "x-kubernetes-preserve-unknown-fields": true})
}

/// Removes every `nullable`; see [`super::crds`] for why.
pub(crate) fn finish(mut crd: CustomResourceDefinition) -> CustomResourceDefinition {
    let schemas = crd.spec.versions.iter_mut().filter_map(|v| v.schema.as_mut());
    for schema in schemas.filter_map(|s| s.open_api_v3_schema.as_mut()) {
        not_nullable(schema);
    }
    crd
}

fn not_nullable(schema: &mut JSONSchemaProps) {
    schema.nullable = None;
    for property in schema.properties.iter_mut().flat_map(|p| p.values_mut()) {
        not_nullable(property);
    }
    match &mut schema.items {
        Some(JSONSchemaPropsOrArray::Schema(items)) => not_nullable(items),
        Some(JSONSchemaPropsOrArray::Schemas(all)) => all.iter_mut().for_each(not_nullable),
        None => {}
    }
    if let Some(JSONSchemaPropsOrBool::Schema(values)) = &mut schema.additional_properties {
        not_nullable(values);
    }
}
