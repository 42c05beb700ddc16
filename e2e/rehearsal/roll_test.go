package rehearsal

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/autoscaling"
	scalingtypes "github.com/aws/aws-sdk-go-v2/service/autoscaling/types"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"
	"k8s.io/client-go/kubernetes"

	"kops.local/kops/internal/platform/local/localtest"
	"kops.local/kops/internal/test/loadtest"
)

const (
	region = "us-east-1"
	// workers and plane are instance groups of the cluster.
	workers, plane = "nodes-us-east-1a", "control-plane-us-east-1a"
)

// TestRoll rolls a change that only new instances have through a cluster: the workers by
// detaching them, in a group with a warm pool. The driver is killed while a successor starts, and
// another continues. Clients of the application notice nothing. If KOPS_E2E=whole is set there are
// two workers, and the only control plane is replaced, too, with its volumes.
func TestRoll(t *testing.T) {
	skipUnlessPicked(t, "aws", 2, 3)
	size := 1
	if localtest.IsFull() {
		size = 2
	}
	w := newWorld(t, "aws", "", "s3://my-state-store")
	w.bucket("my-state-store")
	const exports = "export KOPS_STATE_STORE=s3://my-state-store; "
	kops := func(args string) string {
		t.Helper()
		return w.must(exports + "exec kops " + args)
	}
	kops(fmt.Sprintf("create cluster --zones us-east-1a --node-count %d --networking kubenet %s", size, cluster))
	kops("edit instancegroup " + workers + " --name " + cluster + " --set spec.warmPool.minSize=1")
	kops("update cluster " + cluster + " --yes --admin")
	kops("validate cluster " + cluster + " --wait 10m --interval 1s")
	w.nodes(1 + size)
	before := w.waitForSize(workers, size, 1)
	l := w.strain(before.running)

	kops("edit instancegroup " + workers + " --name " + cluster + " --set spec.rootVolume.size=40")
	if out := kops("update cluster " + cluster + " --yes"); !strings.Contains(out, "replace") || !strings.Contains(out, fmt.Sprintf("%d machines to replace", size+1)) {
		t.Errorf("the update does not say what machines need:\n%s", out)
	}
	for id, i := range w.outdatedInstances(kops("get instances --name " + cluster + " -o json")) {
		_, worker := before.all()[id]
		if i != map[bool]string{true: "replace [{spec.rootVolumeSize 128 40}]", false: "none []"}[worker] {
			t.Errorf("%s is stale otherwise than it is to be: %s", id, i)
		}
	}
	if out := kops("rolling-update cluster " + cluster); !strings.Contains(out, "NeedsUpdate") || strings.Count(out, "spec.rootVolumeSize") != size+1 {
		t.Errorf("the preview:\n%s", out)
	}

	roll := "rolling-update cluster " + cluster + " --yes --node-interval 1s --control-plane-interval 1s"
	begun := time.Now()
	w.runInterrupted(exports+"exec kops "+roll, func() error {
		if len(w.detachedInstances()) == 0 {
			return errors.New("no instance is detached")
		}
		if len(w.group(workers).running) != size {
			return errors.New("its successor does not start yet")
		}
		return nil
	})
	if out := kops("rolling-update cluster " + cluster); !strings.Contains(out, "is not finished: ") {
		t.Errorf("the preview of a rollout that was cut off:\n%s", out)
	}
	out := kops(roll + " 2>&1")
	t.Logf("FIGURE %d workers and a spare replaced, the first driver killed: %s", size, time.Since(begun).Round(time.Second))
	for _, want := range []string{"It continues", fmt.Sprintf("Rolling update completed: %d of %[1]d machines", size+1)} {
		if !strings.Contains(out, want) {
			t.Errorf("the second driver does not say %q:\n%s", want, out)
		}
	}
	w.nodes(1 + size)
	w.checkReplaced(before, w.waitForSize(workers, size, 1))
	if localtest.IsFull() {
		w.rollControlPlane(kops, roll)
	}
	sent, failed := l.Finish(t)
	t.Logf("FIGURE requests of the application during the roll: %d, of which failed: %d", sent, failed)
	if out := kops("rolling-update cluster " + cluster); !strings.Contains(out, "No rolling-update required") {
		t.Errorf("a rolling update of what is up to date:\n%s", out)
	}
	kops("delete cluster " + cluster + " --yes")
	w.waitUntilGone("my-state-store")
}

