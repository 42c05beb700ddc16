package kinds

import (
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/credentials"

	"kops.local/kops/internal/engine/fault"
	"kops.local/kops/internal/platform/aws/awsapi"
)

// script maps each action to its successive answers: the content of a successful response, or
// "!Code" for an error. It is used for what moto never does, such as making a client wait.
type script map[string][]string

func (s script) Do(q *http.Request) (*http.Response, error) {
	body, err := io.ReadAll(q.Body)
	if err != nil {
		return nil, err
	}
	form, err := url.ParseQuery(string(body))
	if err != nil {
		return nil, err
	}
	action := form.Get("Action")
	if len(s[action]) == 0 {
		return nil, fmt.Errorf("%s is not in the script", action)
	}
	answer := s[action][0]
	s[action] = s[action][1:]
	status, text := http.StatusOK, fmt.Sprintf("<%sResponse>%s</%[1]sResponse>", action, answer)
	if code, bad := strings.CutPrefix(answer, "!"); bad {
		status, text = http.StatusBadRequest, "<Response><Errors><Error><Code>"+code+"</Code><Message>m</Message></Error></Errors></Response>"
	}
	return &http.Response{StatusCode: status, Body: io.NopCloser(strings.NewReader(text)), Header: http.Header{}, Request: q}, nil
}

func scripted(t *testing.T, s script) *Client {
	t.Helper()
	api, err := awsapi.Connect(t.Context(), awsapi.Config{Region: "us-east-1", Endpoint: "http://aws.test", HTTPClient: s,
		Credentials: credentials.NewStaticCredentialsProvider("a", "b", "")})
	if err != nil {
		t.Fatal(err)
	}
	return NewClient(*api)
}

// steps calls f once for each class, "" for success, and checks the results.
func steps(t *testing.T, f func() error, classes ...fault.Class) {
	t.Helper()
	for i, want := range classes {
		if err := f(); fault.Of(err) != want {
			t.Errorf("try %d: %v is %q, want %q", i+1, err, fault.Of(err), want)
		}
	}
}

func TestNATGatewayIsWaitedFor(t *testing.T) {
	state := func(s string) string {
		return "<natGatewaySet><item><natGatewayId>nat-1</natGatewayId><state>" + s + "</state><failureMessage>no address</failureMessage></item></natGatewaySet>"
	}
	n := &NATGateway{ID: "nat-1"}
	c := scripted(t, script{"DescribeNatGateways": {"", state("pending"), state("available"), state("failed")}})
	steps(t, func() error { return NATGateways.Ready(t.Context(), c, n) }, fault.NotYet, fault.NotYet, "", fault.Permanent)

	c = scripted(t, script{"DescribeNatGateways": {state("available"), state("deleting"), state("deleted"), ""}, "DeleteNatGateway": {""}})
	steps(t, func() error { return NATGateways.Delete(t.Context(), c, n) }, fault.NotYet, fault.NotYet, "", "")
}

func TestRangesOfAVPCAreWaitedFor(t *testing.T) {
	vpc := func(v6, v4 string) string {
		return "<vpcSet><item><vpcId>vpc-1</vpcId>" +
			"<ipv6CidrBlockAssociationSet><item><associationId>a6</associationId><ipv6CidrBlock>2600::/56</ipv6CidrBlock><ipv6CidrBlockState><state>" + v6 + "</state></ipv6CidrBlockState></item></ipv6CidrBlockAssociationSet>" +
			"<cidrBlockAssociationSet><item><associationId>a4</associationId><cidrBlock>10.1.0.0/16</cidrBlock><cidrBlockState><state>" + v4 + "</state></cidrBlockState></item></cidrBlockAssociationSet></item></vpcSet>"
	}
	v := &VPC{ID: "vpc-1", AmazonIPv6: true}
	c := scripted(t, script{"DescribeVpcs": {"!InvalidVpcID.NotFound", vpc("associating", ""), vpc("associated", "")}})
	steps(t, func() error { return VPCs.Ready(t.Context(), c, v) }, fault.NotYet, fault.NotYet, "", "")
	if v.IPv6CIDR != "2600::/56" {
		t.Errorf("the range is %q", v.IPv6CIDR)
	}

	have := &VPC{ID: "vpc-1"} // a range that is being added is not added twice
	c = scripted(t, script{"DescribeVpcs": {vpc("disassociated", ""), vpc("associating", ""), vpc("associated", "")}, "AssociateVpcCidrBlock": {""}})
	steps(t, func() error { return setVPCIPv6(t.Context(), c, have, &VPC{AmazonIPv6: true}) }, fault.NotYet, fault.NotYet, "")
	if have.IPv6CIDR != "2600::/56" {
		t.Errorf("the range is %q", have.IPv6CIDR)
	}

	r := &VPCCIDR{VPC: lit("vpc-1"), CIDR: "10.1.0.0/16", ID: "a4"}
	c = scripted(t, script{"DescribeVpcs": {vpc("", "associating"), vpc("", "associated"), vpc("", "failed")}})
	steps(t, func() error { return VPCCIDRs.Ready(t.Context(), c, r) }, fault.NotYet, "", fault.Permanent)
}

