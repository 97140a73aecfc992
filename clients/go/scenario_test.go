package linger_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strconv"
	"strings"
	"testing"
	"time"

	"linger.dev/go"
)

type scenario struct {
	Name, Why string
	Steps     []struct {
		Call   string
		Args   map[string]any
		Expect any
		Error  *struct {
			Code, Field string
			Status      int
		}
		Save map[string]string
	}
}

func TestEveryScenarioComesOutAsItSays(t *testing.T) {
	server := start(t, nil)
	files := must(filepath.Glob("../scenarios/*.json"))(t)
	if len(files) == 0 {
		t.Fatal("there are no scenarios")
	}
	for _, file := range files {
		var story scenario
		decoder := json.NewDecoder(bytes.NewReader(must(os.ReadFile(file))(t)))
		decoder.UseNumber()
		if err := decoder.Decode(&story); err != nil {
			t.Fatal(file, err)
		}
		t.Run(story.Name, func(t *testing.T) { replay(t, connect(t, server.url), story) })
	}
}

func replay(t *testing.T, c *linger.Client, story scenario) {
	kept := map[string]any{}
	for i, step := range story.Steps {
		where := fmt.Sprintf("step %d, %s %v", i+1, step.Call, step.Args)
		args := arguments{t: t, left: fill(step.Args, kept).(map[string]any)}
		answer, err := perform(within(t), c, step.Call, &args)
		if len(args.left) > 0 {
			t.Fatalf("%s: arguments that the client has no place for: %v", where, args.left)
		}
		if step.Error != nil {
			var refused *linger.Error
			if !errors.As(err, &refused) || refused.Code != step.Error.Code ||
				step.Error.Field != "" && refused.Field != step.Error.Field ||
				step.Error.Status != 0 && refused.Status != step.Error.Status {
				t.Fatalf("%s: is %v (%+v), not %+v", where, err, refused, *step.Error)
			}
			continue
		}
		if err != nil {
			t.Fatalf("%s: %v", where, err)
		}
		got := asJSON(t, answer)
		if fault := differs("answer", fill(step.Expect, kept), got); fault != "" {
			t.Fatalf("%s: %s", where, fault)
		}
		for name, path := range step.Save {
			kept[name] = at(t, got, path)
		}
	}
}

// perform makes a call of the client by its name in the scenarios, and gives its answer as the API does.
func perform(ctx context.Context, c *linger.Client, name string, args *arguments) (any, error) {
	topic, id := "", ""
	if name != "add" && name != "topics" {
		topic, id = args.text("topic"), args.text("id")
	}
	job := func() *linger.Job { return &linger.Job{Topic: topic, ID: id, Lease: args.text("lease")} }
	switch name {
	case "add":
		return c.Add(ctx, newJob(args))
	case "add_many":
		var jobs []linger.NewJob
		for _, one := range args.take("jobs").([]any) {
			each := arguments{t: args.t, left: one.(map[string]any)}
			jobs = append(jobs, newJob(&each))
		}
		added, err := c.AddMany(ctx, jobs)
		answer := []any{}
		for _, one := range added {
			if one.Err != nil {
				answer = append(answer, map[string]any{"error": one.Err})
			} else {
				answer = append(answer, map[string]any{"job": one.Job})
			}
		}
		return answer, err
	case "get":
		return c.Get(ctx, topic, id)
	case "update":
		return c.Update(ctx, topic, id, changes(args))
	case "delete":
		return c.Delete(ctx, topic, id)
	case "history":
		events, err := c.History(ctx, topic, id)
		return map[string]any{"history": events}, err
	case "run":
		return c.Run(ctx, topic, id)
	case "hold":
		return c.Hold(ctx, topic, id)
	case "unhold":
		return c.Unhold(ctx, topic, id)
	case "pop":
		jobs, err := c.Pop(ctx, pop(args))
		return map[string]any{"jobs": append([]*linger.Job{}, jobs...)}, err
	case "finish":
		return c.Finish(ctx, job())
	case "fail":
		failure := linger.Failure{Error: args.text("error"), Again: args.flag("again")}
		if in := args.duration("retry_in"); in != 0 {
			failure.RetryIn = &in
		}
		return c.Fail(ctx, job(), failure)
	case "release":
		return c.Release(ctx, job(), linger.Release{Delay: args.duration("delay")})
	case "touch":
		return c.Touch(ctx, job(), args.duration("ttr"))
	case "jobs":
		return c.Jobs(ctx, topic, linger.Filter{State: args.text("state")})
	case "topics":
		return c.Topics(ctx, linger.TopicFilter{Prefix: args.text("prefix")})
	case "topic":
		return c.Topic(ctx, topic)
	case "configure":
		var settings linger.Settings
		args.into("settings", &settings)
		return c.Configure(ctx, topic, settings)
	case "pause":
		return c.Pause(ctx, topic, args.duration("for"))
	case "resume":
		return c.Resume(ctx, topic)
	case "empty":
		n, err := c.Empty(ctx, topic)
		return map[string]any{"count": n}, err
	case "redrive":
		n, err := c.Redrive(ctx, topic)
		return map[string]any{"count": n}, err
	case "forget":
		n, err := c.Forget(ctx, topic)
		return map[string]any{"count": n}, err
	}
	return nil, fmt.Errorf("the client has no call %q", name)
}

