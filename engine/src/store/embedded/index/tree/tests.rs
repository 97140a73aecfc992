use super::*;
use crate::store::embedded::index::rng::Rng;

/// A due time and a slot; the number of the job in the slot breaks ties.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Key {
    due: [u32; 2],
    slot: u32,
}

/// Small nodes make deep trees, odd ones uneven halves.
type Small = Tree<Key, 4, 4>;
type Odd = Tree<Key, 7, 5>;
type Full = Tree<Key>;

impl Key {
    fn due(&self) -> u64 {
        u64::from(self.due[0]) << 32 | u64::from(self.due[1])
    }
}

fn key(due: u64, slot: usize) -> Key {
    Key { due: [(due >> 32) as u32, due as u32], slot: slot as u32 }
}

/// A key of its own, for trees whose ties do not matter.
fn plain(due: u64) -> Key {
    key(due, 0)
}

fn filled<const LEAF: usize, const INNER: usize>(n: u64) -> Tree<Key, LEAF, INNER> {
    let mut tree = Tree::new();
    (0..n).for_each(|due| tree.insert(plain(due), |key| key.due() < due));
    assert_sound(&tree, |key| key.due());
    tree
}

fn take<const LEAF: usize, const INNER: usize>(
    tree: &mut Tree<Key, LEAF, INNER>,
    due: u64,
) -> Option<Key> {
    tree.remove(|key| key.due() < due, |key| key.due() == due)
}

/// Checks all that must hold between calls.
fn assert_sound<O: Ord, const LEAF: usize, const INNER: usize>(
    tree: &Tree<Key, LEAF, INNER>,
    order: impl Fn(Key) -> O,
) {
    let (count, _) = sound(&tree.root, true);
    assert_eq!(tree.len(), count, "the length");
    let keys: Vec<_> = tree.iter().collect();
    assert_eq!(keys.len() as u64, count, "the keys iterated over");
    assert!(keys.is_sorted_by(|a, b| order(*a) < order(*b)), "the order");
    assert_eq!((tree.first(), tree.last()), (keys.first().copied(), keys.last().copied()));
}

/// Answers how many keys are below and how deep the leaves are.
fn sound<const LEAF: usize, const INNER: usize>(
    node: &Node<Key, LEAF, INNER>,
    is_root: bool,
) -> (u64, usize) {
    match node {
        Node::Leaf(keys) => {
            assert!(keys.len() <= LEAF && keys.capacity() <= LEAF.max(4), "a leaf's size");
            let spare = keys.capacity() - keys.len();
            assert!(spare <= 3 * node::step(LEAF), "a leaf has room for {spare} more");
            assert!(is_root || !keys.is_empty(), "a leaf is empty");
            assert!(!keys.is_empty() || keys.capacity() == 0, "an empty tree holds memory");
            (keys.len() as u64, 0)
        }
        Node::Inner(inner) => {
            let (least, children) = (if is_root { 2 } else { 1 }, &inner.children);
            assert!((least..=INNER).contains(&children.len()), "{} children", children.len());
            assert_eq!(inner.firsts.len(), children.len(), "a first key for each child");
            assert_spread(children);
            let below: Vec<_> = inner.firsts.iter().zip(children).map(sound_child).collect();
            assert!(below.iter().all(|(_, depth)| *depth == below[0].1), "the leaves' depth");
            (below.iter().map(|(count, _)| count).sum(), below[0].1 + 1)
        }
    }
}

fn sound_child<const LEAF: usize, const INNER: usize>(
    (first, child): (&Key, &Child<Key, LEAF, INNER>),
) -> (u64, usize) {
    assert_eq!(Some(*first), front(&child.node), "a separator");
    let (count, depth) = sound(&child.node, false);
    assert_eq!(child.count, count, "a child's count");
    (count, depth)
}

fn front<const LEAF: usize, const INNER: usize>(node: &Node<Key, LEAF, INNER>) -> Option<Key> {
    match node {
        Node::Leaf(keys) => keys.first().copied(),
        Node::Inner(inner) => front(&inner.children[0].node),
    }
}

/// Neighbours that fit into half a node are joined.
fn assert_spread<const LEAF: usize, const INNER: usize>(children: &[Child<Key, LEAF, INNER>]) {
    let sizes: Vec<_> = children.iter().map(|child| size(&child.node)).collect();
    let half = if matches!(children[0].node, Node::Leaf(_)) { LEAF / 2 } else { INNER / 2 };
    assert!(sizes.windows(2).all(|pair| pair[0] + pair[1] > half), "{sizes:?} side by side");
}

fn size<const LEAF: usize, const INNER: usize>(node: &Node<Key, LEAF, INNER>) -> usize {
    match node {
        Node::Leaf(keys) => keys.len(),
        Node::Inner(inner) => inner.children.len(),
    }
}

