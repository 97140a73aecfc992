package linger

import (
	"context"
	"encoding/json"
	"net/http"
	"net/url"
	"strconv"
	"time"
)

// Add adds a job, and gives it as it was stored, or as it was there already with OnConflict [Keep].
func (c *Client) Add(ctx context.Context, job NewJob) (*Job, error) {
	body, err := job.encode()
	if err != nil {
		return nil, err
	}
	request := call{method: http.MethodPost, path: path("jobs"), body: body, key: job.IdempotencyKey}
	if job.ID == "" && request.key == "" {
		request.key = uuid()
	}
	if job.repeatable() {
		request.again = always
	}
	var added Job
	_, err = c.do(ctx, request, &added)
	return orNone(&added, err)
}

// Added is what became of one of many jobs: the Job, or Err.
type Added struct {
	Job *Job
	Err error
}

// UnmarshalJSON reads what the server wrote.
func (a *Added) UnmarshalJSON(text []byte) error {
	var read struct {
		Job   *Job
		Error *Error
	}
	if err := json.Unmarshal(text, &read); err != nil {
		return err
	}
	a.Job = read.Job
	if read.Error != nil {
		a.Err = read.Error
	}
	return nil
}

// AddMany adds jobs, up to 1,000 unless the server is set otherwise. Each is added or refused by itself, and
// stands in its place in the answer. Jobs without an ID are given one here.
func (c *Client) AddMany(ctx context.Context, jobs []NewJob) ([]Added, error) {
	request := call{method: http.MethodPost, path: path("jobs"), body: []byte{'['}, again: always}
	for i, job := range jobs {
		if job.ID == "" {
			job.ID, job.OnConflict = uuid(), Keep
		}
		if !job.repeatable() {
			request.again = never
		}
		body, err := job.encode()
		if err != nil {
			return nil, err
		}
		if i > 0 {
			request.body = append(request.body, ',')
		}
		request.body = append(request.body, body...)
	}
	request.body = append(request.body, ']')
	var added []Added
	_, err := c.do(ctx, request, &added)
	return added, err
}

// Get gives the job, with its body.
func (c *Client) Get(ctx context.Context, topic, id string) (*Job, error) {
	var job Job
	_, err := c.do(ctx, get(jobPath(topic, id)), &job)
	return orNone(&job, err)
}

// Event is something that happened to a job.
type Event struct {
	At      time.Time     `json:"at"`
	What    string        `json:"what"`
	Attempt int           `json:"attempt"`
	By      string        `json:"by,omitempty"` // who did it
	Error   string        `json:"error,omitempty"`
	Took    time.Duration `json:"-"`
	Answer  *PushAnswer   `json:"answer,omitempty"` // what a push was answered
}

// PushAnswer is what a receiver answered.
type PushAnswer struct {
	Status  int    `json:"status,omitempty"`
	Excerpt string `json:"excerpt,omitempty"`
}

// UnmarshalJSON reads what the server wrote.
func (e *Event) UnmarshalJSON(text []byte) error {
	type plain Event
	return json.Unmarshal(text, &struct {
		*plain
		Took *duration `json:"took"`
	}{(*plain)(e), (*duration)(&e.Took)})
}

// History tells what happened to a job, the oldest first.
func (c *Client) History(ctx context.Context, topic, id string) ([]Event, error) {
	var answer struct{ History []Event }
	_, err := c.do(ctx, get(jobPath(topic, id, "history")), &answer)
	return answer.History, err
}

// Changed is what a call has made of a job.
type Changed struct {
	Changed bool `json:"changed"`       // whether this call changed anything
	Job     *Job `json:"job,omitempty"` // where the job stands now, without what was given with it; nil if it is gone
}

// Update changes a job. With IfVersion it is done only if that is still its version.
func (c *Client) Update(ctx context.Context, topic, id string, changes Changes) (*Changed, error) {
	body, err := changes.encode()
	if err != nil {
		return nil, err
	}
	request := call{method: http.MethodPatch, path: jobPath(topic, id), body: body, again: always}
	if changes.IfVersion != 0 {
		request.again = never
	}
	return c.change(ctx, topic, id, request)
}

// Delete cancels a job, in whatever state it is.
func (c *Client) Delete(ctx context.Context, topic, id string) (*Changed, error) {
	return c.change(ctx, topic, id, call{method: http.MethodDelete, path: jobPath(topic, id), again: deletes})
}

