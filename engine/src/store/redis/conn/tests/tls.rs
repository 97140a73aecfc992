use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};

use super::redis_servers::{Server, free_port, there};
use super::*;

struct Papers {
    folder: tempfile::TempDir,
}

impl Papers {
    /// A CA, and a certificate for `127.0.0.1` that it has signed.
    fn new() -> Papers {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let mut params = CertificateParams::default();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let key = KeyPair::generate().expect("a key");
        let ca = CertifiedIssuer::self_signed(params, key).expect("a certificate");
        let key = KeyPair::generate().expect("a key");
        let params = CertificateParams::new(["127.0.0.1".to_owned()]).expect("a name");
        let certificate = params.signed_by(&key, &ca).expect("a certificate");
        let papers = Papers { folder };
        for (name, text) in
            [("ca", ca.pem()), ("cert", certificate.pem()), ("key", key.serialize_pem())]
        {
            std::fs::write(papers.file(name), text).expect("the folder can be written to");
        }
        papers
    }

    fn file(&self, name: &str) -> String {
        self.folder.path().join(name).display().to_string()
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_with_tls_is_reached_if_its_ca_is_known() {
    if !there() {
        return;
    }
    let papers = Papers::new();
    let port = free_port();
    let server = Server::start(&[
        "--tls-port",
        &port.to_string(),
        "--tls-cert-file",
        &papers.file("cert"),
        "--tls-key-file",
        &papers.file("key"),
        "--tls-auth-clients",
        "no",
    ]);
    let url = format!("rediss://127.0.0.1:{port}");
    let conn = open(&format!("{url}?ca={}", papers.file("ca"))).await;
    assert_eq!(count(&conn, "n").await, Ok(1));
    let mut heard = conn.subscribe(vec![b"c".into()]).await.expect("it is there");
    server.ask(&["SPUBLISH", "c", "x"]);
    assert_eq!(hear(&mut heard).await, message("c", "x"));

    let error = refusal(&url).await;
    assert_eq!(error.code(), Code::Unavailable);
    assert!(error.message().contains("certificate"), "{error}");

    let error = refusal(&format!("{url}?ca={}", papers.file("key"))).await;
    assert_eq!(error, Error::invalid("store", ""));
    assert!(error.message().contains("no certificate"), "{error}");
    let error = refusal(&format!("{url}?ca=/nowhere")).await;
    assert!(error.message().contains("`/nowhere` cannot be used"), "{error}");
}
