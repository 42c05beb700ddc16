package text_test

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"kops.local/kops/internal/engine/render/text"
)

func reset() text.Reason {
	return text.Reason{Of: "APIServer https://127.0.0.1:443", Text: "it cannot be reached: read tcp 127.0.0.1:443: read: connection reset by peer"}
}

func TestWaitingPrintsAReasonOnceWhileItLasts(t *testing.T) {
	var b bytes.Buffer
	at := &watch{}
	w := text.NewWaiting(text.Plain(&b, at.now))
	refused := text.Reason{Of: reset().Of, Text: "nothing listens there: connection refused"}
	group := func(n string) text.Reason {
		return text.Reason{Of: "InstanceGroup nodes", Text: "has " + n + " of 3 machines"}
	}
	for _, look := range [][]text.Reason{
		{refused}, {reset()}, {reset()}, {refused}, {reset()},
		{group("1"), group("1")}, {group("1"), {Of: "Pod kube-system/dns", Text: "is pending"}}, {group("2")}, {}, {}, {group("2")},
	} {
		w.Update(look)
		w.Tick()
		at.pass(10 * time.Second)
	}
	w.Close()
	want := `[0s] waiting for APIServer https://127.0.0.1:443: nothing listens there: connection refused
[10s] waiting for APIServer https://127.0.0.1:443: it cannot be reached: read tcp 127.0.0.1:443: read: connection reset by peer
[50s] waiting for InstanceGroup nodes: has 1 of 3 machines
[1m0s] waiting for Pod kube-system/dns: is pending
[1m10s] waiting for InstanceGroup nodes: has 2 of 3 machines
[1m10s] 1 problem left
[1m20s] ready
[1m40s] waiting for InstanceGroup nodes: has 2 of 3 machines
`
	if d := cmp.Diff(want, b.String()); d != "" {
		t.Error(d)
	}
}

func TestWaitingThatEndsAtOnceIsReady(t *testing.T) {
	var b bytes.Buffer
	text.NewWaiting(text.Plain(&b, new(watch).now)).Update(nil)
	if b.String() != "[0s] ready\n" {
		t.Errorf("got %q", b.String())
	}
}

func TestWaitingIsRedrawnOnATerminal(t *testing.T) {
	var b bytes.Buffer
	at := &watch{}
	w := text.NewWaiting(text.Redrawn(&b, at.now, func() int { return 40 }))
	check := func(want ...string) {
		t.Helper()
		if d := cmp.Diff(strings.Join(want, "\n"), screen(t, b.String())); d != "" {
			t.Error(d)
		}
	}
	at.pass(time.Second)
	w.Tick()
	check("waiting for 1s, looking")
	at.pass(time.Second)
	w.Update([]text.Reason{reset(), {Of: "Node b", Text: "is not ready"}})
	check("waiting for 2s, 2 problems left", "  APIServer https://127.0.0.1:443: it …", "  Node b: is not ready")
	at.pass(time.Minute)
	w.Update(nil)
	check("waiting for 1m2s, ready")
	w.Close()
	check("")
}
