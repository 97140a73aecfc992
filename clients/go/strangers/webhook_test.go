// Package strangers holds the client to what others have made of the same standards. It is a module of its own,
// so that the client needs nothing.
package strangers

import (
	"errors"
	"fmt"
	"net/http"
	"testing"
	"time"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"

	"linger.dev/go"
)

const secret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"

func signed(t *testing.T, at time.Time, body string) http.Header {
	t.Helper()
	signer, err := standardwebhooks.NewWebhook(secret)
	if err != nil {
		t.Fatal(err)
	}
	signature, err := signer.Sign("lg_7_0", at, []byte(body))
	if err != nil {
		t.Fatal(err)
	}
	header := http.Header{}
	header.Set("webhook-id", "lg_7_0")
	header.Set("webhook-timestamp", fmt.Sprint(at.Unix()))
	header.Set("webhook-signature", signature)
	return header
}

func TestWhatTheLibraryOfTheStandardSignsIsVerified(t *testing.T) {
	for _, body := range []string{"", `{"order":1}`, "世界", "\x00\xff"} {
		job, err := linger.Verify([]string{secret}, signed(t, time.Now(), body), []byte(body))
		if err != nil || string(job.Bytes()) != body {
			t.Errorf("%q: %v", body, err)
		}
	}
}

func TestWhatItWouldRefuseIsRefused(t *testing.T) {
	verifier, err := standardwebhooks.NewWebhook(secret)
	if err != nil {
		t.Fatal(err)
	}
	now := time.Now()
	for name, test := range map[string]struct {
		header http.Header
		body   string
	}{
		"another body":    {signed(t, now, "a"), "b"},
		"too old":         {signed(t, now.Add(-6*time.Minute), "a"), "a"},
		"from the future": {signed(t, now.Add(6*time.Minute), "a"), "a"},
	} {
		if verifier.Verify([]byte(test.body), test.header) == nil {
			t.Fatalf("%s: the library takes it", name)
		}
		if _, err := linger.Verify([]string{secret}, test.header, []byte(test.body)); !errors.Is(err, linger.ErrSignature) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
