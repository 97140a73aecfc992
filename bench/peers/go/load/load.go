// Package load is what the programs share that load a peer: what they are asked for, and the line they print.
// See "Peers" in ../../../README.md.
package load

import (
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strconv"
	"sync"
	"sync/atomic"
	"time"
)

// Peer is a queue that is measured. Its methods are called by many at once.
type Peer interface {
	// Add returns when the job is with the peer.
	Add(job Job) error
	// Work starts so many workers. Each calls taken when it has a job in hand, and finished when that is gone.
	Work(workers int, taken func(body string), finished func()) error
}

// Batcher is a peer that takes 100 jobs in one call.
type Batcher interface {
	AddAll(jobs []Job) error
}

// Canceler is a peer that removes a delayed job by its id.
type Canceler interface {
	Cancel(id string) error
}

// Job is due at once if its Due is zero.
type Job struct {
	ID   string
	Due  time.Time
	Body string
}

const (
	batch     = 100
	bodyBytes = 200
	// What does not count: at most so many jobs, or a part of the time.
	warmUp     = 2000
	warmUpPart = 4
	// Calls under way while jobs are put that others then take.
	putters         = 64
	latenessWorkers = 16
	burstWorkers    = 64
	ahead           = 3 * time.Second
	warmUpMax       = 60 * time.Second
	forever         = 24 * time.Hour
)

type run struct {
	peer       Peer
	atOnce     int
	count      int
	limit      time.Duration
	dueASecond int
	// In front of ids, which no other run on the same server may have had.
	name string
}

type rate struct {
	Jobs    int     `json:"jobs"`
	Seconds float64 `json:"seconds"`
}

// Unsupported says why a peer cannot do what it is asked for.
type Unsupported string

func (why Unsupported) Error() string { return string(why) }

// Main does what the program's arguments ask for, with the peer that open finds at a port: PORT WHAT AT_ONCE COUNT
// MILLISECONDS [DUE_A_SECOND].
func Main(open func(port, atOnce int) (Peer, error)) {
	told, err := figures(open)
	if why, ok := errors.AsType[Unsupported](err); ok {
		told, err = map[string]string{"unsupported": string(why)}, nil
	}
	Must(err)
	Must(json.NewEncoder(os.Stdout).Encode(told))
	// What is under way does not count any more.
	os.Exit(0)
}

