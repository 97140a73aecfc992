//! A node of the tree and everything below it.

use std::collections::VecDeque;

/// All leaves are equally deep, and no node but an empty root is empty.
///
/// Two neighbours with one parent never fit into half a node: they are joined as soon as they
/// would. So half the room of a joined or split node is left until it must split or join again.
pub(super) enum Node<K, const LEAF: usize, const INNER: usize> {
    /// A ring, because keys leave at the front most often: that moves nothing.
    Leaf(VecDeque<K>),
    Inner(Vec<Child<K, LEAF, INNER>>),
}

pub(super) struct Child<K, const LEAF: usize, const INNER: usize> {
    /// The first key below, always: a key that has gone must not be asked about any more, as
    /// its slot may hold another job.
    pub(super) first: K,
    /// How many keys are below.
    pub(super) count: u64,
    pub(super) node: Node<K, LEAF, INNER>,
}

/// What stands at a place below a node.
pub(super) enum Found<K> {
    /// The key that was meant; it has been taken out.
    Key(K),
    /// Another key.
    Other,
    /// Nothing: all keys below the node are before the place.
    Past,
}

/// The child in which a key at the place belongs: the last that begins before it.
pub(super) fn child_for<K, const LEAF: usize, const INNER: usize>(
    children: &[Child<K, LEAF, INNER>],
    before: &impl Fn(&K) -> bool,
) -> usize {
    children.partition_point(|child| before(&child.first)).saturating_sub(1)
}

impl<K, const LEAF: usize, const INNER: usize> Default for Node<K, LEAF, INNER> {
    fn default() -> Self {
        Node::Leaf(VecDeque::new())
    }
}

impl<K: Copy, const LEAF: usize, const INNER: usize> Child<K, LEAF, INNER> {
    /// Of a node that is not empty.
    pub(super) fn of(node: Node<K, LEAF, INNER>) -> Self {
        let first = node.first().expect("a child has keys");
        Child { first, count: node.count(), node }
    }
}

impl<K: Copy, const LEAF: usize, const INNER: usize> Node<K, LEAF, INNER> {
    /// Full leaves of keys that come in order.
    pub(super) fn leaves(mut keys: impl Iterator<Item = K>) -> Vec<Child<K, LEAF, INNER>> {
        let mut leaves = Vec::new();
        loop {
            let mut leaf = Vec::new();
            leaf.extend(keys.by_ref().take(LEAF));
            if leaf.is_empty() {
                return leaves;
            }
            leaf.shrink_to_fit();
            leaves.push(Child::of(Node::Leaf(leaf.into())));
        }
    }

    /// Full nodes above the nodes of a level.
    pub(super) fn above(level: Vec<Child<K, LEAF, INNER>>) -> Vec<Child<K, LEAF, INNER>> {
        let mut nodes = Vec::with_capacity(level.len().div_ceil(INNER));
        let mut level = level.into_iter();
        while level.len() > 0 {
            nodes.push(Child::of(Node::Inner(level.by_ref().take(INNER).collect())));
        }
        nodes
    }

    pub(super) fn first(&self) -> Option<K> {
        match self {
            Node::Leaf(keys) => keys.front().copied(),
            Node::Inner(children) => children.first().map(|child| child.first),
        }
    }

    pub(super) fn last(&self) -> Option<K> {
        match self {
            Node::Leaf(keys) => keys.back().copied(),
            Node::Inner(children) => children.last()?.node.last(),
        }
    }

    pub(super) fn count(&self) -> u64 {
        match self {
            Node::Leaf(keys) => keys.len() as u64,
            Node::Inner(children) => children.iter().map(|child| child.count).sum(),
        }
    }

    /// The first key that is not before the place.
    pub(super) fn at(&self, before: &impl Fn(&K) -> bool) -> Option<K> {
        match self {
            Node::Leaf(keys) => keys.get(keys.partition_point(before)).copied(),
            Node::Inner(children) => {
                let at = child_for(children, before);
                let next = || children.get(at + 1).map(|child| child.first);
                children[at].node.at(before).or_else(next)
            }
        }
    }

