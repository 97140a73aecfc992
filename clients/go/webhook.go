package linger

import (
	"crypto/ed25519"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"mime"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"
)

// ErrSignature is why a delivery is not taken: it is not signed by any of the secrets, or too old.
var ErrSignature = errors.New("linger: the delivery is not signed as it should be")

const (
	// signatureAge is how far the time of a delivery may be from now.
	signatureAge = 5 * time.Minute
	// pushBytesMax is above any sensible `limits.body` of the server.
	pushBytesMax = 64 << 20
)

// Verify checks that a delivery was signed with one of the secrets, as Standard Webhooks has it, and gives the
// job that it brings. Secrets are those of POST /v1/secrets: "whsec_…", or "whpk_…" of a pair of keys. The error is
// [ErrSignature] if the delivery is at fault; any other is about a secret that is none.
//
// The signature is over the webhook-id, the time and the body; what else the job has is as the headers say.
func Verify(secrets []string, header http.Header, body []byte) (*Job, error) {
	if err := verify(secrets, header, body); err != nil {
		return nil, err
	}
	return pushed(header, body)
}

func verify(secrets []string, header http.Header, body []byte) error {
	id, at := header.Get("webhook-id"), header.Get("webhook-timestamp")
	if id == "" || at == "" || header.Get("webhook-signature") == "" {
		return fmt.Errorf("%w: webhook-id, webhook-timestamp or webhook-signature is missing", ErrSignature)
	}
	seconds, err := strconv.ParseInt(at, 10, 64)
	if err != nil {
		return fmt.Errorf("%w: its time is %q", ErrSignature, at)
	}
	if age := time.Since(time.Unix(seconds, 0)); age > signatureAge || age < -signatureAge {
		return fmt.Errorf("%w: it is %s old, and may be %s", ErrSignature, age.Round(time.Second), signatureAge)
	}
	signed := append([]byte(id+"."+at+"."), body...)
	signatures := strings.Fields(strings.Join(header.Values("webhook-signature"), " "))
	// All secrets are read before any is tried, so that a wrong one is seen while others still match.
	keys := make([]key, len(secrets))
	for i, secret := range secrets {
		if keys[i], err = readKey(secret); err != nil {
			return fmt.Errorf("linger: secret %d of %d: %w", i+1, len(secrets), err)
		}
	}
	for _, key := range keys {
		for _, signature := range signatures {
			if key.signed(signed, signature) {
				return nil
			}
		}
	}
	return fmt.Errorf("%w: no signature is by one of %d secrets", ErrSignature, len(secrets))
}

// key is a secret that was read: one that both share, or the public one of a pair.
type key struct {
	shared []byte
	public ed25519.PublicKey
}

func readKey(secret string) (key, error) {
	if text, found := strings.CutPrefix(secret, "whpk_"); found {
		public, err := decode(text)
		if err == nil && len(public) != ed25519.PublicKeySize {
			err = fmt.Errorf("a public key has %d bytes, not %d", ed25519.PublicKeySize, len(public))
		}
		return key{public: public}, err
	}
	shared, err := decode(strings.TrimPrefix(secret, "whsec_"))
	if err == nil && len(shared) == 0 {
		err = errors.New("it is empty")
	}
	return key{shared: shared}, err
}

// decode reads base64 and nothing that is only like it: the package itself passes over ends of lines.
func decode(text string) ([]byte, error) {
	if strings.ContainsAny(text, "\r\n") {
		return nil, errors.New("it has more than one line")
	}
	return base64.StdEncoding.Strict().DecodeString(text)
}

func (k key) signed(text []byte, signature string) bool {
	version, value, _ := strings.Cut(signature, ",")
	sum, err := base64.StdEncoding.DecodeString(value)
	switch {
	case err != nil:
		return false
	case version == "v1a" && k.public != nil:
		return ed25519.Verify(k.public, text, sum)
	case version == "v1" && k.shared != nil:
		mac := hmac.New(sha256.New, k.shared)
		mac.Write(text)
		return hmac.Equal(mac.Sum(nil), sum)
	}
	return false
}

