package main

import (
	"bytes"
	"io"
	"regexp"
	"strings"
)

// marker begins each line of the testing framework in the output for test2json.
const marker = '\x16'

var framing = regexp.MustCompile(`^\x16?(?:=== (\w+)|--- (\w+):) +(\S*)`)

// parse parses a line that reports that a test starts, stops or ends.
func parse(line []byte) (what, test string, ok bool) {
	m := framing.FindSubmatch(line)
	if m == nil {
		return "", "", false
	}
	return string(m[1]) + string(m[2]), string(m[3]), true
}

// watcher passes verbose output through, and reports the events in it.
type watcher struct {
	out   io.Writer
	event func(what, test string)
	line  []byte
}

func (w *watcher) Write(p []byte) (int, error) {
	w.line = append(w.line, p...)
	for {
		line, rest, whole := bytes.Cut(w.line, []byte("\n"))
		if !whole {
			return w.out.Write(p)
		}
		if what, test, ok := parse(line); ok {
			w.event(what, test)
		}
		w.line = rest
	}
}

func (w *watcher) Close() error { return nil }

// quietWriter converts output for test2json to non-verbose output: what a test logs
// follows its FAIL, below its parent's, and a passing test prints nothing. Lines that
// begin with four spaces count as logged; all others are printed by the test itself.
type quietWriter struct {
	out   io.Writer
	event func(what, test string)
	line  []byte
	test  string // of the following lines
	logs  map[string][]byte
}

func (q *quietWriter) Write(p []byte) (int, error) {
	q.line = append(q.line, p...)
	for {
		n := bytes.IndexByte(q.line, '\n') + 1
		if m := bytes.LastIndexByte(q.line[:n], marker); m > 0 {
			n = m // after output of a test that ends without a newline
		}
		if n == 0 {
			return len(p), nil
		}
		if err := q.take(q.line[:n]); err != nil {
			return 0, err
		}
		q.line = q.line[n:]
	}
}

func (q *quietWriter) Close() error {
	_, err := q.out.Write(q.line)
	return err
}

func (q *quietWriter) take(line []byte) error {
	what, test, ok := parse(line)
	switch {
	case !ok && q.logs[q.test] != nil && bytes.HasPrefix(line, []byte("    ")):
		q.logs[q.test] = append(q.logs[q.test], line...)
		return nil
	case !ok || line[0] != marker:
		_, err := q.out.Write(bytes.TrimPrefix(line, []byte{marker}))
		return err
	}
	q.event(what, test)
	q.test = test
	switch what {
	case "RUN":
		if q.logs == nil {
			q.logs = map[string][]byte{}
		}
		q.logs[test] = []byte{}
	case "PASS", "SKIP":
		delete(q.logs, test)
	case "FAIL":
		return q.fail(test, line[1:])
	}
	return nil
}

// fail prints a failed test: within its parent, or at once if it has none.
func (q *quietWriter) fail(test string, line []byte) error {
	text := append(bytes.Clone(line), q.logs[test]...)
	q.logs[test] = []byte{}
	for parent := test; strings.Contains(parent, "/"); {
		parent = parent[:strings.LastIndexByte(parent, '/')]
		if logs, ok := q.logs[parent]; ok {
			for l := range bytes.Lines(text) {
				logs = append(append(logs, "    "...), l...)
			}
			q.logs[parent] = logs
			return nil
		}
	}
	_, err := q.out.Write(text)
	return err
}
