//! Duplicate keys, at every level, after unescaping.

use std::collections::HashSet;
use std::hash::{BuildHasher, RandomState};

/// Objects up to this size are searched one by one.
const SMALL: usize = 16;

/// The keys of all objects that are open.
///
/// A key is remembered by its 64-bit SipHash under a random secret: two equal keys are always found, nobody can make
/// two different ones meet, and by chance that happens once in 10^7 documents of a million keys in one object.
#[derive(Default)]
pub(super) struct Keys {
    secret: RandomState,
    small: Vec<u64>,
}

/// The keys of one object.
pub(super) struct Object {
    base: usize,
    large: Option<HashSet<u64>>,
}

impl Keys {
    /// Begins an object inside those that are open.
    pub(super) fn open(&self) -> Object {
        Object { base: self.small.len(), large: None }
    }

    /// Whether `key` is new in `object`, the one opened last.
    pub(super) fn insert(&mut self, object: &mut Object, key: &str) -> bool {
        let hash = self.secret.hash_one(key);
        if let Some(large) = &mut object.large {
            return large.insert(hash);
        }
        let known = self.small.get(object.base..).unwrap_or_default();
        if known.contains(&hash) {
            return false;
        }
        if known.len() < SMALL {
            self.small.push(hash);
        } else {
            let mut large: HashSet<u64> = self.small.drain(object.base..).collect();
            large.insert(hash);
            object.large = Some(large);
        }
        true
    }

    /// Ends the object opened last.
    pub(super) fn close(&mut self, object: Object) {
        self.small.truncate(object.base);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_new_once_in_its_object_however_large() {
        let mut keys = Keys::default();
        let mut outer = keys.open();
        for index in 0..100 {
            assert!(keys.insert(&mut outer, &format!("key{index}")));
        }
        for index in 0..100 {
            assert!(!keys.insert(&mut outer, &format!("key{index}")));
        }
        let mut inner = keys.open();
        assert!(keys.insert(&mut inner, "key0"));
        assert!(!keys.insert(&mut inner, "key0"));
        keys.close(inner);
        let mut next = keys.open();
        assert!(keys.insert(&mut next, "key0"));
        keys.close(next);
        assert!(!keys.insert(&mut outer, "key0"));
        assert!(keys.insert(&mut outer, "another"));
    }
}
