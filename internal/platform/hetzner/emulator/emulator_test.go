package emulator_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"kops.local/kops/internal/platform/hetzner/emulator"
	"kops.local/kops/internal/platform/hetzner/emulator/emulatortest"
	"kops.local/kops/internal/standin"
	"kops.local/kops/internal/standin/tree"
)

type (
	object = tree.Object
	list   = tree.List
)

// cloud is an emulated project with a client.
type cloud struct {
	*testing.T
	*emulatortest.Cloud
	token string
}

func play(t *testing.T, o emulator.Options) *cloud {
	t.Helper()
	return &cloud{t, emulatortest.Start(t, o), "token"}
}

// answer is a response.
type answer struct {
	status int
	header http.Header
	body   object
}

// send sends a request.
func (c *cloud) send(method, path string, body any) answer {
	c.Helper()
	var text io.Reader
	switch x := body.(type) {
	case nil:
	case string:
		text = strings.NewReader(x)
	default:
		raw, err := json.Marshal(body)
		if err != nil {
			c.Fatal(err)
		}
		text = bytes.NewReader(raw)
	}
	q, err := http.NewRequestWithContext(c.Context(), method, c.URL+path, text)
	if err != nil {
		c.Fatal(err)
	}
	if c.token != "" {
		q.Header.Set("Authorization", "Bearer "+c.token)
	}
	r, err := c.HTTP.Do(q)
	if err != nil {
		return answer{}
	}
	defer r.Body.Close()
	raw, err := io.ReadAll(r.Body)
	if err != nil {
		c.Fatal(err)
	}
	v, err := tree.Decode(raw)
	if err != nil {
		c.Fatalf("%s %s: %s: %v", method, path, raw, err)
	}
	out, _ := tree.Plain(v).(object)
	return answer{r.StatusCode, r.Header, out}
}

// call sends a request that succeeds, and returns the response.
func (c *cloud) call(method, path string, body any) object {
	c.Helper()
	a := c.send(method, path, body)
	if a.status/100 != 2 {
		c.Fatalf("%s %s: %d %v", method, path, a.status, a.body)
	}
	return a.body
}

// refused sends a request that fails with a status and a code; words are in its message or its details.
func (c *cloud) refused(status int, code, words, method, path string, body any) {
	c.Helper()
	a := c.send(method, path, body)
	e := tree.Sub(a.body, "error")
	if a.status != status || e["code"] != code || !strings.Contains(fmt.Sprint(e), words) {
		c.Errorf("%s %s %v: got %d %v, want %d %s with %q", method, path, body, a.status, e, status, code, words)
	}
}

// wait turns the clock.
func (c *cloud) wait(d time.Duration) {
	c.Helper()
	if err := c.Sleep(c.Context(), d); err != nil {
		c.Fatal(err)
	}
}

// made creates an object, waits until its actions have ended, and returns its ID.
func (c *cloud) made(path string, body object) int64 {
	c.Helper()
	out := c.call("POST", path, body)
	c.wait(time.Minute)
	for key, v := range out {
		if o, ok := v.(object); ok && key != "action" {
			return tree.Number(o, "id")
		}
	}
	c.Fatalf("POST %s returns %v", path, out)
	return 0
}

// get returns an object.
func (c *cloud) get(path string, id int64) object {
	c.Helper()
	for _, v := range c.call("GET", fmt.Sprintf("%s/%d", path, id), nil) {
		return v.(object)
	}
	return nil
}

// done runs an action of an object, and waits for its end; want is the code of its error.
func (c *cloud) done(path string, id int64, action string, body any, want string) {
	c.Helper()
	out := c.call("POST", fmt.Sprintf("%s/%d/actions/%s", path, id, action), body)
	a := tree.Sub(out, "action")
	if all := tree.Subs(out, "actions"); len(all) == 1 {
		a = all[0]
	}
	if a["status"] != "running" {
		c.Errorf("%s: %v", action, a)
	}
	c.wait(time.Minute)
	if got := c.action(tree.Number(a, "id")); got != want {
		c.Errorf("%s ended with %q, not %q", action, got, want)
	}
}

// action returns how an action ended: running, "", or the code of its error.
func (c *cloud) action(id int64) string {
	c.Helper()
	all := tree.Subs(c.call("GET", fmt.Sprint("/actions?id=", id), nil), "actions")
	if len(all) != 1 {
		c.Fatalf("the action %d is %v", id, all)
	}
	switch all[0]["status"] {
	case "success":
		return ""
	case "error":
		return tree.Text(tree.Sub(all[0], "error"), "code")
	}
	return tree.Text(all[0], "status")
}