    pub(super) fn rank(&self, before: &impl Fn(&K) -> bool) -> u64 {
        match self {
            Node::Leaf(keys) => keys.partition_point(before) as u64,
            Node::Inner(children) => {
                let at = child_for(children, before);
                let passed: u64 = children[..at].iter().map(|child| child.count).sum();
                passed + children[at].node.rank(before)
            }
        }
    }

    /// Puts a key in; if the node had to split, answers its right half. `last` says that no
    /// node of this depth comes after it.
    pub(super) fn insert(
        &mut self,
        key: K,
        before: &impl Fn(&K) -> bool,
        last: bool,
    ) -> Option<Self> {
        match self {
            Node::Leaf(keys) => insert_key::<K, LEAF>(keys, key, before, last).map(Node::Leaf),
            Node::Inner(children) => insert_below(children, key, before, last).map(Node::Inner),
        }
    }

    /// Takes out the first key that is not before the place, if it is the one meant.
    pub(super) fn remove(
        &mut self,
        before: &impl Fn(&K) -> bool,
        is: &impl Fn(&K) -> bool,
    ) -> Found<K> {
        match self {
            Node::Leaf(keys) => remove_key::<K, LEAF>(keys, before, is),
            Node::Inner(children) => remove_below(children, before, is),
        }
    }

    pub(super) fn pop_first(&mut self) -> Option<K> {
        match self {
            Node::Leaf(keys) => {
                let key = keys.pop_front();
                trim::<K, LEAF>(keys);
                key
            }
            Node::Inner(children) => pop_below(children, 0),
        }
    }

    /// The child of a node that has just one; the node is empty then.
    pub(super) fn take_only_child(&mut self) -> Option<Self> {
        match self {
            Node::Inner(children) if children.len() == 1 => children.pop().map(|child| child.node),
            _ => None,
        }
    }

    /// How many keys or children there are in the node itself.
    fn size(&self) -> usize {
        match self {
            Node::Leaf(keys) => keys.len(),
            Node::Inner(children) => children.len(),
        }
    }

    fn size_max(&self) -> usize {
        match self {
            Node::Leaf(_) => LEAF,
            Node::Inner(_) => INNER,
        }
    }

    /// Takes in all of the neighbour to the right.
    fn append(&mut self, right: Self) {
        match (self, right) {
            (Node::Leaf(keys), Node::Leaf(mut more)) => {
                keys.reserve_exact(more.len());
                keys.append(&mut more);
            }
            (Node::Inner(children), Node::Inner(mut more)) => {
                let seam = children.len();
                children.append(&mut more);
                join(children, seam - 1);
            }
            _ => unreachable!("all leaves are equally deep"),
        }
    }
}

fn insert_key<K: Copy, const LEAF: usize>(
    keys: &mut VecDeque<K>,
    key: K,
    before: &impl Fn(&K) -> bool,
    last: bool,
) -> Option<VecDeque<K>> {
    let at = keys.partition_point(before);
    if keys.len() < LEAF {
        put::<K, LEAF>(keys, at, key);
        return None;
    }
    let cut = cut(at, LEAF, last);
    let mut right = keys.split_off(cut);
    if at < cut {
        put::<K, LEAF>(keys, at, key);
    } else {
        put::<K, LEAF>(&mut right, at - cut, key);
    }
    trim::<K, LEAF>(keys);
    Some(right)
}

fn insert_below<K: Copy, const LEAF: usize, const INNER: usize>(
    children: &mut Vec<Child<K, LEAF, INNER>>,
    key: K,
    before: &impl Fn(&K) -> bool,
    last: bool,
) -> Option<Vec<Child<K, LEAF, INNER>>> {
    let next = children.partition_point(|child| before(&child.first));
    let at = next.saturating_sub(1);
    let last = last && at + 1 == children.len();
    let child = &mut children[at];
    let split = child.node.insert(key, before, last);
    child.count += 1;
    if next == 0 {
        child.first = key;
    }
    let right = Child::of(split?);
    child.count -= right.count;
    insert_child(children, at + 1, right, last)
}