// rollControlPlane rolls a change through the only control plane, whose data is kept.
func (w *world) rollControlPlane(kops func(string) string, roll string) {
	w.Helper()
	w.note()
	before, disks := w.waitForSize(plane, 1, 0), w.volumes()
	kops("edit instancegroup " + plane + " --name " + cluster + " --set spec.rootVolume.size=40")
	kops("update cluster " + cluster + " --yes")
	begun := time.Now()
	kops(roll)
	w.Logf("FIGURE the only control plane replaced: %s", time.Since(begun).Round(time.Second))
	w.checkReplaced(before, w.waitForSize(plane, 1, 0))
	kops("validate cluster " + cluster + " --wait 8m --interval 1s")
	w.noted()
	if now := w.volumes(); !slices.Equal(now, disks) || len(now) != 2 {
		w.Errorf("the volumes of etcd are %v, and were %v", now, disks)
	}
}

// strain starts clients that call an application at nodes, fifty times a second.
func (w *world) strain(nodes map[string]string) *loadtest.Load {
	w.Helper()
	file := filepath.Join(w.dir, "shop.yaml")
	w.ok(os.WriteFile(file, loadtest.Shop, 0o600))
	w.must("kubectl apply -f " + file + " && kubectl rollout status deployment/shop --timeout=5m")
	l := loadtest.Start(w.Context(), func() kubernetes.Interface { return w.api() })
	w.Cleanup(l.Stop)
	w.wait("an answer of the application at every worker", func() error {
		if takers := l.ReadyNodes(); len(takers) < len(nodes) {
			return fmt.Errorf("requests are taken by %v", takers)
		}
		return nil
	})
	l.StartRequests()
	return l
}

// runInterrupted kills a command when a condition holds.
func (w *world) runInterrupted(line string, holds func() error) {
	w.Helper()
	ctx, kill := context.WithCancel(w.Context())
	defer kill()
	var out strings.Builder
	c := w.rehearsal.Command(ctx, w.env, "bash", "-c", line)
	c.Dir, c.Stdout, c.Stderr = w.dir, &out, &out
	w.ok(c.Start())
	w.wait("the moment to kill "+line, holds)
	kill()
	if err := c.Wait(); err == nil || c.ProcessState.Exited() {
		w.Fatalf("%s was to be killed: %v\n%s", line, err, out.String())
	}
}

// outdatedInstances returns the effect and the reasons of each instance in the output of kops get instances -o
// json.
func (w *world) outdatedInstances(text string) map[string]string {
	w.Helper()
	var all []struct {
		ID      string `json:"id"`
		Effect  string
		Reasons []struct{ Field, Have, Want string }
	}
	w.ok(json.Unmarshal([]byte(text), &all))
	out := map[string]string{}
	for _, i := range all {
		out[i.ID] = fmt.Sprintf("%s %v", i.Effect, i.Reasons)
	}
	return out
}

// awsConfig returns the configuration with which any program of an account reaches the rehearsal.
func (w *world) awsConfig() aws.Config {
	return aws.Config{Region: region, HTTPClient: w.newHTTPClient(), Credentials: credentials.NewStaticCredentialsProvider("rehearsal", "rehearsal", "")}
}

// group is an Auto Scaling group: the launch template versions from which its instances, and its
// warm pool's, were created, by their IDs.
type group struct {
	running, spares map[string]string
	desired         int
}

func (g group) all() map[string]string {
	out := maps.Clone(g.running)
	maps.Copy(out, g.spares)
	return out
}