/// A tree with the table that breaks its ties, and the same as a sorted list.
struct Pair<const LEAF: usize, const INNER: usize> {
    tree: Tree<Key, LEAF, INNER>,
    list: Vec<(u64, u64, u32)>,
    numbers: Vec<u64>,
    free: Vec<u32>,
    next: u64,
}

impl<const LEAF: usize, const INNER: usize> Pair<LEAF, INNER> {
    fn new() -> Self {
        Pair { tree: Tree::new(), list: vec![], numbers: vec![], free: vec![], next: 0 }
    }

    fn place(&self, key: &Key) -> (u64, u64) {
        (key.due(), self.numbers[key.slot as usize])
    }

    fn insert(&mut self, rng: &mut Rng, dues: usize) {
        // Freed slots are used again at once, as what has gone must not be asked about.
        let slot = self.free.pop().unwrap_or(self.numbers.len() as u32) as usize;
        self.numbers.resize(self.numbers.len().max(slot + 1), 0);
        // The order of numbers within a due time has nothing to do with that of the slots.
        self.next += 1;
        self.numbers[slot] = self.next ^ 0x2a;
        let (due, number) = (rng.below(dues) as u64, self.numbers[slot]);
        let numbers = &self.numbers;
        let before = |key: &Key| (key.due(), numbers[key.slot as usize]) < (due, number);
        self.tree.insert(key(due, slot), before);
        let at = self.list.partition_point(|(d, n, _)| (*d, *n) < (due, number));
        self.list.insert(at, (due, number, slot as u32));
    }

    fn remove(&mut self, rng: &mut Rng) {
        if self.list.is_empty() {
            return assert_eq!(self.tree.remove(|_| false, |_| true), None);
        }
        let at = rng.below(self.list.len());
        let (due, number, slot) = self.list.remove(at);
        let numbers = &self.numbers;
        let before = |key: &Key| (key.due(), numbers[key.slot as usize]) < (due, number);
        assert_eq!(self.tree.remove(before, |_| false), None, "another key was meant");
        assert_eq!(self.tree.get(before, |key| key.slot == slot), Some(key(due, slot as usize)));
        let gone = self.tree.remove(before, |key| key.slot == slot);
        assert_eq!(gone, Some(key(due, slot as usize)));
        self.forget(rng, slot);
    }

    fn pop(&mut self, rng: &mut Rng, n: usize) {
        let n_there = n.min(self.list.len());
        let gone: Vec<_> = self.list.drain(..n_there).collect();
        let keys: Vec<_> = gone.iter().map(|(due, _, slot)| key(*due, *slot as usize)).collect();
        match n {
            1 => assert_eq!(self.tree.pop_first(), keys.first().copied()),
            _ => assert_eq!(self.tree.drain_some(n), keys),
        }
        gone.iter().for_each(|(_, _, slot)| self.forget(rng, *slot));
    }

    /// Whatever is asked about this slot from now on is wrong.
    fn forget(&mut self, rng: &mut Rng, slot: u32) {
        self.numbers[slot as usize] = rng.next();
        self.free.push(slot);
    }

    fn look(&self, rng: &mut Rng, dues: usize) {
        let due = rng.below(dues + 1) as u64;
        let at = self.list.partition_point(|(d, ..)| *d < due);
        assert_eq!(self.tree.rank(|key| key.due() < due), at as u64);
        let some: Vec<_> = self.tree.from(|key| key.due() < due).take(10).collect();
        let rest = self.list[at..].iter().take(10);
        let same: Vec<_> = rest.map(|(due, _, slot)| key(*due, *slot as usize)).collect();
        assert_eq!(some, same);
        assert_eq!(self.tree.get(|key| key.due() < due, |_| true), same.first().copied());
    }

    fn assert_same(&self) {
        assert_sound(&self.tree, |key| self.place(&key));
        let list = self.list.iter().map(|(due, _, slot)| key(*due, *slot as usize));
        assert!(self.tree.iter().eq(list), "the tree has what the list has");
        let built = Tree::<Key, LEAF, INNER>::from_sorted(self.tree.iter());
        assert_sound(&built, |key| self.place(&key));
        assert!(built.iter().eq(self.tree.iter()), "built in one go it is the same");
    }
}

