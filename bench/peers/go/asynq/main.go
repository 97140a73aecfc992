// Loads asynq, on the Redis at a port.
package main

import (
	"context"
	"fmt"
	"time"

	"github.com/hibiken/asynq"

	"linger.dev/bench/peers/load"
)

type peer struct {
	redis     asynq.RedisClientOpt
	client    *asynq.Client
	inspector *asynq.Inspector
}

const queue = "default"

func main() {
	load.Main(func(port, atOnce int) (load.Peer, error) {
		// Adders and workers, each with what asynq keeps for itself.
		redis := asynq.RedisClientOpt{Addr: fmt.Sprintf("127.0.0.1:%d", port), PoolSize: max(atOnce, 64) + 16}
		return &peer{redis, asynq.NewClient(redis), asynq.NewInspector(redis)}, nil
	})
}

func (p *peer) Add(job load.Job) error {
	options := []asynq.Option{asynq.TaskID(job.ID)}
	if !job.Due.IsZero() {
		options = append(options, asynq.ProcessAt(job.Due))
	}
	_, err := p.client.Enqueue(asynq.NewTask("order", []byte(job.Body)), options...)
	return err
}

func (p *peer) Cancel(id string) error {
	return p.inspector.DeleteTask(queue, id)
}

// A server asks for one job at a time, however many workers it has: so there are several, as there would be processes.
const workersAServer = 16

// A job is finished shortly after its handler has returned, which nobody is told.
func (p *peer) Work(workers int, taken func(string), finished func()) error {
	handler := asynq.HandlerFunc(func(_ context.Context, task *asynq.Task) error {
		taken(string(task.Payload()))
		finished()
		return nil
	})
	for from := 0; from < workers; from += workersAServer {
		server := asynq.NewServer(p.redis, asynq.Config{
			Concurrency: min(workersAServer, workers-from),
			LogLevel:    asynq.FatalLevel,
			// By default 5 s. Due times are kept in whole seconds, so that less would gain nothing.
			DelayedTaskCheckInterval: time.Second,
			// By default 1 s. That would be the lateness of most jobs; less than this is a burden on Redis.
			TaskCheckInterval: 200 * time.Millisecond,
		})
		if err := server.Start(handler); err != nil {
			return err
		}
	}
	return nil
}
