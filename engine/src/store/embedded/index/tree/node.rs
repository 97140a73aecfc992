//! A node of the tree and everything below it.

/// All leaves are equally deep, and no node but an empty root is empty.
///
/// Two neighbours with one parent never fit into half a node: they are joined as soon as they
/// would. So half the room of a joined or split node is left until it must split or join again.
pub(super) enum Node<K, const LEAF: usize, const INNER: usize> {
    Leaf(Vec<K>),
    Inner(Box<Inner<K, LEAF, INNER>>),
}

/// The children of a node, in two lists side by side: a search reads nothing but keys.
pub(super) struct Inner<K, const LEAF: usize, const INNER: usize> {
    /// The first key below each, always: a key that has gone must not be asked about any more, as
    /// its slot may hold another job.
    pub(super) firsts: Vec<K>,
    pub(super) children: Vec<Child<K, LEAF, INNER>>,
}

pub(super) struct Child<K, const LEAF: usize, const INNER: usize> {
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

/// How many of the keys are before the place.
///
/// Most nodes are not in the processor's cache. Halving would wait for one part of a node after
/// the other; this asks for all it needs in two goes.
pub(super) fn passed<K>(keys: &[K], before: &impl Fn(&K) -> bool) -> usize {
    const STRIDE: usize = 8;
    let whole = keys.chunks_exact(STRIDE).filter(|part| before(&part[STRIDE - 1])).count() * STRIDE;
    let rest = &keys[whole..keys.len().min(whole + STRIDE)];
    whole + rest.iter().filter(|key| before(key)).count()
}

impl<K, const LEAF: usize, const INNER: usize> Default for Node<K, LEAF, INNER> {
    fn default() -> Self {
        Node::Leaf(Vec::new())
    }
}

impl<K: Copy, const LEAF: usize, const INNER: usize> Node<K, LEAF, INNER> {
    /// A node above these, none of which is empty.
    pub(super) fn over(nodes: impl IntoIterator<Item = Self>) -> Self {
        let mut inner = Inner { firsts: Vec::new(), children: Vec::new() };
        for node in nodes {
            inner.insert(inner.children.len(), node);
        }
        Node::Inner(Box::new(inner))
    }

    /// Full leaves of keys that come in order.
    pub(super) fn leaves(mut keys: impl Iterator<Item = K>) -> Vec<Self> {
        let mut leaves = Vec::new();
        loop {
            let mut leaf = Vec::new();
            leaf.extend(keys.by_ref().take(LEAF));
            if leaf.is_empty() {
                return leaves;
            }
            leaf.shrink_to_fit();
            leaves.push(Node::Leaf(leaf));
        }
    }

    /// Full nodes above the nodes of a level.
    pub(super) fn above(level: Vec<Self>) -> Vec<Self> {
        let mut nodes = Vec::with_capacity(level.len().div_ceil(INNER));
        let mut level = level.into_iter();
        while level.len() > 0 {
            nodes.push(Node::over(level.by_ref().take(INNER)));
        }
        nodes
    }

    pub(super) fn first(&self) -> Option<K> {
        match self {
            Node::Leaf(keys) => keys.first().copied(),
            Node::Inner(inner) => inner.firsts.first().copied(),
        }
    }

    pub(super) fn last(&self) -> Option<K> {
        match self {
            Node::Leaf(keys) => keys.last().copied(),
            Node::Inner(inner) => inner.children.last()?.node.last(),
        }
    }

    pub(super) fn count(&self) -> u64 {
        match self {
            Node::Leaf(keys) => keys.len() as u64,
            Node::Inner(inner) => inner.children.iter().map(|child| child.count).sum(),
        }
    }

    /// The first key that is not before the place.
    pub(super) fn at(&self, before: &impl Fn(&K) -> bool) -> Option<K> {
        match self {
            Node::Leaf(keys) => keys.get(passed(keys, before)).copied(),
            Node::Inner(inner) => {
                let at = inner.child_for(before);
                let next = || inner.firsts.get(at + 1).copied();
                inner.children[at].node.at(before).or_else(next)
            }
        }
    }

    pub(super) fn rank(&self, before: &impl Fn(&K) -> bool) -> u64 {
        match self {
            Node::Leaf(keys) => passed(keys, before) as u64,
            Node::Inner(inner) => {
                let at = inner.child_for(before);
                let passed: u64 = inner.children[..at].iter().map(|child| child.count).sum();
                passed + inner.children[at].node.rank(before)
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
            Node::Inner(inner) => {
                inner.insert_below(key, before, last).map(|right| Node::Inner(Box::new(right)))
            }
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
            Node::Inner(inner) => inner.remove_below(before, is),
        }
    }

    pub(super) fn pop_first(&mut self) -> Option<K> {
        match self {
            Node::Leaf(keys) if keys.is_empty() => None,
            Node::Leaf(keys) => {
                let key = keys.remove(0);
                trim::<K, LEAF>(keys);
                Some(key)
            }
            Node::Inner(inner) => inner.pop_below(0),
        }
    }

    /// The child of a node that has just one; the node is empty then.
    pub(super) fn take_only_child(&mut self) -> Option<Self> {
        match self {
            Node::Inner(inner) if inner.children.len() == 1 => {
                inner.children.pop().map(|child| child.node)
            }
            _ => None,
        }
    }

    /// How many keys or children there are in the node itself.
    fn size(&self) -> usize {
        match self {
            Node::Leaf(keys) => keys.len(),
            Node::Inner(inner) => inner.children.len(),
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
            (Node::Leaf(keys), Node::Leaf(more)) => {
                keys.reserve_exact(more.len());
                keys.extend(more);
            }
            (Node::Inner(inner), Node::Inner(mut more)) => {
                let seam = inner.children.len();
                inner.firsts.append(&mut more.firsts);
                inner.children.append(&mut more.children);
                inner.join(seam - 1);
            }
            _ => unreachable!("all leaves are equally deep"),
        }
    }
}

impl<K: Copy, const LEAF: usize, const INNER: usize> Inner<K, LEAF, INNER> {
    /// The child in which a key at the place belongs: the last that begins before it.
    pub(super) fn child_for(&self, before: &impl Fn(&K) -> bool) -> usize {
        passed(&self.firsts, before).saturating_sub(1)
    }

