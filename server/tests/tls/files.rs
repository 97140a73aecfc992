//! Certificates that change while the server runs, and files that are wrong.

use std::fs;
use std::net::SocketAddr;
use std::time::Duration;

use linger_server::config::Config;
use linger_server::serve;
use rustix::process::Signal;
use rustls::pki_types::CertificateDer;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use crate::authority::{Authority, Files, Identity};
use crate::served::Served;
use crate::server::{PATIENCE, Server, connect};

/// The certificate that a new connection gets.
async fn shown(address: &str, authority: &Authority) -> CertificateDer<'static> {
    let stream = connect(address, authority.client(&[], None)).await.expect("they agree");
    stream.get_ref().1.peer_certificates().expect("one is shown")[0].clone()
}

#[tokio::test]
async fn new_files_are_noticed() {
    let often = Duration::from_millis(10);
    let server = Server::with(|config, _| config.tls.poll = often).await;
    let address = server.address().to_string();
    let mut before = server.connect(&["http/1.1"]).await;
    assert_eq!(shown(&address, &server.authority).await, server.identity.der());
    let new = server.authority.sign();
    server.files.put(&new);
    let taken_up = async {
        while shown(&address, &server.authority).await != new.der() {
            tokio::time::sleep(often).await;
        }
    };
    tokio::time::timeout(PATIENCE, taken_up).await.expect("the new one is shown");
    // Whoever was there before stays.
    before.write_all(b"GET /healthz HTTP/1.1\r\nhost: localhost\r\n\r\n").await.unwrap();
    let mut answer = [0; 12];
    before.read_exact(&mut answer).await.unwrap();
    assert_eq!(&answer, b"HTTP/1.1 200");
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_hangup_has_the_files_read_again_and_what_is_wrong_changes_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let authority = Authority::new();
    let (old, new) = (authority.sign(), authority.sign());
    let files = Files::new(folder.path(), &authority, &old);
    let set = |key: &str, value: &std::path::Path| format!("{key}={}", value.display());
    let (cert, key) = (set("tls.cert", &files.cert), set("tls.key", &files.key));
    let args = ["--set", &cert, "--set", &key, "--set", "tls.poll=1h"];
    let mut served = Served::start(&folder.path().join("data"), &args).await;
    assert!(served.greeting.contains("https://"), "{}", served.greeting);
    assert_eq!(shown(&served.address, &authority).await, old.der());
    for (cert, key, told) in [
        ("nonsense", old.key.as_str(), "cannot use the certificate in"),
        (new.cert.as_str(), old.key.as_str(), "with the private key in"),
        (new.cert.as_str(), "", "cannot use the private key in"),
    ] {
        files.put(&Identity { cert: cert.into(), key: key.into() });
        served.signal(Signal::HUP);
        let line = served.says("the TLS certificates stay as they were").await;
        assert!(line.contains(told), "{line}");
        assert_eq!(shown(&served.address, &authority).await, old.der());
    }
    fs::remove_file(&files.cert).unwrap();
    served.signal(Signal::HUP);
    let line = served.says("the TLS certificates stay as they were").await;
    assert!(line.contains("cannot read") && line.contains("cert.pem"), "{line}");
    files.put(&new);
    served.signal(Signal::HUP);
    served.says("the TLS certificates were read").await;
    assert_eq!(shown(&served.address, &authority).await, new.der());
    served.kill();
}

#[tokio::test]
async fn wrong_files_stop_the_start_and_are_named() {
    let folder = tempfile::tempdir().unwrap();
    let authority = Authority::new();
    let files = Files::new(folder.path(), &authority, &authority.sign());
    let other = folder.path().join("other.pem");
    fs::write(&other, authority.sign().key).unwrap();
    let start =
        async |cert: &std::path::Path, key: &std::path::Path, ca: Option<&std::path::Path>| {
            let mut config = Config::defaults();
            config.listen = SocketAddr::from(([127, 0, 0, 1], 0));
            config.store = folder.path().join("data").into();
            config.tls.cert = Some(cert.into());
            config.tls.key = Some(key.into());
            config.tls.client_ca = ca.map(Into::into);
            let Err(why) = serve::start(config).await else { panic!("it starts") };
            format!("{why:#}")
        };
    let (cert, key, none) = (&files.cert, &files.key, folder.path().join("none.pem"));
    for (why, told) in [
        (start(&none, key, None).await, "cannot serve by TLS: cannot read `"),
        (start(cert, &other, None).await, "cannot serve by TLS: cannot use the certificate in `"),
        (start(key, key, None).await, "cannot serve by TLS: cannot use the certificate in `"),
        (start(cert, cert, None).await, "cannot serve by TLS: cannot use the private key in `"),
        (start(cert, key, Some(key)).await, "cannot serve by TLS: cannot use the authorities in `"),
    ] {
        assert!(why.starts_with(told), "{why}");
    }
}
