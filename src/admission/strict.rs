//! JSON read as the API server writes it, and nothing that merely looks like it.
//!
//! Derived code takes arrays for objects, and maps take the last of two equal keys. Whoever decides
//! by such a reading may see something else than whoever acts on it.

use std::collections::BTreeMap;
use std::fmt;
use std::marker::PhantomData;

use serde::de::value::MapAccessDeserializer;
use serde::de::{Error as _, MapAccess, Visitor};
use serde::{Deserialize, Deserializer};

/// Something that is written as a JSON object. Derived code alone would also take an array, member
/// by member, and an empty one for all defaults.
#[derive(Debug, Default)]
pub(super) struct Object<T>(pub(super) T);

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Object<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Map<T>(PhantomData<T>);
        impl<'de, T: Deserialize<'de>> Visitor<'de> for Map<T> {
            type Value = T;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<T, A::Error> {
                T::deserialize(MapAccessDeserializer::new(map))
            }
        }
        deserializer.deserialize_map(Map(PhantomData)).map(Self)
    }
}

/// A map in which no key stands twice; `null` is an empty one.
pub(super) fn distinct<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<BTreeMap<String, Vec<String>>, D::Error> {
    struct Distinct;
    impl<'de> Visitor<'de> for Distinct {
        type Value = BTreeMap<String, Vec<String>>;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("a map of lists of strings")
        }

        fn visit_unit<E>(self) -> Result<Self::Value, E> {
            Ok(BTreeMap::new())
        }

        fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
            let mut values = BTreeMap::new();
            while let Some((key, value)) = map.next_entry()? {
                if values.insert(key, value).is_some() {
                    return Err(A::Error::custom("a key stands twice"));
                }
            }
            Ok(values)
        }
    }
    deserializer.deserialize_any(Distinct)
}
