package emulator_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"sigs.k8s.io/yaml"

	"kops.local/kops/internal/platform/hetzner/emulator"
	"kops.local/kops/internal/standin/tree"
)

func subnet(r string) object {
	return object{"type": "cloud", "network_zone": "eu-central", "ip_range": r}
}

func TestNetworksHaveSubnetsAndRoutes(t *testing.T) {
	c := play(t, emulator.Options{})
	for words, body := range map[string]object{
		"ip_range": {"ip_range": "10.0.0.0/25"}, "is not a private range": {"ip_range": "192.0.2.0/24"}, "or more addresses": {"ip_range": "10.0.0.1/16"}, "private": {"ip_range": "fd00::/64"},
		"in the network 10.0.0.0/16":             {"ip_range": "10.0.0.0/16", "subnets": list{subnet("10.1.0.0/24")}},
		"is not a range in the network":          {"ip_range": "10.0.0.0/16", "subnets": list{subnet("10.0.0.0/30")}},
		"an address that a server":               {"ip_range": "10.0.0.0/16", "routes": list{object{"destination": "10.100.0.0/24", "gateway": "10.1.0.2"}}},
		"no vSwitch":                             {"ip_range": "10.0.0.0/16", "subnets": list{object{"type": "vswitch", "network_zone": "eu-central", "ip_range": "10.0.0.0/24"}}},
		"\"10.100.0.1/24\" is not a range":       {"ip_range": "10.0.0.0/16", "routes": list{object{"destination": "10.100.0.1/24", "gateway": "10.0.0.2"}}},
		"10.0.0.0/16 overlaps with a subnet":     {"ip_range": "10.0.0.0/8", "subnets": list{subnet("10.0.0.0/24")}, "routes": list{object{"destination": "10.0.0.0/16", "gateway": "10.0.0.2"}}},
		"that a server in the network can have]": {"ip_range": "10.0.0.0/16", "routes": list{object{"destination": "10.100.0.0/24", "gateway": "10.0.0.1"}}},
	} {
		c.refused(422, "invalid_input", words, "POST", "/networks", tree.MergePatch(object{"name": "n"}, body))
	}
	c.refused(422, "networks_overlap", "", "POST", "/networks", object{"name": "n", "ip_range": "10.0.0.0/16", "subnets": list{subnet("10.0.0.0/24"), subnet("10.0.0.128/25")}})
	n := c.made("/networks", object{"name": "n", "ip_range": "10.0.0.0/16", "subnets": list{subnet("10.0.0.0/24")}})
	path := fmt.Sprintf("/networks/%d/actions/", n)
	c.done("/networks", n, "add_subnet", object{"type": "cloud", "network_zone": "eu-central"}, "")
	c.refused(422, "networks_overlap", "", "POST", path+"add_subnet", subnet("10.0.1.0/25"))
	route := object{"destination": "10.100.0.0/24", "gateway": "10.0.1.2"}
	c.done("/networks", n, "add_route", route, "")
	c.refused(409, "uniqueness_error", "", "POST", path+"add_route", route)
	c.done("/networks", n, "change_ip_range", object{"ip_range": "10.0.0.0/12"}, "")
	c.refused(422, "invalid_input", "can only be extended", "POST", path+"change_ip_range", object{"ip_range": "10.0.0.0/16"})
	o := c.get("/networks", n)
	if s := tree.Subs(o, "subnets"); len(s) != 2 || s[1]["ip_range"] != "10.0.1.0/24" || s[1]["gateway"] != "10.0.0.1" || o["ip_range"] != "10.0.0.0/12" || fmt.Sprint(o["routes"]) != "[map[destination:10.100.0.0/24 gateway:10.0.1.2]]" {
		t.Errorf("it is %v", o)
	}
	s := c.server("s", object{"networks": list{n}})
	c.refused(422, "service_error", "cannot remove subnet", "POST", path+"delete_subnet", object{"ip_range": "10.0.0.0/24"})
	c.refused(422, "invalid_input", "no such subnet", "POST", path+"delete_subnet", object{"ip_range": "10.9.0.0/24"})
	c.refused(422, "invalid_input", "no such route", "POST", path+"delete_route", object{"destination": "10.100.0.0/24", "gateway": "10.0.1.3"})
	c.done("/networks", n, "delete_route", route, "")
	c.done("/networks", n, "delete_subnet", object{"ip_range": "10.0.1.0/24"}, "")
	if o := c.get("/networks", n); len(tree.Items(o, "subnets")) != 1 || len(tree.Items(o, "routes")) != 0 || fmt.Sprint(o["servers"]) != fmt.Sprint([]int64{s}) {
		t.Errorf("it is %v", o)
	}
}

