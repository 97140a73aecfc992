// Loads the message schedules of NATS JetStream, whose server is at a port.
package main

import (
	"context"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"linger.dev/bench/peers/load"
)

// One job waits on a subject of its own, which is its id; when it is due the server moves it to the subject of all.
type peer struct {
	js     jetstream.JetStream
	stream jetstream.Stream
}

const (
	delayed = "delayed."
	due     = "due"
	// By default 1,000 messages may be with consumers and 4,000 adds on their way: too few for a burst and for batches.
	inHandMax = 10_000
	addsMax   = 100_000
)

func main() {
	load.Main(func(port, _ int) (load.Peer, error) {
		conn, err := nats.Connect(fmt.Sprintf("nats://127.0.0.1:%d", port))
		if err != nil {
			return nil, err
		}
		js, err := jetstream.New(conn, jetstream.WithPublishAsyncMaxPending(addsMax))
		if err != nil {
			return nil, err
		}
		stream, err := js.CreateOrUpdateStream(context.Background(), jetstream.StreamConfig{
			Name:              "orders",
			Subjects:          []string{delayed + ">", due},
			Retention:         jetstream.WorkQueuePolicy,
			AllowMsgSchedules: true,
		})
		return &peer{js, stream}, err
	})
}

func (p *peer) Add(job load.Job) error {
	_, err := p.js.PublishMsg(context.Background(), theirs(job))
	return err
}

// All of them are on their way before the first answer is awaited.
func (p *peer) AddAll(jobs []load.Job) error {
	answers := make([]jetstream.PubAckFuture, len(jobs))
	for n, job := range jobs {
		var err error
		if answers[n], err = p.js.PublishMsgAsync(theirs(job)); err != nil {
			return err
		}
	}
	for _, answer := range answers {
		select {
		case <-answer.Ok():
		case err := <-answer.Err():
			return err
		}
	}
	return nil
}

func (p *peer) Cancel(id string) error {
	return p.stream.Purge(context.Background(), jetstream.WithPurgeSubject(delayed+id))
}

func (p *peer) Work(workers int, taken func(string), finished func()) error {
	consumer, err := p.stream.CreateOrUpdateConsumer(context.Background(), jetstream.ConsumerConfig{
		Durable:       "workers",
		FilterSubject: due,
		AckPolicy:     jetstream.AckExplicitPolicy,
		MaxAckPending: inHandMax,
	})
	if err != nil {
		return err
	}
	messages := make(chan jetstream.Msg)
	_, err = consumer.Consume(func(message jetstream.Msg) { messages <- message })
	for range workers {
		go func() {
			for message := range messages {
				taken(string(message.Data()))
				// Ack alone would not say whether the server has heard it.
				load.Must(message.DoubleAck(context.Background()))
				finished()
			}
		}()
	}
	return err
}

func theirs(job load.Job) *nats.Msg {
	if job.Due.IsZero() {
		return &nats.Msg{Subject: due, Data: []byte(job.Body)}
	}
	// The client's own option for this knows whole seconds only; the server knows more.
	at := "@at " + job.Due.UTC().Format(time.RFC3339Nano)
	header := nats.Header{"Nats-Schedule": {at}, "Nats-Schedule-Target": {due}}
	return &nats.Msg{Subject: delayed + job.ID, Header: header, Data: []byte(job.Body)}
}
