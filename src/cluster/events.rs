//! Events, few enough to be read.
//!
//! Input: what happened to which object. Output: an Event in `events.k8s.io`,
//! or nothing when the same was said a moment ago or too much is going on.
//!
//! Must not be awaited on a request path, nor fail anything: an event that
//! cannot be written is logged and forgotten. kube's own recorder writes under
//! no field manager, hence this one.

use std::collections::HashMap;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use k8s_openapi::api::core::v1::ObjectReference;
use k8s_openapi::api::events::v1::Event;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime;
use k8s_openapi::jiff::Timestamp;
use kube::core::ObjectMeta;
use tokio::time::Instant;

use super::write::Writer;
use crate::managers::Manager;

/// Longest note that the API server takes.
const MAX_NOTE: usize = 1024;
/// Where events about cluster-scoped objects live, by convention.
const CLUSTER_SCOPED: &str = "default";

/// The same event again is held back for this long: a controller in a loop writes several times a second.
const SAME: Duration = Duration::from_mins(1);
/// Events at once.
const BURST: u32 = 20;
/// After a burst, one event in this time.
const REFILL: Duration = Duration::from_secs(2);
/// Different events that are remembered. Past it the oldest are forgotten, and may be repeated early.
const REMEMBERED: usize = 1024;

/// Something to tell about an object.
#[derive(Clone, Debug)]
pub struct Happening {
    /// The object that it happened to. Readers find events by its uid.
    pub regarding: ObjectReference,
    /// Another object that has to do with it.
    pub related: Option<ObjectReference>,
    /// `CamelCase`, from a fixed set.
    pub reason: &'static str,
    /// What was done, `CamelCase`.
    pub action: &'static str,
    /// For people.
    pub note: String,
    /// What counts as the same happening, beside the object: who did it, for example.
    pub by: String,
}

/// Writes events.
pub struct Events {
    writer: Writer,
    controller: String,
    instance: String,
    limiter: Limiter,
}

impl Events {
    /// Writes under the name of a `controller` (a qualified name) and of this `instance` of it (its pod).
    #[must_use]
    pub fn new(writer: Writer, controller: &str, instance: &str) -> Self {
        Self {
            writer,
            controller: controller.to_owned(),
            instance: instance.to_owned(),
            limiter: Limiter::default(),
        }
    }

    /// Writes one event, if it is worth it.
    pub async fn tell(&mut self, happening: Happening) {
        let uid = happening.regarding.uid.clone().unwrap_or_default();
        let key = format!("{uid} {} {}", happening.reason, happening.by);
        let Some(unsaid) = self.limiter.admit(key, Instant::now()) else { return };
        let event = self.event(happening, unsaid);
        let namespace = event.metadata.namespace.clone().unwrap_or_default();
        if let Err(error) = self.writer.create(Manager::WebhookEvents, &namespace, &event).await {
            tracing::warn!(category = error.category(), %error, "writing an event");
        }
    }

    fn event(&self, happening: Happening, unsaid: u32) -> Event {
        let Happening { regarding, related, reason, action, note, by: _ } = happening;
        let more =
            if unsaid > 0 { format!("\n({unsaid} more like this were not reported)") } else { String::new() };
        let note = cut(&note, MAX_NOTE.saturating_sub(more.len()));
        let namespace = regarding.namespace.as_deref().filter(|namespace| !namespace.is_empty());
        let nanos = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_nanos();
        let name = regarding.name.as_deref().unwrap_or_default();
        Event {
            metadata: ObjectMeta {
                // As client-go names them: what it is about, and a time that does not repeat.
                name: Some(format!("{name}.{nanos:x}")),
                namespace: Some(namespace.unwrap_or(CLUSTER_SCOPED).to_owned()),
                ..ObjectMeta::default()
            },
            action: Some(action.to_owned()),
            event_time: Some(MicroTime(Timestamp::now())),
            note: Some(format!("{note}{more}")),
            reason: Some(reason.to_owned()),
            regarding: Some(regarding),
            related,
            reporting_controller: Some(self.controller.clone()),
            reporting_instance: Some(self.instance.clone()),
            type_: Some("Warning".to_owned()),
            ..Event::default()
        }
    }
}

/// At most `limit` bytes of `text`, never half a character.
fn cut(text: &str, limit: usize) -> &str {
    text.get(..text.floor_char_boundary(limit)).unwrap_or(text)
}

/// Decides what is said. Pure but for its memory.
#[derive(Default)]
struct Limiter {
    said: HashMap<String, Said>,
    /// When the bucket will be full again: a bucket without a timer.
    full_at: Option<Instant>,
}

struct Said {
    last: Instant,
    unsaid: u32,
}

impl Limiter {
    /// How many of this kind went unsaid before, or `None` if this one does, too.
    fn admit(&mut self, key: String, now: Instant) -> Option<u32> {
        if let Some(said) = self.said.get_mut(&key)
            && now.duration_since(said.last) < SAME
        {
            said.unsaid = said.unsaid.saturating_add(1);
            return None;
        }
        let full_at = self.full_at.map_or(now, |full| full.max(now)) + REFILL;
        if full_at > now + REFILL * BURST {
            return None;
        }
        self.full_at = Some(full_at);
        if self.said.len() >= REMEMBERED {
            self.said.retain(|_, said| now.duration_since(said.last) < SAME);
        }
        if self.said.len() >= REMEMBERED {
            self.said.clear();
        }
        self.said.insert(key, Said { last: now, unsaid: 0 }).map_or(Some(0), |before| Some(before.unsaid))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_is_said_once_a_minute_and_counted() {
        let (mut limiter, start) = (Limiter::default(), Instant::now());
        assert_eq!(limiter.admit("a".to_owned(), start), Some(0));
        for second in 1..50 {
            assert_eq!(limiter.admit("a".to_owned(), start + Duration::from_secs(second)), None);
        }
        assert_eq!(limiter.admit("b".to_owned(), start), Some(0), "something else is said");
        assert_eq!(limiter.admit("a".to_owned(), start + SAME), Some(49));
        assert_eq!(limiter.admit("a".to_owned(), start + SAME * 2), Some(0));
    }

    #[test]
    fn a_flood_of_different_ones_is_cut_to_a_trickle() {
        let (mut limiter, start) = (Limiter::default(), Instant::now());
        let mut said = |prefix: &str, at: Instant| {
            (0..100).filter(|n| limiter.admit(format!("{prefix}{n}"), at).is_some()).count()
        };
        assert_eq!(said("a", start), BURST as usize);
        assert_eq!(said("b", start + REFILL), 1);
        assert_eq!(said("c", start + REFILL * 1000), BURST as usize, "a pause fills the bucket");
    }

    #[test]
    fn memory_is_bounded() {
        let (mut limiter, start) = (Limiter::default(), Instant::now());
        for n in 0..5000 {
            limiter.admit(format!("{n}"), start + REFILL * n);
        }
        assert!(limiter.said.len() <= REMEMBERED);
    }

    #[test]
    fn notes_are_cut_between_characters() {
        assert_eq!(cut("aé", 2), "a");
        assert_eq!(cut("aé", 3), "aé");
    }
}