// names lists the names of objects.
func (c *cloud) names(path string) string {
	c.Helper()
	out := c.call("GET", path, nil)
	var names []string
	for key, v := range out {
		if key != "meta" {
			for _, o := range v.(list) {
				names = append(names, tree.Text(o.(object), "name"))
			}
		}
	}
	return strings.Join(names, " ")
}

// network creates the network n with a subnet.
func (c *cloud) network() int64 {
	c.Helper()
	return c.made("/networks", object{"name": "n", "ip_range": "10.0.0.0/16", "subnets": list{object{"type": "cloud", "network_zone": "eu-central", "ip_range": "10.0.0.0/16"}}, "labels": object{"a/b": "c"}})
}

// server creates a server; more are further fields of the request.
func (c *cloud) server(name string, more object) int64 {
	c.Helper()
	return c.made("/servers", tree.MergePatch(server(name), more))
}

func server(name string) object {
	return object{"name": name, "server_type": "cx23", "image": "ubuntu-24.04", "location": "fsn1"}
}

const key = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIEcUkb1BPmbvz32HVjwv6wwNJaDIo2LhyXIo7dkPBM3w odin"

// hosts records what becomes of servers' machines.
type hosts struct {
	mu    sync.Mutex
	log   []string
	fails map[string]error // by operation
}

func (h *hosts) note(what string, s emulator.Server) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	var volumes, networks []string
	for _, v := range s.Volumes {
		volumes = append(volumes, v.Name)
	}
	for _, n := range s.Networks {
		networks = append(networks, n.Address.String())
	}
	h.log = append(h.log, strings.TrimSpace(fmt.Sprint(what, " ", s.Name, " ", strings.Join(slices.Concat(networks, volumes), " "))))
	return h.fails[what]
}

func (h *hosts) Start(_ context.Context, s emulator.Server) error  { return h.note("start", s) }
func (h *hosts) Stop(_ context.Context, s emulator.Server) error   { return h.note("stop", s) }
func (h *hosts) Delete(_ context.Context, s emulator.Server) error { return h.note("delete", s) }
func (h *hosts) Plug(_ context.Context, s emulator.Server) error   { return h.note("plug", s) }

func (h *hosts) take() string {
	h.mu.Lock()
	defer h.mu.Unlock()
	out := strings.Join(h.log, ", ")
	h.log = nil
	return out
}

