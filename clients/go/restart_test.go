package linger_test

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"linger.dev/go"
)

// redis starts a Redis and gives its address.
func redis(t *testing.T) string {
	t.Helper()
	path, err := exec.LookPath("redis-server")
	if err != nil {
		cannot(t, "there is no redis-server")
	}
	address := freeAddress(t)
	_, port, _ := strings.Cut(address, ":")
	process := exec.Command(path, "--port", port, "--bind", "127.0.0.1", "--save", "", "--appendonly", "no", "--dir", t.TempDir())
	if err := process.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = process.Process.Kill()
		_ = process.Wait()
	})
	eventually(t, "Redis answers", func() bool {
		connection, err := net.Dial("tcp", address)
		if err != nil {
			return false
		}
		defer connection.Close()
		_ = connection.SetDeadline(time.Now().Add(time.Second))
		fmt.Fprint(connection, "PING\r\n")
		answer := make([]byte, 5)
		_, err = connection.Read(answer)
		return err == nil && string(answer) == "+PONG"
	})
	return address
}

func TestAWorkerGoesOnThroughARollingRestart(t *testing.T) {
	store := "redis://" + redis(t)
	path := binary(t)
	addresses := []string{freeAddress(t), freeAddress(t)}
	servers := make([]*server, len(addresses))
	launchAt := func(i int) {
		args := []string{"--listen", addresses[i], "--store", store, "--name", fmt.Sprint("queue-", i)}
		servers[i] = must(launch(path, t.TempDir(), nil, args...))(t)
	}
	t.Cleanup(func() {
		for _, server := range servers {
			if server != nil {
				server.stop()
			}
		}
	})
	for i := range servers {
		launchAt(i)
	}
	c := connect(t, "http://"+addresses[0], "http://"+addresses[1])

	done := map[string]int{}
	var lock sync.Mutex
	count := func() int {
		lock.Lock()
		defer lock.Unlock()
		return len(done)
	}
	work(t, &linger.Worker{Client: c, TTR: 5 * time.Second, Handlers: map[string]linger.Handler{
		"rolling": func(_ context.Context, job *linger.Job) error {
			lock.Lock()
			defer lock.Unlock()
			done[job.ID]++
			return nil
		},
	}})
	// Jobs keep coming for as long as servers come and go.
	type result struct {
		jobs int
		err  error
	}
	restarted, added := make(chan struct{}), make(chan result, 1)
	go func() {
		for i := 0; ; i++ {
			select {
			case <-restarted:
				added <- result{i, nil}
				return
			case <-time.After(5 * time.Millisecond):
			}
			job := linger.NewJob{Topic: "rolling", ID: fmt.Sprint(i), OnConflict: linger.Keep}
			if _, err := c.Add(context.Background(), job); err != nil {
				added <- result{i, err}
				return
			}
		}
	}()
	eventually(t, "the first jobs are done", func() bool { return count() >= 20 })
	for i := range servers {
		servers[i].stop()
		before := count()
		eventually(t, "work goes on while a server is down", func() bool { return count() > before })
		launchAt(i)
	}
	close(restarted)
	last := arrives(t, "the last job", added)
	if last.err != nil {
		t.Fatalf("job %d: %v", last.jobs, last.err)
	}
	eventually(t, "all jobs are done", func() bool { return count() == last.jobs })
	eventually(t, "the topic is empty", isEmpty(t, c, "rolling"))
}

// lines are those of a file that is being written, whole ones only.
func lines(t *testing.T, path string) []string {
	t.Helper()
	text, err := os.ReadFile(path)
	if os.IsNotExist(err) {
		return nil
	}
	if err != nil {
		t.Fatal(err)
	}
	whole := string(text[:strings.LastIndexByte(string(text), '\n')+1])
	return strings.Fields(whole)
}

func TestAWorkerThatWasKilledLosesNoJob(t *testing.T) {
	const jobs = 1000
	folder := t.TempDir()
	program := filepath.Join(folder, "worker")
	if out, err := exec.Command("go", "build", "-o", program, "./examples/worker").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	c := connect(t, theServer(t).url)
	many := make([]linger.NewJob, jobs)
	for i := range many {
		many[i] = linger.NewJob{Topic: "killed", ID: fmt.Sprint(i)}
	}
	must(c.AddMany(within(t), many))(t)

	done := filepath.Join(folder, "done.txt")
	run := func() *exec.Cmd {
		process := exec.Command(program, "-topic", "killed", "-done", done, "-ttr", "2s", "-takes", "5ms")
		process.Env = append(environ(), "LINGER_SERVER="+theServer(t).url)
		process.Stderr = os.Stderr
		if err := process.Start(); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			_ = process.Process.Kill()
			_ = process.Wait()
		})
		return process
	}
	victim := run()
	eventually(t, "a part of the jobs is done", func() bool { return len(lines(t, done)) >= 200 })
	_ = victim.Process.Kill()
	_ = victim.Wait()
	left := len(must(c.Jobs(within(t), "killed", linger.Filter{Limit: jobs}))(t).Jobs)
	if left == 0 {
		t.Fatal("all was done before it was killed")
	}
	t.Logf("killed with %d of %d jobs left", left, jobs)

	heir := run()
	eventually(t, "the topic is empty", isEmpty(t, c, "killed"))
	_ = heir.Process.Signal(syscall.SIGTERM)
	if err := heir.Wait(); err != nil {
		t.Fatalf("it does not end well when it is asked to: %v", err)
	}
	seen := map[string]bool{}
	for _, id := range lines(t, done) {
		seen[id] = true
	}
	for i := 0; i < jobs; i++ {
		if !seen[fmt.Sprint(i)] {
			t.Errorf("job %d was lost", i)
		}
	}
}
