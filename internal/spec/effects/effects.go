// Package effects defines the effect of a change of the spec on running machines: nothing, a live
// change while they serve, a restart of programs in place, or their replacement.
//
// It is a table, and must not know how a change is carried out, nor any platform.
package effects

import "fmt"

// Effect is what it takes to bring machines to their spec. A greater one includes the lesser.
type Effect int

// Effects.
const (
	// None: machines are not affected.
	None Effect = iota
	// Live: it is applied from outside the machines, such as a label that is set.
	Live
	// Restart: nodeup does it on the machine, and restarts the programs that it changed.
	Restart
	// Replace: each machine is replaced with another one.
	Replace
)

// String returns the effect as a word.
func (e Effect) String() string {
	if words := []string{"none", "live", "restart", "replace"}; e >= 0 && int(e) < len(words) {
		return words[e]
	}
	return fmt.Sprintf("effect %d", int(e))
}
