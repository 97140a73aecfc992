// A worker that writes down the ids of the jobs it has done, one a line.
//
//	go run ./examples/worker -topic order.close -done done.txt
//
// It may be killed at any time and started again: no job is lost, and those that it had in hand come back when
// their lease is over.
package main

import (
	"context"
	"flag"
	"log"
	"os"
	"os/signal"
	"syscall"
	"time"

	"linger.dev/go"
)

func main() {
	topic := flag.String("topic", "hello", "whose jobs to work on")
	done := flag.String("done", "done.txt", "the file for the ids")
	ttr := flag.Duration("ttr", 0, "how long a lease is, in place of the jobs' own")
	takes := flag.Duration("takes", 0, "how long a job takes")
	flag.Parse()

	client, err := linger.New(linger.Options{})
	if err != nil {
		log.Fatal(err)
	}
	// With O_APPEND each line is written at the end, in one piece.
	file, err := os.OpenFile(*done, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		log.Fatal(err)
	}
	defer file.Close()

	worker := linger.Worker{
		Client: client,
		TTR:    *ttr,
		Handlers: map[string]linger.Handler{
			*topic: func(ctx context.Context, job *linger.Job) error {
				select {
				case <-time.After(*takes):
				case <-ctx.Done():
					return context.Cause(ctx)
				}
				_, err := file.WriteString(job.ID + "\n")
				return err
			},
		},
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := worker.Run(ctx); err != nil {
		log.Fatal(err)
	}
}
