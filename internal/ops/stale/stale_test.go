package stale_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"kops.local/kops/api"
	"kops.local/kops/internal/contract/nodeconfig"
	"kops.local/kops/internal/ops/stale"
	"kops.local/kops/internal/platform"
)

const (
	before = "ClusterName: c\nKubernetesVersion: 1.35.4\nKubeletConfig: {maxPods: 110, taints: [a=b:NoSchedule]}\nSysctlParameters: [x=1]\n"
	after  = "ClusterName: c\nKubernetesVersion: 1.35.4\nKubeletConfig: {maxPods: 50, taints: [a=b:NoSchedule]}\nSysctlParameters: [x=1]\n"
	// trusting is before, for a cluster with two authorities.
	trusting = before + "CAs: {kubernetes-ca: both}\n"
	tinted   = "ClusterName: c\nKubernetesVersion: 1.35.4\nKubeletConfig: {maxPods: 110, taints: [c=d:NoSchedule]}\nSysctlParameters: [x=1]\n"
)

func hash(config string) string { return nodeconfig.Hash([]byte(config)) }

// runningAnnotations returns the annotations of a node that reports what it runs.
func runningAnnotations(config, files string) map[string]string {
	return map[string]string{"kops.k8s.io/node-config": fmt.Sprintf(`{"hash":%q,"files":{%s}}`, hash(config), files)}
}

