package shell

import (
	"io"
	"sync"
	"time"

	"kops.local/kops/internal/engine/render/text"
)

// quiet is how long a command may be silent on a terminal.
const quiet = 300 * time.Millisecond

// doing is the line that shows what a command is doing while it has no other output. It appears
// after a period of silence, and is removed when anything else is written.
type doing struct {
	show    *text.Doing
	timer   *time.Timer
	mu      sync.Mutex
	stopped bool
	ticks   func() // stops the redrawing; nil if it has not begun
}

// phases describes the library's phases to a waiting user; other phases have a display of their
// own.
func phases() map[string]string {
	return map[string]string{"read": "reading the state store", "look up": "looking up the spec's values", "model": "computing the desired state",
		"observe": "reading existing resources", "examine": "reading machines and the API", "members": "waiting until etcd has the members of the spec",
		"apply": "applying the changes", "delete": "deleting", "write": "writing to the state store"}
}

// Terminals returns the underlying output, for a program that draws on the terminal.
func Terminals(w io.Writer) io.Writer { return text.Exact(w) }

// busy sets what is being done from now on; "" for nothing.
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
	if !d.stopped {
		d.show.Tick()
		d.ticks = eachSecond(d.show.Tick)
	}
}

func (d *doing) end() {
	d.timer.Stop()
	d.mu.Lock()
	defer d.mu.Unlock()
	d.stopped = true
	if d.ticks != nil {
		d.ticks()
	}
	d.show.Close()
}
