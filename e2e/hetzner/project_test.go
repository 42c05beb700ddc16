package hetzner

import (
	"context"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"kops.local/kops/internal/contract/layout"
	"kops.local/kops/internal/platform"
	"kops.local/kops/internal/platform/aws/awstest"
	"kops.local/kops/internal/platform/hetzner/emulator"
	"kops.local/kops/internal/platform/hetzner/hetznerapi"
	"kops.local/kops/internal/platform/hetzner/hetznercloud"
	"kops.local/kops/internal/store"
	"kops.local/kops/internal/store/s3"
	"kops.local/kops/internal/test/cloudsuite"
	"kops.local/kops/internal/test/proxy"
)

const (
	bucket   = "state-store"
	token    = "0123456789012345678901234567890123456789012345678901234567890123"
	readOnly = "readonly89012345678901234567890123456789012345678901234567890123"
)

// project is an emulated project.
type project struct {
	testing.TB
	*emulator.Emulator
	api *hetznerapi.Client // bypasses the proxy
}

// of returns the project of a world.
func of(w *cloudsuite.World) *project { return w.Own.(*project) }

func newProject(t testing.TB) *project {
	t.Helper()
	e, err := emulator.New(emulator.Options{Token: token, ReadOnly: readOnly, Latency: 20 * time.Millisecond, Boot: 50 * time.Millisecond,
		OnBug: func(err error) { t.Errorf("the emulator: %v", err) }})
	if err != nil {
		t.Fatal(err)
	}
	return &project{TB: t, Emulator: e}
}

// open returns the project as an account with a state store, which knows its users by their keys. The
// proxy counts the requests to both.
func (p *project) open(t testing.TB) cloudsuite.Account {
	objects := awstest.Versity(t)
	objects.Bucket(t, bucket)
	state, err := store.Backends{s3.Compatible(objects.S3())}.Open(t.Context(), "hos://"+bucket)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := state.Put(t.Context(), store.ProofKey, nil, store.PutOptions{}); err != nil { // clusters leave it
		t.Fatal(err)
	}
	at, err := url.Parse(objects.URL)
	if err != nil {
		t.Fatal(err)
	}
	both := http.NewServeMux()
	both.Handle(emulator.Base+"/", p)
	both.Handle("/", httputil.NewSingleHostReverseProxy(at))
	server := httptest.NewServer(both)
	t.Cleanup(server.Close)
	p.api = hetznerapi.New(hetznerapi.Config{Endpoint: server.URL + emulator.Base, Token: token,
		Pause: func(ctx context.Context, _ time.Duration) error { time.Sleep(time.Millisecond); return ctx.Err() }})
	via := proxy.New(t, server.URL, dialect)
	return cloudsuite.Account{Proxy: via, Store: state, Objects: p.Inventory, Own: p, Env: map[string]string{"KOPS_STATE_STORE": "hos://" + bucket,
		hetznercloud.TokenVariable: token, hetznercloud.EndpointVariable: via.URL + emulator.Base,
		"S3_ENDPOINT": via.URL, "S3_ACCESS_KEY_ID": objects.AccessKey, "S3_SECRET_ACCESS_KEY": objects.SecretKey}}
}

// numbers are in the paths of objects, and at the end of the names of servers.
var numbers = regexp.MustCompile(`/[0-9]+\b|-[0-9a-f]{8,16}$`)

// dialect names the call that a request makes: its path without numbers, or the action of the store.
func dialect(r *http.Request, body []byte) proxy.Call {
	path, isAPI := strings.CutPrefix(r.URL.Path, emulator.Base+"/")
	if !isAPI {
		c := awstest.Dialect(r, body)
		c.Write = c.Write && !strings.HasSuffix(path, "/"+store.ProofKey) // the server must refuse these
		return c
	}
	return proxy.Call{Name: strings.ToLower(r.Method) + " " + numbers.ReplaceAllString(path, ""), Write: r.Method != http.MethodGet,
		Refused: func(proxy.Refusal) proxy.Answer { // the suite's only reason here: Hetzner Cloud API, "Rate Limiting"
			return proxy.Answer{Status: http.StatusTooManyRequests, Header: http.Header{"Content-Type": {"application/json"}},
				Body: []byte(`{"error":{"code":"rate_limit_exceeded","message":"limit of 3600 requests per hour reached","details":null}}`)}
		}}
}

