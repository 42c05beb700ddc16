// Package spec defines bare metal for the stages that infer, check and describe a cluster.
//
// It must not know how a machine is reached.
package spec

import (
	"fmt"
	"net/netip"
	"strconv"
	"strings"

	"kops.local/kops/api"
	"kops.local/kops/internal/contract/hostnames"
	"kops.local/kops/internal/platform"
	"kops.local/kops/internal/platform/metal/onhost"
	"kops.local/kops/internal/platform/traits"
	"kops.local/kops/internal/spec/complete"
	"kops.local/kops/internal/spec/fill"
	"kops.local/kops/internal/spec/newcluster"
	"kops.local/kops/internal/spec/validate"
)

// Platform returns the description of bare metal.
func Platform() platform.Platform {
	return platform.Platform{Complete: complete.Rules{
		Before: []complete.Rule{{Name: "metal-routes", Why: "kops-controller keeps the routes between machines", Do: setRoutes}},
	}, Validate: validate.Rules{
		Cluster: []validate.Rule{{Name: "metal-store", Do: checkStore}, {Name: "metal-backups", Do: checkBackups}},
		Group:   []validate.GroupRule{{Name: "metal-user-data", Do: checkUserData}, {Name: "metal-image", Do: checkImage}},
	}, New: newcluster.Rules{
		Describe: func(b *newcluster.Builder) {
			if b.Cluster.Labels == nil {
				b.Cluster.Labels = map[string]string{}
			}
			b.Cluster.Labels[api.LabelMetalCloud] = string(api.CloudMetal)
		},
		Finish: func(b *newcluster.Builder) { b.Spec.API.LoadBalancer = nil }, // the platform does not create one
	}, Traits: traits.Traits{
		Name: api.CloudMetal, Title: "bare metal", Terraform: traits.Terraform{Never: true},
		Unused: []traits.Unused{
			{Kind: api.KindInstanceGroup, Names: []string{"machineType", "compressUserData"}, Remedy: asMade},
			{Kind: api.KindInstanceGroup, Blocks: []string{"rootVolume"}, Names: []string{"size", "type", "iops", "throughput", "optimization", "encryption", "encryptionKey"}, Remedy: asMade},
			{Kind: api.KindInstanceGroup, Blocks: []string{"rollingUpdate"}, Names: []string{"drainAndTerminate", "maxSurge"}, Remedy: inPlace},
			{Kind: api.KindCluster, Blocks: []string{"rollingUpdate"}, Names: []string{"drainAndTerminate", "maxSurge"}, Remedy: inPlace},
		},
		Network:  traits.Network{NeedsSubnets: true, NeedsNonMasquerade: true, NoCIDR: true},
		Machines: traits.Machines{Unsized: true, Image: noImage, NoCloud: true},
		Model: traits.Model{
			Volumes: func(c *api.Cluster, etcd, _ string) traits.Volumes {
				return traits.Volumes{Provider: "metal", Tags: []string{onhost.DiskTag(c.Name, etcd)},
					Flags: map[string]string{"disks-path": onhost.Disks, "machines-path": onhost.Registry}}
			},
			Peers: func(e api.EtcdClusterSpec) []string { // numbered as in onhost.Disk
				var out []string
				for i := range e.EtcdMembers {
					out = append(out, hostnames.EtcdPeer(e.Name, strconv.Itoa(i)))
				}
				return out
			},
			Awaited: true, FixedDNS: true, RemovesNodes: true, NodeRoutes: true,
		},
	}}
}

const (
	asMade  = "remove it; you provide the machine"
	inPlace = "remove it; machines are changed in place and never replaced"
)

// noImage is the placeholder for the image that other platforms specify.
const noImage = "dummy-metal-image"

func checkImage(c *validate.Check, g *api.InstanceGroup) {
	if g.Spec.Image != "" && g.Spec.Image != noImage {
		c.Warn("spec.image", g.Spec.Image, "has no effect", "remove it; the machine keeps the operating system that you installed")
	}
}

func setRoutes(p *complete.Pass) {
	fill.Ptr(&fill.Ensure(&p.Spec.KubeControllerManager).ConfigureCloudRoutes, false)
}

// checkStore rejects stores that are not copied to the control plane with the cluster's folder.
func checkStore(c *validate.Check) {
	const remedy = "keep the state in a folder (--state file://…), which is copied to the hosts of the control plane"
	s := c.Spec.ConfigStore
	if s.Base != "" && !strings.HasPrefix(s.Base, "file://") {
		c.Bad("spec.configBase", s.Base, "cannot be read by machines without an account for it", remedy)
	}
	for _, f := range []struct{ path, url, usual string }{{"spec.keyStore", s.Keypairs, "/pki"}, {"spec.secretStore", s.Secrets, "/secrets"}} {
		if f.url != "" && f.url != strings.TrimSuffix(s.Base, "/")+f.usual {
			c.Bad(f.path, f.url, "is not copied to the hosts", "remove it, so that the cluster's own folder is used")
		}
	}
}

// checkUserData rejects user data that a cloud's boot program would process.
func checkUserData(c *validate.Check, g *api.InstanceGroup) {
	if len(g.Spec.AdditionalUserData) > 0 {
		c.Bad("spec.additionalUserData", "", "is not run on enrolled machines", "use spec.hooks, or prepare the machine before it is enrolled")
	}
}

// checkBackups rejects backup stores that hosts have no credentials for.
func checkBackups(c *validate.Check) {
	for i, e := range c.Spec.EtcdClusters {
		if e.Backups != nil && e.Backups.BackupStore != "" && !strings.HasPrefix(e.Backups.BackupStore, "file://") {
			c.Bad(fmt.Sprintf("spec.etcdClusters[%d].backups.backupStore", i), e.Backups.BackupStore,
				"cannot be reached by machines without an account for it", "remove it: backups are in the cluster's folder on the host of the control plane that was enrolled first")
		}
	}
}

// FixedAddress returns the API address that the user has chosen, such as one that moves
// between the control-plane hosts; ok is false if there is none.
func FixedAddress(c *api.Cluster) (address string, ok bool) {
	a, err := netip.ParseAddr(c.Spec.API.PublicName)
	return c.Spec.API.PublicName, err == nil && a.IsValid()
}
