package emulator

import (
	"context"
	"fmt"
	"net/http"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"kops.local/kops/internal/standin/tree"
)

// balancingKinds returns the load-balancing kinds.
func balancingKinds() []*collection {
	standard := []string{"insert", "get", "list", "delete"}
	checked := []string{"checkIntervalSec", "timeoutSec", "healthyThreshold", "unhealthyThreshold", "description", "port", "requestPath", "host", "type", "tcpHealthCheck", "sslHealthCheck", "httpHealthCheck", "httpsHealthCheck", "http2HealthCheck", "grpcHealthCheck", "logConfig"}
	return []*collection{
		addressKind(),
		{name: "httpHealthChecks", word: "httpHealthCheck", verbs: append(standard, "update", "patch"), quota: "HEALTH_CHECKS", users: []string{"targetPools"}, mutable: checked, shape: shapeHTTPCheck},
		{name: "healthChecks", word: "healthCheck", verbs: append(standard, "update", "patch"), quota: "HEALTH_CHECKS", users: []string{"regionBackendServices", "instanceGroupManagers"}, mutable: checked, shape: shapeCheck},
		{name: "regionHealthChecks", segment: "healthChecks", word: "healthCheck", verbs: append(standard, "update", "patch"), quota: "HEALTH_CHECKS", users: []string{"regionBackendServices"}, mutable: checked, shape: shapeCheck},
		{name: "targetPools", word: "targetPool", verbs: append(standard, "aggregatedList"), quota: "TARGET_POOLS",
			refs: []ref{{"healthChecks[]", []string{"httpHealthChecks"}}, {"instances[]", []string{"instances"}}}, users: []string{"forwardingRules", "instanceGroupManagers"}, queues: true, shape: shapePool},
		{name: "regionBackendServices", segment: "backendServices", word: "backendService", verbs: append(standard, "update", "patch"), quota: "BACKEND_SERVICES",
			refs:  []ref{{"healthChecks[]", []string{"regionHealthChecks", "healthChecks"}}, {"backends[].group", []string{"instanceGroups"}}, {"network", []string{"networks"}}},
			users: []string{"forwardingRules"}, fingerprint: "fingerprint", needsFingerprint: true, shape: shapeBackend,
			mutable: []string{"backends", "healthChecks", "description", "timeoutSec", "sessionAffinity", "connectionDraining", "failoverPolicy", "logConfig", "port", "portName", "protocol", "connectionTrackingPolicy", "network"}},
		{name: "forwardingRules", word: "forwardingRule", verbs: append(standard, "aggregatedList", "patch", "setLabels"), quota: "FORWARDING_RULES",
			refs:        []ref{{"target", []string{"targetPools"}}, {"backendService", []string{"regionBackendServices"}}, {"network", []string{"networks"}}, {"subnetwork", []string{"subnetworks"}}},
			fingerprint: "fingerprint", labelled: true, mutable: []string{"allowGlobalAccess", "networkTier", "backendService"}, shape: shapeRuleOfBalancer},
	}
}

func balancingHandlers() map[string]handler {
	return map[string]handler{
		"compute.targetPools.addHealthCheck":      poolChange("healthChecks", "healthCheck", true),
		"compute.targetPools.removeHealthCheck":   poolChange("healthChecks", "healthCheck", false),
		"compute.targetPools.addInstance":         poolChange("instances", "instance", true),
		"compute.targetPools.removeInstance":      poolChange("instances", "instance", false),
		"compute.targetPools.getHealth":           (*call).poolHealth,
		"compute.regionBackendServices.getHealth": (*call).backendHealth,
		"compute.forwardingRules.setTarget":       (*call).setTarget,
	}
}

// shapeTimes checks and defaults the fields that all health checks have.
func shapeTimes(o object) error {
	for field, n := range map[string]int64{"checkIntervalSec": 5, "timeoutSec": 5, "healthyThreshold": 2, "unhealthyThreshold": 2} {
		tree.SetDefault(o, field, n)
	}
	if t, i := tree.Number(o, "timeoutSec"), tree.Number(o, "checkIntervalSec"); t > i || t < 1 || i > 300 {
		return invalid("resource.timeoutSec", t, "Must be at least 1, and at most checkIntervalSec, which is at most 300.")
	}
	return nil
}

