package machine

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestShareMemory(t *testing.T) {
	for host, want := range map[int][2]int{ // MiB: a machine without a size of its own, all machines
		24000: {21952, 22976}, 8192: {7168, 7680}, 2048: {1536, 1792}, 512: {256, 384},
	} {
		got, err := shareMemory(fmt.Appendf(nil, "MemTotal:       %d kB\nMemFree:        1 kB\n", host<<10))
		if err != nil || [2]int{got.perMachine, got.total} != want {
			t.Errorf("of %d MiB a machine gets %d and all get %d: %v", host, got.perMachine, got.total, err)
		}
		if m, own := got.limitFor(Spec{}), got.limitFor(Spec{MemoryMiB: 300}); m != want[0] || own != 300 {
			t.Errorf("the limits are %d and %d", m, own)
		}
	}
	if _, err := shareMemory([]byte("MemFree: 1 kB\n")); err == nil {
		t.Error("a table without a total is taken")
	}
}

func TestMeminfoReportsTheSize(t *testing.T) {
	got := string(formatMeminfo([]byte("MemTotal:       24000000 kB\nMemFree:        1 kB\nMemAvailable:   2 kB\nBuffers:           7 kB\nSwapTotal:      9 kB\n"), 2048))
	want := "MemTotal:        2097152 kB\nMemFree:         2097152 kB\nMemAvailable:    2097152 kB\nBuffers:           7 kB\nSwapTotal:             0 kB\n"
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
}
