package linger_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"linger.dev/go"
)

// soon is how long anything may take that has to come; nothing is measured against it.
const soon = 30 * time.Second

// The server that tests share, each with topics of its own.
var shared struct {
	once   sync.Once
	folder string
	server *server
	err    error
}

func TestMain(m *testing.M) {
	code := m.Run()
	if shared.server != nil {
		shared.server.stop()
		os.RemoveAll(shared.folder)
	}
	os.Exit(code)
}

// server is a linger that runs.
type server struct {
	url     string
	process *exec.Cmd
	ended   chan struct{}
	said    strings.Builder // to be read when it has ended
}

// binary is the server to test with.
func binary(t testing.TB) string {
	t.Helper()
	path := os.Getenv("LINGER_BIN")
	if path == "" {
		cannot(t, "LINGER_BIN does not name a linger binary")
	}
	return path
}

// cannot skips a test that cannot run; where all have to, it fails.
func cannot(t testing.TB, why string) {
	t.Helper()
	if os.Getenv("CI") == "true" {
		t.Fatal(why)
	}
	t.Skip("skipped: " + why)
}

// launch starts a server and waits until it is ready.
func launch(binary, folder string, env []string, args ...string) (*server, error) {
	process := exec.Command(binary, append([]string{"serve"}, args...)...)
	process.Dir = folder
	process.Env = append(environ(), env...)
	out, in, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	process.Stdout, process.Stderr = in, in
	err = process.Start()
	in.Close()
	if err != nil {
		return nil, err
	}
	s := &server{process: process, ended: make(chan struct{})}
	ready := make(chan string, 1)
	go s.read(out, ready)
	select {
	case s.url = <-ready:
		return s, nil
	case <-s.ended:
		return nil, fmt.Errorf("the server ended at once: %s", s.said.String())
	case <-time.After(soon):
		s.kill()
		return nil, fmt.Errorf("the server is not ready")
	}
}

// environ is the environment without what would be settings of a server or of a client.
func environ() (kept []string) {
	for _, variable := range os.Environ() {
		if !strings.HasPrefix(variable, "LINGER_") {
			kept = append(kept, variable)
		}
	}
	return kept
}

func (s *server) read(out io.ReadCloser, ready chan<- string) {
	defer out.Close()
	var url string
	lines := bufio.NewScanner(out)
	for lines.Scan() {
		line := lines.Text()
		s.said.WriteString(line + "\n")
		if _, rest, found := strings.Cut(line, "linger listens on "); found {
			url, _, _ = strings.Cut(rest, ",")
		}
		if strings.HasSuffix(line, " ready") {
			ready <- url
		}
	}
	_ = s.process.Wait()
	close(s.ended)
}

func (s *server) kill() {
	_ = s.process.Process.Kill()
	<-s.ended
}

func (s *server) stop() {
	_ = s.process.Process.Signal(syscall.SIGTERM)
	select {
	case <-s.ended:
	case <-time.After(soon):
		s.kill()
	}
}

// start starts a server with a store of its own.
func start(t testing.TB, env []string, args ...string) *server {
	t.Helper()
	args = append([]string{"--listen", "127.0.0.1:0", "--store", "store"}, args...)
	s, err := launch(binary(t), t.TempDir(), env, args...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.stop)
	return s
}

// theServer is the one that tests share.
func theServer(t testing.TB) *server {
	t.Helper()
	path := binary(t)
	shared.once.Do(func() {
		shared.folder, shared.err = os.MkdirTemp("", "linger-go")
		if shared.err == nil {
			shared.server, shared.err = launch(path, shared.folder, nil, "--listen", "127.0.0.1:0", "--store", "store")
		}
	})
	if shared.err != nil {
		t.Fatal(shared.err)
	}
	return shared.server
}

// connect makes a client of these servers.
func connect(t testing.TB, servers ...string) *linger.Client {
	t.Helper()
	return client(t, linger.Options{Servers: servers})
}

