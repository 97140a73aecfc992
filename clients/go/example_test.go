package linger_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"log"
	"net/http"
	"os"
	"time"

	"linger.dev/go"
)

var (
	ctx          context.Context
	lingerClient *linger.Client
	isPaid       func(context.Context, *linger.Job) (bool, error)
)

func closeOrder(context.Context, *linger.Job) error { return nil }

func ExampleClient_Add() {
	client := lingerClient
	added, err := client.Add(ctx, linger.NewJob{
		Topic:    "order.close",
		ID:       "1001",
		Delay:    30 * time.Minute, // or At: a time.Time
		TTR:      time.Minute,
		Priority: linger.Ptr(0),
		Retry:    &linger.Retry{Ladder: []time.Duration{15 * time.Second, 3 * time.Minute}},
		Body:     map[string]any{"number": 1001},
	})
	fmt.Println(added, err)
}

func ExampleNew() {
	connect := func() error {
		pem, err := os.ReadFile("ca.pem")
		if err != nil {
			return err
		}
		trusted := x509.NewCertPool()
		trusted.AppendCertsFromPEM(pem)
		client, err := linger.New(linger.Options{
			Servers: []string{"https://queue-1.example:7300", "https://queue-2.example:7300"},
			Key:     os.Getenv("LINGER_KEY"),
			TLS:     &tls.Config{RootCAs: trusted},
		})
		fmt.Println(client)
		return err
	}
	fmt.Println(connect())
}

func ExampleWorker() {
	client := lingerClient
	worker := linger.Worker{
		Client:      client,
		Concurrency: 16,
		Grace:       10 * time.Second,
		Handlers: map[string]linger.Handler{
			"order.close": func(ctx context.Context, job *linger.Job) error {
				switch paid, err := isPaid(ctx, job); {
				case err != nil:
					return linger.RetryIn(30*time.Second, err) // failed; not the next step of the ladder
				case !paid:
					return linger.Again() // not yet, which is no failure
				}
				return nil // finished
			},
		},
	}
	err := worker.Run(ctx)
	fmt.Println(err)
}

func ExampleError() {
	client := lingerClient
	add := func() error {
		_, err := client.Add(ctx, linger.NewJob{Topic: "order.close", ID: "1001"})
		var refused *linger.Error
		switch {
		case errors.Is(err, linger.ErrAlreadyExists):
			return nil // it is on its way
		case errors.Is(err, linger.ErrUnavailable):
			return fmt.Errorf("no server can be reached: %w", err)
		case errors.As(err, &refused):
			log.Println(refused.Code, refused.Message, refused.Field, refused.Status)
		}
		return err
	}
	fmt.Println(add())
}

func ExampleWebhookHandler() {
	http.Handle("/hooks", &linger.WebhookHandler{
		Secrets: []string{os.Getenv("LINGER_SECRET")}, // whsec_… or whpk_…; several while they are rotated
		Handlers: map[string]linger.Handler{
			"order.close": closeOrder,
		},
	})
}

func ExampleVerify() {
	receive := func(w http.ResponseWriter, r *http.Request, secrets []string, body []byte) {
		job, err := linger.Verify(secrets, r.Header, body)
		if err != nil {
			http.Error(w, "who are you?", http.StatusUnauthorized)
			return
		}
		fmt.Println(job.WebhookID)
	}
	_ = receive
}

func ExampleService() {
	client := lingerClient
	service := &linger.Service{
		Client:  client,
		App:     "shop",
		URL:     "http://10.0.0.7:8080/jobs",
		Secrets: []string{os.Getenv("LINGER_SECRET")}, // or Unsigned: true, in a network without strangers
		Handlers: map[string]linger.Handler{
			"order.close": closeOrder,
		},
	}
	mux := http.NewServeMux()
	mux.Handle("/jobs", service)
	server := &http.Server{Addr: ":8080", Handler: mux}
	go server.ListenAndServe()

	err := service.Run(ctx)
	server.Close()
	fmt.Println(err)
}
