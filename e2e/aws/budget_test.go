package aws

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"

	"kops.local/kops/internal/platform/aws/awstest"
)

// row is one line of the table of requests and time.
type row struct {
	what     string
	requests int
	took     time.Duration
}

// measure does the work of the table once, with a latency before each request.
func measure(w *world, latency time.Duration) []row {
	var rows []row
	add := func(what string, args ...string) {
		r, n := w.counted(args...)
		rows = append(rows, row{what, n, r.Took})
	}
	w.small()
	w.proxy.SetLatency(latency)
	add("1 + 1: update --yes", "update", "cluster", name, "--yes")
	add("1 + 1: preview without changes", "update", "cluster", name)
	w.proxy.SetLatency(0)
	w.Must("delete", "cluster", name, "--yes")
	w.small("--dns", "none", "--discovery-store", "s3://"+bucket+"/discovery")
	w.Must("update", "cluster", name, "--yes")
	w.proxy.SetLatency(latency)
	add("1 + 1, DNS none and an issuer: preview", "update", "cluster", name)
	w.proxy.SetLatency(0)
	w.Must("delete", "cluster", name, "--yes")
	w.large()
	w.proxy.SetLatency(latency)
	add("3 + bastion + 63: update --yes", "update", "cluster", name, "--yes")
	w.Forget()
	add("3 + bastion + 63: preview without changes, cold", "update", "cluster", name)
	add("3 + bastion + 63: preview without changes, cached", "update", "cluster", name)
	w.Forget()
	add("3 + bastion + 63: get all", "get", "all", "--name", name)
	w.Forget()
	add("3 + bastion + 63: preview of a roll, none outdated", "rolling-update", "cluster", name, "--cloudonly")
	w.proxy.SetLatency(0)
	w.Must("edit", "cluster", name, "--set", "spec.kubelet.maxPods=55") // of all but the bastion
	w.Must("update", "cluster", name, "--yes")
	w.madeBefore()
	w.proxy.Lag(2)
	if r := w.Must("rolling-update", "cluster", name, "--cloudonly"); strings.Count(r.Out, "spec.kubelet.maxPods -> 55") != 66 {
		w.Errorf("it is not told of 66 instances why they are rolled:\n%s", r.Out)
	}
	w.proxy.SetLatency(latency)
	w.Forget()
	// The answers are those of a moment ago: the emulator's own time is not counted.
	add("3 + bastion + 63: preview of a roll, all outdated", "rolling-update", "cluster", name, "--cloudonly")
	w.proxy.Lag(0)
	return rows
}

// budgets are the most requests each row may take.
var budgets = []int{200, 60, 61, 750, 150, 90, 70, 8, 80}

func TestRequestBudgets(t *testing.T) {
	for i, r := range measure(newWorld(t, awstest.Moto(t)), 0) {
		if r.requests > budgets[i] {
			t.Errorf("%s: %d requests, at most %d are allowed", r.what, r.requests, budgets[i])
		}
		t.Logf("%-54s %4d requests of %d", r.what, r.requests, budgets[i])
	}
}

// BenchmarkRequests prints the table of requests and time at 50 ms latency.
func BenchmarkRequests(b *testing.B) {
	server := awstest.Moto(b)
	for b.Loop() {
		for i, r := range measure(newWorld(b, server), 50*time.Millisecond) {
			fmt.Printf("%-54s %4d requests (at most %d)  %5.2f s\n", r.what, r.requests, budgets[i], r.took.Seconds())
		}
	}
}

// madeBefore has the emulator, which tells the default version of now of all instances, say
// that they were made of the first version of their launch template.
func (w *world) madeBefore() {
	w.Helper()
	api := w.api().EC2
	out, err := api.DescribeLaunchTemplates(w.Context(), &ec2.DescribeLaunchTemplatesInput{MaxResults: aws.Int32(200)})
	if err != nil {
		w.Fatal(err)
	}
	for _, l := range out.LaunchTemplates {
		if _, err := api.ModifyLaunchTemplate(w.Context(), &ec2.ModifyLaunchTemplateInput{LaunchTemplateId: l.LaunchTemplateId, DefaultVersion: aws.String("1")}); err != nil {
			w.Fatal(err)
		}
	}
}
