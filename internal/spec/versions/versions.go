package versions

import (
	"embed"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/blang/semver/v4"
	"sigs.k8s.io/yaml"

	"kops.local/kops/api"
)

// Names of built-in channels.
const (
	Stable = "stable"
	Alpha  = "alpha"
	// None recommends nothing.
	None = "none"
)

// base is the location of names without a scheme.
const base = "https://raw.githubusercontent.com/kubernetes/kops/master/channels/"

//go:embed data/*.yaml
var embedded embed.FS

// Channel provides the recommendations of one channel. A nil Channel recommends nothing.
type Channel struct {
	spec api.ChannelSpec
}

// Location returns the URL or path of the file for a cluster's spec.channel, or "" if it is none: a
// text with a scheme or a leading slash is used unchanged, any other is a file of the kOps project.
func Location(name string) string {
	switch {
	case name == None:
		return ""
	case strings.Contains(name, "://"), strings.HasPrefix(name, "/"):
		return name
	default:
		return base + name
	}
}

// Embedded returns the copy of a channel that is part of this binary; ok is false if the name is
// not stable, alpha, none or one of their full URLs.
func Embedded(name string) (c *Channel, ok bool) {
	short := strings.TrimPrefix(name, base)
	if short == None {
		return &Channel{}, true
	}
	if short != Stable && short != Alpha {
		return nil, false
	}
	data, err := embedded.ReadFile("data/" + short + ".yaml")
	if err != nil {
		return nil, false
	}
	c, err = Parse(data)
	return c, err == nil
}

// Parse reads a channel's file. Fields that this version does not know are
// ignored, because the files are shared with other versions of kOps.
func Parse(data []byte) (*Channel, error) {
	var f api.Channel
	if err := yaml.Unmarshal(data, &f); err != nil {
		return nil, fmt.Errorf("read channel: %w", err)
	}
	// kOps publishes its channels without a header.
	if f.Kind != api.KindChannel && (f.Kind != "" || f.APIVersion != "") {
		return nil, fmt.Errorf("read channel: the kind is %q, not %s", f.Kind, api.KindChannel)
	}
	if f.Kind == "" && len(f.Spec.KubernetesVersions)+len(f.Spec.KopsVersions)+len(f.Spec.Images) == 0 {
		return nil, errors.New("read channel: it recommends neither versions nor images; specify the file of a channel")
	}
	for _, r := range ranges(f.Spec) {
		if _, err := semver.ParseRange(r); r != "" && err != nil {
			return nil, fmt.Errorf("read channel: version range %q: %w", r, err)
		}
	}
	return &Channel{spec: f.Spec}, nil
}

func ranges(s api.ChannelSpec) []string {
	var out []string
	for _, v := range s.KubernetesVersions {
		out = append(out, v.Range)
	}
	for _, v := range s.KopsVersions {
		out = append(out, v.Range)
	}
	for _, i := range s.Images {
		out = append(out, i.KubernetesVersion)
	}
	return out
}

// NewClusterVersion returns the Kubernetes version that this version of kops uses for a new
// cluster, or "" if the channel has none.
func (c *Channel) NewClusterVersion(kops string) string {
	if v, ok := first(c.versions(true), kops); ok {
		return v.KubernetesVersion
	}
	return ""
}

// Kubernetes returns the version that a cluster with the given version should have, and the minimum
// one that it must have; either may be "".
func (c *Channel) Kubernetes(current string) (recommended, required string) {
	v, _ := first(c.versions(false), current)
	return v.RecommendedVersion, v.RequiredVersion
}

// Newest returns the release of a minor version that the channel recommends; ok is false if it
// recommends none.
func (c *Channel) Newest(major, minor uint64) (v semver.Version, ok bool) {
	recommended, _ := c.Kubernetes(semver.Version{Major: major, Minor: minor}.String())
	v, err := ParseVersion(recommended)
	return v, err == nil && v.Major == major && v.Minor == minor
}

// Kops returns the version of kops that should run instead of the given one, and the minimum one
// that must run; either may be "".
func (c *Channel) Kops(running string) (recommended, required string) {
	v, _ := first(c.versions(true), running)
	return v.RecommendedVersion, v.RequiredVersion
}

// UpgradeVersion returns the Kubernetes version to which a cluster should be upgraded in one step:
// the recommended patch of its own minor version, or of the next minor version if this kops
// supports it. It is never below current.
func (c *Channel) UpgradeVersion(current, kops string) string {
	now, err := ParseVersion(current)
	if err != nil {
		return current
	}
	best := now
	take := func(v string) {
		if p, err := ParseVersion(v); err == nil && p.GT(best) {
			best = p
		}
	}
	recommended, _ := c.Kubernetes(current)
	take(recommended)
	if k, err := ParseVersion(kops); err == nil && AtLeast(k, best.Major, best.Minor+1) {
		if next, ok := c.Newest(best.Major, best.Minor+1); ok {
			take(next.String())
		}
	}
	return best.String()
}

// Image returns the machine image for a cloud, an architecture (amd64 or arm64; "" matches any) and
// a Kubernetes version, or "" if the channel has none.
func (c *Channel) Image(cloud api.CloudProviderID, arch string, kubernetes semver.Version) string {
	if c == nil {
		return ""
	}
	for _, i := range c.spec.Images {
		if i.ProviderID != string(cloud) || arch != "" && i.ArchitectureID != "" && i.ArchitectureID != arch {
			continue
		}
		if inRange(i.KubernetesVersion, kubernetes) {
			return i.Name
		}
	}
	return ""
}

// Images lists the machine images for a cloud, of all architectures and versions.
func (c *Channel) Images(cloud api.CloudProviderID) []string {
	if c == nil {
		return nil
	}
	var out []string
	for _, i := range c.spec.Images {
		if i.ProviderID == string(cloud) && !slices.Contains(out, i.Name) {
			out = append(out, i.Name)
		}
	}
	return out
}

func (c *Channel) versions(kops bool) []api.ChannelVersion {
	switch {
	case c == nil:
		return nil
	case kops:
		return c.spec.KopsVersions
	default:
		return c.spec.KubernetesVersions
	}
}

// first returns the first entry whose range contains the version. A version that cannot be parsed,
// such as a development build's, counts as newer than all.
func first(entries []api.ChannelVersion, version string) (api.ChannelVersion, bool) {
	v, err := ParseVersion(version)
	for _, e := range entries {
		if err != nil || inRange(e.Range, v) {
			return e, true
		}
	}
	return api.ChannelVersion{}, false
}
