package load

import (
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

// A tally of what workers finish, from when some are finished until so many more are.
type tally struct {
	mu            sync.Mutex
	jobs          int
	before, count int
	start, end    time.Time
	begun, ended  chan struct{}
}

func newTally(before, count int) *tally {
	return &tally{before: before, count: count, begun: make(chan struct{}), ended: make(chan struct{})}
}

func (t *tally) finished() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.jobs++
	if t.start.IsZero() && t.jobs == t.before {
		t.beginNow()
	} else if !t.start.IsZero() && t.end.IsZero() && t.jobs == t.count {
		t.endNow()
	}
}

// Does not wait for more jobs that do not count.
func (t *tally) begin() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.start.IsZero() {
		t.beginNow()
	}
}

func (t *tally) hasBegun(within time.Duration) bool {
	return isClosed(t.begun, within)
}

// How many were finished by the end, which comes with the last of them or when the time is over.
func (t *tally) hasEnded(within time.Duration) (int, bool) {
	all := isClosed(t.ended, within)
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.end.IsZero() {
		t.endNow()
	}
	return min(t.jobs, t.count), all
}

func (t *tally) beginNow() {
	t.jobs = 0
	t.start = time.Now()
	close(t.begun)
}

func (t *tally) endNow() {
	t.end = time.Now()
	close(t.ended)
}

func isClosed(what <-chan struct{}, within time.Duration) bool {
	select {
	case <-what:
		return true
	case <-time.After(within):
		return false
	}
}

type lateness struct {
	P50   float64 `json:"p50_ms"`
	P99   float64 `json:"p99_ms"`
	Max   float64 `json:"max_ms"`
	Early int     `json:"early"`
}

func latenessOf(late []time.Duration) lateness {
	slices.Sort(late)
	early, _ := slices.BinarySearch(late, 0)
	// One that came early is not late at all.
	at := func(part float64) float64 {
		return milliseconds(max(0, late[int(float64(len(late)-1)*part)]))
	}
	return lateness{at(0.5), at(0.99), at(1), early}
}

// A body begins with when its job is due.
func dueOf(body string) time.Time {
	given, _, _ := strings.Cut(body, " ")
	due, err := strconv.ParseInt(given, 10, 64)
	Must(err)
	return time.Unix(0, due)
}

func milliseconds(length time.Duration) float64 {
	return float64(length) / float64(time.Millisecond)
}