// pushed is the job that a delivery brings.
func pushed(header http.Header, body []byte) (*Job, error) {
	topic, err := url.PathUnescape(header.Get("linger-topic"))
	if err != nil {
		return nil, fmt.Errorf("%w: linger-topic: %w", ErrSignature, err)
	}
	id, err := url.PathUnescape(header.Get("linger-job"))
	if err != nil {
		return nil, fmt.Errorf("%w: linger-job: %w", ErrSignature, err)
	}
	job := &Job{
		Topic: topic, ID: id, State: "reserved",
		Lease:       header.Get("linger-lease"),
		WebhookID:   header.Get("webhook-id"),
		ContentType: header.Get("content-type"),
		Traceparent: header.Get("traceparent"),
	}
	job.Attempt, _ = strconv.Atoi(header.Get("linger-attempt"))
	job.Due, _ = time.Parse(time.RFC3339, header.Get("linger-due"))
	return job, job.take(body)
}

// take has the body in the form in which a pop gives it: text is a string of JSON, and what is no JSON is bytes.
func (j *Job) take(body []byte) error {
	kind, _, _ := mime.ParseMediaType(j.ContentType)
	switch {
	case strings.HasPrefix(kind, "text/") && utf8.Valid(body):
		text, err := marshal(string(body))
		j.Body = text
		return err
	case json.Valid(body):
		j.Body = body
	default:
		j.Binary = body
	}
	return nil
}

// WebhookHandler is an [http.Handler] for deliveries: it verifies them, has the topic's handler work on the job, and
// answers what came of it. The handler's context ends when the server hangs up.
type WebhookHandler struct {
	Secrets  []string           // see Verify; without any all deliveries are refused
	Handlers map[string]Handler // by topic
	Log      *slog.Logger       // slog.Default() unless given
}

// ServeHTTP answers a delivery.
func (h *WebhookHandler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	serve(w, r, h.Handlers, logger(h.Log), func(header http.Header, body []byte) (*Job, error) {
		return Verify(h.Secrets, header, body)
	})
}

func serve(
	w http.ResponseWriter, r *http.Request, handlers map[string]Handler, log *slog.Logger,
	read func(http.Header, []byte) (*Job, error),
) {
	if r.Method != http.MethodPost {
		w.Header().Set("Allow", http.MethodPost)
		http.Error(w, "deliveries are posted", http.StatusMethodNotAllowed)
		return
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, pushBytesMax))
	if err != nil {
		http.Error(w, "the body cannot be read", http.StatusBadRequest)
		return
	}
	job, err := read(r.Header, body)
	switch {
	case errors.Is(err, ErrSignature):
		http.Error(w, err.Error(), http.StatusUnauthorized)
		return
	case err != nil:
		log.Error("linger: a delivery cannot be verified", "error", err)
		http.Error(w, "deliveries cannot be verified here", http.StatusInternalServerError)
		return
	}
	handler, found := handlers[job.Topic]
	if !found {
		http.Error(w, "there is no handler for this topic", http.StatusNotFound)
		return
	}
	reply(w, handle(r.Context(), log, handler, job))
}

// reply answers what came of a job. A failure is an answer, too: it was the job's fault and not this server's, of
// which deliveries would be held back after some of them.
func reply(w http.ResponseWriter, result error) {
	if result == nil {
		w.WriteHeader(http.StatusNoContent)
		return
	}
	failure := failureOf(result)
	outcome := "failed"
	if failure.Again {
		outcome = "again"
	}
	// Text and durations are always JSON.
	answer, _ := marshal(struct {
		Outcome string    `json:"outcome"`
		Error   string    `json:"error,omitempty"`
		RetryIn *duration `json:"retry_in,omitempty"`
	}{outcome, failure.Error, (*duration)(failure.RetryIn)})
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write(answer)
}