// TestJudge covers every cause that makes a machine stale, and what only looks like one.
func TestJudge(t *testing.T) {
	made := func(config string, changes ...platform.Change) map[string]platform.Drift {
		return map[string]platform.Drift{"m": {Config: hash(config), Changes: changes}}
	}
	authority := platform.Change{Field: "keypair kubernetes-ca", Have: "one", Want: "both"}
	image := platform.Change{Field: "spec.image", Have: "old", Want: "new"}
	for _, c := range []struct {
		name     string
		outdated bool
		machine  platform.Machine
		made     map[string]platform.Drift
		notes    map[string]string // annotations of the node
		wanted   stale.Wanted
		inPlace  bool
		others   bool // there are other nodes
		want     string
	}{
		{name: "as it is to be", made: made(after), wanted: stale.Wanted{Config: []byte(after)}, want: "none"},
		{name: "nothing is known", want: "none"},
		{name: "the configuration changed", outdated: true, made: made(before), wanted: stale.Wanted{Config: []byte(after)},
			want: "restart: spec.kubelet.maxPods 110 -> 50 restart"},
		{name: "the node converged meanwhile", outdated: true, made: made(before), notes: runningAnnotations(after, ""), wanted: stale.Wanted{Config: []byte(after)}, want: "none"},
		{name: "the node says what it runs, and the platform nothing", notes: runningAnnotations(before, ""), wanted: stale.Wanted{Config: []byte(after)},
			want: "restart: spec.kubelet.maxPods 110 -> 50 restart"},
		{name: "the node converged meanwhile, and the platform tells to what", outdated: true, made: map[string]platform.Drift{"m": {Config: hash(before), Wanted: hash(after)}}, notes: runningAnnotations(after, ""), want: "none"},
		{name: "the platform knows more than the node", outdated: true, made: made(before, image), notes: runningAnnotations(after, ""), wanted: stale.Wanted{Config: []byte(after)},
			want: "replace: spec.image old -> new replace"},
		{name: "started with another authority, and told of the new since", outdated: true, made: made(before, authority), notes: runningAnnotations(trusting, ""), wanted: stale.Wanted{Config: []byte(trusting)}, want: "none"},
		{name: "started with another authority, and to be told of the new", outdated: true, made: made(before, authority), wanted: stale.Wanted{Config: []byte(trusting)},
			want: "restart: keypair kubernetes-ca  -> both restart"},
		{name: "started with another authority, of which no configuration tells", outdated: true, made: made(after, authority), wanted: stale.Wanted{Config: []byte(after)},
			want: "replace: keypair kubernetes-ca one -> both replace"},
		{name: "only what is done live", outdated: true, made: made(before), wanted: stale.Wanted{Config: []byte(tinted)},
			want: "live: spec.taints a=b:NoSchedule -> c=d:NoSchedule live"},
		{name: "the old configuration is not kept", outdated: true, made: made("ClusterName: gone\n"), wanted: stale.Wanted{Config: []byte(after)},
			want: "replace: node configuration " + hash("ClusterName: gone\n")[:8] + " -> " + hash(after)[:8] + " replace"},
		{name: "outdated, and nobody says why", outdated: true, want: "replace: the platform would create it differently  ->  replace"},
		{name: "outdated, with the right configuration", outdated: true, made: made(after), wanted: stale.Wanted{Config: []byte(after)},
			want: "replace: the platform would create it differently  ->  replace"},
		{name: "outdated, a node with the right configuration, and no word of the platform", outdated: true, notes: runningAnnotations(after, ""), wanted: stale.Wanted{Config: []byte(after)},
			want: "replace: the platform would create it differently  ->  replace"},
		{name: "detached", machine: platform.Machine{Detached: true}, made: made(after), wanted: stale.Wanted{Config: []byte(after)},
			want: "replace: it is detached from its group  ->  replace"},
		{name: "annotated", notes: map[string]string{"kops.k8s.io/needs-update": ""}, want: "replace: annotation kops.k8s.io/needs-update  ->  replace"},
		{name: "a manifest of another text", made: made(after), notes: runningAnnotations(after, `"manifests/etcd/main-cp.yaml":"aaaaaaaa","same":"1"`),
			wanted: stale.Wanted{Config: []byte(after), Files: map[string]string{"manifests/etcd/main-cp.yaml": "bbbbbbbb", "same": "1"}},
			want:   "restart: manifests/etcd/main-cp.yaml aaaaaaaa -> bbbbbbbb restart"},
		{name: "a machine that tells no files", made: made(after), notes: runningAnnotations(after, ""), wanted: stale.Wanted{Config: []byte(after), Files: map[string]string{"x": "1"}}, want: "none"},
		{name: "what a plan changes", made: made(after), wanted: stale.Wanted{Config: []byte(after), Changes: []platform.Change{{Field: "spec.minSize", Have: "2", Want: "3"}, image}},
			want: "replace: spec.image old -> new replace, spec.minSize 2 -> 3 live"},
		{name: "a plan changes what the platform tells of, too", outdated: true, made: made(after, image), wanted: stale.Wanted{Config: []byte(after), Changes: []platform.Change{image}},
			want: "replace: spec.image old -> new replace"},
		{name: "a plan changes again what no machine has got yet", outdated: true, made: made(after, platform.Change{Field: "spec.rootVolume.size", Have: "5", Want: "6"}),
			wanted: stale.Wanted{Config: []byte(after), Changes: []platform.Change{{Field: "spec.rootVolume.size", Have: "6", Want: "4"}}, Touched: true},
			want:   "replace: spec.rootVolume.size 5 -> 4 replace"},
		{name: "machines that are never replaced", notes: map[string]string{"kops.k8s.io/needs-update": ""}, inPlace: true,
			want: "restart: annotation kops.k8s.io/needs-update  ->  restart"},
		{name: "a machine that has not joined cannot be told to restart", others: true, made: made(before), wanted: stale.Wanted{Config: []byte(after)},
			want: "replace: it has not joined the cluster  ->  replace, spec.kubelet.maxPods 110 -> 50 restart"},
		{name: "a machine that has not joined, and is as it is to be", others: true, made: made(after), wanted: stale.Wanted{Config: []byte(after)}, want: "none"},
		{name: "a machine that has not joined, and is never replaced", others: true, made: made(before), wanted: stale.Wanted{Config: []byte(after)}, inPlace: true,
			want: "restart: spec.kubelet.maxPods 110 -> 50 restart"},
		{name: "an annotation that is damaged", made: made(before), notes: map[string]string{"kops.k8s.io/node-config": "{"}, wanted: stale.Wanted{Config: []byte(after)},
			want: "restart: spec.kubelet.maxPods 110 -> 50 restart"},
	} {
		t.Run(c.name, func(t *testing.T) {
			m := c.machine
			m.Name, m.Group, m.Node, m.Running, m.Outdated = "m", "g", "n", true, c.outdated
			in := stale.In{Groups: []*api.InstanceGroup{{ObjectMeta: metav1.ObjectMeta{Name: "g"}, Spec: api.InstanceGroupSpec{Role: api.RoleNode}}},
				Machines: []platform.MachineGroup{{Name: "g", Machines: []platform.Machine{m}}}, Drifts: c.made, InPlace: c.inPlace,
				Wanted: map[string]stale.Wanted{"g": c.wanted}, Kept: map[string][]byte{hash(before): []byte(before)}}
			if c.notes != nil {
				in.Nodes = []corev1.Node{{ObjectMeta: metav1.ObjectMeta{Name: "n", Annotations: c.notes}, Status: corev1.NodeStatus{NodeInfo: corev1.NodeSystemInfo{KubeletVersion: "v1.35.4"},
					Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}}}}
			}
			if c.others {
				in.Nodes = append(in.Nodes, corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "other"}})
			}
			all := stale.Judge(in)
			if len(all) != 1 {
				t.Fatalf("%d machines", len(all))
			}
			if got := format(all[0]); got != c.want {
				t.Errorf("got  %s\nwant %s", got, c.want)
			}
			if is := all[0].Stale(); is != (all[0].Effect >= stale.Restart) {
				t.Errorf("stale: %v, with %v", is, all[0].Effect)
			}
			if j := all[0]; (j.NodeName == "n" && j.Version == "v1.35.4" && j.Ready) != (c.notes != nil) || j.Role != api.RoleNode {
				t.Errorf("what it is: %+v", j)
			}
		})
	}
}

