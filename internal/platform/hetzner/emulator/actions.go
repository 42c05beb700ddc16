package emulator

import (
	"context"
	"slices"
	"strconv"
	"strings"
	"time"

	"kops.local/kops/internal/standin"
	"kops.local/kops/internal/standin/tree"
)

// change starts an action that changes the object of a call. The change is tried on a copy first, as one that
// is not possible is rejected at once.
func (c *call) change(name, command string, change func(object) error) (object, error) {
	e, err := c.free(name)
	if err == nil {
		err = change(tree.Clone(e.Object))
	}
	if err != nil {
		return nil, err
	}
	return c.act(command, func() error { return change(e.Object) }, e), nil
}

// act starts an action on objects, which do changes when the action ends, and returns it as a response.
// The objects are locked until then.
func (c *call) act(command string, do func() error, on ...*standin.Entry) object {
	return object{"action": c.start(command, c.o.Latency, func(context.Context) error { return do() }, on...)}
}

// start starts an action that takes a while, and returns it.
func (c *call) start(command string, d time.Duration, do func(context.Context) error, on ...*standin.Entry) object {
	a, end := c.begin(command, on...)
	c.Operate(c.fate, d, do, end)
	return tree.Clone(a)
}

// begin begins an action on objects, and returns the function that ends it.
func (e *Emulator) begin(command string, on ...*standin.Entry) (a object, end func(error)) {
	on = slices.DeleteFunc(on, func(x *standin.Entry) bool { return x == nil })
	about := list{}
	for _, x := range on {
		x.Busy++
		about = append(about, object{"id": x.ID(), "type": resources[x.Kind].singular})
	}
	a = object{"id": e.store.NextID(), "command": command, "status": "running", "progress": int64(0), "started": stamp(e.Now()), "finished": nil, "error": nil, "resources": about}
	_, _ = e.store.Add("actions", a) // actions have no limit
	return a, func(err error) {
		for _, x := range on {
			x.Busy--
		}
		a["status"], a["progress"], a["finished"] = "success", int64(100), stamp(e.Now())
		if err != nil {
			a["status"], a["error"] = "error", object{"code": actionCode(err), "message": err.Error()}
		}
	}
}

// actionCode returns the code of an action's error.
func actionCode(err error) string {
	if code := refusalOf(err).Code; code != "server_error" {
		return code
	}
	return "action_failed"
}

// listActions returns the actions with the requested IDs.
func (c *call) listActions() (object, error) {
	out := list{}
	for _, a := range c.store.Read("actions") {
		if slices.Contains(c.r.URL.Query()["id"], strconv.FormatInt(tree.Number(a, "id"), 10)) {
			out = append(out, a)
		}
	}
	return object{"actions": out}, nil
}

// actionsOf returns the actions on the object of a call, or on all objects of its kind.
func (c *call) actionsOf(name string) (object, error) {
	var id any
	if strings.Contains(c.operation.ID, "{") {
		e, err := c.find(name)
		if err != nil {
			return nil, err
		}
		id = e.ID()
	}
	var out []object
	for _, a := range c.store.Read("actions") {
		if slices.ContainsFunc(tree.Subs(a, "resources"), func(o object) bool {
			return o["type"] == resources[name].singular && (id == nil || o["id"] == id)
		}) {
			out = append(out, a)
		}
	}
	return c.page("actions", out)
}
