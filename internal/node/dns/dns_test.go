package dns

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"kops.local/kops/internal/contract/labels"
	"kops.local/kops/internal/node/dns/records"
)

const cluster = "k.example.com"

// text formats record sets without their marks, one per line; a mark without its set is included.
func text(sets []records.Set) string {
	there := NewContent(sets)
	var lines []string
	for _, s := range sets {
		if k, ok := markedKey(s); ok {
			if _, found := there[k]; found {
				continue
			}
		}
		lines = append(lines, s.Name+" "+s.Type+" "+strings.Join(s.Values, ","))
	}
	slices.Sort(lines)
	return strings.Join(lines, "\n")
}

func meta(name string, annotations ...string) metav1.ObjectMeta {
	m := metav1.ObjectMeta{Namespace: "kube-system", Name: name, Annotations: map[string]string{}}
	for i := 0; i < len(annotations); i += 2 {
		m.Annotations[annotations[i]] = annotations[i+1]
	}
	return m
}

// node returns a machine with an internal and an external address.
func node(name, internal, external string, l ...string) *corev1.Node {
	n := &corev1.Node{ObjectMeta: meta(name)}
	n.Labels = map[string]string{}
	for _, k := range l {
		n.Labels[k] = ""
	}
	for ip := range strings.SplitSeq(internal, ",") {
		n.Status.Addresses = append(n.Status.Addresses, corev1.NodeAddress{Type: corev1.NodeInternalIP, Address: ip})
	}
	if external != "" {
		n.Status.Addresses = append(n.Status.Addresses, corev1.NodeAddress{Type: corev1.NodeExternalIP, Address: external})
	}
	return n
}

// pod returns a pod with the addresses of a machine.
func pod(name, node, ips string, annotations ...string) *corev1.Pod {
	p := &corev1.Pod{ObjectMeta: meta(name, annotations...), Spec: corev1.PodSpec{NodeName: node, HostNetwork: true}}
	for ip := range strings.SplitSeq(ips, ",") {
		p.Status.PodIPs = append(p.Status.PodIPs, corev1.PodIP{IP: ip})
	}
	return p
}

// service returns a Service with ports, or with a load balancer, whose addresses and names are given.
func service(name string, t corev1.ServiceType, at string, annotations ...string) *corev1.Service {
	s := &corev1.Service{ObjectMeta: meta(name, annotations...), Spec: corev1.ServiceSpec{Type: t}}
	for b := range strings.FieldsSeq(at) {
		i := corev1.LoadBalancerIngress{Hostname: b}
		if strings.Trim(b, "0123456789.:abcdef") == "" {
			i = corev1.LoadBalancerIngress{IP: b}
		}
		s.Status.LoadBalancer.Ingress = append(s.Status.LoadBalancer.Ingress, i)
	}
	return s
}

