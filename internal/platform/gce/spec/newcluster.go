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

// description is how a new cluster on GCE is described.
func description() newcluster.Rules {
	return newcluster.Rules{
		Options: []newcluster.Option{
			{Name: "project", Usage: "GCE: project (default: the project of the environment or of gcloud)"},
			{Name: "gce-service-account", Usage: "GCE: address of an existing service account of the machines, or default"},
		},
		Defaults: defaults,
		Describe: describe,
		Finish:   shareNetwork,
		Group:    group,
	}
}

func describe(b *newcluster.Builder) {
	b.Spec.CloudProvider.GCE = &api.GCESpec{Project: cmp.Or(b.Own["project"], own(b.Facts).Project), ServiceAccount: b.Own["gce-service-account"]}
	b.Spec.CloudConfig = &api.CloudConfiguration{}
	if n := len(names.Dashed(b.ClusterName)); n > labelMax {
		b.Fail("option:ClusterName", b.ClusterName, fmt.Sprintf("has %d characters, and a label of Google's has %d at most", n, labelMax), "choose a shorter name")
	}
	if len(b.SubnetIDs) > 1 {
		b.Fail("option:SubnetIDs", strings.Join(b.SubnetIDs, ","), "subnets of GCE span their region, and a cluster has one", "name one subnet")
	}
}

// shareNetwork gives a cluster in a shared subnet the network of that.
func shareNetwork(b *newcluster.Builder) {
	n := &b.Spec.Networking
	if len(b.SubnetIDs) == 0 || n.NetworkID != "" {
		return
	}
	if n.NetworkID = b.Facts.Subnets[b.SubnetIDs[0]].Network; n.NetworkID == "" {
		b.Fail("option:NetworkID", "", "the network of the shared subnet is not known", "name it with option:NetworkID")
	}
}

func defaults(b *newcluster.Builder) {
	pinFamilies(b)
	chooseDisks(&b.Options)
}

// chooseDisks gives machines of series that take no others Hyperdisks.
func chooseDisks(o *newcluster.Options) {
	for _, d := range []struct {
		sizes []string
		disk  *string
	}{{o.NodeSizes, &o.NodeVolumeType}, {o.ControlPlaneSizes, &o.ControlPlaneVolumeType}, {o.ControlPlaneSizes, &o.EtcdStorageType}} {
		if *d.disk == "" && len(d.sizes) > 0 && takesHyperdisksAlone(d.sizes[0]) {
			*d.disk = hyperdisk + "balanced"
		}
	}
}

// pinFamilies writes the images that families have now, so that machines are made of the
// same image until somebody wants another.
func pinFamilies(b *newcluster.Builder) {
	families := own(b.Facts).Families
	for _, image := range []*string{&b.Image, &b.ControlPlaneImage, &b.NodeImage, &b.BastionImage} {
		if now := families[*image]; now != "" {
			*image = now
		}
	}
}

// group completes a group that is added to a cluster: it names its zones, and sets the label by
// which Google's metadata proxy knows its nodes, as kOps does.
func group(g *api.InstanceGroup) diag.List {
	if len(g.Spec.Zones) == 0 {
		return diag.List{{Path: "option:GroupZones", Rule: "option", Message: "subnets of GCE span their region, so a group names its zones", Remedy: "name them with option:GroupZones"}}
	}
	g.Spec.NodeLabels["cloud.google.com/metadata-proxy-ready"] = "true"
	return nil
}
