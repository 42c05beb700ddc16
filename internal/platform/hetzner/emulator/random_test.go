package emulator_test

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"kops.local/kops/internal/platform/hetzner/emulator"
	"kops.local/kops/internal/standin"
	"kops.local/kops/internal/standin/tree"
)

// calls are requests about random objects: {servers} is the ID of one, and {n} a small number.
const calls = `
POST /servers {"name":"s{n}","server_type":"cx23","image":"ubuntu-24.04","location":"fsn1","networks":[{networks}],"volumes":[{volumes}],"firewalls":[{"firewall":{firewalls}}],"placement_group":{placement_groups},"labels":{"n":"{n}"}}
POST /servers {"name":"s{n}","server_type":"cx23","image":"debian-13","location":"fsn1","start_after_create":false}
POST /servers {"name":"s{n}","server_type":"cax11","image":"debian-13","networks":[{networks}],"labels":{"n":"{n}"}}
DELETE /servers/{servers}
PUT /servers/{servers} {"name":"s{n}","labels":{"n":"{n}"}}
POST /servers/{servers}/actions/poweron
POST /servers/{servers}/actions/poweroff
POST /servers/{servers}/actions/reset
POST /servers/{servers}/actions/shutdown
POST /servers/{servers}/actions/attach_to_network {"network":{networks}}
POST /servers/{servers}/actions/detach_from_network {"network":{networks}}
POST /networks {"name":"n{n}","ip_range":"10.{n}.0.0/16","subnets":[{"type":"cloud","network_zone":"eu-central","ip_range":"10.{n}.{n}.0/24"}]}
DELETE /networks/{networks}
POST /networks/{networks}/actions/add_subnet {"type":"cloud","network_zone":"eu-central"}
POST /networks/{networks}/actions/delete_subnet {"ip_range":"10.{n}.{n}.0/24"}
POST /networks/{networks}/actions/add_route {"destination":"192.168.{n}.0/24","gateway":"10.{n}.{n}.2"}
POST /volumes {"name":"v{n}","size":1{n},"location":"fsn1"}
POST /volumes {"name":"v{n}","size":1{n},"server":{servers}}
DELETE /volumes/{volumes}
POST /volumes/{volumes}/actions/attach {"server":{servers}}
POST /volumes/{volumes}/actions/detach
POST /volumes/{volumes}/actions/resize {"size":2{n}}
POST /firewalls {"name":"f{n}","apply_to":[{"type":"label_selector","label_selector":{"selector":"n={n}"}}]}
DELETE /firewalls/{firewalls}
POST /firewalls/{firewalls}/actions/apply_to_resources {"apply_to":[{"type":"server","server":{"id":{servers}}}]}
POST /firewalls/{firewalls}/actions/remove_from_resources {"remove_from":[{"type":"server","server":{"id":{servers}}}]}
POST /load_balancers {"name":"l{n}","load_balancer_type":"lb11","network_zone":"eu-central","network":{networks},"targets":[{"type":"label_selector","label_selector":{"selector":"n={n}"},"use_private_ip":true}]}
DELETE /load_balancers/{load_balancers}
POST /load_balancers/{load_balancers}/actions/add_target {"type":"server","server":{"id":{servers}}}
POST /load_balancers/{load_balancers}/actions/remove_target {"type":"server","server":{"id":{servers}}}
POST /load_balancers/{load_balancers}/actions/add_service {"protocol":"tcp","listen_port":44{n},"destination_port":443,"proxyprotocol":false,"health_check":{"protocol":"tcp","port":443,"interval":15,"timeout":10,"retries":3}}
POST /load_balancers/{load_balancers}/actions/delete_service {"listen_port":44{n}}
POST /load_balancers/{load_balancers}/actions/attach_to_network {"network":{networks}}
POST /load_balancers/{load_balancers}/actions/detach_from_network {"network":{networks}}
POST /placement_groups {"name":"g{n}","type":"spread"}
DELETE /placement_groups/{placement_groups}
GET /servers
GET /networks
GET /load_balancers
GET /firewalls
GET /placement_groups
GET /servers/actions`

// TestAnyCallsLeaveNothingBroken makes random calls, with faults, and then deletes everything.
func TestAnyCallsLeaveNothingBroken(t *testing.T) {
	kinds := []string{"servers", "load_balancers", "firewalls", "volumes", "networks", "placement_groups"}
	all := strings.Split(strings.TrimSpace(calls), "\n")
	for seed := range uint64(12) {
		r := rand.New(rand.NewPCG(seed, 0))
		c := play(t, emulator.Options{Rate: 100000})
		accepted := 0
		for range 200 {
			text := all[r.IntN(len(all))]
			for _, k := range kinds {
				for strings.Contains(text, "{"+k+"}") {
					id := int64(99999)
					if found := tree.Subs(c.call("GET", "/"+k, nil), k); len(found) > 0 {
						id = tree.Number(found[r.IntN(len(found))], "id")
					}
					text = strings.Replace(text, "{"+k+"}", fmt.Sprint(id), 1)
				}
			}
			text = strings.ReplaceAll(text, "{n}", fmt.Sprint(r.IntN(3)))
			if r.IntN(8) == 0 {
				c.Inject(standin.Fault{When: standin.Inside, Error: emulator.Error{Status: 422, Code: "service_error", Message: "broken"}})
			}
			parts := strings.SplitN(text, " ", 3)
			var body any
			if len(parts) == 3 {
				body = parts[2]
			}
			switch a := c.send(parts[0], parts[1], body); {
			case a.status >= 500 || a.status == 0 || a.status == 401:
				t.Errorf("seed %d: %s: %d %v", seed, text, a.status, a.body)
			case a.status < 300:
				accepted++
			}
			c.wait(time.Duration(r.IntN(5)) * time.Second)
		}
		c.wait(time.Hour)
		if running := c.names("/servers/actions?status=running"); running != "" || accepted < 50 {
			t.Errorf("seed %d: %d calls are accepted, and still run: %s", seed, accepted, running)
		}
		c.Inject(standin.Fault{When: standin.Never, Times: 1000}) // so that none is left that fails
		c.deleteAll(kinds)
		if left := c.Inventory(); left != nil || c.names("/primary_ips") != "" {
			t.Errorf("seed %d: left: %s", seed, left)
		}
	}
}

// deleteAll deletes everything, kind by kind.
func (c *cloud) deleteAll(kinds []string) {
	c.Helper()
	for _, k := range kinds {
		for _, o := range tree.Subs(c.call("GET", "/"+k, nil), k) {
			at := fmt.Sprintf("/%s/%d", k, tree.Number(o, "id"))
			if a := c.send("DELETE", at, nil); a.status >= 300 {
				c.Errorf("DELETE %s: %v", at, a.body)
			}
		}
		c.wait(time.Hour)
	}
}
