package linger

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime/debug"
	"sort"
	"time"
)

// Handler works on a job. If it returns nil the job is finished; an error, or a panic, is a failed attempt.
// [RetryIn] and [Again] say more.
type Handler func(ctx context.Context, job *Job) error

// ErrStopped is the cause of the end of a handler's context when the grace time of a stop is over.
var ErrStopped = errors.New("linger: stopped")

const (
	defaultConcurrency = 8
	defaultGrace       = 30 * time.Second
	popWait            = 30 * time.Second
	releaseTime        = 5 * time.Second
)

// Worker pops jobs and has handlers work on them.
type Worker struct {
	Client      *Client
	Handlers    map[string]Handler // by topic
	Concurrency int                // so many handlers at once; 8 unless given
	TTR         time.Duration      // how long a lease is, in place of the jobs' own; it is renewed while a handler works
	Grace       time.Duration      // how long handlers may go on after a stop; 30 s unless given
	Log         *slog.Logger       // slog.Default() unless given
}

// Run works until ctx ends, and then stops: it asks for no more, lets handlers end for the grace time, and
// releases the jobs of those that have not. It gives an error if the server refuses for good, for a wrong key say.
//
// The context of a handler has the values of ctx. It ends when the job's lease is lost, with [ErrLeaseLost] as
// its [context.Cause], and nothing is said to the server of its outcome; or after the grace time, with [ErrStopped].
func (w *Worker) Run(ctx context.Context) error {
	handlers, cut := context.WithCancelCause(context.WithoutCancel(ctx))
	defer cut(nil)
	crew := crew{Worker: w, log: logger(w.Log), handlers: handlers, hands: make(chan struct{}, w.concurrency())}
	for i := 0; i < cap(crew.hands); i++ {
		crew.hands <- struct{}{}
	}
	err := crew.pull(ctx)
	grace, end := context.WithTimeout(handlers, orElse(w.Grace, defaultGrace))
	defer end()
	if !crew.allBack(grace) {
		cut(ErrStopped)
		crew.allBack(context.Background())
	}
	return err
}

func (w *Worker) concurrency() int {
	if w.Concurrency < 1 {
		return defaultConcurrency
	}
	return w.Concurrency
}

// crew is a worker that runs.
type crew struct {
	*Worker
	log      *slog.Logger
	handlers context.Context // ends when handlers have to
	hands    chan struct{}   // those that are free
}

// pull pops jobs and hands them out until ctx ends or the server refuses for good.
func (c *crew) pull(ctx context.Context) error {
	topics := topicsOf(c.Handlers)
	var pauses pauses
	for {
		free := c.takeHands(ctx)
		if free == 0 {
			return nil
		}
		jobs, err := c.Client.Pop(ctx, Pop{Topics: topics, Max: free, Wait: popWait, TTR: c.TTR})
		work := c.work
		if ctx.Err() != nil {
			work = c.handBack
		}
		for _, job := range jobs {
			go work(job)
		}
		c.giveBack(free - len(jobs))
		switch {
		case ctx.Err() != nil:
			return nil
		case err == nil:
			pauses.reset()
		case forGood(err):
			return err
		default:
			pause := pauses.next()
			c.log.Warn("linger: no jobs can be had", "error", err, "again_in", pause)
			sleep(ctx, pause)
		}
	}
}

// takeHands waits for a free hand, and takes all that are; none if ctx ends.
func (c *crew) takeHands(ctx context.Context) (taken int) {
	select {
	case <-c.hands:
		taken = 1
	case <-ctx.Done():
		return 0
	}
	for {
		select {
		case <-c.hands:
			taken++
		default:
			return taken
		}
	}
}

func (c *crew) giveBack(hands int) {
	for ; hands > 0; hands-- {
		c.hands <- struct{}{}
	}
}

// allBack waits until all hands are free, and tells whether they were before ctx ended.
func (c *crew) allBack(ctx context.Context) bool {
	for back := 0; back < cap(c.hands); back++ {
		select {
		case <-c.hands:
		case <-ctx.Done():
			c.giveBack(back)
			return false
		}
	}
	return true
}

