//! Verified tokens, so that a second request with one costs no signature check.

use std::sync::Arc;
use std::time::SystemTime;

use moka::sync::Cache;

use super::Caller;
use super::key::Thumbprint;

/// Verified tokens by the SHA-256 of the whole token. Only verified ones come in, so bad tokens drive no good one out.
pub(super) struct TokenCache {
    entries: Cache<[u8; 32], Arc<Entry>>,
}

/// A verified token.
pub(super) struct Entry {
    pub(super) caller: Caller,
    /// Which of the configured issuers.
    pub(super) issuer: usize,
    /// The key that verified it: the entry holds only while its issuer has it.
    pub(super) key: Thumbprint,
    /// `exp` with leeway.
    pub(super) ends: SystemTime,
}

impl TokenCache {
    pub(super) fn new(entries: u64) -> Self {
        Self { entries: Cache::new(entries) }
    }

    pub(super) fn get(&self, digest: &[u8; 32]) -> Option<Arc<Entry>> {
        self.entries.get(digest)
    }

    pub(super) fn insert(&self, digest: [u8; 32], entry: Entry) {
        self.entries.insert(digest, Arc::new(entry));
    }

    pub(super) fn remove(&self, digest: &[u8; 32]) {
        self.entries.invalidate(digest);
    }

    #[cfg(test)]
    pub(super) fn len(&self) -> u64 {
        self.entries.run_pending_tasks();
        self.entries.entry_count()
    }
}
