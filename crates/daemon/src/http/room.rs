//! Room: so many things of a kind at once, in all and of one owner. A place is taken before the thing is made, and is free again when it
//! is dropped.

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::{Arc, Mutex, PoisonError};

struct Taken<K> {
    all: usize,
    by_owner: HashMap<K, usize>,
}

/// Room for things of one kind.
pub struct Room<K: Eq + Hash + Copy> {
    /// The most at once.
    pub most: usize,
    /// The most of one owner.
    pub most_of_one: usize,
    taken: Mutex<Taken<K>>,
}

/// Why there is no place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NoRoom {
    /// The owner has as many as one may have: so many.
    OfOwner(usize),
    /// There are as many as there may be: so many.
    InAll(usize),
}

impl<K: Eq + Hash + Copy> Room<K> {
    /// Room for so many, and so many of one owner.
    pub fn new(most: usize, most_of_one: usize) -> Self {
        Self { most, most_of_one, taken: Mutex::new(Taken { all: 0, by_owner: HashMap::new() }) }
    }

    /// The places that are taken.
    pub fn taken(&self) -> usize {
        self.taken.lock().unwrap_or_else(PoisonError::into_inner).all
    }

    /// A place for an owner.
    pub fn take(self: &Arc<Self>, owner: K) -> Result<Place<K>, NoRoom> {
        self.take_below(owner, self.most)
    }

    /// A place for an owner who must leave some free for others: there may be so many in all.
    pub fn take_below(self: &Arc<Self>, owner: K, most: usize) -> Result<Place<K>, NoRoom> {
        let mut taken = self.taken.lock().unwrap_or_else(PoisonError::into_inner);
        let own = taken.by_owner.get(&owner).copied().unwrap_or(0);
        if own >= self.most_of_one {
            return Err(NoRoom::OfOwner(self.most_of_one));
        }
        if taken.all >= most {
            return Err(NoRoom::InAll(most));
        }
        taken.all += 1;
        taken.by_owner.insert(owner, own + 1);
        Ok(Place { room: Arc::clone(self), owner })
    }
}

/// A place that is taken.
pub struct Place<K: Eq + Hash + Copy> {
    room: Arc<Room<K>>,
    owner: K,
}

impl<K: Eq + Hash + Copy> Drop for Place<K> {
    fn drop(&mut self) {
        let mut taken = self.room.taken.lock().unwrap_or_else(PoisonError::into_inner);
        taken.all -= 1;
        if let Some(own) = taken.by_owner.get_mut(&self.owner) {
            *own -= 1;
            if *own == 0 {
                taken.by_owner.remove(&self.owner);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_owner_has_so_many_and_leaves_room_for_others() {
        let room = Arc::new(Room::new(100, 3));
        let held = (0..3).map(|_| room.take(1).ok().unwrap()).collect::<Vec<_>>();
        assert_eq!(room.take(1).err(), Some(NoRoom::OfOwner(3)));
        let other = room.take(2).ok().unwrap();
        assert_eq!(room.taken(), 4);
        drop(held);
        assert!(room.take(1).is_ok());
        drop(other);
        assert_eq!((room.taken(), room.taken.lock().unwrap().by_owner.len()), (0, 0), "nobody is remembered");
    }

    #[test]
    fn there_are_so_many_in_all_and_fewer_for_some() {
        let room = Arc::new(Room::new(2, 2));
        let _one = room.take(1).ok().unwrap();
        assert_eq!(room.take_below(2, 1).err(), Some(NoRoom::InAll(1)));
        let _two = room.take(2).ok().unwrap();
        assert_eq!(room.take(3).err(), Some(NoRoom::InAll(2)));
    }
}
