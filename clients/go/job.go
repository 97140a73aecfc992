package linger

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"time"
)

// What to do about a job of the same topic and id, for [NewJob.OnConflict].
const (
	Reject  = "reject"
	Keep    = "keep"
	Replace = "replace"
)

// NewJob is a job to add. What is left at its zero value is not sent, and the server's default holds.
type NewJob struct {
	Topic string `json:"topic,omitempty"` // "default" unless given
	ID    string `json:"id,omitempty"`    // a UUID is made unless given

	// Body is any value that JSON can hold. A [json.RawMessage] is sent as it is, a []byte as bytes.
	Body any `json:"-"`

	Delay    time.Duration `json:"-"`                  // how long from now it is due
	At       time.Time     `json:"-"`                  // when it is due, in place of Delay
	TTR      time.Duration `json:"-"`                  // how long an attempt may take
	Priority *int          `json:"priority,omitempty"` // smaller is sooner among ready jobs; see Ptr

	Retry  *Retry  `json:"retry,omitempty"`
	Repeat *Repeat `json:"repeat,omitempty"`

	Target      string        `json:"target,omitempty"`   // where it is pushed; without one it waits to be popped
	Confirm     string        `json:"confirm,omitempty"`  // when a push counts as finished: "delivery", "finish"
	Envelope    string        `json:"envelope,omitempty"` // what a push makes of the body: "body", "cloudevents", "task"
	Retain      time.Duration `json:"-"`                  // how long it stays visible when finished
	Held        bool          `json:"held,omitempty"`     // set aside from the start
	OnConflict  string        `json:"on_conflict,omitempty"`
	ContentType string        `json:"content_type,omitempty"`
	Traceparent string        `json:"traceparent,omitempty"`

	// IdempotencyKey names this add, so that another with the same key finds the job of the first. It is
	// for jobs without an ID; one is made unless given. AddMany has no use for it.
	IdempotencyKey string `json:"-"`

	// Extra are fields that are sent besides, as they are: text such as {"delay": "1h30m"}, or what this
	// client does not know yet.
	Extra map[string]any `json:"-"`
}

func (j NewJob) encode() ([]byte, error) {
	type plain NewJob
	fields := struct {
		plain
		Delay  *duration  `json:"delay,omitempty"`
		At     *time.Time `json:"at,omitempty"`
		TTR    *duration  `json:"ttr,omitempty"`
		Retain *duration  `json:"retain,omitempty"`
	}{plain(j), given(j.Delay), moment(j.At), given(j.TTR), given(j.Retain)}
	return encodeWithBody(fields, j.Extra, j.Body)
}

// repeatable tells whether adding it twice does no more than adding it once.
func (j NewJob) repeatable() bool {
	return j.ID == "" || j.OnConflict == Keep || j.OnConflict == Replace
}

// Changes to a job. What is nil or empty stays as it is.
type Changes struct {
	Body     any            `json:"-"`
	Delay    *time.Duration `json:"-"` // due so long from now
	At       time.Time      `json:"-"` // due then, in place of Delay
	TTR      time.Duration  `json:"-"`
	Priority *int           `json:"priority,omitempty"`
	Retry    *Retry         `json:"retry,omitempty"`
	Target   string         `json:"target,omitempty"`

	// IfVersion has the change made only if the job's version is this.
	IfVersion uint64 `json:"if_version,omitempty"`

	// Extra are fields that are sent besides, as they are: {"ttr": nil} takes the job's own value away, so
	// that its topic's holds again.
	Extra map[string]any `json:"-"`
}

func (c Changes) encode() ([]byte, error) {
	type plain Changes
	fields := struct {
		plain
		Delay *duration  `json:"delay,omitempty"`
		At    *time.Time `json:"at,omitempty"`
		TTR   *duration  `json:"ttr,omitempty"`
	}{plain(c), (*duration)(c.Delay), moment(c.At), given(c.TTR)}
	return encodeWithBody(fields, c.Extra, c.Body)
}

