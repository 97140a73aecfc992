//! An ordered, counted set whose order is told by the caller.

use std::{mem, slice};

use self::node::{Child, Found, Node, passed};

mod node;
#[cfg(test)]
mod tests;

/// An ordered set that also knows how many keys stand before a place: a B+ tree.
///
/// Keys need no order of their own. A place is named by a question, `before`: does this key
/// stand before it? It must be true for the keys up to some point of the order and false for
/// all after, and it is asked about keys in the set only. So a key can be as short as a due
/// time and a slot, and ties are broken by what the caller keeps under the slot.
///
/// `LEAF` and `INNER` are how many keys and children a node has at most.
pub(crate) struct Tree<K, const LEAF: usize = 64, const INNER: usize = 64> {
    root: Node<K, LEAF, INNER>,
    len: u64,
}

impl<K: Copy, const LEAF: usize, const INNER: usize> Tree<K, LEAF, INNER> {
    /// An empty set; it takes no memory.
    pub(crate) fn new() -> Self {
        const { assert!(LEAF >= 4 && INNER >= 4, "half a node must hold a pair") };
        Tree { root: Node::default(), len: 0 }
    }

    /// The set of `keys`, which come in their order. Its nodes are full.
    pub(crate) fn from_sorted(keys: impl IntoIterator<Item = K>) -> Self {
        let mut level = Node::leaves(keys.into_iter());
        let len = level.iter().map(Node::count).sum();
        while level.len() > 1 {
            level = Node::above(level);
        }
        let root = level.pop().unwrap_or_default();
        Tree { root, len }
    }

    pub(crate) fn len(&self) -> u64 {
        self.len
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.len == 0
    }

    pub(crate) fn first(&self) -> Option<K> {
        self.root.first()
    }

    pub(crate) fn last(&self) -> Option<K> {
        self.root.last()
    }

    /// The first key that is not before the place, if it is the one meant.
    pub(crate) fn get(&self, before: impl Fn(&K) -> bool, is: impl Fn(&K) -> bool) -> Option<K> {
        self.root.at(&before).filter(is)
    }

    /// How many keys are before the place.
    pub(crate) fn rank(&self, before: impl Fn(&K) -> bool) -> u64 {
        self.root.rank(&before)
    }

    /// The keys that are not before the place, in order.
    pub(crate) fn from(&self, before: impl Fn(&K) -> bool) -> Iter<'_, K, LEAF, INNER> {
        let mut iter = Iter { above: Vec::new(), leaf: Default::default() };
        iter.descend(&self.root, &before);
        iter
    }

    /// All keys in order.
    pub(crate) fn iter(&self) -> Iter<'_, K, LEAF, INNER> {
        self.from(|_| false)
    }

    /// Puts `key` where the keys before it end.
    pub(crate) fn insert(&mut self, key: K, before: impl Fn(&K) -> bool) {
        if let Some(right) = self.root.insert(key, &before, true) {
            let left = mem::take(&mut self.root);
            self.root = Node::over([left, right]);
        }
        self.len += 1;
    }

    /// Takes out the first key that is not before the place, if it is the one meant.
    pub(crate) fn remove(
        &mut self,
        before: impl Fn(&K) -> bool,
        is: impl Fn(&K) -> bool,
    ) -> Option<K> {
        match self.root.remove(&before, &is) {
            Found::Key(key) => {
                self.shrink();
                Some(key)
            }
            Found::Other | Found::Past => None,
        }
    }

    pub(crate) fn pop_first(&mut self) -> Option<K> {
        let key = self.root.pop_first()?;
        self.shrink();
        Some(key)
    }

    /// Takes up to `n` keys off the front: a large set is let go of in slices.
    pub(crate) fn drain_some(&mut self, n: usize) -> Vec<K> {
        let n = n.min(usize::try_from(self.len).unwrap_or(usize::MAX));
        let mut keys = Vec::with_capacity(n);
        keys.extend((0..n).map_while(|_| self.pop_first()));
        keys
    }

    /// Counts a key less, and lets go of what the root does not need any more.
    fn shrink(&mut self) {
        self.len -= 1;
        if self.len == 0 {
            self.root = Node::default();
        }
        while let Some(only) = self.root.take_only_child() {
            self.root = only;
        }
    }
}

/// The keys of a [`Tree`] from some place on.
pub(crate) struct Iter<'a, K, const LEAF: usize, const INNER: usize> {
    /// What is left at each level, from the root down to above the leaf.
    above: Vec<slice::Iter<'a, Child<K, LEAF, INNER>>>,
    leaf: slice::Iter<'a, K>,
}

impl<'a, K: Copy, const LEAF: usize, const INNER: usize> Iter<'a, K, LEAF, INNER> {
    fn descend(&mut self, mut node: &'a Node<K, LEAF, INNER>, before: &impl Fn(&K) -> bool) {
        while let Node::Inner(inner) = node {
            let at = inner.child_for(before);
            self.above.push(inner.children[at + 1..].iter());
            node = &inner.children[at].node;
        }
        if let Node::Leaf(keys) = node {
            self.leaf = keys[passed(keys, before)..].iter();
        }
    }
}

impl<K: Copy, const LEAF: usize, const INNER: usize> Iterator for Iter<'_, K, LEAF, INNER> {
    type Item = K;

    fn next(&mut self) -> Option<K> {
        loop {
            if let Some(key) = self.leaf.next() {
                return Some(*key);
            }
            match self.above.last_mut()?.next() {
                Some(child) => self.descend(&child.node, &|_| false),
                None => drop(self.above.pop()),
            }
        }
    }
}
