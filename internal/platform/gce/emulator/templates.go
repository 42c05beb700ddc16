package emulator

import (
	"fmt"
	"net/http"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"kops.local/kops/internal/standin/tree"
)

// interfaces returns the references in the interfaces of instances, below a prefix.
func interfaces(prefix string) []ref {
	return []ref{{prefix + "networkInterfaces[].network", []string{"networks"}}, {prefix + "networkInterfaces[].subnetwork", []string{"subnetworks"}}}
}

func templateKind() *collection {
	return &collection{name: "instanceTemplates", word: "instanceTemplate", verbs: []string{"insert", "get", "list", "aggregatedList", "delete"}, quota: "INSTANCE_TEMPLATES",
		refs: interfaces("properties."), users: []string{"instanceGroupManagers"}, shape: shapeTemplate}
}

func shapeTemplate(c *call, o, _ object) error {
	p := tree.Sub(o, "properties")
	if p == nil {
		return refusal(http.StatusBadRequest, "required", "Required field 'resource.properties' not specified")
	}
	const at = "resource.properties"
	if strings.Contains(tree.Text(p, "machineType"), "/") {
		return invalid(at+".machineType", p["machineType"], "The machine type of a template is a name, not a URL.")
	}
	if err := c.properties(p, at); err != nil {
		return err
	}
	boots := 0
	for i, d := range tree.Subs(p, "disks") {
		field := fmt.Sprintf("%s.disks[%d]", at, i)
		if tree.Bool(d, "boot") {
			boots++
		}
		init := tree.Sub(d, "initializeParams")
		switch {
		case init == nil && d["source"] == nil:
			return refusal(http.StatusBadRequest, "required", "Required field '%s.initializeParams' not specified", field)
		case strings.Contains(tree.Text(init, "diskType"), "/"):
			return invalid(field+".initializeParams.diskType", init["diskType"], "The disk type of a template is a name, not a URL.")
		}
		if source := tree.Text(init, "sourceImage"); source != "" {
			path, _, err := c.image(source, field+".initializeParams.sourceImage")
			if err != nil {
				return err
			}
			init["sourceImage"] = link(path)
		}
		d["index"] = int64(i)
	}
	if boots != 1 {
		return invalid(at+".disks", boots, "Exactly one disk must be the boot disk.")
	}
	for i, nic := range tree.Subs(p, "networkInterfaces") {
		nic["name"] = fmt.Sprintf("nic%d", i)
	}
	return nil
}

var metadataKey = pattern(`^[a-zA-Z0-9_-]{1,128}$`)

// The maximum size of metadata, in bytes, according to
// https://cloud.google.com/compute/docs/metadata/setting-custom-metadata.
const (
	maxMetadataValue = 256 << 10
	maxMetadata      = 512 << 10
)

func checkMetadata(at string, m object) error {
	if m == nil {
		return nil
	}
	keys, size := map[string]bool{}, 0
	for i, item := range tree.Subs(m, "items") {
		key, value := tree.Text(item, "key"), tree.Text(item, "value")
		field := fmt.Sprintf("%s.items[%d]", at, i)
		switch {
		case !metadataKey().MatchString(key):
			return invalid(field+".key", key, "Must be a match of regex '[a-zA-Z0-9-_]{1,128}'")
		case keys[key]:
			return invalid(field+".key", key, "Duplicate metadata key.")
		case len(value) > maxMetadataValue:
			return invalid(field+".value", len(value), "Value is too large: maximum size 262144 character(s).")
		}
		keys[key] = true
		if size += len(key) + len(value); size > maxMetadata {
			return invalid(at, size, "Metadata is too large: 524288 bytes at most.")
		}
	}
	m["fingerprint"] = fingerprint(m["items"])
	return nil
}

// properties checks the fields that instances and templates have in common, and sets those that the
// server sets.
func (c *call) properties(p object, at string) error {
	if _, err := c.machineType(lastPart(tree.Text(p, "machineType"), "/"), at+".machineType"); err != nil {
		return err
	}
	if err := checkLabels(at+".labels", tree.Sub(p, "labels")); err != nil {
		return err
	}
	if err := checkMetadata(at+".metadata", tree.Sub(p, "metadata")); err != nil {
		return err
	}
	for i, t := range tree.Texts(tree.Sub(p, "tags"), "items") {
		if !tag().MatchString(t) {
			return invalid(fmt.Sprintf("%s.tags.items[%d]", at, i), t, "Must be a match of regex '(?:[a-z](?:[-a-z0-9]{0,61}[a-z0-9])?)'")
		}
	}
	accounts := tree.Subs(p, "serviceAccounts")
	if len(accounts) > 1 {
		return invalid(at+".serviceAccounts", len(accounts), "An instance has one service account at most.")
	}
	for i, a := range accounts {
		if email := tree.Text(a, "email"); !c.knowsAccount(email) {
			return invalid(fmt.Sprintf("%s.serviceAccounts[%d].email", at, i), email, "The user does not have access to service account '"+email+"', or it does not exist.")
		}
		for j, scope := range tree.Texts(a, "scopes") {
			if !strings.HasPrefix(scope, "https://www.googleapis.com/auth/") {
				return invalid(fmt.Sprintf("%s.serviceAccounts[%d].scopes[%d]", at, i, j), scope, "The URL is malformed.")
			}
		}
	}
	nics := tree.Subs(p, "networkInterfaces")
	if len(nics) == 0 {
		return refusal(http.StatusBadRequest, "required", "At least one network interface is required.")
	}
	for i, nic := range nics {
		if err := c.shapeInterface(nic, fmt.Sprintf("%s.networkInterfaces[%d]", at, i)); err != nil {
			return err
		}
	}
	return shapeScheduling(p, at)
}

