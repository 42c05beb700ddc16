package main

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// script is a recipe of one file, or one that fails.
type script struct {
	runs *atomic.Int32
	fail error
	time time.Duration
}

func (script) files() []string { return []string{"bin/program"} }

func (s script) make(_ context.Context, j job) error {
	s.runs.Add(1)
	time.Sleep(s.time)
	if s.fail != nil {
		return s.fail
	}
	if err := os.MkdirAll(filepath.Join(j.dir, "bin"), 0o755); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(j.dir, "bin/program"), nil, 0o755)
}

// TestBuildAll: complete folders are not rebuilt, and a failure does not stop the others.
func TestBuildAll(t *testing.T) {
	cache := t.TempDir()
	var good, bad, last atomic.Int32
	all := []source{
		{name: "good", version: "v1", recipe: script{runs: &good}},
		{name: "bad", version: "v1", recipe: script{runs: &bad, fail: errors.New("no compiler")}},
		{name: "last", recipe: script{runs: &last}, find: func(context.Context) (string, error) { return "2.0", nil }},
		{name: "lost", recipe: script{runs: &last}, find: func(context.Context) (string, error) { return "", errors.New("no version") }},
	}
	folder := filepath.Join(cache, "good-v1-amd64")
	for _, step := range []struct {
		name             string
		before           func() error
		good, bad, built int32
	}{
		{"nothing is there", func() error { return nil }, 1, 1, 1},
		{"all is there", func() error { return nil }, 1, 2, 1},
		{"a folder was not finished", func() error { return os.Remove(filepath.Join(folder, "done")) }, 2, 3, 1},
		{"a folder lacks a program", func() error { return os.Remove(filepath.Join(folder, "bin/program")) }, 3, 4, 1},
	} {
		if err := step.before(); err != nil {
			t.Fatal(err)
		}
		failed := buildAll(t.Context(), cache, "amd64", all)
		if len(failed) != 2 || !strings.Contains(failed[0].Error(), "bad-v1: no compiler") || !strings.Contains(failed[1].Error(), "lost: no version") {
			t.Errorf("%s: failures %v", step.name, failed)
		}
		if good.Load() != step.good || bad.Load() != step.bad || last.Load() != step.built {
			t.Errorf("%s: built %d, %d, %d times, want %d, %d, %d", step.name, good.Load(), bad.Load(), last.Load(), step.good, step.bad, step.built)
		}
	}
	if !isComplete(filepath.Join(cache, "last-2.0-amd64"), []string{"bin/program"}) || isComplete(filepath.Join(cache, "bad-v1-amd64"), nil) {
		t.Error("the wrong folders are complete")
	}
}

// TestTwoRuns: of two concurrent runs the later one uses what the earlier one built.
func TestTwoRuns(t *testing.T) {
	cache := t.TempDir()
	var runs, waits atomic.Int32
	s := source{name: "slow", version: "v1", recipe: script{runs: &runs, time: 300 * time.Millisecond}}
	var group sync.WaitGroup
	for range 2 {
		group.Go(func() {
			mine := s
			say := func(format string, _ ...any) {
				if strings.Contains(format, "another run") {
					waits.Add(1)
				}
			}
			if _, _, err := build(t.Context(), cache, "amd64", &mine, say); err != nil {
				t.Error(err)
			}
		})
	}
	group.Wait()
	if runs.Load() != 1 || waits.Load() != 1 {
		t.Errorf("built %d times, %d waited; want once, and one that waited", runs.Load(), waits.Load())
	}
}

// TestLock: waiting for a lock can be interrupted.
func TestLock(t *testing.T) {
	file := filepath.Join(t.TempDir(), "lock")
	unlock, err := lock(t.Context(), file, nil)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if _, err := lock(ctx, file, func() {}); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("%v, want the end of the time", err)
	}
	unlock()
	again, err := lock(t.Context(), file, nil)
	if err != nil {
		t.Fatal(err)
	}
	again()
}

func TestWriteDigest(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, []byte("abc"), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := writeDigest(file, file+".sha256"); err != nil {
		t.Fatal(err)
	}
	const want = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad\n"
	if got, err := os.ReadFile(file + ".sha256"); err != nil || string(got) != want {
		t.Errorf("%q, %v, want %q", got, err, want)
	}
}
