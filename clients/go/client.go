// Package linger is a client of Linger, a queue for jobs that are due later: a [Client] for its calls, a
// [Worker] that works on jobs, [Verify] and [WebhookHandler] for those that are pushed, and a [Service] that
// registers an application to be called.
package linger

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"os"
	"strings"
	"sync/atomic"
	"time"
)

// Options are what a [Client] is made from. What is left out is taken from the environment, or is as said.
type Options struct {
	// Servers are the addresses of one server or several, all with the same store. Unless given they are
	// those of LINGER_SERVER, with commas between them, or http://127.0.0.1:7300.
	Servers []string
	// Key is the API key; that of LINGER_KEY unless given.
	Key string
	// TLS says whom to trust, and how to show who this is, with addresses of https.
	TLS *tls.Config
	// ConnectTimeout is how long it may take until a connection stands; 5 s unless given.
	ConnectTimeout time.Duration
	// Timeout is how long an answer may take, for a pop the wait besides; 10 s unless given.
	Timeout time.Duration
}

// Client calls the servers. It may be used by many goroutines at once, and keeps its connections: make one
// and share it.
type Client struct {
	servers []string
	current atomic.Int64 // the address that calls go to
	key     string
	connect time.Duration
	timeout time.Duration
	http    *http.Client
}

const (
	defaultServer  = "http://127.0.0.1:7300"
	defaultConnect = 5 * time.Second
	defaultTimeout = 10 * time.Second

	// The server closes connections on which nothing was asked for 5 minutes. This one has to be first, or a
	// request could be on its way as the connection is closed.
	idleTimeout = time.Minute
	// So many idle connections are kept for workers that settle many jobs at once.
	idleConnections = 64
	// More than the server ever answers: pages end at about 8 MiB.
	answerBytesMax = 64 << 20
)

// New makes a client. It connects when it is first used.
func New(options Options) (*Client, error) {
	servers := options.Servers
	if len(servers) == 0 {
		servers = serversOf(os.Getenv("LINGER_SERVER"))
	}
	c := &Client{
		key:     options.Key,
		connect: orElse(options.ConnectTimeout, defaultConnect),
		timeout: orElse(options.Timeout, defaultTimeout),
	}
	if c.key == "" {
		c.key = os.Getenv("LINGER_KEY")
	}
	for _, server := range servers {
		at, err := url.Parse(server)
		if err != nil || at.Host == "" || (at.Scheme != "http" && at.Scheme != "https") {
			return nil, fmt.Errorf("linger: server %q is not an address such as %s", server, defaultServer)
		}
		c.servers = append(c.servers, strings.TrimRight(server, "/"))
	}
	c.http = &http.Client{
		Transport: &http.Transport{
			Proxy:               http.ProxyFromEnvironment,
			DialContext:         (&net.Dialer{Timeout: c.connect}).DialContext,
			TLSClientConfig:     options.TLS,
			IdleConnTimeout:     idleTimeout,
			MaxIdleConnsPerHost: idleConnections,
		},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	return c, nil
}

func serversOf(list string) []string {
	var servers []string
	for _, server := range strings.Split(list, ",") {
		if server = strings.TrimSpace(server); server != "" {
			servers = append(servers, server)
		}
	}
	if servers == nil {
		servers = []string{defaultServer}
	}
	return servers
}

func orElse(d, otherwise time.Duration) time.Duration {
	if d == 0 {
		return otherwise
	}
	return d
}

// Close lets go of connections that are not in use.
func (c *Client) Close() { c.http.CloseIdleConnections() }

// Call makes any other call of the API: in is what is sent as JSON, if it is not nil, and out is where the
// answer is read to. A call whose answer was lost is not made again.
func (c *Client) Call(ctx context.Context, method, path string, in, out any) error {
	request := call{method: method, path: path}
	if in != nil {
		body, err := marshal(in)
		if err != nil {
			return err
		}
		request.body = body
	}
	_, err := c.do(ctx, request, out)
	return err
}

// call is one call of the API.
type call struct {
	method, path string
	body         []byte
	key          string        // of idempotency
	wait         time.Duration // how long the server may wait before it answers
	again        again
}

// again says whether a call may be made once more after its answer was lost, since it may have been
// carried out.
type again int

const (
	never   again = iota
	always        // twice does no more than once
	deletes       // always; what is not found by then was deleted by the first try
	settles       // always; what is not found or not leased any more was settled by the first try
)

func (a again) doneBefore(err *Error) bool {
	switch a {
	case deletes:
		return err.Is(ErrNotFound)
	case settles:
		return err.Is(ErrNotFound) || err.Is(ErrLeaseLost)
	}
	return false
}

// answer is what the server said, and when by its own clock.
type answer struct {
	date time.Time
	body []byte
	// Whether it was refused for having been done already, by a try whose answer was lost.
	doneBefore bool
}

// do makes the call, and reads the answer into out if that is not nil.
func (c *Client) do(ctx context.Context, call call, out any) (answer, error) {
	answer, err := c.ask(ctx, call)
	if err != nil || answer.doneBefore || out == nil {
		return answer, err
	}
	if err := json.Unmarshal(answer.body, out); err != nil {
		return answer, fmt.Errorf("linger: the answer to %s %s cannot be read: %w", call.method, call.path, err)
	}
	return answer, nil
}

// ask tries one address after the other, each at most once, a single one twice.
func (c *Client) ask(ctx context.Context, call call) (answer, error) {
	at := c.current.Load()
	var lost, unsure bool
	for try := max(2, len(c.servers)); ; try-- {
		got, how, err := c.try(ctx, c.servers[at], call)
		if how == answered {
			got.doneBefore = err != nil && unsure && call.again.doneBefore(err)
			return got, orNil(err, err != nil && !got.doneBefore)
		}
		if ctx.Err() != nil {
			// An address that was silent for all the time there was is left; of one that was hung up on nothing is known.
			if !errors.Is(ctx.Err(), context.Canceled) {
				c.leave(at)
			}
			return got, ended(ctx)
		}
		next := c.leave(at)
		// "unavailable" does not say that nothing was done.
		maybe := how == unanswered || how == turnedAway && err.Is(ErrUnavailable)
		if try == 1 || how == unanswered && lost || maybe && call.again == never {
			return got, err
		}
		lost = lost || how == unanswered
		unsure = unsure || maybe
		if next == at && !sleep(ctx, pauseMin) {
			return got, ended(ctx)
		}
		at = next
	}
}

// leave has calls go to the next address, unless another call has seen to that, and gives it.
func (c *Client) leave(at int64) int64 {
	next := (at + 1) % int64(len(c.servers))
	c.current.CompareAndSwap(at, next)
	return next
}

// how a try went, as far as trying again goes.
type how int

const (
	answered   how = iota // the server has decided
	unsent                // nobody can have carried it out
	unanswered            // it may have been carried out
	turnedAway            // 503: another server may do it, or this one later
)

func (c *Client) try(ctx context.Context, server string, call call) (answer, how, *Error) {
	ctx, hangUp := context.WithCancelCause(ctx)
	defer hangUp(nil)
	wait := c.timeout + call.wait
	var sent atomic.Bool
	// One clock for both limits: it is set anew as the connection stands.
	limit := time.AfterFunc(c.connect, func() {
		if sent.Load() {
			hangUp(fmt.Errorf("no answer from %s within %s", server, wait))
		} else {
			hangUp(fmt.Errorf("no connection to %s within %s", server, c.connect))
		}
	})
	defer limit.Stop()
	ctx = httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{GotConn: func(httptrace.GotConnInfo) {
		if sent.CompareAndSwap(false, true) && limit.Stop() {
			limit.Reset(wait)
		}
	}})
	status, got, err := c.roundTrip(ctx, server, call)
	switch {
	case err != nil && !sent.Load():
		return got, unsent, unreached(ctx, err)
	case err != nil:
		return got, unanswered, unreached(ctx, err)
	case status < 300:
		return got, answered, nil
	case status == http.StatusServiceUnavailable:
		return got, turnedAway, refusal(status, got.body)
	case status == http.StatusBadGateway, status == http.StatusGatewayTimeout:
		return got, unanswered, refusal(status, got.body)
	}
	return got, answered, refusal(status, got.body)
}