func newJob(args *arguments) linger.NewJob {
	job := linger.NewJob{
		Topic:      args.text("topic"),
		ID:         args.text("id"),
		At:         args.moment("at"),
		TTR:        args.duration("ttr"),
		Priority:   args.count("priority"),
		Target:     args.text("target"),
		OnConflict: args.text("on_conflict"),
		Body:       args.body(),
		Retry:      args.retry(),
		Repeat:     args.repeat(),
	}
	// Text that is no duration is for the server to refuse.
	if text, ok := args.left["delay"].(string); ok && !isDuration(text) {
		job.Extra = map[string]any{"delay": args.take("delay")}
	}
	job.Delay = args.duration("delay")
	return job
}

func changes(args *arguments) linger.Changes {
	given := arguments{t: args.t, left: args.take("changes").(map[string]any)}
	changes := linger.Changes{
		Body:     given.body(),
		At:       given.moment("at"),
		TTR:      given.duration("ttr"),
		Priority: given.count("priority"),
	}
	if version := args.count("if_version"); version != nil {
		changes.IfVersion = uint64(*version)
	}
	if len(given.left) > 0 {
		args.t.Fatalf("changes that the client has no place for: %v", given.left)
	}
	return changes
}

func pop(args *arguments) linger.Pop {
	pop := linger.Pop{Wait: args.duration("wait"), TTR: args.duration("ttr")}
	for _, topic := range args.take("topics").([]any) {
		pop.Topics = append(pop.Topics, topic.(string))
	}
	if max := args.count("max"); max != nil {
		pop.Max = *max
		// 0 is "not given" to the client, and for the server to refuse.
		if *max == 0 {
			pop.Extra = map[string]any{"max": 0}
		}
	}
	return pop
}

// arguments are taken one by one, so that none is forgotten.
type arguments struct {
	t    *testing.T
	left map[string]any
}

func (a *arguments) take(name string) any {
	value := a.left[name]
	delete(a.left, name)
	return value
}

func (a *arguments) text(name string) string {
	text, _ := a.take(name).(string)
	return text
}

func (a *arguments) flag(name string) bool {
	flag, _ := a.take(name).(bool)
	return flag
}

func (a *arguments) count(name string) *int {
	number, ok := a.take(name).(json.Number)
	if !ok {
		return nil
	}
	return linger.Ptr(must(strconv.Atoi(string(number)))(a.t))
}

func (a *arguments) moment(name string) (moment time.Time) {
	if text := a.text(name); text != "" {
		moment = must(time.Parse(time.RFC3339, text))(a.t)
	}
	return moment
}

func (a *arguments) duration(name string) (d time.Duration) {
	if text := a.text(name); text != "" {
		d = must(parse(text))(a.t)
	}
	return d
}

func (a *arguments) into(name string, v any) {
	text := must(json.Marshal(a.take(name)))(a.t)
	if err := json.Unmarshal(text, v); err != nil {
		a.t.Fatal(err)
	}
}

