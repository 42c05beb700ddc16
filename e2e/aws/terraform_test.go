package aws

import (
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/aws/aws-sdk-go-v2/service/ec2"

	"kops.local/kops/internal/test/cloudsuite"
)

// renderWithoutNames: if no name is published, machines join at the load balancer, whose address is only known to
// Terraform. The files are the same before and after it is created: no second run is needed.
func renderWithoutNames(w *cloudsuite.World) {
	w.Small("--dns", "none")
	first, told := renderTerraform(w)
	const file = "data/aws_launch_template_nodes-us-east-1a." + name + "_user_data"
	reference := regexp.MustCompile(`- https://\$\{([a-z0-9_]+)\}:3988/\n`).FindStringSubmatch(first[file])
	if reference == nil {
		w.Fatalf("nodes do not join at what Terraform makes:\n%s", first[file])
	}
	if call := `"` + reference[1] + `" = aws_lb.api-a-example-com.dns_name`; !strings.Contains(strings.Join(strings.Fields(first["kubernetes.tf"]), " "), call) {
		_, text, _ := strings.Cut(first["kubernetes.tf"], "templatefile(")
		w.Errorf("the document does not say %q, but %.400s", call, text)
	}
	for path, text := range first {
		if path != file && path != "kubernetes.tf" && strings.Contains(text, reference[1]) {
			w.Errorf("%s waits for the address, too", path)
		}
	}
	if !strings.Contains(told, "kops export kubeconfig "+name+" --admin") || !strings.Contains(told, "no second run is needed") {
		w.Errorf("the user is not told how it goes on:\n%s", told)
	}
	w.Must("update", "cluster", name, "--yes") // as Terraform would
	second, _ := renderTerraform(w)
	for _, path := range slices.Sorted(maps.Keys(first)) {
		if first[path] != second[path] {
			w.Errorf("a second run writes another %s", path)
		}
	}
	if len(first) != len(second) {
		w.Errorf("%d files were written at first, and %d then", len(first), len(second))
	}
	w.Delete()
}

// renderTerraform writes the cluster as Terraform, and returns the files, and the output.
func renderTerraform(w *cloudsuite.World) (files map[string]string, told string) {
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

// renderShared: a shared subnet is not part of Terraform's configuration: it is only referenced, and receives
// the tags by which controllers find it on the first run only. roles are the role tags of the subnets.
func renderShared(w *cloudsuite.World, flags []string, roles ...string) {
	vpc, subnet := createNetwork(w)
	subnets, flags := []string{subnet}, append(flags, "--networking", "cilium", "--dns", "none", "--network-id", vpc, "--subnets", subnet)
	if len(roles) > 1 {
		subnets = append(subnets, createSubnet(w, vpc, "10.1.2.0/24"))
		flags = append(flags, "--utility-subnets", subnets[1])
	}
	w.Remember()
	w.Small(flags...)
	first, _ := renderTerraform(w)
	for i, id := range subnets {
		if strings.Contains(first["kubernetes.tf"], `resource "aws_subnet"`) || !strings.Contains(first["kubernetes.tf"], `"`+id+`"`) {
			w.Errorf("Terraform owns the shared subnet %s, or does not refer to it", id)
		}
		if tags := subnetTags(w, id); tags["kubernetes.io/cluster/"+name] != "shared" || tags[roles[i]] != "1" {
			w.Errorf("subnet %s has the tags %v", id, tags)
		}
	}
	if list, err := of(w).api.EC2.DescribeVolumes(w.Context(), &ec2.DescribeVolumesInput{}); err != nil || len(list.Volumes) > 0 {
		w.Errorf("more than tags was written to the cloud: %v, %v", list, err)
	}
	if second, _ := renderTerraform(w); !maps.Equal(first, second) {
		w.Error("a second run, with the tags there, writes something else")
	}
	w.Must("update", "cluster", name, "--yes")
	renderTerraform(w) // a running cluster is handed to Terraform
	facts := filepath.Join(w.TempDir(), "facts.yaml")
	w.Must("update", "cluster", name, "--target", "terraform", "--out", w.TempDir(), "--record-facts", facts)
	if r := w.Must("update", "cluster", name, "--target", "terraform", "--out", w.TempDir(), "--facts", facts); !strings.Contains(r.Err, "aws_subnet_tags/") {
		w.Errorf("nothing says that no tags are written without the cloud:\n%s", r.Err)
	}
	w.Delete()
}