func shapeHTTPCheck(_ *call, o, _ object) error {
	tree.SetDefault(o, "port", int64(80))
	tree.SetDefault(o, "requestPath", "/")
	if p := tree.Number(o, "port"); p < 1 || p > 65535 {
		return invalid("resource.port", p, "Must be between 1 and 65535.")
	}
	return shapeTimes(o)
}

// protocolsOfChecks maps the type of a health check to its field.
var protocolsOfChecks = map[string]string{"TCP": "tcpHealthCheck", "SSL": "sslHealthCheck", "HTTP": "httpHealthCheck", "HTTPS": "httpsHealthCheck", "HTTP2": "http2HealthCheck", "GRPC": "grpcHealthCheck"}

func shapeCheck(_ *call, o, _ object) error {
	own := protocolsOfChecks[tree.Text(o, "type")]
	if own == "" {
		return refusal(http.StatusBadRequest, "required", "Required field 'resource.type' not specified")
	}
	for _, field := range protocolsOfChecks {
		if o[field] != nil && field != own {
			return invalid("resource."+field, "", "The health check is of type "+tree.Text(o, "type")+".")
		}
	}
	settings := tree.Sub(o, own)
	if settings == nil {
		return refusal(http.StatusBadRequest, "required", "Required field 'resource.%s' not specified", own)
	}
	if p := tree.Number(settings, "port"); settings["port"] != nil && (p < 1 || p > 65535) {
		return invalid("resource."+own+".port", p, "Must be between 1 and 65535.")
	}
	if own != "grpcHealthCheck" {
		tree.SetDefault(settings, "proxyHeader", "NONE")
	}
	if strings.HasPrefix(own, "http") {
		tree.SetDefault(settings, "requestPath", "/")
	}
	return shapeTimes(o)
}

func shapePool(_ *call, o, _ object) error {
	tree.SetDefault(o, "sessionAffinity", "NONE")
	if n := len(tree.Texts(o, "healthChecks")); n > 1 {
		return invalid("resource.healthChecks", n, "A target pool has one health check at most.")
	}
	return nil
}

// poolChange returns a handler that adds items to a list of a target pool, or removes them.
func poolChange(field, inner string, add bool) handler {
	return func(c *call) (object, error) {
		k := c.kinds["targetPools"]
		x, err := k.findChangeable(c)
		if err != nil {
			return nil, err
		}
		var urls []string
		for i, item := range tree.Subs(c.body, field) {
			at := fmt.Sprintf("%s[%d].%s", field, i, inner)
			if !add { // an object that no longer exists can still be removed
				urls = append(urls, link(c.absolutePath(tree.Text(item, inner))))
				continue
			}
			path, err := c.resolveReference(tree.Text(item, inner), at, map[string][]string{"healthChecks": {"httpHealthChecks"}, "instances": {"instances"}}[field])
			if err != nil {
				return nil, err
			}
			urls = append(urls, link(path))
		}
		now := tree.Texts(x.o, field)
		for _, url := range urls {
			has := slices.Contains(now, url)
			switch {
			case add && !has:
				now = append(now, url)
			case !add && !has:
				return nil, invalid(field, url, "It is not in the target pool.")
			case !add:
				now = slices.DeleteFunc(now, func(s string) bool { return s == url })
			}
		}
		if field == "healthChecks" && len(now) > 1 {
			return nil, invalid(field, len(now), "A target pool has one health check at most.")
		}
		return c.startChange(lastPart(c.method.ID, "."), x, func(context.Context) error {
			tree.SetTexts(x.o, field, now)
			return nil
		})
	}
}

