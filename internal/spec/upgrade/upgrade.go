// Package upgrade works out how to bring a cluster to a later version of Kubernetes: in hops of one
// minor version each, and what each hop changes in the objects.
//
// It must not know how a hop is carried out, or whether the cluster is ready for it.
package upgrade

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/blang/semver/v4"

	"kops.local/kops/api"
	"kops.local/kops/internal/platform/traits"
	"kops.local/kops/internal/spec/complete"
	"kops.local/kops/internal/spec/facts"
	"kops.local/kops/internal/spec/versions"
)

// Input is the starting point of an upgrade.
type Input struct {
	Cluster  *api.Cluster
	Groups   []*api.InstanceGroup
	Platform *traits.Traits
	// Facts have the architecture of machine types, for groups without an image; if nil, it is
	// assumed to be amd64.
	Facts *facts.Cloud
	// Channel recommends versions and images, and ChannelName is the new value of spec.channel.
	Channel     *versions.Channel
	ChannelName string
	// Kops is the version of this program.
	Kops string
	// To is the target of the upgrade: a version, a minor version such as 1.36, or "" for one step
	// as the channel recommends.
	To string
}

// Hop is one step of an upgrade.
type Hop struct {
	// Version is the version of Kubernetes after it.
	Version string
	Changes []Change
	// Etcd are the changes to etcd clusters whose version the user did not choose.
	Etcd []Etcd
}

// Change is a property of an object that a hop sets. Item is Cluster or InstanceGroup/NAME.
type Change struct {
	Item     string `json:"item"`
	Property string `json:"property"`
	Old      string `json:"old"`
	New      string `json:"new"`
}

// Etcd is an etcd cluster whose version follows the version of Kubernetes.
type Etcd struct{ Name, Old, New string }

// Items and properties of changes, in kOps' terms.
const (
	itemCluster = "Cluster"
	itemGroup   = "InstanceGroup/"

	propertyChannel = "Channel"
	propertyVersion = "KubernetesVersion"
	propertyImage   = "Image"
)

// Hops returns the steps of the upgrade. There are none if nothing changes.
func Hops(in Input) ([]Hop, error) {
	way, err := in.way()
	if err != nil {
		return nil, err
	}
	var out []Hop
	for _, v := range way {
		h := in.hop(v)
		if len(h.Changes) > 0 {
			out = append(out, h)
		}
		in.Cluster, in.Groups = Apply(in.Cluster, in.Groups, h.Changes)
	}
	return out, nil
}

// way returns the versions of the hops; the last may be the present version.
func (in *Input) way() ([]semver.Version, error) {
	now, err := versions.ParseVersion(in.Cluster.Spec.KubernetesVersion)
	if err != nil {
		return nil, fmt.Errorf("spec.kubernetesVersion: %w", err)
	}
	to, err := in.target(now)
	if err != nil {
		return nil, err
	}
	var out []semver.Version
	for minor := now.Minor + 1; minor < to.Minor; minor++ {
		v, ok := in.Channel.Newest(now.Major, minor)
		if !ok {
			return nil, fmt.Errorf("channel %s recommends no version of %d.%d; upgrade to a release of it first: option:To %[2]d.%[3]d.N", in.ChannelName, now.Major, minor)
		}
		out = append(out, v)
	}
	return append(out, to), nil
}

// target returns the target version, which is never older than the present one.
func (in *Input) target(now semver.Version) (semver.Version, error) {
	if in.To == "" {
		v, err := versions.ParseVersion(in.Channel.UpgradeVersion(now.String(), in.Kops))
		if err != nil {
			return v, fmt.Errorf("channel %s: %w", in.ChannelName, err)
		}
		return v, nil
	}
	to, err := in.requested(now)
	if err == nil && to.LT(now) {
		err = olderError(to.String(), now)
	}
	return to, err
}

func olderError(to string, now semver.Version) error {
	return fmt.Errorf("option:To %s is older than the cluster's version %s, and Kubernetes does not support downgrades", to, now)
}

