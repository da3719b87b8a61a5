//! The names of everything that a record may have, for Python to tell a key that does not apply from
//! one that does not exist. They are asked of the type that reads records.

use std::collections::BTreeSet;

use pyo3::prelude::*;
use serde::de::value::{Error, StrDeserializer};
use serde::de::{
    Deserialize as _, DeserializeSeed, Deserializer, IntoDeserializer as _, MapAccess, SeqAccess,
    Visitor,
};
use serde::forward_to_deserialize_any;
use weftline_scenario::RunRecord;

/// The keys of a record; those of a part have its key and a dot before them, also where there are
/// several of the part: `paths.goodput_mbps`.
#[pyfunction]
pub(crate) fn record_keys() -> BTreeSet<String> {
    let mut keys = BTreeSet::new();
    // What comes of it does not matter.
    let _ = RunRecord::deserialize(Names { at: "", keys: &mut keys });
    keys
}

/// Answers whatever is wanted with the least of it, and notes the names of the fields.
struct Names<'a> {
    at: &'a str,
    keys: &'a mut BTreeSet<String>,
}

impl<'de> Deserializer<'de> for Names<'_> {
    type Error = Error;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        visitor.visit_u8(0)
    }

    fn deserialize_bool<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        visitor.visit_bool(false)
    }

    fn deserialize_str<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        visitor.visit_str("")
    }

    fn deserialize_string<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        visitor.visit_str("")
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        visitor.visit_some(self)
    }

    fn deserialize_seq<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        visitor.visit_seq(One(Some(self)))
    }

    fn deserialize_map<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        visitor.visit_map(Fields { names: [].iter(), name: "", all: self })
    }

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Error> {
        visitor.visit_map(Fields { names: fields.iter(), name: "", all: self })
    }

    forward_to_deserialize_any! {
        i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char bytes byte_buf unit unit_struct
        newtype_struct tuple tuple_struct enum identifier ignored_any
    }
}

/// A list of one.
struct One<'a>(Option<Names<'a>>);

impl<'de> SeqAccess<'de> for One<'_> {
    type Error = Error;

    fn next_element_seed<T: DeserializeSeed<'de>>(
        &mut self,
        seed: T,
    ) -> Result<Option<T::Value>, Error> {
        self.0.take().map(|names| seed.deserialize(names)).transpose()
    }
}

/// The fields of a struct.
struct Fields<'a> {
    names: std::slice::Iter<'static, &'static str>,
    name: &'static str,
    all: Names<'a>,
}

impl<'de> MapAccess<'de> for Fields<'_> {
    type Error = Error;

    fn next_key_seed<K: DeserializeSeed<'de>>(
        &mut self,
        seed: K,
    ) -> Result<Option<K::Value>, Error> {
        let Some(name) = self.names.next() else { return Ok(None) };
        self.name = name;
        let name: StrDeserializer<'_, Error> = name.into_deserializer();
        seed.deserialize(name).map(Some)
    }

    fn next_value_seed<V: DeserializeSeed<'de>>(&mut self, seed: V) -> Result<V::Value, Error> {
        let at = match self.all.at {
            "" => self.name.to_owned(),
            at => format!("{at}.{}", self.name),
        };
        let value = seed.deserialize(Names { at: &at, keys: self.all.keys });
        self.all.keys.insert(at);
        value
    }
}
