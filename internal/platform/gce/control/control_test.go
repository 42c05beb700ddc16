package control

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-tpm/tpm2/transport"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"kops.local/kops/api"
	"kops.local/kops/internal/contract/controllerconfig"
	"kops.local/kops/internal/contract/layout"
	"kops.local/kops/internal/engine/fault"
	"kops.local/kops/internal/node/bootstrap"
	"kops.local/kops/internal/node/controller"
	"kops.local/kops/internal/platform/gce/gcerest"
	"kops.local/kops/internal/platform/gce/gcetest"
	"kops.local/kops/internal/platform/gce/vtpm"
	"kops.local/kops/internal/platform/gce/vtpm/vtpmtest"
	"kops.local/kops/internal/platform/incluster"
	"kops.local/kops/internal/platform/incluster/roster"
	"kops.local/kops/internal/store"
)

func noon() time.Time { return time.Date(2026, 8, 1, 12, 0, 0, 0, time.UTC) }

const (
	cluster = "minimal.example.com"
	base    = "compute/v1/projects/testproject/"
)

// createdInstance is an instance that its group's managed instance group created.
type createdInstance struct {
	zone, group, name, id string
	change                func(gcetest.Doc)
}

// cloud returns a project with the managed instance groups a-nodes, b-nodes and a-master.
func cloud(t *testing.T, instances ...createdInstance) *gcetest.Cloud {
	t.Helper()
	c := gcetest.Start(t, nil)
	for _, zone := range []string{"us-test1-a", "us-test1-b", "us-test2-a"} {
		c.Put(base+"zones/"+zone, gcetest.Doc{"name": zone})
	}
	for _, group := range []string{"nodes", "master", "bastions"} {
		c.Put(base+"global/instanceTemplates/"+group+"-1", gcetest.Doc{"properties": gcetest.Doc{"metadata": metadata(map[string]string{"cluster-name": cluster, "kops-k8s-io-instance-group-name": group})}})
	}
	members := map[string][]gcetest.Doc{}
	for _, m := range instances {
		mig := managerPath(m.zone, m.group)
		d := gcetest.Doc{"id": m.id, "name": m.name, "zone": "https://www.googleapis.com/" + base + "zones/us-test1-" + m.zone, "status": "RUNNING", "creationTimestamp": "2026-08-01T02:00:00.000-07:00",
			"labels":            map[string]string{"k8s-io-cluster-name": "minimal-example-com"},
			"metadata":          metadata(map[string]string{"cluster-name": cluster, "kops-k8s-io-instance-group-name": m.group, "created-by": strings.Replace(strings.TrimPrefix(mig, "compute/v1/"), "testproject", "123456789012", 1)}),
			"networkInterfaces": []gcetest.Doc{{"networkIP": "10.0.16.3"}}}
		if m.change != nil {
			m.change(d)
		}
		c.Put(base+"zones/us-test1-"+m.zone+"/instances/"+m.name, d)
		members[mig] = append(members[mig], gcetest.Doc{"id": m.id, "currentAction": "NONE", "version": gcetest.Doc{"instanceTemplate": "https://www.googleapis.com/" + base + "global/instanceTemplates/" + m.group + "-1"}})
	}
	for mig, all := range members {
		c.Put(mig, gcetest.Doc{"managed": all})
	}
	return c
}

func managerPath(zone, group string) string {
	return base + "zones/us-test1-" + zone + "/instanceGroupManagers/" + zone + "-" + group + "-minimal-example-com"
}

func metadata(values map[string]string) gcetest.Doc {
	var items []gcetest.Doc
	for _, k := range slices.Sorted(maps.Keys(values)) {
		items = append(items, gcetest.Doc{"key": k, "value": values[k]})
	}
	return gcetest.Doc{"items": items}
}

// set returns a function that changes a value of an instance's metadata.
func set(key, value string) func(gcetest.Doc) {
	return func(d gcetest.Doc) {
		for _, i := range d["metadata"].(gcetest.Doc)["items"].([]gcetest.Doc) {
			if i["key"] == key {
				i["value"] = value
			}
		}
	}
}

// field returns a function that changes a field of an instance.
func field(key string, value any) func(gcetest.Doc) {
	return func(d gcetest.Doc) { d[key] = value }
}

