package linger_test

import (
	"context"
	"encoding/json"
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"reflect"
	"strings"
	"testing"
	"time"

	"linger.dev/go"
)

// reserved adds a job and pops it.
func reserved(t *testing.T, c *linger.Client, topic string) *linger.Job {
	t.Helper()
	ctx := within(t)
	must(c.Add(ctx, linger.NewJob{Topic: topic, ID: "1"}))(t)
	jobs := must(c.Pop(ctx, linger.Pop{Topics: []string{topic}, Wait: soon}))(t)
	if len(jobs) != 1 {
		t.Fatalf("popped %d jobs", len(jobs))
	}
	return jobs[0]
}

// Each call, and how often it is made if the first answer is lost.
func TestALostAnswerIsAskedForAgainOnlyIfThatIsHarmless(t *testing.T) {
	type job = linger.NewJob
	ctx := within(t)
	waiting := func(t *testing.T, c *linger.Client, topic string) {
		must(c.Add(ctx, job{Topic: topic, ID: "1", Delay: time.Hour}))(t)
	}
	empty := func(*testing.T, *linger.Client, string) {}
	call := func(err error) error { return err }
	changed := func(changed *linger.Changed, err error) error {
		if err == nil && !changed.Changed {
			return errors.New("it says that nothing was changed")
		}
		return err
	}
	var popped *linger.Job
	pop := func(t *testing.T, c *linger.Client, topic string) { popped = reserved(t, c, topic) }
	bare := func(topic string) *linger.Job { return &linger.Job{Topic: topic, ID: "1"} }

	for _, test := range []struct {
		name    string
		times   int64
		prepare func(*testing.T, *linger.Client, string)
		call    func(*linger.Client, string) error
		jobs    int // that the topic has in the end
	}{
		{"get", 2, waiting, func(c *linger.Client, topic string) error { _, err := c.Get(ctx, topic, "1"); return err }, 1},
		{"history", 2, waiting, func(c *linger.Client, topic string) error { _, err := c.History(ctx, topic, "1"); return err }, 1},
		{"jobs", 2, waiting, func(c *linger.Client, topic string) error {
			_, err := c.Jobs(ctx, topic, linger.Filter{})
			return err
		}, 1},
		{"topics", 2, waiting, func(c *linger.Client, topic string) error {
			_, err := c.Topics(ctx, linger.TopicFilter{})
			return err
		}, 1},
		{"topic", 2, waiting, func(c *linger.Client, topic string) error { _, err := c.Topic(ctx, topic); return err }, 1},
		{"pop", 2, waiting, func(c *linger.Client, topic string) error {
			_, err := c.Pop(ctx, linger.Pop{Topics: []string{topic}})
			return err
		}, 1},
		{"add without an id", 2, empty, func(c *linger.Client, topic string) error {
			_, err := c.Add(ctx, job{Topic: topic, Delay: time.Hour})
			return err
		}, 1},
		{"add with a key", 2, empty, func(c *linger.Client, topic string) error {
			_, err := c.Add(ctx, job{Topic: topic, Delay: time.Hour, IdempotencyKey: "order 1"})
			return err
		}, 1},
		{"add with an id", 1, empty, func(c *linger.Client, topic string) error {
			_, err := c.Add(ctx, job{Topic: topic, ID: "1", Delay: time.Hour})
			return err
		}, 1},
		{"add to keep", 2, empty, func(c *linger.Client, topic string) error {
			_, err := c.Add(ctx, job{Topic: topic, ID: "1", Delay: time.Hour, OnConflict: linger.Keep})
			return err
		}, 1},
		{"add to replace", 2, empty, func(c *linger.Client, topic string) error {
			_, err := c.Add(ctx, job{Topic: topic, ID: "1", Delay: time.Hour, OnConflict: linger.Replace})
			return err
		}, 1},
		{"add many without ids", 2, empty, func(c *linger.Client, topic string) error {
			added, err := c.AddMany(ctx, []job{{Topic: topic, Delay: time.Hour}, {Topic: topic, Delay: time.Hour}})
			for _, one := range added {
				err = errors.Join(err, one.Err)
			}
			return err
		}, 2},
		{"add many with an id", 1, empty, func(c *linger.Client, topic string) error {
			_, err := c.AddMany(ctx, []job{{Topic: topic, Delay: time.Hour}, {Topic: topic, ID: "1", Delay: time.Hour}})
			return err
		}, 2},
		{"finish", 2, pop, func(c *linger.Client, topic string) error { return changed(c.Finish(ctx, popped)) }, 0},
		{"fail", 2, pop, func(c *linger.Client, topic string) error {
			return changed(c.Fail(ctx, popped, linger.Failure{}))
		}, 1},
		{"release", 2, pop, func(c *linger.Client, topic string) error {
			return changed(c.Release(ctx, popped, linger.Release{}))
		}, 1},
		{"touch", 2, pop, func(c *linger.Client, topic string) error { return changed(c.Touch(ctx, popped, 0)) }, 1},
		{"finish without a lease", 1, pop, func(c *linger.Client, topic string) error { return changed(c.Finish(ctx, bare(topic))) }, 0},
		{"fail without a lease", 1, pop, func(c *linger.Client, topic string) error {
			return changed(c.Fail(ctx, bare(topic), linger.Failure{}))
		}, 1},
		{"release without a lease", 1, pop, func(c *linger.Client, topic string) error {
			return changed(c.Release(ctx, bare(topic), linger.Release{}))
		}, 1},
		{"delete", 2, waiting, func(c *linger.Client, topic string) error { return changed(c.Delete(ctx, topic, "1")) }, 0},
		{"delete a version", 1, waiting, func(c *linger.Client, topic string) error { return changed(c.DeleteVersion(ctx, topic, "1", 1)) }, 0},
		{"update", 2, waiting, func(c *linger.Client, topic string) error {
			_, err := c.Update(ctx, topic, "1", linger.Changes{Priority: linger.Ptr(0)})
			return err
		}, 1},
		{"update a version", 1, waiting, func(c *linger.Client, topic string) error {
			_, err := c.Update(ctx, topic, "1", linger.Changes{Priority: linger.Ptr(0), IfVersion: 1})
			return err
		}, 1},
		{"hold", 2, waiting, func(c *linger.Client, topic string) error { _, err := c.Hold(ctx, topic, "1"); return err }, 1},
		{"unhold", 2, waiting, func(c *linger.Client, topic string) error { _, err := c.Unhold(ctx, topic, "1"); return err }, 1},
		{"run", 1, waiting, func(c *linger.Client, topic string) error { _, err := c.Run(ctx, topic, "1"); return err }, 1},
		{"redrive", 1, waiting, func(c *linger.Client, topic string) error { _, err := c.Redrive(ctx, topic); return err }, 1},
		{"pause", 2, waiting, func(c *linger.Client, topic string) error { _, err := c.Pause(ctx, topic, 0); return err }, 1},
		{"resume", 2, waiting, func(c *linger.Client, topic string) error { _, err := c.Resume(ctx, topic); return err }, 1},
		{"configure", 2, waiting, func(c *linger.Client, topic string) error {
			_, err := c.Configure(ctx, topic, linger.Settings{TTR: time.Minute})
			return err
		}, 1},
		{"empty", 2, waiting, func(c *linger.Client, topic string) error { _, err := c.Empty(ctx, topic); return err }, 0},
		{"forget", 2, waiting, func(c *linger.Client, topic string) error { _, err := c.Forget(ctx, topic); return err }, 0},
		{"any other call", 1, waiting, func(c *linger.Client, topic string) error {
			return call(c.Call(ctx, "POST", "/v1/topics/"+topic+"/empty", nil, nil))
		}, 0},
	} {
		t.Run(test.name, func(t *testing.T) {
			topic := "lost." + strings.ReplaceAll(test.name, " ", "-")
			straight := connect(t, theServer(t).url)
			test.prepare(t, straight, topic)
			lossy := between(t, theServer(t).url, first(dropAnswer))
			err := test.call(connect(t, lossy.URL), topic)
			if got := lossy.count.Load(); got != test.times {
				t.Fatalf("it was made %d times, not %d", got, test.times)
			}
			if test.times == 2 && err != nil {
				t.Fatal(err)
			}
			if test.times == 1 && !isUnreached(err) {
				t.Fatalf("the outcome is unknown, and the error is %v", err)
			}
			page := must(straight.Jobs(ctx, topic, linger.Filter{}))(t)
			if len(page.Jobs) != test.jobs {
				t.Fatalf("the topic has %d jobs, not %d", len(page.Jobs), test.jobs)
			}
		})
	}
}

