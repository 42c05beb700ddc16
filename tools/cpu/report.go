package main

import (
	"bufio"
	"cmp"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// Seconds of CPU time from which a test is listed, and above which it fails the run; and how many of the slowest tests are listed.
const (
	listed, limit = 20, 60
	slowest       = 20
)

type times struct {
	cpu, clock float64
	dir, test  string
}

// report lists the tests over 20 s of CPU time and the slowest ones. The error names those over 60 s.
func report(file string, out io.Writer) error {
	all, err := read(file)
	if err != nil {
		return err
	}
	var sum float64
	var over []string
	slices.SortFunc(all, func(a, b times) int { return cmp.Compare(b.cpu, a.cpu) })
	for _, t := range all {
		sum += t.cpu
		if t.cpu > listed {
			fmt.Fprintf(out, "%6.1f s of CPU time: %s %s\n", t.cpu, t.dir, t.test)
		}
		if t.cpu > limit {
			over = append(over, t.dir+" "+t.test)
		}
	}
	fmt.Fprintf(out, "%6.1f s of CPU time: all tests that were not cached\n", sum)
	slices.SortFunc(all, func(a, b times) int { return cmp.Compare(b.clock, a.clock) })
	for _, t := range all[:min(slowest, len(all))] {
		fmt.Fprintf(out, "%6.1f s on the clock: %s %s\n", t.clock, t.dir, t.test)
	}
	if over != nil {
		return fmt.Errorf("these tests took more than %d s of CPU time: %q; make them lighter, or let them take turns (internal/test/turns)", limit, over)
	}
	return nil
}

// read returns the times of all tests; for a test that was retried, the longest ones.
func read(file string) ([]times, error) {
	f, err := os.Open(file)
	if err != nil {
		return nil, err
	}
	defer f.Close() // only read
	top, err := os.Getwd()
	if err != nil {
		return nil, err
	}
	byTest := map[string]times{}
	lines := bufio.NewScanner(f)
	for lines.Scan() {
		t, err := parseTimes(lines.Text())
		if err != nil {
			return nil, fmt.Errorf("%s: %w", file, err)
		}
		if below, err := filepath.Rel(top, t.dir); err == nil && filepath.IsLocal(below) {
			t.dir = "./" + below
		}
		if key := t.dir + " " + t.test; byTest[key].cpu <= t.cpu {
			byTest[key] = t
		}
	}
	return slices.Collect(maps.Values(byTest)), lines.Err()
}

func parseTimes(line string) (times, error) {
	fields := strings.Split(line, "\t")
	if len(fields) != 4 {
		return times{}, fmt.Errorf("%q does not have four fields", line)
	}
	cpu, err := strconv.ParseFloat(fields[0], 64)
	clock, cerr := strconv.ParseFloat(fields[1], 64)
	return times{cpu: cpu, clock: clock, dir: fields[2], test: fields[3]}, errors.Join(err, cerr)
}
