package model

import (
	"strings"
	"testing"

	"kops.local/kops/internal/engine/graph"
	"kops.local/kops/internal/engine/render/terraform"
	"kops.local/kops/internal/engine/resource"
	"kops.local/kops/internal/model/managedfile"
	"kops.local/kops/internal/platform"
	"kops.local/kops/internal/test/modeltest"
)

// changedCluster returns the transcripts' base cluster with changes to its spec.
func changedCluster(t *testing.T, spec string) platform.Model {
	t.Helper()
	return read(t, aCluster().Documents(t, map[string]string{"cluster": spec}))
}

// declared are the functions that are tested.
var declared = platform.Declare{Model: Build, Terraform: Terraform}

// terraformMain returns the main file of a graph's Terraform configuration, after validating it.
func terraformMain(t *testing.T, in platform.Model, g *graph.Graph) string {
	t.Helper()
	return string(modeltest.Rendered(t, declared, in, g)[terraform.MainFile])
}

func built(t *testing.T, in platform.Model, before ...resource.Node) *graph.Graph {
	t.Helper()
	return modeltest.Built(t, declared, in, before...)
}

// checkParts checks that a text contains some parts and does not contain others.
func checkParts(t *testing.T, text string, want, unwanted []string) {
	t.Helper()
	for _, w := range want {
		if !strings.Contains(text, w) {
			t.Errorf("there is no %s in\n%s", w, text)
		}
	}
	for _, w := range unwanted {
		if strings.Contains(text, w) {
			t.Errorf("there is %s in\n%s", w, text)
		}
	}
}

// An update of one part writes its resources, and refers to the resources of earlier parts.
func TestTerraformOfAPart(t *testing.T) {
	in := changedCluster(t, "api: {loadBalancer: {type: Public}}\ntopology: {dns: {type: None}}\nsubnets: [{name: us-test1, region: us-test1, cidr: 10.0.16.0/20, type: Private}]")
	whole := built(t, in)
	parts := []string{resource.Network, resource.Security, resource.Cluster}
	for i, c := range []struct{ want, unwanted []string }{
		{[]string{`resource "google_compute_router_nat"`}, []string{"firewall", "address", "template"}},
		{[]string{`resource "google_compute_firewall"`, `subnetwork   = "projects/testproject/regions/us-test1/subnetworks/us-test1-a-example-com"`},
			[]string{`resource "google_compute_network"`, "instance_group", "\ndata "}},
		{[]string{`data "google_compute_address" "api-us-test1-a-example-com"`, `ip_address      = data.google_compute_address.api-us-test1-a-example-com.address`,
			`target                = "projects/testproject/regions/us-test1/targetPools/api-a-example-com"`,
			`health_checks         = ["projects/testproject/regions/us-test1/healthChecks/api-a-example-com"]`},
			[]string{`resource "google_compute_firewall"`, `resource "google_compute_address"`, `data "google_compute_network"`}},
	} {
		part := &graph.Graph{}
		for n := range whole.All() {
			n.Expect = strings.Contains(strings.Join(parts[:i], " "), n.Kind.Phase())
			if !n.Expect && n.Kind.Phase() != parts[i] {
				continue
			}
			if err := part.Add(n); err != nil {
				t.Fatal(err)
			}
		}
		t.Run(parts[i], func(t *testing.T) { checkParts(t, terraformMain(t, in, part), c.want, c.unwanted) })
	}
}

func TestTerraformOfASharedNetworkNamesItInFull(t *testing.T) {
	for id, want := range map[string]string{"host/net-1": "projects/host/global/networks/net-1", "net-1": "projects/testproject/global/networks/net-1"} {
		in := changedCluster(t, "networkID: "+id+"\nsubnets: [{name: us-test1, region: us-test1, id: subnet-1, cidr: 10.9.0.0/20, type: Public}]")
		checkParts(t, terraformMain(t, in, built(t, in)), []string{`network    = "` + want + `"`, `/regions/us-test1/subnetworks/subnet-1"`},
			[]string{"google_compute_network", `resource "google_compute_subnetwork"`, "\ndata "})
	}
}

func TestTerraformOfManagedFilesOnGoogleStorage(t *testing.T) {
	in := changedCluster(t, "target: {terraform: {filesProviderExtraConfig: {user_project_override: \"true\"}}}")
	bucket := managedfile.NewBucket("google_storage_bucket_object", "storage")
	bucket.Provider = "google.files"
	at := managedfile.Buckets{"gs": bucket}.Location("gs://state/a.example.com")
	g := built(t, in, at.Node("f", "f", resource.Text(resource.Lit("text")), false))
	doc, err := Terraform(in, g)
	if err != nil {
		t.Fatal(err)
	}
	if got := doc.RequiredProviders["google"]; len(doc.RequiredProviders) != 1 || got.Version != ">= 5.11.0" || len(got.Aliases) != 1 || got.Aliases[0] != "google.files" {
		t.Errorf("required: %+v", doc.RequiredProviders)
	}
	if p := doc.Providers[1]; len(doc.Providers) != 2 || p.Name != "google" || p.Alias != "files" || p.Attributes["project"] != "testproject" || p.Attributes["user_project_override"] != "true" {
		t.Errorf("providers: %+v", doc.Providers)
	}
}

func TestTerraformOfManagedFilesElsewhere(t *testing.T) {
	in := changedCluster(t, "")
	bucket := managedfile.NewBucket("toy_object", "toy")
	bucket.Provider = "toy.files"
	store := managedfile.Buckets{"toy": bucket}.Location("toy://state/a.example.com")
	for _, at := range []struct{ region, endpoint, url string }{{"", "", ""}, {"eu-1", "", ""}, {"", "s3.example.com", "https://s3.example.com"}} {
		in.FilesRegion, in.FilesEndpoint = at.region, at.endpoint
		doc, err := Terraform(in, built(t, in, store.Node("f", "f", resource.Text(resource.Lit("text")), false)))
		if err != nil {
			t.Fatal(err)
		}
		if p := doc.Providers[1]; p.Name != "toy" || p.Attributes["region"] != at.region || p.Endpoints["s3"] != at.url || p.Attributes["project"] != "" || doc.RequiredProviders["toy"].Source != "hashicorp/toy" {
			t.Errorf("%+v %+v", p, doc.RequiredProviders)
		}
	}
}

// If no name is published, one run is enough, because the user data refers to the address.
func TestTerraformGivesMachinesTheAddressOfTheAPI(t *testing.T) {
	in := changedCluster(t, "api: {loadBalancer: {type: Internal}}\ntopology: {dns: {type: None}}")
	checkParts(t, terraformMain(t, in, built(t, in)), []string{
		`"google_compute_address_api_us_test1_a_example_com_address" = google_compute_address.api-us-test1-a-example-com.address`,
		`"user-data" = templatefile("${path.module}/data/google_compute_instance_template_nodes-a-example-com_metadata_user-data", {`,
	}, nil)
}

func TestSeveralKeysAreAFileOfTerraforms(t *testing.T) {
	in := changedCluster(t, "")
	in.SSHKeys = []string{"ssh-rsa A", "ssh-rsa B"}
	checkParts(t, terraformMain(t, in, built(t, in)), []string{`file("${path.module}/data/google_compute_instance_template_cp-a-example-com_metadata_ssh-keys")`}, nil)
}
