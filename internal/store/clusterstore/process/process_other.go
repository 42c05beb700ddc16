//go:build !linux

package process

// Self is empty: this system has no name for a process that another could check.
func Self() string { return "" }

// Gone is false: nothing is known.
func Gone(string) bool { return false }