// withoutNames removes the numbers in names of servers, which differ from run to run.
func withoutNames(inventory []string) []string {
	var out []string
	for _, s := range inventory {
		if strings.HasPrefix(s, "servers/") {
			s = numbers.ReplaceAllString(s, "")
		}
		out = append(out, s)
	}
	return out
}

// server returns the server of a machine.
func (p *project) server(m platform.Machine) emulator.Server {
	p.Helper()
	for _, s := range p.Servers() {
		if s.Name == m.Name {
			return s
		}
	}
	p.Fatalf("there is no server %s", m.Name)
	return emulator.Server{}
}

// list returns the objects of a kind that a query selects.
func list[T any](w *cloudsuite.World, kind string, query url.Values) []T {
	w.Helper()
	all, err := hetznerapi.List[T](w.Context(), of(w).api, kind, query)
	if err != nil {
		w.Fatal(err)
	}
	return all
}

// named returns the object of a kind that has a name.
func named[T any](w *cloudsuite.World, kind, name string) T {
	w.Helper()
	all := list[T](w, kind, url.Values{"name": {name}})
	if len(all) != 1 {
		w.Fatalf("there are %d %s with the name %s", len(all), kind, name)
	}
	return all[0]
}

// create creates an object of a kind.
func create[T any](w *cloudsuite.World, kind string, body map[string]any) T {
	w.Helper()
	made, err := hetznerapi.Create[T](w.Context(), of(w).api, kind, body)
	if err != nil {
		w.Fatal(err)
	}
	return made
}

// checkServers checks how many servers with a label a group has.
func checkServers(w *cloudsuite.World, group, label string, want int) {
	w.Helper()
	selector := hetznercloud.ClusterLabel + "=" + name + "," + hetznercloud.GroupLabel + "=" + group + label
	if all := list[hetznerapi.Server](w, "servers", hetznerapi.Labelled(selector)); len(all) != want {
		w.Errorf("there are %d servers with %s, want %d", len(all), selector, want)
	}
}

// checkSources checks from where the firewall of nodes lets in to SSH.
func checkSources(w *cloudsuite.World, want ...string) {
	w.Helper()
	var got []string
	for _, r := range named[hetznerapi.Firewall](w, "firewalls", "nodes."+name).Rules {
		if r.Port == "22" {
			got = append(got, r.SourceIPs...)
		}
	}
	if slices.Sort(got); !slices.Equal(got, want) {
		w.Errorf("the firewall of nodes lets in %v to SSH, want %v", got, want)
	}
}

// changed checks what changes have done.
func changed() map[string]func(*cloudsuite.World) {
	return map[string]func(*cloudsuite.World){
		"the sizes of a group":     func(w *cloudsuite.World) { checkServers(w, w.Nodes(), "", 3) },
		"a group in several zones": func(w *cloudsuite.World) { checkServers(w, "more", "", 3) },
		"labels of machines":       func(w *cloudsuite.World) { checkServers(w, w.Nodes(), ",team=a", 3) },
		"who may come in":          func(w *cloudsuite.World) { checkSources(w, "192.0.2.0/24", "2001:db8::/32") },
		"nobody may come in":       func(w *cloudsuite.World) { checkSources(w) },
		"larger disks of etcd": func(w *cloudsuite.World) {
			if v := named[hetznerapi.Volume](w, "volumes", "etcd-1.etcd-main."+name); v.Size != 30 {
				w.Errorf("the volume of etcd is %+v, want 30 GB", v)
			}
		},
		"a roll": func(w *cloudsuite.World) {
			if m := w.Machine(w.Nodes()); of(w).server(m).Type != w.Cloud.Type {
				w.Errorf("after the roll, the machine is %+v", m)
			}
		},
	}
}

// deny takes away the permission to write, which is the only one that a token may lack.
func deny(w *cloudsuite.World, rights ...string) {
	w.Env[hetznercloud.TokenVariable] = token
	if len(rights) > 0 {
		w.Env[hetznercloud.TokenVariable] = readOnly
	}
}