// isUnreached tells whether no answer came.
func isUnreached(err error) bool {
	var refused *linger.Error
	return errors.As(err, &refused) && refused.Code == "unavailable" && refused.Status == 0
}

func TestWhatIsMissingAtTheFirstTryIsAnError(t *testing.T) {
	c := connect(t, theServer(t).url)
	_, err := c.Delete(within(t), "nothing", "1")
	if !errors.Is(err, linger.ErrNotFound) {
		t.Fatal(err)
	}
}

func TestAnAnswerIsLostOnlyOnce(t *testing.T) {
	lossy := between(t, theServer(t).url, every(dropAnswer))
	other := between(t, theServer(t).url, every(dropAnswer))
	third := between(t, theServer(t).url, every(none))
	c := connect(t, lossy.URL, other.URL, third.URL)
	if _, err := c.Topics(within(t), linger.TopicFilter{}); !isUnreached(err) {
		t.Fatal(err)
	}
	if lossy.count.Load() != 1 || other.count.Load() != 1 || third.count.Load() != 0 {
		t.Fatal(lossy.count.Load(), other.count.Load(), third.count.Load())
	}
}

func TestWhatWasNotDoneIsTriedAgainWhateverItIs(t *testing.T) {
	ctx := within(t)
	topic := "not-done"
	straight := connect(t, theServer(t).url)
	for name, servers := range map[string][]string{
		"no connection": {"http://" + freeAddress(t), theServer(t).url},
		"overloaded":    {between(t, theServer(t).url, first(answer503Overloaded)).URL},
	} {
		t.Run(name, func(t *testing.T) {
			must(straight.Add(ctx, linger.NewJob{Topic: topic, ID: name, Delay: time.Hour}))(t)
			must(connect(t, servers...).Run(ctx, topic, name))(t)
		})
	}
}

