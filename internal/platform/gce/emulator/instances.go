package emulator

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"slices"
	"strconv"
	"strings"
)

// machines are the kinds of machines.
func machines() []*collection {
	return append([]*collection{diskKind(), templateKind(),
		{name: "instances", word: "instance", verbs: []string{"get", "list", "aggregatedList", "setLabels"}, labelled: true, queues: true, gone: goneInstance,
			refs: append(interfaces(""), ref{"disks[].source", []string{"disks"}})},
	}, groupKinds()...)
}

func instanceHandlers() map[string]handler {
	out := map[string]handler{"compute.disks.resize": (*call).resizeDisk, "compute.disks.update": (*call).updateDisk}
	for verb, h := range map[string]handler{"insert": (*call).insertInstance, "delete": (*call).deleteInstance, "start": (*call).startInstance, "stop": (*call).stopInstance, "reset": (*call).resetInstance,
		"attachDisk": (*call).attachDisk, "detachDisk": (*call).detachDisk, "setTags": (*call).setTags, "setMetadata": (*call).setMetadata, "setMachineType": (*call).setMachineType,
		"setDiskAutoDelete": (*call).setDiskAutoDelete, "getSerialPortOutput": (*call).serialPort, "getShieldedInstanceIdentity": (*call).identity} {
		out["compute.instances."+verb] = h
	}
	return out
}

// exhausted is the code of a zone without machines.
const exhausted = "ZONE_RESOURCE_POOL_EXHAUSTED"

// machine is what runs an instance.
type machine struct {
	// turn counts the operations on it: a new one cancels earlier ones.
	turn int
	// manager is the path of the group that has the instance; may be empty.
	manager string
	// disks are those that were made with it.
	disks []*entry
}

func (c *call) insertInstance() (object, error) {
	o := c.body
	if url := text(o, "machineType"); url != "" && !strings.HasSuffix(url, "zones/"+c.params["zone"]+"/machineTypes/"+last(url, "/")) {
		return nil, invalid("resource.machineType", url, "The URL is malformed, or of another zone.")
	}
	if from := c.params["sourceInstanceTemplate"]; from != "" {
		path, err := c.refer(from, "sourceInstanceTemplate", []string{"instanceTemplates"})
		if err != nil {
			return nil, err
		}
		o = merged(sub(c.entries[path].o, "properties"), o)
	}
	x, err := c.spawn(c.scope(), o, "")
	if r := refusalOf(err); err != nil && r.Reason == exhausted { // which shows only when it is tried
		c.fails = r
		return c.operate("insert", c.scope()+"/instances/"+text(o, "name"), nil, nil)
	}
	if err != nil {
		return nil, err
	}
	op := c.newOperation("insert", x.path)
	if fails := c.fails; fails != nil {
		c.unmake(x)
		c.later(c.o.Latency, func(context.Context) { c.finish(op, fails) })
		return clone(op.o), nil
	}
	op.o["status"], op.o["startTime"] = "RUNNING", stamp(c.now)
	c.boot(x, func(err error) {
		if err != nil && !errors.Is(err, overtaken) {
			c.unmake(x)
		}
		c.finish(op, err)
	})
	return clone(op.o), nil
}

// unmake removes an instance that could not be made, with the disks that were made for it.
func (e *Emulator) unmake(x *entry) {
	e.remove(x)
	for _, d := range x.machine.disks {
		delete(e.entries, d.path)
	}
}

// spawn enters a new instance, with the addresses and the disks that it needs. What is
// refused leaves nothing behind.
func (c *call) spawn(scope string, o object, manager string) (*entry, error) {
	k := c.kinds["instances"]
	path := scope + "/instances/" + text(o, "name")
	zone := last(scope, "/")
	if err := c.free(path); err != nil {
		return nil, err
	}
	if err := c.resolve(k.refs, o); err != nil {
		return nil, err
	}
	if err := c.properties(o, "resource"); err != nil {
		return nil, err
	}
	size, err := c.machineType(last(text(o, "machineType"), "/"), "resource.machineType")
	if err != nil {
		return nil, err
	}
	if err := c.within("CPUS", scope+"/", int64(size.CPUs)); err != nil {
		return nil, err
	}
	if err := c.within("INSTANCES", scope+"/", 1); err != nil {
		return nil, err
	}
	if c.empty[zone] {
		return nil, &Error{Status: http.StatusServiceUnavailable, Reason: exhausted,
			Message: fmt.Sprintf("The zone 'projects/%s/zones/%s' does not have enough resources available to fulfill the request.  Try a different zone, or try again later.", strings.Split(scope, "/")[1], zone)}
	}
	o["machineType"] = link(scope + "/machineTypes/" + size.Name)
	if err := c.addressed(o); err != nil {
		return nil, err
	}
	made, err := c.disked(scope, o)
	if err != nil {
		for _, d := range made {
			delete(c.entries, d.path)
		}
		return nil, err
	}
	preset(o, "tags", object{})
	sub(o, "tags")["fingerprint"] = fingerprint(sub(o, "tags")["items"])
	preset(o, "metadata", object{"fingerprint": fingerprint(nil)})
	presets(o, object{"cpuPlatform": "Intel Broadwell", "deletionProtection": false, "canIpForward": false, "startRestricted": false,
		"shieldedInstanceConfig":          object{"enableSecureBoot": false, "enableVtpm": true, "enableIntegrityMonitoring": true},
		"shieldedInstanceIntegrityPolicy": object{"updateAutoLearnPolicy": true}})
	o["id"], o["selfLink"], o["creationTimestamp"], o["zone"], o["status"] = c.newID(), link(path), stamp(c.now), link(scope), "PROVISIONING"
	x := &entry{path: path, kind: k, o: o, made: true, machine: &machine{manager: manager, disks: made}}
	k.marked(o)
	c.entries[path] = x
	c.touched(x)
	return x, nil
}