func TestServersAndLoadBalancersJoinNetworks(t *testing.T) {
	h := &hosts{}
	c := play(t, emulator.Options{Machines: h})
	n, none := c.network(), c.made("/networks", object{"name": "none", "ip_range": "10.0.0.0/16"})
	s := c.server("s", nil)
	lb := c.made("/load_balancers", object{"name": "lb", "load_balancer_type": "lb11", "location": "fsn1"})
	for path, x := range map[string]int64{"/servers": s, "/load_balancers": lb} {
		at := fmt.Sprintf("%s/%d/actions/", path, x)
		c.refused(422, "invalid_input", "network with ID 99", "POST", at+"attach_to_network", object{"network": 99})
		c.refused(422, "no_subnet_available", "", "POST", at+"attach_to_network", object{"network": none})
		c.refused(422, "invalid_input", "is not an address in a subnet", "POST", at+"attach_to_network", object{"network": n, "ip": "10.1.0.2"})
		c.refused(422, "ip_not_available", "", "POST", at+"attach_to_network", object{"network": n, "ip": "10.0.0.1"})
		c.refused(422, "invalid_input", "not attached", "POST", at+"detach_from_network", object{"network": n})
	}
	c.done("/load_balancers", lb, "attach_to_network", object{"network": n}, "")
	c.refused(422, "ip_not_available", "", "POST", fmt.Sprintf("/servers/%d/actions/attach_to_network", s), object{"network": n, "ip": "10.0.0.2"})
	c.done("/servers", s, "attach_to_network", object{"network": n}, "")
	c.refused(422, "server_already_attached", "", "POST", fmt.Sprintf("/servers/%d/actions/attach_to_network", s), object{"network": n})
	c.refused(422, "load_balancer_already_attached", "", "POST", fmt.Sprintf("/load_balancers/%d/actions/attach_to_network", lb), object{"network": n})
	if p := tree.Subs(c.get("/servers", s), "private_net"); p[0]["ip"] != "10.0.0.3" || p[0]["mac_address"] != "86:00:0a:00:00:03" {
		t.Errorf("the server is at %v", p)
	}
	if p := tree.Subs(c.get("/load_balancers", lb), "private_net"); p[0]["ip"] != "10.0.0.2" {
		t.Errorf("the load balancer is at %v", p)
	}
	c.done("/servers", s, "detach_from_network", object{"network": n}, "")
	c.done("/servers", s, "attach_to_network", object{"network": n, "ip": "10.0.7.7"}, "")
	if got := h.take(); got != "start s, plug s 10.0.0.3, plug s, plug s 10.0.7.7" {
		t.Errorf("the machine: %s", got)
	}
	c.call("DELETE", fmt.Sprintf("/networks/%d", n), nil)
	if len(tree.Items(c.get("/servers", s), "private_net")) != 0 || len(tree.Items(c.get("/load_balancers", lb), "private_net")) != 0 || h.take() != "plug s" {
		t.Error("they are still attached")
	}
}

