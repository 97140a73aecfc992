//! How it looks, and what keys do to that: without a terminal.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use linger::time::format_duration;
use ratatui::buffer::Buffer;
use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Color, Modifier, Style, Stylize};
use ratatui::text::{Line, Span};
use ratatui::widgets::{Block, Borders, Cell, Paragraph, Row, Sparkline, Table, Widget};

use super::look::{Flow as Rates, Look, Topic, Wish};

/// Rates are over so many looks.
const SAMPLES: usize = 6;
/// Beyond so many nodes the rest is only counted.
const NODES_SHOWN: usize = 8;
const CHART_HEIGHT: u16 = 6;

/// What topics are sorted by.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(super) enum Column {
    Topic,
    Delayed,
    Ready,
    Reserved,
    Retry,
    Held,
    Dead,
    Waiting,
    In,
    Out,
}

const COLUMNS: [(Column, &str); 10] = [
    (Column::Topic, "TOPIC"),
    (Column::Delayed, "DELAYED"),
    (Column::Ready, "READY"),
    (Column::Reserved, "RESERVED"),
    (Column::Retry, "RETRY"),
    (Column::Held, "HELD"),
    (Column::Dead, "DEAD"),
    (Column::Waiting, "WAITING"),
    (Column::In, "IN/S"),
    (Column::Out, "OUT/S"),
];

/// Whether to go on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Flow {
    On,
    Quit,
}

/// What is on the screen.
pub(super) struct View {
    server: String,
    samples: VecDeque<Look>,
    sort: Column,
    is_turned: bool,
    filter: String,
    /// What is being typed in place of the filter.
    typing: Option<String>,
    is_paused: bool,
    scroll: usize,
    /// Since when the server does not answer, and why.
    away: Option<(Instant, String)>,
}

impl View {
    pub(super) fn new(server: String, sort: Column, filter: String) -> View {
        View {
            server,
            samples: VecDeque::new(),
            sort,
            is_turned: false,
            filter,
            typing: None,
            is_paused: false,
            scroll: 0,
            away: None,
        }
    }

    /// What is to be asked for.
    pub(super) fn wish(&self) -> Wish {
        Wish { prefix: self.filter.clone() }
    }

    /// Takes what was answered. While it is paused only whether there is an answer is of interest.
    pub(super) fn take(&mut self, look: Result<Look, String>) {
        match look {
            Ok(_) if self.is_paused => self.away = None,
            Ok(look) => {
                self.away = None;
                // One that was started anew counts from nothing.
                self.samples.retain(|earlier| earlier.stats.started == look.stats.started);
                self.samples.push_back(look);
                if self.samples.len() > SAMPLES {
                    self.samples.pop_front();
                }
            }
            Err(why) => {
                let since = self.away.take().map_or_else(Instant::now, |(since, _)| since);
                self.away = Some((since, why));
            }
        }
    }

    pub(super) fn press(&mut self, key: KeyEvent) -> Flow {
        if key.modifiers.contains(KeyModifiers::CONTROL) && key.code == KeyCode::Char('c') {
            return Flow::Quit;
        }
        if self.typing.is_some() {
            self.type_filter(key.code);
            return Flow::On;
        }
        let columns = COLUMNS.len();
        let at = COLUMNS.iter().position(|(column, _)| *column == self.sort).unwrap_or(0);
        match key.code {
            KeyCode::Char('q') => return Flow::Quit,
            KeyCode::Char('s') | KeyCode::Right => self.sort = COLUMNS[(at + 1) % columns].0,
            KeyCode::Left => self.sort = COLUMNS[(at + columns - 1) % columns].0,
            KeyCode::Char('r') => self.is_turned = !self.is_turned,
            KeyCode::Char('p' | ' ') => self.is_paused = !self.is_paused,
            KeyCode::Char('/') => self.typing = Some(String::new()),
            KeyCode::Esc => self.set_filter(String::new()),
            KeyCode::Up => self.scroll = self.scroll.saturating_sub(1),
            KeyCode::Down => self.scroll = (self.scroll + 1).min(self.last()),
            KeyCode::PageUp => self.scroll = self.scroll.saturating_sub(10),
            KeyCode::PageDown => self.scroll = (self.scroll + 10).min(self.last()),
            KeyCode::Home => self.scroll = 0,
            _ => {}
        }
        Flow::On
    }

    fn type_filter(&mut self, key: KeyCode) {
        let typed = self.typing.get_or_insert_default();
        match key {
            KeyCode::Char(letter) => typed.push(letter),
            KeyCode::Backspace => drop(typed.pop()),
            KeyCode::Esc => self.typing = None,
            KeyCode::Enter => {
                let typed = self.typing.take().unwrap_or_default();
                self.set_filter(typed);
            }
            _ => {}
        }
    }

    fn set_filter(&mut self, filter: String) {
        if filter != self.filter {
            self.filter = filter;
            self.scroll = 0;
        }
    }

    /// The last topic that can be scrolled to.
    fn last(&self) -> usize {
        self.samples.back().map_or(0, |look| look.topics.len().saturating_sub(1))
    }

