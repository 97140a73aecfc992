// Loads lmstfy, whose server is at a port, over HTTP.
package main

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"linger.dev/bench/peers/load"
)

type peer struct {
	client http.Client
	queue  string
	// The ids that lmstfy has given, by those of delayed jobs.
	given sync.Map
}

// What it answers with.
type answer struct {
	JobID string `json:"job_id"`
	Data  []byte `json:"data"`
}

func main() {
	load.Main(func(port, atOnce int) (load.Peer, error) {
		connections := 2 * max(atOnce, 64)
		return &peer{
			client: http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: connections}},
			queue:  fmt.Sprintf("http://127.0.0.1:%d/api/default/orders", port),
		}, nil
	})
}

func (p *peer) Add(job load.Job) error {
	// Delays are whole seconds from now, which are cut off too: the next one is the first that is not too early.
	delay := int64(0)
	if !job.Due.IsZero() {
		delay = job.Due.Unix() + 1 - time.Now().Unix()
	}
	url := fmt.Sprintf("%s?delay=%d&ttl=0&tries=1", p.queue, delay)
	added, _, err := p.call(http.MethodPut, url, job.Body, http.StatusCreated)
	if delay > 0 {
		p.given.Store(job.ID, added.JobID)
	}
	return err
}

func (p *peer) Cancel(id string) error {
	given, _ := p.given.LoadAndDelete(id)
	return p.delete(given.(string))
}

func (p *peer) Work(workers int, taken func(string), finished func()) error {
	for range workers {
		go func() {
			for {
				load.Must(p.work(taken, finished))
			}
		}()
	}
	return nil
}

func (p *peer) work(taken func(string), finished func()) error {
	job, status, err := p.call(http.MethodGet, p.queue+"?ttr=120&timeout=5", "", http.StatusOK, http.StatusNotFound)
	if err != nil || status == http.StatusNotFound {
		return err
	}
	taken(string(job.Data))
	if err := p.delete(job.JobID); err != nil {
		return err
	}
	finished()
	return nil
}

func (p *peer) delete(id string) error {
	_, _, err := p.call(http.MethodDelete, p.queue+"/job/"+id, "", http.StatusNoContent)
	return err
}

func (p *peer) call(method, url, body string, expected ...int) (told answer, status int, err error) {
	request, err := http.NewRequest(method, url, strings.NewReader(body))
	if err != nil {
		return told, 0, err
	}
	response, err := p.client.Do(request)
	if err != nil {
		return told, 0, err
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		return told, response.StatusCode, err
	}
	if !slices.Contains(expected, response.StatusCode) {
		return told, response.StatusCode, fmt.Errorf("%s %s: %s %s", method, url, response.Status, text)
	}
	if len(text) > 0 {
		err = json.Unmarshal(text, &told)
	}
	return told, response.StatusCode, err
}