func TestVolumesAreOnOneServer(t *testing.T) {
	h := &hosts{}
	c := play(t, emulator.Options{Machines: h})
	for words, body := range map[string]object{
		"10 to 10240 GB": {"size": 9, "location": "fsn1"}, "either a location or a server": {"size": 10}, "server with ID 99": {"size": 10, "server": 99},
		"location \"x1\" was not found": {"size": 10, "location": "x1"},
	} {
		c.refused(422, "invalid_input", words, "POST", "/volumes", tree.MergePatch(object{"name": "v"}, body))
	}
	s, far := c.server("s", nil), c.server("far", object{"location": "hel1"})
	out := c.call("POST", "/volumes", object{"name": "v", "size": 10, "location": "fsn1", "labels": object{"a": "b"}})
	v := tree.Number(tree.Sub(out, "volume"), "id")
	at := fmt.Sprintf("/volumes/%d", v)
	if tree.Sub(out, "volume")["status"] != "creating" {
		t.Errorf("it is %v", out)
	}
	c.refused(423, "locked", "", "POST", at+"/actions/attach", object{"server": s})
	h.take()
	c.wait(time.Minute)
	c.refused(422, "invalid_input", "different locations", "POST", at+"/actions/attach", object{"server": far})
	c.refused(422, "service_error", "not attached", "POST", at+"/actions/detach", nil)
	a := tree.Sub(c.call("POST", at+"/actions/attach", object{"server": s}), "action")
	if got := fmt.Sprint(a["resources"]); got != fmt.Sprintf("[map[id:%d type:volume] map[id:%d type:server]]", v, s) {
		t.Error(got)
	}
	c.refused(423, "locked", "", "POST", fmt.Sprintf("/servers/%d/actions/poweroff", s), nil)
	c.wait(time.Minute)
	if o := c.get("/volumes", v); o["server"] != s || o["status"] != "available" || o["linux_device"] != fmt.Sprint("/dev/disk/by-id/scsi-0HC_Volume_", v) || h.take() != "plug s v" {
		t.Errorf("it is %v", o)
	}
	c.refused(422, "volume_already_attached", "", "POST", at+"/actions/attach", object{"server": s})
	c.refused(422, "service_error", "still attached to a server", "DELETE", at, nil)
	c.refused(422, "invalid_input", "can only grow", "POST", at+"/actions/resize", object{"size": 9})
	c.done("/volumes", v, "resize", object{"size": 20}, "")
	c.done("/volumes", v, "detach", nil, "")
	if o := c.get("/volumes", v); o["server"] != nil || o["size"] != int64(20) || h.take() != "plug s" {
		t.Errorf("it is %v", o)
	}
	c.call("DELETE", at, nil)
	w := c.made("/volumes", object{"name": "w", "size": 10, "server": s})
	if o := c.get("/volumes", w); o["server"] != s || h.take() != "plug s w" {
		t.Errorf("it is %v", o)
	}
	for i := range 15 {
		c.made("/volumes", object{"name": fmt.Sprint("more", i), "size": 10, "server": s})
	}
	last := c.made("/volumes", object{"name": "last", "size": 10, "location": "fsn1"})
	c.refused(403, "resource_limit_exceeded", "16 volumes", "POST", fmt.Sprintf("/volumes/%d/actions/attach", last), object{"server": s})
}

