package emulator

import (
	"context"
	"fmt"
	"net/http"
	"slices"

	"kops.local/kops/internal/standin/tree"
)

// setKind returns the kind of instance groups: groups of managers, and unmanaged groups.
func setKind() *collection {
	return &collection{name: "instanceGroups", word: "instanceGroup", verbs: []string{"insert", "get", "list", "aggregatedList"}, users: []string{"regionBackendServices"}, queues: true,
		refs: []ref{{"network", []string{"networks"}}}, fingerprint: "fingerprint", shape: shapeSet,
		show: func(e *Emulator, x *entry, o object) { o["size"] = int64(len(e.membersOf(x.path))) }}
}

// shapeSet rejects the name of a manager's group.
func shapeSet(c *call, o, _ object) error {
	if path := c.scope() + "/instanceGroupManagers/" + tree.Text(o, "name"); c.entries[path] != nil {
		return refusal(http.StatusConflict, "alreadyExists", "The resource '%s' already exists", path)
	}
	return nil
}

func setHandlers() map[string]handler {
	return map[string]handler{
		"compute.instanceGroups.delete":          (*call).deleteSet,
		"compute.instanceGroups.listInstances":   (*call).listMembers,
		"compute.instanceGroups.addInstances":    setChange((*call).addMember),
		"compute.instanceGroups.removeInstances": setChange((*call).removeMember),
		"compute.instanceGroups.setNamedPorts":   (*call).setNamedPorts,
	}
}

// membersOf returns the existing instances of a group, sorted by path.
func (e *Emulator) membersOf(group string) []*entry {
	set := e.entries[group]
	if set == nil {
		return nil
	}
	var out []*entry
	for path, x := range e.entries {
		if x.machine != nil && (set.owner != "" && x.machine.manager == set.owner || slices.Contains(set.members, path)) {
			out = append(out, x)
		}
	}
	return sortedBy(out, func(x *entry) string { return x.path })
}

// set returns the group of a call, which must be unmanaged.
func (c *call) set() (*entry, error) {
	x, err := c.kinds["instanceGroups"].findChangeable(c)
	if err == nil && x.owner != "" {
		err = inUseError(x, x.owner)
	}
	return x, err
}

func (c *call) deleteSet() (object, error) {
	if _, err := c.set(); err != nil {
		return nil, err
	}
	return c.kinds["instanceGroups"].delete(c)
}

// setChange returns a handler that applies a change to each of the given instances in a group.
func setChange(change func(c *call, set *entry, path, at string) error) handler {
	return func(c *call) (object, error) {
		x, err := c.set()
		if err != nil {
			return nil, err
		}
		before := slices.Clone(x.members)
		for i, item := range tree.Subs(c.body, "instances") {
			at := fmt.Sprintf("instances[%d].instance", i)
			path, err := c.resolveReference(tree.Text(item, "instance"), at, []string{"instances"})
			if err == nil {
				err = change(c, x, path, at)
			}
			if err != nil {
				x.members = before
				return nil, err
			}
		}
		after := x.members
		x.members = before
		return c.startChange(lastPart(c.method.ID, "."), x, func(context.Context) error {
			after = slices.DeleteFunc(after, func(path string) bool { return c.entries[path] == nil }) // it was deleted in the meantime
			x.members = after
			if len(after) > 0 && x.o["network"] == nil {
				nic := tree.Subs(c.entries[after[0]].o, "networkInterfaces")[0]
				x.o["network"], x.o["subnetwork"] = nic["network"], nic["subnetwork"]
			}
			return nil
		})
	}
}

// addMember adds an instance to a group in the same zone and network.
func (c *call) addMember(set *entry, path, at string) error {
	switch nic := tree.Subs(c.entries[path].o, "networkInterfaces")[0]; {
	case scopeOf(path) != scopeOf(set.path):
		return invalid(at, link(path), "The instance is in another zone than the group.")
	case set.o["network"] != nil && nic["network"] != set.o["network"]:
		return invalid(at, link(path), "The instance is in another network than the group.")
	case slices.Contains(set.members, path):
		return refusal(http.StatusBadRequest, "memberAlreadyExists", "The resource '%s' is already a member of '%s'", path, set.path)
	}
	set.members = append(set.members, path)
	return nil
}

func (c *call) removeMember(set *entry, path, _ string) error {
	at := slices.Index(set.members, path)
	if at < 0 {
		return refusal(http.StatusBadRequest, "memberNotFound", "The resource '%s' is not a member of '%s'", path, set.path)
	}
	set.members = slices.Delete(slices.Clone(set.members), at, at+1)
	return nil
}

func (c *call) setNamedPorts() (object, error) {
	x, err := c.kinds["instanceGroups"].findChangeable(c)
	if err != nil {
		return nil, err
	}
	if sent := c.body["fingerprint"]; sent != nil && sent != x.o["fingerprint"] {
		return nil, staleError("Invalid fingerprint.")
	}
	ports := c.body["namedPorts"]
	return c.startChange("setNamedPorts", x, func(context.Context) error {
		x.o["namedPorts"], x.o["fingerprint"] = ports, fingerprint(x.path, ports)
		if ports == nil {
			delete(x.o, "namedPorts")
		}
		return nil
	})
}

func (c *call) listMembers() (object, error) {
	x, err := c.kinds["instanceGroups"].find(c)
	if err != nil {
		return nil, err
	}
	items := []object{}
	for _, i := range c.membersOf(x.path) {
		if tree.Text(c.body, "instanceState") != "RUNNING" || i.o["status"] == "RUNNING" {
			items = append(items, object{"instance": i.o["selfLink"], "status": i.o["status"]})
		}
	}
	return c.pageOf(items, x.path)
}
