package linger

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"sync/atomic"
	"time"
)

// Service is an application that is called for its jobs: those with the target "worker:APP". It is the
// [http.Handler] of its URL, and Run keeps it registered.
type Service struct {
	Client   *Client
	App      string             // the name of the application
	URL      string             // where the server reaches this instance
	ID       string             // the name of this instance; one is made unless given
	Handlers map[string]Handler // by topic
	Lease    time.Duration      // how long it is known without a heartbeat; 30 s unless given
	Grace    time.Duration      // how long calls under way may go on after a stop; 30 s unless given
	Log      *slog.Logger       // slog.Default() unless given

	// Secrets are those that the calls are signed with, see Verify. Without any, Unsigned has to be set.
	Secrets []string
	// Unsigned has calls taken from whoever makes them: for a network without strangers.
	Unsigned bool

	underWay atomic.Int64
}

// ServeHTTP answers a call for a job.
func (s *Service) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.underWay.Add(1)
	defer s.underWay.Add(-1)
	serve(w, r, s.Handlers, logger(s.Log), func(header http.Header, body []byte) (*Job, error) {
		if s.Unsigned && len(s.Secrets) == 0 {
			return pushed(header, body)
		}
		return Verify(s.Secrets, header, body)
	})
}

// Run registers the instance and keeps it so until ctx ends. Then it drains it, lets calls under way end for the
// grace time, and deregisters it. Serve HTTP before Run is called and until it has returned.
//
// It gives an error if the server refuses for good, for a wrong key say.
func (s *Service) Run(ctx context.Context) error {
	if len(s.Secrets) == 0 && !s.Unsigned {
		return errors.New("linger: a service without Secrets takes calls by nobody; give them, or set Unsigned")
	}
	id, err := s.stayRegistered(ctx)
	if id != "" {
		s.leave(context.WithoutCancel(ctx), id)
	}
	return err
}

// instance is this instance as the server knows it.
type instance struct {
	ID       string   `json:"id"`
	Lease    duration `json:"lease"`
	UnderWay int      `json:"under_way"`
}

// stayRegistered gives the id, if there was one, when ctx has ended or the server refuses for good.
func (s *Service) stayRegistered(ctx context.Context) (id string, err error) {
	var pauses pauses
	for ctx.Err() == nil {
		known, err := s.report(ctx, id)
		var pause time.Duration
		switch {
		case err == nil:
			id, pause = known.ID, time.Duration(known.Lease)/3
			pauses.reset()
		case errors.Is(err, ErrNotFound) && id != "":
			logger(s.Log).Info("linger: the server has forgotten this instance, which registers again", "id", id)
			id = ""
			continue
		case forGood(err):
			return id, err
		case ctx.Err() == nil:
			pause = pauses.next()
			logger(s.Log).Warn("linger: this instance cannot be registered", "error", err, "again_in", pause)
		}
		sleep(ctx, pause)
	}
	return id, nil
}

// report registers the instance, or sends a heartbeat if it is registered.
func (s *Service) report(ctx context.Context, id string) (known instance, err error) {
	request := call{method: http.MethodPut, path: path("workers", id, "heartbeat"), again: always}
	if id == "" {
		// The same application at the same URL is the same instance, so that this may be said twice.
		request = post(path("workers"), always)
		request.body, err = marshal(struct {
			ID     string    `json:"id,omitempty"`
			App    string    `json:"app"`
			Topics []string  `json:"topics"`
			URL    string    `json:"url"`
			Lease  *duration `json:"lease,omitempty"`
		}{s.ID, s.App, topicsOf(s.Handlers), s.URL, given(s.Lease)})
		if err != nil {
			return known, err
		}
		// An instance that was registered as it stops must know its id, to deregister.
		registering, end := outlive(ctx, registerTime)
		defer end()
		ctx = registering
	}
	_, err = s.Client.do(ctx, request, &known)
	return known, err
}

// outlive is a context that ends so long after ctx.
func outlive(ctx context.Context, rest time.Duration) (context.Context, context.CancelFunc) {
	longer, end := context.WithCancel(context.WithoutCancel(ctx))
	context.AfterFunc(ctx, func() {
		sleep(longer, rest)
		end()
	})
	return longer, end
}

// leave drains the instance, waits for calls under way, and deregisters it.
func (s *Service) leave(ctx context.Context, id string) {
	log := logger(s.Log)
	grace, end := context.WithTimeout(ctx, orElse(s.Grace, defaultGrace))
	defer end()
	var known instance
	_, err := s.Client.do(grace, post(path("workers", id, "drain"), always), &known)
	// A call that has left the server may not have arrived here, and one that ended here may not have there.
	for (err == nil && known.UnderWay > 0 || s.underWay.Load() > 0) && sleep(grace, drainPoll) {
		_, err = s.Client.do(grace, get(path("workers", id)), &known)
	}
	if err != nil {
		log.Warn("linger: this instance cannot be drained", "error", err)
	}
	deregister := call{method: http.MethodDelete, path: path("workers", id), again: deletes}
	if _, err := s.Client.do(ctx, deregister, nil); err != nil {
		log.Warn("linger: this instance was not deregistered, and is called until its lease is over", "error", err)
	}
}

// registerTime is how long a stop waits for the answer to a registration that is under way.
const registerTime = 5 * time.Second

// drainPoll is how often it is looked whether calls under way have ended.
const drainPoll = 50 * time.Millisecond
