package linger_test

import (
	"context"
	"crypto/ed25519"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"linger.dev/go"
)

const (
	secret      = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
	otherSecret = "whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oD"
)

// signature signs as Standard Webhooks has it, by a shared secret.
func signature(secret, id string, at time.Time, body string) string {
	key, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(secret, "whsec_"))
	if err != nil {
		panic(err)
	}
	mac := hmac.New(sha256.New, key)
	fmt.Fprintf(mac, "%s.%d.%s", id, at.Unix(), body)
	return "v1," + base64.StdEncoding.EncodeToString(mac.Sum(nil))
}

// delivery are the headers of one that is signed.
func delivery(secret string, at time.Time, body string) http.Header {
	header := http.Header{}
	for name, value := range map[string]string{
		"webhook-id":        "lg_7_0",
		"webhook-timestamp": fmt.Sprint(at.Unix()),
		"webhook-signature": signature(secret, "lg_7_0", at, body),
		"linger-topic":      "order%2Fclose",
		"linger-job":        "%E8%AE%A2%E5%8D%95%201",
		"linger-attempt":    "2",
		"linger-due":        "2026-09-21T14:13:20.123Z",
		"linger-lease":      "8c1f",
		"content-type":      "application/json",
	} {
		header.Set(name, value)
	}
	return header
}

func TestADeliveryGivesTheJob(t *testing.T) {
	job := must(linger.Verify([]string{secret}, delivery(secret, time.Now(), `{"a": 1}`), []byte(`{"a": 1}`)))(t)
	if job.Topic != "order/close" || job.ID != "订单 1" || job.Attempt != 2 || job.Lease != "8c1f" || job.WebhookID != "lg_7_0" ||
		string(job.Body) != `{"a": 1}` || !job.Due.Equal(time.Date(2026, 9, 21, 14, 13, 20, 123e6, time.UTC)) {
		t.Fatalf("%+v", job)
	}
}

