package spec_test

import (
	"testing"

	"kops.local/kops/internal/platform/local/spec"
)

func TestSize(t *testing.T) {
	for text, want := range map[string][2]int{"host": {}, "2cpu-4gib": {2, 4096}, "1cpu-1500mib": {1, 1500}} {
		if cpus, memory, ok := spec.Size(text); !ok || [2]int{cpus, memory} != want {
			t.Errorf("%s: %d CPUs, %d MiB, %t", text, cpus, memory, ok)
		}
	}
	for _, text := range []string{"", "0cpu-1gib", "t3.medium", "2cpu", "2cpu-4gb", "2cpu-4gib "} {
		if _, _, ok := spec.Size(text); ok {
			t.Errorf("%q is taken for a machine type", text)
		}
	}
}
