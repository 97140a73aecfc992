package linger_test

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"linger.dev/go"
)

var quiet = slog.New(slog.NewTextHandler(io.Discard, nil))

// working is a worker that runs.
type working struct {
	stop  context.CancelFunc
	ended chan error
}

// work runs a worker until the test is over.
func work(t *testing.T, worker *linger.Worker) *working {
	t.Helper()
	ctx, stop := context.WithCancel(context.Background())
	w := &working{stop, make(chan error, 1)}
	worker.Log = quiet
	done := make(chan struct{})
	go func() {
		defer close(done)
		w.ended <- worker.Run(ctx)
	}()
	t.Cleanup(func() {
		stop()
		arrives(t, "the end of the worker", done)
	})
	return w
}

// add adds so many jobs to a topic.
func add(t *testing.T, c *linger.Client, topic string, n int) {
	t.Helper()
	jobs := make([]linger.NewJob, n)
	for i := range jobs {
		jobs[i] = linger.NewJob{Topic: topic}
	}
	for _, added := range must(c.AddMany(within(t), jobs))(t) {
		if added.Err != nil {
			t.Fatal(added.Err)
		}
	}
}

// isEmpty tells whether a topic has no jobs.
func isEmpty(t *testing.T, c *linger.Client, topic string) func() bool {
	return func() bool { return len(must(c.Jobs(within(t), topic, linger.Filter{}))(t).Jobs) == 0 }
}

func TestAWorkerHasAsManyHandlersAtOnceAsItMay(t *testing.T) {
	c := connect(t, theServer(t).url)
	var running, most atomic.Int64
	started, open := make(chan struct{}, 12), make(chan struct{})
	add(t, c, "crowd", 12)
	work(t, &linger.Worker{Client: c, Concurrency: 4, Handlers: map[string]linger.Handler{
		"crowd": func(ctx context.Context, job *linger.Job) error {
			if now := running.Add(1); now > most.Load() {
				most.Store(now)
			}
			defer running.Add(-1)
			started <- struct{}{}
			<-open
			return nil
		},
	}})
	for i := 0; i < 4; i++ {
		arrives(t, "a handler", started)
	}
	topic := must(c.Topic(within(t), "crowd"))(t)
	if topic.Counts.Reserved != 4 || topic.Counts.Ready != 8 {
		t.Fatalf("more was popped than there are free hands: %+v", topic.Counts)
	}
	close(open)
	eventually(t, "all jobs are finished", isEmpty(t, c, "crowd"))
	if most.Load() != 4 {
		t.Fatalf("%d handlers at once", most.Load())
	}
}

func TestAWorkerServesSeveralTopics(t *testing.T) {
	c := connect(t, theServer(t).url)
	seen := make(chan string, 2)
	handler := func(ctx context.Context, job *linger.Job) error {
		seen <- job.Topic
		return nil
	}
	work(t, &linger.Worker{Client: c, Handlers: map[string]linger.Handler{"several.a": handler, "several.b": handler}})
	add(t, c, "several.a", 1)
	if topic := arrives(t, "a job", seen); topic != "several.a" {
		t.Fatal(topic)
	}
	add(t, c, "several.b", 1)
	if topic := arrives(t, "a job", seen); topic != "several.b" {
		t.Fatal(topic)
	}
}

