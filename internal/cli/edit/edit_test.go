package edit

import (
	"bytes"
	"context"
	"strings"
	"testing"

	"kops.local/kops/api"
	"kops.local/kops/internal/cli/shell"
)

// Editors get ^C from the terminal, as this program does. One that goes on must
// not lose what was written.
func TestAnInterruptIsForTheEditor(t *testing.T) {
	group := &api.InstanceGroup{}
	group.Name = "nodes"
	group.Spec.MachineType = "small"
	app := &shell.App{System: shell.System{In: strings.NewReader(""), Out: &bytes.Buffer{}, Err: &bytes.Buffer{},
		Env: func(name string) string { return map[string]string{"EDITOR": "sed -i s/small/large/"}[name] }}}
	ctx, stop := context.WithCancel(t.Context())
	stop()
	stored, err := New(ctx, app, group, func(ctx context.Context, text []byte) error {
		if !strings.Contains(string(text), "machineType: large") {
			t.Errorf("it writes %s", text)
		}
		return ctx.Err()
	})
	if !stored || err != nil {
		t.Errorf("stored %v, %v", stored, err)
	}
}
