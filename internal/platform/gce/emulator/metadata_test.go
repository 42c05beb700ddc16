package emulator_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"google.golang.org/api/compute/v1"

	"kops.local/kops/internal/platform/gce/emulator"
)

// getMetadata sends a request for a path to a metadata server, and returns the status and the text.
func getMetadata(t *testing.T, h http.Handler, path string, header ...string) (int, string) {
	t.Helper()
	r := httptest.NewRequest(http.MethodGet, path, nil)
	r.Header.Set("Metadata-Flavor", "Google")
	for i := 0; i+1 < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	if w.Header().Get("Metadata-Flavor") != "Google" {
		t.Errorf("%s: the answer is of no metadata server: %v", path, w.Header())
	}
	text, err := io.ReadAll(w.Body)
	if err != nil {
		t.Fatal(err)
	}
	return w.Code, string(text)
}

func TestTheMetadataOfAnInstance(t *testing.T) {
	c := play(t, emulator.Options{})
	c.network()
	c.done(c.Instances.Insert(project, zone, &compute.Instance{Name: "i", MachineType: "zones/us-test1-a/machineTypes/e2-medium", CanIpForward: true,
		Disks:             []*compute.AttachedDisk{{Boot: true, AutoDelete: true, DeviceName: "boot", InitializeParams: &compute.AttachedDiskInitializeParams{SourceImage: "projects/debian-cloud/global/images/family/debian-12"}}},
		NetworkInterfaces: []*compute.NetworkInterface{{Subnetwork: "regions/us-test1/subnetworks/s", AccessConfigs: []*compute.AccessConfig{{}}}},
		Metadata:          &compute.Metadata{Items: []*compute.MetadataItems{{Key: "user-data", Value: new("#!/bin/sh\n")}}},
		Tags:              &compute.Tags{Items: []string{"x", "y"}},
		ServiceAccounts:   []*compute.ServiceAccount{{Email: "default", Scopes: []string{"https://www.googleapis.com/auth/compute", "https://www.googleapis.com/auth/logging.write"}}},
	}).Do())
	h := c.Metadata(project, zone, "i")
	const v1 = "/computeMetadata/v1/"
	for path, want := range map[string]string{
		"/":                                      "computeMetadata/\n",
		v1:                                       "instance/\nproject/\n",
		v1 + "project/project-id":                "testproject",
		v1 + "project/numeric-project-id":        "100000000000",
		v1 + "instance/image":                    "projects/debian-cloud/global/images/debian-12",
		v1 + "instance/name":                     "i",
		v1 + "instance/hostname":                 "i.us-test1-a.c.testproject.internal",
		v1 + "instance/zone":                     "projects/100000000000/zones/us-test1-a",
		v1 + "instance/machine-type":             "projects/100000000000/machineTypes/e2-medium",
		v1 + "instance/tags":                     `["x","y"]`,
		v1 + "instance/attributes/":              "user-data\n",
		v1 + "instance/attributes/user-data":     "#!/bin/sh\n",
		v1 + "instance/network-interfaces/":      "0/\n",
		v1 + "instance/network-interfaces/0/ip":  "10.0.16.2",
		v1 + "instance/network-interfaces/0/mac": "42:01:0a:00:10:02",
		v1 + "instance/network-interfaces/0/access-configs/0/external-ip": "34.0.0.1",
		v1 + "instance/service-accounts/":                                 "100000000000-compute@developer.gserviceaccount.com/\ndefault/\n",
		v1 + "instance/service-accounts/default/":                         "aliases\nemail\nscopes\n",
		v1 + "instance/service-accounts/default/email":                    "100000000000-compute@developer.gserviceaccount.com",
		v1 + "instance/service-accounts/default/scopes":                   "https://www.googleapis.com/auth/compute\nhttps://www.googleapis.com/auth/logging.write\n",
		v1 + "instance/disks/0/device-name":                               "boot",
		v1 + "instance/attributes/?recursive=true":                        `{"user-data":"#!/bin/sh\n"}` + "\n",
		v1 + "instance/name?alt=json":                                     `"i"` + "\n",
		v1 + "instance/scheduling/?recursive=true":                        `{"automaticRestart":"TRUE","onHostMaintenance":"MIGRATE","preemptible":"FALSE"}` + "\n",
		v1 + "project/?recursive=true&alt=text":                           "numeric-project-id 100000000000\nproject-id testproject\n",
	} {
		if status, got := getMetadata(t, h, path); status != http.StatusOK || got != want {
			t.Errorf("%s: got %d %q, want %q", path, status, got, want)
		}
	}
	if _, got := getMetadata(t, h, v1+"instance/service-accounts/default/token"); !strings.Contains(got, `"access_token":"ya29.`) || !strings.Contains(got, `"token_type":"Bearer"`) {
		t.Errorf("token: %s", got)
	}
	if _, got := getMetadata(t, h, v1+"?recursive=true"); strings.Contains(got, "ya29.") || !strings.Contains(got, `"networkInterfaces":[{"accessConfigs":[{"externalIp":"34.0.0.1","type":"ONE_TO_ONE_NAT"}]`) {
		t.Errorf("all: %s", got)
	}
	for path, status := range map[string]int{v1 + "instance/attributes/none": 404, v1 + "instance/attributes": 301, v1 + "instance/network-interfaces/1/": 404, "/computeMetadata/v2/": 404, v1 + "?wait_for_change=true": 400} {
		if got, _ := getMetadata(t, h, path); got != status {
			t.Errorf("%s: got %d, want %d", path, got, status)
		}
	}
	if status, _ := getMetadata(t, h, v1, "Metadata-Flavor", ""); status != http.StatusForbidden {
		t.Errorf("without the header: %d", status)
	}
	if status, _ := getMetadata(t, h, v1, "X-Forwarded-For", "10.0.0.1"); status != http.StatusForbidden {
		t.Errorf("for somebody else: %d", status)
	}
	if status, _ := getMetadata(t, c.Metadata(project, zone, "other"), v1); status != http.StatusServiceUnavailable {
		t.Errorf("without an instance: %d", status)
	}
}
