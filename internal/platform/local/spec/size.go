package spec

import (
	"fmt"
	"regexp"
	"strconv"
)

// HostSize is the machine type without limits of its own: it has what the host has.
const HostSize = "host"

var sizes = regexp.MustCompile(`^([1-9][0-9]{0,3})cpu-([1-9][0-9]{0,5})(gib|mib)$`)

// Size parses a machine type of the local cloud: "host", or one such as "2cpu-4gib"
// or "1cpu-1500mib". Zero means what the host has and can spare.
func Size(machineType string) (cpus, memoryMiB int, ok bool) {
	if machineType == HostSize {
		return 0, 0, true
	}
	m := sizes.FindStringSubmatch(machineType)
	if m == nil {
		return 0, 0, false
	}
	cpus, _ = strconv.Atoi(m[1]) // the expression guarantees a number
	memoryMiB, _ = strconv.Atoi(m[2])
	if m[3] == "gib" {
		memoryMiB *= 1024
	}
	return cpus, memoryMiB, true
}

// MachineType returns the machine type from which Size returns these values.
func MachineType(cpus, memoryMiB int) string {
	switch {
	case cpus == 0 && memoryMiB == 0:
		return HostSize
	case memoryMiB%1024 == 0:
		return fmt.Sprintf("%dcpu-%dgib", cpus, memoryMiB/1024)
	}
	return fmt.Sprintf("%dcpu-%dmib", cpus, memoryMiB)
}