// work has a handler work on the job, keeps its lease meanwhile, and tells the server what came of it. It has
// one hand, and alone speaks of this job to the server.
func (c *crew) work(job *Job) {
	defer c.giveBack(1)
	ctx, lose := context.WithCancelCause(c.handlers)
	defer lose(nil)
	result := make(chan error, 1)
	go func() { result <- handle(ctx, c.log, c.Handlers[job.Topic], job) }()

	lease := lease{crew: c, job: job, until: job.held}
	renewal := time.NewTimer(lease.half())
	defer renewal.Stop()
	for {
		select {
		case err := <-result:
			lease.settle(err)
			return
		case <-c.handlers.Done():
			c.release(job)
			return
		case <-renewal.C:
		}
		next, lost := lease.renew()
		if lost {
			c.log.Warn("linger: a lease was lost", "topic", job.Topic, "job", job.ID)
			lose(ErrLeaseLost)
			select {
			case <-result:
			case <-c.handlers.Done():
			}
			return
		}
		renewal.Reset(next)
	}
}

// handBack releases a job that came as the worker was asked to stop.
func (c *crew) handBack(job *Job) {
	defer c.giveBack(1)
	c.release(job)
}

func (c *crew) release(job *Job) {
	ctx, end := context.WithTimeout(context.WithoutCancel(c.handlers), releaseTime)
	defer end()
	if _, err := c.Client.Release(ctx, job, Release{}); err != nil {
		c.log.Warn("linger: a job was not released, and comes back when its lease is over",
			"topic", job.Topic, "job", job.ID, "error", err)
	}
}

// lease is that of a job that a handler works on.
type lease struct {
	*crew
	job    *Job
	until  time.Time // by this machine's clock
	failed bool      // whether the last try to renew it has
	pauses pauses
}

// renewalMin keeps a lease of next to no time from being renewed without a pause.
const renewalMin = 10 * time.Millisecond

func (l *lease) half() time.Duration { return max(time.Until(l.until)/2, renewalMin) }

// renew touches the job, and gives when to do so next. The first try leaves time for one at another address.
func (l *lease) renew() (next time.Duration, lost bool) {
	limit := l.until
	if !l.failed {
		limit = time.Now().Add(l.half())
	}
	ctx, end := context.WithDeadline(l.handlers, limit)
	defer end()
	_, until, err := l.Client.touch(ctx, l.job, l.TTR)
	l.failed = err != nil
	switch {
	case err == nil:
		l.until = until
		l.pauses.reset()
		return l.half(), false
	case gone(err), !time.Now().Before(l.until):
		return 0, true
	}
	return min(l.pauses.next(), time.Until(l.until)), false
}

// settle tells the server what came of the job, again and again while it is away and the lease lasts.
func (l *lease) settle(result error) {
	ctx, end := context.WithDeadline(context.WithoutCancel(l.handlers), l.until)
	defer end()
	l.pauses.reset()
	for {
		err := l.tell(ctx, result)
		if err == nil {
			return
		}
		if gone(err) || forGood(err) || ctx.Err() != nil || !sleep(l.handlers, l.pauses.next()) {
			l.log.Warn("linger: the outcome of a job could not be told",
				"topic", l.job.Topic, "job", l.job.ID, "outcome", result, "error", err)
			return
		}
	}
}

func (l *lease) tell(ctx context.Context, result error) error {
	if result == nil {
		_, err := l.Client.Finish(ctx, l.job)
		return err
	}
	_, err := l.Client.Fail(ctx, l.job, failureOf(result))
	return err
}

// gone tells whether the lease does not hold any more.
func gone(err error) bool {
	return errors.Is(err, ErrLeaseLost) || errors.Is(err, ErrNotFound) || errors.Is(err, ErrWrongState)
}

// handle calls the handler; a panic is its error.
func handle(ctx context.Context, log *slog.Logger, handler Handler, job *Job) (err error) {
	defer func() {
		if cause := recover(); cause != nil {
			log.Error("linger: a handler has panicked",
				"topic", job.Topic, "job", job.ID, "panic", cause, "stack", string(debug.Stack()))
			err = fmt.Errorf("panic: %v", cause)
		}
	}()
	return handler(ctx, job)
}

func topicsOf(handlers map[string]Handler) []string {
	topics := make([]string, 0, len(handlers))
	for topic := range handlers {
		topics = append(topics, topic)
	}
	sort.Strings(topics)
	return topics
}

func logger(log *slog.Logger) *slog.Logger {
	if log == nil {
		return slog.Default()
	}
	return log
}
