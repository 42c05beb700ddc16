package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

const (
	// outside is the name for time spent while no test runs, as in TestMain.
	outside = "outside-tests"
	// pause is the minimum time between two measurements. Each reads the state of all processes.
	pause = 100 * time.Millisecond
)

// account distributes CPU time over tests. Tests that run in parallel share a process, so the time
// spent between two measurements is divided among the tests that ran in between, by how long each ran.
type account struct {
	spent      func() time.Duration // CPU time since the start
	now        func() time.Time
	last       time.Duration
	time       time.Time
	running    map[string]bool
	meanwhile  map[string]time.Duration // how long tests ran since the last measurement, until seen
	lastEvent  time.Time                // the last event
	cpu, clock map[string]time.Duration
}

func newAccount(spent func() time.Duration, now func() time.Time) *account {
	return &account{spent: spent, now: now, time: now(), lastEvent: now(), running: map[string]bool{}, meanwhile: map[string]time.Duration{},
		cpu: map[string]time.Duration{}, clock: map[string]time.Duration{}}
}

// event records that a test starts or stops: RUN, CONT, PAUSE, PASS, FAIL or SKIP. Only
// top-level tests are counted; their subtests are part of them.
func (a *account) event(what, test string) {
	if strings.Contains(test, "/") {
		return
	}
	now := a.now()
	a.recordRunning(now)
	if now.Sub(a.time) >= pause {
		if spent := a.spent(); spent > 0 { // 0 once the program has exited; end distributes the rest then
			a.distribute(spent)
		}
	}
	switch what {
	case "RUN", "CONT":
		a.running[test] = true
	case "PAUSE", "PASS", "FAIL", "SKIP":
		delete(a.running, test)
	}
}

// recordRunning records that the running tests have run until now.
func (a *account) recordRunning(now time.Time) {
	for test := range a.running {
		a.meanwhile[test] += now.Sub(a.lastEvent)
		a.clock[test] += now.Sub(a.lastEvent)
	}
	a.lastEvent = now
}

// distribute distributes the time spent since the last measurement.
func (a *account) distribute(spent time.Duration) {
	var all time.Duration
	for _, d := range a.meanwhile {
		all += d
	}
	if all == 0 {
		all, a.meanwhile = 1, map[string]time.Duration{outside: 1}
	}
	used := max(0, spent-a.last) // it decreases when a process exits that no process waits for
	for test, d := range a.meanwhile {
		a.cpu[test] += time.Duration(float64(used) * float64(d) / float64(all))
	}
	a.last, a.time = spent, a.now()
	clear(a.meanwhile)
}

// end distributes the rest of the total time.
func (a *account) end(total time.Duration) {
	a.recordRunning(a.now())
	a.distribute(total)
}

// write appends a line per test to a file: CPU seconds, elapsed seconds, folder, test.
func (a *account) write(file string) error {
	dir, err := os.Getwd() // the package's folder
	if err != nil {
		return err
	}
	var lines bytes.Buffer
	for test, cpu := range a.cpu {
		fmt.Fprintf(&lines, "%.2f\t%.2f\t%s\t%s\n", cpu.Seconds(), a.clock[test].Seconds(), dir, test)
	}
	f, err := os.OpenFile(file, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	if _, err := f.Write(lines.Bytes()); err != nil {
		f.Close() // the error of writing is the one that counts
		return err
	}
	return f.Close()
}

// tick is the unit of times in /proc, on every architecture.
const tick = 10 * time.Millisecond

// treeTime returns the CPU time of a process and its descendants, running or waited for; 0
// if there is no such process.
func treeTime(root int) time.Duration {
	files, _ := filepath.Glob("/proc/[0-9]*/stat") // the pattern is valid
	children, ticks := map[int][]int{}, map[int]int{}
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			continue // it has just exited
		}
		// After the name, which may contain anything: state, parent, and from the 12th: utime, stime, cutime, cstime.
		fields := strings.Fields(string(data[bytes.LastIndexByte(data, ')')+1:]))
		pid, _ := strconv.Atoi(filepath.Base(filepath.Dir(file)))
		parent, _ := strconv.Atoi(fields[1])
		children[parent] = append(children[parent], pid)
		for _, field := range fields[11:15] {
			n, _ := strconv.Atoi(field)
			ticks[pid] += n
		}
	}
	sum := 0
	for tree := []int{root}; len(tree) > 0; {
		sum += ticks[tree[0]]
		tree = append(tree[1:], children[tree[0]]...)
	}
	return time.Duration(sum) * tick
}
