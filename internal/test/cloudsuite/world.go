package cloudsuite

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"kops.local/kops/internal/test/clitest"
)

// Name is the name of the suite's clusters.
const Name = "a.example.com"

// World is a user with an account, which was empty before.
type World struct {
	*clitest.Proxied
	Cloud *Cloud
	// Own belongs to the cloud's own functions.
	Own any

	account Account
	before  []string      // the inventory of the account before
	latency time.Duration // of measured requests
}

// New opens an account.
func New(t testing.TB, c *Cloud) *World {
	t.Helper()
	a := c.Open(t)
	w := &World{Proxied: &clitest.Proxied{User: clitest.NewUser(t, c.Platform), Proxy: a.Proxy}, Cloud: c, Own: a.Own, account: a}
	maps.Copy(w.Env, a.Env)
	w.before = w.Inventory()
	return w
}

// Remember makes the present inventory what a deleted cluster must leave.
func (w *World) Remember() {
	w.Helper()
	w.before = w.Inventory()
}

// object is how the inventory begins the name of an object in the state store.
const object = "object "

// Inventory lists everything in the account and in the state store.
func (w *World) Inventory() []string {
	w.Helper()
	out := w.account.Objects()
	for i, err := range w.account.Store.List(w.Context(), "") {
		if err != nil {
			w.Fatal(err)
		}
		out = append(out, object+i.Key)
	}
	return out
}

// made lists what was created in the account, without what differs from run to run.
func (w *World) made() []string {
	w.Helper()
	out := slices.DeleteFunc(clitest.Difference(w.Inventory(), w.before), func(s string) bool { return strings.HasPrefix(s, object) })
	out = w.Cloud.WithoutNames(out)
	slices.Sort(out)
	return out
}

// Create describes a cluster of one control plane and one group of nodes, with additional options.
func (w *World) Create(cluster string, options ...string) {
	w.Helper()
	w.Must(w.createCommand(cluster, options...)...)
}

func (w *World) createCommand(cluster string, options ...string) []string {
	args := slices.Concat([]string{"create", "cluster", "--cloud", string(w.Cloud.Platform.Name), "--ssh-public-key", w.Key()}, w.Cloud.Options, options)
	for flag, value := range map[string]string{"--zones": w.Cloud.Zones[0], "--networking": "calico"} {
		if !slices.Contains(options, flag) {
			args = append(args, flag, value)
		}
	}
	return append(args, cluster)
}

// Small describes the suite's cluster.
func (w *World) Small(options ...string) {
	w.Helper()
	w.Create(Name, options...)
}

// createLarge describes a private cluster of three control planes and 63 groups of nodes, and with a
// bastion where that exists. It has a group of nodes in each zone already.
func (w *World) createLarge() {
	w.Helper()
	w.Create(Name, append([]string{"--zones", strings.Join(w.Cloud.Zones, ","), "--control-plane-count", "3"}, w.Cloud.Large...)...)
	var docs []string
	for i := range 63 - len(w.Cloud.Zones) {
		docs = append(docs, fmt.Sprintf(`apiVersion: kops.k8s.io/v1alpha2
kind: InstanceGroup
metadata:
  name: nodes-%02d
  labels:
    kops.k8s.io/cluster: %s
spec:
  minSize: 1
  maxSize: 1
  role: Node
%s`, i, Name, w.Cloud.Group(i)))
	}
	w.Must("create", "-f", w.File("groups.yaml", strings.Join(docs, "---\n")))
}

// Nodes and ControlPlane are the groups of a small cluster.
func (w *World) Nodes() string        { return "nodes-" + w.Cloud.Zones[0] }
func (w *World) ControlPlane() string { return "control-plane-" + w.Cloud.Zones[0] }

// Object returns an object of the cluster in the state store.
func (w *World) Object(key string) string {
	w.Helper()
	text, _, err := w.account.Store.Get(w.Context(), Name+"/"+key)
	if err != nil {
		w.Fatal(err)
	}
	return string(text)
}

// Preview previews an update.
func (w *World) Preview() clitest.Result {
	w.Helper()
	return w.Must("update", "cluster", Name)
}

// CheckUnchanged checks that a preview has no changes.
func (w *World) CheckUnchanged() {
	w.Helper()
	if r := w.Preview(); !strings.Contains(r.Out, "No changes need to be applied") {
		w.Errorf("a preview has changes:\n%s", r.Out)
	}
}

// Apply updates the cluster, and checks that nothing is left to do.
func (w *World) Apply() {
	w.Helper()
	w.Must("update", "cluster", Name, "--yes")
	w.CheckUnchanged()
}

// Delete deletes the cluster, and checks that everything else remains.
func (w *World) Delete() {
	w.Helper()
	w.Must("delete", "cluster", Name, "--yes")
	w.CheckNothingLeft()
}

// CheckNothingLeft checks that a deleted cluster leaves only what existed before.
func (w *World) CheckNothingLeft() {
	w.Helper()
	now := w.Inventory()
	if left := clitest.Difference(now, w.before); len(left) > 0 {
		w.Errorf("a deleted cluster leaves\n%s", strings.Join(left, "\n"))
	}
	if lost := clitest.Difference(w.before, now); len(lost) > 0 {
		w.Errorf("a deleted cluster takes with it\n%s", strings.Join(lost, "\n"))
	}
}

// Set sets fields of an instance group, or of the cluster if group is "".
func (w *World) Set(group string, fields ...string) {
	w.Helper()
	args := []string{"edit", "cluster", Name}
	if group != "" {
		args = []string{"edit", "instancegroup", group, "--name", Name}
	}
	for _, f := range fields {
		args = append(args, "--set", f)
	}
	w.Must(args...)
}

// checkContains checks that a text contains all of these.
func (w *World) checkContains(what, text string, all ...string) {
	w.Helper()
	for _, want := range all {
		if !strings.Contains(text, want) {
			w.Errorf("%s lacks %q:\n%s", what, want, text)
		}
	}
}