// Must ends the program if there is an error.
func Must(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func figures(open func(port, atOnce int) (Peer, error)) (any, error) {
	if len(os.Args) < 6 {
		return nil, errors.New("usage: PORT WHAT AT_ONCE COUNT MILLISECONDS [DUE_A_SECOND]")
	}
	var numbers [5]int
	for n, given := range append([]string{os.Args[1]}, os.Args[3:]...) {
		var err error
		if numbers[n], err = strconv.Atoi(given); err != nil {
			return nil, err
		}
	}
	r := run{
		atOnce:     numbers[1],
		count:      numbers[2],
		limit:      time.Duration(numbers[3]) * time.Millisecond,
		dueASecond: numbers[4],
		name:       fmt.Sprintf("%x-%x", time.Now().UnixMilli(), os.Getpid()),
	}
	var err error
	if r.peer, err = open(numbers[0], r.atOnce); err != nil {
		return nil, err
	}
	return r.of(os.Args[2])
}

func (r *run) of(what string) (any, error) {
	switch what {
	case "add":
		return r.add()
	case "batch":
		return r.batch()
	case "work":
		return r.work()
	case "round":
		return r.round()
	case "cancel":
		return r.cancel()
	case "fill":
		return r.fill()
	case "lateness":
		return r.lateness()
	case "burst":
		return r.burst()
	}
	return nil, fmt.Errorf("unknown load `%s`", what)
}

func (r *run) add() (any, error) {
	return r.warmCalls(func(id string) error { return r.peer.Add(delayed(id)) })
}

func (r *run) batch() (any, error) {
	peer, ok := r.peer.(Batcher)
	if !ok {
		return nil, Unsupported("no call takes 100 jobs")
	}
	call := func(prefix string) func(int) error {
		return func(n int) error {
			jobs := make([]Job, batch)
			for at := range jobs {
				jobs[at] = delayed(r.id(prefix, n*batch+at))
			}
			return peer.AddAll(jobs)
		}
	}
	if _, err := calls(r.atOnce, warmUp/batch, r.limit/warmUpPart, call("warm")); err != nil {
		return nil, err
	}
	told, err := calls(r.atOnce, r.count/batch, r.limit, call("order"))
	told.Jobs *= batch
	return told, err
}

func (r *run) cancel() (any, error) {
	peer, ok := r.peer.(Canceler)
	if !ok {
		return nil, Unsupported("no call removes a delayed job by its id")
	}
	for prefix, count := range map[string]int{"warm": warmUp, "order": r.count} {
		if err := r.put(count, func(n int) Job { return delayed(r.id(prefix, n)) }); err != nil {
			return nil, err
		}
	}
	return r.warmCalls(peer.Cancel)
}

func (r *run) fill() (any, error) {
	start := time.Now()
	err := r.put(r.count, func(n int) Job { return delayed(r.id("order", n)) })
	return rate{r.count, time.Since(start).Seconds()}, err
}

func (r *run) work() (any, error) {
	if err := r.put(warmUp+r.count, r.dueNow); err != nil {
		return nil, err
	}
	return r.workOff()
}

func (r *run) round() (any, error) {
	go func() {
		_, err := calls(r.atOnce, warmUp+r.count, forever, func(n int) error { return r.peer.Add(r.dueNow(n)) })
		Must(err)
	}()
	return r.workOff()
}

func (r *run) lateness() (any, error) {
	late, _, err := r.atTimes(latenessWorkers, time.Second/time.Duration(r.dueASecond))
	if err != nil {
		return nil, err
	}
	return latenessOf(late), nil
}

func (r *run) burst() (any, error) {
	_, last, err := r.atTimes(burstWorkers, 0)
	return map[string]float64{"last_ms": milliseconds(last)}, err
}

// Has all jobs added before the first is due, and answers how late each came and the last was finished.
func (r *run) atTimes(workers int, apart time.Duration) ([]time.Duration, time.Duration, error) {
	var mu sync.Mutex
	var late []time.Duration
	taken := func(body string) {
		by := time.Since(dueOf(body))
		mu.Lock()
		defer mu.Unlock()
		late = append(late, by)
	}
	done := newTally(warmUp, r.count)
	if err := r.peer.Work(workers, taken, done.finished); err != nil {
		return nil, 0, err
	}
	start := time.Now()
	if err := r.put(warmUp, r.dueNow); err != nil {
		return nil, 0, err
	}
	each := time.Since(start) / warmUp
	if !done.hasBegun(warmUpMax) {
		return nil, 0, fmt.Errorf("%d jobs were not finished within %v", warmUp, warmUpMax)
	}
	mu.Lock()
	late = late[:0]
	mu.Unlock()

	due := time.Now().Add(ahead + 2*time.Duration(r.count)*each)
	err := r.put(r.count, func(n int) Job {
		return newJob(r.id("timed", n), due.Add(time.Duration(n)*apart))
	})
	if err == nil && time.Now().After(due) {
		err = errors.New("the adds took longer than was allowed for")
	}
	if err != nil {
		return nil, 0, err
	}
	if jobs, ended := done.hasEnded(time.Until(due) + r.limit); !ended {
		return nil, 0, Unsupported(fmt.Sprintf("only %d of %d within %v", jobs, r.count, r.limit))
	}
	return late, done.end.Sub(due), nil
}

func (r *run) workOff() (any, error) {
	done := newTally(warmUp, r.count)
	if err := r.peer.Work(r.atOnce, func(string) {}, done.finished); err != nil {
		return nil, err
	}
	done.hasBegun(r.limit / warmUpPart)
	done.begin()
	jobs, _ := done.hasEnded(r.limit)
	return rate{jobs, done.end.Sub(done.start).Seconds()}, nil
}

func (r *run) warmCalls(call func(id string) error) (any, error) {
	warm := func(n int) error { return call(r.id("warm", n)) }
	if _, err := calls(r.atOnce, warmUp, r.limit/warmUpPart, warm); err != nil {
		return nil, err
	}
	return calls(r.atOnce, r.count, r.limit, func(n int) error { return call(r.id("order", n)) })
}

// Puts jobs by whatever is fastest.
func (r *run) put(count int, made func(n int) Job) error {
	peer, ok := r.peer.(Batcher)
	if !ok {
		_, err := calls(putters, count, forever, func(n int) error { return r.peer.Add(made(n)) })
		return err
	}
	_, err := calls(putters, (count+batch-1)/batch, forever, func(call int) error {
		var jobs []Job
		for n := call * batch; n < min((call+1)*batch, count); n++ {
			jobs = append(jobs, made(n))
		}
		return peer.AddAll(jobs)
	})
	return err
}

// One call at a time, by so many at once.
func calls(atOnce, count int, limit time.Duration, call func(n int) error) (rate, error) {
	var next, done atomic.Int64
	var callers sync.WaitGroup
	wrong := make(chan error, atOnce)
	start := time.Now()
	for range atOnce {
		callers.Go(func() {
			for time.Since(start) < limit {
				n := int(next.Add(1)) - 1
				if n >= count {
					return
				}
				if err := call(n); err != nil {
					wrong <- err
					return
				}
				done.Add(1)
			}
		})
	}
	callers.Wait()
	told := rate{int(done.Load()), time.Since(start).Seconds()}
	select {
	case err := <-wrong:
		return told, err
	default:
		return told, nil
	}
}

func newJob(id string, due time.Time) Job {
	random := make([]byte, bodyBytes/2)
	rand.Read(random)
	from := due
	if due.IsZero() {
		from = time.Now()
	}
	body := strconv.FormatInt(from.UnixNano(), 10) + " " + hex.EncodeToString(random)
	return Job{id, due, body[:bodyBytes]}
}

func delayed(id string) Job {
	return newJob(id, time.Now().Add(24*time.Hour))
}

func (r *run) dueNow(n int) Job {
	return newJob(r.id("order", n), time.Time{})
}

func (r *run) id(prefix string, n int) string {
	return fmt.Sprintf("%s-%s-%d", r.name, prefix, n)
}
