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
)

const name = "a.example.com"

// publicKey is a key made for these tests alone.
const publicKey = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIGk3Yk1c9e0v5t2y1l7eYw0nq5r5c3n1tV8sXg5c9qQ2 test"

func openBucket(t testing.TB, server *awstest.Server) store.Store {
	t.Helper()
	s, err := store.Backends{s3.Backend(server.S3())}.Open(t.Context(), "s3://"+bucket)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// key writes the SSH public key into the user's home and returns its file.
func (w *world) key() string {
	file := filepath.Join(w.home, "id.pub")
	if err := os.WriteFile(file, []byte(publicKey+"\n"), 0o600); err != nil {
		w.t.Fatal(err)
	}
	return file
}

// small describes a cluster of one control plane and one group of nodes.
func (w *world) small(args ...string) {
	w.t.Helper()
	w.must(append([]string{"create", "cluster", "--cloud", "aws", "--zones", "us-east-1a", "--networking", "calico", "--image", image, "--ssh-public-key", w.key(), name}, args...)...)
}

// large describes a private cluster of three control planes, a bastion and 63 groups of nodes.
func (w *world) large() {
	w.t.Helper()
	w.must("create", "cluster", "--cloud", "aws", "--zones", "us-east-1a,us-east-1b,us-east-1c", "--control-plane-count", "3",
		"--topology", "private", "--bastion", "--networking", "calico", "--bastion-image", image, "--image", image, "--ssh-public-key", w.key(), name)
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
	file := filepath.Join(w.home, "groups.yaml")
	if err := os.WriteFile(file, []byte(strings.Join(docs, "---\n")), 0o600); err != nil {
		w.t.Fatal(err)
	}
	w.must("create", "-f", file)
}

// image is one that the emulator knows.
const image = "099720109477/ubuntu/images/hvm-ssd/ubuntu-trusty-14.04-amd64-server-20170727"

func TestLifeOfACluster(t *testing.T) {
	w := newWorld(t, awstest.Moto(t))
	before := w.inventory()
	w.small()
	if r := w.must("update", "cluster", name); !strings.Contains(r.out, "Must specify --yes to apply changes") {
		t.Errorf("the preview does not say how to go on:\n%s", r.out)
	}
	if left := onlyIn(w.inventory(), before); len(left) != len(onlyIn(left, nil)) || strings.Contains(strings.Join(left, " "), "vpc-") {
		t.Errorf("a preview made resources: %v", left)
	}
	w.must("update", "cluster", name, "--yes")
	if r := w.must("update", "cluster", name); !strings.Contains(r.out, "No changes need to be applied") {
		t.Errorf("a second preview has changes:\n%s", r.out)
	}
	w.must("edit", "instancegroup", "nodes-us-east-1a", "--name", name, "--set", "spec.maxSize=3")
	r := w.must("update", "cluster", name)
	if !strings.Contains(r.out, "aws_autoscaling_group/nodes-us-east-1a."+name) || strings.Contains(r.out, "aws_vpc/") {
		t.Errorf("the preview of a change of size:\n%s", r.out)
	}
	w.must("update", "cluster", name, "--yes")
	r = w.must("delete", "cluster", name)
	for _, want := range []string{"aws_vpc ", "s3://state-store/a.example.com/config", "Must specify --yes to delete cluster"} {
		if !strings.Contains(r.out, want) {
			t.Errorf("the preview of the deletion lacks %q:\n%s", want, r.out)
		}
	}
	w.must("delete", "cluster", name, "--yes")
	if left := onlyIn(w.inventory(), before); len(left) > 0 {
		t.Errorf("a deleted cluster leaves %s", strings.Join(left, "\n"))
	}
	if left := w.objects(); len(left) > 0 {
		t.Errorf("a deleted cluster leaves in the store %s", strings.Join(left, "\n"))
	}
}

func TestTwoUpdatesAtOnce(t *testing.T) {
	w := newWorld(t, awstest.Moto(t))
	w.small()
	reached, release := w.proxy.Hold("ec2.CreateVpc")
	defer release()
	first := make(chan result, 1)
	go func() { first <- w.run("update", "cluster", name, "--yes") }()
	select {
	case <-reached:
	case r := <-first:
		t.Fatalf("the first made no VPC: %+v", r)
	}
	lost := w.run("update", "cluster", name, "--yes") // while the first is at work
	release()
	if won := <-first; won.code != 0 || lost.code == 0 {
		t.Fatalf("the first must win and the second be refused: %+v, %+v", won, lost)
	}
	for _, want := range []string{"of tester on here", "update cluster", "kops toolbox lock break"} {
		if !strings.Contains(lost.err, want) {
			t.Errorf("the refusal lacks %q: %s", want, lost.err)
		}
	}
	if r := w.must("update", "cluster", name); !strings.Contains(r.out, "No changes need to be applied") {
		t.Errorf("after two updates at once, a preview has changes:\n%s", r.out)
	}
}

func TestThrottled(t *testing.T) {
	w := newWorld(t, awstest.Moto(t))
	w.small()
	w.proxy.Throttle(10, 1)
	w.must("update", "cluster", name, "--yes")
	w.must("delete", "cluster", name, "--yes")
	w.proxy.Throttle(0, 1)
	if left := w.objects(); len(left) > 0 {
		t.Errorf("left in the store: %v", left)
	}
}