func (c *Client) roundTrip(ctx context.Context, server string, call call) (status int, got answer, err error) {
	request, err := http.NewRequestWithContext(ctx, call.method, server+call.path, bytes.NewReader(call.body))
	if err != nil {
		return 0, got, err
	}
	if len(call.body) > 0 {
		request.Header.Set("Content-Type", "application/json")
	}
	if call.key != "" {
		request.Header.Set("Idempotency-Key", call.key)
	}
	if c.key != "" {
		request.Header.Set("Authorization", "Bearer "+c.key)
	}
	request.Header.Set("User-Agent", "linger-go")
	response, err := c.http.Do(request)
	if err != nil {
		return 0, got, err
	}
	defer response.Body.Close()
	got.date, _ = http.ParseTime(response.Header.Get("Date"))
	got.body, err = io.ReadAll(io.LimitReader(response.Body, answerBytesMax))
	return response.StatusCode, got, err
}

// unreached says why there was no answer: what hung up knows better than the call that was cut off.
func unreached(ctx context.Context, err error) *Error {
	if cause := context.Cause(ctx); cause != nil {
		err = cause
	}
	return unavailable(err)
}

// ended is the error of a call that its caller did not wait for.
func ended(ctx context.Context) error {
	if err := ctx.Err(); errors.Is(err, context.DeadlineExceeded) {
		return unavailable(err)
	}
	return ctx.Err()
}

// orNil is err, if it is one to be told.
func orNil(err *Error, told bool) error {
	if told {
		return err
	}
	return nil
}

// sleep tells whether it slept to the end.
func sleep(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// uuid makes a random UUID, version 4.
func uuid() string {
	var b [16]byte
	if _, err := rand.Read(b[:]); err != nil {
		panic("linger: this machine gives no random numbers: " + err.Error())
	}
	b[6], b[8] = b[6]&0x0f|0x40, b[8]&0x3f|0x80
	return fmt.Sprintf("%x-%x-%x-%x-%x", b[:4], b[4:6], b[6:8], b[8:10], b[10:])
}

// path joins names to a path, each percent-encoded.
func path(parts ...string) string {
	var text strings.Builder
	text.WriteString("/v1")
	for _, part := range parts {
		text.WriteByte('/')
		text.WriteString(pathName(part))
	}
	return text.String()
}

// pathName encodes a name. What stands between may take "." and ".." for steps in a path.
func pathName(name string) string {
	if name == "." || name == ".." {
		return strings.ReplaceAll(name, ".", "%2E")
	}
	return url.PathEscape(name)
}

func withQuery(path string, query url.Values) string {
	if len(query) == 0 {
		return path
	}
	return path + "?" + query.Encode()
}