func TestFirewallsAreApplied(t *testing.T) {
	c := play(t, emulator.Options{})
	ssh := object{"direction": "in", "protocol": "tcp", "port": "22", "source_ips": list{"0.0.0.0/0"}}
	for words, body := range map[string]object{
		"a port is required": {"rules": list{object{"direction": "in", "protocol": "tcp", "source_ips": list{"0.0.0.0/0"}}}},
		"nothing else":       {"rules": list{object{"direction": "in", "protocol": "icmp", "port": "1", "source_ips": list{"0.0.0.0/0"}}}},
		"source_ips":         {"rules": list{object{"direction": "in", "protocol": "icmp"}}},
		"destination_ips":    {"rules": list{object{"direction": "out", "protocol": "icmp"}}},
		"server with ID 99":  {"apply_to": list{object{"type": "server", "server": object{"id": 99}}}},
		"apply_to.server":    {"apply_to": list{object{"type": "server"}}},
		"label_selector":     {"apply_to": list{object{"type": "label_selector", "label_selector": object{"selector": "a in"}}}},
	} {
		c.refused(422, "invalid_input", words, "POST", "/firewalls", tree.MergePatch(object{"name": "f"}, body))
	}
	many := list{}
	for range 51 {
		many = append(many, ssh)
	}
	c.refused(422, "invalid_input", "at most 50 rules", "POST", "/firewalls", object{"name": "f", "rules": many})
	selector := object{"type": "label_selector", "label_selector": object{"selector": "role=node"}}
	f := c.made("/firewalls", object{"name": "f", "rules": list{ssh}, "apply_to": list{selector}})
	at := fmt.Sprintf("/firewalls/%d", f)
	s := c.server("s", object{"labels": object{"role": "node"}})
	other := c.server("other", nil)
	o := c.get("/firewalls", f)
	if fmt.Sprint(o["applied_to"]) != fmt.Sprintf("[map[applied_to_resources:[map[server:map[id:%d] type:server]] label_selector:map[selector:role=node] type:label_selector]]", s) ||
		fmt.Sprint(o["rules"]) != "[map[description:<nil> destination_ips:[] direction:in port:22 protocol:tcp source_ips:[0.0.0.0/0]]]" {
		t.Errorf("it is %v", o)
	}
	applied := func(id int64) bool {
		t.Helper()
		return len(tree.Items(tree.Sub(c.get("/servers", id), "public_net"), "firewalls")) > 0
	}
	if !applied(s) || applied(other) {
		t.Error("it is applied to others")
	}
	c.done("/firewalls", f, "set_rules", object{"rules": list{}}, "")
	c.done("/firewalls", f, "apply_to_resources", object{"apply_to": list{object{"type": "server", "server": object{"id": other}}}}, "")
	if o := c.get("/firewalls", f); len(tree.Items(o, "rules")) != 0 || !applied(other) {
		t.Errorf("it is %v", o)
	}
	c.refused(422, "resource_in_use", "still in use", "DELETE", at, nil)
	c.done("/firewalls", f, "remove_from_resources", object{"remove_from": list{object{"type": "server", "server": object{"id": other}}}}, "")
	c.refused(422, "resource_in_use", "", "DELETE", at, nil)
	c.call("DELETE", fmt.Sprintf("/servers/%d", s), nil)
	c.wait(time.Minute)
	c.call("DELETE", at, nil)
}

