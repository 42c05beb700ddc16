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
	return map[string]string{"read": "reading the state store", "look up": "looking up what the spec names", "model": "working out what is needed",
		"observe": "looking at what exists", "examine": "asking the machines and the API", "members": "waiting until the members of etcd are those of the spec"}
}

// stream is an output that takes the line of doing off the terminal before each write.
type stream struct {
	io.Writer
	app *App
}

func (s stream) Write(data []byte) (int, error) {
	s.app.idle()
	return s.Writer.Write(data)
}

// Watch has the program say what it does, where it can on a terminal.
func (a *App) Watch() {
	if a.Terminal {
		a.screen = a.Err
		a.Out, a.Err = stream{a.Out, a}, stream{a.Err, a}
	}
}

// Terminals is an output itself, as a program that draws on the terminal needs it.
func Terminals(w io.Writer) io.Writer {
	if s, ok := w.(stream); ok {
		s.app.idle()
		return s.Writer
	}
	return w
}

// busy says what is done from now on; "" for nothing.
func (a *App) busy(what string) {
	if what == "" || a.screen == nil || !a.live() {
		a.idle()
		return
	}
	if d := a.atWork(); d != nil {
		d.show.Set(what)
	}
}

// atWork returns the line that says what is done, a new one where there is none;
// nil while something else is redrawn.
func (a *App) atWork() *doing {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.shown != nil {
		return nil
	}
	if a.doing == nil {
		d := &doing{show: text.DoingLive(a.screen, a.Now, a.width)}
		d.timer = time.AfterFunc(quiet, d.begin)
		a.doing = d
	}
	return a.doing
}

// idle takes the line away.
func (a *App) idle() {
	a.mu.Lock()
	d := a.doing
	a.doing = nil
	a.mu.Unlock()
	if d != nil {
		d.end()
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
