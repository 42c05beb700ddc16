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

// TestRoll brings a change that only new instances have to the instances of a cluster: workers by
// detaching them, of a group with a warm pool. The driver is killed while a successor starts, and
// another continues. Clients of the application notice nothing. If KOPS_E2E=whole is set there are
// two workers, and the only control plane follows, with its volumes.
func TestRoll(t *testing.T) {
	localtest.Turn(t, 2, 3)
	size := 1
	if localtest.Whole() {
		size = 2
	}
	w := newWorld(t, "aws", "s3://my-state-store")
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
	before := w.scaled(workers, size, 1)
	l := w.strain(before.running)

	kops("edit instancegroup " + workers + " --name " + cluster + " --set spec.rootVolume.size=40")
	if out := kops("update cluster " + cluster + " --yes"); !strings.Contains(out, "replace") || !strings.Contains(out, fmt.Sprintf("%d machines to replace", size+1)) {
		t.Errorf("the update does not say what machines need:\n%s", out)
	}
	for id, i := range w.stale(kops("get instances --name " + cluster + " -o json")) {
		_, worker := before.all()[id]
		if i != map[bool]string{true: "replace [{spec.rootVolume.size 128 40}]", false: "none []"}[worker] {
			t.Errorf("%s is stale otherwise than it is to be: %s", id, i)
		}
	}
	if out := kops("rolling-update cluster " + cluster); !strings.Contains(out, "NeedsUpdate") || strings.Count(out, "spec.rootVolume.size") != size+1 {
		t.Errorf("the preview:\n%s", out)
	}

	roll := "rolling-update cluster " + cluster + " --yes --node-interval 1s --control-plane-interval 1s"
	begun := time.Now()
	w.interrupted(exports+"exec kops "+roll, func() error {
		if len(w.detached()) == 0 {
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
	w.renewed(before, w.scaled(workers, size, 1))
	if localtest.Whole() {
		w.planeFollows(kops, roll)
	}
	sent, failed := l.Rest(t)
	t.Logf("FIGURE requests of the application during the roll: %d, of which failed: %d", sent, failed)
	if out := kops("rolling-update cluster " + cluster); !strings.Contains(out, "No rolling-update required") {
		t.Errorf("a rolling update of what is up to date:\n%s", out)
	}
	kops("delete cluster " + cluster + " --yes")
	w.gone("my-state-store")
}

// planeFollows has a change reach the only control plane, whose data is kept.
func (w *world) planeFollows(kops func(string) string, roll string) {
	w.Helper()
	w.note()
	before, disks := w.scaled(plane, 1, 0), w.volumes()
	kops("edit instancegroup " + plane + " --name " + cluster + " --set spec.rootVolume.size=40")
	kops("update cluster " + cluster + " --yes")
	begun := time.Now()
	kops(roll)
	w.Logf("FIGURE the only control plane replaced: %s", time.Since(begun).Round(time.Second))
	w.renewed(before, w.scaled(plane, 1, 0))
	kops("validate cluster " + cluster + " --wait 8m --interval 1s")
	w.noted()
	if now := w.volumes(); !slices.Equal(now, disks) || len(now) != 2 {
		w.Errorf("the volumes of etcd are %v, and were %v", now, disks)
	}
}

// strain has clients ask an application at nodes, fifty times a second.
func (w *world) strain(nodes map[string]string) *loadtest.Load {
	w.Helper()
	file := filepath.Join(w.dir, "shop.yaml")
	w.ok(os.WriteFile(file, loadtest.Shop, 0o600))
	w.must("kubectl apply -f " + file + " && kubectl rollout status deployment/shop --timeout=5m")
	l := loadtest.Start(w.Context(), func() kubernetes.Interface { return w.api() })
	w.Cleanup(l.Stop)
	w.wait("an answer of the application at every worker", func() error {
		if takers := l.Takers(); len(takers) < len(nodes) {
			return fmt.Errorf("requests are taken by %v", takers)
		}
		return nil
	})
	l.Ask()
	return l
}

// interrupted kills a command line when something holds.
func (w *world) interrupted(line string, holds func() error) {
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

// stale returns the effect and the reasons of each instance in the output of kops get instances -o
// json.
func (w *world) stale(text string) map[string]string {
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

// asConfigured reaches the rehearsal as any program of an account does.
func (w *world) asConfigured() aws.Config {
	return aws.Config{Region: region, HTTPClient: w.web(), Credentials: credentials.NewStaticCredentialsProvider("rehearsal", "rehearsal", "")}
}

// group is an Auto Scaling group: the versions of the launch template that its instances, and its
// warm pool's, were made of, by their IDs.
type group struct {
	running, spares map[string]string
	desired         int
}

func (g group) all() map[string]string {
	out := maps.Clone(g.running)
	maps.Copy(out, g.spares)
	return out
}

// group is the Auto Scaling group of an instance group.
func (w *world) group(name string) group {
	w.Helper()
	api := autoscaling.NewFromConfig(w.asConfigured())
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

// scaled waits until an Auto Scaling group has as many instances and spares as it is to have.
func (w *world) scaled(name string, size, spares int) (out group) {
	w.Helper()
	w.wait(fmt.Sprintf("%s of %d instances and %d spares", name, size, spares), func() error {
		if out = w.group(name); len(out.running) != size || out.desired != size || len(out.spares) != spares {
			return fmt.Errorf("it is %+v", out)
		}
		return nil
	})
	return out
}

// renewed finds that all instances of a group are others than before, of the next version of
// the launch template, and that none of those before is left in the account.
func (w *world) renewed(before, now group) {
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

// detached are the instances that a roll took out of their groups, and that run.
func (w *world) detached() []string {
	w.Helper()
	return w.instances(ec2types.Filter{Name: aws.String("tag-key"), Values: []string{"kops.k8s.io/detached-from-asg"}},
		ec2types.Filter{Name: aws.String("instance-state-name"), Values: []string{"running"}})
}

func (w *world) instances(filters ...ec2types.Filter) []string {
	w.Helper()
	found, err := ec2.NewFromConfig(w.asConfigured()).DescribeInstances(w.Context(), &ec2.DescribeInstancesInput{Filters: filters})
	w.ok(err)
	var out []string
	for _, r := range found.Reservations {
		for _, i := range r.Instances {
			out = append(out, aws.ToString(i.InstanceId))
		}
	}
	return out
}

// volumes are the volumes of etcd.
func (w *world) volumes() []string {
	w.Helper()
	found, err := ec2.NewFromConfig(w.asConfigured()).DescribeVolumes(w.Context(), &ec2.DescribeVolumesInput{})
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