func TestLoadBalancersHaveServicesAndTargets(t *testing.T) {
	c := play(t, emulator.Options{Healthy: func(s emulator.Server, port int) bool { return port == 443 && s.Name != "sick" }})
	n := c.network()
	service := func(port int) object {
		return object{"protocol": "tcp", "listen_port": port, "destination_port": port, "proxyprotocol": false, "health_check": object{"protocol": "tcp", "port": port, "interval": 15, "timeout": 10, "retries": 3}}
	}
	selector := object{"type": "label_selector", "label_selector": object{"selector": "role=cp"}, "use_private_ip": true}
	base := object{"name": "lb", "load_balancer_type": "lb11", "location": "fsn1", "targets": list{selector}, "services": list{service(443), service(3988)}, "network": n, "algorithm": object{"type": "least_connections"}}
	for words, more := range map[string]object{
		"load_balancer_type \"lb99\"": {"load_balancer_type": "lb99"}, "location \"x1\"": {"location": "x1"}, "either a location or a network zone": {"location": nil}, "network with ID 99": {"network": 99},
		"either a location or a network": {"network_zone": "eu-central"}, "no network zone \"moon\"": {"network_zone": "moon", "location": nil},
		"targets.server": {"targets": list{object{"type": "server"}}},
	} {
		c.refused(422, "invalid_input", words, "POST", "/load_balancers", tree.MergePatch(base, more))
	}
	c.refused(422, "load_balancer_not_attached_to_network", "", "POST", "/load_balancers", tree.MergePatch(base, object{"network": nil}))
	c.refused(422, "source_port_already_used", "", "POST", "/load_balancers", tree.MergePatch(base, object{"services": list{service(443), service(443)}}))
	c.refused(422, "target_already_defined", "", "POST", "/load_balancers", tree.MergePatch(base, object{"targets": list{selector, selector}}))
	lb := c.made("/load_balancers", base)
	at := fmt.Sprintf("/load_balancers/%d", lb)
	s := c.server("s", object{"labels": object{"role": "cp"}, "networks": list{n}})
	sick, alone := c.server("sick", object{"labels": object{"role": "cp"}, "networks": list{n}}), c.server("alone", nil)
	o := c.get("/load_balancers", lb)
	if p := tree.Subs(o, "private_net"); len(p) != 1 || p[0]["ip"] != "10.0.0.2" || tree.Text(tree.Sub(tree.Sub(o, "public_net"), "ipv4"), "ip") != "198.19.0.2" || tree.Sub(o, "algorithm")["type"] != "least_connections" {
		t.Errorf("it is %v", o)
	}
	var health []string
	for _, x := range tree.Subs(tree.Subs(o, "targets")[0], "targets") {
		health = append(health, fmt.Sprint(tree.Sub(x, "server")["id"], x["use_private_ip"], x["health_status"]))
	}
	if got, want := strings.Join(health, "; "), fmt.Sprintf("%d true [map[listen_port:443 status:healthy] map[listen_port:3988 status:unhealthy]]; %d true [map[listen_port:443 status:unhealthy] map[listen_port:3988 status:unhealthy]]", s, sick); got != want {
		t.Errorf("its targets are %s, want %s", got, want)
	}
	c.refused(422, "server_not_attached_to_network", "", "POST", at+"/actions/add_target", object{"type": "server", "server": object{"id": alone}, "use_private_ip": true})
	c.done("/load_balancers", lb, "add_target", object{"type": "server", "server": object{"id": alone}}, "")
	c.refused(422, "target_already_defined", "", "POST", at+"/actions/add_target", object{"type": "server", "server": object{"id": alone}})
	c.refused(422, "source_port_already_used", "", "POST", at+"/actions/add_service", service(443))
	c.refused(422, "invalid_input", "no service at port 80", "POST", at+"/actions/update_service", object{"listen_port": 80})
	c.refused(422, "invalid_input", "no service at port 80", "POST", at+"/actions/delete_service", object{"listen_port": 80})
	c.done("/load_balancers", lb, "delete_service", object{"listen_port": 3988}, "")
	c.done("/load_balancers", lb, "update_service", object{"listen_port": 443, "destination_port": 6443, "health_check": object{"retries": 5}}, "")
	c.done("/load_balancers", lb, "add_service", service(80), "")
	c.done("/load_balancers", lb, "change_algorithm", object{"type": "round_robin"}, "")
	c.done("/load_balancers", lb, "change_type", object{"load_balancer_type": "lb21"}, "")
	c.refused(422, "invalid_input", "lb99", "POST", at+"/actions/change_type", object{"load_balancer_type": "lb99"})
	c.done("/load_balancers", lb, "disable_public_interface", nil, "")
	o = c.get("/load_balancers", lb)
	services := tree.Subs(o, "services")
	if len(services) != 2 || services[0]["destination_port"] != int64(6443) || tree.Sub(services[0], "health_check")["retries"] != int64(5) || tree.Sub(services[0], "health_check")["interval"] != int64(15) ||
		tree.Sub(o, "load_balancer_type")["name"] != "lb21" || tree.Sub(o, "public_net")["enabled"] != false || len(tree.Items(o, "targets")) != 2 || tree.Subs(tree.Subs(o, "targets")[1], "health_status")[0]["status"] != "unhealthy" {
		t.Errorf("it is %v", o)
	}
	if o := c.get("/servers", alone); fmt.Sprint(o["load_balancers"]) != fmt.Sprint([]int64{lb}) {
		t.Errorf("the server is %v", o)
	}
	c.done("/load_balancers", lb, "enable_public_interface", nil, "")
	c.call("PUT", at, object{"labels": object{"a": "b"}})
	if o := c.get("/load_balancers", lb); tree.Sub(o, "labels")["a"] != "b" || c.Inventory()[0] != "load_balancers/lb" {
		t.Errorf("it is %v, and there is %s", o, c.Inventory())
	}
	c.done("/load_balancers", lb, "remove_target", object{"type": "label_selector", "label_selector": object{"selector": "role=cp"}}, "")
	c.refused(422, "invalid_input", "no such target", "POST", at+"/actions/remove_target", object{"type": "server", "server": object{"id": s}})
	c.call("DELETE", fmt.Sprintf("/servers/%d", alone), nil)
	c.wait(time.Minute)
	if o := c.get("/load_balancers", lb); len(tree.Items(o, "targets")) != 0 {
		t.Errorf("it is %v", o)
	}
	c.call("DELETE", at, nil)
}

