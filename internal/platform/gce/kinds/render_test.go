package kinds

import (
	"strings"
	"testing"

	"kops.local/kops/internal/engine/render/terraform"
	"kops.local/kops/internal/engine/render/terraform/schematest"
)

// TestRenderedKindsFitTheProvidersSchema checks that Terraform's provider has every attribute of
// the kinds, with the same type.
func TestRenderedKindsFitTheProvidersSchema(t *testing.T) {
	g := wantedGraph(t, testCluster, "us-test1", "", "nodes")
	for n := range g.All() {
		switch o := n.Want.(type) {
		case *InstanceTemplate:
			o.Accelerators = []Accelerator{{"nvidia-l4", 1}}
			o.Interfaces[0].Aliases = []AliasRange{{"/24", "pods"}}
			o.Disks[0].IOPS, o.Disks[0].Throughput = 3000, 140
		case *Subnetwork:
			o.Secondary, o.IPv6Access = []SecondaryRange{{"pods", "10.4.0.0/14"}}, "EXTERNAL"
		case *Disk:
			o.IOPS, o.Throughput = 3000, 140
		case *Firewall:
			o.SourceRanges, o.Allow = []string{"10.0.0.0/8"}, []Allowed{{"tcp", []string{"22"}}}
		}
	}
	err := g.Add(HealthChecks.New("ssl", HealthCheck{Name: "ssl", SSL: &CheckPort{3988}}))
	if err != nil {
		t.Fatal(err)
	}
	files, err := terraform.Render(terraform.Document{Graph: g})
	if err != nil {
		t.Fatal(err)
	}
	schematest.Validate(t, files)
	main := string(files[terraform.MainFile])
	for _, want := range []string{`ignore_changes = [target_size]`, `create_before_destroy = true`, `google_compute_address.api.address`, `google_compute_instance_group_manager.cp.instance_group`} {
		if !strings.Contains(main, want) {
			t.Errorf("kubernetes.tf does not say %s", want)
		}
	}
	for _, k := range All() {
		if k.KindDirect() && strings.Contains(main, `"`+k.KindName()+`"`) {
			t.Errorf("kubernetes.tf says %s", k.KindName())
		}
	}
}
