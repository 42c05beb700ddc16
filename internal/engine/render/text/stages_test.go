package text_test

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"kops.local/kops/internal/engine/render/text"
)

func TestStagesPrintEachChangeOnce(t *testing.T) {
	var b bytes.Buffer
	at := &watch{}
	s := text.NewStages(text.Plain(&b, at.now))
	one := func(of, what string) []text.Reason { return []text.Reason{{Of: of, Text: what}} }
	s.Update("0 of 2", one("nodes i-1", "draining"), one("nodes i-1", "3 pods left"))
	at.pass(5 * time.Second)
	s.Update("0 of 2", one("nodes i-1", "draining"), one("nodes i-1", "2 pods left"))
	s.Tick()
	s.Update("1 of 2", one("nodes i-1", "done"), nil)
	s.Note("a line")
	s.Close()
	if want := "[0s] nodes i-1: draining\n[5s] nodes i-1: done\na line\n"; b.String() != want {
		t.Errorf("got\n%s\nwant\n%s", b.String(), want)
	}
}

func TestStagesAreRedrawnOnATerminal(t *testing.T) {
	var b bytes.Buffer
	at := &watch{}
	at.pass(time.Minute)
	s := text.NewStages(text.Redrawn(&b, at.now, func() int { return 40 }))
	s.Update("0 of 2", nil, []text.Reason{{Of: "nodes i-1", Text: "3 pods left"}})
	at.pass(5 * time.Second)
	s.Tick()
	s.Close()
	got := b.String()
	if !strings.Contains(got, "0 of 2, 0s\n  nodes i-1: 3 pods left\n") || !strings.Contains(got, "0 of 2, 5s\n") || !strings.HasSuffix(got, "\x1b[2A\x1b[J") {
		t.Errorf("got %q", got)
	}
}
