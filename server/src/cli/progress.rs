//! How far a long verb has come, for whoever watches it.

use std::io::{IsTerminal, Write};
use std::time::{Duration, Instant};

/// How often it is drawn anew, at most.
const DRAW_GAP: Duration = Duration::from_millis(100);
/// How many characters the bar has.
const WIDTH: u64 = 30;

/// A bar on stderr, where that is a terminal; else nothing.
pub(super) struct Progress {
    /// How much there is in all, where that is known.
    total: Option<u64>,
    is_shown: bool,
    drawn: Option<Instant>,
}

impl Progress {
    pub(super) fn of(total: Option<u64>) -> Progress {
        Progress { total, is_shown: std::io::stderr().is_terminal(), drawn: None }
    }

    /// Says how much is done, and how many jobs that were.
    pub(super) fn at(&mut self, done: u64, jobs: u64) {
        let is_due = self.drawn.is_none_or(|drawn| drawn.elapsed() >= DRAW_GAP);
        if self.is_shown && is_due {
            self.drawn = Some(Instant::now());
            self.write(&format!("\r{}{jobs} jobs", bar(self.total, done)));
        }
    }

    /// Clears the line for what is said next.
    pub(super) fn clear(&mut self) {
        if self.drawn.take().is_some() {
            self.write("\r\x1b[K");
        }
    }

    fn write(&self, text: &str) {
        // Nobody is left to tell if this cannot be written.
        let mut stderr = std::io::stderr();
        let _ = stderr.write_all(text.as_bytes()).and_then(|()| stderr.flush());
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.clear();
    }
}

fn bar(total: Option<u64>, done: u64) -> String {
    let Some(total) = total.filter(|total| *total > 0) else { return String::new() };
    // More may come while it is under way.
    let done = done.min(total);
    let full = (done * WIDTH / total) as usize;
    let (done, left) = ("#".repeat(full), "-".repeat(WIDTH as usize - full));
    format!("[{done}{left}] {:3} %  ", full as u64 * 100 / WIDTH)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bar_is_empty_at_first_and_full_in_the_end() {
        let of = |done| bar(Some(10), done);
        assert_eq!(of(0), format!("[{}]   0 %  ", "-".repeat(30)));
        assert_eq!(of(5), format!("[{}{}]  50 %  ", "#".repeat(15), "-".repeat(15)));
        assert_eq!(of(11), format!("[{}] 100 %  ", "#".repeat(30)));
        assert_eq!((bar(None, 5), bar(Some(0), 0)), (String::new(), String::new()));
    }
}