func TestWhatMayHaveBeenDoneIsNotTriedAgainIfThatDoesHarm(t *testing.T) {
	ctx := within(t)
	must(connect(t, theServer(t).url).Add(ctx, linger.NewJob{Topic: "maybe-done", ID: "1", Delay: time.Hour}))(t)
	away := between(t, theServer(t).url, first(answer503))
	_, err := connect(t, away.URL).Run(ctx, "maybe-done", "1")
	if !errors.Is(err, linger.ErrUnavailable) || away.count.Load() != 1 {
		t.Fatal(err, away.count.Load())
	}
}

func TestALimitOfRateIsNotTriedAgain(t *testing.T) {
	limited := between(t, theServer(t).url, first(answer429))
	_, err := connect(t, limited.URL).Topics(within(t), linger.TopicFilter{})
	if !errors.Is(err, linger.ErrRateLimited) || limited.count.Load() != 1 {
		t.Fatal(err, limited.count.Load())
	}
}

func TestEveryAddressIsTriedOnceACall(t *testing.T) {
	var stubs []*middleman
	var addresses []string
	for i := 0; i < 3; i++ {
		stubs = append(stubs, between(t, "", every(answer503)))
		addresses = append(addresses, stubs[i].URL)
	}
	_, err := connect(t, addresses...).Topics(within(t), linger.TopicFilter{})
	var refused *linger.Error
	if !errors.As(err, &refused) || refused.Code != "unavailable" || refused.Status != 503 {
		t.Fatal(err)
	}
	for _, stub := range stubs {
		if stub.count.Load() != 1 {
			t.Fatalf("an address was tried %d times", stub.count.Load())
		}
	}
}

func TestTheAddressThatAnsweredIsKept(t *testing.T) {
	ctx := within(t)
	flaky := between(t, theServer(t).url, first(answer503))
	steady := between(t, theServer(t).url, every(none))
	c := connect(t, flaky.URL, steady.URL)
	for i := 0; i < 3; i++ {
		must(c.Topics(ctx, linger.TopicFilter{}))(t)
	}
	if flaky.count.Load() != 1 || steady.count.Load() != 3 {
		t.Fatal(flaky.count.Load(), steady.count.Load())
	}
}

func TestAServerThatDoesNotAnswerInTimeIsUnavailable(t *testing.T) {
	open := make(chan struct{})
	silent := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { <-open }))
	t.Cleanup(silent.Close)
	t.Cleanup(func() { close(open) })
	c := client(t, linger.Options{Servers: []string{silent.URL}, Timeout: 50 * time.Millisecond})
	_, err := c.Run(within(t), "a", "1")
	if !isUnreached(err) || !strings.Contains(err.Error(), "no answer") {
		t.Fatal(err)
	}
}