// newStored returns a cluster whose groups nodes and master have configurations.
func newStored(t *testing.T) controller.Stored {
	t.Helper()
	s := store.NewFolder(t.TempDir())
	for group, role := range map[string]api.InstanceGroupRole{"nodes": api.RoleNode, "master": api.RoleControlPlane} {
		if _, err := s.Put(t.Context(), layout.NodeConfig(string(role), group), []byte("{}"), store.PutOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	return controller.Stored{Base: s}
}

// newProject returns the project as a controller sees it at noon.
func newProject(t *testing.T, c *gcetest.Cloud) *project {
	t.Helper()
	return (&project{role: newStored(t).Role, api: gcerest.New(c.Env, http.DefaultClient, http.DefaultClient, noon), name: "testproject", region: "us-test1", cluster: cluster, now: noon}).withList()
}

func node(name string) *corev1.Node {
	return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID("of " + name), CreationTimestamp: metav1.NewTime(noon().Add(-2 * time.Hour))}}
}

func nodeWithProvider(name, id string) *corev1.Node {
	n := node(name)
	n.Spec.ProviderID = id
	return n
}

// The whole path of a machine, except for the connection between it and the controller.
func TestAMachineOfGCEIsKnownByItsTPM(t *testing.T) {
	root, key := vtpmtest.Start(t)
	c := cloud(t, createdInstance{"a", "nodes", "nodes-x1y2", "11", field("ekPub", key)}, createdInstance{"a", "nodes", "nodes-z3", "12", nil})
	config := &controllerconfig.Config{ClusterName: cluster, Cloud: "gce", Server: controllerconfig.Server{Provider: map[string]any{"gce": map[string]any{"ProjectID": "testproject", "ClusterName": cluster, "Region": "us-test1", "MaxTimeSkew": 300}}}}
	now := noon()
	control, err := connect(t.Context(), incluster.World{Config: config, Stored: newStored(t), Env: c.Env, Now: func() time.Time { return now }})
	if err != nil {
		t.Fatal(err)
	}
	prove := func(name string) error {
		p := &vtpm.Prover{Now: noon, Open: func() (transport.TPMCloser, error) { return vtpm.Open(root) }, Machine: func(context.Context) (gcerest.Machine, error) {
			return gcerest.Machine{Project: "testproject", Zone: "us-test1-a", Name: name}, nil
		}}
		token, err := p.Prove(t.Context(), []byte("body"))
		if err != nil {
			t.Fatal(err)
		}
		who, err := control.Verifier.Verify(t.Context(), bootstrap.Proof{Token: token, Body: []byte("body")})
		if err == nil && (who.NodeName != "nodes-x1y2" || who.InstanceGroup != "nodes" || !slices.Equal(who.Names, []string{"10.0.16.3"})) {
			t.Errorf("it is %+v", who)
		}
		return err
	}
	if err := prove("nodes-x1y2"); err != nil {
		t.Error(err)
	}
	if err := prove("nodes-z3"); fault.Is(err, fault.Denied) || err == nil || !strings.Contains(err.Error(), "Compute Engine returned none") {
		t.Errorf("an instance without a TPM: %v", err)
	}
	c.Put(base+"zones/us-test1-a/instances/nodes-z3", gcetest.Doc{"id": "12", "name": "nodes-z3", "status": "RUNNING", "ekPub": key,
		"metadata": metadata(map[string]string{"cluster-name": cluster, "kops-k8s-io-instance-group-name": "nodes"})})
	now = now.Add(5 * time.Second) // until then, Compute Engine is not queried again
	if err := prove("nodes-z3"); !fault.Is(err, fault.Denied) || !strings.Contains(err.Error(), "it was not created by a managed instance group") {
		t.Errorf("an instance that somebody made by hand: %v", err)
	}
	config.Server.Provider = nil
	if _, err := connect(t.Context(), incluster.World{Config: config, Stored: newStored(t), Env: c.Env, Now: noon}); !fault.Is(err, fault.Permanent) || !strings.Contains(err.Error(), "server.provider.gce") {
		t.Errorf("without a project: %v", err)
	}
}