func TestZonesHaveRecordSets(t *testing.T) {
	c := play(t, emulator.Options{})
	c.refused(422, "unsupported_error", "", "POST", "/zones", object{"name": "example.com", "mode": "secondary"})
	z := c.made("/zones", object{"name": "example.com", "mode": "primary", "ttl": 60, "rrsets": list{object{"name": "old", "type": "TXT", "records": list{object{"value": "\"x\""}}}}})
	at := fmt.Sprintf("/zones/%d/rrsets", z)
	if got := c.names("/zones/example.com/rrsets"); got != "@ @ old" || c.names(at+"?type=NS") != "@" || c.names("/zones?name=example.com") != "example.com" {
		t.Errorf("there is %s", got)
	}
	c.refused(422, "invalid_input", "at least one record", "POST", at, object{"name": "api", "type": "A", "records": list{}})
	c.call("POST", at, object{"name": "api", "type": "A", "ttl": 60, "records": list{object{"value": "192.0.2.1"}}})
	c.refused(423, "locked", "", "DELETE", fmt.Sprintf("/zones/%d", z), nil)
	c.wait(time.Minute)
	c.refused(409, "uniqueness_error", "", "POST", at, object{"name": "api", "type": "A", "records": list{object{"value": "192.0.2.1"}}})
	c.refused(404, "not_found", "", "GET", at+"/api/AAAA", nil)
	c.refused(404, "not_found", "", "POST", at+"/none/A/actions/set_records", object{"records": list{object{"value": "192.0.2.2"}}})
	c.call("POST", at+"/api/A/actions/set_records", object{"records": list{object{"value": "192.0.2.2"}, object{"value": "192.0.2.3", "comment": "new"}}})
	c.call("POST", at+"/api/A/actions/change_ttl", object{"ttl": 120})
	c.wait(time.Minute)
	if s := tree.Sub(c.call("GET", "/zones/example.com/rrsets/api/A", nil), "rrset"); fmt.Sprint(s["records"]) != "[map[value:192.0.2.2] map[comment:new value:192.0.2.3]]" || s["ttl"] != int64(120) || s["id"] != "api/A" {
		t.Errorf("it is %v", s)
	}
	if got := strings.Join(c.Inventory(), " "); got != "rrsets/example.com/api/A rrsets/example.com/old/TXT zones/example.com" {
		t.Errorf("there is %s", got)
	}
	c.call("DELETE", at+"/api/A", nil)
	c.wait(time.Minute)
	c.refused(404, "not_found", "", "GET", at+"/api/A", nil)
	c.call("DELETE", "/zones/example.com", nil)
	c.wait(time.Minute)
	if c.refused(404, "not_found", "", "GET", "/zones/example.com", nil); c.Inventory() != nil {
		t.Errorf("left: %s", c.Inventory())
	}
}

