package spec

import (
	"cmp"
	"fmt"
	"strings"

	"kops.local/kops/api"
	"kops.local/kops/internal/model/names"
	"kops.local/kops/internal/spec/diag"
	"kops.local/kops/internal/spec/newcluster"
)

// newClusterRules returns the rules by which a new cluster on GCE is described.
func newClusterRules() newcluster.Rules {
	return newcluster.Rules{
		Options: []newcluster.Option{
			{Name: "project", Usage: "GCE: project (default: the project of the environment or of gcloud)"},
			{Name: "gce-service-account", Usage: "GCE: address of an existing service account of the machines, or default"},
		},
		Defaults: defaults,
		Describe: describe,
		Finish:   shareNetwork,
		Group:    completeGroup,
	}
}

func describe(b *newcluster.Builder) {
	b.Spec.CloudProvider.GCE = &api.GCESpec{Project: cmp.Or(b.Own["project"], ownFacts(b.Facts).Project), ServiceAccount: b.Own["gce-service-account"]}
	b.Spec.CloudConfig = &api.CloudConfiguration{}
	if n := len(names.Dashed(b.ClusterName)); n > labelMax {
		b.Fail("option:ClusterName", b.ClusterName, fmt.Sprintf("has %d characters, but a Google Cloud label has %d at most", n, labelMax), "choose a shorter name")
	}
	if len(b.SubnetIDs) > 1 {
		b.Fail("option:SubnetIDs", strings.Join(b.SubnetIDs, ","), "a subnet of GCE spans its region, and a cluster uses only one", "use one subnet")
	}
}

// shareNetwork sets the network of a cluster in a shared subnet to that subnet's network.
func shareNetwork(b *newcluster.Builder) {
	n := &b.Spec.Networking
	if len(b.SubnetIDs) == 0 || n.NetworkID != "" {
		return
	}
	if n.NetworkID = b.Facts.Subnets[b.SubnetIDs[0]].Network; n.NetworkID == "" {
		b.Fail("option:NetworkID", "", "the network of the shared subnet is not known", "set it with option:NetworkID")
	}
}

func defaults(b *newcluster.Builder) {
	pinFamilies(b)
	chooseDisks(&b.Options)
}

// chooseDisks selects Hyperdisks for machine series that support no others.
func chooseDisks(o *newcluster.Options) {
	for _, d := range []struct {
		sizes []string
		disk  *string
	}{{o.NodeSizes, &o.NodeVolumeType}, {o.ControlPlaneSizes, &o.ControlPlaneVolumeType}, {o.ControlPlaneSizes, &o.EtcdStorageType}} {
		if *d.disk == "" && len(d.sizes) > 0 && needsHyperdisks(d.sizes[0]) {
			*d.disk = hyperdisk + "balanced"
		}
	}
}

// pinFamilies replaces image families with their current images, so that machines keep using the
// same image until the user changes it.
func pinFamilies(b *newcluster.Builder) {
	families := ownFacts(b.Facts).Families
	for _, image := range []*string{&b.Image, &b.ControlPlaneImage, &b.NodeImage, &b.BastionImage} {
		if now := families[*image]; now != "" {
			*image = now
		}
	}
}

// completeGroup completes a group that is added to a cluster: it must list its zones, and gets the label by
// which Google's metadata proxy recognizes its nodes, as in kOps.
func completeGroup(g *api.InstanceGroup) diag.List {
	if len(g.Spec.Zones) == 0 {
		return diag.List{{Path: "option:GroupZones", Rule: "option", Message: "subnets of GCE span their region, so a group must list its zones", Remedy: "set them with option:GroupZones"}}
	}
	g.Spec.NodeLabels["cloud.google.com/metadata-proxy-ready"] = "true"
	return nil
}