    /// So many lines show all of it.
    pub(super) fn height(&self) -> u16 {
        let (topics, nodes) = self
            .samples
            .back()
            .map_or((0, 0), |look| (look.topics.len(), look.nodes.len().min(NODES_SHOWN)));
        // Heads and borders.
        (topics + nodes + 2 + 2 + 1 + 1) as u16 + 4 + CHART_HEIGHT
    }

    fn latest(&self) -> Option<(&Look, &Look)> {
        Some((self.samples.front()?, self.samples.back()?))
    }
}

impl Widget for &View {
    fn render(self, area: Rect, buffer: &mut Buffer) {
        let nodes = self.samples.back().map_or(0, |look| look.nodes.len().min(NODES_SHOWN)) as u16;
        // A small terminal keeps the topics.
        let chart = if area.height >= 24 { CHART_HEIGHT } else { 0 };
        let nodes = if area.height >= 18 { nodes + 2 } else { 0 };
        let [head, sums, due, topics, below, foot] = Layout::vertical([
            Constraint::Length(1),
            Constraint::Length(4),
            Constraint::Length(chart),
            Constraint::Min(3),
            Constraint::Length(nodes),
            Constraint::Length(1),
        ])
        .areas(area);
        self.head().render(head, buffer);
        self.foot().render(foot, buffer);
        let Some((earlier, look)) = self.latest() else { return };
        sums_of(earlier, look).render(sums, buffer);
        chart_of(look, due, buffer);
        self.topics(earlier, look).render(topics, buffer);
        nodes_of(look).render(below, buffer);
    }
}

impl View {
    fn head(&self) -> Line<'_> {
        let mut head =
            vec![Span::raw("linger top").bold(), Span::raw(format!("  {}", self.server))];
        if let Some(look) = self.samples.back() {
            let up = Duration::from_secs(look.ms_since(&look.stats.started) / 1000);
            let (version, up) = (&look.stats.version, format_duration(up));
            head.push(Span::raw(format!("  version {version}, up {up}  {}", look.stats.now)));
        }
        match &self.away {
            Some((since, why)) => {
                let seconds = since.elapsed().as_secs();
                let text = format!("  AWAY for {seconds} s, asking again: {why}");
                head.push(Span::raw(text).fg(Color::Red).bold());
            }
            None if self.samples.is_empty() => head.push("  asking …".into()),
            None if self.is_paused => head.push(Span::raw("  PAUSED").fg(Color::Yellow).bold()),
            None => {}
        }
        Line::from(head)
    }

    fn foot(&self) -> Line<'_> {
        let dim = Style::default().add_modifier(Modifier::DIM);
        match &self.typing {
            Some(typed) => Line::from(format!("topics that begin with: {typed}▏ (Enter, Esc)")),
            None if self.filter.is_empty() => {
                Line::styled("q quit  s sort  r turn  / filter  p pause  ↑↓ scroll", dim)
            }
            None => Line::styled(
                format!(
                    "topics that begin with `{}` (Esc: all)  q quit  s sort  r turn  p pause",
                    self.filter
                ),
                dim,
            ),
        }
    }

    fn topics<'a>(&self, earlier: &Look, look: &'a Look) -> Table<'a> {
        let flows = look.flows(earlier);
        let mut topics: Vec<(&Topic, Rates)> = look
            .topics
            .iter()
            .map(|topic| (topic, flows.get(topic.topic.as_str()).copied().unwrap_or_default()))
            .collect();
        // The largest first, and names from a to z.
        topics.sort_by(|(a, a_flow), (b, b_flow)| {
            let by = key(self.sort, b, *b_flow).total_cmp(&key(self.sort, a, *a_flow));
            by.then_with(|| a.topic.cmp(&b.topic))
        });
        if self.is_turned {
            topics.reverse();
        }
        let arrow = if self.is_turned == (self.sort == Column::Topic) { "▼" } else { "▲" };
        let heads = COLUMNS.map(|(column, name)| match column == self.sort {
            true => right(column, format!("{name}{arrow}")).bold(),
            false => right(column, name.to_owned()),
        });
        let rows: Vec<Row<'_>> =
            topics.iter().skip(self.scroll).map(|(topic, flow)| row(topic, *flow)).collect();
        let widths = COLUMNS.map(|(column, _)| match column {
            // On a narrow screen the numbers give way.
            Column::Topic => Constraint::Min(16),
            _ => Constraint::Length(10),
        });
        let more = if look.has_more_topics { ", the first 1000 shown" } else { "" };
        let title = format!(" topics: {}{more} ", look.stats.topics);
        let block = Block::new().borders(Borders::TOP).title(title);
        Table::new(rows, widths).header(Row::new(heads)).block(block)
    }
}

/// By what a topic is sorted; names are sorted among equals.
fn key(column: Column, topic: &Topic, flow: Rates) -> f64 {
    let counts = &topic.counts;
    match column {
        Column::Topic => 0.0,
        Column::Delayed => counts.delayed as f64,
        Column::Ready => counts.ready as f64,
        Column::Reserved => counts.reserved as f64,
        Column::Retry => counts.retry as f64,
        Column::Held => counts.held as f64,
        Column::Dead => counts.dead as f64,
        Column::Waiting => topic.waiting as f64,
        Column::In => flow.into,
        Column::Out => flow.out,
    }
}