func TestWhatAHandlerReturnsBecomesOfItsJob(t *testing.T) {
	long := strings.Repeat("a long story, ", 10_000)
	for name, test := range map[string]struct {
		handler linger.Handler
		state   string // of the job afterwards; none if it is gone
		what    string // of the last event
		error   string
		due     time.Duration // at least so late
	}{
		"finish": {func(context.Context, *linger.Job) error { return nil }, "", "", "", 0},
		"fail":   {func(context.Context, *linger.Job) error { return errors.New("no <luck>") }, "retry", "failed", "no <luck>", time.Minute},
		"long":   {func(context.Context, *linger.Job) error { return errors.New(long) }, "retry", "failed", "a long story", time.Minute},
		"panic":  {func(context.Context, *linger.Job) error { panic("oh dear") }, "retry", "failed", "panic: oh dear", time.Minute},
		"retry in": {func(context.Context, *linger.Job) error {
			return linger.RetryIn(time.Hour, errors.New("busy"))
		}, "retry", "failed", "busy", time.Hour - soon},
		"again":    {func(context.Context, *linger.Job) error { return linger.Again() }, "retry", "again", "", time.Minute},
		"again in": {func(context.Context, *linger.Job) error { return linger.RetryIn(time.Hour, linger.Again()) }, "retry", "again", "", time.Hour - soon},
	} {
		t.Run(name, func(t *testing.T) {
			ctx := within(t)
			c := connect(t, theServer(t).url)
			topic := "outcome." + strings.ReplaceAll(name, " ", "-")
			must(c.Configure(ctx, topic, linger.Settings{
				Retry: &linger.Retry{Backoff: &linger.Backoff{Base: 10 * time.Minute, Max: 10 * time.Minute}},
			}))(t)
			must(c.Add(ctx, linger.NewJob{Topic: topic, ID: "1"}))(t)
			work(t, &linger.Worker{Client: c, Handlers: map[string]linger.Handler{topic: test.handler}})
			var job *linger.Job
			eventually(t, "the job is settled", func() bool {
				var err error
				job, err = c.Get(ctx, topic, "1")
				return errors.Is(err, linger.ErrNotFound) || err == nil && job.State == "retry"
			})
			if test.state == "" {
				if job != nil {
					t.Fatalf("%+v", job)
				}
				return
			}
			if job == nil || job.State != test.state || !strings.HasPrefix(job.LastError, test.error) || time.Until(job.Due) < test.due {
				t.Fatalf("%+v", job)
			}
			events := must(c.History(ctx, topic, "1"))(t)
			if last := events[len(events)-1]; last.What != test.what {
				t.Fatalf("%+v", last)
			}
		})
	}
}

func TestALeaseIsRenewedWhileAHandlerWorks(t *testing.T) {
	ctx := within(t)
	c := connect(t, theServer(t).url)
	var runs atomic.Int64
	ended := make(chan error, 2)
	// Two hands, so that the job would be handed out again if its lease were over.
	work(t, &linger.Worker{Client: c, Concurrency: 2, Handlers: map[string]linger.Handler{
		"long": func(ctx context.Context, job *linger.Job) error {
			runs.Add(1)
			select {
			case <-time.After(2500 * time.Millisecond):
			case <-ctx.Done():
			}
			ended <- context.Cause(ctx)
			return nil
		},
	}})
	must(c.Add(ctx, linger.NewJob{Topic: "long", ID: "1", TTR: time.Second}))(t)
	if cause := arrives(t, "the end of the handler", ended); cause != nil {
		t.Fatal(cause)
	}
	eventually(t, "the job is finished", isEmpty(t, c, "long"))
	if runs.Load() != 1 {
		t.Fatalf("it was handed out %d times", runs.Load())
	}
}

func TestALostLeaseIsToldToTheHandlerAndNothingToTheServer(t *testing.T) {
	ctx := within(t)
	var settled atomic.Int64
	watched := between(t, theServer(t).url, func(r *http.Request, _ int) fault {
		if strings.HasSuffix(r.URL.Path, "/finish") || strings.HasSuffix(r.URL.Path, "/fail") || strings.HasSuffix(r.URL.Path, "/release") {
			settled.Add(1)
		}
		return none
	})
	started, ended := make(chan struct{}), make(chan error)
	w := work(t, &linger.Worker{Client: connect(t, watched.URL), TTR: time.Second, Handlers: map[string]linger.Handler{
		"lost": func(ctx context.Context, job *linger.Job) error {
			started <- struct{}{}
			<-ctx.Done()
			ended <- context.Cause(ctx)
			return nil
		},
	}})
	c := connect(t, theServer(t).url)
	must(c.Add(ctx, linger.NewJob{Topic: "lost", ID: "1"}))(t)
	arrives(t, "a handler", started)
	must(c.Delete(ctx, "lost", "1"))(t)
	if cause := arrives(t, "the end of the lease", ended); !errors.Is(cause, linger.ErrLeaseLost) {
		t.Fatal(cause)
	}
	w.stop()
	if err := arrives(t, "the end of the worker", w.ended); err != nil {
		t.Fatal(err)
	}
	if settled.Load() != 0 {
		t.Fatal("the outcome was told")
	}
}

