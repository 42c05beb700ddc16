package local

import (
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"kops.local/kops/api"
	"kops.local/kops/internal/platform"
	"kops.local/kops/internal/platform/local/keeper"
	"kops.local/kops/internal/platform/local/kinds"
	"kops.local/kops/internal/platform/local/site"
)

// The cluster's folder contains desired groups and existing machines; nothing runs here.
func TestMachinesOfAFolder(t *testing.T) {
	at := site.Site{Root: t.TempDir(), Cluster: "a.example.com"}
	c := &api.Cluster{}
	c.Name = at.Cluster
	s := &platform.Session{Client: &kinds.Client{Root: at.Root}}
	if got, err := listMachines(t.Context(), s, c, nil); err != nil || len(got) != 0 {
		t.Fatalf("before there are any: %+v, %v", got, err)
	}
	dir := at.Path(site.Machines, "nodes-1")
	for file, text := range map[string]string{
		keeper.TroubleFile(at, site.Groups, "nodes"):            "the host has no memory left\n",
		filepath.Join(dir, "machine.json"):                      `{"Name": "nodes-1", "Group": "nodes", "Template": "old", "Address": "10.77.0.5", "Created": "2026-01-02T03:04:05Z"}`,
		filepath.Join(dir, "detached"):                          "",
		at.Path(site.Machines, "alone", "machine.json"):         `{"Name": "alone", "Address": "10.77.0.6"}`,
		filepath.Join(dir, "console.log"):                       "user data: running 00-nodeup.sh\r\n",
		filepath.Join(dir, "disk", "var/log", "kops-boot.json"): `{"run": 1}`, // where machines of an earlier kops have it
	} {
		if err := site.Write(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := site.WriteJSON(keeper.File(at, site.Groups, "nodes"), keeper.Group{Name: "nodes", Size: 2}); err != nil {
		t.Fatal(err)
	}
	got, err := listMachines(t.Context(), s, c, nil)
	if err != nil {
		t.Fatal(err)
	}
	if len(got) == 2 && len(got[0].Machines) == 1 {
		if got[0].Machines[0].Created.IsZero() {
			t.Error("it is not told when the machine was made")
		}
		got[0].Machines[0].Created = got[1].Machines[0].Created
	}
	want := []platform.MachineGroup{
		{Name: "nodes", Target: 2, Trouble: "the process that runs its machines has stopped, for example because the host was restarted; run: kops update cluster a.example.com --yes", Machines: []platform.Machine{{Name: "nodes-1", Group: "nodes", Node: "nodes-1", Addresses: []string{"10.77.0.5"}, Type: "host", State: "dead", Detached: true, Outdated: true}}},
		{Machines: []platform.Machine{{Name: "alone", Node: "alone", Addresses: []string{"10.77.0.6"}, Type: "host", State: "dead"}}},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	r, err := bootRecord(t.Context(), s, c, platform.Machine{Name: "nodes-1"})
	if err != nil || string(r.Report) != `{"run": 1}` || string(r.Console) != "user data: running 00-nodeup.sh\n" {
		t.Errorf("boot record %q, %v", r, err)
	}
	if r, err := bootRecord(t.Context(), s, c, platform.Machine{Name: "alone"}); err != nil || r.Report != nil || r.Console != nil {
		t.Errorf("of a machine that told nothing: %q, %v", r, err)
	}
}
