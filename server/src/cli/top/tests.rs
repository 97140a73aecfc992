use ratatui::Terminal;
use ratatui::backend::TestBackend;
use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

use super::*;
use crate::cli::json::Object;
use crate::config::Config;

/// A real server, and one who asks it.
struct World {
    client: Client,
    _running: crate::serve::Running,
    _runtime: tokio::runtime::Runtime,
    _folder: tempfile::TempDir,
}

impl World {
    fn start() -> World {
        let folder = tempfile::tempdir().unwrap();
        let store = folder.path().join("store").into();
        let listen = "127.0.0.1:0".parse().unwrap();
        let config = Config { listen, store, ..Config::defaults() };
        let runtime = tokio::runtime::Runtime::new().unwrap();
        let running = runtime.block_on(async {
            let mut running = crate::serve::start(config).await.unwrap();
            running.ready().await.unwrap();
            running
        });
        let client = Remote::to(&format!("http://{}", running.address())).unwrap();
        World { client, _running: running, _runtime: runtime, _folder: folder }
    }

    fn add(&self, topic: &str, id: &str, delay: &str) {
        let job = Object::default().with("topic", topic).with("id", id).with("delay", delay);
        self.client.post("/v1/jobs", &job).unwrap();
    }

    fn look(&self, view: &View) -> Looked {
        Look::at(&self.client, &view.wish()).map_err(|why| why.to_string())
    }
}

fn view() -> View {
    View::new("http://queue:7300".into(), view::Column::Ready, String::new())
}

/// What is on a screen of this size.
fn screen(view: &View, width: u16, height: u16) -> String {
    let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
    terminal.draw(|frame| frame.render_widget(view, frame.area())).unwrap();
    terminal.backend().to_string()
}

fn press(view: &mut View, keys: &str) {
    for letter in keys.chars() {
        let code = if letter == '\n' { KeyCode::Enter } else { KeyCode::Char(letter) };
        assert_eq!(view.press(KeyEvent::new(code, KeyModifiers::NONE)), Flow::On);
    }
}

/// The names of topics, from top to bottom.
fn topics(view: &View, names: &[&str]) -> Vec<String> {
    let screen = screen(view, 120, 40);
    let first = |line: &str| line.trim_matches('"').split_whitespace().next().map(str::to_owned);
    let names: Vec<_> = names.iter().map(|name| (*name).to_owned()).collect();
    screen.lines().filter_map(first).filter(|first| names.contains(first)).collect()
}

#[test]
fn a_frame_shows_what_the_server_says() {
    let (world, mut view) = (World::start(), view());
    assert!(screen(&view, 120, 40).contains("asking …"));
    view.take(world.look(&view));
    for id in ["1", "2", "3"] {
        world.add("orders", id, "10m");
    }
    world.add("支付宝", "1", "0s");
    world.client.post("/v1/topics/mail/pause", &Object::default()).unwrap();
    // Rates need time to have passed.
    let before = world.look(&view).unwrap().now_ms();
    while world.look(&view).unwrap().now_ms() == before {}
    view.take(world.look(&view));
    let shown = screen(&view, 120, 40);
    for part in [
        "http://queue:7300",
        "delayed 3  ready 1  reserved 0",
        "due in the next hour: 3, at most 3 a minute",
        "topics: 3",
        "mail (paused)",
        "nodes: 1",
        "api,timer,worker",
        "READY▼",
        "0 calls wait for jobs; ",
        "q quit",
    ] {
        assert!(shown.contains(part), "no `{part}` in\n{shown}");
    }
    let rate = shown.lines().find(|line| line.contains("a second")).unwrap();
    assert!(!rate.contains("added 0") && rate.contains("finished 0"), "{rate}");
    assert_eq!(topics(&view, &["支付宝", "orders", "mail"]), ["支付宝", "mail", "orders"]);
    let text = plain(&view, WIDTH, view.height());
    assert!(text.lines().any(|line| line.starts_with("支付宝 ")), "{text}");
    assert!(text.lines().all(|line| line.trim_end() == line), "{text}");
    assert!(text.contains("q quit") && text.contains("orders") && text.contains("NODE"), "{text}");
}

#[test]
fn keys_sort_filter_pause_and_quit() {
    let (world, mut view) = (World::start(), view());
    for (topic, jobs) in [("ta", 1), ("tb", 3), ("tc", 2)] {
        (0..jobs).for_each(|n| world.add(topic, &n.to_string(), "10m"));
    }
    view.take(world.look(&view));
    let names = ["ta", "tb", "tc"];
    assert_eq!(topics(&view, &names), ["ta", "tb", "tc"]);
    // From ready back to delayed: the most first, and then the other way round.
    view.press(KeyEvent::new(KeyCode::Left, KeyModifiers::NONE));
    assert_eq!(topics(&view, &names), ["tb", "tc", "ta"]);
    press(&mut view, "r");
    assert_eq!(topics(&view, &names), ["ta", "tc", "tb"]);
    press(&mut view, "r/tb");
    assert!(screen(&view, 120, 40).contains("topics that begin with: tb"));
    assert_eq!(view.wish().prefix, "");
    press(&mut view, "\n");
    assert_eq!(view.wish().prefix, "tb");
    view.take(world.look(&view));
    assert_eq!(topics(&view, &names), ["tb"]);
    view.press(KeyEvent::new(KeyCode::Esc, KeyModifiers::NONE));
    press(&mut view, "p");
    view.take(world.look(&view));
    assert_eq!(topics(&view, &names), ["tb"], "it is paused");
    assert!(screen(&view, 120, 40).contains("PAUSED"));
    press(&mut view, "p");
    view.take(world.look(&view));
    assert_eq!(topics(&view, &names), ["tb", "tc", "ta"]);
    view.press(KeyEvent::new(KeyCode::Down, KeyModifiers::NONE));
    assert_eq!(topics(&view, &names), ["tc", "ta"]);
    for quit in [
        KeyEvent::new(KeyCode::Char('q'), KeyModifiers::NONE),
        KeyEvent::new(KeyCode::Char('c'), KeyModifiers::CONTROL),
    ] {
        assert_eq!(view.press(quit), Flow::Quit);
    }
}

#[test]
fn a_server_that_is_away_is_said_to_be_and_what_was_known_stays() {
    let (world, mut view) = (World::start(), view());
    world.add("orders", "1", "10m");
    view.take(world.look(&view));
    view.take(Err("no server answers at http://queue:7300".into()));
    let shown = screen(&view, 160, 40);
    assert!(shown.contains("AWAY for 0 s, asking again: no server answers"), "{shown}");
    assert!(shown.contains("orders"), "{shown}");
    view.take(world.look(&view));
    assert!(!screen(&view, 160, 40).contains("AWAY"));
}

#[test]
fn a_small_screen_keeps_the_topics() {
    let (world, mut view) = (World::start(), view());
    world.add("orders", "1", "10m");
    view.take(world.look(&view));
    assert!(screen(&view, 80, 12).contains("orders"));
    for (width, height) in [(1, 1), (10, 3), (80, 5), (500, 200)] {
        screen(&view, width, height);
    }
}