func TestWanted(t *testing.T) {
	v4 := Families{IPv4: true}
	notHost, ended := pod("p", "n1", "10.0.0.1", Internal, "x.k.example.com"), pod("p", "n1", "10.0.0.1", Internal, "x.k.example.com")
	notHost.Spec.HostNetwork, ended.Status.Phase = false, corev1.PodFailed
	nodes := []*corev1.Node{node("n1", "10.0.0.1,fd00::1", "1.1.1.1"), node("n2", "10.0.0.2", "2.2.2.2"), node("cp", "10.0.0.9", "9.9.9.9", labels.ControlPlane)}
	ingress := &networkingv1.Ingress{ObjectMeta: meta("i"), Spec: networkingv1.IngressSpec{Rules: []networkingv1.IngressRule{{Host: "I.example.com"}, {}}}}
	ingress.Status.LoadBalancer.Ingress = []networkingv1.IngressLoadBalancerIngress{{Hostname: "LB.example.net."}}
	for name, c := range map[string]struct {
		families Families
		seen     Snapshot
		want     string
		refused  int
	}{
		"internal": {v4, Snapshot{Pods: []*corev1.Pod{pod("p", "n1", "10.0.0.1", Internal, "B.k.example.com.,a.k.example.com,")}}, "a.k.example.com A 10.0.0.1\nb.k.example.com A 10.0.0.1", 0},
		"several addresses: those of the node, of the family": {Families{IPv6: true}, Snapshot{Pods: []*corev1.Pod{pod("p", "n1", "10.0.0.1,fd00::1,fd00::77", Internal, "a.k.example.com")}},
			"a.k.example.com AAAA fd00::1", 0},
		"external: the node's, and IPv6":       {v4, Snapshot{Pods: []*corev1.Pod{pod("p", "n1", "10.0.0.1", External, "a.k.example.com")}}, "a.k.example.com A 1.1.1.1\na.k.example.com AAAA fd00::1", 0},
		"not of the machine, ended, node gone": {v4, Snapshot{Pods: []*corev1.Pod{notHost, ended, pod("p", "gone", "10.0.0.7", Internal, "x.k.example.com")}}, "", 0},
		"load balancer with names":             {v4, Snapshot{Services: []*corev1.Service{service("s", corev1.ServiceTypeLoadBalancer, "lb.example.net", External, `\052.example.com`)}}, "*.example.com CNAME lb.example.net", 0},
		"load balancer with addresses":         {v4, Snapshot{Services: []*corev1.Service{service("s", corev1.ServiceTypeLoadBalancer, "1.2.3.4 fd00::2", Internal, "s.example.com")}}, "s.example.com A 1.2.3.4\ns.example.com AAAA fd00::2", 0},
		"ports of workers":                     {v4, Snapshot{Services: []*corev1.Service{service("s", corev1.ServiceTypeNodePort, "", Internal, "s.example.com")}}, "s.example.com A 10.0.0.1,10.0.0.2", 0},
		"ports, external":                      {v4, Snapshot{Services: []*corev1.Service{service("s", corev1.ServiceTypeNodePort, "", External, "s.example.com")}}, "s.example.com A 1.1.1.1,2.2.2.2\ns.example.com AAAA fd00::1", 0},
		"ports with both annotations":          {v4, Snapshot{Services: []*corev1.Service{service("s", corev1.ServiceTypeNodePort, "", External, "s.example.com", Internal, "s.example.com")}}, "", 1},
		"neither type":                         {v4, Snapshot{Services: []*corev1.Service{service("s", corev1.ServiceTypeClusterIP, "", External, "s.example.com")}}, "", 0},
		"ingress":                              {v4, Snapshot{Ingresses: []*networkingv1.Ingress{ingress}}, "i.example.com CNAME lb.example.net", 0},
		"several names":                        {v4, Snapshot{Services: []*corev1.Service{service("s", corev1.ServiceTypeLoadBalancer, "b.example.net a.example.net", External, "s.example.com")}}, "s.example.com CNAME a.example.net", 1},
		"a name and an address":                {v4, Snapshot{Services: []*corev1.Service{service("s", corev1.ServiceTypeLoadBalancer, "z.example.net 1.2.3.4", External, "s.example.com")}}, "s.example.com A 1.2.3.4", 1},
		"no name":                              {v4, Snapshot{Pods: []*corev1.Pod{pod("p", "n1", "10.0.0.1", Internal, "a b.example.com,x,a..b")}}, "", 3},
	} {
		t.Run(name, func(t *testing.T) {
			c.seen.Nodes = nodes
			d := Rules{Owner{Cluster: cluster}, c.families, nil}.Desired(c.seen)
			got, refused := d.Sets, d.Refused
			if text(got) != c.want || len(refused) != c.refused {
				t.Errorf("got\n%s\n%v\nwant\n%s", text(got), refused, c.want)
			}
		})
	}
}

func TestZonesThatAreManaged(t *testing.T) {
	all := []records.Zone{{ID: "1", Name: "example.com"}, {ID: "2", Alias: "inner", Name: "example.com"}, {ID: "3", Name: "sub.example.com"}, {ID: "4", Name: "other.org"}}
	for specs, want := range map[string]string{
		"":                    "? 3 4",
		"*/*":                 "? 3 4",
		"*/2":                 "2 2 ?",
		"*/inner":             "2 2 ?",
		"example.com":         "? ? ?",
		"example.com/1 */*":   "1 3 4",
		"*/1 */2":             "? ? ?",
		"other.org":           "? ? 4",
		"other.org/1":         "? ? ?",
		"Sub.Example.com./3 ": "? 3 ?",
	} {
		var parsed []ZoneSpec
		for s := range strings.FieldsSeq(specs) {
			z, err := ParseZone(s)
			if err != nil {
				t.Fatal(err)
			}
			parsed = append(parsed, z)
		}
		zones := PickZones(all, parsed)
		var got []string
		for _, name := range []string{"a.example.com", "a.sub.example.com", "other.org"} {
			z, why := zones.Of(name)
			if why != "" {
				z.ID = "?"
			}
			got = append(got, z.ID)
		}
		if strings.Join(got, " ") != want {
			t.Errorf("%q: got %v, want %s", specs, got, want)
		}
	}
	for _, bad := range []string{"", "*", "/1", "*.example.com"} {
		if _, err := ParseZone(bad); err == nil {
			t.Errorf("%q is a zone", bad)
		}
	}
}

