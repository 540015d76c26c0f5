//! The body of a review, from its bytes to the answer.
//!
//! In: any bytes. Out: a panic where a body is taken apart otherwise than plain JSON reading does, or
//! where its answer is not sound.

use std::sync::{Arc, OnceLock};

use fieldkeeper::admission::envelope::{Request, open, operation_name};
use fieldkeeper::admission::state::Snapshot;
use fieldkeeper::ownership::raw::Raw;
use serde_json::value::RawValue;

use super::{edge, ground, json};

/// Checks one input.
pub fn check(data: &[u8]) {
    static SNAPSHOT: OnceLock<Snapshot> = OnceLock::new();
    let Ok(opened) = open(data) else { return };
    let body: &RawValue = serde_json::from_slice(data).expect("what is read is JSON");
    let review = json::members(body).expect("a review is an object");
    let request = json::only(&review, "request").expect("a review has one request");
    let request = json::members(request).expect("a request is an object");
    assert_eq!(text(json::only(&request, "uid")), opened.uid, "the uid to answer to");
    let snapshot = SNAPSHOT.get_or_init(|| edge::snapshot([Arc::new(ground::node_pools())]));
    if let Some((read, _)) = edge::answer(&opened, snapshot, None, ground::NOW) {
        is_read_as_written(&request, &read);
    }
}

fn text(raw: Option<&RawValue>) -> String {
    raw.map(|raw| serde_json::from_str(raw.get()).expect("a text")).unwrap_or_default()
}

fn is_read_as_written(members: &[(String, &RawValue)], read: &Request<'_>) {
    let member = |name: &str| {
        let found = json::only(members, name);
        let present = members.iter().any(|(other, _)| other == name);
        assert_eq!(found.is_some(), present, "{name} stands twice");
        found.filter(|raw| raw.get() != "null")
    };
    assert_eq!(text(member("name")), read.name);
    assert_eq!(text(member("namespace")), read.namespace);
    assert_eq!(text(member("subResource")), read.subresource);
    assert_eq!(text(member("operation")), operation_name(read.operation));
    let part = |name: &str| json::members(member(name).expect("a required member")).expect("an object");
    let user = part("userInfo");
    assert_eq!(text(json::only(&user, "username")), read.requester.username);
    let resource = part("resource");
    assert_eq!(text(json::only(&resource, "resource")), read.resource.resource);
    assert_eq!(text(json::only(&resource, "group")), read.resource.group);
    assert_eq!(text(json::only(&resource, "version")), read.resource.version);
    for (name, object) in [("object", read.object), ("oldObject", read.old_object)] {
        assert_eq!(member(name).map(RawValue::get), object.map(Raw::text), "{name}");
    }
}