// Job is a job as the server tells of it. What it does not tell is left at its zero value.
type Job struct {
	Topic      string    `json:"topic,omitempty"`
	ID         string    `json:"id,omitempty"`
	Number     uint64    `json:"number"` // its number in the store, never given twice
	State      string    `json:"state"`  // delayed, ready, reserved, retry, held, dead, finished
	Due        time.Time `json:"-"`
	Attempt    int       `json:"attempt"` // how often it was handed out
	Version    uint64    `json:"version"` // counts its changes
	Priority   int       `json:"priority"`
	Created    time.Time `json:"-"`
	Occurrence *int      `json:"occurrence,omitempty"` // of a repeating job: which one this is, from 0
	LastError  string    `json:"last_error,omitempty"`

	Lease         string    `json:"lease,omitempty"` // of a job that was handed out
	ReservedUntil time.Time `json:"-"`               // when its lease ends

	TTR         time.Duration `json:"-"`
	Retain      time.Duration `json:"-"`
	Retry       *Retry        `json:"retry,omitempty"`
	Repeat      *Repeat       `json:"repeat,omitempty"`
	Target      string        `json:"target,omitempty"`
	Confirm     string        `json:"confirm,omitempty"`
	Envelope    string        `json:"envelope,omitempty"`
	ContentType string        `json:"content_type,omitempty"`
	Traceparent string        `json:"traceparent,omitempty"`

	Body   json.RawMessage `json:"body,omitempty"`        // as it was given; see Decode and Bytes
	Binary []byte          `json:"body_base64,omitempty"` // in place of Body, if it is bytes

	// WebhookID is, of a job that was pushed, the same for every attempt at this occurrence: drop what
	// you have seen.
	WebhookID string `json:"-"`

	// When the lease ends by this machine's clock, as far as that can be told.
	held time.Time
}

// Decode reads the body, which is JSON, into v, as [json.Unmarshal] does.
func (j *Job) Decode(v any) error {
	if j.Binary != nil {
		return json.Unmarshal(j.Binary, v)
	}
	return json.Unmarshal(j.Body, v)
}

// Bytes gives the body as a webhook would bring it: bytes and JSON as they are, a string as its text.
func (j *Job) Bytes() []byte {
	if j.Binary != nil {
		return j.Binary
	}
	var text string
	if bytes.HasPrefix(j.Body, []byte{'"'}) && json.Unmarshal(j.Body, &text) == nil {
		return []byte(text)
	}
	return j.Body
}

// MarshalJSON writes the job as the server does.
func (j Job) MarshalJSON() ([]byte, error) {
	type plain Job
	return json.Marshal(struct {
		plain
		Due           *time.Time `json:"due,omitempty"`
		Created       *time.Time `json:"created,omitempty"`
		ReservedUntil *time.Time `json:"reserved_until,omitempty"`
		TTR           *duration  `json:"ttr,omitempty"`
		Retain        *duration  `json:"retain,omitempty"`
	}{plain(j), moment(j.Due), moment(j.Created), moment(j.ReservedUntil), given(j.TTR), given(j.Retain)})
}

// UnmarshalJSON reads what the server wrote.
func (j *Job) UnmarshalJSON(text []byte) error {
	type plain Job
	return json.Unmarshal(text, &struct {
		*plain
		Due           *time.Time `json:"due"`
		Created       *time.Time `json:"created"`
		ReservedUntil *time.Time `json:"reserved_until"`
		TTR           *duration  `json:"ttr"`
		Retain        *duration  `json:"retain"`
	}{(*plain)(j), &j.Due, &j.Created, &j.ReservedUntil, (*duration)(&j.TTR), (*duration)(&j.Retain)})
}

// Retry says how many attempts a job has, and the waits between them: a backoff or a ladder.
type Retry struct {
	Attempts *int            `json:"attempts,omitempty"` // 0 is no limit; see Ptr
	Backoff  *Backoff        `json:"backoff,omitempty"`
	Ladder   []time.Duration `json:"-"`              // these waits, one after the other
	From     string          `json:"from,omitempty"` // whether the ladder counts from each "failure" or from "due"
}

// MarshalJSON writes it as the server takes it.
func (r Retry) MarshalJSON() ([]byte, error) {
	type plain Retry
	ladder := make([]duration, len(r.Ladder))
	for i, step := range r.Ladder {
		ladder[i] = duration(step)
	}
	return json.Marshal(struct {
		plain
		Ladder []duration `json:"ladder,omitempty"`
	}{plain(r), ladder})
}

// UnmarshalJSON reads what the server wrote.
func (r *Retry) UnmarshalJSON(text []byte) error {
	type plain Retry
	read := struct {
		*plain
		Ladder []duration `json:"ladder"`
	}{plain: (*plain)(r)}
	err := json.Unmarshal(text, &read)
	r.Ladder = nil
	for _, step := range read.Ladder {
		r.Ladder = append(r.Ladder, time.Duration(step))
	}
	return err
}

// Backoff are waits that double.
type Backoff struct {
	Base   time.Duration `json:"-"`                // the first; 1 s unless given
	Max    time.Duration `json:"-"`                // the longest; an hour unless given
	Jitter *float64      `json:"jitter,omitempty"` // the share by which each is moved at random; 0.2 unless given
}

// MarshalJSON writes it as the server takes it.
func (b Backoff) MarshalJSON() ([]byte, error) {
	type plain Backoff
	return json.Marshal(struct {
		plain
		Base *duration `json:"base,omitempty"`
		Max  *duration `json:"max,omitempty"`
	}{plain(b), given(b.Base), given(b.Max)})
}