// requested returns the version that To names. For the cluster's own minor version, it is the newer
// of the recommended release and the present one.
func (in *Input) requested(now semver.Version) (semver.Version, error) {
	first, ok := in.Least()
	switch {
	case !ok:
		return now, fmt.Errorf("option:To %q is not a version such as 1.36 or 1.36.3", in.To)
	case first.Major != now.Major:
		return now, fmt.Errorf("option:To %s: kops cannot upgrade from %s to another major version", in.To, now)
	}
	if v, err := versions.ParseVersion(in.To); err == nil {
		return v, nil
	}
	to, ok := in.Channel.Newest(first.Major, first.Minor)
	switch mine := first.Major == now.Major && first.Minor == now.Minor; {
	case mine && (!ok || to.LT(now)):
		return now, nil
	case !ok && first.LT(now):
		return now, olderError(strings.TrimPrefix(in.To, "v"), now)
	case !ok:
		return now, fmt.Errorf("channel %s recommends no version of %s; specify a release: option:To %[2]s.N", in.ChannelName, strings.TrimPrefix(in.To, "v"))
	}
	return to, nil
}

// Least returns the oldest release that To can mean, or false if To is empty.
func (in *Input) Least() (semver.Version, bool) {
	if v, err := versions.ParseVersion(in.To); err == nil {
		return v, true
	}
	return versions.ParseMinor(in.To)
}

// hop returns what one step changes.
func (in *Input) hop(to semver.Version) Hop {
	h := Hop{Version: to.String()}
	change := func(item, property, old, now string) {
		if old != now {
			h.Changes = append(h.Changes, Change{item, property, old, now})
		}
	}
	spec := &in.Cluster.Spec
	change(itemCluster, propertyChannel, spec.Channel, in.ChannelName)
	now, err := versions.ParseVersion(spec.KubernetesVersion)
	if err != nil || !now.EQ(to) {
		change(itemCluster, propertyVersion, spec.KubernetesVersion, to.String())
	}
	for _, g := range in.Groups {
		if image := in.image(g, to); image != "" {
			change(itemGroup+g.Name, propertyImage, g.Spec.Image, image)
		}
	}
	for _, e := range spec.EtcdClusters {
		old, next := complete.EtcdVersion(now), complete.EtcdVersion(to)
		if e.Version == "" && e.Image == "" && old != next {
			h.Etcd = append(h.Etcd, Etcd{e.Name, old, next})
		}
	}
	return h
}

// image returns the channel's image for a group, or "" if the group keeps its own.
func (in *Input) image(g *api.InstanceGroup, kubernetes semver.Version) string {
	own := g.Spec.Image
	if own != "" && !slices.ContainsFunc(in.Platform.Machines.Published, func(p string) bool { return strings.HasPrefix(own, p) }) {
		return ""
	}
	arch := complete.MachineArch(cmp.Or(in.Facts, &facts.Cloud{}), g.Spec.MachineType)
	if strings.Contains(own, "arm64") {
		arch = "arm64"
	}
	return in.Channel.Image(in.Platform.Name, arch, kubernetes)
}

// NeedsFacts reports whether a group's architecture cannot be derived from its image.
func NeedsFacts(in Input) bool {
	return len(in.Channel.Images(in.Platform.Name)) > 0 && slices.ContainsFunc(in.Groups, func(g *api.InstanceGroup) bool { return g.Spec.Image == "" })
}

// Apply returns copies of the objects with the changes. Changes to groups that no longer exist
// are skipped.
func Apply(c *api.Cluster, groups []*api.InstanceGroup, changes []Change) (*api.Cluster, []*api.InstanceGroup) {
	c = c.DeepCopy()
	out := make([]*api.InstanceGroup, len(groups))
	for i, g := range groups {
		out[i] = g.DeepCopy()
	}
	for _, ch := range changes {
		switch ch.Property {
		case propertyChannel:
			c.Spec.Channel = ch.New
		case propertyVersion:
			c.Spec.KubernetesVersion = ch.New
		case propertyImage:
			name := strings.TrimPrefix(ch.Item, itemGroup)
			if i := slices.IndexFunc(out, func(g *api.InstanceGroup) bool { return g.Name == name }); i >= 0 {
				out[i].Spec.Image = ch.New
			}
		}
	}
	return c, out
}

// Remaining returns the versions, in order, that are newer than the cluster's version.
func Remaining(all []string, has string) []string {
	now, err := versions.ParseVersion(has)
	if err != nil {
		return nil
	}
	out := slices.DeleteFunc(slices.Clone(all), func(text string) bool {
		v, err := versions.ParseVersion(text)
		return err != nil || v.LTE(now)
	})
	slices.SortFunc(out, func(a, b string) int { return cmp.Compare(minorOf(a), minorOf(b)) })
	return out
}

func minorOf(version string) uint64 {
	v, _ := versions.ParseVersion(version) // it was parsed before
	return v.Minor
}
