// Package effects says what a change of the spec does to machines that run: nothing,
// something that is done to them while they serve, a restart of programs in place, or
// their replacement.
//
// It is a table, and must not know how a change is carried out, nor any platform.
package effects

import "fmt"

// Effect is what it takes to have machines do what the spec says. A greater one includes the lesser.
type Effect int

// Effects.
const (
	// None: machines are not concerned.
	None Effect = iota
	// Live: what runs beside the machines does it, such as a label that is set.
	Live
	// Restart: nodeup does it on the machine, and restarts the programs that it changed.
	Restart
	// Replace: another machine takes the place of each.
	Replace
)

// String is the effect in a word.
func (e Effect) String() string {
	if words := []string{"none", "live", "restart", "replace"}; e >= 0 && int(e) < len(words) {
		return words[e]
	}
	return fmt.Sprintf("effect %d", int(e))
}