// format formats a judgement in a line.
func format(m stale.Machine) string {
	var reasons []string
	for _, r := range m.Reasons {
		reasons = append(reasons, fmt.Sprintf("%s %s -> %s %s", r.Field, r.Have, r.Want, r.Effect))
	}
	if len(reasons) == 0 {
		return m.Effect.String()
	}
	return m.Effect.String() + ": " + strings.Join(reasons, ", ")
}

// The reasons to replace a machine do not include changes that are applied live, such as its group's size.
func TestCausesAreThoseOfTheEffect(t *testing.T) {
	live, restart := stale.Reason{Field: "spec.maxSize", Effect: stale.Live}, stale.Reason{Field: "spec.kubelet.maxPods", Effect: stale.Restart}
	m := stale.Machine{Effect: stale.Restart, Reasons: []stale.Reason{live, restart}}
	if got := m.Causes(); !slices.Equal(got, []stale.Reason{restart}) || len(m.Reasons) != 2 {
		t.Errorf("of a stale machine: %v", got)
	}
	m = stale.Machine{Effect: stale.Live, Reasons: []stale.Reason{live}}
	if got := m.Causes(); !slices.Equal(got, []stale.Reason{live}) {
		t.Errorf("of a machine that is up to date: %v", got)
	}
}

// TestConfigsNeededToJudge checks that configurations are only read if they may show a reason.
func TestConfigsNeededToJudge(t *testing.T) {
	node := func(config, files string) []corev1.Node {
		return []corev1.Node{{ObjectMeta: metav1.ObjectMeta{Name: "n", Annotations: runningAnnotations(config, files)}}}
	}
	for _, c := range []struct {
		name              string
		outdated          bool
		made              platform.Drift
		nodes             []corev1.Node
		concerns, lacking bool
	}{
		{name: "up to date"},
		{name: "up to date, as its node tells", nodes: node(after, "")},
		{name: "its node tells of manifests", nodes: node(after, `"x":"1"`), concerns: true},
		{name: "outdated, nothing told", outdated: true, concerns: true},
		{name: "another configuration", outdated: true, made: platform.Drift{Config: hash(before), Wanted: hash(after)}, concerns: true, lacking: true},
		{name: "the same configuration", outdated: true, made: platform.Drift{Config: hash(after), Wanted: hash(after)}},
		{name: "it took up the configuration meanwhile", outdated: true, made: platform.Drift{Config: hash(before), Wanted: hash(after)}, nodes: node(after, "")},
		{name: "it took up the configuration meanwhile, and was started with another authority", outdated: true, nodes: node(after, ""), concerns: true,
			made: platform.Drift{Config: hash(before), Wanted: hash(after), Changes: []platform.Change{{Field: "keypair kubernetes-ca", Have: "a", Want: "b"}}}},
		{name: "it took up another meanwhile", outdated: true, made: platform.Drift{Config: hash(after), Wanted: hash(after)}, nodes: node(before, ""), concerns: true, lacking: true},
	} {
		m := platform.Machine{Name: "m", Group: "g", Node: "n", Running: true, Outdated: c.outdated}
		in := stale.In{Machines: []platform.MachineGroup{{Name: "g", Machines: []platform.Machine{m}}}, Nodes: c.nodes, Drifts: map[string]platform.Drift{"m": c.made}}
		if got := in.Concerns(m, true); got != c.concerns {
			t.Errorf("%s: what is wanted is read: %v", c.name, got)
		}
		if c.concerns {
			in.Wanted = map[string]stale.Wanted{"g": {Config: []byte(after)}}
		}
		if got := in.MissingConfigs(); len(got) > 1 || slices.Contains(got, hash(before)) != c.lacking {
			t.Errorf("%s: of the past is read: %v", c.name, got)
		}
	}
}

