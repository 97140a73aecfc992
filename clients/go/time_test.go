package linger

import (
	"testing"
	"time"
)

func TestDurationsAreWrittenExactly(t *testing.T) {
	for d, text := range map[time.Duration]string{
		30 * time.Minute:                     "1800s",
		1500 * time.Millisecond:              "1.5s",
		time.Nanosecond:                      "0.000000001s",
		time.Hour + time.Microsecond:         "3600.000001s",
		-5 * time.Millisecond:                "-0.005s",
		-2 * time.Second:                     "-2s",
		time.Duration(1<<63 - 1):             "9223372036.854775807s",
		36600 * 24 * time.Hour:               "3162240000s",
		100*time.Second + 10*time.Nanosecond: "100.00000001s",
	} {
		if got := durationText(d); got != text {
			t.Errorf("%s is written %s, not %s", d, got, text)
		}
	}
}

func TestDurationsAreReadAsTheServerWritesThem(t *testing.T) {
	for text, d := range map[string]time.Duration{
		"7d":        7 * 24 * time.Hour,
		"1d12h":     36 * time.Hour,
		"1m30s":     90 * time.Second,
		"1s500ms":   1500 * time.Millisecond,
		"106751d2s": 106751*24*time.Hour + 2*time.Second,
		"0s":        0,
	} {
		if got, err := parseDuration(text); err != nil || got != d {
			t.Errorf("%s is read as %s (%v), not %s", text, got, err, d)
		}
	}
	for _, text := range []string{"", "soon", "xd", "1dx"} {
		if _, err := parseDuration(text); err == nil {
			t.Errorf("%q is read", text)
		}
	}
}

func TestPausesGrowToALimit(t *testing.T) {
	var p pauses
	for _, want := range []time.Duration{100, 200, 400, 800, 1600, 3200, 5000, 5000} {
		if got := p.next(); got != want*time.Millisecond {
			t.Fatalf("%s, not %d ms", got, want)
		}
	}
	p.reset()
	if got := p.next(); got != pauseMin {
		t.Fatal(got)
	}
}

func TestTheRestOfALeaseIsHeldAgainstTheServersClock(t *testing.T) {
	now := time.Date(2026, 1, 1, 0, 0, 10, 700e6, time.UTC)
	date := now.Truncate(time.Second)
	until := now.Add(2 * time.Second)
	for name, test := range map[string]struct {
		date, clock time.Time
		least, most time.Duration
	}{
		"clocks agree":              {date, now, 2 * time.Second, 2 * time.Second},
		"this one is an hour late":  {date, now.Add(-time.Hour), 2 * time.Second, 3 * time.Second},
		"this one is an hour early": {date, now.Add(time.Hour), time.Second, 2 * time.Second},
		"nothing is known":          {time.Time{}, now, 2 * time.Second, 2 * time.Second},
	} {
		if left := leaseLeft(until, test.date, test.clock); left < test.least || left > test.most {
			t.Errorf("%s: %s", name, left)
		}
	}
}