func TestAServerIsCreatedInSteps(t *testing.T) {
	h := &hosts{}
	c := play(t, emulator.Options{Machines: h})
	n := c.network()
	v := c.made("/volumes", object{"name": "v", "size": 10, "location": "fsn1"})
	f := c.made("/firewalls", object{"name": "f"})
	g := c.made("/placement_groups", object{"name": "g", "type": "spread"})
	c.made("/ssh_keys", object{"name": "k", "public_key": key})
	out := c.call("POST", "/servers", tree.MergePatch(server("s"), object{"networks": list{n}, "volumes": list{v}, "firewalls": list{object{"firewall": f}}, "placement_group": g, "ssh_keys": list{"k"},
		"user_data": "#!/bin/sh", "labels": object{"kops.k8s.io/cluster": "c.example.com"}}))
	s := tree.Sub(out, "server")
	var commands []string
	var actions []int64
	for _, a := range append([]object{tree.Sub(out, "action")}, tree.Subs(out, "next_actions")...) {
		commands, actions = append(commands, tree.Text(a, "command")), append(actions, tree.Number(a, "id"))
	}
	if !slices.Equal(commands, []string{"create_server", "attach_to_network", "attach_volume", "start_server"}) || s["status"] != "initializing" || s["locked"] != true || out["root_password"] != nil || len(tree.Subs(s, "private_net")) != 0 {
		t.Errorf("got %v and %v", commands, s)
	}
	id := tree.Number(s, "id")
	c.refused(423, "locked", "locked by an action", "POST", fmt.Sprintf("/servers/%d/actions/poweroff", id), nil)
	c.refused(423, "locked", "", "DELETE", fmt.Sprintf("/servers/%d", id), nil)
	c.refused(409, "conflict", "", "POST", fmt.Sprintf("/networks/%d/actions/add_route", n), object{"destination": "10.100.0.0/24", "gateway": "10.0.0.2"})
	c.wait(3 * time.Second)
	if s := c.get("/servers", id); s["status"] != "starting" || c.action(actions[0]) != "" || c.action(actions[1]) != "" || c.action(actions[3]) != "running" {
		t.Errorf("after a third of its time it is %v", s["status"])
	}
	c.wait(6 * time.Second)
	s = c.get("/servers", id)
	net := tree.Subs(s, "private_net")
	if s["status"] != "running" || s["locked"] != false || len(net) != 1 || net[0]["ip"] != "10.0.0.2" || net[0]["network"] != n || c.action(actions[3]) != "" || tree.Sub(s, "placement_group")["id"] != g ||
		fmt.Sprint(s["volumes"]) != fmt.Sprint([]any{v}) || tree.Subs(tree.Sub(s, "public_net"), "firewalls")[0]["id"] != f {
		t.Errorf("it is %v", s)
	}
	if got := h.take(); got != "start s 10.0.0.2 v" {
		t.Errorf("its machine: %s", got)
	}
	m := c.Servers()[0]
	if m.ID != id || m.UserData != "#!/bin/sh" || !slices.Equal(m.SSHKeys, []string{key}) || m.CPUs != 2 || m.MemoryMiB != 4096 || m.Public.String() != "198.18.0.2" || m.Labels["kops.k8s.io/cluster"] != "c.example.com" ||
		m.Networks[0].Gateway.String() != "10.0.0.1" || m.Networks[0].Subnet.String() != "10.0.0.0/16" || m.Volumes[0].Device != fmt.Sprint("/dev/disk/by-id/scsi-0HC_Volume_", v) || m.Location != "fsn1" || m.Type != "cx23" {
		t.Errorf("its machine is %+v", m)
	}
	if want := []string{"firewalls/f", "networks/n", "placement_groups/g", "servers/s", "ssh_keys/k", "volumes/v"}; !slices.Equal(c.Inventory(), want) {
		t.Errorf("there is %s", c.Inventory())
	}
	deleted := tree.Number(tree.Sub(c.call("DELETE", fmt.Sprintf("/servers/%d", id), nil), "action"), "id")
	if s := c.get("/servers", id); s["status"] != "deleting" {
		t.Errorf("it is %v", s["status"])
	}
	c.wait(time.Minute)
	if got := c.action(deleted); got != "" || c.names("/servers") != "" || c.names("/primary_ips") != "" {
		t.Errorf("it ended with %q", got)
	}
	if got := h.take(); got != "delete s 10.0.0.2 v" {
		t.Errorf("its machine: %s", got)
	}
	if v := c.get("/volumes", v); v["server"] != nil {
		t.Errorf("its volume is %v", v)
	}
	for _, path := range []string{"/volumes", "/firewalls", "/placement_groups", "/networks", "/ssh_keys"} {
		for _, o := range tree.Subs(c.call("GET", path, nil), path[1:]) {
			c.call("DELETE", fmt.Sprintf("%s/%d", path, tree.Number(o, "id")), nil)
		}
	}
	if left := c.Inventory(); left != nil {
		t.Errorf("left: %s", left)
	}
}

func TestServersThatCannotBe(t *testing.T) {
	c := play(t, emulator.Options{Most: map[string]int{"servers": 2}})
	n := c.made("/networks", object{"name": "n", "ip_range": "10.0.0.0/16"})
	far := c.made("/volumes", object{"name": "far", "size": 10, "location": "hel1"})
	for words, more := range map[string]object{
		"not valid":                                {"name": "a_b"},
		"server_type \"cx99\" was not found":       {"server_type": "cx99"},
		"location \"lhr1\" was not found":          {"location": "lhr1"},
		"image \"templeos\" was not found":         {"image": "templeos"},
		"ssh_key \"none\" was not found":           {"ssh_keys": list{"none"}},
		"network with ID 99 was not found":         {"networks": list{99}},
		"volume with ID 99 was not found":          {"volumes": list{99}},
		"firewall with ID 99 was not found":        {"firewalls": list{object{"firewall": 99}}},
		"placement_group with ID 99 was not found": {"placement_group": 99},
		"different locations":                      {"volumes": list{far}},
		"it has 32769 bytes":                       {"user_data": strings.Repeat("x", 32769)},
		"labels.a: got":                            {"labels": object{"a": "b c"}},
		"the key \"a b\" is not valid":             {"labels": object{"a b": "c"}},
		"prefix hetzner.cloud/ is reserved":        {"labels": object{"hetzner.cloud/a": "b"}},
		"color":                                    {"color": "red"},
		"name: got 7":                              {"name": 7},
		"is not available for the architecture":    {"image": fmt.Sprint(imageID(c, "ubuntu-24.04", "arm"))},
	} {
		code := "invalid_input"
		c.refused(422, code, strings.TrimPrefix(strings.TrimPrefix(words, "labels.a: "), "name: "), "POST", "/servers", tree.MergePatch(server("s"), more))
	}
	c.refused(422, "no_subnet_available", "", "POST", "/servers", tree.MergePatch(server("s"), object{"networks": list{n}}))
	c.refused(400, "json_error", "", "POST", "/servers", `{"name":`)
	c.Exhaust("fsn1", true)
	c.refused(412, "resource_unavailable", "", "POST", "/servers", server("s"))
	c.Exhaust("fsn1", false)
	c.server("s", object{"image": fmt.Sprint(imageID(c, "ubuntu-24.04", "x86")), "start_after_create": false})
	c.refused(409, "uniqueness_error", "name", "POST", "/servers", server("s"))
	c.server("t", object{"server_type": "cax11"})
	c.refused(403, "resource_limit_exceeded", "server_limit", "POST", "/servers", server("u"))
	if s := c.Servers(); len(s) != 2 || c.Inventory()[0] != "networks/n" {
		t.Errorf("there is %s", c.Inventory())
	}
	c.Limit("servers", 3)
	c.server("u", nil)
}