fn right(column: Column, text: String) -> Cell<'static> {
    match column {
        Column::Topic => Cell::from(text),
        _ => Cell::from(Line::from(text).right_aligned()),
    }
}

fn row(topic: &Topic, flow: Rates) -> Row<'static> {
    let counts = &topic.counts;
    let name = if topic.paused { format!("{} (paused)", topic.topic) } else { topic.topic.clone() };
    let cells = COLUMNS.map(|(column, _)| {
        let text = match column {
            Column::Topic => name.clone(),
            Column::Delayed => counts.delayed.to_string(),
            Column::Ready => counts.ready.to_string(),
            Column::Reserved => counts.reserved.to_string(),
            Column::Retry => counts.retry.to_string(),
            Column::Held => counts.held.to_string(),
            Column::Dead => counts.dead.to_string(),
            Column::Waiting => topic.waiting.to_string(),
            Column::In => rate(Some(flow.into)),
            Column::Out => rate(Some(flow.out)),
        };
        let cell = right(column, text);
        if column == Column::Dead && counts.dead > 0 { cell.fg(Color::Red) } else { cell }
    });
    Row::new(cells)
}

fn rate(rate: Option<f64>) -> String {
    match rate {
        None => "–".into(),
        Some(rate) if rate > 0.0 && rate < 10.0 => format!("{rate:.1}"),
        Some(rate) => format!("{rate:.0}"),
    }
}

fn sums_of<'a>(earlier: &Look, look: &'a Look) -> Paragraph<'a> {
    let counts = &look.stats.counts;
    let jobs = format!(
        "jobs      delayed {}  ready {}  reserved {}  retry {}  held {}  dead {}  finished {}",
        counts.delayed,
        counts.ready,
        counts.reserved,
        counts.retry,
        counts.held,
        counts.dead,
        counts.finished
    );
    let of = |name| rate(look.rate(earlier, name));
    let rates = format!(
        "a second  added {}  handed out {}  finished {}  failed {}  timed out {}  died {}  deleted {}",
        of("added"),
        of("handed_out"),
        of("finished"),
        of("failed"),
        of("timed_out"),
        of("died"),
        of("deleted")
    );
    let [ours, theirs] = look.lateness(earlier).map(|bounds| match bounds {
        None => "–".to_owned(),
        Some([half, most]) => format!("p50 {} p99 {}", bound(half), bound(most)),
    });
    let late = format!("late      due to ready: {ours}   ready to handed out: {theirs}");
    let oldest = match &look.stats.oldest_ready {
        None => "nothing is ready".to_owned(),
        Some(oldest) => {
            let ms = look.ms_since(&oldest.due);
            format!("the oldest is {:.1} s late, in {}", ms as f64 / 1000.0, oldest.topic)
        }
    };
    let waiting = format!("waiting   {} calls wait for jobs; {oldest}", look.stats.waiting);
    Paragraph::new([jobs, rates, late, waiting].map(Line::from).to_vec())
}

fn bound(ms: f64) -> String {
    match ms {
        _ if !ms.is_finite() => "more".into(),
        _ if ms >= 1000.0 => format!("≤{}s", ms / 1000.0),
        _ => format!("≤{ms}ms"),
    }
}

fn chart_of(look: &Look, area: Rect, buffer: &mut Buffer) {
    if area.height == 0 {
        return;
    }
    let (all, most) = (look.due.iter().sum::<u64>(), look.due.iter().max().copied().unwrap_or(0));
    let title = format!(" due in the next hour: {all}, at most {most} a minute ");
    // As wide as it may be, each minute alike.
    let wide = (usize::from(area.width) / look.due.len().max(1)).max(1);
    let data: Vec<u64> = look.due.iter().flat_map(|count| vec![*count; wide]).collect();
    let block = Block::new().borders(Borders::TOP).title(title);
    Sparkline::default().block(block).data(&data).render(area, buffer);
}

fn nodes_of(look: &Look) -> Table<'_> {
    let rows = look.nodes.iter().take(NODES_SHOWN).map(|node| {
        let heard = format!("{:.1} s ago", look.ms_since(&node.heard) as f64 / 1000.0);
        Row::new([
            node.name.clone(),
            node.roles.join(","),
            node.address.clone().unwrap_or_default(),
            node.version.clone(),
            node.load.to_string(),
            node.bucket_count.to_string(),
            heard,
        ])
    });
    let widths = [
        Constraint::Fill(1),
        Constraint::Length(18),
        Constraint::Length(21),
        Constraint::Length(10),
        Constraint::Length(10),
        Constraint::Length(8),
        Constraint::Length(12),
    ];
    let heads = Row::new(["NODE", "ROLES", "ADDRESS", "VERSION", "LOAD", "BUCKETS", "HEARD"]);
    let title = format!(" nodes: {} ", look.nodes.len());
    Table::new(rows, widths).header(heads).block(Block::new().borders(Borders::TOP).title(title))
}
