package rehearsal

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"

	"kops.local/kops/internal/ops/bundle"
	"kops.local/kops/internal/platform/local/localtest"
	"kops.local/kops/internal/test/turns"
)

// coreDNSBuilt is the release of CoreDNS that can be built from modules.
const coreDNSBuilt = "registry.k8s.io/coredns/coredns:v1.14.3"

// cloud is what the rehearsals of a cloud need in addition to its play.
type cloud struct {
	name, zones string // zones are zones in the facts in testdata
	// built are parts of the names of images and files that are built from modules. A program that does
	// nothing stands in for the others.
	built []string
	// more are programs that the play starts.
	more [][]string

	once sync.Once
	err  error
}

var clouds = map[string]*cloud{
	"aws": {name: "aws", zones: "us-test-1a", built: []string{"/cloud-controller-manager:", "/ecr-credential-provider-"}},
	"gce": {name: "gce", zones: "us-test1-a", built: []string{"/cloud-controller-manager:", "/auth-provider-gcp/"}, more: [][]string{
		{"env", "CGO_ENABLED=0", "go", "-C", "../../tools/fakegcs", "build", "-trimpath", "-o", inWorkplace("bin/fake-gcs-server"), "github.com/fsouza/fake-gcs-server"},
	}},
	"hetzner": {name: "hetzner", zones: "fsn1", built: []string{"-cloud-controller-manager:"}, more: [][]string{
		{"env", "CGO_ENABLED=0", "go", "-C", "../../tools/versitygw", "build", "-trimpath", "-o", inWorkplace("bin/versitygw"), "github.com/versity/versitygw/cmd/versitygw"},
	}},
}

// skipUnlessPicked skips the test unless this run rehearses its cloud: two clouds in each run, those first
// that the change touches, and of a cloud with several tests one part in turns. KOPS_CLOUDS=1: one cloud.
func skipUnlessPicked(t *testing.T, cloud string, part, parts int) {
	t.Helper()
	pick := 2
	if os.Getenv("KOPS_CLOUDS") == "1" {
		pick = 1
	}
	localtest.ClusterShare(t, turns.Share{Item: cloud, Of: slices.Sorted(maps.Keys(clouds)), Pick: pick, Part: part, Parts: parts})
}

// prepare adds to the bundle what clusters of the cloud fetch.
func (c *cloud) prepare() error {
	c.once.Do(func() { c.err = c.addToBundle() })
	return c.err
}

func (c *cloud) addToBundle() error {
	kops, folder := inWorkplace("bin/kops"), inWorkplace("bundle")
	images, files, err := c.assets()
	if err != nil {
		return err
	}
	create := []string{kops, "bundle", "create", "--dir", folder, "--own", inWorkplace("bin"), "--add", agnhost}
	for _, a := range slices.Concat(images, files) {
		if slices.ContainsFunc(c.built, func(part string) bool { return strings.Contains(a, part) }) {
			create = append(create, "--add", a)
		}
	}
	err = runAll(append(slices.Clone(c.more), []string{"make", "-C", "../..", "programs", "CLOUD=" + c.name}, create,
		[]string{kops, "bundle", "extract", "kubectl", "--dir", folder, "--to", inWorkplace("bin/kubectl")}))
	if err != nil {
		return err
	}
	b, err := bundle.Open(folder)
	if err != nil {
		return err
	}
	missing := slices.DeleteFunc(images, func(i string) bool { _, has := b.ImageDigest(i); return has })
	if err := standIns(inWorkplace("standin"), inWorkplace("standins.tar"), missing); err != nil {
		return err
	}
	return runAll([][]string{{kops, "bundle", "add", "--dir", folder, "--from", inWorkplace("standins.tar")}})
}

// assets returns the images and files that a cluster of the cloud fetches, the files for machines like
// this host.
func (c *cloud) assets() (images, files []string, err error) {
	kops, facts, spec := inWorkplace("bin/kops"), "../../testdata/facts/goldens.yaml", inWorkplace(c.name+".yaml")
	text, err := exec.Command(kops, "create", "cluster", "a.example.com", "--cloud", c.name, "--zones", c.zones, "--networking", "cni",
		"--state", "file://"+inWorkplace("none"), "--facts", facts, "--dry-run", "-o", "yaml").Output()
	if err != nil {
		return nil, nil, fmt.Errorf("describe a cluster: %w", err)
	}
	if err := os.WriteFile(spec, text, 0o600); err != nil {
		return nil, nil, err
	}
	text, err = exec.Command(kops, "get", "assets", "-f", spec, "--facts", facts, "-o", "json").Output()
	if err != nil {
		return nil, nil, fmt.Errorf("list the assets of a cluster: %w", err)
	}
	var all struct{ Images, Files []struct{ Canonical string } }
	if err := json.Unmarshal(text, &all); err != nil {
		return nil, nil, err
	}
	for _, i := range all.Images {
		images = append(images, i.Canonical)
	}
	for _, f := range all.Files {
		if strings.Contains(f.Canonical, "/"+runtime.GOARCH+"/") {
			files = append(files, f.Canonical)
		}
	}
	return images, files, nil
}