func (c *call) shapeInterface(nic object, at string) error {
	subnet := c.entries[pathOf(tree.Text(nic, "subnetwork"))]
	switch {
	case subnet == nil && nic["network"] == nil:
		return invalid(at, "", "A network or a subnetwork must be specified.")
	case subnet != nil && nic["network"] != nil && subnet.o["network"] != nic["network"]:
		return invalid(at+".subnetwork", nic["subnetwork"], "The subnetwork belongs to another network.")
	case subnet == nil && !tree.Bool(c.entries[pathOf(tree.Text(nic, "network"))].o, "autoCreateSubnetworks"):
		return invalid(at+".network", nic["network"], "The network is in custom mode: a subnetwork must be specified.")
	}
	if configs := tree.Subs(nic, "accessConfigs"); len(configs) > 1 {
		return invalid(at+".accessConfigs", len(configs), "An interface has one access config at most.")
	} else if len(configs) == 1 {
		tree.SetDefault(configs[0], "type", "ONE_TO_ONE_NAT")
		tree.SetDefault(configs[0], "networkTier", "PREMIUM")
	}
	if subnet == nil {
		return nil
	}
	if tree.Text(nic, "stackType") == "IPV4_IPV6" && tree.Text(subnet.o, "stackType") != "IPV4_IPV6" {
		return invalid(at+".stackType", nic["stackType"], "The subnetwork has no IPv6.")
	}
	for i, alias := range tree.Subs(nic, "aliasIpRanges") {
		field := fmt.Sprintf("%s.aliasIpRanges[%d]", at, i)
		if tree.Text(alias, "ipCidrRange") == "" {
			return refusal(http.StatusBadRequest, "required", "Required field '%s.ipCidrRange' not specified", field)
		}
		if name := tree.Text(alias, "subnetworkRangeName"); name != "" && !slices.ContainsFunc(tree.Subs(subnet.o, "secondaryIpRanges"), func(r object) bool { return r["rangeName"] == name }) {
			return invalid(field+".subnetworkRangeName", name, "The subnetwork has no such secondary range.")
		}
	}
	return nil
}

// shapeScheduling checks and defaults the scheduling of an instance.
func shapeScheduling(p object, at string) error {
	tree.SetDefault(p, "scheduling", object{})
	s := tree.Sub(p, "scheduling")
	tree.SetDefault(s, "provisioningModel", map[bool]string{true: "SPOT", false: "STANDARD"}[tree.Bool(s, "preemptible")])
	spot := s["provisioningModel"] == "SPOT"
	if spot {
		tree.SetDefault(s, "preemptible", true)
	}
	tree.SetDefault(s, "preemptible", false)
	tree.SetDefault(s, "automaticRestart", !spot)
	tree.SetDefault(s, "onHostMaintenance", map[bool]string{true: "TERMINATE", false: "MIGRATE"}[spot])
	switch {
	case spot != tree.Bool(s, "preemptible"):
		return invalid(at+".scheduling.preemptible", s["preemptible"], "It contradicts the provisioning model "+tree.Text(s, "provisioningModel")+".")
	case spot && tree.Bool(s, "automaticRestart"):
		return invalid(at+".scheduling.automaticRestart", true, "Scheduling must have preemptible be false when AutomaticRestart is true.")
	case tree.Text(s, "onHostMaintenance") != "TERMINATE" && (spot || len(tree.Subs(p, "guestAccelerators")) > 0):
		return invalid(at+".scheduling.onHostMaintenance", s["onHostMaintenance"], "Instances that are preemptible or have guest accelerators do not support live migration.")
	}
	return nil
}

// allocateAlias returns the range for an alias: the given one, or a free one of the given size, such as
// /24. Ranges in mine are not free.
func (e *Emulator) allocateAlias(subnet *entry, alias object, at string, mine []netip.Prefix) (netip.Prefix, error) {
	within := tree.Text(subnet.o, "ipCidrRange")
	if name := tree.Text(alias, "subnetworkRangeName"); name != "" {
		for _, r := range tree.Subs(subnet.o, "secondaryIpRanges") {
			if r["rangeName"] == name {
				within = tree.Text(r, "ipCidrRange")
			}
		}
	}
	asked := tree.Text(alias, "ipCidrRange")
	own, taken := netip.MustParsePrefix(within), append(e.usedAddresses(subnet, ""), mine...)
	if a, err := netip.ParseAddr(asked); err == nil {
		asked = netip.PrefixFrom(a, a.BitLen()).String()
	}
	if size, ok := strings.CutPrefix(asked, "/"); ok {
		bits, err := strconv.Atoi(size)
		if err != nil || bits < own.Bits() || bits > 32 {
			return netip.Prefix{}, invalid(at, asked, "The range does not fit in "+within+".")
		}
		p, free := findFree(own, bits, taken)
		if !free {
			return p, refusal(http.StatusBadRequest, "IP_SPACE_EXHAUSTED", "IP space of '%s' is exhausted: %s has no %s left.", subnet.path, within, asked)
		}
		return p, nil
	}
	p, err := netip.ParsePrefix(asked)
	if err != nil || !own.Contains(p.Addr()) || slices.ContainsFunc(taken, p.Overlaps) {
		return p, invalid(at, asked, "The range is not in "+within+", or not free.")
	}
	return p, nil
}
