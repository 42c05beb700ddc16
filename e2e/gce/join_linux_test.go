package gce

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"kops.local/kops/internal/platform"
	"kops.local/kops/internal/platform/gce/gcecloud"
	"kops.local/kops/internal/platform/gce/gcerest"
	"kops.local/kops/internal/platform/gce/vtpm/vtpmtest"
	"kops.local/kops/internal/test/cloudsuite"
	"kops.local/kops/internal/test/joinsuite"
)

func TestMachinesJoin(t *testing.T) {
	joinsuite.Run(t, func(t *testing.T) *joinsuite.Cloud {
		return &joinsuite.Cloud{Cloud: cloud(), Options: []string{"--dns", "none"},
			Owns: func(host string) bool { return strings.HasSuffix(host, ".googleapis.com") },
			API:  serveAPI,
			Metadata: func(w *cloudsuite.World, m platform.Machine) http.Handler {
				return of(w).Metadata(project, m.Zone, m.Name)
			},
			Elsewhere: func(at string) map[string]string {
				return map[string]string{gcerest.MetadataVariable: strings.TrimPrefix(at, "http://")}
			},
			Script: bootScript, Identify: addTPM, Devices: disks,
			ProviderID: func(m platform.Machine) string { return "gce://" + project + "/" + m.Zone + "/" + m.Name },
		}
	})
}

// serveAPI serves Google's APIs, and the files of buckets, which boot scripts read.
func serveAPI(w *cloudsuite.World) http.Handler {
	return http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		if key, is := strings.CutPrefix(r.URL.Path, "/"+bucket+"/"); is && r.Host == "storage.googleapis.com" {
			r.URL = &url.URL{Path: "/storage/v1/b/" + bucket + "/o/" + key, RawPath: "/storage/v1/b/" + bucket + "/o/" + url.PathEscape(key), RawQuery: "alt=media"}
		}
		of(w).ServeHTTP(rw, r)
	})
}

// bootScript returns the script in an instance's metadata.
func bootScript(w *cloudsuite.World, m platform.Machine) string {
	w.Helper()
	r := httptest.NewRequest(http.MethodGet, "/computeMetadata/v1/instance/attributes/"+gcecloud.MetadataUserData, nil)
	r.Header.Set("Metadata-Flavor", "Google")
	answer := httptest.NewRecorder()
	if of(w).Metadata(project, m.Zone, m.Name).ServeHTTP(answer, r); answer.Code != http.StatusOK {
		w.Fatalf("the instance %s has no script: %d %s", m.Name, answer.Code, answer.Body)
	}
	return answer.Body.String()
}

// addTPM gives a machine a TPM.
func addTPM(w *cloudsuite.World, m platform.Machine, root string) {
	w.Helper()
	at, key := vtpmtest.Start(w)
	of(w).tpms.Store(m.Name, key)
	if err := errors.Join(os.MkdirAll(filepath.Join(root, "dev"), 0o755), os.Symlink(filepath.Join(at, "dev/tpm0"), filepath.Join(root, "dev/tpm0"))); err != nil {
		w.Fatal(err)
	}
}

// disks returns where an instance sees its disks.
func disks(w *cloudsuite.World, m platform.Machine) []string {
	w.Helper()
	i, err := of(w).api.Compute.Instances.Get(project, m.Zone, m.Name).Do()
	if err != nil {
		w.Fatal(err)
	}
	var out []string
	for _, d := range i.Disks {
		out = append(out, "/dev/disk/by-id/google-"+d.DeviceName)
	}
	return out
}
