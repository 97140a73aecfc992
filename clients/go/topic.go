package linger

import (
	"context"
	"encoding/json"
	"net/http"
	"net/url"
	"time"
)

// Topic is a topic as the server tells of it.
type Topic struct {
	Topic     string        `json:"topic"`
	Paused    bool          `json:"paused"`
	PausedFor time.Duration `json:"-"` // how much longer, if not until resumed
	Counts    Counts        `json:"counts"`
	Waiting   int           `json:"waiting"`         // calls that wait for its jobs
	Added     uint64        `json:"added"`           // jobs added since it came to be
	Bytes     uint64        `json:"bytes,omitempty"` // of the bodies of its jobs, if it has a BytesMax
	Settings  Settings      `json:"settings"`
}

// UnmarshalJSON reads what the server wrote.
func (t *Topic) UnmarshalJSON(text []byte) error {
	type plain Topic
	return json.Unmarshal(text, &struct {
		*plain
		PausedFor *duration `json:"paused_for"`
	}{(*plain)(t), (*duration)(&t.PausedFor)})
}

// Counts are a topic's jobs by state.
type Counts struct {
	Delayed  uint64 `json:"delayed"`
	Ready    uint64 `json:"ready"`
	Reserved uint64 `json:"reserved"`
	Retry    uint64 `json:"retry"`
	Held     uint64 `json:"held"`
	Dead     uint64 `json:"dead"`
	Finished uint64 `json:"finished"`
}

// Settings hold for the jobs of a topic that do not say otherwise, and say how fast they are handed out.
type Settings struct {
	TTR         time.Duration     `json:"-"`
	Retry       *Retry            `json:"retry,omitempty"`
	Target      string            `json:"target,omitempty"`   // where its jobs are pushed
	Confirm     string            `json:"confirm,omitempty"`  // when a push counts as finished: "delivery", "finish"
	Envelope    string            `json:"envelope,omitempty"` // what a push makes of the body: "body", "cloudevents", "task"
	Timeout     time.Duration     `json:"-"`                  // the most that a push may take
	Headers     map[string]string `json:"headers,omitempty"`  // what every push brings along besides
	Archive     string            `json:"archive,omitempty"`  // "files", or a target
	Retain      time.Duration     `json:"-"`                  // how long finished jobs stay visible
	RetainDead  time.Duration     `json:"-"`                  // how long dead ones do
	Rate        string            `json:"rate,omitempty"`     // "100" a second, "10/m"
	Concurrency int               `json:"concurrency,omitempty"`
	JobsMax     int               `json:"jobs_max,omitempty"`
	BytesMax    int64             `json:"bytes_max,omitempty"`
	Partitions  int               `json:"partitions,omitempty"`

	// Extra are fields that are sent besides, as they are.
	Extra map[string]any `json:"-"`
}

// MarshalJSON writes them as the server takes them.
func (s Settings) MarshalJSON() ([]byte, error) {
	type plain Settings
	return encode(struct {
		plain
		TTR        *duration `json:"ttr,omitempty"`
		Timeout    *duration `json:"timeout,omitempty"`
		Retain     *duration `json:"retain,omitempty"`
		RetainDead *duration `json:"retain_dead,omitempty"`
	}{plain(s), given(s.TTR), given(s.Timeout), given(s.Retain), given(s.RetainDead)}, s.Extra)
}

// UnmarshalJSON reads what the server wrote.
func (s *Settings) UnmarshalJSON(text []byte) error {
	type plain Settings
	return json.Unmarshal(text, &struct {
		*plain
		TTR        *duration `json:"ttr"`
		Timeout    *duration `json:"timeout"`
		Retain     *duration `json:"retain"`
		RetainDead *duration `json:"retain_dead"`
	}{(*plain)(s), (*duration)(&s.TTR), (*duration)(&s.Timeout), (*duration)(&s.Retain), (*duration)(&s.RetainDead)})
}

// TopicFilter says which topics to list.
type TopicFilter struct {
	Prefix string
	Limit  int    // so many a page at most
	Cursor string // where the page before left off
}

// TopicPage is a part of the topics; the last one has no Cursor.
type TopicPage struct {
	Topics []*Topic `json:"topics"`
	Cursor string   `json:"cursor,omitempty"`
}

// Topics lists a page of the topics.
func (c *Client) Topics(ctx context.Context, filter TopicFilter) (*TopicPage, error) {
	query := url.Values{}
	put(query, "prefix", filter.Prefix)
	put(query, "limit", countText(filter.Limit))
	put(query, "cursor", filter.Cursor)
	var page TopicPage
	_, err := c.do(ctx, get(withQuery(path("topics"), query)), &page)
	return orNone(&page, err)
}

// Topic gives a topic, with its counts and settings.
func (c *Client) Topic(ctx context.Context, topic string) (*Topic, error) {
	return c.topic(ctx, get(topicPath(topic)))
}

// Configure gives a topic these settings in place of all that it had.
func (c *Client) Configure(ctx context.Context, topic string, settings Settings) (*Topic, error) {
	body, err := settings.MarshalJSON()
	if err != nil {
		return nil, err
	}
	return c.topic(ctx, call{method: http.MethodPut, path: topicPath(topic), body: body, again: always})
}

// Pause has a topic hand nothing out for so long, or until it is resumed if that is 0.
func (c *Client) Pause(ctx context.Context, topic string, pause time.Duration) (*Topic, error) {
	body, err := marshal(struct {
		For *duration `json:"for,omitempty"`
	}{given(pause)})
	if err != nil {
		return nil, err
	}
	request := post(topicPath(topic, "pause"), always)
	request.body = body
	return c.topic(ctx, request)
}

// Resume has a topic hand out again.
func (c *Client) Resume(ctx context.Context, topic string) (*Topic, error) {
	return c.topic(ctx, post(topicPath(topic, "resume"), always))
}

// Empty removes a topic's jobs, and tells how many. The topic is gone, too, if it has no settings.
func (c *Client) Empty(ctx context.Context, topic string) (int, error) {
	return c.count(ctx, post(topicPath(topic, "empty"), deletes))
}

// Forget removes a topic's jobs and settings, and tells how many jobs.
func (c *Client) Forget(ctx context.Context, topic string) (int, error) {
	return c.count(ctx, call{method: http.MethodDelete, path: topicPath(topic), again: deletes})
}

// Redrive has all dead jobs of a topic tried anew, and tells how many.
func (c *Client) Redrive(ctx context.Context, topic string) (int, error) {
	return c.count(ctx, post(topicPath(topic, "redrive"), never))
}

func (c *Client) topic(ctx context.Context, request call) (*Topic, error) {
	var topic Topic
	_, err := c.do(ctx, request, &topic)
	return orNone(&topic, err)
}

func (c *Client) count(ctx context.Context, request call) (int, error) {
	var answer struct{ Count int }
	_, err := c.do(ctx, request, &answer)
	return answer.Count, err
}