func TestAnAddressThatIsSilentUntilTheDeadlineIsLeft(t *testing.T) {
	silent := between(t, theServer(t).url, every(silence))
	c := connect(t, silent.URL, theServer(t).url)
	short, end := context.WithTimeout(within(t), 50*time.Millisecond)
	defer end()
	if _, err := c.Topics(short, linger.TopicFilter{}); !isUnreached(err) {
		t.Fatal(err)
	}
	must(c.Topics(within(t), linger.TopicFilter{}))(t)
	if silent.count.Load() != 1 {
		t.Fatalf("%d requests to the silent address", silent.count.Load())
	}
}

func TestTheWaitOfAPopIsNotCountedAsSilence(t *testing.T) {
	c := client(t, linger.Options{Servers: []string{theServer(t).url}, Timeout: 300 * time.Millisecond})
	jobs, err := c.Pop(within(t), linger.Pop{Topics: []string{"nobody-here"}, Wait: 600 * time.Millisecond})
	if err != nil || len(jobs) != 0 {
		t.Fatal(jobs, err)
	}
}

func TestAConnectionThatDoesNotStandInTimeIsUnavailable(t *testing.T) {
	// It takes connections, and says nothing in the handshake of TLS.
	listener := must(net.Listen("tcp", "127.0.0.1:0"))(t)
	t.Cleanup(func() { listener.Close() })
	c := client(t, linger.Options{
		Servers:        []string{"https://" + listener.Addr().String()},
		ConnectTimeout: 50 * time.Millisecond,
	})
	_, err := c.Run(within(t), "a", "1")
	if !isUnreached(err) || !strings.Contains(err.Error(), "no connection") {
		t.Fatal(err)
	}
}

func TestTheCallersContextEndsACall(t *testing.T) {
	c := connect(t, theServer(t).url)
	pop := linger.Pop{Topics: []string{"endless"}, Wait: time.Minute}
	ctx, cancel := context.WithTimeout(context.Background(), 50*time.Millisecond)
	defer cancel()
	if _, err := c.Pop(ctx, pop); !errors.Is(err, context.DeadlineExceeded) || !errors.Is(err, linger.ErrUnavailable) {
		t.Fatal(err)
	}
	ctx, cancel = context.WithCancel(context.Background())
	time.AfterFunc(50*time.Millisecond, cancel)
	if _, err := c.Pop(ctx, pop); !errors.Is(err, context.Canceled) || errors.Is(err, linger.ErrUnavailable) {
		t.Fatal(err)
	}
}

func TestAnAnswerByAStrangerIsToldByItsStatus(t *testing.T) {
	stranger := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusForbidden)
		_, _ = w.Write([]byte("<html>no</html>"))
	}))
	t.Cleanup(stranger.Close)
	_, err := connect(t, stranger.URL).Topics(within(t), linger.TopicFilter{})
	var refused *linger.Error
	if !errors.As(err, &refused) || refused.Code != "forbidden" || refused.Status != 403 {
		t.Fatal(err)
	}
}

func TestAnAddressThatIsNoneIsRefused(t *testing.T) {
	for _, server := range []string{"localhost:7300", "ftp://a", "http://"} {
		if _, err := linger.New(linger.Options{Servers: []string{server}}); err == nil {
			t.Fatalf("%s was taken", server)
		}
	}
}

func TestTheEnvironmentNamesServersAndKey(t *testing.T) {
	const key = "lk_0123456789abcdef_0123456789abcdef0123456789abcdef"
	server := start(t, []string{"LINGER_BOOTSTRAP_KEY=" + key})
	t.Setenv("LINGER_SERVER", "http://"+freeAddress(t)+", "+server.url)
	_, err := client(t, linger.Options{}).Topics(within(t), linger.TopicFilter{})
	if !errors.Is(err, linger.ErrUnauthorized) {
		t.Fatal(err)
	}
	t.Setenv("LINGER_KEY", key)
	must(client(t, linger.Options{}).Topics(within(t), linger.TopicFilter{}))(t)
	_, err = client(t, linger.Options{Key: "lk_wrong"}).Topics(within(t), linger.TopicFilter{})
	if !errors.Is(err, linger.ErrUnauthorized) {
		t.Fatal(err)
	}
}