// DeleteVersion cancels a job only if this is still its version.
func (c *Client) DeleteVersion(ctx context.Context, topic, id string, version uint64) (*Changed, error) {
	query := url.Values{"if_version": {strconv.FormatUint(version, 10)}}
	return c.change(ctx, topic, id, call{method: http.MethodDelete, path: withQuery(jobPath(topic, id), query)})
}

// Run makes a job ready now.
func (c *Client) Run(ctx context.Context, topic, id string) (*Changed, error) {
	return c.change(ctx, topic, id, post(jobPath(topic, id, "run"), never))
}

// Hold sets a job aside.
func (c *Client) Hold(ctx context.Context, topic, id string) (*Changed, error) {
	return c.change(ctx, topic, id, post(jobPath(topic, id, "hold"), always))
}

// Unhold lets a job go that was set aside.
func (c *Client) Unhold(ctx context.Context, topic, id string) (*Changed, error) {
	return c.change(ctx, topic, id, post(jobPath(topic, id, "unhold"), always))
}

// Pop is which jobs to pop, and how long to wait for them.
type Pop struct {
	Topics []string      `json:"topics"`
	Max    int           `json:"max,omitempty"` // at most so many; 1 unless given
	Wait   time.Duration `json:"-"`             // for the first; not at all unless given
	TTR    time.Duration `json:"-"`             // how long these attempts may take, in place of the jobs' own

	// Extra are fields that are sent besides, as they are.
	Extra map[string]any `json:"-"`
}

// Pop leases jobs that are due. It gives none when the wait is over, and leases none if ctx ends before that.
func (c *Client) Pop(ctx context.Context, pop Pop) ([]*Job, error) {
	if pop.Topics == nil {
		pop.Topics = []string{}
	}
	type plain Pop
	body, err := encode(struct {
		plain
		Wait *duration `json:"wait,omitempty"`
		TTR  *duration `json:"ttr,omitempty"`
	}{plain(pop), given(pop.Wait), given(pop.TTR)}, pop.Extra)
	if err != nil {
		return nil, err
	}
	request := call{method: http.MethodPost, path: path("pop"), body: body, wait: pop.Wait, again: always}
	var popped struct{ Jobs []*Job }
	answer, err := c.do(ctx, request, &popped)
	now := time.Now()
	for _, job := range popped.Jobs {
		job.held = now.Add(leaseLeft(job.ReservedUntil, answer.date, now))
	}
	return popped.Jobs, err
}

// leaseLeft is how much of a lease is left. This machine's clock tells it to the millisecond but may be wrong;
// the server's own is in its answer, to the second.
func leaseLeft(until, date, now time.Time) time.Duration {
	left := until.Sub(now)
	if date.IsZero() {
		return left
	}
	most := until.Sub(date)
	return min(max(left, most-time.Second), most)
}

// Finish tells that a job is done. Like [Client.Fail], [Client.Release] and [Client.Touch] it takes a job that was
// popped or pushed, by whose Lease the server knows that it is still this caller's; or one with Topic and ID alone, whoever has it.
func (c *Client) Finish(ctx context.Context, job *Job) (*Changed, error) {
	return c.settle(ctx, job, "finish", struct {
		Lease string `json:"lease,omitempty"`
	}{job.Lease})
}

// Failure is why an attempt failed, and what is to come of it.
type Failure struct {
	Error   string         // why, for people
	RetryIn *time.Duration // when to try again, in place of the next step of the ladder; see Ptr
	Again   bool           // not a failure, only not yet
}

// Fail tells that an attempt has failed.
func (c *Client) Fail(ctx context.Context, job *Job, failure Failure) (*Changed, error) {
	return c.settle(ctx, job, "fail", struct {
		Lease   string    `json:"lease,omitempty"`
		Error   string    `json:"error,omitempty"`
		RetryIn *duration `json:"retry_in,omitempty"`
		Again   bool      `json:"again,omitempty"`
	}{job.Lease, failure.Error, (*duration)(failure.RetryIn), failure.Again})
}

// Release is how a job is given back.
type Release struct {
	Delay    time.Duration // ready again after so long; at once unless given
	Priority *int          // its priority from now on; see Ptr
}

// Release gives a job back; the attempt does not count.
func (c *Client) Release(ctx context.Context, job *Job, release Release) (*Changed, error) {
	return c.settle(ctx, job, "release", struct {
		Lease    string    `json:"lease,omitempty"`
		Delay    *duration `json:"delay,omitempty"`
		Priority *int      `json:"priority,omitempty"`
	}{job.Lease, given(release.Delay), release.Priority})
}

