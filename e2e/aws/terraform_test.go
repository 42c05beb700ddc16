package aws

import (
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/service/ec2"

	"kops.local/kops/internal/platform/aws/awstest"
)

// If no name is published, machines join at the load balancer, whose address is only known to
// Terraform. The files are the same before and after it is created: no second run is needed.
func TestTerraformWithoutNamesNeedsNoSecondRun(t *testing.T) {
	w := newWorld(t, awstest.Moto(t))
	w.small("--dns", "none")
	first, told := w.terraform()
	const file = "data/aws_launch_template_nodes-us-east-1a." + name + "_user_data"
	reference := regexp.MustCompile(`- https://\$\{([a-z0-9_]+)\}:3988/\n`).FindStringSubmatch(first[file])
	if reference == nil {
		t.Fatalf("nodes do not join at what Terraform makes:\n%s", first[file])
	}
	if call := `"` + reference[1] + `" = aws_lb.api-a-example-com.dns_name`; !strings.Contains(strings.Join(strings.Fields(first["kubernetes.tf"]), " "), call) {
		_, text, _ := strings.Cut(first["kubernetes.tf"], "templatefile(")
		t.Errorf("the document does not say %q, but %.400s", call, text)
	}
	for path, text := range first {
		if path != file && path != "kubernetes.tf" && strings.Contains(text, reference[1]) {
			t.Errorf("%s waits for the address, too", path)
		}
	}
	if !strings.Contains(told, "kops export kubeconfig "+name+" --admin") || !strings.Contains(told, "no second run is needed") {
		t.Errorf("the user is not told how it goes on:\n%s", told)
	}
	w.Must("update", "cluster", name, "--yes") // as Terraform would
	second, _ := w.terraform()
	for _, path := range slices.Sorted(maps.Keys(first)) {
		if first[path] != second[path] {
			t.Errorf("a second run writes another %s", path)
		}
	}
	if len(first) != len(second) {
		t.Errorf("%d files were written at first, and %d then", len(first), len(second))
	}
	w.Must("delete", "cluster", name, "--yes")
}

// terraform writes the cluster as Terraform, and returns the files, and the output.
func (w *world) terraform() (files map[string]string, told string) {
	w.Helper()
	dir, out := w.TempDir(), map[string]string{}
	r := w.Must("update", "cluster", name, "--target", "terraform", "--out", dir)
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		text, err := os.ReadFile(path)
		below, rerr := filepath.Rel(dir, path)
		out[below] = string(text)
		if err == nil {
			err = rerr
		}
		return err
	})
	if err != nil {
		w.Fatal(err)
	}
	return out, r.Err
}

// A shared subnet is not part of Terraform's configuration: it is only referenced, and receives the
// tags by which controllers find it on the first run only.
func TestTerraformOfSharedSubnets(t *testing.T) {
	for title, c := range map[string]struct {
		flags []string
		roles []string // the role tag of each subnet
	}{
		"one subnet":          {nil, []string{"kubernetes.io/role/elb"}},
		"private and utility": {[]string{"--topology", "private"}, []string{"kubernetes.io/role/internal-elb", "kubernetes.io/role/elb"}},
	} {
		t.Run(title, func(t *testing.T) {
			w := newWorld(t, awstest.Moto(t))
			vpc, subnet := w.network()
			subnets, flags := []string{subnet}, append(c.flags, "--subnets", subnet)
			if len(c.roles) > 1 {
				subnets = append(subnets, w.subnet(vpc, "10.1.2.0/24"))
				flags = append(flags, "--utility-subnets", subnets[1])
			}
			w.Must(append([]string{"create", "cluster", "--cloud", "aws", "--zones", "us-east-1a", "--networking", "cilium", "--dns", "none",
				"--image", image, "--network-id", vpc, "--ssh-public-key", w.Key(), name}, flags...)...)
			first, _ := w.terraform()
			for i, id := range subnets {
				if strings.Contains(first["kubernetes.tf"], `resource "aws_subnet"`) || !strings.Contains(first["kubernetes.tf"], `"`+id+`"`) {
					t.Errorf("Terraform owns the shared subnet %s, or does not refer to it", id)
				}
				if tags := w.tags(id); tags["kubernetes.io/cluster/"+name] != "shared" || tags[c.roles[i]] != "1" {
					t.Errorf("subnet %s has the tags %v", id, tags)
				}
			}
			if list, err := w.api().EC2.DescribeVolumes(t.Context(), &ec2.DescribeVolumesInput{}); err != nil || len(list.Volumes) > 0 {
				t.Errorf("more than tags was written to the cloud: %v, %v", list, err)
			}
			if second, _ := w.terraform(); !maps.Equal(first, second) {
				t.Error("a second run, with the tags there, writes something else")
			}
			w.Must("update", "cluster", name, "--yes")
			w.terraform() // a running cluster is handed to Terraform
			facts := filepath.Join(t.TempDir(), "facts.yaml")
			w.Must("update", "cluster", name, "--target", "terraform", "--out", t.TempDir(), "--record-facts", facts)
			if r := w.Must("update", "cluster", name, "--target", "terraform", "--out", t.TempDir(), "--facts", facts); !strings.Contains(r.Err, "aws_subnet_tags/") {
				t.Errorf("nothing says that no tags are written without the cloud:\n%s", r.Err)
			}
			w.Must("delete", "cluster", name, "--yes")
		})
	}
}