func TestABodyOfJSONTravelsByteForByte(t *testing.T) {
	ctx := within(t)
	c := connect(t, theServer(t).url)
	raw := json.RawMessage(`{ "a" : 1.0,  "b":"<&>", "a":2 }`)
	must(c.Add(ctx, linger.NewJob{Topic: "raw", ID: "1", Body: raw}))(t)
	must(c.AddMany(ctx, []linger.NewJob{{Topic: "raw", ID: "2", Body: raw, Extra: map[string]any{"delay": "1h"}}}))(t)
	for _, id := range []string{"1", "2"} {
		if job := must(c.Get(ctx, "raw", id))(t); string(job.Body) != string(raw) || string(job.Bytes()) != string(raw) {
			t.Fatalf("%s has come back as %s", raw, job.Body)
		}
	}
	_, err := c.Add(ctx, linger.NewJob{Topic: "raw", Body: json.RawMessage(`1,"topic":"other"`)})
	if !errors.Is(err, linger.ErrInvalid) {
		t.Fatal(err)
	}
}

func TestABodyComesBackAsItWasGiven(t *testing.T) {
	ctx := within(t)
	c := connect(t, theServer(t).url)
	type order struct {
		Number int
		Items  []string
	}
	given := order{7, []string{"a<b", "世界"}}
	job := must(c.Add(ctx, linger.NewJob{Topic: "bodies", Body: given}))(t)
	var back order
	if err := must(c.Get(ctx, "bodies", job.ID))(t).Decode(&back); err != nil || !reflect.DeepEqual(back, given) {
		t.Fatal(back, err)
	}
	job = must(c.Add(ctx, linger.NewJob{Topic: "bodies", Body: []byte{0, 255, 1}}))(t)
	if got := must(c.Get(ctx, "bodies", job.ID))(t); string(got.Bytes()) != "\x00\xff\x01" || got.Body != nil {
		t.Fatal(got.Bytes())
	}
	job = must(c.Add(ctx, linger.NewJob{Topic: "bodies", Body: "text"}))(t)
	if got := must(c.Get(ctx, "bodies", job.ID))(t); string(got.Bytes()) != "text" || string(got.Body) != `"text"` {
		t.Fatal(got.Bytes())
	}
}

func TestZeroAndNullCanBeGiven(t *testing.T) {
	ctx := within(t)
	c := connect(t, theServer(t).url)
	must(c.Add(ctx, linger.NewJob{Topic: "zero", ID: "1", Delay: time.Hour, Priority: linger.Ptr(0), TTR: time.Minute,
		Retry: &linger.Retry{Attempts: linger.Ptr(0)}}))(t)
	job := must(c.Get(ctx, "zero", "1"))(t)
	if job.Priority != 0 || job.TTR != time.Minute || *job.Retry.Attempts != 0 {
		t.Fatalf("%+v", job)
	}
	must(c.Update(ctx, "zero", "1", linger.Changes{Delay: linger.Ptr(time.Duration(0)), Extra: map[string]any{"ttr": nil}}))(t)
	if job = must(c.Get(ctx, "zero", "1"))(t); job.State != "ready" || job.TTR != 0 {
		t.Fatalf("%+v", job)
	}
}

func TestAllSettingsOfAJobComeBack(t *testing.T) {
	ctx := within(t)
	c := connect(t, theServer(t).url)
	at := time.Date(2999, 1, 2, 3, 4, 5, 6e6, time.UTC)
	given := linger.NewJob{
		Topic: "full", At: at, TTR: 90 * time.Second, Priority: linger.Ptr(3),
		Retry:  &linger.Retry{Ladder: []time.Duration{1500 * time.Millisecond, 48 * time.Hour}, From: "due"},
		Repeat: &linger.Repeat{Cron: "0 9 * * *", TZ: "Asia/Shanghai", Until: at.AddDate(1, 0, 0), Count: 5, Misfire: &linger.Misfire{All: 3}, OnDead: "stop"},
		Target: "http://127.0.0.1:1/", Confirm: "finish", Envelope: "cloudevents", Retain: 36 * time.Hour,
		ContentType: "text/x-order", Traceparent: "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
		Body: 1,
	}
	added := must(c.Add(ctx, given))(t)
	got := must(c.Get(ctx, "full", added.ID))(t)
	want := linger.NewJob{
		Topic: got.Topic, At: got.Due, TTR: got.TTR, Priority: &got.Priority, Retry: got.Retry, Repeat: got.Repeat,
		Target: got.Target, Confirm: got.Confirm, Envelope: got.Envelope, Retain: got.Retain,
		ContentType: got.ContentType, Traceparent: got.Traceparent, Body: 1,
	}
	given.Retry.Attempts = got.Retry.Attempts
	if !reflect.DeepEqual(asJSON(t, want.Repeat), asJSON(t, given.Repeat)) {
		t.Fatalf("%+v is not %+v", want.Repeat, given.Repeat)
	}
	want.Repeat, given.Repeat = nil, nil
	if !reflect.DeepEqual(want, given) {
		t.Fatalf("%+v is not %+v", want, given)
	}
	misfire := linger.NewJob{Topic: "full", Delay: time.Hour, Repeat: &linger.Repeat{Every: time.Hour, Misfire: &linger.Misfire{Rule: "skip"}}}
	if job := must(c.Add(ctx, misfire))(t); job.Repeat.Misfire.Rule != "skip" || job.Repeat.Every != time.Hour {
		t.Fatalf("%+v", job.Repeat)
	}
}

