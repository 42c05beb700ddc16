package host_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"kops.local/kops/internal/node/host"
)

// A module that the kernel already has is not searched for: a container may not have its file.
func TestAModuleThatTheKernelHasIsNotLoaded(t *testing.T) {
	m := machine(t)
	if err := os.MkdirAll(filepath.Join(m.Root, "sys/module/br_netfilter"), 0o755); err != nil {
		t.Fatal(err)
	}
	var asked, warned []string
	m.Command = func(_ context.Context, name string, args ...string) ([]byte, error) {
		asked = append(asked, name+" "+args[0])
		return nil, errors.New("not found in /lib/modules")
	}
	m.Warn = func(text string) { warned = append(warned, text) }
	for _, name := range []string{"br-netfilter", "wireguard"} {
		if err := host.Modules.Create(t.Context(), m, &host.Module{Name: name}); err != nil {
			t.Fatal(err)
		}
		if _, err := os.Stat(filepath.Join(m.Root, "etc/modules-load.d/kops-"+name+".conf")); err != nil {
			t.Error(err)
		}
	}
	if want := []string{"modprobe wireguard"}; !slices.Equal(asked, want) || len(warned) != 1 {
		t.Errorf("%q was run, want %q; warnings %q", asked, want, warned)
	}
}