func TestWhoSignedWhatAndWhenIsVerified(t *testing.T) {
	now := time.Now()
	without := func(name string) http.Header {
		header := delivery(secret, now, "{}")
		header.Del(name)
		return header
	}
	with := func(name, value string) http.Header {
		header := delivery(secret, now, "{}")
		header.Set(name, value)
		return header
	}
	both := signature(otherSecret, "lg_7_0", now, "{}") + " " + signature(secret, "lg_7_0", now, "{}")
	for name, test := range map[string]struct {
		secrets []string
		header  http.Header
		body    string
		good    bool
	}{
		"good":                         {[]string{secret}, delivery(secret, now, "{}"), "{}", true},
		"the new secret, of two":       {[]string{otherSecret, secret}, delivery(secret, now, "{}"), "{}", true},
		"the old secret, of two":       {[]string{secret, otherSecret}, delivery(secret, now, "{}"), "{}", true},
		"two signatures, one secret":   {[]string{secret}, with("webhook-signature", both), "{}", true},
		"a version that is not known":  {[]string{secret}, with("webhook-signature", "v9,AAAA "+both), "{}", true},
		"without the prefix":           {[]string{strings.TrimPrefix(secret, "whsec_")}, delivery(secret, now, "{}"), "{}", true},
		"almost too old":               {[]string{secret}, delivery(secret, now.Add(-4*time.Minute), "{}"), "{}", true},
		"by another secret":            {[]string{secret}, delivery(otherSecret, now, "{}"), "{}", false},
		"no secrets":                   {nil, delivery(secret, now, "{}"), "{}", false},
		"too old":                      {[]string{secret}, delivery(secret, now.Add(-6*time.Minute), "{}"), "{}", false},
		"from the future":              {[]string{secret}, delivery(secret, now.Add(6*time.Minute), "{}"), "{}", false},
		"another body":                 {[]string{secret}, delivery(secret, now, "{}"), "{ }", false},
		"another id":                   {[]string{secret}, with("webhook-id", "lg_8_0"), "{}", false},
		"another time":                 {[]string{secret}, with("webhook-timestamp", fmt.Sprint(now.Unix()-1)), "{}", false},
		"a time that is none":          {[]string{secret}, with("webhook-timestamp", "now"), "{}", false},
		"a signature that is none":     {[]string{secret}, with("webhook-signature", "v1,%%%"), "{}", false},
		"an empty signature":           {[]string{secret}, with("webhook-signature", "v1,"), "{}", false},
		"a signature as another kind":  {[]string{secret}, with("webhook-signature", "v1a"+strings.TrimPrefix(signature(secret, "lg_7_0", now, "{}"), "v1")), "{}", false},
		"without webhook-id":           {[]string{secret}, without("webhook-id"), "{}", false},
		"without webhook-timestamp":    {[]string{secret}, without("webhook-timestamp"), "{}", false},
		"without webhook-signature":    {[]string{secret}, without("webhook-signature"), "{}", false},
		"with nothing but a signature": {[]string{secret}, http.Header{"Webhook-Signature": {"v1,AAAA"}}, "{}", false},
	} {
		job, err := linger.Verify(test.secrets, test.header, []byte(test.body))
		if test.good && err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if !test.good && (!errors.Is(err, linger.ErrSignature) || job != nil) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestASignatureByAPairOfKeysIsVerified(t *testing.T) {
	public, private, err := ed25519.GenerateKey(nil)
	if err != nil {
		t.Fatal(err)
	}
	stranger, _, err := ed25519.GenerateKey(nil)
	if err != nil {
		t.Fatal(err)
	}
	now := time.Now()
	header := delivery(secret, now, "{}")
	signed := ed25519.Sign(private, []byte(fmt.Sprintf("lg_7_0.%d.{}", now.Unix())))
	header.Set("webhook-signature", "v1a,"+base64.StdEncoding.EncodeToString(signed))
	key := func(public ed25519.PublicKey) []string {
		return []string{"whpk_" + base64.StdEncoding.EncodeToString(public)}
	}
	must(linger.Verify(key(public), header, []byte("{}")))(t)
	if _, err := linger.Verify(key(stranger), header, []byte("{}")); !errors.Is(err, linger.ErrSignature) {
		t.Fatal(err)
	}
	if _, err := linger.Verify(key(public), header, []byte("{ }")); !errors.Is(err, linger.ErrSignature) {
		t.Fatal(err)
	}
	// The public key is no secret, and neither is none: who knows them must not be able to sign by them.
	for _, known := range []string{base64.StdEncoding.EncodeToString(public), ""} {
		forged := delivery("whsec_"+known, now, "{}")
		if _, err := linger.Verify(key(public), forged, []byte("{}")); !errors.Is(err, linger.ErrSignature) {
			t.Fatal(err)
		}
	}
}

func TestASecretThatIsNoneIsNotTheDeliverysFault(t *testing.T) {
	for _, wrong := range []string{"", "whsec_", "whsec_%%%", "whsec_AAAA\n", "whsec_AAB=", "whsec_AAA", "whpk_AAAA"} {
		_, err := linger.Verify([]string{secret, wrong}, delivery(secret, time.Now(), "{}"), []byte("{}"))
		if err == nil || errors.Is(err, linger.ErrSignature) {
			t.Errorf("%q: %v", wrong, err)
		}
	}
}

func TestAWebhookHandlerAnswersWhatCameOfAJob(t *testing.T) {
	result := func(err error) linger.Handler { return func(context.Context, *linger.Job) error { return err } }
	for name, test := range map[string]struct {
		handler linger.Handler
		secret  string
		status  int
		body    string
	}{
		"done":         {result(nil), secret, 204, ""},
		"failed":       {result(errors.New("no <luck>")), secret, 200, `{"outcome":"failed","error":"no <luck>"}`},
		"panic":        {func(context.Context, *linger.Job) error { panic("oh dear") }, secret, 200, `{"outcome":"failed","error":"panic: oh dear"}`},
		"retry in":     {result(linger.RetryIn(30*time.Second, errors.New("busy"))), secret, 200, `{"outcome":"failed","error":"busy","retry_in":"30s"}`},
		"again":        {result(linger.Again()), secret, 200, `{"outcome":"again"}`},
		"again in":     {result(linger.RetryIn(30*time.Second, linger.Again())), secret, 200, `{"outcome":"again","retry_in":"30s"}`},
		"long":         {result(errors.New(strings.Repeat("é", 5000))), secret, 200, `{"outcome":"failed","error":"` + strings.Repeat("é", 4096) + `"}`},
		"no handler":   {nil, secret, 404, "there is no handler for this topic\n"},
		"wrong secret": {result(nil), otherSecret, 401, ""},
	} {
		t.Run(name, func(t *testing.T) {
			handler := &linger.WebhookHandler{Secrets: []string{secret}, Handlers: map[string]linger.Handler{}, Log: quiet}
			if test.handler != nil {
				handler.Handlers["order/close"] = test.handler
			}
			request := httptest.NewRequest("POST", "/", strings.NewReader("{}"))
			request.Header = delivery(test.secret, time.Now(), "{}")
			answer := httptest.NewRecorder()
			handler.ServeHTTP(answer, request)
			if answer.Code != test.status || test.status != 401 && answer.Body.String() != test.body {
				t.Fatalf("%d %s", answer.Code, answer.Body)
			}
		})
	}
	answer := httptest.NewRecorder()
	(&linger.WebhookHandler{}).ServeHTTP(answer, httptest.NewRequest("GET", "/", nil))
	if answer.Code != 405 {
		t.Fatal(answer.Code)
	}
	request := httptest.NewRequest("POST", "/", strings.NewReader("{}"))
	request.Header = delivery(secret, time.Now(), "{}")
	answer = httptest.NewRecorder()
	(&linger.WebhookHandler{Secrets: []string{"whsec_"}, Log: quiet}).ServeHTTP(answer, request)
	if answer.Code != 500 {
		t.Fatal(answer.Code)
	}
}

// newSecret has the server make a secret for a topic.
func newSecret(t *testing.T, c *linger.Client, topic, kind string) string {
	t.Helper()
	var made struct {
		Secret    string `json:"secret"`
		PublicKey string `json:"public_key"`
	}
	if err := c.Call(within(t), "POST", "/v1/secrets", map[string]any{"topic": topic, "kind": kind}, &made); err != nil {
		t.Fatal(err)
	}
	return made.Secret + made.PublicKey
}

func TestAPushOfTheServerIsVerifiedAndFinishesItsJob(t *testing.T) {
	for _, kind := range []string{"hmac", "ed25519"} {
		t.Run(kind, func(t *testing.T) {
			ctx := within(t)
			c := connect(t, theServer(t).url)
			topic := "push/" + kind + " 推"
			old := newSecret(t, c, topic, kind)
			rotated := newSecret(t, c, topic, kind)
			got := make(chan *linger.Job, 10)
			for name, secrets := range map[string][]string{"old": {old}, "new": {rotated}, "both": {old, rotated}} {
				receiver := httptest.NewServer(&linger.WebhookHandler{Secrets: secrets, Handlers: map[string]linger.Handler{
					topic: func(_ context.Context, job *linger.Job) error { got <- job; return nil },
				}})
				t.Cleanup(receiver.Close)
				must(c.Add(ctx, linger.NewJob{Topic: topic, ID: name, Body: map[string]int{"order": 1}, Target: receiver.URL}))(t)
				job := arrives(t, "the push", got)
				if job.Topic != topic || job.ID != name || job.Attempt != 1 || string(job.Body) != `{"order":1}` || job.Lease == "" || job.Due.IsZero() {
					t.Fatalf("%+v", job)
				}
			}
			eventually(t, "the jobs are finished", isEmpty(t, c, topic))
		})
	}
}

func TestAPushedBodyIsTheSameAsAPoppedOne(t *testing.T) {
	ctx := within(t)
	c := connect(t, theServer(t).url)
	secret := newSecret(t, c, "push.bodies", "hmac")
	got := make(chan *linger.Job, 10)
	receiver := httptest.NewServer(&linger.WebhookHandler{Secrets: []string{secret}, Handlers: map[string]linger.Handler{
		"push.bodies": func(_ context.Context, job *linger.Job) error { got <- job; return nil },
	}})
	t.Cleanup(receiver.Close)
	for name, body := range map[string]any{
		"text": "hello, 世界", "text that is JSON": "1", "number": 1, "list": []int{1, 2}, "bytes": []byte{0, 255}, "nothing": nil,
	} {
		added := must(c.Add(ctx, linger.NewJob{Topic: "push.bodies", Body: body, Target: receiver.URL, Held: true}))(t)
		stored := must(c.Get(ctx, "push.bodies", added.ID))(t)
		must(c.Unhold(ctx, "push.bodies", added.ID))(t)
		job := arrives(t, "the push", got)
		if string(job.Body) != string(stored.Body) || string(job.Binary) != string(stored.Binary) || string(job.Bytes()) != string(stored.Bytes()) {
			t.Errorf("%s: pushed %s %v, stored %s %v", name, job.Body, job.Binary, stored.Body, stored.Binary)
		}
	}
}

func TestAPushThatFailedIsTriedAgainAsTheHandlerSays(t *testing.T) {
	ctx := within(t)
	c := connect(t, theServer(t).url)
	secret := newSecret(t, c, "push.fails", "hmac")
	ids := make(chan string, 10)
	receiver := httptest.NewServer(&linger.WebhookHandler{Secrets: []string{secret}, Handlers: map[string]linger.Handler{
		"push.fails": func(_ context.Context, job *linger.Job) error {
			ids <- job.WebhookID
			if job.Attempt == 1 {
				return linger.RetryIn(0, errors.New("not now"))
			}
			return linger.RetryIn(time.Hour, errors.New("no luck"))
		},
	}})
	t.Cleanup(receiver.Close)
	must(c.Add(ctx, linger.NewJob{Topic: "push.fails", ID: "1", Target: receiver.URL}))(t)
	if one, two := arrives(t, "a push", ids), arrives(t, "a push", ids); one != two || one == "" {
		t.Fatalf("attempts have the ids %q and %q", one, two)
	}
	eventually(t, "it has failed for the second time", func() bool {
		job := must(c.Get(ctx, "push.fails", "1"))(t)
		return job.Attempt == 2 && job.LastError == "no luck" && time.Until(job.Due) > time.Minute
	})
}

func TestAPushedJobCanBeFinishedLater(t *testing.T) {
	ctx := within(t)
	c := connect(t, theServer(t).url)
	secret := newSecret(t, c, "push.later", "hmac")
	got := make(chan *linger.Job, 1)
	receiver := httptest.NewServer(&linger.WebhookHandler{Secrets: []string{secret}, Handlers: map[string]linger.Handler{
		"push.later": func(_ context.Context, job *linger.Job) error { got <- job; return nil },
	}})
	t.Cleanup(receiver.Close)
	must(c.Add(ctx, linger.NewJob{Topic: "push.later", ID: "1", Target: receiver.URL, Confirm: "finish"}))(t)
	must(c.Finish(ctx, arrives(t, "the push", got)))(t)
	if !isEmpty(t, c, "push.later")() {
		t.Fatal("the job is still there")
	}
}

func post(t *testing.T, url string, header http.Header, body string) int {
	t.Helper()
	request := must(http.NewRequest("POST", url, strings.NewReader(body)))(t)
	request.Header = header
	answer := must(http.DefaultClient.Do(request))(t)
	defer answer.Body.Close()
	_, _ = io.Copy(io.Discard, answer.Body)
	return answer.StatusCode
}
