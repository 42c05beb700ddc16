package control

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"
	"github.com/aws/aws-sdk-go-v2/service/sts"
	corev1 "k8s.io/api/core/v1"

	"kops.local/kops/internal/engine/fault"
	"kops.local/kops/internal/node/bootstrap"
	"kops.local/kops/internal/platform/aws/awsquery"
	"kops.local/kops/internal/platform/aws/awssts"
	"kops.local/kops/internal/platform/aws/awstest"
)

// runInstance runs an instance with tags.
func runInstance(t *testing.T, api *ec2.Client, tags ...string) types.Instance {
	t.Helper()
	var all []types.Tag
	for i := 0; i < len(tags); i += 2 {
		all = append(all, types.Tag{Key: &tags[i], Value: &tags[i+1]})
	}
	out, err := api.RunInstances(t.Context(), &ec2.RunInstancesInput{
		ImageId: aws.String("ami-12345678"), MinCount: aws.Int32(1), MaxCount: aws.Int32(1),
		TagSpecifications: []types.TagSpecification{{ResourceType: types.ResourceTypeInstance, Tags: all}},
	})
	if err != nil {
		t.Fatal(err)
	}
	return out.Instances[0]
}

// assumeRole returns the credentials of a session with a role.
func assumeRole(t *testing.T, api *sts.Client, role, session string) func(context.Context) (awsquery.Credentials, error) {
	t.Helper()
	out, err := api.AssumeRole(t.Context(), &sts.AssumeRoleInput{RoleArn: aws.String("arn:aws:iam::123456789012:role/" + role), RoleSessionName: &session})
	if err != nil {
		t.Fatal(err)
	}
	c := out.Credentials
	return func(context.Context) (awsquery.Credentials, error) {
		return awsquery.Credentials{ID: *c.AccessKeyId, Secret: *c.SecretAccessKey, Token: *c.SessionToken}, nil
	}
}

func TestMachinesOfAWS(t *testing.T) {
	server := awstest.Moto(t)
	api, tokens := ec2.NewFromConfig(server.AWS()), sts.NewFromConfig(server.AWS())
	ours := runInstance(t, api, "KubernetesCluster", "c.example.com", "kops.k8s.io/instancegroup", "nodes-1a")
	other := runInstance(t, api, "KubernetesCluster", "other.example.com", "kops.k8s.io/instancegroup", "nodes-1a")
	ended := runInstance(t, api, "KubernetesCluster", "c.example.com", "kops.k8s.io/instancegroup", "nodes-1a")
	if _, err := api.TerminateInstances(t.Context(), &ec2.TerminateInstancesInput{InstanceIds: []string{*ended.InstanceId}}); err != nil {
		t.Fatal(err)
	}
	named := false
	fleet := instances{api: api, cluster: "c.example.com", byAddress: func(_ context.Context, group string) (bool, error) {
		if group != "nodes-1a" {
			return false, fmt.Errorf("asked for the group %s", group)
		}
		return named, nil
	}}
	v := &awssts.Verifier{Endpoint: server.URL + "/", HTTP: http.DefaultClient, Account: "123456789012", Partition: "aws",
		Roles: []string{"nodes.c.example.com"}, Instances: fleet, Now: time.Now}
	verify := func(role, session string) (bootstrap.Identity, error) {
		p := awssts.Prover{Endpoint: v.Endpoint, Region: server.Region, Now: time.Now, Credentials: assumeRole(t, tokens, role, session)}
		token, err := p.Prove(t.Context(), []byte("body"))
		if err != nil {
			t.Fatal(err)
		}
		return v.Verify(t.Context(), bootstrap.Proof{Token: token, Body: []byte("body")})
	}
	id, err := verify("nodes.c.example.com", *ours.InstanceId)
	if err != nil || id.InstanceGroup != "nodes-1a" || !slices.Contains(id.Names, *ours.PrivateIpAddress) {
		t.Errorf("got %+v, %v", id, err)
	}
	for name, tt := range map[string]struct{ role, session, says string }{
		"another cluster's machine": {"nodes.c.example.com", *other.InstanceId, "has no machine"},
		"a machine that has ended":  {"nodes.c.example.com", *ended.InstanceId, "has no machine"},
		"no machine":                {"nodes.c.example.com", "i-0f0f0f0f0f0f0f0f0", "has no machine"},
		"another role":              {"masters.c.example.com", *ours.InstanceId, "is not used by this cluster's machines"},
	} {
		if _, err := verify(tt.role, tt.session); !fault.Is(err, fault.Denied) || !strings.Contains(err.Error(), tt.says) {
			t.Errorf("%s: got %v, want %q", name, err, tt.says)
		}
	}
	node := &corev1.Node{}
	node.Name, node.UID, node.Spec.ProviderID = id.NodeName, "1", "aws:///us-east-1a/"+*ours.InstanceId
	groups := &groupFinder{instances: fleet}
	if g, err := groups.GroupOf(t.Context(), node); err != nil || g != "nodes-1a" {
		t.Errorf("group %q, %v", g, err)
	}
	groups.instances.api = nil // a request would now panic
	if g, err := groups.GroupOf(t.Context(), node); err != nil || g != "nodes-1a" {
		t.Errorf("group %q, %v, when asked again", g, err)
	}
	node.Name = "impostor"
	if _, err := (&groupFinder{instances: fleet}).GroupOf(t.Context(), node); !fault.Is(err, fault.Gone) {
		t.Errorf("a node that names another's machine: %v", err)
	}
	node.Spec.ProviderID = ""
	if _, err := (&groupFinder{instances: fleet}).GroupOf(t.Context(), node); !fault.Is(err, fault.NotYet) {
		t.Errorf("a node of no machine: %v", err)
	}
	named = true
	if id, err = verify("nodes.c.example.com", *ours.InstanceId); err != nil || id.NodeName != *ours.PrivateDnsName {
		t.Errorf("got %+v, %v, where nodes are named by their addresses", id, err)
	}
}