// touched gives an instance another fingerprint.
func (e *Emulator) touched(x *entry) {
	delete(x.o, "fingerprint")
	x.o["fingerprint"] = fingerprint(x.o)
}

// addressed gives the interfaces of an instance their addresses.
func (c *call) addressed(o object) error {
	for i, nic := range subs(o, "networkInterfaces") {
		at := fmt.Sprintf("resource.networkInterfaces[%d]", i)
		if nic["subnetwork"] == nil {
			nic["subnetwork"] = c.autoSubnet(nic)
		}
		subnet := c.entries[pathOf(text(nic, "subnetwork"))]
		if subnet == nil {
			return invalid(at+".subnetwork", nic["subnetwork"], "The referenced subnetwork resource cannot be found.")
		}
		nic["name"], nic["network"] = fmt.Sprintf("nic%d", i), subnet.o["network"]
		preset(nic, "stackType", "IPV4_ONLY")
		ip, err := c.internal(at+".networkIP", text(nic, "subnetwork"), text(nic, "networkIP"))
		if err != nil {
			return err
		}
		nic["networkIP"] = ip
		if slices.ContainsFunc(subs(o, "networkInterfaces")[:i], func(other object) bool { return other["network"] == nic["network"] }) {
			return invalid(at+".network", nic["network"], "Another interface is in the network.")
		}
		own := netip.MustParseAddr(ip)
		mine := []netip.Prefix{netip.PrefixFrom(own, own.BitLen())}
		for j, alias := range subs(nic, "aliasIpRanges") {
			p, err := c.aliasIn(subnet, alias, fmt.Sprintf("%s.aliasIpRanges[%d].ipCidrRange", at, j), mine)
			if err != nil {
				return err
			}
			alias["ipCidrRange"], mine = p.String(), append(mine, p)
		}
		for _, a := range subs(nic, "accessConfigs") {
			preset(a, "name", "External NAT")
			preset(a, "natIP", c.external())
		}
		if text(nic, "stackType") == "IPV4_IPV6" {
			c.sixth(nic, subnet)
		}
		nic["fingerprint"] = fingerprint(nic)
	}
	return nil
}

// prefixOfInstance is how long a range of IPv6 an instance gets, in bits.
const prefixOfInstance = 96

// sixth gives an interface a range of IPv6 of its subnetwork.
func (c *call) sixth(nic object, subnet *entry) {
	c.numbers++
	prefix := netip.MustParsePrefix(text(subnet.o, "ipv6CidrRange")).Addr().As16()
	prefix[10], prefix[11] = byte(c.numbers>>8), byte(c.numbers)
	address := netip.AddrFrom16(prefix).String()
	nic["ipv6AccessType"] = subnet.o["ipv6AccessType"]
	if subnet.o["ipv6AccessType"] != "EXTERNAL" {
		nic["ipv6Address"], nic["internalIpv6PrefixLength"] = address, int64(prefixOfInstance)
		return
	}
	nic["ipv6AccessConfigs"] = list{object{"type": "DIRECT_IPV6", "name": "external-ipv6", "externalIpv6": address, "externalIpv6PrefixLength": int64(prefixOfInstance), "networkTier": "PREMIUM"}}
}

// autoSubnet is the subnetwork that a network in auto mode has in the region of a call.
func (c *call) autoSubnet(nic object) any {
	for _, x := range c.entries {
		if x.kind == c.kinds["subnetworks"] && x.o["network"] == nic["network"] && strings.Contains(x.path, "/regions/"+regionOf(c.params["zone"])+"/") {
			return x.o["selfLink"]
		}
	}
	return ""
}

