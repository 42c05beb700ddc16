package aws

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"kops.local/kops/internal/platform/aws/awstest"
	"kops.local/kops/internal/store"
	"kops.local/kops/internal/store/s3"
	"kops.local/kops/internal/test/clitest"
)

const name = "a.example.com"

func openBucket(t testing.TB, server *awstest.Server) store.Store {
	t.Helper()
	s, err := store.Backends{s3.Backend(server.S3())}.Open(t.Context(), "s3://"+bucket)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// small describes a cluster of one control plane and one group of nodes.
func (w *world) small(args ...string) {
	w.Helper()
	w.Must(append([]string{"create", "cluster", "--cloud", "aws", "--zones", "us-east-1a", "--networking", "calico", "--image", image, "--ssh-public-key", w.Key(), name}, args...)...)
}

// large describes a private cluster of three control planes, a bastion and 63 groups of nodes.
func (w *world) large() {
	w.Helper()
	w.Must("create", "cluster", "--cloud", "aws", "--zones", "us-east-1a,us-east-1b,us-east-1c", "--control-plane-count", "3",
		"--topology", "private", "--bastion", "--networking", "calico", "--bastion-image", image, "--image", image, "--ssh-public-key", w.Key(), name)
	var docs []string
	for i := range 60 {
		docs = append(docs, fmt.Sprintf(`apiVersion: kops.k8s.io/v1alpha2
kind: InstanceGroup
metadata:
  name: nodes-%02d
  labels:
    kops.k8s.io/cluster: %s
spec:
  image: %s
  machineType: t3.medium
  minSize: 1
  maxSize: 1
  role: Node
  subnets:
  - us-east-1%c
`, i, name, image, 'a'+rune(i%3)))
	}
	file := filepath.Join(w.Home, "groups.yaml")
	if err := os.WriteFile(file, []byte(strings.Join(docs, "---\n")), 0o600); err != nil {
		w.Fatal(err)
	}
	w.Must("create", "-f", file)
}

// image is an image that exists in the emulator.
const image = "099720109477/ubuntu/images/hvm-ssd/ubuntu-trusty-14.04-amd64-server-20170727"

func TestLifeOfACluster(t *testing.T) {
	w := newWorld(t, awstest.Moto(t))
	before := w.inventory()
	w.small()
	if r := w.Must("update", "cluster", name); !strings.Contains(r.Out, "Must specify --yes to apply changes") {
		t.Errorf("the preview does not say how to go on:\n%s", r.Out)
	}
	if left := clitest.Difference(w.inventory(), before); len(left) != len(clitest.Difference(left, nil)) || strings.Contains(strings.Join(left, " "), "vpc-") {
		t.Errorf("a preview made resources: %v", left)
	}
	w.Must("update", "cluster", name, "--yes")
	if r := w.Must("update", "cluster", name); !strings.Contains(r.Out, "No changes need to be applied") {
		t.Errorf("a second preview has changes:\n%s", r.Out)
	}
	w.Must("edit", "instancegroup", "nodes-us-east-1a", "--name", name, "--set", "spec.maxSize=3")
	r := w.Must("update", "cluster", name)
	if !strings.Contains(r.Out, "aws_autoscaling_group/nodes-us-east-1a."+name) || strings.Contains(r.Out, "aws_vpc/") {
		t.Errorf("the preview of a change of size:\n%s", r.Out)
	}
	w.Must("update", "cluster", name, "--yes")
	r = w.Must("delete", "cluster", name)
	for _, want := range []string{"aws_vpc ", "s3://state-store/a.example.com/config", "Must specify --yes to delete cluster"} {
		if !strings.Contains(r.Out, want) {
			t.Errorf("the preview of the deletion lacks %q:\n%s", want, r.Out)
		}
	}
	w.Must("delete", "cluster", name, "--yes")
	if left := clitest.Difference(w.inventory(), before); len(left) > 0 {
		t.Errorf("a deleted cluster leaves %s", strings.Join(left, "\n"))
	}
	if left := w.objects(); len(left) > 0 {
		t.Errorf("a deleted cluster leaves in the store %s", strings.Join(left, "\n"))
	}
}

func TestTwoUpdatesAtOnce(t *testing.T) {
	w := newWorld(t, awstest.Moto(t))
	w.small()
	reached, release := w.Proxy.Hold("ec2.CreateVpc")
	defer release(true)
	first := make(chan clitest.Result, 1)
	go func() { first <- w.Run("update", "cluster", name, "--yes") }()
	select {
	case <-reached:
	case r := <-first:
		t.Fatalf("the first made no VPC: %+v", r)
	}
	lost := w.Run("update", "cluster", name, "--yes") // while the first is running
	release(true)
	if won := <-first; won.Code != 0 || lost.Code == 0 {
		t.Fatalf("the first must win and the second be refused: %+v, %+v", won, lost)
	}
	for _, want := range []string{"of tester on here", "update cluster", "kops toolbox lock break"} {
		if !strings.Contains(lost.Err, want) {
			t.Errorf("the refusal lacks %q: %s", want, lost.Err)
		}
	}
	if r := w.Must("update", "cluster", name); !strings.Contains(r.Out, "No changes need to be applied") {
		t.Errorf("after two updates at once, a preview has changes:\n%s", r.Out)
	}
}

func TestThrottled(t *testing.T) {
	w := newWorld(t, awstest.Moto(t))
	w.small()
	w.Proxy.Throttle(10, 1)
	w.Must("update", "cluster", name, "--yes")
	w.Must("delete", "cluster", name, "--yes")
	w.Proxy.Throttle(0, 1)
	if left := w.objects(); len(left) > 0 {
		t.Errorf("left in the store: %v", left)
	}
}
