package kinds

import (
	"testing"

	"github.com/aws/aws-sdk-go-v2/service/ec2"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"kops.local/kops/internal/platform/aws/awstest"
)

// TestServiceKindsLive runs the lifecycle of an object of every kind outside EC2, on one server.
func TestServiceKindsLive(t *testing.T) {
	server := awstest.Moto(t)
	c := connect(t, server)
	for name, live := range map[string]func(*testing.T, *Client){
		"iam role":           liveRole,
		"iam role policy":    liveRolePolicy,
		"iam attachment":     liveAttachment,
		"iam profile":        liveProfile,
		"oidc provider":      liveOIDC,
		"auto-scaling group": liveGroup,
		"mixed group":        liveMixedGroup,
		"lifecycle hook":     liveHook,
		"load balancer":      liveLoadBalancer,
		"listener":           liveListener,
		"target group":       liveTargetGroup,
		"queue":              liveQueue,
		"event rule":         liveEventRule,
		"event target":       liveEventTarget,
		"dns record":         liveRecord,
		"dns alias":          liveAlias,
		"dns placeholder":    livePlaceholder,
		"zone association":   liveAssociation,
		"keys of the store":  liveStoreKeys,
	} {
		t.Run(name, func(t *testing.T) { live(t, c) })
	}
}

// network is the network of load balancers and groups.
type network struct {
	vpc     string
	subnets []string // in different zones
}

// defaultNetwork returns the default network of an account, which moto also has.
func defaultNetwork(t *testing.T, c *Client) network {
	t.Helper()
	out, err := c.EC2.DescribeSubnets(t.Context(), &ec2.DescribeSubnetsInput{
		Filters: []ec2types.Filter{{Name: new("default-for-az"), Values: []string{"true"}}}})
	if err != nil || len(out.Subnets) < 2 {
		t.Fatalf("no default subnets: %v", err)
	}
	n := network{vpc: *out.Subnets[0].VpcId}
	for _, s := range out.Subnets {
		n.subnets = append(n.subnets, *s.SubnetId)
	}
	return n
}

// testSecurityGroup creates a security group that a test refers to.
func testSecurityGroup(t *testing.T, c *Client, name string) string {
	t.Helper()
	out, err := c.EC2.CreateSecurityGroup(t.Context(), &ec2.CreateSecurityGroupInput{
		GroupName: &name, Description: new("test"), VpcId: new(defaultNetwork(t, c).vpc)})
	if err != nil {
		t.Fatal(err)
	}
	return *out.GroupId
}
