package linger_test

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	"linger.dev/go"
)

// registered are the instances of an application.
func registered(t *testing.T, c *linger.Client, app string) []registration {
	t.Helper()
	var page struct{ Workers []registration }
	if err := c.Call(within(t), "GET", "/v1/workers?app="+app, nil, &page); err != nil {
		t.Fatal(err)
	}
	return page.Workers
}

type registration struct {
	ID, State, URL string
	Topics         []string
	Expires        time.Time
}

// serving is a service that runs.
type serving struct {
	stop  context.CancelFunc
	ended chan error
}

// serve has a service listen, and runs it until the test is over.
func serve(t *testing.T, service *linger.Service) *serving {
	t.Helper()
	listener := httptest.NewServer(service)
	t.Cleanup(listener.Close)
	service.URL, service.Log = listener.URL, quiet
	ctx, stop := context.WithCancel(context.Background())
	s := &serving{stop, make(chan error, 1)}
	done := make(chan struct{})
	go func() {
		defer close(done)
		s.ended <- service.Run(ctx)
	}()
	t.Cleanup(func() {
		stop()
		arrives(t, "the end of the service", done)
	})
	return s
}

func TestAServiceIsCalledForItsJobs(t *testing.T) {
	ctx := within(t)
	c := connect(t, theServer(t).url)
	secret := newSecret(t, c, "service.called", "hmac")
	got := make(chan *linger.Job, 1)
	s := serve(t, &linger.Service{Client: c, App: "called", Secrets: []string{secret}, Handlers: map[string]linger.Handler{
		"service.called": func(_ context.Context, job *linger.Job) error { got <- job; return nil },
	}})
	must(c.Add(ctx, linger.NewJob{Topic: "service.called", ID: "1", Target: "worker:called", Body: 1}))(t)
	if job := arrives(t, "the call", got); job.ID != "1" || string(job.Body) != "1" {
		t.Fatalf("%+v", job)
	}
	eventually(t, "the job is finished", isEmpty(t, c, "service.called"))
	if there := registered(t, c, "called"); len(there) != 1 || len(there[0].Topics) != 1 || there[0].State != "live" {
		t.Fatalf("%+v", there)
	}
	s.stop()
	if err := arrives(t, "the end of the service", s.ended); err != nil {
		t.Fatal(err)
	}
	if there := registered(t, c, "called"); len(there) != 0 {
		t.Fatalf("%+v", there)
	}
}

func TestAServiceStaysRegisteredByHeartbeats(t *testing.T) {
	c := connect(t, theServer(t).url)
	serve(t, &linger.Service{Client: c, App: "beats", ID: "beats-1", Unsigned: true, Lease: time.Second, Handlers: map[string]linger.Handler{
		"service.beats": nil,
	}})
	eventually(t, "it is registered", func() bool { return len(registered(t, c, "beats")) == 1 })
	first := registered(t, c, "beats")[0]
	eventually(t, "it has outlived two leases", func() bool {
		there := registered(t, c, "beats")
		if len(there) != 1 || there[0].ID != "beats-1" {
			t.Fatalf("%+v", there)
		}
		return there[0].Expires.Sub(first.Expires) > 2*time.Second
	})
}

func TestAServiceThatWasForgottenRegistersAgain(t *testing.T) {
	c := connect(t, theServer(t).url)
	serve(t, &linger.Service{Client: c, App: "forgotten", Unsigned: true, Lease: time.Second, Handlers: map[string]linger.Handler{
		"service.forgotten": nil,
	}})
	eventually(t, "it is registered", func() bool { return len(registered(t, c, "forgotten")) == 1 })
	first := registered(t, c, "forgotten")[0].ID
	if err := c.Call(within(t), "DELETE", "/v1/workers/"+first, nil, nil); err != nil {
		t.Fatal(err)
	}
	eventually(t, "it is registered anew", func() bool {
		there := registered(t, c, "forgotten")
		return len(there) == 1 && there[0].ID != first
	})
}