func TestTheGroupOfANodeIsThatOfItsInstancesTemplate(t *testing.T) {
	for name, tt := range map[string]struct {
		change func(*gcetest.Cloud)
		node   *corev1.Node
		made   createdInstance
		class  fault.Class
		want   string
	}{
		"all is well":                  {node: node("nodes-x1y2")},
		"with a provider's identifier": {node: nodeWithProvider("nodes-x1y2", "gce://testproject/us-test1-a/nodes-x1y2")},
		"of another project":           {node: nodeWithProvider("nodes-x1y2", "gce://other/us-test1-a/nodes-x1y2"), class: fault.Gone, want: "reports the machine gce://other/us-test1-a/nodes-x1y2"},
		"of another zone":              {node: nodeWithProvider("nodes-x1y2", "gce://testproject/us-test1-b/nodes-x1y2"), class: fault.Gone, want: "reports the machine"},
		"of another cloud":             {node: nodeWithProvider("nodes-x1y2", "aws:///us-test1-a/nodes-x1y2"), class: fault.Gone, want: "reports the machine"},
		"without an instance":          {node: node("nodes-none"), class: fault.Gone, want: "the cluster has no machine nodes-none"},
		"of another cluster":           {node: node("nodes-x1y2"), made: createdInstance{change: set("cluster-name", "minimal-example.com")}, class: fault.Gone, want: "the cluster has no machine nodes-x1y2"},
		"without the cluster's label":  {node: node("nodes-x1y2"), made: createdInstance{change: field("labels", map[string]string{})}, class: fault.Gone, want: "the cluster has no machine nodes-x1y2"},
		"that is stopped":              {node: node("nodes-x1y2"), made: createdInstance{change: field("status", "TERMINATED")}, class: fault.NotYet, want: "its status is TERMINATED"},
		"made by hand":                 {node: node("nodes-x1y2"), made: createdInstance{change: set("created-by", "")}, class: fault.Gone, want: "it was not created by a managed instance group"},
		"of another zone's group":      {node: node("nodes-x1y2"), made: createdInstance{change: set("created-by", "projects/1/zones/us-test1-b/instanceGroupManagers/b-nodes-minimal-example-com")}, class: fault.Gone, want: "it was not created by a managed instance group"},
		"that takes another's name":    {node: node("nodes-x1y2"), made: createdInstance{change: field("id", "99")}, class: fault.Gone, want: "does not contain it"},
		"that is a bastion":            {node: node("bastions-b1"), class: fault.Gone, want: "the group bastions has no configuration"},
		"that says another group":      {node: node("nodes-x1y2"), made: createdInstance{change: set("kops-k8s-io-instance-group-name", "master")}, class: fault.Gone, want: `claims to be in the instance group "master", but is in nodes`},
		"of another cluster's template": {node: node("nodes-x1y2"), change: func(c *gcetest.Cloud) {
			c.Put(base+"global/instanceTemplates/nodes-1", gcetest.Doc{"properties": gcetest.Doc{"metadata": metadata(map[string]string{"cluster-name": "other.example.com", "kops-k8s-io-instance-group-name": "nodes"})}})
		}, class: fault.Gone, want: "its instance template nodes-1 does not belong to the cluster"},
		"while Compute fails": {node: node("nodes-x1y2"), change: func(c *gcetest.Cloud) {
			c.Refuse = func(string) (int, string) { return 503, "backendError" }
		}, class: fault.NotYet, want: "list the zones of us-test1"},
	} {
		t.Run(name, func(t *testing.T) {
			c := cloud(t, createdInstance{"a", "nodes", "nodes-x1y2", "11", tt.made.change}, createdInstance{"a", "bastions", "bastions-b1", "12", nil})
			if tt.change != nil {
				tt.change(c)
			}
			group, err := newGroups(controller.Stored{}, newProject(t, c)).GroupOf(t.Context(), tt.node)
			if tt.want == "" && (err != nil || group != "nodes") || tt.want != "" && (!fault.Is(err, tt.class) || !strings.Contains(err.Error(), tt.want) || group != "") {
				t.Errorf("the group is %q, %v", group, err)
			}
		})
	}
}