/// Random calls in stretches that grow and shrink the tree. `dues` few make for many ties.
fn story<const LEAF: usize, const INNER: usize>(seed: u64, steps: usize, dues: usize) {
    let repeats = Repeat { seed, size: (LEAF, INNER), dues };
    let mut rng = Rng::new(seed);
    let mut pair = Pair::<LEAF, INNER>::new();
    for step in 0..steps {
        let inserts = [75, 20, 55, 10][step * 8 / steps % 4];
        match rng.below(100) {
            roll if roll < inserts => pair.insert(&mut rng, dues),
            97 => (0..rng.below(4)).for_each(|_| pair.pop(&mut rng, 1)),
            98 => pair.pop(&mut rng, 5),
            99 => pair.look(&mut rng, dues),
            _ => pair.remove(&mut rng),
        }
        if step % (1 + steps / 500) == 0 {
            pair.assert_same();
        }
    }
    pair.assert_same();
    drop(repeats);
}

/// Says how to see a failure again.
struct Repeat {
    seed: u64,
    size: (usize, usize),
    dues: usize,
}

impl Drop for Repeat {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let Repeat { seed, size, dues } = self;
            eprintln!("seed {seed}, nodes of {size:?}, {dues} due times");
        }
    }
}

#[test]
fn small_trees_do_as_a_sorted_list_does() {
    for seed in 0..30 {
        story::<4, 4>(seed, 3000, 2000);
        story::<7, 5>(seed, 3000, 100);
        story::<4, 4>(seed, 500, 10);
    }
}

#[test]
fn a_tree_of_full_size_does_as_a_sorted_list_does() {
    for seed in 0..2 {
        story::<256, 64>(seed, 60_000, 1_000_000);
        story::<256, 64>(seed, 60_000, 20);
        story::<16, 8>(seed, 40_000, 3000);
    }
}

#[test]
fn an_empty_tree_is_small_and_has_nothing() {
    let mut tree = Full::new();
    assert!(size_of::<Full>() <= 32);
    assert!(tree.is_empty());
    assert_eq!((tree.first(), tree.last(), tree.pop_first()), (None, None, None));
    assert_eq!((tree.rank(|_| true), tree.iter().count()), (0, 0));
    assert_eq!((tree.get(|_| false, |_| true), take(&mut tree, 1)), (None, None));
    assert_eq!(tree.drain_some(10), []);
    assert_sound(&tree, |key| key.due());
    assert_sound(&Full::from_sorted([]), |key| key.due());
}

#[test]
fn a_tree_of_few_keys_is_small() {
    let tree: Full = filled(3);
    assert!(matches!(&tree.root, Node::Leaf(keys) if keys.capacity() == 4));
}

#[test]
fn keys_that_come_in_order_leave_full_nodes() {
    let tree: Full = filled(64 * 64 * 3);
    let Node::Inner(inner) = &tree.root else { panic!("{} keys in a leaf", tree.len()) };
    assert!(inner.children.iter().all(|child| child.count == 64 * 64));
}

#[test]
fn keys_that_come_in_reverse_are_in_order() {
    let mut tree = Odd::new();
    for due in (0..1000).rev() {
        tree.insert(plain(due), |key| key.due() < due);
        assert_eq!(tree.first(), Some(plain(due)));
    }
    assert_sound(&tree, |key| key.due());
}

#[test]
fn every_key_can_be_found_ranked_started_from_and_removed() {
    for n in [1, 4, 5, 16, 17, 64, 65, 300] {
        let mut tree: Small = filled(n);
        for due in 0..n {
            assert_eq!(tree.get(|key| key.due() < due, |_| true), Some(plain(due)));
            assert_eq!(tree.rank(|key| key.due() < due), due);
            assert!(tree.from(|key| key.due() < due).eq((due..n).map(plain)));
        }
        assert_eq!(tree.from(|_| true).next(), None);
        assert_eq!((tree.get(|_| true, |_| true), take(&mut tree, n)), (None, None));
        for due in (0..n).rev() {
            assert_eq!(take(&mut tree, due), Some(plain(due)));
            assert_sound(&tree, |key| key.due());
        }
    }
}

#[test]
fn a_key_that_is_not_the_one_meant_stays() {
    let mut tree: Small = filled(100);
    for due in 0..100 {
        assert_eq!(tree.remove(|key| key.due() < due, |_| false), None);
        assert_eq!(tree.get(|key| key.due() < due, |_| false), None);
    }
    assert_eq!(tree.len(), 100);
}

#[test]
fn popping_all_keys_takes_them_in_order_and_frees_the_leaves() {
    let mut tree: Small = filled(1000);
    for due in 0..1000 {
        assert_eq!(tree.pop_first(), Some(plain(due)));
        assert_sound(&tree, |key| key.due());
    }
    let mut tree: Full = filled(100_000);
    let drained: Vec<_> = std::iter::from_fn(|| Some(tree.drain_some(999)))
        .take_while(|keys| !keys.is_empty())
        .flatten()
        .collect();
    assert_eq!(drained, (0..100_000).map(plain).collect::<Vec<_>>());
    assert_sound(&tree, |key| key.due());
}
