//! One frame of the live view, and the manual.

use crate::run::{done, run};
use crate::served::Served;

#[tokio::test(flavor = "multi_thread")]
async fn one_frame_is_printed_as_text_for_scripts() {
    let folder = tempfile::tempdir().unwrap();
    let server = Served::start(&folder.path().join("store"), &[]).await;
    let caller = server.caller();
    caller.post("/v1/jobs", r#"{"topic":"orders","id":"1","delay":"5m"}"#).await.ok(201);
    caller.post("/v1/jobs", r#"{"topic":"mail","id":"1"}"#).await.ok(201);
    let url = format!("http://{}", server.address);
    let frame = done(&["top", "--once", "--every", "200ms", "--server", &url]);
    let row = |name: &str| frame.lines().find(|line| line.starts_with(name)).map(str::to_owned);
    for (name, parts) in [
        ("linger top", &url[..]),
        ("orders", " 1 "),
        ("jobs ", "delayed 1  ready 1"),
        ("NODE", "LOAD"),
    ] {
        let row = row(name).unwrap_or_else(|| panic!("no {name} in\n{frame}"));
        assert!(row.contains(parts), "{row}");
    }
    let few = done(&["top", "--once", "--every", "200ms", "--filter", "or", "--server", &url]);
    assert!(few.contains("orders") && !few.contains("\nmail"), "{few}");
    let json = done(&["top", "--json", "--every", "200ms", "--server", &url]);
    let json: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert_eq!(json["stats"]["counts"]["delayed"], 1);

    let pipe = run(&["top", "--server", &url]);
    assert_eq!((pipe.code, pipe.out.as_str()), (2, ""));
    assert!(pipe.err.contains("stdout is no terminal; print one frame with --once"), "{pipe:?}");
    server.kill();
    let away = run(&["top", "--once", "--server", &url]);
    assert!(away.code == 2 && away.err.contains("no server answers"), "{away:?}");
}

#[test]
fn there_is_a_page_of_the_manual_for_every_verb() {
    let page = done(&["man"]);
    for part in [".TH linger 1", "linger\\-serve(1)", "Exit codes"] {
        assert!(page.contains(part), "no {part} in {page}");
    }
    let folder = tempfile::tempdir().unwrap();
    let pages = folder.path().join("man1");
    done(&["man", "--dir", pages.to_str().unwrap()]);
    let help = done(&["--help"]);
    let verbs = help.lines().skip_while(|line| *line != "Commands:").skip(1);
    let verbs: Vec<_> = verbs
        .take_while(|line| !line.is_empty())
        // What goes on in the next line is no verb.
        .filter(|line| line.starts_with("  ") && !line.starts_with("   "))
        .filter_map(|line| line.split_whitespace().next())
        .filter(|verb| *verb != "help")
        .collect();
    assert!(verbs.len() > 30, "{verbs:?}");
    for verb in verbs {
        let page = std::fs::read_to_string(pages.join(format!("linger-{verb}.1")));
        let page = page.unwrap_or_else(|_| panic!("there is no page of {verb}"));
        assert!(page.contains("\nExample"), "{verb}: {page}");
    }
}