// memory is a DNS service in memory that records the requests it receives.
type memory struct {
	zones         []records.Zone
	have          map[records.Zone]Content
	requestCounts map[string]int
	broken        map[string]bool // by a zone's name; "" is the list
}

func newMemory(names ...string) *memory {
	m := &memory{have: map[records.Zone]Content{}, requestCounts: map[string]int{}, broken: map[string]bool{}}
	for _, n := range names {
		z := records.Zone{ID: "Z" + n, Name: n}
		m.zones = append(m.zones, z)
		m.have[z] = Content{}
	}
	return m
}

func (m *memory) ask(what, zone string) error {
	m.requestCounts[what]++
	if m.broken[zone] {
		return errors.New("throttled")
	}
	return nil
}

func (m *memory) Zones(context.Context) ([]records.Zone, error) { return m.zones, m.ask("zones", "") }

func (m *memory) Records(_ context.Context, z records.Zone, _ []string) ([]records.Set, error) {
	var out []records.Set
	for _, s := range m.have[z] {
		out = append(out, s)
	}
	return out, m.ask("records", z.Name)
}

func (m *memory) Apply(_ context.Context, z records.Zone, changes []records.Change) error {
	if err := m.ask("apply", z.Name); err != nil {
		return err
	}
	for _, c := range changes {
		for _, s := range c.Delete {
			if !m.have[z][s.Key].Equal(s) {
				return fmt.Errorf("%v is not there", s)
			}
		}
		m.have[z].Apply(c)
	}
	return nil
}

func (m *memory) put(sets ...records.Set) {
	for _, s := range sets {
		m.have[m.zones[0]][s.Key] = s
	}
}

func (m *memory) text() string {
	var all []records.Set
	for _, c := range m.have {
		for _, s := range c {
			all = append(all, s)
		}
	}
	return text(all)
}

// requests returns the requests since its last call.
func (m *memory) requests() string {
	var out []string
	for _, k := range []string{"zones", "records", "apply"} {
		if m.requestCounts[k] > 0 {
			out = append(out, fmt.Sprintf("%s %d", k, m.requestCounts[k]))
		}
	}
	m.requestCounts = map[string]int{}
	return strings.Join(out, ", ")
}

// scene is a cluster that can change.
type scene struct {
	snapshot Snapshot
	version  uint64
	partial  bool
	now      time.Time
}

func (s *scene) Snapshot() (Snapshot, uint64, bool) { return s.snapshot, s.version, !s.partial }

func (s *scene) set(seen Snapshot) { s.snapshot, s.version = seen, s.version+1 }

func (s *scene) controller(m *memory, specs ...ZoneSpec) *Controller {
	return &Controller{Provider: m, Source: s, Rules: Rules{Owner: Owner{Cluster: cluster, API: "api." + cluster}, Families: Families{IPv4: true}}, Specs: specs,
		Interval: 5 * time.Second, Now: func() time.Time { return s.now }, Log: slog.New(slog.NewTextHandler(io.Discard, nil))}
}

func newScene() *scene {
	s := &scene{now: time.Unix(1e9, 0)}
	s.set(plane("10.0.0.1", "10.0.0.2"))
	return s
}

// plane returns a control plane with machines.
func plane(ips ...string) Snapshot {
	var s Snapshot
	for i, ip := range ips {
		name := fmt.Sprintf("cp%d", i)
		s.Nodes = append(s.Nodes, node(name, ip, "", labels.ControlPlane))
		s.Pods = append(s.Pods, pod("apiserver-"+name, name, ip, Internal, "api.internal."+cluster))
	}
	return s
}

func expect(t *testing.T, m *memory, what, want string) {
	t.Helper()
	if got := m.text(); got != want {
		t.Errorf("%s: the zone holds\n%s\nwant\n%s", what, got, want)
	}
}