// TestConfigsReportedByThePlatform covers platforms that report the configuration with which they
// would create the outdated machines of a group.
func TestConfigsReportedByThePlatform(t *testing.T) {
	reads := []corev1.Node{{ObjectMeta: metav1.ObjectMeta{Name: "n", Annotations: runningAnnotations(before, `"x":"1"`)}}}
	changed := platform.Drift{Config: hash(before), Wanted: hash(after)}
	for _, c := range []struct {
		name     string
		machines []platform.Machine
		nodes    []corev1.Node
		made     map[string]platform.Drift
		want     string
		runs     []string
	}{
		{name: "all", machines: []platform.Machine{{Name: "a", Outdated: true}, {Name: "b", Outdated: true}}, made: map[string]platform.Drift{"a": changed, "b": changed}, want: hash(after), runs: []string{hash(before), hash(before)}},
		{name: "one was rolled", machines: []platform.Machine{{Name: "a"}, {Name: "b", Outdated: true}}, made: map[string]platform.Drift{"b": changed}, want: hash(after), runs: []string{hash(before)}},
		{name: "one is not told of", machines: []platform.Machine{{Name: "a", Outdated: true}, {Name: "b", Outdated: true}}, made: map[string]platform.Drift{"b": changed}},
		{name: "one was detached", machines: []platform.Machine{{Name: "a", Detached: true}, {Name: "b", Outdated: true}}, made: map[string]platform.Drift{"b": changed}},
		{name: "two that differ", machines: []platform.Machine{{Name: "a", Outdated: true}, {Name: "b", Outdated: true}}, made: map[string]platform.Drift{"a": {Wanted: hash(tinted)}, "b": changed}},
		{name: "one that reads manifests", machines: []platform.Machine{{Name: "a", Node: "n", Running: true, Outdated: true}}, nodes: reads, made: map[string]platform.Drift{"a": changed}},
	} {
		for i := range c.machines {
			c.machines[i].Group = "g"
		}
		in := stale.In{Machines: []platform.MachineGroup{{Name: "g", Machines: c.machines}}, Nodes: c.nodes, Drifts: c.made}
		if want, runs := in.OutdatedConfigs("g"); want != c.want || !slices.Equal(runs, c.runs) {
			t.Errorf("%s: wanted %q, run %q", c.name, want, runs)
		}
	}
}
