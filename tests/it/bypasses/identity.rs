//! Who asks, and under which name.

use serde_json::json;

use crate::arena::{Pond, alice};

#[tokio::test]
async fn b01_a_stranger_may_not_borrow_the_owners_manager_name() {
    let pond = Pond::new("b01").await;
    let body = pond.edited("/spec/size", json!("XL")).await;
    let call = crate::arena::Call::put(&pond.at(""), &body).manager("ctrl-a");
    pond.send(&call, &alice()).await.refused(&[".spec.size"]);
}

#[tokio::test]
async fn b10_removing_a_field_leaves_no_trace_in_managed_fields_and_is_refused() {
    let pond = Pond::new("b10").await;
    let body = pond.edited("/spec/size", json!(null)).await;
    pond.put(&alice(), &body).await.refused(&[".spec.size"]);
}
