package shell

import (
	"io"
	"sync"
	"time"

	"kops.local/kops/internal/engine/render/text"
)

// quiet is how long a command may say nothing on a terminal.
const quiet = 300 * time.Millisecond

// doing is the line that says what a command does while it has nothing to show. It
// comes after a while of silence, and goes when anything else is written.
type doing struct {
	show  *text.Doing
	timer *time.Timer
	mu    sync.Mutex
	over  bool
	ticks func() // ends the redrawing; nil: it has not begun
}

// phases are what the library's phases are to somebody who waits; others have a display of their own.
func phases() map[string]string {
	return map[string]string{"read": "reading the state store", "look up": "looking up the spec's values", "model": "computing the desired state",
		"observe": "reading existing resources", "examine": "reading machines and the API", "members": "waiting until etcd has the members of the spec",
		"apply": "applying the changes", "delete": "deleting", "write": "writing to the state store"}
}

// Terminals returns an output itself, for a program that draws on the terminal.
func Terminals(w io.Writer) io.Writer { return text.Exact(w) }

// busy says what is done from now on; "" for nothing.
func (a *App) busy(what string) {
	if !a.Terminal || a.Verbosity > 0 {
		return
	}
	a.mu.Lock()
	now := a.doing
	a.mu.Unlock()
	if what != "" && now != nil && now.show.Set(what) {
		return
	}
	var next *doing
	if what != "" {
		next = &doing{show: text.NewDoing(a.screen)}
		next.show.Set(what)
		next.timer = time.AfterFunc(quiet, next.begin)
	}
	a.mu.Lock()
	before := a.doing
	a.doing = next
	a.mu.Unlock()
	if before != nil {
		before.end()
	}
}

func (d *doing) begin() {
	d.mu.Lock()
	defer d.mu.Unlock()
	if !d.over {
		d.show.Tick()
		d.ticks = eachSecond(d.show.Tick)
	}
}

func (d *doing) end() {
	d.timer.Stop()
	d.mu.Lock()
	defer d.mu.Unlock()
	d.over = true
	if d.ticks != nil {
		d.ticks()
	}
	d.show.Close()
}