func TestAServerReadsItsMetadata(t *testing.T) {
	c := play(t, emulator.Options{})
	id := c.server("s", object{"networks": list{c.network()}, "user_data": "#!/bin/sh\n"})
	get := func(h http.Handler, method, path string) (int, string) {
		w := httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequest(method, path, nil))
		return w.Code, w.Body.String()
	}
	m := c.Metadata("s")
	for path, want := range map[string]string{
		"metadata/instance-id": fmt.Sprint(id), "metadata/hostname": "s", "metadata/public-ipv4": "198.18.0.2", "metadata/region": "eu-central", "metadata/availability-zone": "fsn1-dc14", "userdata": "#!/bin/sh\n",
	} {
		if status, got := get(m, "GET", "/hetzner/v1/"+path); status != 200 || got != want {
			t.Errorf("%s: got %d %q, want %q", path, status, got, want)
		}
	}
	_, text := get(m, "GET", "/hetzner/v1/metadata/private-networks")
	var nets []struct {
		IP        string `json:"ip"`
		Number    int    `json:"interface_num"`
		MAC       string `json:"mac_address"`
		Network   string `json:"network"`
		Subnet    string `json:"subnet"`
		Gateway   string `json:"gateway"`
		NetworkID int64  `json:"network_id"`
	}
	if err := yaml.Unmarshal([]byte(text), &nets); err != nil || len(nets) != 1 || nets[0].IP != "10.0.0.2" || nets[0].Number != 1 || nets[0].MAC != "86:00:0a:00:00:02" || !strings.Contains(text, "  network_name: n\n") || nets[0].Network != "10.0.0.0/16" || nets[0].Subnet != "10.0.0.0/16" || nets[0].Gateway != "10.0.0.1" || nets[0].NetworkID == 0 {
		t.Errorf("its networks are %s, %v", text, err)
	}
	_, text = get(m, "GET", "/hetzner/v1/metadata")
	var all map[string]any
	if err := yaml.Unmarshal([]byte(text), &all); err != nil || all["hostname"] != "s" || all["instance-id"] != float64(id) {
		t.Errorf("all of it is %s, %v", text, err)
	}
	for _, path := range []string{"/hetzner/v1/metadata/color", "/hetzner/v1/", "/", "/metadata/hostname"} {
		if status, _ := get(m, "GET", path); status != http.StatusNotFound {
			t.Errorf("%s: got %d", path, status)
		}
	}
	if status, _ := get(m, "POST", "/hetzner/v1/metadata/hostname"); status != http.StatusMethodNotAllowed {
		t.Errorf("got %d", status)
	}
	if status, _ := get(c.Metadata("none"), "GET", "/hetzner/v1/metadata/hostname"); status != http.StatusServiceUnavailable {
		t.Errorf("got %d", status)
	}
}

func TestTheCatalogueIsThere(t *testing.T) {
	c := play(t, emulator.Options{Images: []string{"ubuntu-24.04"}})
	for path, want := range map[string]string{
		"/locations": "fsn1 nbg1 hel1 ash hil sin", "/images": "ubuntu-24.04 ubuntu-24.04", "/images?architecture=arm&type=system": "ubuntu-24.04", "/load_balancer_types": "lb11 lb21 lb31", "/server_types?name=cx23": "cx23",
	} {
		if got := c.names(path); got != want {
			t.Errorf("%s: got %s, want %s", path, got, want)
		}
	}
	for _, path := range []string{"/locations", "/images", "/load_balancer_types", "/server_types"} {
		first := tree.Subs(c.call("GET", path, nil), path[1:])[0]
		if one := c.get(path, tree.Number(first, "id")); one["name"] != first["name"] {
			t.Errorf("%s: got %v", path, one)
		}
	}
}
