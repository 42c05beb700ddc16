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

func words() []string { return []string{"none", "live", "restart", "replace"} }

// String is the effect in a word.
func (e Effect) String() string {
	if w := words(); e >= 0 && int(e) < len(w) {
		return w[e]
	}
	return fmt.Sprintf("effect %d", int(e))
}

// MarshalText writes the word.
func (e Effect) MarshalText() ([]byte, error) { return []byte(e.String()), nil }

// UnmarshalText reads the word.
func (e *Effect) UnmarshalText(text []byte) error {
	for i, w := range words() {
		if w == string(text) {
			*e = Effect(i)
			return nil
		}
	}
	return fmt.Errorf("%q is no effect: none, live, restart or replace", text)
}