// group returns the Auto Scaling group of an instance group.
func (w *world) group(name string) group {
	w.Helper()
	api := autoscaling.NewFromConfig(w.awsConfig())
	out := group{running: map[string]string{}, spares: map[string]string{}}
	found, err := api.DescribeAutoScalingGroups(w.Context(), &autoscaling.DescribeAutoScalingGroupsInput{
		Filters: []scalingtypes.Filter{{Name: aws.String("tag:kops.k8s.io/instancegroup"), Values: []string{name}}}})
	w.ok(err)
	if len(found.AutoScalingGroups) != 1 {
		w.Fatalf("of the group %s there are %d", name, len(found.AutoScalingGroups))
	}
	g := found.AutoScalingGroups[0]
	out.desired = int(aws.ToInt32(g.DesiredCapacity))
	for _, i := range g.Instances {
		out.running[aws.ToString(i.InstanceId)] = aws.ToString(i.LaunchTemplate.Version)
	}
	pool, err := api.DescribeWarmPool(w.Context(), &autoscaling.DescribeWarmPoolInput{AutoScalingGroupName: g.AutoScalingGroupName})
	w.ok(err)
	for _, i := range pool.Instances {
		out.spares[aws.ToString(i.InstanceId)] = aws.ToString(i.LaunchTemplate.Version)
	}
	return out
}

// waitForSize waits until an Auto Scaling group has the desired numbers of instances and spares.
func (w *world) waitForSize(name string, size, spares int) (out group) {
	w.Helper()
	w.wait(fmt.Sprintf("%s of %d instances and %d spares", name, size, spares), func() error {
		if out = w.group(name); len(out.running) != size || out.desired != size || len(out.spares) != spares {
			return fmt.Errorf("it is %+v", out)
		}
		return nil
	})
	return out
}

// checkReplaced checks that all instances of a group were replaced, with the next version of the
// launch template, and that none of the old ones is left in the account.
func (w *world) checkReplaced(before, now group) {
	w.Helper()
	old := before.all()
	for id, version := range now.all() {
		if old[id] != "" || version != "2" {
			w.Errorf("%s was made of version %s; the instances are %+v, and were %+v", id, version, now, before)
		}
	}
	for _, i := range w.instances(ec2types.Filter{Name: aws.String("instance-state-name"), Values: []string{"pending", "running", "stopping", "stopped"}}) {
		if old[i] != "" {
			w.Errorf("%s is left in the account", i)
		}
	}
	w.wait("no machine of before is left", func() error {
		if left := slices.DeleteFunc(w.machines(), func(m string) bool { return old[m] == "" }); len(left) > 0 {
			return fmt.Errorf("there are %v", left)
		}
		return nil
	})
}

// detachedInstances returns the running instances that a roll detached from their groups.
func (w *world) detachedInstances() []string {
	w.Helper()
	return w.instances(ec2types.Filter{Name: aws.String("tag-key"), Values: []string{"kops.k8s.io/detached-from-asg"}},
		ec2types.Filter{Name: aws.String("instance-state-name"), Values: []string{"running"}})
}

func (w *world) instances(filters ...ec2types.Filter) []string {
	w.Helper()
	found, err := ec2.NewFromConfig(w.awsConfig()).DescribeInstances(w.Context(), &ec2.DescribeInstancesInput{Filters: filters})
	w.ok(err)
	var out []string
	for _, r := range found.Reservations {
		for _, i := range r.Instances {
			out = append(out, aws.ToString(i.InstanceId))
		}
	}
	return out
}

// volumes returns the volumes of etcd.
func (w *world) volumes() []string {
	w.Helper()
	found, err := ec2.NewFromConfig(w.awsConfig()).DescribeVolumes(w.Context(), &ec2.DescribeVolumesInput{})
	w.ok(err)
	var out []string
	for _, v := range found.Volumes {
		if slices.ContainsFunc(v.Tags, func(t ec2types.Tag) bool { return strings.HasPrefix(aws.ToString(t.Key), "k8s.io/etcd/") }) {
			out = append(out, aws.ToString(v.VolumeId))
		}
	}
	slices.Sort(out)
	return out
}
