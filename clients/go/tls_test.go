package linger_test

import (
	"crypto/tls"
	"crypto/x509"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"linger.dev/go"
)

// authority has openssl make an authority, and a certificate by it for 127.0.0.1.
func authority(t *testing.T, folder string) {
	t.Helper()
	for _, line := range []string{
		"req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 30 -subj /CN=authority -keyout ca-key.pem -out ca.pem",
		"req -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -subj /CN=server -addext subjectAltName=IP:127.0.0.1 -keyout key.pem -out request.pem",
		"x509 -req -in request.pem -CA ca.pem -CAkey ca-key.pem -CAcreateserial -days 30 -copy_extensions copy -out cert.pem",
	} {
		openssl := exec.Command("openssl", strings.Fields(line)...)
		openssl.Dir = folder
		if out, err := openssl.CombinedOutput(); err != nil {
			t.Fatalf("openssl %s: %v: %s", line, err, out)
		}
	}
}

func TestAServerIsTrustedByAnAuthorityOfOnesOwn(t *testing.T) {
	folder := t.TempDir()
	authority(t, folder)
	server := start(t, nil, "--set", "tls.cert="+filepath.Join(folder, "cert.pem"), "--set", "tls.key="+filepath.Join(folder, "key.pem"))
	if !strings.HasPrefix(server.url, "https://") {
		t.Fatal(server.url)
	}
	if _, err := connect(t, server.url).Topics(within(t), linger.TopicFilter{}); !isUnreached(err) {
		t.Fatalf("a server is trusted whom nobody vouches for: %v", err)
	}
	trusted := x509.NewCertPool()
	if !trusted.AppendCertsFromPEM(readFile(t, filepath.Join(folder, "ca.pem"))) {
		t.Fatal("no certificate")
	}
	c := client(t, linger.Options{Servers: []string{server.url}, TLS: &tls.Config{RootCAs: trusted}})
	must(c.Topics(within(t), linger.TopicFilter{}))(t)
}
