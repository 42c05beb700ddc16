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

	"kops.local/kops/internal/standin/tree"
)

// machineKinds returns the kinds of machines and disks.
func machineKinds() []*collection {
	return append([]*collection{diskKind(), templateKind(),
		{name: "instances", word: "instance", verbs: []string{"get", "list", "aggregatedList", "setLabels"}, labelled: true, queues: true, onDelete: onInstanceDeleted,
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

// exhausted is the code for a zone without capacity.
const exhausted = "ZONE_RESOURCE_POOL_EXHAUSTED"

// machine is the additional state of an instance.
type machine struct {
	// operations is the number of operations on it: a new one cancels earlier ones.
	operations int
	// manager is the path of the instance's group; may be empty.
	manager string
	// disks are the disks that were created with it.
	disks []*entry
}

func (c *call) insertInstance() (object, error) {
	o := c.body
	if url := tree.Text(o, "machineType"); url != "" && !strings.HasSuffix(url, "zones/"+c.params["zone"]+"/machineTypes/"+lastPart(url, "/")) {
		return nil, invalid("resource.machineType", url, "The URL is malformed, or of another zone.")
	}
	if from := c.params["sourceInstanceTemplate"]; from != "" {
		path, err := c.resolveReference(from, "sourceInstanceTemplate", []string{"instanceTemplates"})
		if err != nil {
			return nil, err
		}
		o = tree.MergePatch(tree.Sub(c.entries[path].o, "properties"), o)
	}
	x, err := c.addInstance(c.scope(), o, "")
	if r := refusalOf(err); err != nil && r.Reason == exhausted { // which is reported only by the operation
		c.fate.Fails = r
		return c.operate("insert", c.scope()+"/instances/"+tree.Text(o, "name"), nil, nil)
	}
	if err != nil {
		return nil, err
	}
	op := c.newOperation("insert", x.path)
	if fails := c.fate.Fails; fails != nil {
		c.removeFailed(x)
		c.Schedule(c.o.Latency, func(context.Context) { c.finish(op, fails) })
		return tree.Clone(op.o), nil
	}
	op.o["status"], op.o["startTime"] = "RUNNING", stamp(c.Now())
	c.boot(x, func(err error) {
		if err != nil && !errors.Is(err, errSuperseded) {
			c.removeFailed(x)
		}
		c.finish(op, err)
	})
	return tree.Clone(op.o), nil
}

// removeFailed removes an instance whose creation failed, with the disks that were created for it.
func (e *Emulator) removeFailed(x *entry) {
	e.remove(x)
	for _, d := range x.machine.disks {
		delete(e.entries, d.path)
	}
}

// addInstance adds a new instance, with the addresses and the disks that it needs. If it fails, it leaves
// nothing behind.
func (c *call) addInstance(scope string, o object, manager string) (*entry, error) {
	k := c.kinds["instances"]
	path := scope + "/instances/" + tree.Text(o, "name")
	zone := lastPart(scope, "/")
	if err := c.checkNameFree(path); err != nil {
		return nil, err
	}
	if err := c.resolve(k.refs, o); err != nil {
		return nil, err
	}
	if err := c.properties(o, "resource"); err != nil {
		return nil, err
	}
	size, err := c.machineType(lastPart(tree.Text(o, "machineType"), "/"), "resource.machineType")
	if err != nil {
		return nil, err
	}
	if err := c.checkQuota("CPUS", scope+"/", int64(size.CPUs)); err != nil {
		return nil, err
	}
	if err := c.checkQuota("INSTANCES", scope+"/", 1); err != nil {
		return nil, err
	}
	if c.exhausted[zone] {
		return nil, &Error{Status: http.StatusServiceUnavailable, Reason: exhausted,
			Message: fmt.Sprintf("The zone 'projects/%s/zones/%s' does not have enough resources available to fulfill the request.  Try a different zone, or try again later.", strings.Split(scope, "/")[1], zone)}
	}
	o["machineType"] = link(scope + "/machineTypes/" + size.Name)
	if err := c.assignAddresses(o); err != nil {
		return nil, err
	}
	made, err := c.createDisks(scope, o)
	if err != nil {
		for _, d := range made {
			delete(c.entries, d.path)
		}
		return nil, err
	}
	tree.SetDefault(o, "tags", object{})
	tree.Sub(o, "tags")["fingerprint"] = fingerprint(tree.Sub(o, "tags")["items"])
	tree.SetDefault(o, "metadata", object{"fingerprint": fingerprint(nil)})
	tree.SetDefaults(o, object{"cpuPlatform": "Intel Broadwell", "deletionProtection": false, "canIpForward": false, "startRestricted": false,
		"shieldedInstanceConfig":          object{"enableSecureBoot": false, "enableVtpm": true, "enableIntegrityMonitoring": true},
		"shieldedInstanceIntegrityPolicy": object{"updateAutoLearnPolicy": true}})
	o["id"], o["selfLink"], o["creationTimestamp"], o["zone"], o["status"] = c.newID(), link(path), stamp(c.Now()), link(scope), "PROVISIONING"
	x := &entry{path: path, kind: k, o: o, created: true, machine: &machine{manager: manager, disks: made}}
	k.setFingerprint(o)
	c.entries[path] = x
	c.updateFingerprint(x)
	return x, nil
}

// updateFingerprint updates the fingerprint of an instance.
func (e *Emulator) updateFingerprint(x *entry) {
	delete(x.o, "fingerprint")
	x.o["fingerprint"] = fingerprint(x.o)
}

// assignAddresses assigns addresses to the interfaces of an instance.
func (c *call) assignAddresses(o object) error {
	for i, nic := range tree.Subs(o, "networkInterfaces") {
		at := fmt.Sprintf("resource.networkInterfaces[%d]", i)
		if nic["subnetwork"] == nil {
			nic["subnetwork"] = c.autoSubnet(nic)
		}
		subnet := c.entries[pathOf(tree.Text(nic, "subnetwork"))]
		if subnet == nil {
			return invalid(at+".subnetwork", nic["subnetwork"], "The referenced subnetwork resource cannot be found.")
		}
		nic["name"], nic["network"] = fmt.Sprintf("nic%d", i), subnet.o["network"]
		tree.SetDefault(nic, "stackType", "IPV4_ONLY")
		ip, err := c.internalAddress(at+".networkIP", tree.Text(nic, "subnetwork"), tree.Text(nic, "networkIP"))
		if err != nil {
			return err
		}
		nic["networkIP"] = ip
		if slices.ContainsFunc(tree.Subs(o, "networkInterfaces")[:i], func(other object) bool { return other["network"] == nic["network"] }) {
			return invalid(at+".network", nic["network"], "Another interface is in the network.")
		}
		own := netip.MustParseAddr(ip)
		mine := []netip.Prefix{netip.PrefixFrom(own, own.BitLen())}
		for j, alias := range tree.Subs(nic, "aliasIpRanges") {
			p, err := c.allocateAlias(subnet, alias, fmt.Sprintf("%s.aliasIpRanges[%d].ipCidrRange", at, j), mine)
			if err != nil {
				return err
			}
			alias["ipCidrRange"], mine = p.String(), append(mine, p)
		}
		for _, a := range tree.Subs(nic, "accessConfigs") {
			tree.SetDefault(a, "name", "External NAT")
			tree.SetDefault(a, "natIP", c.newExternalAddress())
		}
		if tree.Text(nic, "stackType") == "IPV4_IPV6" {
			c.assignIPv6(nic, subnet)
		}
		nic["fingerprint"] = fingerprint(nic)
	}
	return nil
}

// prefixOfInstance is the prefix length of an instance's IPv6 range.
const prefixOfInstance = 96

// assignIPv6 assigns an IPv6 range of the subnetwork to an interface.
func (c *call) assignIPv6(nic object, subnet *entry) {
	c.numbers++
	prefix := netip.MustParsePrefix(tree.Text(subnet.o, "ipv6CidrRange")).Addr().As16()
	prefix[10], prefix[11] = byte(c.numbers>>8), byte(c.numbers)
	address := netip.AddrFrom16(prefix).String()
	nic["ipv6AccessType"] = subnet.o["ipv6AccessType"]
	if subnet.o["ipv6AccessType"] != "EXTERNAL" {
		nic["ipv6Address"], nic["internalIpv6PrefixLength"] = address, int64(prefixOfInstance)
		return
	}
	nic["ipv6AccessConfigs"] = list{object{"type": "DIRECT_IPV6", "name": "external-ipv6", "externalIpv6": address, "externalIpv6PrefixLength": int64(prefixOfInstance), "networkTier": "PREMIUM"}}
}

// autoSubnet returns the subnetwork of an auto-mode network in the call's region.
func (c *call) autoSubnet(nic object) any {
	for _, x := range c.entries {
		if x.kind == c.kinds["subnetworks"] && x.o["network"] == nic["network"] && strings.Contains(x.path, "/regions/"+regionOf(c.params["zone"])+"/") {
			return x.o["selfLink"]
		}
	}
	return ""
}

// createDisks creates the disks of an instance that do not exist yet.
func (c *call) createDisks(scope string, o object) (made []*entry, err error) {
	boots := 0
	for i, d := range tree.Subs(o, "disks") {
		at := fmt.Sprintf("resource.disks[%d]", i)
		if tree.Bool(d, "boot") {
			boots++
		}
		disk := c.entries[pathOf(tree.Text(d, "source"))]
		if init := tree.Sub(d, "initializeParams"); disk == nil && init != nil {
			name := tree.Text(init, "diskName")
			if name == "" {
				name = tree.Text(o, "name")
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
		if users := c.usersOf(disk); len(users) > 0 && tree.Text(d, "mode") != "READ_ONLY" {
			return made, inUseError(disk, users[0])
		}
		tree.SetDefault(d, "mode", "READ_WRITE")
		completeAttached(d, i, disk)
	}
	if boots != 1 {
		return made, invalid("resource.disks", boots, "Exactly one disk must be the boot disk.")
	}
	return made, nil
}

// newDisk creates a disk that is available at once.
func (c *call) newDisk(scope string, o object, at string) (*entry, error) {
	k := c.kinds["disks"]
	path := scope + "/disks/" + tree.Text(o, "name")
	if err := c.checkNameFree(path); err != nil {
		return nil, err
	}
	if err := c.disk(o, scope, at+".initializeParams"); err != nil {
		return nil, err
	}
	o["id"], o["selfLink"], o["creationTimestamp"], o["zone"] = c.newID(), link(path), stamp(c.Now()), link(scope)
	k.setFingerprint(o)
	x := &entry{path: path, kind: k, o: o, created: true}
	c.entries[path] = x
	return x, nil
}

// onInstanceDeleted takes a deleted instance out of target pools and groups, and deletes its auto-delete
// disks.
func onInstanceDeleted(e *Emulator, x *entry) {
	for _, other := range e.entries {
		if other.kind == e.kinds["targetPools"] {
			tree.SetTexts(other.o, "instances", slices.DeleteFunc(tree.Texts(other.o, "instances"), func(s string) bool { return s == x.o["selfLink"] }))
		}
		other.members = slices.DeleteFunc(other.members, func(path string) bool { return path == x.path })
	}
	for _, d := range tree.Subs(x.o, "disks") {
		if tree.Bool(d, "autoDelete") {
			delete(e.entries, pathOf(tree.Text(d, "source")))
		}
	}
}

func (c *call) setTags() (object, error) {
	return c.setFingerprinted("tags", func(o object) error {
		for i, t := range tree.Texts(o, "items") {
			if !tag().MatchString(t) {
				return invalid(fmt.Sprintf("items[%d]", i), t, "Must be a match of regex '(?:[a-z](?:[-a-z0-9]{0,61}[a-z0-9])?)'")
			}
		}
		o["fingerprint"] = fingerprint(o["items"])
		return nil
	})
}

func (c *call) setMetadata() (object, error) {
	return c.setFingerprinted("metadata", func(o object) error { return checkMetadata("metadata", o) })
}

// setFingerprinted replaces a field of an instance that has its own fingerprint.
func (c *call) setFingerprinted(field string, shape func(object) error) (object, error) {
	x, err := c.kinds["instances"].findChangeable(c)
	if err != nil {
		return nil, err
	}
	if c.body["fingerprint"] != tree.Sub(x.o, field)["fingerprint"] {
		return nil, staleError("Supplied fingerprint does not match current " + field + " fingerprint.")
	}
	to := tree.Clone(c.body)
	if err := shape(to); err != nil {
		return nil, err
	}
	return c.startChange(lastPart(c.method.ID, "."), x, func(context.Context) error {
		x.o[field] = to
		c.updateFingerprint(x)
		return nil
	})
}

func (c *call) setMachineType() (object, error) {
	x, err := c.kinds["instances"].findChangeable(c)
	if err != nil {
		return nil, err
	}
	size, err := c.machineType(lastPart(tree.Text(c.body, "machineType"), "/"), "machineType")
	if err != nil {
		return nil, err
	}
	if tree.Text(x.o, "status") != "TERMINATED" {
		return nil, invalid("machineType", c.body["machineType"], "The machine type can be changed only while the instance is stopped.")
	}
	return c.startChange("setMachineType", x, func(context.Context) error {
		x.o["machineType"] = link(scopeOf(x.path) + "/machineTypes/" + size.Name)
		c.updateFingerprint(x)
		return nil
	})
}

func (c *call) setDiskAutoDelete() (object, error) {
	x, err := c.kinds["instances"].findChangeable(c)
	if err != nil {
		return nil, err
	}
	at := slices.IndexFunc(tree.Subs(x.o, "disks"), func(d object) bool { return d["deviceName"] == c.params["deviceName"] })
	if at < 0 {
		return nil, invalid("deviceName", c.params["deviceName"], "No attached disk found with this device name.")
	}
	return c.startChange("setDiskAutoDelete", x, func(context.Context) error {
		tree.Subs(x.o, "disks")[at]["autoDelete"] = c.params["autoDelete"] == "true"
		return nil
	})
}