func client(t testing.TB, options linger.Options) *linger.Client {
	t.Helper()
	c, err := linger.New(options)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

// within is a context that ends a test which hangs.
func within(t testing.TB) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), soon)
	t.Cleanup(cancel)
	return ctx
}

// must gives the value of a call that has to succeed.
func must[T any](v T, err error) func(testing.TB) T {
	return func(t testing.TB) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}

// eventually waits until a fact holds.
func eventually(t testing.TB, fact string, holds func() bool) {
	t.Helper()
	for end := time.Now().Add(soon); !holds(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("it is never so that %s", fact)
		}
	}
}

// arrives waits for something to come through a channel.
func arrives[T any](t testing.TB, what string, c <-chan T) T {
	t.Helper()
	select {
	case v := <-c:
		return v
	case <-time.After(soon):
		t.Fatalf("%s does not come", what)
	}
	panic("unreachable")
}

// freeAddress is one on which nobody listens.
func freeAddress(t testing.TB) string {
	t.Helper()
	listener := must(net.Listen("tcp", "127.0.0.1:0"))(t)
	defer listener.Close()
	return listener.Addr().String()
}

// fault is what a middleman does to a request in place of passing it on and answering.
type fault int

const (
	none       fault = iota
	dropAnswer       // the server has done it, and nobody is told
	answer503        // the server never sees it
	answer503Overloaded
	answer429
	silence // until the client hangs up
)

// middleman stands between a client and a server, counts requests, and does as it is told to them.
type middleman struct {
	*httptest.Server
	to     string
	faults func(request *http.Request, n int) fault // the n-th request so far, from 1
	count  atomic.Int64
}

func between(t testing.TB, to string, faults func(*http.Request, int) fault) *middleman {
	t.Helper()
	m := &middleman{to: to, faults: faults}
	m.Server = httptest.NewServer(m)
	t.Cleanup(m.Close)
	return m
}

func (m *middleman) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	fault := m.faults(r, int(m.count.Add(1)))
	switch fault {
	case answer503:
		refuse(w, 503, "unavailable")
		return
	case answer503Overloaded:
		refuse(w, 503, "overloaded")
		return
	case answer429:
		refuse(w, 429, "rate_limited")
		return
	case silence:
		// Only when the body is read is it seen that the client hangs up.
		_, _ = io.Copy(io.Discard, r.Body)
		<-r.Context().Done()
		return
	}
	passOn(w, r, m.to, func() {
		if fault == dropAnswer {
			panic(http.ErrAbortHandler)
		}
	})
}

// passOn has the server at this address answer; the answer is given when it was carried out and before has returned.
func passOn(w http.ResponseWriter, r *http.Request, to string, before func()) {
	onward, err := http.NewRequestWithContext(r.Context(), r.Method, to+r.URL.RequestURI(), r.Body)
	if err != nil {
		panic(err)
	}
	onward.Header = r.Header.Clone()
	onward.ContentLength = r.ContentLength
	answer, err := http.DefaultClient.Do(onward)
	if err != nil {
		panic(http.ErrAbortHandler)
	}
	defer answer.Body.Close()
	before()
	w.Header().Set("Content-Type", answer.Header.Get("Content-Type"))
	w.Header().Set("Date", answer.Header.Get("Date"))
	w.WriteHeader(answer.StatusCode)
	_, _ = io.Copy(w, answer.Body)
}

func refuse(w http.ResponseWriter, status int, code string) {
	w.WriteHeader(status)
	fmt.Fprintf(w, `{"error":{"code":%q,"message":"so says the test"}}`, code)
}

// first does this to the first request alone.
func first(what fault) func(*http.Request, int) fault {
	return func(_ *http.Request, n int) fault {
		if n == 1 {
			return what
		}
		return none
	}
}

// every does this to all requests.
func every(what fault) func(*http.Request, int) fault {
	return func(*http.Request, int) fault { return what }
}