func TestAllSettingsOfATopicComeBack(t *testing.T) {
	ctx := within(t)
	c := connect(t, theServer(t).url)
	given := linger.Settings{
		TTR: time.Minute, Retry: &linger.Retry{Attempts: linger.Ptr(3), Backoff: &linger.Backoff{Base: time.Second, Max: time.Hour, Jitter: linger.Ptr(0.5)}},
		Target: "http://127.0.0.1:1/", Confirm: "finish", Envelope: "task", Timeout: 1500 * time.Millisecond,
		Headers: map[string]string{"x-a": "b"}, Archive: "http://127.0.0.1:1/archive", Retain: time.Hour, RetainDead: 8 * 24 * time.Hour,
		Rate: "10/1m", Concurrency: 4, JobsMax: 5, BytesMax: 6 << 40,
	}
	got := must(c.Configure(ctx, "settings", given))(t)
	if !reflect.DeepEqual(got.Settings, given) {
		t.Fatalf("%+v is not %+v", got.Settings, given)
	}
	paused := must(c.Pause(ctx, "settings", time.Hour))(t)
	if !paused.Paused || paused.PausedFor <= 0 || paused.PausedFor > time.Hour {
		t.Fatalf("%+v", paused)
	}
}

func TestEachJobGoesThroughAllPages(t *testing.T) {
	ctx := within(t)
	c := connect(t, theServer(t).url)
	jobs := make([]linger.NewJob, 25)
	for i := range jobs {
		jobs[i] = linger.NewJob{Topic: "pages", Delay: time.Hour, Body: i}
	}
	must(c.AddMany(ctx, jobs))(t)
	seen := map[string]bool{}
	err := c.EachJob(ctx, "pages", linger.Filter{Limit: 10, Body: true}, func(job *linger.Job) error {
		seen[string(job.Body)] = true
		return nil
	})
	if err != nil || len(seen) != 25 {
		t.Fatal(len(seen), err)
	}
	stop := errors.New("enough")
	if err := c.EachJob(ctx, "pages", linger.Filter{}, func(*linger.Job) error { return stop }); err != stop {
		t.Fatal(err)
	}
	page := must(c.Jobs(ctx, "pages", linger.Filter{DueBefore: time.Now()}))(t)
	if len(page.Jobs) != 0 {
		t.Fatal("jobs are listed that are due later")
	}
}

func TestNamesThatLookLikeStepsInAPath(t *testing.T) {
	ctx := within(t)
	c := connect(t, theServer(t).url)
	must(c.Add(ctx, linger.NewJob{Topic: "..", ID: ".", Delay: time.Hour}))(t)
	must(c.Get(ctx, "..", "."))(t)
}

func TestHistoryTellsWhatHappened(t *testing.T) {
	ctx := within(t)
	c := connect(t, theServer(t).url)
	job := reserved(t, c, "history")
	must(c.Fail(ctx, job, linger.Failure{Error: "no luck"}))(t)
	events := must(c.History(ctx, "history", "1"))(t)
	last := events[len(events)-1]
	if last.What != "failed" || last.Error != "no luck" || last.At.IsZero() || last.Attempt != 1 {
		t.Fatalf("%+v", last)
	}
}

func readFile(t testing.TB, path string) []byte {
	t.Helper()
	return must(os.ReadFile(path))(t)
}
