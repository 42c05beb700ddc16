package emulator

import (
	"context"
	"fmt"
	"net/http"
	"slices"

	"k8s.io/apimachinery/pkg/labels"

	"kops.local/kops/internal/standin"
	"kops.local/kops/internal/standin/tree"
)

// The states of servers that last.
const (
	running = "running"
	off     = "off"
)

// maxUserData is the maximum size of user data, in bytes.
const maxUserData = 32 << 10

// secret is what a server was created with and no response contains.
type secret struct {
	userData string
	keys     []string
}

func serverHandlers() map[string]handler {
	const one = " /servers/{id}"
	return map[string]handler{
		"POST /servers": (*call).createServer, "DELETE" + one: (*call).deleteServer,
		"POST" + one + "/actions/poweron":             func(c *call) (object, error) { return c.power("start_server", (*Emulator).boot) },
		"POST" + one + "/actions/poweroff":            func(c *call) (object, error) { return c.power("stop_server", (*Emulator).halt) },
		"POST" + one + "/actions/reset":               func(c *call) (object, error) { return c.power("reset_server", (*Emulator).reset) },
		"POST" + one + "/actions/reboot":              func(c *call) (object, error) { return c.power("reboot_server", (*Emulator).reset) },
		"POST" + one + "/actions/shutdown":            (*call).shutdown,
		"POST" + one + "/actions/attach_to_network":   func(c *call) (object, error) { return c.attachToNetwork("servers") },
		"POST" + one + "/actions/detach_from_network": func(c *call) (object, error) { return c.detachFromNetwork("servers") },
	}
}

// step is an action that follows another one: do is what it does, and end ends it.
type step struct {
	do  func() error
	end func(error)
}

// endWith does the step, unless what it follows has failed.
func (s step) endWith(err error) {
	if err == nil {
		err = s.do()
	}
	s.end(err)
}

// createServer creates a server, which then is attached to its networks and its volumes, and starts.
func (c *call) createServer() (object, error) {
	o, more, err := c.newServer()
	if err != nil {
		return nil, err
	}
	s, err := c.create("servers", o)
	if err != nil {
		return nil, err
	}
	s.More = more
	c.assignPublic(s)
	next, steps := c.connect(s)
	action, end := c.begin("create_server", s)
	started := func(error) {}
	if c.body["start_after_create"] != false {
		var start object
		start, started = c.begin("start_server", s)
		next = append(next, start)
	}
	c.Operate(c.fate, c.bootTime(1), func(context.Context) error { return nil }, func(err error) {
		s.Object["status"] = off
		for _, step := range steps {
			step.endWith(err)
		}
		end(err)
		switch {
		case err != nil:
			started(err)
			c.removeServer(s)
		case c.body["start_after_create"] != false:
			c.boot(s, started)
		}
	})
	out := object{"server": c.shown(s), "action": tree.Clone(action), "next_actions": tree.Clone(next), "root_password": nil}
	if len(more.keys) == 0 {
		out["root_password"] = fmt.Sprintf("%016x", c.Random.Uint64())
	}
	return out, nil
}

// connect applies the firewalls of the request to a new server, and begins the actions that attach it to
// its networks and its volumes.
func (c *call) connect(s *standin.Entry) (next list, steps []step) {
	for _, f := range tree.Subs(c.body, "firewalls") {
		x := c.store.Get("firewalls", f["firewall"])
		x.Object["applied_to"] = append(tree.Items(x.Object, "applied_to"), object{"type": "server", "server": object{"id": s.ID()}})
	}
	then := func(command string, do func() error, on ...*standin.Entry) {
		a, end := c.begin(command, on...)
		next, steps = append(next, a), append(steps, step{do, end})
	}
	next = list{}
	for _, id := range tree.Items(c.body, "networks") {
		n := c.store.Get("networks", id)
		then("attach_to_network", func() error { return c.join(s, n, object{}) }, s, n)
	}
	for _, id := range tree.Items(c.body, "volumes") {
		v := c.store.Get("volumes", id)
		v.Object["server"] = s.ID()
		then("attach_volume", func() error { return nil }, s, v)
	}
	return next, steps
}