func TestALife(t *testing.T) {
	s, m := newScene(), newMemory("example.com")
	foreign := []records.Set{records.NewSet("mail.example.com", records.A, 300, "7.7.7.7"), records.NewSet("api.internal.xk.example.com", records.A, 60, "8.8.8.8"), records.NewSet("example.com", "MX", 300, "10 mail.example.com")}
	kept := "\n" + text(foreign)
	m.put(foreign...)
	m.put(records.NewSet("api.internal."+cluster, records.A, 10, "203.0.113.123"))
	c := s.controller(m)
	s.partial = true
	c.Round(t.Context())
	if got := m.requests(); got != "" {
		t.Errorf("before the cluster is seen: %s", got)
	}
	s.partial = false
	c.Round(t.Context())
	expect(t, m, "the placeholder is replaced", "api.internal.k.example.com A 10.0.0.1,10.0.0.2"+kept)
	if got := m.requests(); got != "zones 1, records 1, apply 1" {
		t.Errorf("at the start: %s", got)
	}
	c.Round(t.Context())
	s.version++ // something else changed
	c.Round(t.Context())
	if got := m.requests(); got != "" {
		t.Errorf("without a change: %s", got)
	}
	s.set(plane("10.0.0.2"))
	c.Round(t.Context())
	if got := m.requests(); got != "apply 1" {
		t.Errorf("for a change: %s", got)
	}
	expect(t, m, "a machine went", "api.internal.k.example.com A 10.0.0.2"+kept)
	s.set(Snapshot{})
	c.Round(t.Context())
	expect(t, m, "the last address stays", "api.internal.k.example.com A 10.0.0.2"+kept)
	s.now = s.now.Add(zonesAge)
	m.requests()
	c.Round(t.Context())
	if got := m.requests(); got != "zones 1" {
		t.Errorf("later: %s", got)
	}
	if !c.Status().Ready() {
		t.Errorf("%+v", c.Status())
	}
}

// Records of an earlier run are found by their marks; records without a mark, or with another
// cluster's, stay.
func TestARestartWithdraws(t *testing.T) {
	s, m := newScene(), newMemory("example.com")
	seen := plane("10.0.0.1")
	seen.Services = []*corev1.Service{service("s", corev1.ServiceTypeLoadBalancer, "lb.example.net", External, "shop.example.com,*.shop.example.com")}
	s.set(seen)
	s.controller(m).Round(t.Context())
	expect(t, m, "before", "*.shop.example.com CNAME lb.example.net\napi.internal.k.example.com A 10.0.0.1\nshop.example.com CNAME lb.example.net")
	other := Owner{Cluster: "xk.example.com"}
	theirs := records.NewSet("a.xk.example.com", records.A, 60, "1.1.1.1")
	m.put(theirs, other.mark(theirs.Key), records.NewSet("a.k.example.com", records.A, 60, "1.1.1.1"), records.NewSet("shop.example.com", "MX", 60, "10 x"))
	s.set(plane("10.0.0.3"))
	s.controller(m).Round(t.Context())
	expect(t, m, "after", "a.k.example.com A 1.1.1.1\na.xk.example.com A 1.1.1.1\napi.internal.k.example.com A 10.0.0.3\nshop.example.com MX 10 x")
	if len(m.have[m.zones[0]]) != 6 {
		t.Errorf("marks are left: %v", m.have)
	}
}

func TestForeignRecords(t *testing.T) {
	want := records.NewSet("www.example.com", records.A, records.TTL, "1.1.1.1")
	own := Owner{Cluster: cluster}
	other := Owner{Cluster: "other.example.com"}.mark(want.Key)
	alias := records.NewSet("www.example.com", records.A, 0)
	alias.Opaque = true
	for name, c := range map[string]struct {
		want records.Set
		have []records.Set
		ok   bool
	}{
		"free":                   {want, nil, true},
		"the same values":        {want, []records.Set{records.NewSet("www.example.com", records.A, 300, "1.1.1.1")}, true},
		"ours":                   {want, []records.Set{records.NewSet("www.example.com", records.A, 60, "2.2.2.2"), own.mark(want.Key)}, true},
		"ours, another type":     {want, []records.Set{records.NewSet("www.example.com", records.CNAME, 60, "x.y"), own.mark(records.Key{Name: "www.example.com", Type: records.CNAME})}, true},
		"a record without mark":  {want, []records.Set{records.NewSet("www.example.com", records.A, 60, "2.2.2.2")}, false},
		"the mark of another":    {want, []records.Set{records.NewSet("www.example.com", records.A, 60, "1.1.1.1"), other}, false},
		"an alias":               {want, []records.Set{alias}, false},
		"a CNAME":                {want, []records.Set{records.NewSet("www.example.com", records.CNAME, 60, "x.y")}, false},
		"a text beside a CNAME":  {records.NewSet("www.example.com", records.CNAME, 60, "x.y"), []records.Set{records.NewSet("www.example.com", records.TXT, 60, "x")}, false},
		"a text beside":          {want, []records.Set{records.NewSet("www.example.com", records.TXT, 60, "x")}, true},
		"a CNAME for a zone":     {records.NewSet("example.com", records.CNAME, 60, "x.y"), nil, false},
		"a name of the cluster":  {records.NewSet("a.internal.k.example.com", records.A, 60, "1.1.1.1"), []records.Set{records.NewSet("a.internal.k.example.com", records.A, 60, "2.2.2.2")}, true},
		"one that ends as ours":  {records.NewSet("a.internal.xk.example.com", records.A, 60, "1.1.1.1"), []records.Set{records.NewSet("a.internal.xk.example.com", records.A, 60, "2.2.2.2")}, false},
		"one within the cluster": {records.NewSet("api.internal.a.k.example.com", records.A, 60, "1.1.1.1"), []records.Set{records.NewSet("api.internal.a.k.example.com", records.A, 60, "2.2.2.2")}, false},
	} {
		p := own.Plan(records.Zone{ID: "1", Name: "example.com"}, []records.Set{c.want}, NewContent(c.have))
		if ok := len(p.Changes) == 1 && len(p.Refused) == 0; ok != c.ok {
			t.Errorf("%s: %+v", name, p)
		}
		if !c.ok && len(p.Refused) != 1 {
			t.Errorf("%s: %+v", name, p)
		}
	}
}

