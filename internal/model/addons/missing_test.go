package addons_test

import (
	"strings"
	"testing"
	"testing/fstest"

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
	if got := channelOf(t, r); len(got.Spec.Addons) != 1 || got.Spec.Addons[0].Prune != nil {
		t.Errorf("channel %s", r.Channel)
	}
}
