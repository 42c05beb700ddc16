// Package journal records a run: each step's intent before it is carried out, and its result
// afterwards, one JSON line each.
//
// The record is for people and audits; nothing reads it to decide what to do, because the actual
// state is observed instead. It must not know any cloud.
package journal

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"sync"
	"time"

	"kops.local/kops/internal/engine/plan"
)

// Entry is one line of a journal.
type Entry struct {
	Time  time.Time `json:"time"`
	Event string    `json:"event"` // begin, done or failed
	Op    plan.Op   `json:"op"`
	Step  string    `json:"step"` // the address
	Error string    `json:"error,omitempty"`
}

// Journal writes entries to a writer, each with one Write.
type Journal struct {
	mu  sync.Mutex
	out io.Writer
	now func() time.Time
}

// New returns a journal that writes to out.
func New(out io.Writer, now func() time.Time) *Journal { return &Journal{out: out, now: now} }

// Begin records that a step is about to begin.
func (j *Journal) Begin(_ context.Context, s plan.Step) error { return j.write(s, "begin", nil) }

// End records the result of a step.
func (j *Journal) End(_ context.Context, s plan.Step, err error) error {
	if err != nil {
		return j.write(s, "failed", err)
	}
	return j.write(s, "done", nil)
}

func (j *Journal) write(s plan.Step, event string, err error) error {
	e := Entry{Time: j.now().UTC(), Event: event, Op: s.Op, Step: s.Address.String()}
	if err != nil {
		e.Error = err.Error()
	}
	line, err := json.Marshal(e)
	if err != nil {
		return fmt.Errorf("encode a journal entry: %w", err)
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	if _, err := j.out.Write(append(line, '\n')); err != nil {
		return fmt.Errorf("write a journal entry: %w", err)
	}
	return nil
}