func TestAHundredNodesAreAFewQuestions(t *testing.T) {
	var all []createdInstance
	for n := range 100 {
		all = append(all, createdInstance{string("ab"[n%2]), "nodes", fmt.Sprintf("nodes-%03d", n), fmt.Sprint(n + 1), nil})
	}
	c := cloud(t, all...)
	p := newProject(t, c)
	now := noon()
	p.now = func() time.Time { return now }
	groups := newGroups(controller.Stored{}, p.withList())
	ask := func(want int) {
		t.Helper()
		for _, m := range all {
			if group, err := groups.GroupOf(t.Context(), node(m.name)); err != nil || group != "nodes" {
				t.Fatalf("%s is of %q, %v", m.name, group, err)
			}
		}
		if calls := c.Calls(); len(calls) > want {
			t.Errorf("%d calls, want %d: %v", len(calls), want, calls)
		}
	}
	const pages = 100/2/2 + 1 // in each zone, with two items per page
	ask(2*2*pages + 3)        // the instances, the managed instance groups' instances, the zones and the template
	ask(0)
	now = now.Add(roster.Remembered)
	ask(2*pages + 2) // the instances; their groups are already known
	for range 100 {  // kubelets that claim to be instances that do not exist
		if _, err := groups.GroupOf(t.Context(), node("nodes-none")); !fault.Is(err, fault.Gone) {
			t.Fatal(err)
		}
	}
	if calls := c.Calls(); len(calls) != 0 {
		t.Errorf("%d calls for what a new list lacks", len(calls))
	}
}

func TestTwoInstancesOfOneNameAreNoNode(t *testing.T) {
	c := cloud(t, createdInstance{"a", "nodes", "nodes-x1y2", "11", nil}, createdInstance{"b", "nodes", "nodes-x1y2", "12", nil})
	if _, err := newGroups(controller.Stored{}, newProject(t, c)).GroupOf(t.Context(), node("nodes-x1y2")); !fault.Is(err, fault.Conflict) || !strings.Contains(err.Error(), "us-test1-a and us-test1-b") {
		t.Errorf("got %v", err)
	}
}

func TestTheRangeOfANodeIsThatOfItsInterface(t *testing.T) {
	for name, tt := range map[string]struct {
		access []gcetest.Doc
		want   string
		class  fault.Class
	}{
		"one":           {[]gcetest.Doc{{"externalIpv6": "2600:1900:4000:1:0:0:0:0", "externalIpv6PrefixLength": 96}}, "2600:1900:4000:1::/96", ""},
		"none":          {nil, "", fault.NotYet},
		"empty":         {[]gcetest.Doc{{"name": "external-ipv6"}}, "", fault.NotYet},
		"two":           {[]gcetest.Doc{{"externalIpv6": "2600:1900::", "externalIpv6PrefixLength": 96}, {"externalIpv6": "2600:1901::", "externalIpv6PrefixLength": 96}}, "", fault.Permanent},
		"no address":    {[]gcetest.Doc{{"externalIpv6": "x", "externalIpv6PrefixLength": 96}}, "", fault.Permanent},
		"a long prefix": {[]gcetest.Doc{{"externalIpv6": "2600:1900::", "externalIpv6PrefixLength": 960}}, "", fault.Permanent},
	} {
		c := cloud(t, createdInstance{"a", "nodes", "nodes-x1y2", "11", field("networkInterfaces", []gcetest.Doc{{"networkIP": "10.0.16.3", "ipv6AccessConfigs": tt.access}})})
		got, err := newGroups(controller.Stored{}, newProject(t, c)).Prefix(t.Context(), node("nodes-x1y2"))
		if got != tt.want || fault.Of(err) != tt.class {
			t.Errorf("%s: %q, %v", name, got, err)
		}
	}
}

// unreadyNode returns a node whose machine is silent, and which was created age before noon.
func unreadyNode(name string, age time.Duration) *corev1.Node {
	n := nodeWithProvider(name, "gce://testproject/us-test1-a/"+name)
	n.CreationTimestamp = metav1.NewTime(noon().Add(-age))
	n.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionUnknown}}
	return n
}

