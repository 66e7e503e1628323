//! Who has how much of a bound that all share, so that nobody alone can use it up.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::net::{IpAddr, Ipv6Addr};
use std::sync::{Arc, Mutex, PoisonError};

/// Open connections by address. Unix sockets have none, and no share of their own. A clone is the same crowd.
#[derive(Debug, Clone)]
pub(crate) struct Crowd {
    open: Arc<Mutex<HashMap<IpAddr, usize>>>,
    most: usize,
}

/// Room for one connection, given back when it is dropped.
#[derive(Debug)]
pub(crate) struct Seat(Option<(Crowd, IpAddr)>);

impl Crowd {
    /// At most so many connections of one address.
    pub(crate) fn new(most: usize) -> Self {
        Self { open: Arc::default(), most }
    }

    /// Room for one more connection of this address; nothing if it has as many as it may.
    pub(crate) fn enter(&self, address: Option<IpAddr>) -> Option<Seat> {
        let Some(party) = address.map(party) else { return Some(Seat(None)) };
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        let count = open.entry(party).or_insert(0);
        if *count >= self.most {
            return None;
        }
        *count += 1;
        Some(Seat(Some((self.clone(), party))))
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        let Some((crowd, party)) = &self.0 else { return };
        let mut open = crowd.open.lock().unwrap_or_else(PoisonError::into_inner);
        if let Entry::Occupied(mut entry) = open.entry(*party) {
            *entry.get_mut() -= 1;
            if *entry.get() == 0 {
                entry.remove();
            }
        }
    }
}

/// Those who count as one: an IPv4 address, or the /64 of an IPv6 address, which is what one host can choose from.
pub(crate) fn party(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V4(address) => IpAddr::V4(address),
        IpAddr::V6(address) => IpAddr::V6(Ipv6Addr::from_bits(address.to_bits() & !u128::from(u64::MAX))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn enter(crowd: &Crowd, address: &str) -> Option<Seat> {
        crowd.enter(Some(address.parse().unwrap()))
    }

    #[test]
    fn an_address_has_its_share_and_gets_it_back() {
        let crowd = Crowd::new(2);
        let first = enter(&crowd, "192.0.2.1").unwrap();
        let _second = enter(&crowd, "::ffff:192.0.2.1").unwrap();
        assert!(enter(&crowd, "192.0.2.1").is_none());
        assert!(enter(&crowd, "192.0.2.2").is_some());
        drop(first);
        assert!(enter(&crowd, "192.0.2.1").is_some());
        let seats: Vec<_> = (0..9).map(|_| crowd.enter(None).unwrap()).collect();
        drop(seats);
        assert_eq!(crowd.open.lock().unwrap().len(), 1, "who has left leaves nothing behind");
    }

    #[test]
    fn an_ipv6_network_is_one_party() {
        let party = |text: &str| party(text.parse().unwrap());
        assert_eq!(party("2001:db8:1:2:3::4"), party("2001:db8:1:2:ffff::1"));
        assert_ne!(party("2001:db8:1:2::1"), party("2001:db8:1:3::1"));
        assert_eq!(party("192.0.2.1"), party("::ffff:192.0.2.1"));
        assert_ne!(party("192.0.2.1"), party("192.0.2.2"));
    }
}
