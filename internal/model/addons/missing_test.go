package addons_test

import (
	"strings"
	"testing"
	"testing/fstest"

	"sigs.k8s.io/yaml"

	"kops.local/kops/api"
	"kops.local/kops/internal/spec/catalogue"
)

func TestAnAddonWithoutManifestIsReportedAndPrunesNothing(t *testing.T) {
	in := cluster(t, variants()["minimal"])
	var err error
	in.Addons, err = catalogue.Read(fstest.MapFS{"yours/addon.yaml": {Data: []byte("name: yours.io\nid: v1\nwhen: '{{ true }}'\nprune: true\n")}})
	if err != nil {
		t.Fatal(err)
	}
	r := build(t, in)
	if len(r.Files) != 1 || string(r.Files[0].Content) != "# kops has no manifest of yours.io.\n" {
		t.Fatalf("files %v", r.Files)
	}
	if len(r.Findings) != 1 || !r.Findings[0].Warning || !strings.HasPrefix(r.Findings[0].String(), "add-on yours.io: this version of kops has no manifest") {
		t.Errorf("findings %v", r.Findings)
	}
	var got api.Addons
	if err := yaml.Unmarshal(r.Channel, &got); err != nil || len(got.Spec.Addons) != 1 || got.Spec.Addons[0].Prune != nil {
		t.Errorf("channel %s, %v", r.Channel, err)
	}
}