func imageID(c *cloud, name, arch string) int64 {
	c.Helper()
	all := tree.Subs(c.call("GET", "/images?name="+name+"&architecture="+arch, nil), "images")
	if len(all) != 1 {
		c.Fatalf("the image %s is %v", name, all)
	}
	return tree.Number(all[0], "id")
}

func TestServersAreSwitched(t *testing.T) {
	h := &hosts{fails: map[string]error{}}
	c := play(t, emulator.Options{Machines: h})
	id := c.server("s", object{"start_after_create": false, "public_net": object{"enable_ipv4": false, "enable_ipv6": false}})
	state := func(want, log string) {
		t.Helper()
		if s := c.get("/servers", id); s["status"] != want || s["locked"] != false {
			t.Errorf("it is %v, not %s", s["status"], want)
		}
		if got := h.take(); got != log {
			t.Errorf("its machine: %q, not %q", got, log)
		}
	}
	state("off", "")
	if net := tree.Sub(c.get("/servers", id), "public_net"); net["ipv4"] != nil || net["ipv6"] != nil || c.Servers()[0].Public.IsValid() {
		t.Errorf("it has the addresses %v", net)
	}
	c.done("/servers", id, "poweron", nil, "")
	state("running", "start s")
	c.done("/servers", id, "poweron", nil, "")
	state("running", "")
	c.done("/servers", id, "reset", nil, "")
	state("running", "stop s, start s")
	c.done("/servers", id, "reboot", nil, "")
	state("running", "stop s, start s")
	a := tree.Sub(c.call("POST", fmt.Sprintf("/servers/%d/actions/shutdown", id), nil), "action")
	c.wait(2 * time.Second)
	if s := c.get("/servers", id); c.action(tree.Number(a, "id")) != "" || s["status"] != "stopping" {
		t.Errorf("it is %v before it has shut down", s["status"])
	}
	c.wait(time.Minute)
	state("off", "stop s")
	h.fails["start"] = fmt.Errorf("no memory")
	c.done("/servers", id, "poweron", nil, "action_failed")
	state("off", "start s")
	delete(h.fails, "start")
	c.done("/servers", id, "poweron", nil, "")
	c.done("/servers", id, "poweroff", nil, "")
	state("off", "start s, stop s")
	c.done("/servers", id, "poweron", nil, "")
	c.Died(id)
	state("off", "start s")
	h.fails["delete"] = fmt.Errorf("it hangs")
	c.call("DELETE", fmt.Sprintf("/servers/%d", id), nil)
	c.wait(time.Minute)
	state("off", "delete s")
	c.call("PUT", fmt.Sprintf("/servers/%d", id), object{"name": "t", "labels": object{"a": "b"}})
	if s := c.get("/servers", id); s["name"] != "t" || tree.Sub(s, "labels")["a"] != "b" {
		t.Errorf("it is %v", s)
	}
}

func TestAFailedCreationLeavesNothing(t *testing.T) {
	c := play(t, emulator.Options{})
	n := c.network()
	v := c.made("/volumes", object{"name": "v", "size": 10, "location": "fsn1"})
	before := c.Inventory()
	c.Inject(standin.Fault{Method: "POST /servers", When: standin.Inside, Error: emulator.Error{Code: "placement_error", Message: "no host"}})
	out := c.call("POST", "/servers", tree.MergePatch(server("s"), object{"networks": list{n}, "volumes": list{v}}))
	c.wait(time.Minute)
	for _, a := range append(tree.Subs(out, "next_actions"), tree.Sub(out, "action")) {
		if got := c.action(tree.Number(a, "id")); got != "placement_error" {
			t.Errorf("%s ended with %q", a["command"], got)
		}
	}
	if got := c.Inventory(); !slices.Equal(got, before) || c.get("/volumes", v)["server"] != nil || c.names("/primary_ips") != "" {
		t.Errorf("there is %s", got)
	}
	c.call("DELETE", fmt.Sprintf("/networks/%d", n), nil) // nothing is locked
	c.call("DELETE", fmt.Sprintf("/volumes/%d", v), nil)
}
