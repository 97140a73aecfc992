use super::*;

const BODY_MAX: usize = 10;

/// All commands in these bytes, and what is left.
fn read(bytes: &[u8]) -> (Vec<Command>, usize) {
    let (mut parser, mut input) = (Parser::default(), BytesMut::from(bytes));
    let commands = std::iter::from_fn(|| parser.next(&mut input, BODY_MAX)).collect();
    (commands, input.len())
}

#[track_caller]
fn one(line: &str) -> Command {
    let (mut commands, left) = read(format!("{line}\r\n").as_bytes());
    assert_eq!((commands.len(), left), (1, 0), "{line}");
    commands.remove(0)
}

fn topic(name: &str) -> Topic {
    name.parse().unwrap()
}

const BAD: Command = Command::Refused(Refusal::BadFormat(None));
const UNKNOWN: Command = Command::Refused(Refusal::UnknownCommand);

#[test]
fn every_command_is_read() {
    for (line, command) in [
        ("use a", Command::Use(topic("a"))),
        ("reserve", Command::Reserve { timeout_s: None }),
        ("reserve-with-timeout 0", Command::Reserve { timeout_s: Some(0) }),
        ("reserve-with-timeout 2147483647", Command::Reserve { timeout_s: Some(i32::MAX as u32) }),
        ("reserve-job 7", Command::ReserveJob(7)),
        ("delete 18446744073709551615", Command::Delete(u64::MAX)),
        ("release 1 2 3", Command::Release { number: 1, priority: 2, delay_s: 3 }),
        ("bury 1 4294967295", Command::Bury { number: 1, priority: u32::MAX }),
        ("touch 1", Command::Touch(1)),
        ("watch a", Command::Watch(topic("a"))),
        ("ignore a", Command::Ignore(topic("a"))),
        ("peek 1", Command::Peek(1)),
        ("peek-ready", Command::PeekNext(Shelf::Ready)),
        ("peek-delayed", Command::PeekNext(Shelf::Delayed)),
        ("peek-buried", Command::PeekNext(Shelf::Buried)),
        ("kick 5", Command::Kick(5)),
        ("kick-job 5", Command::KickJob(5)),
        ("stats", Command::Stats),
        ("stats-job 5", Command::StatsJob(5)),
        ("stats-tube a", Command::StatsTube(topic("a"))),
        ("list-tubes", Command::ListTubes),
        ("list-tube-used", Command::ListTubeUsed),
        ("list-tubes-watched", Command::ListTubesWatched),
        ("pause-tube a 60", Command::PauseTube { tube: topic("a"), pause_s: 60 }),
        ("quit", Command::Quit),
        // The tube of a topic that has no name there.
        ("use $E6$94$AF", Command::Use(topic("支"))),
    ] {
        assert_eq!(one(line), command, "{line}");
    }
}

#[test]
fn odd_corners_are_as_there() {
    for (line, command) in [
        ("delete   7", Command::Delete(7)),
        ("release  1  2  3", Command::Release { number: 1, priority: 2, delay_s: 3 }),
        ("reserve-with-timeout 5 and more", Command::Reserve { timeout_s: Some(5) }),
        ("kick 5x", Command::Kick(5)),
        ("kick \t+5", Command::Kick(5)),
        ("kick -1", Command::Kick(u32::MAX)),
        ("kick 4294967297", Command::Kick(1)),
        ("pause-tubea 1", Command::PauseTube { tube: topic("a"), pause_s: 1 }),
        ("quitting", Command::Quit),
        ("pause-tube -a 1", Command::Refused(Refusal::BadFormat(Some(Op::PauseTube)))),
    ] {
        assert_eq!(one(line), command, "{line}");
    }
}

#[test]
fn what_is_wrong_is_told_apart() {
    for line in [
        "peek a",
        "peek -1",
        "peek ",
        "peek 1 ",
        "peek 1 2",
        "peek 18446744073709551616",
        "peek-ready 1",
        "peek-readyx",
        "reserve ",
        "reserve-now",
        "reserve-job",
        "reserve-job x",
        "reserve-with-timeout x",
        "reserve-with-timeout -1",
        "reserve-with-timeout 2147483648",
        "delete x",
        "release 1 2",
        "release 1 2 3 4",
        "release 1 4294967296 0",
        "bury 1",
        "bury 1 2 3",
        "touch x",
        "kick x",
        "kick -",
        "kick 99999999999999999999",
        "kick-job x",
        "stats-tube",
        "stats-tube -a",
        "stats-job",
        "stats x",
        "use  a",
        "use a b",
        "use -a",
        "use ",
        "use a\rb",
        "watch é",
        "ignore a,b",
        "list-tubes x",
        "list-tube-used x",
        "list-tubes-watchedx",
        "pause-tube",
        "pause-tube a",
        "pause-tube a x",
        "pause-tube a 1 2",
        "put 1 2 3",
        "put x 2 3 4",
        "put 1 2 3 x",
        "put 4294967296 1 1 1",
        "put 1 2 -3 4",
        "put ",
        "use a\0",
        "\0",
    ] {
        assert_eq!(one(line), BAD, "{line}");
    }
    for line in ["", " ", "put", "PUT 1 1 1 1", "use", "kick", "delete", "list", "hello", " stats"]
    {
        assert_eq!(one(line), UNKNOWN, "{line}");
    }
}

