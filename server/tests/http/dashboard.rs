use std::io::Read;

use hyper::Method;

use crate::client::Server;
use crate::command::told;

const SENT_ALWAYS: [(&str, &str); 6] = [
    (
        "content-security-policy",
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; \
         connect-src 'self'; font-src 'self'; base-uri 'none'; form-action 'none'; \
         frame-ancestors 'none'",
    ),
    ("x-content-type-options", "nosniff"),
    ("referrer-policy", "no-referrer"),
    ("cross-origin-opener-policy", "same-origin"),
    ("cache-control", "no-cache"),
    ("vary", "accept-encoding"),
];

#[tokio::test]
async fn the_page_is_at_the_root_and_guarded() {
    let server = Server::start().await;
    let page = server.get("/").await;
    assert_eq!(page.status, 200);
    assert_eq!(page.headers["content-type"], "text/html; charset=utf-8");
    assert!(page.text.starts_with("<!doctype html>"), "{}", page.text);
    for (name, value) in SENT_ALWAYS {
        assert_eq!(page.headers[name], value);
    }
    let head = server.call(Method::HEAD, "/", "").await;
    assert_eq!((head.status.as_u16(), head.text.as_str()), (200, ""));
    let foreign = [("host", "evil.example")];
    let answer = server.send(Method::GET, "/", &foreign, Vec::new()).await;
    answer.refused(403, "forbidden", None);
    server.stop().await;
}

#[tokio::test]
async fn whoever_has_the_page_is_not_sent_it_again() {
    let server = Server::start().await;
    for accepted in ["identity", "gzip"] {
        let accepted = ("accept-encoding", accepted);
        let (first, _) = server.send_for_bytes(Method::GET, "/", &[accepted], Vec::new()).await;
        let tag = first.headers["etag"].to_str().expect("a tag").to_owned();
        let again = [accepted, ("if-none-match", &tag)];
        let (same, body) = server.send_for_bytes(Method::GET, "/", &again, Vec::new()).await;
        assert_eq!((same.status.as_u16(), body.len()), (304, 0), "{accepted:?}");
        assert_eq!(same.headers["etag"], tag.as_str());
        for (name, value) in SENT_ALWAYS {
            assert_eq!(same.headers[name], value);
        }
        let older = [accepted, ("if-none-match", "\"older\"")];
        let (sent, body) = server.send_for_bytes(Method::GET, "/", &older, Vec::new()).await;
        assert!(sent.status == 200 && !body.is_empty(), "{accepted:?}");
    }
    server.stop().await;
}

#[tokio::test]
async fn what_is_packed_is_the_same() {
    let server = Server::start().await;
    let plain = server.get("/").await;
    assert!(plain.headers.get("content-encoding").is_none());
    let accepted = [("accept-encoding", "br, gzip")];
    let (parts, bytes) = server.send_for_bytes(Method::GET, "/", &accepted, Vec::new()).await;
    assert_eq!(parts.headers["content-encoding"], "gzip");
    assert_ne!(parts.headers["etag"], plain.headers["etag"]);
    let mut text = String::new();
    flate2::read::GzDecoder::new(&bytes[..]).read_to_string(&mut text).expect("gzip");
    assert_eq!(text, plain.text);
    server.stop().await;
}

#[tokio::test]
async fn what_the_page_names_is_there() {
    let server = Server::start().await;
    let page = server.get("/").await.text;
    assert!(!page.contains("://"), "it needs something from elsewhere: {page}");
    for file in
        page.split('"').filter(|word| word.trim_start_matches('/').starts_with("dashboard/"))
    {
        let path = format!("/{}", file.trim_start_matches('/'));
        let (parts, body) = server.send_for_bytes(Method::GET, &path, &[], Vec::new()).await;
        assert!(parts.status == 200 && !body.is_empty(), "{path}");
        for (name, value) in SENT_ALWAYS {
            assert_eq!(parts.headers[name], value, "{path}");
        }
    }
    server.stop().await;
}

#[tokio::test]
async fn nothing_else_is_there() {
    let server = Server::start().await;
    for path in [
        "/dashboard",
        "/dashboard/",
        "/dashboard/none.js",
        "/dashboard/index.html",
        "/dashboard/../x",
        "/dashboard/../Cargo.toml",
        "/dashboard/%2e%2e/Cargo.toml",
        "/dashboard/..%2fCargo.toml",
        "/dashboard//etc/passwd",
        "/dashboard/%ff",
    ] {
        let why = server.get(path).await.refused(404, "not_found", None);
        assert!(why.contains("there is nothing at"), "{path}: {why}");
    }
    server.post("/dashboard/none.js", "").await.refused(405, "invalid", None);
    server.stop().await;
}

#[tokio::test]
async fn the_root_is_shared_with_the_command_protocol() {
    let mut server = Server::start().await;
    let pop = r#"{"command":"pop"}"#;
    assert_eq!(told(server.post("/", pop).await)["success"], true);
    let put = server.call(Method::PUT, "/", "").await;
    assert_eq!(
        (put.status.as_u16(), &put.headers["allow"]),
        (405, &"GET, HEAD, POST".parse().unwrap())
    );
    server.set(|config| config.fronts.command = false);
    server.post("/", pop).await.refused(404, "not_found", None);
    let put = server.call(Method::PUT, "/", "").await;
    assert_eq!((put.status.as_u16(), &put.headers["allow"]), (405, &"GET, HEAD".parse().unwrap()));
    assert_eq!(server.get("/").await.status, 200);
    server.stop().await;
}