func TestALeaseThatCannotBeRenewedIsLostWhenItIsOver(t *testing.T) {
	// Touches never arrive, and the job is handed out a second time.
	away := between(t, theServer(t).url, func(r *http.Request, _ int) fault {
		if strings.HasSuffix(r.URL.Path, "/touch") {
			return answer503
		}
		return none
	})
	ended := make(chan error, 100)
	work(t, &linger.Worker{Client: connect(t, away.URL), TTR: time.Second, Concurrency: 1, Handlers: map[string]linger.Handler{
		"away": func(ctx context.Context, job *linger.Job) error {
			if job.Attempt > 1 {
				return nil
			}
			<-ctx.Done()
			ended <- context.Cause(ctx)
			return nil
		},
	}})
	c := connect(t, theServer(t).url)
	must(c.Add(within(t), linger.NewJob{Topic: "away", ID: "1", Retry: &linger.Retry{Backoff: &linger.Backoff{Base: time.Millisecond}}}))(t)
	if cause := arrives(t, "the end of the lease", ended); !errors.Is(cause, linger.ErrLeaseLost) {
		t.Fatal(cause)
	}
	eventually(t, "the second attempt has finished the job", isEmpty(t, c, "away"))
}

func TestALeaseIsRenewedAtAnotherAddressIfOneIsSilent(t *testing.T) {
	half := between(t, theServer(t).url, func(r *http.Request, _ int) fault {
		if strings.HasSuffix(r.URL.Path, "/touch") {
			return silence
		}
		return none
	})
	held := make(chan bool, 1)
	c := connect(t, half.URL, theServer(t).url)
	work(t, &linger.Worker{Client: c, TTR: 2 * time.Second, Handlers: map[string]linger.Handler{
		"silent": func(ctx context.Context, job *linger.Job) error {
			select {
			case <-ctx.Done():
				held <- false
			case <-time.After(3 * time.Second):
				held <- true
			}
			return nil
		},
	}})
	add(t, connect(t, theServer(t).url), "silent", 1)
	if !arrives(t, "the end of the handler", held) {
		t.Fatal("the lease was lost")
	}
}

func TestAnOutcomeIsToldAgainWhileTheServerIsAway(t *testing.T) {
	var runs, told atomic.Int64
	away := between(t, theServer(t).url, func(r *http.Request, _ int) fault {
		if strings.HasSuffix(r.URL.Path, "/finish") && told.Add(1) <= 5 {
			return answer503
		}
		return none
	})
	work(t, &linger.Worker{Client: connect(t, away.URL), Handlers: map[string]linger.Handler{
		"told": func(ctx context.Context, job *linger.Job) error {
			runs.Add(1)
			return nil
		},
	}})
	c := connect(t, theServer(t).url)
	add(t, c, "told", 1)
	eventually(t, "the job is finished", func() bool { return told.Load() > 5 && isEmpty(t, c, "told")() })
	if runs.Load() != 1 {
		t.Fatalf("the handler was called %d times", runs.Load())
	}
}

func TestAServerThatIsAwayIsAskedAgain(t *testing.T) {
	away := between(t, theServer(t).url, func(_ *http.Request, n int) fault {
		if n <= 5 {
			return answer503
		}
		return none
	})
	done := make(chan struct{}, 1)
	work(t, &linger.Worker{Client: connect(t, away.URL), Handlers: map[string]linger.Handler{
		"back": func(context.Context, *linger.Job) error { done <- struct{}{}; return nil },
	}})
	add(t, connect(t, theServer(t).url), "back", 1)
	arrives(t, "the job", done)
}