// absolutePath returns the path of an object, given its full or partial URL.
func (c *call) absolutePath(url string) string {
	path := pathOf(url)
	if strings.HasPrefix(path, "projects/") {
		return path
	}
	return "projects/" + c.params["project"] + "/" + path
}

func shapeBackend(_ *call, o, _ object) error {
	tree.SetDefault(o, "loadBalancingScheme", "EXTERNAL")
	tree.SetDefault(o, "protocol", "TCP")
	if n := len(tree.Texts(o, "healthChecks")); n != 1 {
		return invalid("resource.healthChecks", n, "A backend service has one health check.")
	}
	groups := map[string]bool{}
	for i, b := range tree.Subs(o, "backends") {
		field := fmt.Sprintf("resource.backends[%d]", i)
		if groups[tree.Text(b, "group")] {
			return invalid(field+".group", b["group"], "The group is a backend already.")
		}
		groups[tree.Text(b, "group")] = true
		tree.SetDefault(b, "balancingMode", "CONNECTION")
		if tree.Text(b, "balancingMode") != "CONNECTION" && tree.Text(o, "loadBalancingScheme") == "INTERNAL" {
			return invalid(field+".balancingMode", b["balancingMode"], "Balancing mode must be CONNECTION for an INTERNAL backend service.")
		}
	}
	tree.SetDefaults(o, object{"sessionAffinity": "NONE", "timeoutSec": int64(30), "connectionDraining": object{"drainingTimeoutSec": int64(0)}})
	return nil
}

func shapeRuleOfBalancer(c *call, o, old object) error {
	if err := checkLabels("resource.labels", tree.Sub(o, "labels")); err != nil {
		return err
	}
	tree.SetDefault(o, "loadBalancingScheme", "EXTERNAL")
	tree.SetDefault(o, "IPProtocol", "TCP")
	internal := tree.Text(o, "loadBalancingScheme") == "INTERNAL"
	switch {
	case (o["target"] == nil) == (o["backendService"] == nil):
		return invalid("resource.target", o["target"], "Exactly one of target and backendService must be specified.")
	case internal && o["backendService"] == nil:
		return invalid("resource.backendService", "", "An INTERNAL forwarding rule needs a backend service.")
	case internal && o["subnetwork"] == nil && o["network"] == nil:
		return invalid("resource.network", "", "An INTERNAL forwarding rule needs a network or a subnetwork.")
	case internal && o["portRange"] != nil:
		return invalid("resource.portRange", o["portRange"], "An INTERNAL forwarding rule has ports.")
	case !internal && o["target"] != nil && o["ports"] != nil:
		return invalid("resource.ports", o["ports"], "Ports need a backend service.")
	case len(tree.Texts(o, "ports")) > 5:
		return invalid("resource.ports", o["ports"], "There are 5 ports at most.")
	case internal && o["ports"] == nil && !tree.Bool(o, "allPorts"):
		return invalid("resource.ports", "", "Ports, or allPorts, must be specified.")
	}
	if b := c.entries[pathOf(tree.Text(o, "backendService"))]; b != nil && b.o["loadBalancingScheme"] != o["loadBalancingScheme"] {
		return invalid("resource.loadBalancingScheme", o["loadBalancingScheme"], "The scheme of the backend service is "+tree.Text(b.o, "loadBalancingScheme")+".")
	}
	if r := tree.Text(o, "portRange"); r != "" && !strings.Contains(r, "-") {
		o["portRange"] = r + "-" + r
	}
	if internal && o["subnetwork"] != nil && o["network"] == nil {
		o["network"] = c.entries[pathOf(tree.Text(o, "subnetwork"))].o["network"]
	}
	tree.SetDefault(o, "networkTier", "PREMIUM")
	if old != nil {
		return nil
	}
	if internal && o["subnetwork"] == nil {
		return invalid("resource.subnetwork", "", "It must be specified, because the network is in custom mode.")
	}
	return c.setRuleAddress(o, internal)
}

