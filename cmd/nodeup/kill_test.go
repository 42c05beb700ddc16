package main

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// child is set when this program runs as nodeup itself.
const child = "NODEUP_TEST_CHILD"

func TestMain(m *testing.M) {
	if os.Getenv(child) != "" {
		main()
	}
	os.Exit(m.Run())
}

// command returns nodeup as a separate process.
func (p *testMachine) command(args ...string) *exec.Cmd {
	c := exec.CommandContext(p.Context(), os.Args[0], append([]string{"--conf=" + p.conf, "--root=" + p.root, "--retries=0"}, args...)...)
	c.Env = append(os.Environ(), child+"=yes")
	return c
}

// partialFiles lists the partially written files of a killed run.
func (p *testMachine) partialFiles() (out []string) {
	p.Helper()
	err := filepath.WalkDir(p.root, func(at string, d fs.DirEntry, err error) error {
		if err == nil && (strings.HasSuffix(at, ".kops-new") || strings.HasSuffix(at, ".new")) {
			out = append(out, strings.TrimPrefix(at, p.root))
		}
		return err
	})
	if err != nil {
		p.Fatal(err)
	}
	return out
}

func TestAKilledRunIsFinishedByTheNext(t *testing.T) {
	took := time.Hour
	for range 2 { // the first run has cold caches
		whole := newTestMachine(t)
		begin := time.Now()
		if out, err := whole.command().CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		took = min(took, time.Since(begin))
	}
	const kills = 25
	p := newTestMachine(t)
	killed, inside, halves := 0, 0, 0
	reported := filepath.Join(p.root, "var/log/kops-boot.json")
	for n := range kills {
		if n%5 == 0 { // nearly as in the beginning
			for _, dir := range []string{"etc/systemd", "etc/logrotate.d", "srv", "var/cache", "usr/local"} {
				if err := os.RemoveAll(filepath.Join(p.root, dir)); err != nil {
					t.Fatal(err)
				}
			}
		}
		if err := os.RemoveAll(reported); err != nil {
			t.Fatal(err)
		}
		c := p.command()
		if err := c.Start(); err != nil {
			t.Fatal(err)
		}
		time.Sleep(took * time.Duration(n+1) / kills) // the test varies the time of the kill
		if err := c.Process.Kill(); err != nil && !errors.Is(err, os.ErrProcessDone) {
			t.Fatal(err)
		}
		if err := c.Wait(); err != nil {
			killed++
			if _, err := os.Stat(reported); err == nil && !p.report().Done {
				inside++
			}
		}
		halves += len(p.partialFiles())
	}
	if inside == 0 { // their number depends on the load of the machine
		t.Errorf("none of %d runs was killed between its first report and its last", kills)
	}
	t.Logf("a run takes %s; %d of %d were killed, %d of them in their midst, which left %d files half-written", took, killed, kills, inside, halves)
	if out, err := p.command().CombinedOutput(); err != nil {
		t.Fatalf("the next run: %v\n%s", err, out)
	}
	if left := p.partialFiles(); len(left) > 0 {
		t.Errorf("half-written after the next run: %v", left)
	}
	if out, err := p.command("--dry-run").CombinedOutput(); err != nil || !bytes.HasPrefix(out, []byte("The machine is up to date")) {
		t.Errorf("after it: %v\n%s", err, out)
	}
	if r := p.report(); !r.Done || r.Broken() != nil {
		t.Errorf("report\n%s", r.String())
	}
}

func TestTwoRunsDoNotMeet(t *testing.T) {
	p := newTestMachine(t)
	write(t, filepath.Join(p.root, "run/nodeup.lock"), nil)
	held, err := os.Open(filepath.Join(p.root, "run/nodeup.lock"))
	if err != nil {
		t.Fatal(err)
	}
	if err := syscall.Flock(int(held.Fd()), syscall.LOCK_EX); err != nil {
		t.Fatal(err)
	}
	out, err := p.command().CombinedOutput()
	want := "Error: another nodeup is changing the machine: lock " + p.root + "/run/nodeup.lock: resource temporarily unavailable\nwait until it ends; to follow it: journalctl --follow --unit=kops-configuration.service\n"
	if err == nil || string(out) != want {
		t.Errorf("%v\n%s\nwant\n%s", err, out, want)
	}
	if out, err := p.command("--dry-run").CombinedOutput(); err != nil {
		t.Errorf("a dry run: %v\n%s", err, out)
	}
	if err := held.Close(); err != nil {
		t.Fatal(err)
	}
	if out, err := p.command().CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}
