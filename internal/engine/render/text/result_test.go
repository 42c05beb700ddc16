package text_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"kops.local/kops/internal/engine/exec"
	"kops.local/kops/internal/engine/fault"
	"kops.local/kops/internal/engine/plan"
	"kops.local/kops/internal/engine/render/text"
	"kops.local/kops/internal/test/sim"
)

func TestTheResultOfARunForPrograms(t *testing.T) {
	g, err := sim.ParseGraph("network n\nvolume a size=2\nvolume b\nvolume c\nvolume d")
	if err != nil {
		t.Fatal(err)
	}
	have, err := sim.ParseSnapshot("volume volume-1 name=a size=1\nvolume volume-9 name=old")
	if err != nil {
		t.Fatal(err)
	}
	p, err := plan.Make(g, have, sim.Kinds(), plan.Options{})
	if err != nil {
		t.Fatal(err)
	}
	w := &watch{time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)}
	r := text.NewResult(w.now)
	r.Start(p)
	failure := fault.Wrap(fault.Quota, errors.New("no more"), "ask for more")
	for _, s := range p.Steps {
		event := func(state exec.State, err error, obj any) {
			r.Report(exec.Event{Step: s, State: state, Err: err, Object: obj, Elapsed: 1500 * time.Millisecond})
		}
		switch s.Address.String() {
		case "volume/a":
			event(exec.Started, nil, nil)
			event(exec.Done, nil, s.Have)
		case "network/n":
			event(exec.Started, nil, nil)
			event(exec.Failed, failure, nil)
		case "volume/b":
			event(exec.Started, nil, nil)
			event(exec.Failed, context.Canceled, nil)
		case "volume/c":
			event(exec.Failed, context.Canceled, nil)
		}
	}
	w.pass(2 * time.Second)
	var b bytes.Buffer
	if err := r.JSON(&b, text.Run{Cluster: "c", Version: "1"}, fmt.Errorf("%w: enough", exec.ErrStopped), false); err != nil {
		t.Fatal(err)
	}
	want := `{
  "format": 1,
  "cluster": "c",
  "version": "1",
  "time": "2026-01-02T03:04:05Z",
  "seconds": 2,
  "result": "interrupted",
  "error": {
    "class": "permanent",
    "message": "stopped: enough"
  },
  "summary": {
    "create": 4,
    "modify": 1,
    "replace": 0,
    "delete": 0,
    "deferred": 1,
    "keep": 0,
    "shared": 0
  },
  "outcome": {
    "done": 1,
    "failed": 1,
    "interrupted": 1,
    "not-tried": 2
  },
  "steps": [
    {
      "address": {
        "kind": "network",
        "name": "n"
      },
      "ids": [],
      "action": "create",
      "outcome": "failed",
      "seconds": 1.5,
      "error": {
        "class": "quota",
        "message": "no more",
        "remedy": "ask for more"
      }
    },
`
	if got := b.String(); len(got) < len(want) || got[:len(want)] != want {
		t.Errorf("(-want +got):\n%s", cmp.Diff(want, got))
	}
	if !bytes.Contains(b.Bytes(), []byte(`"volume-1"`)) || !bytes.Contains(b.Bytes(), []byte(`"volume-9"`)) {
		t.Errorf("identities are missing:\n%s", b.String())
	}
}
