package machine

import (
	"bufio"
	"bytes"
	"fmt"
	"os"
	"strings"
)

// memory is the host's memory: its table, and how it is shared.
type memory struct {
	table []byte // as in /proc/meminfo
	// machine is the limit of a machine that names none, and all the limit of all machines of the
	// host together, in MiB.
	machine, all int
}

func hostMemory() (memory, error) {
	table, err := os.ReadFile("/proc/meminfo")
	if err != nil {
		return memory{}, err
	}
	return shareMemory(table)
}

// Bounds of what the host keeps of its memory for itself, in MiB; between them it is 1/16.
const (
	leastMemory = 256
	mostMemory  = 1024
)

// shareMemory leaves the host its part, and as much between the limit of one machine and the limit
// of all, so that a machine that uses too much meets its own limit first.
func shareMemory(table []byte) (memory, error) {
	kib := 0
	for line := range strings.Lines(string(table)) {
		if n, err := fmt.Sscanf(line, "MemTotal: %d kB", &kib); err == nil && n == 1 {
			break
		}
	}
	total := kib >> 10
	if total == 0 {
		return memory{}, fmt.Errorf("/proc/meminfo does not tell how much memory the host has")
	}
	reserve := min(max(total/16, leastMemory), mostMemory, total/4)
	return memory{table, total - 2*reserve, total - reserve}, nil
}

// of is the limit of a machine in MiB.
func (m memory) of(s Spec) int {
	if s.MemoryMiB > 0 {
		return s.MemoryMiB
	}
	return m.machine
}

// meminfo is the host's table of memory as a smaller machine would have it.
// The numbers do not move: they serve to tell the machine's size.
func meminfo(host []byte, mib int) []byte {
	own := map[string]int{"MemTotal": mib << 10, "MemFree": mib << 10, "MemAvailable": mib << 10, "SwapTotal": 0, "SwapFree": 0}
	var out bytes.Buffer
	for lines := bufio.NewScanner(bytes.NewReader(host)); lines.Scan(); {
		name, _, _ := strings.Cut(lines.Text(), ":")
		if kib, ok := own[name]; ok {
			fmt.Fprintf(&out, "%-15s %8d kB\n", name+":", kib)
		} else {
			out.WriteString(lines.Text() + "\n")
		}
	}
	return out.Bytes()
}