func TestWhichMachinesOfGCEAreGone(t *testing.T) {
	c := cloud(t, createdInstance{"b", "master", "master-0", "1", nil}, createdInstance{"a", "nodes", "nodes-lives", "2", nil}, createdInstance{"a", "nodes", "nodes-stopped", "3", field("status", "TERMINATED")},
		createdInstance{"a", "nodes", "nodes-again", "4", nil}, createdInstance{"a", "nodes", "nodes-again-too", "6", nil}, createdInstance{"a", "nodes", "nodes-unlabelled", "5", field("labels", map[string]string{})})
	p := newProject(t, c)
	r := newRoster(p, "master-0")
	old := unreadyNode("nodes-again", 5*time.Hour) // the instance was created at 9
	same := unreadyNode("nodes-lives", 2*time.Hour)
	joined := unreadyNode("nodes-again", 5*time.Hour)
	joined.Status.Conditions[0].Status, joined.Labels = corev1.ConditionTrue, map[string]string{"node-role.kubernetes.io/control-plane": ""}
	untold := joined.DeepCopy() // Kubernetes has not noticed yet that its machine is gone
	untold.Name, untold.Labels = "nodes-again-too", nil
	nodes := []*corev1.Node{node("master-0"), same, nodeWithProvider("nodes-stopped", "gce://testproject/us-test1-a/nodes-stopped"), old, joined, untold,
		nodeWithProvider("nodes-unlabelled", "gce://testproject/us-test1-a/nodes-unlabelled"), nodeWithProvider("nodes-ended", "gce://testproject/us-test1-a/nodes-ended"),
		nodeWithProvider("nodes-foreign", "gce://other/us-test1-a/nodes-foreign"), nodeWithProvider("nodes-far", "gce://testproject/us-test2-a/nodes-far"), node("nodes-new"), nodeWithProvider("nodes-liar", "gce://testproject/us-test1-a/nodes-ended")}
	if got, err := r.ListTerminated(t.Context(), nodes); err != nil || !slices.Equal(got, []string{"nodes-again", "nodes-again-too", "nodes-ended"}) {
		t.Errorf("gone are %v, %v", got, err)
	}
	if got, err := r.ListExisting(t.Context(), []string{"nodes-again", "nodes-ended"}); err != nil || !slices.Equal(got, []string{"nodes-again"}) {
		t.Errorf("alive are %v, %v", got, err)
	}
	down := func(what string) func(string) (int, string) {
		return func(call string) (int, string) {
			if strings.HasSuffix(call, what) {
				return 503, "backendError"
			}
			return 0, ""
		}
	}
	for _, what := range []string{"us-test1-b/instances", "instances/nodes-ended"} {
		c.Refuse = down(what)
		p.withList()
		if got, err := r.ListTerminated(t.Context(), nodes); err == nil || got != nil {
			t.Errorf("while %s is not told, %v are gone", what, got)
		}
	}
	c.Refuse = nil
	c.Delete(base + "zones/us-test1-b/instances/master-0")
	p.withList()
	if got, err := r.ListTerminated(t.Context(), nodes); err == nil || !strings.Contains(err.Error(), "lacks master-0") || got != nil {
		t.Errorf("a list without this machine is believed: %v, %v", got, err)
	}
}

func TestAnInstanceIsReplacedByItsManagedInstanceGroup(t *testing.T) {
	c := cloud(t, createdInstance{"a", "nodes", "nodes-x1y2", "11", nil}, createdInstance{"a", "nodes", "nodes-stopped", "12", field("status", "TERMINATED")},
		createdInstance{"b", "nodes", "nodes-leaving", "13", nil}, createdInstance{"a", "nodes", "nodes-alone", "14", set("created-by", "")})
	c.Put(managerPath("b", "nodes"), gcetest.Doc{"managed": []gcetest.Doc{{"id": "13", "currentAction": "DELETING"}}})
	f := instanceFleet{newProject(t, c)}
	all, err := f.List(t.Context())
	var names []string
	for _, m := range all {
		names = append(names, m.Name)
		if m.Group != "nodes" || !m.KeepsName || !m.Created.Equal(noon().Add(-3*time.Hour)) {
			t.Errorf("the machine is %+v", m)
		}
	}
	if err != nil || !slices.Equal(names, []string{"us-test1-a/nodes-alone/14", "us-test1-a/nodes-x1y2/11", "us-test1-b/nodes-leaving/13"}) {
		t.Fatalf("the machines are %v, %v", names, err)
	}
	serving, err := f.Serving(t.Context(), all)
	if err != nil || len(serving) != 1 || serving[0].Node != "nodes-x1y2" {
		t.Fatalf("those in service are %+v, %v", serving, err)
	}
	if err := f.Replace(t.Context(), serving[0]); err != nil {
		t.Fatal(err)
	}
	if got := fmt.Sprint(c.Get(managerPath("a", "nodes"), "recreated")); got != "[zones/us-test1-a/instances/nodes-x1y2]" {
		t.Errorf("recreated are %s", got)
	}
	for name, want := range map[string]fault.Class{"us-test1-a/nodes-x1y2/10": fault.Gone, "us-test1-a/nodes-none/1": fault.Gone, "us-test1-a/nodes-alone/14": fault.Permanent, "nodes": fault.Permanent} {
		if err := f.Replace(t.Context(), controller.FleetMachine{Name: name}); !fault.Is(err, want) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