// Touch gives an attempt more time: ttr from now, or as long as before if that is 0.
func (c *Client) Touch(ctx context.Context, job *Job, ttr time.Duration) (*Changed, error) {
	changed, _, err := c.touch(ctx, job, ttr)
	return changed, err
}

// touch gives as well when the lease ends by this machine's clock.
func (c *Client) touch(ctx context.Context, job *Job, ttr time.Duration) (*Changed, time.Time, error) {
	body, err := marshal(struct {
		Lease string    `json:"lease,omitempty"`
		TTR   *duration `json:"ttr,omitempty"`
	}{job.Lease, given(ttr)})
	if err != nil {
		return nil, time.Time{}, err
	}
	request := post(jobPath(job.Topic, job.ID, "touch"), always)
	request.body = body
	var changed Changed
	answer, err := c.do(ctx, request, &changed)
	if err != nil || changed.Job == nil {
		return nil, time.Time{}, err
	}
	changed.Job.Topic, changed.Job.ID = job.Topic, job.ID
	now := time.Now()
	return &changed, now.Add(leaseLeft(changed.Job.ReservedUntil, answer.date, now)), nil
}

func (c *Client) settle(ctx context.Context, job *Job, verb string, fields any) (*Changed, error) {
	body, err := marshal(fields)
	if err != nil {
		return nil, err
	}
	request := post(jobPath(job.Topic, job.ID, verb), settles)
	request.body = body
	// Without a lease a second try could meet a later attempt.
	if job.Lease == "" {
		request.again = never
	}
	return c.change(ctx, job.Topic, job.ID, request)
}

// change makes a call that is answered with what it has changed.
func (c *Client) change(ctx context.Context, topic, id string, request call) (*Changed, error) {
	var changed Changed
	answer, err := c.do(ctx, request, &changed)
	if err != nil {
		return nil, err
	}
	if answer.doneBefore {
		changed.Changed = true
	}
	if changed.Job != nil {
		changed.Job.Topic, changed.Job.ID = topic, id
	}
	return &changed, nil
}

// Filter says which jobs of a topic to list.
type Filter struct {
	State               string
	DueBefore, DueAfter time.Time
	IDPrefix            string
	Error               string // a part of the last error
	Limit               int    // so many a page at most
	Cursor              string // where the page before left off
	Body                bool   // bodies, too
}

func (f Filter) query() url.Values {
	query := url.Values{}
	put(query, "state", f.State)
	put(query, "id_prefix", f.IDPrefix)
	put(query, "error", f.Error)
	put(query, "cursor", f.Cursor)
	put(query, "due_before", timeText(f.DueBefore))
	put(query, "due_after", timeText(f.DueAfter))
	put(query, "limit", countText(f.Limit))
	if f.Body {
		query.Set("body", "true")
	}
	return query
}

// Page is a part of a topic's jobs. It may have fewer than were asked for, even none, and still not be the
// last: that one has no Cursor.
type Page struct {
	Jobs   []*Job `json:"jobs"`
	Cursor string `json:"cursor,omitempty"`
}

// Jobs lists a page of a topic's jobs.
func (c *Client) Jobs(ctx context.Context, topic string, filter Filter) (*Page, error) {
	var page Page
	_, err := c.do(ctx, get(withQuery(topicPath(topic, "jobs"), filter.query())), &page)
	return orNone(&page, err)
}

// EachJob calls do for each job of a topic, page after page, until that or a call fails.
func (c *Client) EachJob(ctx context.Context, topic string, filter Filter, do func(*Job) error) error {
	for {
		page, err := c.Jobs(ctx, topic, filter)
		if err != nil {
			return err
		}
		for _, job := range page.Jobs {
			if err := do(job); err != nil {
				return err
			}
		}
		if page.Cursor == "" {
			return nil
		}
		filter.Cursor = page.Cursor
	}
}

func get(path string) call { return call{method: http.MethodGet, path: path, again: always} }

func post(path string, again again) call {
	return call{method: http.MethodPost, path: path, again: again}
}

func jobPath(topic, id string, rest ...string) string {
	return path(append([]string{"topics", topic, "jobs", id}, rest...)...)
}

func topicPath(topic string, rest ...string) string {
	return path(append([]string{"topics", topic}, rest...)...)
}

func put(query url.Values, name, value string) {
	if value != "" {
		query.Set(name, value)
	}
}

func timeText(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.Format(time.RFC3339Nano)
}

func countText(n int) string {
	if n == 0 {
		return ""
	}
	return strconv.Itoa(n)
}

func orNone[T any](v *T, err error) (*T, error) {
	if err != nil {
		return nil, err
	}
	return v, nil
}