// setRuleAddress sets the address of a forwarding rule, which may be a reserved one, and rejects an
// address that another rule uses.
func (c *call) setRuleAddress(o object, internal bool) error {
	wanted := tree.Text(o, "IPAddress")
	reserved := c.reservedAddress(wanted, o["subnetwork"])
	if _, err := netip.ParseAddr(wanted); wanted != "" && err != nil && reserved == nil {
		return invalid("resource.IPAddress", wanted, "It is neither an address nor the URL of one.")
	}
	switch {
	case reserved != nil && (tree.Text(reserved.o, "addressType") == "INTERNAL") != internal:
		return invalid("resource.IPAddress", wanted, "The address is "+tree.Text(reserved.o, "addressType")+".")
	case reserved != nil:
		o["IPAddress"] = reserved.o["address"]
	case wanted == "" && internal:
		a, err := c.internalAddress("resource.IPAddress", tree.Text(o, "subnetwork"), "")
		if err != nil {
			return err
		}
		o["IPAddress"] = a
	case internal: // a specific address, unless another rule has it
		if !netip.MustParsePrefix(tree.Text(c.entries[pathOf(tree.Text(o, "subnetwork"))].o, "ipCidrRange")).Contains(netip.MustParseAddr(wanted)) {
			return invalid("resource.IPAddress", wanted, "Requested internal IP address is not in the range of the subnetwork.")
		}
	case wanted == "":
		o["IPAddress"] = c.newExternalAddress()
	default:
		return invalid("resource.IPAddress", wanted, "Invalid IP address specified.")
	}
	return c.checkExclusive(o, reserved, internal)
}

// reservedAddress returns the address of the call's region that a URL refers to, or the one with that IP
// address in the subnetwork or in none; nil if there is none.
func (c *call) reservedAddress(wanted string, subnetwork any) *entry {
	for _, x := range c.entries {
		if x.kind == c.kinds["addresses"] && x.created && !x.deleting && strings.HasPrefix(x.path, c.scope()+"/") && wanted != "" &&
			(x.path == c.absolutePath(wanted) || x.o["address"] == wanted && (x.o["subnetwork"] == nil || x.o["subnetwork"] == subnetwork)) {
			return x
		}
	}
	return nil
}

// checkExclusive rejects a rule whose address another rule uses: for the same ports always, and for other
// ports, too, if it is internal, unless the address is reserved for sharing.
func (c *call) checkExclusive(o object, reserved *entry, internal bool) error {
	shared := !internal || reserved != nil && reserved.o["purpose"] == "SHARED_LOADBALANCER_VIP"
	for _, x := range c.entries {
		if x.kind == c.kinds["instances"] && hasAddress(x, tree.Text(o, "IPAddress"), o["subnetwork"]) {
			return invalid("resource.IPAddress", o["IPAddress"], "Specified IP address is already in use by '"+x.path+"'.")
		}
		if x.kind != c.kinds["forwardingRules"] || x.o["IPAddress"] != o["IPAddress"] || internal && x.o["network"] != o["network"] {
			continue
		}
		if !shared {
			return refusal(http.StatusBadRequest, "invalid", "Invalid value for field 'resource.IPAddress': '%s'. Specified IP address is already in use by '%s': reserve it with purpose SHARED_LOADBALANCER_VIP.", o["IPAddress"], x.path)
		}
		if x.o["IPProtocol"] == o["IPProtocol"] && portsOverlap(o, x.o) {
			return refusal(http.StatusBadRequest, "invalid", "Invalid value for field 'resource.IPAddress': '%s'. Specified IP address is in-use and would result in a conflict with '%s'.", o["IPAddress"], x.path)
		}
	}
	return nil
}

// portsOverlap reports whether two rules have a common port.
func portsOverlap(a, b object) bool {
	for _, p := range portsOf(a) {
		for _, q := range portsOf(b) {
			if p[0] <= q[1] && q[0] <= p[1] {
				return true
			}
		}
	}
	return false
}

