//! The names in a folder, and which of them may be left when the power fails.

use std::collections::BTreeMap;
use std::io;

use crate::testkit::rng::Rng;

/// A file, whatever it is called.
pub(super) type FileId = u64;

/// How many of a hundred unsynced operations get through; as with sectors, all and none count.
const KEPT_PERCENT: [usize; 5] = [0, 20, 50, 80, 100];

/// The names as everyone sees them, and what it takes to go back.
#[derive(Clone, Default)]
pub(super) struct Names {
    seen: BTreeMap<String, FileId>,
    synced: BTreeMap<String, FileId>,
    /// What has been done since the last sync.
    moves: Vec<Move>,
}

/// One change of names, in one step.
#[derive(Clone)]
enum Move {
    Create { name: String, file: FileId },
    Rename { from: String, to: String, file: FileId },
    Remove { name: String, file: FileId },
}

impl Names {
    pub(super) fn of(names: BTreeMap<String, FileId>) -> Names {
        Names { synced: names.clone(), seen: names, moves: Vec::new() }
    }

    pub(super) fn get(&self, name: &str) -> io::Result<FileId> {
        self.seen.get(name).copied().ok_or_else(|| missing(name))
    }

    pub(super) fn list(&self) -> Vec<String> {
        self.seen.keys().cloned().collect()
    }

    pub(super) fn holds(&self, file: FileId) -> bool {
        self.seen.values().any(|held| *held == file)
    }

    pub(super) fn create(&mut self, name: &str, file: FileId) -> io::Result<()> {
        if self.seen.contains_key(name) {
            let text = format!("file `{name}` is there already");
            return Err(io::Error::new(io::ErrorKind::AlreadyExists, text));
        }
        self.make(Move::Create { name: name.to_owned(), file });
        Ok(())
    }

    pub(super) fn rename(&mut self, from: &str, to: &str) -> io::Result<()> {
        let file = self.get(from)?;
        self.make(Move::Rename { from: from.to_owned(), to: to.to_owned(), file });
        Ok(())
    }

    pub(super) fn remove(&mut self, name: &str) -> io::Result<()> {
        let file = self.get(name)?;
        self.make(Move::Remove { name: name.to_owned(), file });
        Ok(())
    }

    pub(super) fn sync(&mut self) {
        self.moves.drain(..).for_each(|step| step.apply(&mut self.synced));
    }

    /// The names that are left after the power failed: each unsynced move got through or not.
    pub(super) fn after_crash(&self, rng: &mut Rng) -> BTreeMap<String, FileId> {
        let kept = rng.pick(&KEPT_PERCENT);
        let mut names = self.synced.clone();
        for step in &self.moves {
            if rng.percent(kept) {
                step.apply(&mut names);
            }
        }
        names
    }

    fn make(&mut self, step: Move) {
        step.apply(&mut self.seen);
        self.moves.push(step);
    }
}

impl Move {
    /// Makes the move, or nothing if it rests on one that was lost.
    ///
    /// A create rests on its name being free, a rename and a remove on the name being that very
    /// file's. So no subset of moves makes a file vanish that no move in it has removed or
    /// replaced, and none gives a file two names.
    fn apply(&self, names: &mut BTreeMap<String, FileId>) {
        match self {
            Move::Create { name, file } => {
                names.entry(name.clone()).or_insert(*file);
            }
            Move::Rename { from, to, file } if names.get(from) == Some(file) => {
                names.remove(from);
                names.insert(to.clone(), *file);
            }
            Move::Remove { name, file } if names.get(name) == Some(file) => {
                names.remove(name);
            }
            Move::Rename { .. } | Move::Remove { .. } => {}
        }
    }
}

fn missing(name: &str) -> io::Error {
    io::Error::new(io::ErrorKind::NotFound, format!("there is no file `{name}`"))
}