// UnmarshalJSON reads what the server wrote.
func (b *Backoff) UnmarshalJSON(text []byte) error {
	type plain Backoff
	return json.Unmarshal(text, &struct {
		*plain
		Base *duration `json:"base"`
		Max  *duration `json:"max"`
	}{(*plain)(b), (*duration)(&b.Base), (*duration)(&b.Max)})
}

// Repeat says when a job runs again: every so often, or by cron in a time zone.
type Repeat struct {
	Every   time.Duration `json:"-"`
	Cron    string        `json:"cron,omitempty"`    // "0 9 * * *"
	TZ      string        `json:"tz,omitempty"`      // "Asia/Shanghai"; UTC unless given
	Until   time.Time     `json:"-"`                 // the last moment at which it may be due
	Count   int           `json:"count,omitempty"`   // after so many it is over
	Misfire *Misfire      `json:"misfire,omitempty"` // what to do about times that were missed
	OnDead  string        `json:"on_dead,omitempty"` // what to do when one of them dies: "go_on", "stop"
}

// MarshalJSON writes it as the server takes it.
func (r Repeat) MarshalJSON() ([]byte, error) {
	type plain Repeat
	return json.Marshal(struct {
		plain
		Every *duration  `json:"every,omitempty"`
		Until *time.Time `json:"until,omitempty"`
	}{plain(r), given(r.Every), moment(r.Until)})
}

// UnmarshalJSON reads what the server wrote.
func (r *Repeat) UnmarshalJSON(text []byte) error {
	type plain Repeat
	return json.Unmarshal(text, &struct {
		*plain
		Every *duration  `json:"every"`
		Until *time.Time `json:"until"`
	}{(*plain)(r), (*duration)(&r.Every), &r.Until})
}

// Misfire says what to do about times that were missed: All so many of them, or the Rule "once" or "skip".
type Misfire struct {
	Rule string
	All  int
}

type misfireAll struct {
	All int `json:"all"`
}

// MarshalJSON writes it as the server takes it.
func (m Misfire) MarshalJSON() ([]byte, error) {
	if m.All > 0 {
		return json.Marshal(misfireAll{m.All})
	}
	return json.Marshal(m.Rule)
}

// UnmarshalJSON reads what the server wrote.
func (m *Misfire) UnmarshalJSON(text []byte) error {
	if bytes.HasPrefix(text, []byte{'"'}) {
		return json.Unmarshal(text, &m.Rule)
	}
	var read misfireAll
	err := json.Unmarshal(text, &read)
	m.All = read.All
	return err
}

// Ptr points to v, for fields where 0 is not the same as not given.
func Ptr[T any](v T) *T { return &v }

// encode writes fields as an object of JSON, with extra in place of those of the same name.
func encode(fields any, extra map[string]any) ([]byte, error) {
	object, err := marshal(fields)
	if err != nil || len(extra) == 0 {
		return object, err
	}
	var all map[string]any
	decoder := json.NewDecoder(bytes.NewReader(object))
	decoder.UseNumber()
	if err := decoder.Decode(&all); err != nil {
		return nil, err
	}
	for name, value := range extra {
		all[name] = value
	}
	return marshal(all)
}

func encodeWithBody(fields any, extra map[string]any, body any) ([]byte, error) {
	object, err := encode(fields, extra)
	if err != nil || body == nil {
		return object, err
	}
	name, value, err := encodeBody(body)
	if err != nil {
		return nil, err
	}
	// By hand, since json.Marshal would rewrite what is JSON already: blanks, and < as \u003c.
	text := object[:len(object)-1]
	if len(text) > 1 {
		text = append(text, ',')
	}
	text = append(text, name...)
	text = append(text, value...)
	return append(text, '}'), nil
}

func encodeBody(body any) (name string, value []byte, err error) {
	switch body := body.(type) {
	case []byte:
		return `"body_base64":`, []byte(`"` + base64.StdEncoding.EncodeToString(body) + `"`), nil
	case json.RawMessage:
		// What is not one value could bring fields of its own along.
		if !json.Valid(body) {
			return "", nil, &Error{Code: ErrInvalid.Code, Message: "the body is a json.RawMessage that is not JSON", Field: "body"}
		}
		return `"body":`, body, nil
	}
	value, err = marshal(body)
	return `"body":`, value, err
}

// marshal is json.Marshal that leaves <, > and & alone.
func marshal(v any) ([]byte, error) {
	var text bytes.Buffer
	encoder := json.NewEncoder(&text)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(v); err != nil {
		return nil, err
	}
	return bytes.TrimSuffix(text.Bytes(), []byte{'\n'}), nil
}
