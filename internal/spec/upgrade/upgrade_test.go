package upgrade_test

import (
	"fmt"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"kops.local/kops/api"
	aws "kops.local/kops/internal/platform/aws/spec"
	"kops.local/kops/internal/platform/traits"
	"kops.local/kops/internal/spec/facts"
	"kops.local/kops/internal/spec/upgrade"
	"kops.local/kops/internal/spec/versions"
)

const (
	noble    = "099720109477/ubuntu/images/hvm-ssd-gp3/ubuntu-noble-24.04-amd64-server-20260714"
	nobleARM = "099720109477/ubuntu/images/hvm-ssd-gp3/ubuntu-noble-24.04-arm64-server-20260714"
	old      = "099720109477/ubuntu/images/hvm-ssd-gp3/ubuntu-noble-24.04-amd64-server-20250101"
	oldARM   = "099720109477/ubuntu/images/hvm-ssd/ubuntu-jammy-22.04-arm64-server-20240101"
)

func input(t *testing.T, has, to string, images ...string) upgrade.Input {
	t.Helper()
	ch, ok := versions.Embedded(versions.Stable)
	if !ok {
		t.Fatal("stable is not embedded")
	}
	on := aws.Platform().Traits
	in := upgrade.Input{Platform: &on, Channel: ch, ChannelName: "stable", Kops: "1.37.0", To: to,
		Cluster: &api.Cluster{Spec: api.ClusterSpec{Channel: "stable", KubernetesVersion: has, EtcdClusters: []api.EtcdClusterSpec{{Name: "main"}}}}}
	for i, image := range images {
		in.Groups = append(in.Groups, &api.InstanceGroup{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("g%d", i)}, Spec: api.InstanceGroupSpec{Image: image, MachineType: "t3.medium"}})
	}
	return in
}

// lines returns the hops, one line per change.
func lines(hops []upgrade.Hop) []string {
	var out []string
	for i, h := range hops {
		for _, c := range h.Changes {
			out = append(out, fmt.Sprintf("%d %s %s %s -> %s", i, c.Item, c.Property, c.Old, c.New))
		}
		for _, e := range h.Etcd {
			out = append(out, fmt.Sprintf("%d etcd %s %s -> %s", i, e.Name, e.Old, e.New))
		}
	}
	return out
}

func TestHops(t *testing.T) {
	for name, x := range map[string]struct {
		in   upgrade.Input
		want []string
	}{
		"one step to the next minor version": {input(t, "1.35.4", ""), []string{"0 Cluster KubernetesVersion 1.35.4 -> 1.36.3"}},
		"one step, however far it is behind": {input(t, "1.34.0", ""), []string{"0 Cluster KubernetesVersion 1.34.0 -> 1.35.7"}},
		"a patch and nothing more":           {input(t, "v1.36.0", ""), []string{"0 Cluster KubernetesVersion v1.36.0 -> 1.36.3"}},
		"nothing to do":                      {input(t, "v1.36.3", ""), nil},
		"newer than the channel":             {input(t, "1.36.9", ""), nil},
		"a minor version":                    {input(t, "1.35.4", "1.36"), []string{"0 Cluster KubernetesVersion 1.35.4 -> 1.36.3"}},
		"its own minor version, and newer":   {input(t, "1.36.9", "1.36"), nil},
		"its own minor version":              {input(t, "1.36.1", "1.36"), []string{"0 Cluster KubernetesVersion 1.36.1 -> 1.36.3"}},
		"a version":                          {input(t, "1.35.4", "v1.36.1"), []string{"0 Cluster KubernetesVersion 1.35.4 -> 1.36.1"}},
		"several minor versions": {input(t, "1.33.2", "1.36.3"), []string{
			"0 Cluster KubernetesVersion 1.33.2 -> 1.34.10", "0 etcd main 3.5.31 -> 3.6.12",
			"1 Cluster KubernetesVersion 1.34.10 -> 1.35.7",
			"2 Cluster KubernetesVersion 1.35.7 -> 1.36.3"}},
		"images of the channel's publishers, and none of the user": {input(t, "1.36.3", "", old, "ami-0123", oldARM, noble, "", "099720109477/ubuntu/images/mine"), []string{
			"0 InstanceGroup/g0 Image " + old + " -> " + noble,
			"0 InstanceGroup/g2 Image " + oldARM + " -> " + nobleARM,
			"0 InstanceGroup/g4 Image  -> " + noble}},
		"images once, in the first hop that has them": {input(t, "1.34.0", "1.36", old), []string{
			"0 Cluster KubernetesVersion 1.34.0 -> 1.35.7", "0 InstanceGroup/g0 Image " + old + " -> " + noble,
			"1 Cluster KubernetesVersion 1.35.7 -> 1.36.3"}},
	} {
		got, err := upgrade.Hops(x.in)
		if err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if g, w := strings.Join(lines(got), "\n"), strings.Join(x.want, "\n"); g != w {
			t.Errorf("%s:\n%s\nwant:\n%s", name, g, w)
		}
	}
}

