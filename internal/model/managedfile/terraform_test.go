package managedfile_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"kops.local/kops/internal/engine/graph"
	"kops.local/kops/internal/engine/render/terraform"
	"kops.local/kops/internal/engine/render/terraform/schematest"
	"kops.local/kops/internal/model/managedfile"
)

// A bucket's kind may name arguments differently from the struct, take the path of a file instead
// of its text, and need another resource for read access.
func TestFilesOfABucketAreSpelledAsItsProviderDoes(t *testing.T) {
	at := buckets.Location("gs://state/c.example.com")
	var g graph.Graph
	jwks := at.Node("keys.json", "openid/v1/jwks", text("{\"keys\": []}\n"), true)
	if err := g.Add(at.Node("cluster-completed.spec", "cluster-completed.spec", text("kind: Cluster\n"), false), at.Node("empty", "empty", text(""), false), jwks); err != nil {
		t.Fatal(err)
	}
	files, err := terraform.Render(terraform.Document{Graph: &g})
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]string{}
	for name, text := range files {
		got[name] = string(text)
	}
	want := map[string]string{
		"data/google_storage_bucket_object_cluster-completed.spec_source": "kind: Cluster\n",
		"data/google_storage_bucket_object_empty_source":                  "",
		"data/google_storage_bucket_object_keys.json_source":              "{\"keys\": []}\n",
		terraform.MainFile: `resource "google_storage_bucket_object" "cluster-completed-spec" {
  bucket   = "state"
  name     = "c.example.com/cluster-completed.spec"
  provider = google.files
  source   = "${path.module}/data/google_storage_bucket_object_cluster-completed.spec_source"
}

resource "google_storage_bucket_object" "empty" {
  bucket   = "state"
  name     = "c.example.com/empty"
  provider = google.files
  source   = "${path.module}/data/google_storage_bucket_object_empty_source"
}

resource "google_storage_bucket_object" "keys-json" {
  bucket   = "state"
  name     = "c.example.com/openid/v1/jwks"
  provider = google.files
  source   = "${path.module}/data/google_storage_bucket_object_keys.json_source"
}

resource "google_storage_object_acl" "keys-json" {
  bucket      = "state"
  object      = google_storage_bucket_object.keys-json.output_name
  provider    = google.files
  role_entity = ["READER:allUsers"]
}
`}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("-want +got:\n%s", d)
	}
	schematest.Validate(t, files)
	if f := jwks.Want.(*managedfile.File); f.ACL != "public-read" || f.Encryption != "" {
		t.Errorf("declared as %+v", f)
	}
}
