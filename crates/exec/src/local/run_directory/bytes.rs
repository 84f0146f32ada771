//! Arguments, paths and variables in JSON. On Linux they are bytes: text is written as text, anything else as a list
//! of bytes, and both come back exactly.

use std::ffi::{OsStr, OsString};
use std::fmt;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::PathBuf;

use serde::de::{Error, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// A string of bytes on its way to or from JSON.
#[derive(Clone, Debug, Eq, PartialEq)]
struct Bytes(Vec<u8>);

impl Serialize for Bytes {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match str::from_utf8(&self.0) {
            Ok(text) => serializer.serialize_str(text),
            Err(_) => serializer.collect_seq(&self.0),
        }
    }
}

impl<'de> Deserialize<'de> for Bytes {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Either;
        impl<'de> Visitor<'de> for Either {
            type Value = Bytes;
            fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                formatter.write_str("a string or a list of bytes")
            }
            fn visit_str<E: Error>(self, text: &str) -> Result<Bytes, E> {
                Ok(Bytes(text.as_bytes().to_vec()))
            }
            fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Bytes, A::Error> {
                let mut bytes = Vec::new();
                while let Some(byte) = list.next_element()? {
                    bytes.push(byte);
                }
                Ok(Bytes(bytes))
            }
        }
        deserializer.deserialize_any(Either)
    }
}

fn bytes(text: &OsStr) -> Bytes {
    Bytes(text.as_bytes().to_vec())
}

/// `#[serde(with)]` for a path.
pub(crate) mod path {
    use super::{Bytes, Deserialize, Deserializer, OsString, OsStringExt, PathBuf, Serialize, Serializer, bytes};

    pub(crate) fn serialize<S: Serializer>(path: &std::path::Path, serializer: S) -> Result<S::Ok, S::Error> {
        bytes(path.as_os_str()).serialize(serializer)
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<PathBuf, D::Error> {
        Ok(OsString::from_vec(Bytes::deserialize(deserializer)?.0).into())
    }
}

/// `#[serde(with)]` for a path that may be absent.
pub(crate) mod path_option {
    use super::{Bytes, Deserialize, Deserializer, OsString, OsStringExt, PathBuf, Serialize, Serializer, bytes};

    #[expect(clippy::ref_option, reason = "the form serde calls")]
    pub(crate) fn serialize<S: Serializer>(path: &Option<PathBuf>, serializer: S) -> Result<S::Ok, S::Error> {
        path.as_ref().map(|path| bytes(path.as_os_str())).serialize(serializer)
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<PathBuf>, D::Error> {
        Ok(Option::<Bytes>::deserialize(deserializer)?.map(|bytes| OsString::from_vec(bytes.0).into()))
    }
}

/// `#[serde(with)]` for a list of arguments.
pub(crate) mod list {
    use super::{Bytes, Deserialize, Deserializer, OsString, OsStringExt, Serializer, bytes};

    pub(crate) fn serialize<S: Serializer>(list: &[OsString], serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(list.iter().map(|item| bytes(item)))
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<OsString>, D::Error> {
        Ok(Vec::<Bytes>::deserialize(deserializer)?.into_iter().map(|item| OsString::from_vec(item.0)).collect())
    }
}

/// `#[serde(with)]` for a list of names and values.
pub(crate) mod pairs {
    use super::{Bytes, Deserialize, Deserializer, OsString, OsStringExt, Serializer, bytes};

    pub(crate) fn serialize<S: Serializer>(list: &[(OsString, OsString)], serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(list.iter().map(|(name, value)| (bytes(name), bytes(value))))
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<(OsString, OsString)>, D::Error> {
        let pairs = Vec::<(Bytes, Bytes)>::deserialize(deserializer)?;
        Ok(pairs.into_iter().map(|(name, value)| (OsString::from_vec(name.0), OsString::from_vec(value.0))).collect())
    }
}
