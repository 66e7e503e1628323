//! The named objects of a metalake, interned: a type and a full name become a small number.

use std::hash::BuildHasher;

use hashbrown::{DefaultHashBuilder, HashTable};

use super::privilege::ObjectType;

/// Number of an object in its metalake.
pub(super) type ObjectId = u32;

/// The table has no number left: more than four billion objects, or 4 GiB of names.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("more than 4 GiB of object names in one metalake")]
pub struct Full;

/// All names stand in one text, so that an object costs its name and some 24 bytes. Only policies put names in, so that
/// a quick hash will do.
#[derive(Debug, Clone, Default)]
pub(super) struct Objects {
    text: String,
    records: Vec<Record>,
    table: HashTable<ObjectId>,
    hasher: DefaultHashBuilder,
    /// Bytes of the longest name.
    longest: usize,
}

#[derive(Debug, Clone, Copy)]
struct Record {
    start: u32,
    length: u32,
    kind: ObjectType,
}

impl Objects {
    /// Objects in the table.
    pub(super) fn len(&self) -> usize {
        self.records.len()
    }

    /// The number of an object. A name longer than all costs nothing: callers choose names, and how deep they nest.
    pub(super) fn find(&self, kind: ObjectType, name: &str) -> Option<ObjectId> {
        if name.len() > self.longest {
            return None;
        }
        let same = |id: &ObjectId| self.get(*id) == Some((kind, name));
        self.table.find(self.hash(kind, name), same).copied()
    }

    /// Type and name of a number.
    pub(super) fn get(&self, id: ObjectId) -> Option<(ObjectType, &str)> {
        let record = self.records.get(id as usize)?;
        let start = record.start as usize;
        Some((record.kind, self.text.get(start..start + record.length as usize)?))
    }

    /// The number of an object, a new one if it has none.
    pub(super) fn intern(&mut self, kind: ObjectType, name: &str) -> Result<ObjectId, Full> {
        if let Some(id) = self.find(kind, name) {
            return Ok(id);
        }
        let id = ObjectId::try_from(self.records.len()).map_err(|_| Full)?;
        let start = u32::try_from(self.text.len()).map_err(|_| Full)?;
        let length = u32::try_from(name.len()).map_err(|_| Full)?;
        self.text.push_str(name);
        self.records.push(Record { start, length, kind });
        let hash = self.hash(kind, name);
        self.longest = self.longest.max(name.len());
        let Self { table, records, text, hasher, .. } = self;
        table.insert_unique(hash, id, |known| rehash(records, text, hasher, *known));
        Ok(id)
    }

    fn hash(&self, kind: ObjectType, name: &str) -> u64 {
        self.hasher.hash_one((kind, name))
    }
}

fn rehash(records: &[Record], text: &str, hasher: &DefaultHashBuilder, id: ObjectId) -> u64 {
    records.get(id as usize).map_or(0, |record| {
        let start = record.start as usize;
        let name = text.get(start..start + record.length as usize).unwrap_or_default();
        hasher.hash_one((record.kind, name))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_found_again_and_types_are_told_apart() {
        let mut objects = Objects::default();
        let ids: Vec<_> = (0..5000).map(|n| objects.intern(ObjectType::Table, &format!("c.s.t{n}"))).collect();
        let view = objects.intern(ObjectType::View, "c.s.t7").expect("room");
        assert_eq!(objects.len(), 5001);
        for (n, id) in ids.into_iter().enumerate() {
            let name = format!("c.s.t{n}");
            let id = id.expect("room");
            assert_eq!(objects.find(ObjectType::Table, &name), Some(id));
            assert_eq!(objects.intern(ObjectType::Table, &name), Ok(id));
            assert_eq!(objects.get(id), Some((ObjectType::Table, &*name)));
        }
        assert_eq!(objects.find(ObjectType::View, "c.s.t7"), Some(view));
        assert_eq!(objects.find(ObjectType::View, "c.s.t8"), None);
        assert_eq!(objects.find(ObjectType::Table, "c.s.t5000"), None);
    }
}
