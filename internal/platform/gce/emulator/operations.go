package emulator

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"time"

	"kops.local/kops/internal/standin/tree"
)

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
	c.Schedule(c.o.Latency/2, func(context.Context) {
		x.o["status"], x.o["startTime"] = "RUNNING", stamp(c.Now())
	})
	c.Operate(c.fate, c.o.Latency, do, func(err error) {
		if err != nil && undo != nil {
			undo()
		}
		c.finish(x, err)
	})
	return tree.Clone(x.o), nil
}

// newOperation returns a new operation, which is not done until finish is called.
func (c *call) newOperation(verb, target string) *entry {
	scope := scopeOf(target)
	name := fmt.Sprintf("operation-%d-%08x", c.Now().UnixMilli(), c.Random.Uint32())
	path := scope + "/operations/" + name
	o := object{"kind": "compute#operation", "id": c.newID(), "name": name, "operationType": verb, "status": "PENDING", "progress": int64(0),
		"targetLink": link(target), "user": "user@example.com", "insertTime": stamp(c.Now()), "selfLink": link(path)}
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
	x.o["status"], x.o["progress"], x.o["endTime"] = "DONE", int64(100), stamp(e.Now())
	tree.SetDefault(x.o, "startTime", stamp(e.Now()))
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
			return tree.Clone(x.o), nil
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
	if err := c.Wait(c.Context(), maxWait, func() bool { return tree.Text(x.o, "status") == "DONE" }); err != nil {
		return nil, refusal(499, "cancelled", "%v", err)
	}
	return tree.Clone(x.o), nil
}
