package machine

import (
	"bufio"
	"bytes"
	"fmt"
	"os"
	"strings"
)

// memory is the host's memory: its meminfo, and how it is shared.
type memory struct {
	table []byte // as in /proc/meminfo
	// perMachine is the limit of a machine that does not set one, and total the limit of all machines
	// of the host together, in MiB.
	perMachine, total int
}

func hostMemory() (memory, error) {
	table, err := os.ReadFile("/proc/meminfo")
	if err != nil {
		return memory{}, err
	}
	return shareMemory(table)
}

// Limits of the memory that the host keeps for itself, in MiB; between them it is 1/16.
const (
	minMemory = 256
	maxMemory = 1024
)

// shareMemory reserves the host's part, and as much again between the limit of one machine and the
// limit of all, so that a machine that uses too much reaches its own limit first.
func shareMemory(table []byte) (memory, error) {
	kib := 0
	for line := range strings.Lines(string(table)) {
		if n, err := fmt.Sscanf(line, "MemTotal: %d kB", &kib); err == nil && n == 1 {
			break
		}
	}
	total := kib >> 10
	if total == 0 {
		return memory{}, fmt.Errorf("/proc/meminfo does not report the memory of the host")
	}
	reserve := min(max(total/16, minMemory), maxMemory, total/4)
	return memory{table, total - 2*reserve, total - reserve}, nil
}

// limitFor returns the memory limit of a machine in MiB.
func (m memory) limitFor(s Spec) int {
	if s.MemoryMiB > 0 {
		return s.MemoryMiB
	}
	return m.perMachine
}

// formatMeminfo returns the host's /proc/meminfo as it would be on a smaller machine. The
// numbers are static: they only show the machine's size.
func formatMeminfo(host []byte, mib int) []byte {
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