func TestAStopWaitsForHandlers(t *testing.T) {
	c := connect(t, theServer(t).url)
	started, open := make(chan struct{}), make(chan struct{})
	w := work(t, &linger.Worker{Client: c, Handlers: map[string]linger.Handler{
		"graceful": func(ctx context.Context, job *linger.Job) error {
			close(started)
			<-open
			return ctx.Err()
		},
	}})
	add(t, c, "graceful", 1)
	arrives(t, "a handler", started)
	w.stop()
	eventually(t, "nobody waits", func() bool { return must(c.Topic(within(t), "graceful"))(t).Waiting == 0 })
	add(t, c, "graceful", 1)
	select {
	case <-w.ended:
		t.Fatal("the worker has not waited")
	case <-time.After(300 * time.Millisecond):
	}
	close(open)
	if err := arrives(t, "the end of the worker", w.ended); err != nil {
		t.Fatal(err)
	}
	left := must(c.Jobs(within(t), "graceful", linger.Filter{}))(t).Jobs
	if len(left) != 1 || left[0].State != "ready" {
		t.Fatalf("one job is finished and the other was never asked for: %+v", left)
	}
}

func TestAfterTheGraceTimeJobsAreReleased(t *testing.T) {
	ctx := within(t)
	c := connect(t, theServer(t).url)
	started, cause, stuck := make(chan struct{}, 2), make(chan error, 1), make(chan struct{})
	t.Cleanup(func() { close(stuck) })
	w := work(t, &linger.Worker{Client: c, Grace: 100 * time.Millisecond, Handlers: map[string]linger.Handler{
		"grace.listens": func(ctx context.Context, job *linger.Job) error {
			started <- struct{}{}
			<-ctx.Done()
			cause <- context.Cause(ctx)
			return nil
		},
		"grace.stuck": func(context.Context, *linger.Job) error {
			started <- struct{}{}
			<-stuck
			return nil
		},
	}})
	must(c.Add(ctx, linger.NewJob{Topic: "grace.listens", ID: "1"}))(t)
	must(c.Add(ctx, linger.NewJob{Topic: "grace.stuck", ID: "1"}))(t)
	arrives(t, "a handler", started)
	arrives(t, "a handler", started)
	w.stop()
	if err := arrives(t, "the end of the worker", w.ended); err != nil {
		t.Fatal(err)
	}
	if err := arrives(t, "the end of a handler", cause); err != linger.ErrStopped {
		t.Fatal(err)
	}
	for _, topic := range []string{"grace.listens", "grace.stuck"} {
		if job := must(c.Get(ctx, topic, "1"))(t); job.State != "ready" || job.Attempt != 0 {
			t.Fatalf("%s: %+v", topic, job)
		}
	}
}

func TestAStopHangsUpAPopThatWaits(t *testing.T) {
	ctx := within(t)
	c := connect(t, theServer(t).url)
	must(c.Configure(ctx, "hang-up", linger.Settings{TTR: time.Minute}))(t)
	w := work(t, &linger.Worker{Client: c, Handlers: map[string]linger.Handler{
		"hang-up": func(context.Context, *linger.Job) error { return nil },
	}})
	waiting := func(n int) func() bool {
		return func() bool { return must(c.Topic(ctx, "hang-up"))(t).Waiting == n }
	}
	eventually(t, "the worker waits", waiting(1))
	w.stop()
	if err := arrives(t, "the end of the worker", w.ended); err != nil {
		t.Fatal(err)
	}
	eventually(t, "nobody waits", waiting(0))
	must(c.Add(ctx, linger.NewJob{Topic: "hang-up", ID: "1"}))(t)
	if job := must(c.Get(ctx, "hang-up", "1"))(t); job.State != "ready" || job.Attempt != 0 {
		t.Fatalf("%+v", job)
	}
}

func TestAWorkerThatIsRefusedForGoodSaysSo(t *testing.T) {
	w := work(t, &linger.Worker{Client: connect(t, theServer(t).url)})
	if err := arrives(t, "the end of the worker", w.ended); !errors.Is(err, linger.ErrInvalid) {
		t.Fatal(err)
	}
}