func TestAServiceThatStopsDrainsFirst(t *testing.T) {
	ctx := within(t)
	c := connect(t, theServer(t).url)
	started, open := make(chan struct{}, 2), make(chan struct{})
	letGo := sync.OnceFunc(func() { close(open) })
	s := serve(t, &linger.Service{Client: c, App: "drained", Unsigned: true, Handlers: map[string]linger.Handler{
		"service.drained": func(context.Context, *linger.Job) error {
			started <- struct{}{}
			<-open
			return nil
		},
	}})
	t.Cleanup(letGo)
	must(c.Add(ctx, linger.NewJob{Topic: "service.drained", ID: "1", Target: "worker:drained"}))(t)
	arrives(t, "a call", started)
	s.stop()
	eventually(t, "it drains", func() bool {
		there := registered(t, c, "drained")
		return len(there) == 1 && there[0].State == "draining"
	})
	must(c.Add(ctx, linger.NewJob{Topic: "service.drained", ID: "2", Target: "worker:drained"}))(t)
	select {
	case <-s.ended:
		t.Fatal("it has not waited for the call under way")
	case <-started:
		t.Fatal("it was called while it drained")
	case <-time.After(300 * time.Millisecond):
	}
	letGo()
	if err := arrives(t, "the end of the service", s.ended); err != nil {
		t.Fatal(err)
	}
	if there := registered(t, c, "drained"); len(there) != 0 {
		t.Fatalf("%+v", there)
	}
	if _, err := c.Get(ctx, "service.drained", "1"); !errors.Is(err, linger.ErrNotFound) {
		t.Fatalf("the job of the call under way is not finished: %v", err)
	}
}

func TestAServiceTakesNoCallsOfStrangers(t *testing.T) {
	called := make(chan struct{}, 1)
	service := &linger.Service{Secrets: []string{secret}, Unsigned: true, Log: quiet, Handlers: map[string]linger.Handler{
		"order/close": func(context.Context, *linger.Job) error { called <- struct{}{}; return nil },
	}}
	listener := httptest.NewServer(service)
	t.Cleanup(listener.Close)
	if status := post(t, listener.URL, delivery(otherSecret, time.Now(), "{}"), "{}"); status != 401 || len(called) != 0 {
		t.Fatal(status)
	}
	if status := post(t, listener.URL, delivery(secret, time.Now(), "{}"), "{}"); status != 204 || len(called) != 1 {
		t.Fatal(status)
	}
}

func TestAServiceWithoutSecretsHasToSaySo(t *testing.T) {
	if err := (&linger.Service{App: "careless"}).Run(within(t)); err == nil {
		t.Fatal("it runs")
	}
}

func TestAServiceThatIsRefusedForGoodSaysSo(t *testing.T) {
	s := serve(t, &linger.Service{Client: connect(t, theServer(t).url), App: "no good", Unsigned: true})
	if err := arrives(t, "the end of the service", s.ended); !errors.Is(err, linger.ErrInvalid) {
		t.Fatal(err)
	}
}

func TestAServiceThatStopsAsItRegistersIsNotLeftBehind(t *testing.T) {
	c := connect(t, theServer(t).url)
	arrived, open := make(chan struct{}), make(chan struct{})
	slow := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		passOn(w, r, theServer(t).url, func() {
			if r.URL.Path == "/v1/workers" {
				close(arrived)
				<-open
			}
		})
	}))
	t.Cleanup(slow.Close)
	letGo := sync.OnceFunc(func() { close(open) })
	t.Cleanup(letGo)
	s := serve(t, &linger.Service{Client: connect(t, slow.URL), App: "brief", Unsigned: true, Handlers: map[string]linger.Handler{
		"service.brief": nil,
	}})
	arrives(t, "the registration", arrived)
	s.stop()
	letGo()
	if err := arrives(t, "the end of the service", s.ended); err != nil {
		t.Fatal(err)
	}
	if there := registered(t, c, "brief"); len(there) != 0 {
		t.Fatalf("%+v", there)
	}
}