func TestABlockedDeletionNamesTheBlocker(t *testing.T) {
	interfaces := "<networkInterfaceSet><item><networkInterfaceId>eni-1</networkInterfaceId><description>ELB net/x</description></item>" +
		"<item><networkInterfaceId>eni-2</networkInterfaceId><attachment><instanceId>i-9</instanceId></attachment></item></networkInterfaceSet>"
	group := "<securityGroupInfo><item><groupId>sg-2</groupId></item></securityGroupInfo>"
	c := scripted(t, script{
		"DeleteSubnet": {"!DependencyViolation", "!InvalidSubnetID.NotFound"}, "DeleteSecurityGroup": {"!DependencyViolation"},
		"DescribeNetworkInterfaces": {interfaces, interfaces, interfaces}, "DescribeSecurityGroups": {group, "", "", ""},
		"DeleteVpc": {"!DependencyViolation"}, "DescribeSubnets": {""}, "DescribeRouteTables": {""}, "DescribeInternetGateways": {""},
	})
	const users = "network interface eni-1 (ELB net/x), network interface eni-2 of machine i-9"
	for _, tc := range []struct {
		delete func() error
		want   string
	}{
		{func() error { return Subnets.Delete(t.Context(), c, &Subnet{ID: "subnet-1"}) }, "subnet subnet-1 is in use by " + users + ":"},
		{func() error { return SecurityGroups.Delete(t.Context(), c, &SecurityGroup{ID: "sg-1"}) },
			"security group sg-1 is in use by " + users + ", a rule of security group sg-2:"},
		{func() error { return VPCs.Delete(t.Context(), c, &VPC{ID: "vpc-1"}) }, "VPC vpc-1 is in use by " + users + ":"},
	} {
		err := tc.delete()
		if !fault.Is(err, fault.Conflict) || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("got %v (%s), want %s", err, fault.Of(err), tc.want)
		}
	}
	steps(t, func() error { return Subnets.Delete(t.Context(), c, &Subnet{ID: "subnet-1"}) }, "")
}

func TestAnAttachmentWhoseAnswerWasLostIsTaken(t *testing.T) {
	gateway := func(vpc string) string {
		return "<internetGatewaySet><item><internetGatewayId>igw-1</internetGatewayId><attachmentSet><item><vpcId>" + vpc + "</vpcId></item></attachmentSet></item></internetGatewaySet>"
	}
	c := scripted(t, script{"AttachInternetGateway": {"!Resource.AlreadyAssociated", "!Resource.AlreadyAssociated"},
		"DescribeInternetGateways": {gateway("vpc-1"), gateway("vpc-2")}})
	attach := InternetGateways.Update[0].Set
	steps(t, func() error {
		return attach(t.Context(), c, &InternetGateway{ID: "igw-1"}, &InternetGateway{VPC: lit("vpc-1")})
	}, "", fault.Permanent)
}

// A new group's rule exists before AWS lists it: the client waits for
// it, and does not report a conflict.
func TestRuleThatIsNotShownYetIsWaitedFor(t *testing.T) {
	rules := "<securityGroupRuleSet><item><securityGroupRuleId>sgr-1</securityGroupRuleId><groupId>sg-1</groupId><isEgress>true</isEgress>" +
		"<ipProtocol>-1</ipProtocol><cidrIpv4>0.0.0.0/0</cidrIpv4></item></securityGroupRuleSet>"
	c := scripted(t, script{"DescribeSecurityGroupRules": {"", "", rules}, "AuthorizeSecurityGroupEgress": {"!InvalidPermission.Duplicate"}, "CreateTags": {""}})
	r := &SecurityGroupRule{Group: lit("sg-1"), Type: egress, Protocol: "-1", CIDRs: []string{"0.0.0.0/0"}, Tags: OwnedTags(testCluster, "out")}
	steps(t, func() error { return createRule(t.Context(), c, r) }, fault.NotYet, "")
	if r.ID != "sgr-1" {
		t.Errorf("got the rule %q", r.ID)
	}
}
