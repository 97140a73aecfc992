//! `linger top`.

mod look;
mod view;

use std::io::IsTerminal;
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use linger::time::parse_duration;
use ratatui::DefaultTerminal;
use ratatui::buffer::Buffer;
use ratatui::crossterm::event::{self, Event, KeyEventKind};
use ratatui::layout::Rect;
use ratatui::widgets::Widget;

use super::client::{Client, Remote};
use super::{End, output, sentence};
use look::{Look, Wish};
use view::{Flow, View};

/// Watch a server: topics, rates, lateness, what falls due, nodes
///
/// Asks the server every two seconds, and goes on when it is away and comes back. Keys: q quits, s sorts by
/// the next column, r turns the order round, / takes the beginning of topics' names, p pauses, arrows scroll.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Top {
    /// Print one frame as text, and end
    #[arg(long)]
    once: bool,
    /// How often the server is asked
    #[arg(long, value_name = "TIME", default_value = "2s", value_parser = every)]
    every: Duration,
    /// Sort by this column: topic, delayed, ready, reserved, retry, held, dead, waiting, in or out
    #[arg(long, value_name = "COLUMN", default_value = "ready")]
    sort: view::Column,
    /// Only topics whose name begins so
    #[arg(long, value_name = "PREFIX", default_value = "")]
    filter: String,
    #[command(flatten)]
    remote: Remote,
}

const EXAMPLES: &str = "\
Examples:
  linger top
  linger top --server http://10.0.0.5:7300 --filter shop. --sort dead
  linger top --once | head -5

Rates of a topic: in is jobs added, out is jobs that are gone or finished, a second.";

/// More often would be a load of its own.
const EVERY_MIN: Duration = Duration::from_millis(200);
/// How long a key may take to be seen.
const KEY_TIME: Duration = Duration::from_millis(50);
/// The size of a frame that nobody's terminal bounds: wide enough for every column.
const WIDTH: u16 = 120;
const HEIGHT_MAX: u16 = 2000;

fn every(text: &str) -> Result<Duration, String> {
    let every = parse_duration(text).map_err(|why| why.to_string())?;
    match every < EVERY_MIN {
        true => Err("it is under 200ms, which would be a load of its own".into()),
        false => Ok(every),
    }
}

impl Top {
    pub(super) fn run(self) -> Result<End> {
        let Top { once, every, sort, filter, remote } = self;
        let client = remote.client()?;
        let view = View::new(client.base().to_owned(), sort, filter);
        if once || client.prints_json() {
            return print_once(&client, view, every);
        }
        if !std::io::stdout().is_terminal() {
            bail!("stdout is no terminal; print one frame with --once");
        }
        let (wishes, looks) = ask_in_background(client, view.wish(), every)?;
        let mut terminal = ratatui::try_init().context("the terminal cannot be used")?;
        let watched = watch(&mut terminal, view, &wishes, &looks);
        ratatui::restore();
        watched.map(|()| End::Done)
    }
}

/// One frame; of JSON the last look.
fn print_once(client: &Client, mut view: View, every: Duration) -> Result<End> {
    // Rates are differences.
    view.take(Ok(Look::at(client, &view.wish())?));
    std::thread::sleep(every.min(Duration::from_secs(1)));
    let look = Look::at(client, &view.wish())?;
    if client.prints_json() {
        output(format!("{}\n", look.as_json()))?;
        return Ok(End::Done);
    }
    view.take(Ok(look));
    output(plain(&view, WIDTH, view.height().min(HEIGHT_MAX)))?;
    Ok(End::Done)
}

/// What a terminal of this size would show, as text.
fn plain(view: &View, width: u16, height: u16) -> String {
    let area = Rect::new(0, 0, width, height);
    let mut buffer = Buffer::empty(area);
    view.render(area, &mut buffer);
    let mut text = String::new();
    for y in 0..height {
        let mut line = String::new();
        let mut x = 0;
        while x < width {
            let symbol = buffer[(x, y)].symbol();
            line.push_str(symbol);
            // A wide letter stands in two cells.
            x += (unicode_width(symbol) as u16).max(1);
        }
        text.push_str(line.trim_end());
        text.push('\n');
    }
    text
}

fn unicode_width(symbol: &str) -> usize {
    ratatui::text::Span::raw(symbol).width()
}

/// What was asked for, or why there is no answer.
type Looked = Result<Look, String>;

/// Asks again and again, as long as anyone listens.
fn ask_in_background(
    client: Client,
    first: Wish,
    every: Duration,
) -> Result<(SyncSender<Wish>, Receiver<Looked>)> {
    let (wishes, wished) = sync_channel::<Wish>(8);
    let (looks, looked) = sync_channel(1);
    let ask = move || {
        let mut wish = first;
        loop {
            let look = Look::at(&client, &wish).map_err(|why| sentence(&why));
            if looks.send(look).is_err() {
                return;
            }
            match wished.recv_timeout(every) {
                Ok(other) => wish = wished.try_iter().last().unwrap_or(other),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return,
            }
        }
    };
    std::thread::Builder::new().name("asking".into()).spawn(ask)?;
    Ok((wishes, looked))
}

fn watch(
    terminal: &mut DefaultTerminal,
    mut view: View,
    wishes: &SyncSender<Wish>,
    looks: &Receiver<Looked>,
) -> Result<()> {
    loop {
        terminal.draw(|frame| frame.render_widget(&view, frame.area()))?;
        for look in looks.try_iter() {
            view.take(look);
        }
        if !event::poll(KEY_TIME)? {
            continue;
        }
        if let Event::Key(key) = event::read()?
            && key.kind == KeyEventKind::Press
        {
            let before = view.wish();
            if view.press(key) == Flow::Quit {
                return Ok(());
            }
            if view.wish() != before {
                // Whoever is full has newer ones.
                let _ = wishes.try_send(view.wish());
            }
        }
    }
}

#[cfg(test)]
mod tests;
