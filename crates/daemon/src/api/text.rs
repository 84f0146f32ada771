//! Text that came from the operating system: arguments, paths and variables need not be UTF-8, and must come back byte for byte.
//!
//! In JSON it is a plain string where it is UTF-8, and `{"base64": "…"}` where it is not.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::de::value::MapAccessDeserializer;
use serde::de::{Error as _, MapAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::ffi::{OsStr, OsString};
use std::fmt;
use std::os::unix::ffi::{OsStrExt, OsStringExt};

/// Bytes that are usually text.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Text(pub Vec<u8>);

impl Text {
    /// As people read it; bytes that are not text are replaced.
    pub fn lossy(&self) -> String {
        String::from_utf8_lossy(&self.0).into_owned()
    }

    /// As the operating system takes it.
    pub fn to_os(&self) -> OsString {
        OsString::from_vec(self.0.clone())
    }
}

impl From<&OsStr> for Text {
    fn from(text: &OsStr) -> Self {
        Self(text.as_bytes().to_vec())
    }
}

impl From<&str> for Text {
    fn from(text: &str) -> Self {
        Self(text.as_bytes().to_vec())
    }
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Encoded {
    base64: String,
}

impl Serialize for Text {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match std::str::from_utf8(&self.0) {
            Ok(text) => serializer.serialize_str(text),
            Err(_) => Encoded { base64: STANDARD.encode(&self.0) }.serialize(serializer),
        }
    }
}

impl<'de> Deserialize<'de> for Text {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(TextVisitor)
    }
}

/// Takes either form. Commands are read by the hundred thousand, so that nothing is set aside to be looked at twice.
struct TextVisitor;

impl<'de> Visitor<'de> for TextVisitor {
    type Value = Text;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("a string, or an object with `base64`")
    }

    fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<Text, E> {
        Ok(Text(text.as_bytes().to_vec()))
    }

    fn visit_string<E: serde::de::Error>(self, text: String) -> Result<Text, E> {
        Ok(Text(text.into_bytes()))
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Text, A::Error> {
        let Encoded { base64 } = Encoded::deserialize(MapAccessDeserializer::new(map))?;
        STANDARD.decode(base64).map(Text).map_err(A::Error::custom)
    }
}

impl utoipa::PartialSchema for Text {
    fn schema() -> utoipa::openapi::RefOr<utoipa::openapi::schema::Schema> {
        use utoipa::openapi::schema::{ObjectBuilder, OneOfBuilder, Type};
        let encoded = ObjectBuilder::new().property("base64", ObjectBuilder::new().schema_type(Type::String)).required("base64");
        OneOfBuilder::new().item(ObjectBuilder::new().schema_type(Type::String)).item(encoded).into()
    }
}

impl utoipa::ToSchema for Text {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_byte_comes_back() {
        for text in [b"plain".to_vec(), b"\xff\xfe not text".to_vec(), Vec::new()] {
            let json = serde_json::to_string(&Text(text.clone())).unwrap();
            assert_eq!(serde_json::from_str::<Text>(&json).unwrap().0, text, "{json}");
        }
    }
}
