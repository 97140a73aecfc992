//! curl and our own command line, by https.

use std::path::Path;
use std::process::Command;

use crate::authority::{Authority, Files, Identity};
use crate::served::Served;

/// A server by TLS that wants to see certificates, or not.
struct Shop {
    served: Served,
    files: Files,
    folder: tempfile::TempDir,
    own: Identity,
}

impl Shop {
    async fn open(is_mutual: bool) -> Shop {
        let folder = tempfile::tempdir().unwrap();
        let authority = Authority::new();
        let files = Files::new(folder.path(), &authority, &authority.sign());
        let mut sets = vec![("tls.cert", &files.cert), ("tls.key", &files.key)];
        if is_mutual {
            sets.push(("tls.client_ca", &files.ca));
        }
        let args: Vec<String> = sets
            .iter()
            .flat_map(|(key, file)| ["--set".to_owned(), format!("{key}={}", file.display())])
            .collect();
        let args: Vec<&str> = args.iter().map(String::as_str).collect();
        let served = Served::start(&folder.path().join("data"), &args).await;
        Shop { served, files, own: authority.sign(), folder }
    }

    fn url(&self, scheme: &str) -> String {
        let port = self.served.address.rsplit(':').next().unwrap();
        format!("{scheme}://localhost:{port}")
    }

    fn own(&self) -> (String, String) {
        let put = |name: &str, text: &str| {
            let file = self.folder.path().join(name);
            std::fs::write(&file, text).unwrap();
            file.display().to_string()
        };
        (put("own.pem", &self.own.cert), put("own-key.pem", &self.own.key))
    }
}

/// Runs `linger`, and answers how it ended and what it said.
fn linger(args: &[&str], ca: Option<&Path>) -> (Option<i32>, String, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_linger"));
    command.args(args).env_clear();
    if let Some(ca) = ca {
        command.env("LINGER_CA", ca);
    }
    let ran = command.output().unwrap();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (ran.status.code(), text(&ran.stdout), text(&ran.stderr))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_command_line_calls_by_https() {
    let shop = Shop::open(false).await;
    let (url, ca) = (shop.url("https"), shop.files.ca.display().to_string());
    let (code, _, err) = linger(&["add", "t", "--id", "1", "--server", &url, "--ca", &ca], None);
    assert_eq!(code, Some(0), "{err}");
    let (code, out, err) = linger(&["get", "t", "1", "--server", &url], Some(&shop.files.ca));
    assert_eq!(code, Some(0), "{err}");
    assert!(out.contains("ready"), "{out}");
    // Nobody it trusts has signed that.
    let (code, _, err) = linger(&["get", "t", "1", "--server", &url], None);
    assert_eq!(code, Some(2));
    assert!(err.contains("could not make a secure connection") && err.contains("--ca"), "{err}");
    let (code, _, err) = linger(&["topics", "--server", &shop.url("http")], None);
    assert_eq!(code, Some(2));
    assert!(err.contains("this port is served by TLS"), "{err}");
    shop.served.kill();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_command_line_shows_a_certificate_if_it_is_asked_for_one() {
    let shop = Shop::open(true).await;
    let (url, ca) = (shop.url("https"), shop.files.ca.display().to_string());
    let (cert, key) = shop.own();
    let add = ["add", "t", "--server", &url, "--ca", &ca];
    let own = ["--client-cert", &cert, "--client-key", &key];
    let (code, _, err) = linger(&[&add[..], &own[..]].concat(), None);
    assert_eq!(code, Some(0), "{err}");
    let (code, _, err) = linger(&add, None);
    assert_eq!(code, Some(2));
    assert!(err.contains("--client-cert"), "{err}");
    let (code, _, err) = linger(&[&add[..], &own[..2]].concat(), None);
    assert_eq!(code, Some(2));
    assert!(err.contains("give the key of the certificate too"), "{err}");
    shop.served.kill();
}

#[test]
fn the_doctor_looks_at_certificates() {
    use std::os::unix::fs::PermissionsExt;
    let folder = tempfile::tempdir().unwrap();
    let authority = Authority::new();
    let files = Files::new(folder.path(), &authority, &authority.sign());
    let doctor = || {
        let set = |key: &str, file: &Path| format!("--set={key}={}", file.display());
        let (cert, key) = (set("tls.cert", &files.cert), set("tls.key", &files.key));
        let store = folder.path().join("data").display().to_string();
        let args = ["doctor", "--listen", "127.0.0.1:0", "--store", &store, &cert, &key];
        linger(&args, None).1
    };
    let may_read = |mode| {
        std::fs::set_permissions(&files.key, std::fs::Permissions::from_mode(mode)).unwrap();
    };
    may_read(0o600);
    assert!(doctor().contains("the certificate can be used, with its key"), "{}", doctor());
    may_read(0o644);
    assert!(doctor().contains("everybody on this machine can read the key"), "{}", doctor());
    files.put(&Identity { cert: authority.sign().cert, key: authority.sign().key });
    assert!(doctor().contains("PROBLEM  TLS"), "{}", doctor());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn curl_calls_by_https() {
    if Command::new("curl").arg("--version").output().is_err() {
        assert!(std::env::var_os("CI").is_none(), "curl is not installed");
        return eprintln!("skipped: curl is not installed (./test installs it)");
    }
    let shop = Shop::open(false).await;
    let url = format!("{}/v1/jobs", shop.url("https"));
    let curl = |args: &[&str]| {
        let mut command = Command::new("curl");
        // Whatever proxy there may be has no business here.
        command.args(["--noproxy", "*"]);
        command.args(["-sS", "-o", "/dev/null", "-w", "%{http_code} %{http_version}"]);
        let ran = command.args(args).args(["-d", r#"{"topic":"t"}"#, &url]).output().unwrap();
        eprint!("{}", String::from_utf8_lossy(&ran.stderr));
        (ran.status.success(), String::from_utf8_lossy(&ran.stdout).into_owned())
    };
    let ca = shop.files.ca.display().to_string();
    assert_eq!(curl(&["--cacert", &ca, "--http1.1"]), (true, "201 1.1".into()));
    // Not every curl can do that.
    let can_http2 = Command::new("curl").arg("--version").output().unwrap();
    if String::from_utf8_lossy(&can_http2.stdout).contains("HTTP2") {
        assert_eq!(curl(&["--cacert", &ca]), (true, "201 2".into()));
    }
    assert!(!curl(&[]).0, "it trusts a stranger");
    shop.served.kill();
}
