package linger

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// duration is a [time.Duration] in the server's text, both ways.
type duration time.Duration

func (d duration) MarshalJSON() ([]byte, error) {
	return strconv.AppendQuote(nil, durationText(time.Duration(d))), nil
}

func (d *duration) UnmarshalJSON(text []byte) error {
	var s string
	if err := json.Unmarshal(text, &s); err != nil {
		return err
	}
	parsed, err := parseDuration(s)
	*d = duration(parsed)
	return err
}

// durationText writes d as seconds, with as many digits as it has.
func durationText(d time.Duration) string {
	seconds, rest := d/time.Second, d%time.Second
	if rest == 0 {
		return fmt.Sprintf("%ds", seconds)
	}
	sign := ""
	if d < 0 {
		sign, seconds, rest = "-", -seconds, -rest
	}
	return strings.TrimRight(fmt.Sprintf("%s%d.%09d", sign, seconds, rest), "0") + "s"
}

// parseDuration reads what the server writes, such as "7d", "1d12h" or "1m30s".
func parseDuration(text string) (time.Duration, error) {
	days, rest, found := strings.Cut(text, "d")
	if !found {
		return time.ParseDuration(text)
	}
	n, err := strconv.Atoi(days)
	if err != nil {
		return 0, fmt.Errorf("linger: duration %q: %w", text, err)
	}
	whole := time.Duration(n) * 24 * time.Hour
	if rest == "" {
		return whole, nil
	}
	part, err := time.ParseDuration(rest)
	return whole + part, err
}

// given is d, or nil, which is left out of a request, if it is 0.
func given(d time.Duration) *duration {
	if d == 0 {
		return nil
	}
	return (*duration)(&d)
}

// moment is t, or nil if it was not set.
func moment(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	return &t
}

// pauses are those between tries while a server is away: they grow, and begin anew after a success.
type pauses struct{ last time.Duration }

const (
	pauseMin = 100 * time.Millisecond
	pauseMax = 5 * time.Second
)

func (p *pauses) next() time.Duration {
	p.last = min(max(2*p.last, pauseMin), pauseMax)
	return p.last
}

func (p *pauses) reset() { p.last = 0 }