    /// Takes in a node that is not empty, as the child at `at`.
    fn insert(&mut self, at: usize, node: Node<K, LEAF, INNER>) {
        self.firsts.insert(at, node.first().expect("a child has keys"));
        self.children.insert(at, Child { count: node.count(), node });
    }

    fn insert_below(
        &mut self,
        key: K,
        before: &impl Fn(&K) -> bool,
        last: bool,
    ) -> Option<Inner<K, LEAF, INNER>> {
        let next = passed(&self.firsts, before);
        let at = next.saturating_sub(1);
        let last = last && at + 1 == self.children.len();
        let child = &mut self.children[at];
        let split = child.node.insert(key, before, last);
        child.count += 1;
        if next == 0 {
            self.firsts[0] = key;
        }
        let right = split?;
        child.count -= right.count();
        self.insert_child(at + 1, right, last)
    }

    fn insert_child(
        &mut self,
        at: usize,
        node: Node<K, LEAF, INNER>,
        last: bool,
    ) -> Option<Inner<K, LEAF, INNER>> {
        if self.children.len() < INNER {
            self.insert(at, node);
            return None;
        }
        let cut = cut(at, INNER, last);
        let mut right =
            Inner { firsts: self.firsts.split_off(cut), children: self.children.split_off(cut) };
        if at < cut {
            self.insert(at, node);
        } else {
            right.insert(at - cut, node);
        }
        Some(right)
    }

    fn remove_below(&mut self, before: &impl Fn(&K) -> bool, is: &impl Fn(&K) -> bool) -> Found<K> {
        let next = passed(&self.firsts, before);
        if let Some(at) = next.checked_sub(1) {
            match self.children[at].node.remove(before, is) {
                // Its first key is before the place, so that one stays.
                Found::Key(key) => {
                    self.count_down(at);
                    return Found::Key(key);
                }
                Found::Other => return Found::Other,
                Found::Past => {}
            }
        }
        match self.firsts.get(next) {
            Some(first) if is(first) => self.pop_below(next).map_or(Found::Past, Found::Key),
            Some(_) => Found::Other,
            None => Found::Past,
        }
    }

    /// Takes out the first key of a child.
    fn pop_below(&mut self, at: usize) -> Option<K> {
        let node = &mut self.children[at].node;
        let key = node.pop_first();
        if let Some(first) = node.first() {
            self.firsts[at] = first;
        }
        self.count_down(at);
        key
    }

    /// After a key has gone from a child: drops the child if it was the last, and joins it with
    /// its neighbours if they have become small enough.
    fn count_down(&mut self, at: usize) {
        self.children[at].count -= 1;
        if self.children[at].count == 0 {
            self.firsts.remove(at);
            self.children.remove(at);
        } else {
            self.join(at);
        }
        if at > 0 {
            self.join(at - 1);
        }
    }

    /// Makes one of a child and the next if both fit into half a node.
    fn join(&mut self, at: usize) {
        let Some([left, right]) = self.children.get(at..at + 2) else { return };
        if left.node.size() + right.node.size() > left.node.size_max() / 2 {
            return;
        }
        self.firsts.remove(at + 1);
        let right = self.children.remove(at + 1);
        let left = &mut self.children[at];
        left.count += right.count;
        left.node.append(right.node);
    }
}

fn insert_key<K: Copy, const LEAF: usize>(
    keys: &mut Vec<K>,
    key: K,
    before: &impl Fn(&K) -> bool,
    last: bool,
) -> Option<Vec<K>> {
    let at = passed(keys, before);
    if keys.len() < LEAF {
        put::<K, LEAF>(keys, at, key);
        return None;
    }
    let cut = cut(at, LEAF, last);
    let mut right = keys[cut..].to_vec();
    keys.truncate(cut);
    if at < cut {
        put::<K, LEAF>(keys, at, key);
    } else {
        put::<K, LEAF>(&mut right, at - cut, key);
    }
    trim::<K, LEAF>(keys);
    Some(right)
}

/// Where to split a full node into which something comes at `at`. At the end of the order the
/// left half stays full: what comes in ascending order would never fill it up again.
fn cut(at: usize, size: usize, last: bool) -> usize {
    if last && at == size { size } else { size / 2 }
}

fn remove_key<K: Copy, const LEAF: usize>(
    keys: &mut Vec<K>,
    before: &impl Fn(&K) -> bool,
    is: &impl Fn(&K) -> bool,
) -> Found<K> {
    let at = passed(keys, before);
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

/// Puts a key into a leaf that has room. A leaf grows in small steps, as most are never full.
fn put<K, const LEAF: usize>(keys: &mut Vec<K>, at: usize, key: K) {
    let len = keys.len();
    if len == keys.capacity() {
        keys.reserve_exact(len.clamp(4, step(LEAF)).min(LEAF - len));
    }
    keys.insert(at, key);
}

/// Gives memory back once a leaf has a few steps to spare.
fn trim<K, const LEAF: usize>(keys: &mut Vec<K>) {
    if keys.capacity() - keys.len() > 3 * step(LEAF) {
        keys.shrink_to(keys.len() + step(LEAF));
    }
}

pub(super) const fn step(leaf: usize) -> usize {
    if leaf < 64 { 4 } else { leaf / 8 }
}
