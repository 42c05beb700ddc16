package emulator

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"
)

// event is something that happens at a given time.
type event struct {
	at time.Time
	do func(context.Context)
}

// schedule schedules an event after a duration.
func (e *Emulator) schedule(d time.Duration, do func(context.Context)) {
	ev := &event{e.now.Add(d), do}
	at, _ := slices.BinarySearchFunc(e.events, ev.at, func(x *event, t time.Time) int {
		if x.at.After(t) {
			return 1
		}
		return -1 // of two at the same time, the older is first
	})
	e.events = slices.Insert(e.events, at, ev)
}

// runDue runs all events that are due.
func (e *Emulator) runDue(ctx context.Context) {
	now := e.o.Now()
	ctx = context.WithoutCancel(ctx) // events continue when the request that runs them is cancelled
	for len(e.events) > 0 && !e.events[0].at.After(now) {
		ev := e.events[0]
		e.events = e.events[1:]
		e.now = ev.at
		ev.do(ctx)
	}
	if now.After(e.now) {
		e.now = now
	}
}

// Run runs events in time until the context is done, even without requests.
func (e *Emulator) Run(ctx context.Context) error {
	for {
		e.mu.Lock()
		e.runDue(ctx)
		e.mu.Unlock()
		if err := e.o.Sleep(ctx, time.Second); err != nil {
			return err
		}
	}
}

// maxWait is how long a wait for an operation blocks, according to the documentation of
// zoneOperations.wait.
const maxWait = 2 * time.Minute

// stamp formats a time as Compute Engine does.
func stamp(t time.Time) string { return t.UTC().Format("2006-01-02T15:04:05.000-07:00") }

// operate starts an operation on an object, and returns it. do runs when the operation ends, and
// its error becomes the operation's; undo, which may be nil, then reverts what the call did
// immediately.
func (c *call) operate(verb, target string, do func(context.Context) error, undo func()) (object, error) {
	x := c.newOperation(verb, target)
	fails := c.fails
	c.schedule(c.o.Latency/2, func(context.Context) {
		x.o["status"], x.o["startTime"] = "RUNNING", stamp(c.now)
	})
	c.schedule(c.o.Latency, func(ctx context.Context) {
		var err error
		if fails != nil {
			err = fails
		} else {
			err = do(ctx)
		}
		if err != nil && undo != nil {
			undo()
		}
		c.finish(x, err)
	})
	return clone(x.o), nil
}

// newOperation returns a new operation, which is not done until finish is called.
func (c *call) newOperation(verb, target string) *entry {
	scope := scopeOf(target)
	name := fmt.Sprintf("operation-%d-%08x", c.now.UnixMilli(), c.random.Uint32())
	path := scope + "/operations/" + name
	o := object{"kind": "compute#operation", "id": c.newID(), "name": name, "operationType": verb, "status": "PENDING", "progress": int64(0),
		"targetLink": link(target), "user": "user@example.com", "insertTime": stamp(c.now), "selfLink": link(path)}
	if t := c.entries[target]; t != nil && t.o["id"] != nil {
		o["targetId"] = t.o["id"]
	}
	switch parts := strings.Split(scope, "/"); parts[2] {
	case "zones", "regions":
		o[strings.TrimSuffix(parts[2], "s")] = link(scope)
	}
	x := &entry{path: path, o: o, created: true}
	c.entries[path] = x
	return x
}

// finish ends an operation.
func (e *Emulator) finish(x *entry, err error) {
	x.o["status"], x.o["progress"], x.o["endTime"] = "DONE", int64(100), stamp(e.now)
	setDefault(x.o, "startTime", stamp(e.now))
	if err != nil {
		r := refusalOf(err)
		x.o["error"] = object{"errors": list{object{"code": r.code(), "message": r.Message}}}
		x.o["httpErrorStatusCode"], x.o["httpErrorMessage"] = int64(r.Status), strings.ToUpper(http.StatusText(r.Status))
	}
}

// operationHandlers returns the handlers for zonal, regional and global operations.
func operationHandlers() map[string]handler {
	out := map[string]handler{}
	for _, scope := range []string{"zone", "region", "global"} {
		prefix := "compute." + scope + "Operations."
		out[prefix+"get"] = func(c *call) (object, error) {
			x, err := c.operation()
			if err != nil {
				return nil, err
			}
			return clone(x.o), nil
		}
		out[prefix+"wait"] = (*call).wait
		out[prefix+"list"] = func(c *call) (object, error) {
			var found []*entry
			for path, x := range c.entries {
				if x.kind == nil && strings.HasPrefix(path, c.scope()+"/operations/") {
					found = append(found, x)
				}
			}
			return c.page(found, c.scope()+"/operations")
		}
		out[prefix+"delete"] = func(c *call) (object, error) {
			x, err := c.operation()
			if err != nil {
				return nil, err
			}
			delete(c.entries, x.path)
			return nil, nil
		}
	}
	return out
}

func (c *call) operation() (*entry, error) {
	path := c.scope() + "/operations/" + c.params["operation"]
	x := c.entries[path]
	if x == nil {
		return nil, notFound(path)
	}
	return x, nil
}

// wait returns an operation when it is done, or its current state after two minutes.
func (c *call) wait() (object, error) {
	x, err := c.operation()
	if err != nil {
		return nil, err
	}
	end := c.now.Add(maxWait)
	for text(x.o, "status") != "DONE" && c.now.Before(end) {
		next := end
		if len(c.events) > 0 && c.events[0].at.Before(end) {
			next = c.events[0].at
		}
		d := max(next.Sub(c.now), time.Millisecond)
		c.mu.Unlock()
		err := c.o.Sleep(c.Context(), d)
		c.mu.Lock()
		if err != nil {
			return nil, refusal(499, "cancelled", "%v", err)
		}
		c.runDue(c.Context())
	}
	return clone(x.o), nil
}
