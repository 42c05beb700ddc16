package spec

import (
	"fmt"
	"regexp"
	"strconv"
)

// HostSize is the machine type that has what the host has.
const HostSize = "host"

var sizes = regexp.MustCompile(`^([1-9][0-9]{0,3})cpu-([1-9][0-9]{0,5})(gib|mib)$`)

// Size reads a machine type of the local cloud: "host", or such as
// "2cpu-4gib" or "1cpu-1500mib". Zero is what the host has and can do without.
func Size(machineType string) (cpus, memoryMiB int, ok bool) {
	if machineType == HostSize {
		return 0, 0, true
	}
	m := sizes.FindStringSubmatch(machineType)
	if m == nil {
		return 0, 0, false
	}
	cpus, _ = strconv.Atoi(m[1]) // the expression has made sure
	memoryMiB, _ = strconv.Atoi(m[2])
	if m[3] == "gib" {
		memoryMiB *= 1024
	}
	return cpus, memoryMiB, true
}

// MachineType writes the machine type that Size reads as these.
func MachineType(cpus, memoryMiB int) string {
	switch {
	case cpus == 0 && memoryMiB == 0:
		return HostSize
	case memoryMiB%1024 == 0:
		return fmt.Sprintf("%dcpu-%dgib", cpus, memoryMiB/1024)
	}
	return fmt.Sprintf("%dcpu-%dmib", cpus, memoryMiB)
}