// keepToken checks that a cluster keeps its token if the user has one that may only read: the cluster's own
// programs could change nothing with it.
func keepToken(w *cloudsuite.World) {
	w.Small()
	w.Apply()
	before := w.Object(layout.PlatformSecrets)
	deny(w, "Read & Write")
	if r := w.Run("update", "cluster", name, "--yes"); r.Code == 0 || !strings.Contains(r.Err, "Read & Write") || w.Object(layout.PlatformSecrets) != before {
		w.Errorf("with a token that may only read: %+v", r)
	}
	deny(w)
	w.CheckUnchanged()
	w.Delete()
}

// fillUp uses up the limits of volumes and firewalls.
func fillUp(w *cloudsuite.World, full bool) {
	most := map[bool]int{true: 1}[full]
	of(w).Limit("volumes", most)
	of(w).Limit("firewalls", most)
}

// block creates a server in the cluster's network.
func block(w *cloudsuite.World) (blocking string, remove func()) {
	n := named[hetznerapi.Network](w, "networks", name)
	s := create[hetznerapi.Server](w, "servers", map[string]any{"name": "theirs", "server_type": "cx23", "image": image, "location": location, "networks": []int64{n.ID}})
	return "theirs", func() {
		if err := of(w).api.Delete(w.Context(), hetznerapi.Path("servers", s.ID)); err != nil {
			w.Fatal(err)
		}
	}
}

// release removes all labels of a server but the cluster's.
func release(w *cloudsuite.World, m platform.Machine) {
	err := of(w).api.Set(w.Context(), hetznerapi.Path("servers", of(w).server(m).ID), map[string]any{"labels": map[string]string{hetznercloud.ClusterLabel: name}})
	if err != nil {
		w.Fatal(err)
	}
}

// shared is a network of others, who have also created the SSH key of the user.
func shared() []cloudsuite.Shared {
	var out []cloudsuite.Shared
	for _, c := range []struct{ title, options string }{{"public", ""}, {"private", "--api-loadbalancer-type internal --topology private"}} {
		out = append(out, cloudsuite.Shared{Title: c.title, Make: func(w *cloudsuite.World) (all, kept []string) {
			create[hetznerapi.Network](w, "networks", map[string]any{"name": "theirs", "ip_range": "10.8.0.0/16",
				"subnets": []hetznerapi.Subnet{{Type: "cloud", IPRange: "10.8.0.0/20", NetworkZone: "eu-central"}}})
			key, err := os.ReadFile(w.Key())
			if err != nil {
				w.Fatal(err)
			}
			create[hetznerapi.SSHKey](w, "ssh_keys", map[string]any{"name": "theirs", "public_key": strings.TrimSpace(string(key))})
			return append(strings.Fields(c.options), "--network-id", "theirs"), []string{"theirs"}
		}, Check: func(w *cloudsuite.World) {
			n := named[hetznerapi.Network](w, "networks", "theirs")
			if len(n.Servers) != 2 || len(n.LoadBalancers) != 1 || len(list[hetznerapi.Network](w, "networks", nil)) != 1 || len(list[hetznerapi.SSHKey](w, "ssh_keys", nil)) != 1 {
				w.Errorf("the cluster does not use what others have, such as the network %+v", n)
			}
		}})
	}
	return out
}

// changeAccess takes the public address from the load balancer of the API, and gives it another one.
func changeAccess(w *cloudsuite.World) {
	w.Small()
	for _, c := range []struct{ kind, subnets string }{{"Public", "Public"}, {"Internal", "Private"}, {"Public", "Public"}} {
		w.Set("", "spec.api.loadBalancer.type="+c.kind, "spec.subnets[0].type="+c.subnets)
		w.Apply()
		b := named[hetznerapi.LoadBalancer](w, "load_balancers", hetznercloud.BalancerName(name))
		if b.PublicNet.Enabled != (c.kind == "Public") || len(b.PrivateNet) != 1 {
			w.Errorf("the balancer is %+v, want %s", b, c.kind)
		}
	}
	w.Delete()
}

// fillLocation: where a location has no capacity, an update says what to do, and a later one continues.
func fillLocation(w *cloudsuite.World) {
	w.Small()
	of(w).Exhaust(location, true)
	if r := w.Run("update", "cluster", name, "--yes"); r.Code == 0 || !strings.Contains(r.Err, "nodes-"+location) || !strings.Contains(r.Err, "choose another machine type or another location") {
		w.Errorf("exit %d\n%s", r.Code, r.Err)
	}
	of(w).Exhaust(location, false)
	w.Apply()
	w.Delete()
}