// fleet is EC2 with one machine.
type fleet struct {
	machine  types.Instance
	assigned []string
}

func (f *fleet) DescribeInstances(context.Context, *ec2.DescribeInstancesInput, ...func(*ec2.Options)) (*ec2.DescribeInstancesOutput, error) {
	return &ec2.DescribeInstancesOutput{Reservations: []types.Reservation{{Instances: []types.Instance{f.machine}}}}, nil
}

func (f *fleet) AssignIpv6Addresses(_ context.Context, in *ec2.AssignIpv6AddressesInput, _ ...func(*ec2.Options)) (*ec2.AssignIpv6AddressesOutput, error) {
	f.assigned = append(f.assigned, fmt.Sprintf("%s %d", *in.NetworkInterfaceId, *in.Ipv6PrefixCount))
	return &ec2.AssignIpv6AddressesOutput{AssignedIpv6Prefixes: []string{"fd00:7::/80"}}, nil
}

func TestRangesOfMachines(t *testing.T) {
	card := func(index int32, id string, prefixes ...string) types.InstanceNetworkInterface {
		n := types.InstanceNetworkInterface{NetworkInterfaceId: &id, Attachment: &types.InstanceNetworkInterfaceAttachment{DeviceIndex: &index}}
		for _, p := range prefixes {
			n.Ipv6Prefixes = append(n.Ipv6Prefixes, types.InstanceIpv6Prefix{Ipv6Prefix: &p})
		}
		return n
	}
	for _, c := range []struct {
		name, node, id string
		cards          []types.InstanceNetworkInterface
		want           string
		assigned       []string
		class          fault.Class
	}{
		{"a machine with a range", "i-1", "i-1", []types.InstanceNetworkInterface{card(1, "eni-2", "fd00:1::/80"), card(0, "eni-1", "fd00:2::/80")}, "fd00:2::/80", nil, ""},
		{"a machine without", "i-1", "i-1", []types.InstanceNetworkInterface{card(1, "eni-2", "fd00:1::/80"), card(0, "eni-1")}, "fd00:7::/80", []string{"eni-1 1"}, ""},
		{"a node that names another's machine", "impostor", "i-1", []types.InstanceNetworkInterface{card(0, "eni-1")}, "", nil, fault.Gone},
		{"a machine without an interface", "i-1", "i-1", nil, "", nil, fault.NotYet},
		{"a node of no machine", "i-1", "", nil, "", nil, fault.NotYet},
	} {
		f := &fleet{machine: types.Instance{InstanceId: aws.String("i-1"), State: &types.InstanceState{Name: types.InstanceStateNameRunning}, NetworkInterfaces: c.cards,
			Tags: []types.Tag{{Key: aws.String("KubernetesCluster"), Value: aws.String("c.example.com")}}}}
		node := &corev1.Node{}
		node.Name = c.node
		if c.id != "" {
			node.Spec.ProviderID = "aws:///us-east-1a/" + c.id
		}
		got, err := (&groupFinder{instances: instances{api: f, cluster: "c.example.com"}}).Prefix(t.Context(), node)
		if got != c.want || !slices.Equal(f.assigned, c.assigned) || (err != nil) != (c.want == "") || err != nil && !fault.Is(err, c.class) {
			t.Errorf("%s: got %q, %v, assigned %v", c.name, got, err, f.assigned)
		}
	}
}

// A machine takes its node's name from its configuration; the controller must use the same name.
func TestNamesOfNodes(t *testing.T) {
	m := types.Instance{InstanceId: aws.String("i-1"), PrivateDnsName: aws.String("ip-10-0-0-1.ec2.internal"),
		PrivateDnsNameOptions: &types.PrivateDnsNameOptionsResponse{HostnameType: types.HostnameTypeIpName}, // as in a subnet that kops did not create
		Tags:                  []types.Tag{{Key: aws.String("kops.k8s.io/instancegroup"), Value: aws.String("nodes")}}}
	for want, named := range map[string]bool{"i-1": false, "ip-10-0-0-1.ec2.internal": true} {
		i := instances{byAddress: func(context.Context, string) (bool, error) { return named, nil }}
		if got, err := i.describe(t.Context(), m); err != nil || got.NodeName != want {
			t.Errorf("got %+v, %v, want %s", got, err, want)
		}
	}
	m.NetworkInterfaces = []types.InstanceNetworkInterface{
		{Attachment: &types.InstanceNetworkInterfaceAttachment{DeviceIndex: aws.Int32(1)}, PrivateIpAddress: aws.String("10.0.9.9")},
		{Attachment: &types.InstanceNetworkInterfaceAttachment{DeviceIndex: aws.Int32(0)}, PrivateIpAddress: aws.String("10.0.0.1"),
			Ipv6Addresses: []types.InstanceIpv6Address{{Ipv6Address: aws.String("fd00::1")}}},
	}
	if got := nodeNames(m); !slices.Equal(got, []string{"i-1", "ip-10-0-0-1.ec2.internal", "10.0.0.1", "fd00::1"}) {
		t.Errorf("got %v", got)
	}
}