func TestAnotherChannelIsSetOnce(t *testing.T) {
	in := input(t, "1.34.0", "1.36.3")
	in.ChannelName = "alpha"
	in.Cluster.Spec.EtcdClusters[0].Version = "3.5.31"
	hops, err := upgrade.Hops(in)
	want := "0 Cluster Channel stable -> alpha\n0 Cluster KubernetesVersion 1.34.0 -> 1.35.7\n1 Cluster KubernetesVersion 1.35.7 -> 1.36.3"
	if got := strings.Join(lines(hops), "\n"); err != nil || got != want {
		t.Errorf("%s, %v, want %s", got, err, want)
	}
}

func TestTheArchitectureOfAGroupWithoutAnImageIsItsMachines(t *testing.T) {
	in := input(t, "1.36.3", "", "")
	if !upgrade.NeedsFacts(in) {
		t.Error("facts are not needed")
	}
	in.Facts = &facts.Cloud{MachineTypes: map[string]facts.MachineType{"t3.medium": {Architectures: []string{facts.ArchARM}}}}
	hops, err := upgrade.Hops(in)
	if err != nil || len(hops) != 1 || hops[0].Changes[0].New != nobleARM {
		t.Errorf("%v, %v", lines(hops), err)
	}
}

func TestRefusedUpgrades(t *testing.T) {
	for to, want := range map[string]string{
		"1.34.0": "option:To 1.34.0 is older than the cluster's version 1.35.4",
		"1.34":   "option:To 1.34.10 is older than the cluster's version 1.35.4",
		"1.30":   "option:To 1.30 is older than the cluster's version 1.35.4",
		"2.0.0":  "cannot upgrade from 1.35.4 to another major version",
		"2.0":    "cannot upgrade from 1.35.4 to another major version",
		"newest": `option:To "newest" is not a version such as 1.36 or 1.36.3`,
		"1.38":   "channel stable recommends no version of 1.38; specify a release: option:To 1.38.N",
		"1.38.1": "channel stable recommends no version of 1.37; upgrade to a release of it first: option:To 1.37.N",
	} {
		hops, err := upgrade.Hops(input(t, "1.35.4", to))
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("to %s: %v, %v, want %s", to, lines(hops), err, want)
		}
	}
}

func TestAPlatformWithoutPublishedImages(t *testing.T) {
	in := input(t, "1.36.3", "", "debian-12", noble)
	in.Platform = &traits.Traits{Name: "here"}
	if hops, err := upgrade.Hops(in); err != nil || len(hops) > 0 {
		t.Errorf("%v, %v", lines(hops), err)
	}
}

func TestRemaining(t *testing.T) {
	all := []string{"1.36.3", "1.35.4", "1.34.0"}
	for has, want := range map[string]string{"1.33.1": "1.34.0 1.35.4 1.36.3", "v1.34.0": "1.35.4 1.36.3", "1.36.3": "", "nonsense": ""} {
		if got := strings.Join(upgrade.Remaining(all, has), " "); got != want {
			t.Errorf("after %s remain %q, want %q", has, got, want)
		}
	}
}
