package control

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"kops.local/kops/internal/platform/aws/awstest"
	"kops.local/kops/internal/platform/incluster/roster"
)

func noon() time.Time { return time.Date(2026, 8, 1, 12, 0, 0, 0, time.UTC) }

func nodeOf(name, provider string) *corev1.Node {
	return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: corev1.NodeSpec{ProviderID: provider}}
}

// cloud emulates EC2 with instances: it applies the filters that name them.
type cloud struct {
	machines
	all   []types.Instance
	asked []int // how many instances each request named
	fails error
}

func (c *cloud) DescribeInstances(_ context.Context, in *ec2.DescribeInstancesInput, _ ...func(*ec2.Options)) (*ec2.DescribeInstancesOutput, error) {
	named := in.Filters[0]
	c.asked = append(c.asked, len(named.Values))
	var out []types.Instance
	for _, m := range c.all {
		name := m.InstanceId
		if *named.Name == "private-dns-name" {
			name = m.PrivateDnsName
		}
		if slices.Contains(named.Values, aws.ToString(name)) {
			out = append(out, m)
		}
	}
	return &ec2.DescribeInstancesOutput{Reservations: []types.Reservation{{Instances: out}}}, c.fails
}

func instance(id, address string, state types.InstanceStateName) types.Instance {
	return types.Instance{InstanceId: &id, PrivateDnsName: &address, State: &types.InstanceState{Name: state}}
}

func TestWhichMachinesOfAWSAreGone(t *testing.T) {
	const self, lives, stops, ends, absent = "i-00000000", "i-00000001", "i-00000002", "i-00000003", "i-00000004"
	all := []types.Instance{instance(self, "ip-0", types.InstanceStateNameRunning), instance(lives, "ip-1", types.InstanceStateNameRunning),
		instance(stops, "ip-2", types.InstanceStateNameStopped), instance(ends, "", types.InstanceStateNameTerminated), instance("i-00000005", "ip-5", types.InstanceStateNameShuttingDown)}
	nodes := []*corev1.Node{nodeOf(self, ""), nodeOf(lives, "aws:///a/"+ends), nodeOf(stops, ""), nodeOf("i-00000005", ""),
		nodeOf(ends, "aws:///a/"+lives), nodeOf(absent, ""), nodeOf("ip-1", "aws:///a/"+ends), nodeOf("elsewhere", "")}
	c := &cloud{all: all}
	now := noon()
	on := func(self string) *roster.Roster {
		return newRoster(instances{api: c, cluster: "c"}, self, func() time.Time { return now })
	}
	f := on(self)
	gone := func(what string, nodes []*corev1.Node, want ...string) {
		t.Helper()
		if got, err := f.ListTerminated(t.Context(), nodes); err != nil || !slices.Equal(got, want) {
			t.Errorf("%s gone are %v, %v", what, got, err)
		}
	}
	gone("at first", nodes, ends)
	now = now.Add(goneAfter - time.Second)
	gone("before EC2 is believed", nodes, ends)
	c.all = append(all, instance(absent, "ip-4", types.InstanceStateNamePending)) // EC2 shows it now
	now = now.Add(time.Second)
	gone("when EC2 tells of one", nodes, ends)
	c.all = all
	gone("when EC2 misses it anew", nodes, ends)
	now = now.Add(goneAfter)
	gone("later", nodes, ends, absent)
	if got, err := f.ListExisting(t.Context(), []string{lives, ends, "ip-1"}); err != nil || len(got) > 0 {
		t.Errorf("alive again are %v, %v", got, err)
	}

	addresses := []*corev1.Node{nodeOf("ip-0", "aws:///a/i-00000000"), nodeOf("ip-2", "aws:///a/i-00000002"), nodeOf("ip-3", "aws:///a/"+lives),
		nodeOf("elsewhere", "other://x"), nodeOf(ends, "")}
	f = on("ip-0")
	gone("of those named by their addresses, at first,", addresses)
	now = now.Add(goneAfter)
	gone("of those named by their addresses, later,", addresses, "ip-3")
	if got, err := f.ListExisting(t.Context(), []string{lives, "ip-1", "ip-3"}); err != nil || !slices.Equal(got, []string{"ip-1"}) {
		t.Errorf("of those named by their addresses alive again are %v, %v", got, err)
	}
	f = on(self)
	c.all = all[1:]
	if got, err := f.ListTerminated(t.Context(), nodes); err == nil || !strings.Contains(err.Error(), "list of machines lacks i-00000000") || got != nil {
		t.Errorf("an answer without this machine is believed: %v, %v", got, err)
	}
	c.all, c.fails = all, errors.New("RequestLimitExceeded")
	if got, err := f.ListTerminated(t.Context(), nodes); !errors.Is(err, c.fails) || got != nil {
		t.Errorf("an error: %v, %v", got, err)
	}
	c.fails, c.asked = nil, nil
	var many []*corev1.Node
	for n := range 450 {
		many = append(many, nodeOf(fmt.Sprintf("i-%08x", n+1000), ""))
	}
	gone("of many, at first,", many)
	if !slices.Equal(c.asked, []int{200, 200, 53}) {
		t.Errorf("questions named %v instances", c.asked)
	}
	now = now.Add(goneAfter)
	if got, err := f.ListTerminated(t.Context(), many); err != nil || len(got) != 450 {
		t.Errorf("%d of 450 are gone: %v", len(got), err)
	}
}

// The real API has the same filters.
func TestWhichMachinesOfAWSAreGoneByItsAPI(t *testing.T) {
	server := awstest.Moto(t)
	api := ec2.NewFromConfig(server.AWS())
	var launched []types.Instance
	for range 3 {
		launched = append(launched, runInstance(t, api, "KubernetesCluster", "c", "kops.k8s.io/instancegroup", "nodes"))
	}
	ended := *launched[2].InstanceId
	if _, err := api.TerminateInstances(t.Context(), &ec2.TerminateInstancesInput{InstanceIds: []string{ended}}); err != nil {
		t.Fatal(err)
	}
	f := newRoster(instances{api: api, cluster: "c"}, *launched[0].InstanceId, noon)
	var nodes []*corev1.Node
	for _, m := range launched {
		nodes = append(nodes, nodeOf(*m.InstanceId, ""))
	}
	if got, err := f.ListTerminated(t.Context(), nodes); err != nil || !slices.Equal(got, []string{ended}) {
		t.Errorf("gone are %v, %v", got, err)
	}
	f = newRoster(instances{api: api, cluster: "c"}, *launched[0].PrivateDnsName, noon)
	if got, err := f.ListExisting(t.Context(), []string{*launched[1].PrivateDnsName, "ip-10-9-9-9.ec2.internal"}); err != nil || !slices.Equal(got, []string{*launched[1].PrivateDnsName}) {
		t.Errorf("alive are %v, %v", got, err)
	}
}
