// Loads Faktory, whose server is at a port.
package main

import (
	"errors"
	"fmt"
	"os"
	"time"

	faktory "github.com/contribsys/faktory/client"

	"linger.dev/bench/peers/load"
)

type peer struct {
	pool *faktory.Pool
}

const (
	queue = "default"
	// Faktory closes the connections of a worker's process that has not been heard of for a minute.
	beat = 15 * time.Second
)

func main() {
	load.Main(func(port, atOnce int) (load.Peer, error) {
		server := faktory.DefaultServer()
		server.Address = fmt.Sprintf("127.0.0.1:%d", port)
		faktory.RandomProcessWid = "linger-bench"
		pool, err := faktory.NewPoolWithClientConstructor(2*max(atOnce, 64), server.Open)
		if err != nil {
			return nil, err
		}
		p := &peer{pool}
		go p.beat()
		return p, nil
	})
}

func (p *peer) beat() {
	for range time.Tick(beat) {
		load.Must(p.pool.With(func(conn *faktory.Client) error {
			_, err := conn.Beat()
			return err
		}))
	}
}

func (p *peer) Add(job load.Job) error {
	return p.pool.With(func(conn *faktory.Client) error { return conn.Push(theirs(job)) })
}

func (p *peer) AddAll(jobs []load.Job) error {
	bulk := make([]*faktory.Job, len(jobs))
	for n, job := range jobs {
		bulk[n] = theirs(job)
	}
	return p.pool.With(func(conn *faktory.Client) error {
		refused, err := conn.PushBulk(bulk)
		if err == nil && len(refused) > 0 {
			err = fmt.Errorf("%d of %d jobs were refused", len(refused), len(jobs))
		}
		return err
	})
}

// Faktory looks through all delayed jobs for it, and advises against it.
func (p *peer) Cancel(id string) error {
	err := p.pool.With(func(conn *faktory.Client) error {
		return conn.Discard(faktory.Scheduled, faktory.WithJids(id))
	})
	if errors.Is(err, os.ErrDeadlineExceeded) {
		return load.Unsupported("a job is searched for among all delayed ones, for longer than the client waits")
	}
	return err
}

func (p *peer) Work(workers int, taken func(string), finished func()) error {
	for range workers {
		conn, err := p.pool.Get()
		if err != nil {
			return err
		}
		go func() {
			for {
				load.Must(work(conn, taken, finished))
			}
		}()
	}
	return nil
}

func work(conn *faktory.Client, taken func(string), finished func()) error {
	job, err := conn.Fetch(queue)
	if err != nil || job == nil {
		return err
	}
	taken(job.Args[0].(string))
	if err := conn.Ack(job.Jid); err != nil {
		return err
	}
	finished()
	return nil
}

func theirs(job load.Job) *faktory.Job {
	made := faktory.NewJob("order", job.Body)
	made.Queue = queue
	made.Jid = job.ID
	if !job.Due.IsZero() {
		made.At = job.Due.UTC().Format(time.RFC3339Nano)
	}
	return made
}