#[test]
fn names_have_up_to_200_bytes() {
    let name = "x".repeat(200);
    assert_eq!(one(&format!("use {name}")), Command::Use(topic(&name)));
    assert_eq!(one(&format!("use {name}x")), BAD);
    assert_eq!(
        one(&format!("pause-tube {name}x 1")),
        Command::Refused(Refusal::BadFormat(Some(Op::PauseTube)))
    );
}

#[test]
fn a_line_has_up_to_224_bytes() {
    let long = |bytes: usize| format!("peek {}1", "0".repeat(bytes - "peek 1\r\n".len()));
    assert_eq!(one(&long(224)), Command::Peek(1));
    assert_eq!(one(&long(225)), BAD);
    assert_eq!(one(&long(10_000)), BAD);
    let (commands, left) = read(format!("{}\r\nstats\r\n", "x".repeat(224)).as_bytes());
    assert_eq!((commands, left), (vec![BAD, Command::Stats], 0));
}

#[test]
fn a_put_has_its_body() {
    let put = |body: &'static [u8]| {
        let body = Bytes::from_static(body);
        Command::Put(Put { priority: 1, delay_s: 2, ttr_s: 3, body })
    };
    let bytes = b"put 1 2 3 5\r\nhello\r\nput 1 2 3 0\r\n\r\nput 1 2 3 2\r\n\r\n\r\nstats\r\n";
    assert_eq!(read(bytes), (vec![put(b"hello"), put(b""), put(b"\r\n"), Command::Stats], 0));
}

#[test]
fn a_body_that_goes_on_is_refused_and_what_follows_is_a_line() {
    let (commands, left) = read(b"put 1 2 3 5\r\nhello, you\r\nstats\r\n");
    let refused = Command::Refused(Refusal::ExpectedCrlf);
    assert_eq!((commands, left), (vec![refused.clone(), UNKNOWN, Command::Stats], 0));
    assert_eq!(refused.op(), Some(Op::Put));
}

#[test]
fn a_body_that_is_too_big_is_thrown_away() {
    let too_big = Command::Refused(Refusal::JobTooBig);
    let bytes = b"put 1 2 3 11\r\nhello world\r\nput 0 0 1 99 x\r\n";
    let (commands, left) = read(bytes);
    assert_eq!((commands, left), (vec![too_big.clone()], 0));
    let (mut parser, mut input) = (Parser::default(), BytesMut::from(&bytes[..]));
    while parser.next(&mut input, BODY_MAX).is_some() {}
    assert_eq!(parser.amid(&input), Amid::Body);
    for _ in 0..100 {
        input.extend_from_slice(b".");
        assert_eq!(parser.next(&mut input, BODY_MAX), None);
    }
    input.extend_from_slice(b".stats\r\n");
    assert_eq!(parser.next(&mut input, BODY_MAX), Some(too_big));
    assert_eq!(parser.next(&mut input, BODY_MAX), Some(Command::Stats));
}

#[test]
fn something_behind_a_put_leaves_its_body_to_be_a_line() {
    let counted = Command::Refused(Refusal::BadFormat(Some(Op::Put)));
    assert_eq!(read(b"put 1 2 3 4 5\r\nstats\r\n"), (vec![counted, Command::Stats], 0));
}

#[test]
fn a_browser_is_shown_the_door() {
    for line in ["POST / HTTP/1.1", "GET /x HTTP/1.1", "OPTIONS * HTTP/1.1"] {
        assert_eq!(one(line), Command::Quit, "{line}");
    }
    let long = format!("POST /{} HTTP/1.1\r\nstats\r\n", "x".repeat(500));
    assert_eq!(read(long.as_bytes()).0.first(), Some(&Command::Quit));
}

#[test]
fn what_it_waits_for_is_known() {
    let (mut parser, mut input) = (Parser::default(), BytesMut::new());
    assert_eq!(parser.amid(&input), Amid::Nothing);
    input.extend_from_slice(b"put 1 1");
    assert_eq!((parser.next(&mut input, BODY_MAX), parser.amid(&input)), (None, Amid::Line));
    input.extend_from_slice(b" 1 5\r\nab");
    assert_eq!((parser.next(&mut input, BODY_MAX), parser.amid(&input)), (None, Amid::Body));
    assert_eq!(parser.lacks(&input), 5);
}

/// However the bytes come, the commands are the same.
#[test]
fn where_the_bytes_are_cut_does_not_matter() {
    let long = format!("{}\r\n", "y".repeat(500));
    let story = [
        "put 1 2 3 5\r\nhello\r\nuse a\r\nput 1 2 3 50\r\n",
        &"z".repeat(52),
        "peek 1\r\n",
        &long,
        "\r\n\rstats\r\nput 1 2 3 4\r\nwrong\r\nreserve\r\n\r\r\n",
    ]
    .concat();
    let (whole, _) = read(story.as_bytes());
    assert!(whole.len() > 8);
    for step in 1..story.len() {
        let (mut parser, mut input) = (Parser::default(), BytesMut::new());
        let mut commands = Vec::new();
        for piece in story.as_bytes().chunks(step) {
            input.extend_from_slice(piece);
            commands.extend(std::iter::from_fn(|| parser.next(&mut input, BODY_MAX)));
        }
        assert_eq!(commands, whole, "in pieces of {step}");
    }
}