func (a *arguments) body() any {
	if text := a.text("body_base64"); text != "" {
		var bytes []byte
		if err := json.Unmarshal([]byte(strconv.Quote(text)), &bytes); err != nil {
			a.t.Fatal(err)
		}
		return bytes
	}
	return a.take("body")
}

func (a *arguments) retry() *linger.Retry {
	if a.left["retry"] == nil {
		return nil
	}
	var retry linger.Retry
	a.into("retry", &retry)
	return &retry
}

func (a *arguments) repeat() *linger.Repeat {
	if a.left["repeat"] == nil {
		return nil
	}
	var repeat linger.Repeat
	a.into("repeat", &repeat)
	return &repeat
}

func parse(text string) (time.Duration, error) {
	if days, found := strings.CutSuffix(text, "d"); found {
		n, err := strconv.Atoi(days)
		return time.Duration(n) * 24 * time.Hour, err
	}
	return time.ParseDuration(text)
}

func isDuration(text string) bool {
	_, err := parse(text)
	return err == nil
}

// fill puts what was kept in the place of its name.
func fill(v any, kept map[string]any) any {
	switch v := v.(type) {
	case string:
		if name, found := strings.CutPrefix(v, "$"); found {
			if value, found := kept[name]; found {
				return value
			}
		}
	case []any:
		filled := make([]any, len(v))
		for i := range v {
			filled[i] = fill(v[i], kept)
		}
		return filled
	case map[string]any:
		filled := map[string]any{}
		for name := range v {
			filled[name] = fill(v[name], kept)
		}
		return filled
	}
	return v
}

// asJSON is what the API would have answered.
func asJSON(t *testing.T, v any) (got any) {
	t.Helper()
	decoder := json.NewDecoder(bytes.NewReader(must(json.Marshal(v))(t)))
	decoder.UseNumber()
	if err := decoder.Decode(&got); err != nil {
		t.Fatal(err)
	}
	return got
}

func at(t *testing.T, v any, path string) any {
	t.Helper()
	for _, name := range strings.Split(path, ".") {
		switch in := v.(type) {
		case map[string]any:
			v = in[name]
		case []any:
			v = in[must(strconv.Atoi(name))(t)]
		}
	}
	if v == nil {
		t.Fatalf("the answer has no %s", path)
	}
	return v
}

// differs says where what was got is not what is expected.
func differs(where string, expected, got any) string {
	if expected == "$any" {
		if got == nil {
			return where + " is missing"
		}
		return ""
	}
	switch expected := expected.(type) {
	case map[string]any:
		if length, ok := expected["$length"]; ok {
			list, _ := got.([]any)
			if fmt.Sprint(len(list)) != fmt.Sprint(length) {
				return fmt.Sprintf("%s has %d, not %v", where, len(list), length)
			}
			return ""
		}
		object, ok := got.(map[string]any)
		if !ok {
			return fmt.Sprintf("%s is %v, not %v", where, got, expected)
		}
		for name := range expected {
			value, there := object[name]
			if expected[name] == "$absent" {
				if there {
					return fmt.Sprintf("%s.%s is there: %v", where, name, value)
				}
				continue
			}
			if fault := differs(where+"."+name, expected[name], value); fault != "" {
				return fault
			}
		}
		return ""
	case []any:
		list, ok := got.([]any)
		if !ok || len(list) != len(expected) {
			return fmt.Sprintf("%s is %v, not %v", where, got, expected)
		}
		for i := range expected {
			if fault := differs(fmt.Sprintf("%s.%d", where, i), expected[i], list[i]); fault != "" {
				return fault
			}
		}
		return ""
	}
	if !reflect.DeepEqual(expected, got) && !sameTime(expected, got) {
		return fmt.Sprintf("%s is %#v, not %#v", where, got, expected)
	}
	return ""
}

// sameTime tells whether two texts are the same moment or length of time, however they are written.
func sameTime(a, b any) bool {
	x, _ := a.(string)
	y, _ := b.(string)
	if d, err := parse(x); err == nil {
		e, err := parse(y)
		return err == nil && d == e
	}
	s, err := time.Parse(time.RFC3339, x)
	if err != nil {
		return false
	}
	u, err := time.Parse(time.RFC3339, y)
	return err == nil && s.Equal(u)
}
