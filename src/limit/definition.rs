//! Limits as configured → limits that can be kept, or all faults of their meaning.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;

use super::bucket::Bucket;
use crate::auth::Caller;
use crate::config::{self, LimitRate, LimitScope, LimitUnit};

/// One limit, checked.
#[derive(Debug)]
pub(super) struct Definition {
    pub(super) name: Arc<str>,
    pub(super) scope: LimitScope,
    pub(super) unit: LimitUnit,
    pub(super) max_keys: usize,
    bucket: Bucket,
    users: HashMap<String, Bucket>,
    groups: HashMap<String, Bucket>,
}

impl Definition {
    /// The bucket of a caller: its own override, else the widest of its groups' overrides, else the limit's.
    pub(super) fn bucket(&self, caller: Option<&Caller>) -> Bucket {
        let Some(caller) = caller else { return self.bucket };
        if let Some(own) = self.users.get(&*caller.subject) {
            return *own;
        }
        if self.groups.is_empty() {
            return self.bucket;
        }
        let overrides = caller.groups.iter().filter_map(|group| self.groups.get(&**group));
        overrides
            .copied()
            .reduce(|widest, next| if next.is_wider_than(&widest) { next } else { widest })
            .unwrap_or(self.bucket)
    }
}

/// Checks `limits`.
///
/// # Errors
///
/// All faults, each with the limit it is about.
pub(super) fn parse(limits: &[config::Limit]) -> Result<Vec<Definition>, Vec<String>> {
    let mut faults = Vec::new();
    let mut names = HashSet::new();
    let mut definitions = Vec::new();
    for (index, limit) in limits.iter().enumerate() {
        let at = format!("limits[{index}] (`{}`)", limit.name.escape_default());
        let mut fault = |text: String| faults.push(format!("{at}: {text}"));
        if limit.name.is_empty() || !limit.name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-' || b == b'_') {
            fault("a name is made of the letters A to Z and a to z, digits, `-` and `_`".to_owned());
        }
        if !names.insert(limit.name.as_str()) {
            fault("another limit has this name; names tell limits apart in answers and metrics".to_owned());
        }
        if limit.max_keys == 0 {
            fault("max_keys must be at least 1".to_owned());
        }
        let overridden = !limit.overrides.users.is_empty() || !limit.overrides.groups.is_empty();
        if overridden && limit.per != LimitScope::Caller {
            fault("overrides are for `per: caller` only: the other buckets are shared by callers".to_owned());
        }
        let bucket = Bucket::new(limit.rate, limit.burst).map_err(&mut fault).ok();
        let users = overrides("users", &limit.overrides.users, &mut fault);
        let groups = overrides("groups", &limit.overrides.groups, &mut fault);
        definitions.extend(bucket.map(|bucket| Definition {
            name: limit.name.as_str().into(),
            scope: limit.per,
            unit: limit.unit,
            max_keys: limit.max_keys,
            bucket,
            users,
            groups,
        }));
    }
    if faults.is_empty() { Ok(definitions) } else { Err(faults) }
}

fn overrides(of: &str, rates: &BTreeMap<String, LimitRate>, fault: &mut impl FnMut(String)) -> HashMap<String, Bucket> {
    let mut buckets = HashMap::new();
    for (name, rate) in rates {
        match Bucket::new(rate.rate, rate.burst) {
            Ok(bucket) => {
                buckets.insert(name.clone(), bucket);
            }
            Err(text) => fault(format!("overrides.{of} `{}`: {text}", name.escape_debug())),
        }
    }
    buckets
}