// newServer checks a request for a server, and returns the object.
func (c *call) newServer() (object, secret, error) {
	more := secret{userData: tree.Text(c.body, "user_data")}
	kind, err := c.named("server_types", "server_type")
	if err != nil {
		return nil, more, err
	}
	image, err := c.image(kind.Object["architecture"])
	if err != nil {
		return nil, more, err
	}
	if len(more.userData) > maxUserData {
		return nil, more, invalid("user_data", "it has %d bytes; the maximum is %d", len(more.userData), maxUserData)
	}
	tree.SetDefault(c.body, "location", c.store.All("locations")[0].Object["name"])
	location, err := c.named("locations", "location")
	if err != nil {
		return nil, more, err
	}
	if err := c.checkConnections(location.Object); err != nil {
		return nil, more, err
	}
	for _, key := range tree.Texts(c.body, "ssh_keys") {
		k, err := c.lookUp("ssh_keys", "ssh_keys", key)
		if err != nil {
			return nil, more, err
		}
		more.keys = append(more.keys, tree.Text(k.Object, "public_key"))
	}
	if c.exhausted[tree.Text(location.Object, "name")] {
		return nil, more, refusal(http.StatusPreconditionFailed, "resource_unavailable", "error during placement")
	}
	o := object{"status": "initializing", "server_type": kind.Object, "image": image, "location": location.Object, "datacenter": c.center(location.Object), "primary_disk_size": kind.Object["disk"],
		"private_net": list{}, "public_net": object{"floating_ips": list{}, "ipv4": nil, "ipv6": nil}, "protection": object{"delete": false, "rebuild": false}, "placement_group": nil,
		"backup_window": nil, "iso": nil, "locked": false, "rescue_enabled": false, "included_traffic": int64(0), "ingoing_traffic": int64(0), "outgoing_traffic": int64(0)}
	if id := c.body["placement_group"]; id != nil {
		o["placement_group"] = tree.Clone(c.store.Get("placement_groups", id).Object)
	}
	return o, more, nil
}

// checkConnections rejects objects that a server in a location cannot be connected to.
func (c *call) checkConnections(location object) error {
	err := c.store.Check(c.body, standin.Ref{Field: "networks[]", Kind: "networks"}, standin.Ref{Field: "volumes[]", Kind: "volumes"},
		standin.Ref{Field: "firewalls[].firewall", Kind: "firewalls"}, standin.Ref{Field: "placement_group", Kind: "placement_groups"})
	if err != nil {
		return err
	}
	for _, id := range tree.Items(c.body, "volumes") {
		if err := c.checkAttachable(c.store.Get("volumes", id), location); err != nil {
			return err
		}
	}
	for _, id := range tree.Items(c.body, "networks") {
		if _, err := c.freeAddress(location, c.store.Get("networks", id), ""); err != nil {
			return err
		}
	}
	return nil
}

// assignPublic gives a server its public addresses, each a primary IP that is deleted with the server.
func (c *call) assignPublic(s *standin.Entry) {
	net := tree.Sub(c.body, "public_net")
	for _, version := range []string{"ipv4", "ipv6"} {
		if net["enable_"+version] == false {
			continue
		}
		c.addresses++
		address, pointers := fmt.Sprintf("198.18.%d.%d", c.addresses/250, c.addresses%250+1), list{}
		if version == "ipv6" {
			address = fmt.Sprintf("2001:db8:%x::/64", c.addresses)
		}
		p := object{"name": fmt.Sprint("primary_ip-", c.addresses), "type": version, "ip": address, "assignee_id": s.ID(), "assignee_type": "server", "auto_delete": true, "blocked": false,
			"created": stamp(c.Now()), "datacenter": s.Object["datacenter"], "location": s.Object["location"], "dns_ptr": pointers, "labels": object{}, "protection": object{"delete": false}}
		c.permanent("primary_ips", p)
		shown := object{"id": p["id"], "ip": address, "blocked": false, "dns_ptr": pointers}
		if version == "ipv4" {
			shown["dns_ptr"] = "static." + address + ".clients.your-server.de"
		}
		tree.Sub(s.Object, "public_net")[version] = shown
	}
}

// showServer adds what follows from volumes, load balancers and firewalls.
func (e *Emulator) showServer(o object) {
	o["volumes"], o["load_balancers"] = e.using("volumes", "server", o["id"]), e.using("load_balancers", "targets[].server.id", o["id"])
	if x := e.store.Get("servers", o["id"]); x != nil {
		o["locked"] = x.Busy > 0
	}
	if g := tree.Sub(o, "placement_group"); g != nil {
		g["servers"] = e.using("servers", "placement_group.id", g["id"])
	}
	applied := list{}
	for _, f := range e.store.All("firewalls") {
		if slices.ContainsFunc(e.covered(f.Object), func(s *standin.Entry) bool { return s.ID() == o["id"] }) {
			applied = append(applied, object{"id": f.ID(), "status": "applied"})
		}
	}
	tree.Sub(o, "public_net")["firewalls"] = applied
}

// selected returns the servers that a label selector selects.
func (e *Emulator) selected(selector string) []*standin.Entry {
	s, err := labels.Parse(selector)
	if err != nil {
		return nil // it was checked
	}
	return slices.DeleteFunc(e.store.All("servers"), func(x *standin.Entry) bool { return !s.Matches(labelsOf(x.Object)) })
}
