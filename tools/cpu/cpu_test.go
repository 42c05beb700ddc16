package main

import (
	"bytes"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"
)

// TestMain makes the test program act as cpu when requested.
func TestMain(m *testing.M) {
	if os.Getenv("RUN_CPU") != "" {
		main()
		return
	}
	os.Exit(m.Run())
}

// goTest runs tests of the sample, measured if file is not empty, and returns their
// output, without the parts that vary, and the exit status.
func goTest(t *testing.T, file string, args ...string) (string, int) {
	t.Helper()
	cmd := exec.Command("go", append([]string{"test", "-vet=off"}, args...)...)
	if file != "" {
		program, err := os.Executable()
		if err != nil {
			t.Fatal(err)
		}
		cmd.Args = append(cmd.Args, "-exec", program)
		cmd.Env = append(os.Environ(), "RUN_CPU=1", "KOPS_CPU="+file)
	}
	cmd.Args = append(cmd.Args, "./testdata/sample")
	out, err := cmd.CombinedOutput()
	if cmd.ProcessState == nil {
		t.Fatal(err)
	}
	varies := regexp.MustCompile(`\(cached\)|\d+\.\d+s|"(Time|Elapsed)":[^,}]*|0x[0-9a-f]+|goroutine \d+|(?m)^goroutine [^!]*`)
	return varies.ReplaceAllString(string(out), "…"), cmd.ProcessState.ExitCode()
}

func TestOutputIsUnchanged(t *testing.T) {
	for _, args := range []string{
		"-run ^Test(Passes|Skips)$", "-run ^TestFails$", "-run ^TestFailsInParallel$", "-run ^TestPanics$", "-run ^Test(Passes|Fails)$ -count 2",
		"-v -run ^Test(Passes|Skips|Fails)$", "-json -run ^Test(Passes|Fails)$", "-list .*", "-run ^TestSleeps$ -timeout 200ms", "-run ^TestNone$",
	} {
		t.Run(args, func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "cpu")
			want, status := goTest(t, "", strings.Fields(args)...)
			if got, code := goTest(t, file, strings.Fields(args)...); got != want || code != status {
				t.Errorf("exit %d, not %d:\n%s\ninstead of:\n%s", code, status, got, want)
			}
		})
	}
}

func TestResultsAreCached(t *testing.T) {
	file := filepath.Join(t.TempDir(), "cpu")
	goTest(t, file, "-run", "^TestPasses$")
	if err := os.RemoveAll(file); err != nil {
		t.Fatal(err)
	}
	goTest(t, file, "-run", "^TestPasses$")
	if _, err := os.Stat(file); err == nil {
		t.Error("the tests ran again")
	}
}

func TestTimes(t *testing.T) {
	file := filepath.Join(t.TempDir(), "cpu")
	if out, code := goTest(t, file, "-count", "1", "-run", "^Test(Burns|Sleeps|ChildBurns|BurnsInParallel|WaitsInParallel)$"); code != 0 {
		t.Fatal(out)
	}
	all, err := read(file)
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]times{}
	for _, x := range all {
		got[x.test] = x
	}
	for test, want := range map[string]struct{ least, most float64 }{
		"TestBurns": {.3, .9}, "TestSleeps": {0, .4}, "TestChildBurns": {.1, 10},
		"TestBurnsInParallel": {.02, .8}, "TestWaitsInParallel": {.02, .8}, // half each
	} {
		if x := got[test]; x.cpu < want.least || x.cpu > want.most || x.dir != "./testdata/sample" {
			t.Errorf("%s took %+v, not %v s of CPU time", test, x, want)
		}
	}
	if x := got["TestWaitsInParallel"]; x.clock < .8 {
		t.Errorf("a test that waits for a second took %+v", x)
	}
}

func TestShares(t *testing.T) {
	var spent time.Duration
	now := time.Unix(0, 0)
	a := newAccount(func() time.Duration { return spent }, func() time.Time { return now })
	after := func(clock, cpu time.Duration) { now, spent = now.Add(clock), spent+cpu }
	after(time.Second, 1)
	a.event("RUN", "A")
	after(3*time.Second, 10)
	a.event("RUN", "A/sub")
	a.event("PAUSE", "A/sub")
	a.event("PAUSE", "A")
	a.event("RUN", "B")
	after(time.Second, 5)
	a.event("PASS", "B")
	a.event("CONT", "A")
	a.event("RUN", "C")
	a.event("ATTR", "C")
	after(2*time.Second, 8)
	a.event("PASS", "A")
	after(pause/2, 1) // too early to measure: C, which runs four times as long as D, gets four times as much
	a.event("RUN", "D")
	after(pause/4, 1)
	a.event("PASS", "D")
	after(pause/4, 6)
	a.end(spent + 2)
	if want := map[string]time.Duration{outside: 1, "A": 10 + 4, "B": 5, "C": 4 + 8, "D": 2}; !maps.Equal(a.cpu, want) {
		t.Errorf("CPU time: %v, not %v", a.cpu, want)
	}
	if clock := map[string]time.Duration{"A": 5 * time.Second, "B": time.Second, "C": 2*time.Second + pause, "D": pause / 4}; !maps.Equal(a.clock, clock) {
		t.Errorf("time on the clock: %v, not %v", a.clock, clock)
	}
}

func TestReport(t *testing.T) {
	for text, want := range map[string]struct{ out, err string }{
		"59.5\t3\t/x\tTestA\n20\t4\t/x\tTestB\n": {out: "TestA\n"},
		"3\t1\t/x\tTestA\n61\t1\t/x\tTestA\n":    {"TestA\n", `took more than 60 s of CPU time: ["/x TestA"]`},
		"nonsense\n":                             {err: "four fields"},
	} {
		file := filepath.Join(t.TempDir(), "cpu")
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		var out bytes.Buffer
		err := report(file, &out)
		if (err == nil) != (want.err == "") || err != nil && !strings.Contains(err.Error(), want.err) {
			t.Errorf("%q: %v, not %q", text, err, want.err)
		}
		first, _, _ := strings.Cut(out.String(), " s of CPU time: all")
		if strings.Count(first, "TestA") != strings.Count(want.out, "TestA") || strings.Contains(first, "TestB") {
			t.Errorf("%q is reported as\n%s", text, &out)
		}
	}
}