func portsOf(rule object) [][2]int {
	spans := tree.Texts(rule, "ports")
	if r := tree.Text(rule, "portRange"); r != "" {
		spans = append(spans, r)
	}
	var out [][2]int
	for _, s := range spans {
		from, to, isRange := strings.Cut(s, "-")
		if !isRange {
			to = from
		}
		a, _ := strconv.Atoi(from) // text that is not a number is port zero
		b, _ := strconv.Atoi(to)
		out = append(out, [2]int{a, b})
	}
	if len(out) == 0 {
		return [][2]int{{1, 65535}}
	}
	return out
}

func (c *call) setTarget() (object, error) {
	k := c.kinds["forwardingRules"]
	x, err := k.findChangeable(c)
	if err != nil {
		return nil, err
	}
	path, err := c.resolveReference(tree.Text(c.body, "target"), "target", []string{"targetPools"})
	if err != nil {
		return nil, err
	}
	return c.startChange("SetTarget", x, func(context.Context) error {
		x.o["target"] = link(path)
		k.setFingerprint(x.o)
		return nil
	})
}

// poolHealth returns the health of an instance in a target pool.
func (c *call) poolHealth() (object, error) {
	x, err := c.kinds["targetPools"].find(c)
	if err != nil {
		return nil, err
	}
	path, err := c.resolveReference(tree.Text(c.body, "instance"), "instance", []string{"instances"})
	if err != nil {
		return nil, err
	}
	if !slices.Contains(tree.Texts(x.o, "instances"), link(path)) {
		return nil, invalid("instance", c.body["instance"], "It is not in the target pool.")
	}
	port := 80
	for _, url := range tree.Texts(x.o, "healthChecks") {
		port = int(tree.Number(c.entries[pathOf(url)].o, "port"))
	}
	out := list{}
	for _, r := range sortedBy(c.kinds["forwardingRules"].entriesBelow(c, c.scope()+"/"), func(x *entry) string { return x.path }) {
		if r.o["target"] == x.o["selfLink"] {
			status := c.health(c.entries[path], port)
			status["forwardingRuleIp"], status["forwardingRule"] = r.o["IPAddress"], r.o["selfLink"]
			out = append(out, status)
		}
	}
	answer := object{"kind": "compute#targetPoolInstanceHealth"}
	if len(out) > 0 {
		answer["healthStatus"] = out
	}
	return answer, nil
}

// health returns the health of an instance at a port.
func (c *call) health(x *entry, port int) object {
	state := "UNHEALTHY"
	if tree.Text(x.o, "status") == "RUNNING" && (c.o.Healthy == nil || c.o.Healthy(c.instance(x), port)) {
		state = "HEALTHY"
	}
	out := object{"instance": x.o["selfLink"], "healthState": state, "port": int64(port)}
	if nics := tree.Subs(x.o, "networkInterfaces"); len(nics) > 0 {
		out["ipAddress"] = nics[0]["networkIP"]
	}
	return out
}

// backendHealth returns the health of the instances in a group of a backend service.
func (c *call) backendHealth() (object, error) {
	x, err := c.kinds["regionBackendServices"].find(c)
	if err != nil {
		return nil, err
	}
	path, err := c.resolveReference(tree.Text(c.body, "group"), "group", []string{"instanceGroups"})
	if err != nil {
		return nil, err
	}
	if !slices.ContainsFunc(tree.Subs(x.o, "backends"), func(b object) bool { return b["group"] == link(path) }) {
		return nil, invalid("group", c.body["group"], "It is not in the backend service.")
	}
	port := 80
	for _, url := range tree.Texts(x.o, "healthChecks") {
		check := c.entries[pathOf(url)].o
		port = int(tree.Number(tree.Sub(check, protocolsOfChecks[tree.Text(check, "type")]), "port"))
	}
	out := list{}
	for _, member := range c.membersOf(path) {
		out = append(out, c.health(member, port))
	}
	answer := object{"kind": "compute#backendServiceGroupHealth"}
	if len(out) > 0 {
		answer["healthStatus"] = out
	}
	return answer, nil
}