// disked makes the disks of an instance that are not there yet.
func (c *call) disked(scope string, o object) (made []*entry, err error) {
	boots := 0
	for i, d := range subs(o, "disks") {
		at := fmt.Sprintf("resource.disks[%d]", i)
		if flag(d, "boot") {
			boots++
		}
		disk := c.entries[pathOf(text(d, "source"))]
		if init := sub(d, "initializeParams"); disk == nil && init != nil {
			name := text(init, "diskName")
			if name == "" {
				name = text(o, "name")
				if i > 0 {
					name += "-" + strconv.Itoa(i)
				}
			}
			fields := object{"name": name}
			for from, to := range map[string]string{"sourceImage": "sourceImage", "diskType": "type", "diskSizeGb": "sizeGb", "provisionedIops": "provisionedIops", "provisionedThroughput": "provisionedThroughput", "labels": "labels"} {
				if v := init[from]; v != nil {
					fields[to] = v
				}
			}
			if d["diskSizeGb"] != nil {
				fields["sizeGb"] = d["diskSizeGb"]
			}
			if disk, err = c.newDisk(scope, fields, at); err != nil {
				return made, err
			}
			made = append(made, disk)
			d["source"] = disk.o["selfLink"]
			delete(d, "initializeParams")
		}
		if disk == nil {
			return made, refusal(http.StatusBadRequest, "required", "Required field '%s.source' not specified", at)
		}
		if users := c.usersOf(disk); len(users) > 0 && text(d, "mode") != "READ_ONLY" {
			return made, inUse(disk, users[0])
		}
		preset(d, "mode", "READ_WRITE")
		complete(d, i, disk)
	}
	if boots != 1 {
		return made, invalid("resource.disks", boots, "Exactly one disk must be the boot disk.")
	}
	return made, nil
}

// newDisk makes a disk that is there at once.
func (c *call) newDisk(scope string, o object, at string) (*entry, error) {
	k := c.kinds["disks"]
	path := scope + "/disks/" + text(o, "name")
	if err := c.free(path); err != nil {
		return nil, err
	}
	if err := c.disk(o, scope, at+".initializeParams"); err != nil {
		return nil, err
	}
	o["id"], o["selfLink"], o["creationTimestamp"], o["zone"] = c.newID(), link(path), stamp(c.now), link(scope)
	k.marked(o)
	x := &entry{path: path, kind: k, o: o, made: true}
	c.entries[path] = x
	return x, nil
}

// goneInstance takes a deleted instance out of target pools and groups, and removes the disks that
// are deleted with it.
func goneInstance(e *Emulator, x *entry) {
	for _, other := range e.entries {
		if other.kind == e.kinds["targetPools"] {
			setTexts(other.o, "instances", slices.DeleteFunc(texts(other.o, "instances"), func(s string) bool { return s == x.o["selfLink"] }))
		}
		other.members = slices.DeleteFunc(other.members, func(path string) bool { return path == x.path })
	}
	for _, d := range subs(x.o, "disks") {
		if flag(d, "autoDelete") {
			delete(e.entries, pathOf(text(d, "source")))
		}
	}
}

func (c *call) setTags() (object, error) {
	return c.setMarked("tags", func(o object) error {
		for i, t := range texts(o, "items") {
			if !tag().MatchString(t) {
				return invalid(fmt.Sprintf("items[%d]", i), t, "Must be a match of regex '(?:[a-z](?:[-a-z0-9]{0,61}[a-z0-9])?)'")
			}
		}
		o["fingerprint"] = fingerprint(o["items"])
		return nil
	})
}

func (c *call) setMetadata() (object, error) {
	return c.setMarked("metadata", func(o object) error { return checkMetadata("metadata", o) })
}

// setMarked replaces a field of an instance that has a digest of its own.
func (c *call) setMarked(field string, shape func(object) error) (object, error) {
	x, err := c.kinds["instances"].changeable(c)
	if err != nil {
		return nil, err
	}
	if c.body["fingerprint"] != sub(x.o, field)["fingerprint"] {
		return nil, stale("Supplied fingerprint does not match current " + field + " fingerprint.")
	}
	to := clone(c.body)
	if err := shape(to); err != nil {
		return nil, err
	}
	return c.alter(last(c.method.ID, "."), x, func(context.Context) error {
		x.o[field] = to
		c.touched(x)
		return nil
	})
}

func (c *call) setMachineType() (object, error) {
	x, err := c.kinds["instances"].changeable(c)
	if err != nil {
		return nil, err
	}
	size, err := c.machineType(last(text(c.body, "machineType"), "/"), "machineType")
	if err != nil {
		return nil, err
	}
	if text(x.o, "status") != "TERMINATED" {
		return nil, invalid("machineType", c.body["machineType"], "The machine type can be changed only while the instance is stopped.")
	}
	return c.alter("setMachineType", x, func(context.Context) error {
		x.o["machineType"] = link(scopeOf(x.path) + "/machineTypes/" + size.Name)
		c.touched(x)
		return nil
	})
}

func (c *call) setDiskAutoDelete() (object, error) {
	x, err := c.kinds["instances"].changeable(c)
	if err != nil {
		return nil, err
	}
	at := slices.IndexFunc(subs(x.o, "disks"), func(d object) bool { return d["deviceName"] == c.params["deviceName"] })
	if at < 0 {
		return nil, invalid("deviceName", c.params["deviceName"], "No attached disk found with this device name.")
	}
	return c.alter("setDiskAutoDelete", x, func(context.Context) error {
		subs(x.o, "disks")[at]["autoDelete"] = c.params["autoDelete"] == "true"
		return nil
	})
}
