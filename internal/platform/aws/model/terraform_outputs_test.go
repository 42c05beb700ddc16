package model

import (
	"slices"
	"strings"
	"testing"

	"kops.local/kops/internal/engine/graph"
	"kops.local/kops/internal/engine/render/terraform"
	"kops.local/kops/internal/engine/render/terraform/schematest"
	"kops.local/kops/internal/engine/resource"
)

// partOf returns a cluster's graph in which the nodes of the kinds in out are left out, and the
// nodes of the kinds in exist are expected to exist.
func partOf(t *testing.T, whole *graph.Graph, out, exist []string) *graph.Graph {
	t.Helper()
	part := &graph.Graph{}
	for n := range whole.All() {
		if slices.Contains(out, n.Address.Kind) {
			continue
		}
		n.Expect = n.Adopt == "" && slices.Contains(exist, n.Address.Kind)
		if err := part.Add(n); err != nil {
			t.Fatal(err)
		}
	}
	return part
}

func TestTerraformOfAPart(t *testing.T) {
	in := read(t, aCluster().Documents(t, map[string]string{
		"cluster": "api: {loadBalancer: {type: Public, class: Network}}\n" +
			"serviceAccountIssuerDiscovery: {discoveryStore: \"s3://issuer/a.example.com\", enableAWSOIDCProvider: true}\n" +
			"iam: {useServiceAccountExternalPermissions: true}",
		"groups": baseGroups,
	}))
	whole := &graph.Graph{}
	if err := Build(in, whole); err != nil {
		t.Fatal(err)
	}
	network := []string{"aws_vpc", "aws_vpc_dhcp_options", "aws_vpc_dhcp_options_association", "aws_internet_gateway", "aws_subnet",
		"aws_route_table", "aws_route_table_association", "aws_route"}
	security := []string{"aws_security_group", "aws_security_group_rule", "aws_iam_role", "aws_iam_role_policy", "aws_iam_instance_profile",
		"aws_iam_openid_connect_provider", "aws_key_pair"}
	var cluster []string
	for n := range whole.All() {
		if k := n.Address.Kind; !slices.Contains(slices.Concat(network, security), k) {
			cluster = append(cluster, k)
		}
	}
	for name, c := range map[string]struct {
		out, exist   []string
		want, unwant []string
	}{
		"network": {
			out:    slices.Concat(security, cluster),
			want:   []string{`output "vpc_id"`, `output "route_table_public_id"`},
			unwant: []string{"data ", "aws_iam", "security_group", "autoscaling", "issuer"},
		},
		"security": {
			out: cluster, exist: network,
			want: []string{"= data.aws_vpc.a-example-com.id",
				"data \"aws_vpc\" \"a-example-com\" {\n  tags = {\n    \"KubernetesCluster\" = \"a.example.com\"\n    \"Name\"              = \"a.example.com\"\n  }\n}"},
			unwant: []string{"resource \"aws_vpc\"", "autoscaling"},
		},
		"cluster": {
			exist: slices.Concat(network, security),
			want: []string{`vpc_zone_identifier = [data.aws_subnet.us-test-1a-a-example-com.id]`, `name = "nodes.a.example.com"`,
				`iam_openid_connect_provider_arn `, `url = "https://issuer.s3.us-test-1.amazonaws.com/a.example.com"`},
			unwant: []string{"resource \"aws_iam", "data \"aws_iam_instance_profile", "data \"aws_key_pair"},
		},
		"identities that others made": {
			exist: []string{"aws_iam_role", "aws_iam_role_policy", "aws_iam_instance_profile"},
			want:  []string{`masters_role_arn`, `data.aws_iam_role.masters-a-example-com.arn`, "iam_instance_profile {\n    name = \"masters.a.example.com\"\n  }"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			doc, err := Terraform(in, partOf(t, whole, c.out, c.exist))
			if err != nil {
				t.Fatal(err)
			}
			files, err := terraform.Render(doc)
			if err != nil {
				t.Fatal(err)
			}
			schematest.Validate(t, files)
			text := string(files[terraform.MainFile])
			for _, w := range c.want {
				if !strings.Contains(text, w) {
					t.Errorf("there is no %q in\n%s", w, text)
				}
			}
			for _, u := range c.unwant {
				if strings.Contains(text, u) {
					t.Errorf("there is %q", u)
				}
			}
		})
	}
}

func TestOutputsOfChosenGroups(t *testing.T) {
	in := read(t, aCluster().Documents(t, map[string]string{"groups": baseGroups}))
	whole := &graph.Graph{}
	if err := Build(in, whole); err != nil {
		t.Fatal(err)
	}
	chosen := whole.Select(func(n resource.Node) bool { return !strings.HasPrefix(n.Address.Name, "cp.") })
	doc, err := Terraform(in, chosen)
	if err != nil {
		t.Fatal(err)
	}
	if _, ok := doc.Outputs["node_autoscaling_group_ids"]; !ok {
		t.Error("the chosen group has no output")
	}
	if _, ok := doc.Outputs["master_autoscaling_group_ids"]; ok {
		t.Error("a group that is left out has an output")
	}
}

// Files of a store on another S3 server are written there, and not to Amazon.
func TestFilesOnAnotherServer(t *testing.T) {
	in := read(t, aCluster().Documents(t, map[string]string{"groups": baseGroups}))
	g := &graph.Graph{}
	if err := Build(in, g); err != nil {
		t.Fatal(err)
	}
	for endpoint, want := range map[string]string{"": "", "minio.example.com:9000": "https://minio.example.com:9000", "http://10.0.0.1": "http://10.0.0.1"} {
		in.FilesEndpoint = endpoint
		doc, err := Terraform(in, g)
		if err != nil {
			t.Fatal(err)
		}
		for _, p := range doc.Providers {
			url := ""
			if p.Alias == "files" {
				url = want
			}
			if p.Endpoints["s3"] != url || (p.Attributes["s3_use_path_style"] == "true") != (url != "") {
				t.Errorf("with the server %q the provider %q is %+v", endpoint, p.Alias, p)
			}
		}
	}
}
