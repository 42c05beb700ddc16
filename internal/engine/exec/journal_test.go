package exec_test

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"kops.local/kops/internal/engine/plan"
)

// ledger is a journal that fails on request.
type ledger struct {
	begin, end error
	log        []string
}

func (j *ledger) Begin(_ context.Context, s plan.Step) error {
	j.log = append(j.log, "begin "+s.Address.Name)
	return j.begin
}

func (j *ledger) End(ctx context.Context, s plan.Step, err error) error {
	j.log = append(j.log, fmt.Sprintf("end %s %v %v", s.Address.Name, err, ctx.Err()))
	return j.end
}

func TestJournal(t *testing.T) {
	runInBubble(t, "intents come before, results after; kept resources are left out", func(t *testing.T, l *lab) {
		k := l.kind("k")
		l.add(item{Name: "kept"})
		l.does["create b"] = func(int) error { return errors.New("bad") }
		j := &ledger{}
		a := node(k, "a")
		x := l.try(t, kinds(k), false, node(k, "kept"), a, node(k, "b", a))
		x.Journal = j
		if err := x.Run(t.Context(), x.plan); err == nil {
			t.Error("no error")
		}
		equal(t, "journal", []string{"begin a", "end a <nil> <nil>", "begin b", "end b bad <nil>"}, j.log)
	})
	runInBubble(t, "a step whose intent cannot be written is not done", func(t *testing.T, l *lab) {
		k := l.kind("k")
		x := l.try(t, kinds(k), false, node(k, "a"))
		x.Journal = &ledger{begin: errors.New("disk full")}
		equal(t, "message", "create k/a: write the journal: disk full", x.Run(t.Context(), x.plan).Error())
		equal(t, "calls", []string(nil), l.calls)
	})
	runInBubble(t, "a result that cannot be written is a failure", func(t *testing.T, l *lab) {
		k := l.kind("k")
		x := l.try(t, kinds(k), false, node(k, "a"))
		x.Journal = &ledger{end: errors.New("disk full")}
		equal(t, "message", "create k/a: write the journal: disk full", x.Run(t.Context(), x.plan).Error())
	})
}