func TestAFailingZoneHoldsUpNoOther(t *testing.T) {
	s, m := newScene(), newMemory("example.com", "broken.org")
	m.broken["broken.org"] = true
	seen := plane("10.0.0.1")
	seen.Services = []*corev1.Service{service("s", corev1.ServiceTypeLoadBalancer, "1.1.1.1", External, "a.broken.org")}
	s.set(seen)
	c := s.controller(m)
	tries := 0
	for range 200 {
		m.requests()
		c.Round(t.Context())
		if m.requestCounts["records"] > 0 {
			tries++
		}
		s.now = s.now.Add(c.Interval)
	}
	expect(t, m, "the other", "api.internal.k.example.com A 10.0.0.1")
	if tries < 8 || tries > 13 { // after 0, 5, 15, 35, 75, 155, 315, 475 … seconds
		t.Errorf("%d tries in 1000 s", tries)
	}
	if !c.Status().Ready() || len(c.Status().Failing) != 1 {
		t.Errorf("a user's zone counts: %+v", c.Status())
	}
	m.broken["example.com"] = true
	s.set(seen)
	seen.Nodes, seen.Pods = plane("10.0.0.2").Nodes, plane("10.0.0.2").Pods
	s.set(seen)
	c.Round(t.Context())
	answer := httptest.NewRecorder()
	c.Handler().ServeHTTP(answer, httptest.NewRequest(http.MethodGet, "/readyz", nil))
	if answer.Code != http.StatusServiceUnavailable || !strings.Contains(answer.Body.String(), "change the zone example.com: throttled") {
		t.Errorf("%d %s", answer.Code, answer.Body)
	}
	m.broken = map[string]bool{}
	s.now = s.now.Add(time.Hour)
	c.Round(t.Context())
	expect(t, m, "mended", "a.broken.org A 1.1.1.1\napi.internal.k.example.com A 10.0.0.2")
	answer = httptest.NewRecorder()
	c.Handler().ServeHTTP(answer, httptest.NewRequest(http.MethodGet, "/metrics", nil))
	if !c.Status().Ready() || !strings.Contains(answer.Body.String(), "\ndns_controller_records_wanted 2\n") {
		t.Errorf("%+v\n%s", c.Status(), answer.Body)
	}
}

// A new name is looked up before it is claimed; the nodes of a known name change in one request.
func TestRequestsFor500Nodes(t *testing.T) {
	s, m := newScene(), newMemory("example.com")
	c := s.controller(m)
	c.Round(t.Context())
	m.requests()
	seen := plane("10.0.0.1")
	for i := range 500 {
		seen.Nodes = append(seen.Nodes, node(fmt.Sprintf("n%d", i), fmt.Sprintf("10.1.%d.%d", i/250, i%250+1), ""))
	}
	for i := range 20 {
		seen.Services = append(seen.Services, service(fmt.Sprintf("s%d", i), corev1.ServiceTypeNodePort, "", Internal, fmt.Sprintf("s%d.k.example.com", i)))
	}
	s.set(seen)
	c.Round(t.Context())
	if got := m.requests(); got != "records 1, apply 1" {
		t.Errorf("for new names: %s", got)
	}
	if got := len(m.have[m.zones[0]][records.Key{Name: "s0.k.example.com", Type: records.A}].Values); got != maxValues {
		t.Errorf("%d values", got)
	}
	seen.Nodes = seen.Nodes[:250]
	s.set(seen)
	c.Round(t.Context())
	if got := m.requests(); got != "apply 1" {
		t.Errorf("for other nodes: %s", got)
	}
	if got := c.Status().Refused; got != 0 {
		t.Errorf("%d names are refused", got)
	}
}
