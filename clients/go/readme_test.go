package linger_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"linger.dev/go"
)

// samples are the pieces of Go in the README.
func samples(t *testing.T) (found []string) {
	t.Helper()
	blocks := regexp.MustCompile("(?s)```go\n(.*?)```")
	for _, match := range blocks.FindAllStringSubmatch(string(readFile(t, "README.md")), -1) {
		found = append(found, match[1])
	}
	return found
}

func TestTheProgramInTheReadmeDoesWhatItSays(t *testing.T) {
	server := theServer(t)
	c := connect(t, server.url)
	var program string
	for _, sample := range samples(t) {
		if strings.HasPrefix(sample, "package main") {
			program = sample
		}
	}
	folder := t.TempDir()
	if err := os.WriteFile(filepath.Join(folder, "main.go"), []byte(program), 0o644); err != nil {
		t.Fatal(err)
	}
	here := must(os.Getwd())(t)
	run := func(name string, args ...string) string {
		command := exec.Command(name, args...)
		command.Dir = folder
		command.Env = append(environ(), "GOFLAGS=-mod=mod", "GOPROXY=off", "LINGER_SERVER="+server.url)
		out, err := command.CombinedOutput()
		if err != nil {
			t.Fatalf("%s %v: %v: %s", name, args, err, out)
		}
		return string(out)
	}
	run("go", "mod", "init", "example.com/shop")
	run("go", "mod", "edit", "-replace", "linger.dev/go="+here)
	run("go", "mod", "tidy")
	run("go", "build", "-o", "shop")
	if said := run("./shop"); !strings.Contains(said, "to be closed: ") || !strings.Contains(said, "closing order 1001\n") {
		t.Fatal(said)
	}
	if page := must(c.Jobs(within(t), "order.close", linger.Filter{}))(t); len(page.Jobs) != 0 {
		t.Fatalf("jobs are left: %+v", page.Jobs)
	}
}

// What is shown is part of the examples, which are compiled.
func TestEveryPieceInTheReadmeIsCompiled(t *testing.T) {
	examples := flat(string(readFile(t, "example_test.go")))
	pieces := 0
	for _, sample := range samples(t) {
		if strings.HasPrefix(sample, "package main") {
			continue
		}
		pieces++
		if !strings.Contains(examples, flat(sample)) {
			t.Errorf("not in example_test.go:\n%s", sample)
		}
	}
	if pieces < 6 {
		t.Fatalf("only %d pieces were found", pieces)
	}
}

// flat is text without its indentation.
func flat(text string) string {
	lines := strings.Split(strings.TrimSpace(text), "\n")
	for i := range lines {
		lines[i] = strings.TrimSpace(lines[i])
	}
	return strings.Join(lines, "\n")
}