fn insert_child<K, const LEAF: usize, const INNER: usize>(
    children: &mut Vec<Child<K, LEAF, INNER>>,
    at: usize,
    child: Child<K, LEAF, INNER>,
    last: bool,
) -> Option<Vec<Child<K, LEAF, INNER>>> {
    if children.len() < INNER {
        children.insert(at, child);
        return None;
    }
    let cut = cut(at, INNER, last);
    let mut right = children.split_off(cut);
    if at < cut {
        children.insert(at, child);
    } else {
        right.insert(at - cut, child);
    }
    Some(right)
}

/// Where to split a full node into which something comes at `at`. At the end of the order the
/// left half stays full: what comes in ascending order would never fill it up again.
fn cut(at: usize, size: usize, last: bool) -> usize {
    if last && at == size { size } else { size / 2 }
}

fn remove_key<K: Copy, const LEAF: usize>(
    keys: &mut VecDeque<K>,
    before: &impl Fn(&K) -> bool,
    is: &impl Fn(&K) -> bool,
) -> Found<K> {
    let at = keys.partition_point(before);
    match keys.get(at) {
        Some(&key) if is(&key) => {
            keys.remove(at);
            trim::<K, LEAF>(keys);
            Found::Key(key)
        }
        Some(_) => Found::Other,
        None => Found::Past,
    }
}

fn remove_below<K: Copy, const LEAF: usize, const INNER: usize>(
    children: &mut Vec<Child<K, LEAF, INNER>>,
    before: &impl Fn(&K) -> bool,
    is: &impl Fn(&K) -> bool,
) -> Found<K> {
    let next = children.partition_point(|child| before(&child.first));
    if let Some(at) = next.checked_sub(1) {
        match children[at].node.remove(before, is) {
            // Its first key is before the place, so that one stays.
            Found::Key(key) => {
                count_down(children, at);
                return Found::Key(key);
            }
            Found::Other => return Found::Other,
            Found::Past => {}
        }
    }
    match children.get(next) {
        Some(child) if is(&child.first) => {
            pop_below(children, next).map_or(Found::Past, Found::Key)
        }
        Some(_) => Found::Other,
        None => Found::Past,
    }
}

/// Takes out the first key of a child.
fn pop_below<K: Copy, const LEAF: usize, const INNER: usize>(
    children: &mut Vec<Child<K, LEAF, INNER>>,
    at: usize,
) -> Option<K> {
    let child = &mut children[at];
    let key = child.node.pop_first();
    if let Some(first) = child.node.first() {
        child.first = first;
    }
    count_down(children, at);
    key
}

/// After a key has gone from a child: drops the child if it was the last, and joins it with its
/// neighbours if they have become small enough.
fn count_down<K: Copy, const LEAF: usize, const INNER: usize>(
    children: &mut Vec<Child<K, LEAF, INNER>>,
    at: usize,
) {
    children[at].count -= 1;
    if children[at].count == 0 {
        children.remove(at);
    } else {
        join(children, at);
    }
    if at > 0 {
        join(children, at - 1);
    }
}

/// Makes one of a child and the next if both fit into half a node.
fn join<K: Copy, const LEAF: usize, const INNER: usize>(
    children: &mut Vec<Child<K, LEAF, INNER>>,
    at: usize,
) {
    let Some([left, right]) = children.get(at..at + 2) else { return };
    if left.node.size() + right.node.size() > left.node.size_max() / 2 {
        return;
    }
    let right = children.remove(at + 1);
    let left = &mut children[at];
    left.count += right.count;
    left.node.append(right.node);
}

/// Puts a key into a leaf that has room. A leaf grows in small steps, as most are never full.
fn put<K, const LEAF: usize>(keys: &mut VecDeque<K>, at: usize, key: K) {
    let len = keys.len();
    if len == keys.capacity() {
        keys.reserve_exact(len.clamp(4, step(LEAF)).min(LEAF - len));
    }
    keys.insert(at, key);
}

/// Gives memory back once a leaf has a few steps to spare.
fn trim<K, const LEAF: usize>(keys: &mut VecDeque<K>) {
    if keys.capacity() - keys.len() > 3 * step(LEAF) {
        keys.shrink_to(keys.len() + step(LEAF));
    }
}

pub(super) const fn step(leaf: usize) -> usize {
    if leaf < 64 { 4 } else { leaf / 16 }
}
