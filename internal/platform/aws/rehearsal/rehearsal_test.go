package rehearsal

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/autoscaling"
	scalingtypes "github.com/aws/aws-sdk-go-v2/service/autoscaling/types"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"
	elb "github.com/aws/aws-sdk-go-v2/service/elasticloadbalancingv2"
	elbtypes "github.com/aws/aws-sdk-go-v2/service/elasticloadbalancingv2/types"
	"github.com/aws/aws-sdk-go-v2/service/iam"
	"github.com/aws/aws-sdk-go-v2/service/route53"
	route53types "github.com/aws/aws-sdk-go-v2/service/route53/types"
	"github.com/aws/aws-sdk-go-v2/service/sts"

	"kops.local/kops/internal/engine/fault"
	"kops.local/kops/internal/platform/rehearsal"
	"kops.local/kops/internal/test/stagetest"
)

// testPlay is a play on a fake host.
type testPlay struct {
	*testing.T
	*play
	host    *stagetest.Host
	as      *rehearsal.Play
	vpc     string
	subnets []string
}

func newPlaying(t *testing.T) *testPlay {
	t.Helper()
	if _, err := exec.LookPath(program); err != nil {
		if os.Getenv("CI") == "true" {
			t.Fatalf("CANNOT RUN: %v", err)
		}
		t.Skipf("SKIPPED, NOTHING WAS TESTED: %v", err)
	}
	h := stagetest.New()
	own, err := start(t.Context(), h.Stage(), rehearsal.Options{Dir: t.TempDir(), Stores: []string{"state"}})
	if err != nil {
		t.Fatal(err)
	}
	as := own.asPlay()
	t.Cleanup(func() {
		if err := as.Close(); err != nil {
			t.Error(err)
		}
	})
	p := &testPlay{T: t, play: own, host: h, as: as}
	vpc, err := p.clients.EC2.CreateVpc(t.Context(), &ec2.CreateVpcInput{CidrBlock: aws.String("172.20.0.0/16")})
	p.ok(err)
	p.vpc = *vpc.Vpc.VpcId
	for _, cidr := range []string{"172.20.0.0/18", "172.20.64.0/18"} {
		s, err := p.clients.EC2.CreateSubnet(t.Context(), &ec2.CreateSubnetInput{VpcId: &p.vpc, CidrBlock: &cidr, AvailabilityZone: aws.String("us-east-1a")})
		p.ok(err)
		p.subnets = append(p.subnets, *s.Subnet.SubnetId)
	}
	return p
}

func (p *testPlay) ok(err error) {
	p.Helper()
	if err != nil {
		p.Fatal(err)
	}
}

// role creates an instance profile and a role in it, with the same name.
func (p *testPlay) role(name string) {
	p.Helper()
	_, err := p.clients.IAM.CreateRole(p.Context(), &iam.CreateRoleInput{RoleName: &name, AssumeRolePolicyDocument: aws.String(`{"Version":"2012-10-17","Statement":[]}`)})
	p.ok(err)
	_, err = p.clients.IAM.CreateInstanceProfile(p.Context(), &iam.CreateInstanceProfileInput{InstanceProfileName: &name})
	p.ok(err)
	_, err = p.clients.IAM.AddRoleToInstanceProfile(p.Context(), &iam.AddRoleToInstanceProfileInput{InstanceProfileName: &name, RoleName: &name})
	p.ok(err)
}

// instance runs an instance, and returns its identifier when its machine exists.
func (p *testPlay) instance(data string) string {
	p.Helper()
	out, err := p.clients.EC2.RunInstances(p.Context(), &ec2.RunInstancesInput{MinCount: aws.Int32(1), MaxCount: aws.Int32(1), ImageId: aws.String("ami-0"), SubnetId: &p.subnets[0],
		InstanceType: types.InstanceTypeT3Medium, UserData: aws.String(base64.StdEncoding.EncodeToString([]byte(data))), IamInstanceProfile: &types.IamInstanceProfileSpecification{Name: aws.String("nodes.c")}})
	p.ok(err)
	p.ok(p.sync(p.Context()))
	return *out.Instances[0].InstanceId
}

// get sends a request to the metadata service from an address.
func (p *testPlay) get(from netip.Addr, method, path string, header ...string) (int, string) {
	p.Helper()
	r := httptest.NewRequestWithContext(p.Context(), method, "http://169.254.169.254"+path, nil)
	r.RemoteAddr = netip.AddrPortFrom(from, 40000).String()
	for i := 0; i < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	w := httptest.NewRecorder()
	p.as.Plain[metadataAddress].ServeHTTP(w, r)
	return w.Code, w.Body.String()
}

func TestAnInstanceIsPlayed(t *testing.T) {
	p := newPlaying(t)
	p.role("nodes.c")
	id := p.instance("#!/bin/sh\necho hello\n")
	m := p.host.Machines[id]
	if m.UserData != "#!/bin/sh\necho hello\n" || m.MemoryMiB != 4096 || m.Gateway.String() != "172.20.0.1" || m.Address.Bits() != 16 || !m.Address.Contains(m.Gateway) {
		t.Errorf("the machine is %+v", m)
	}
	if len(p.host.Gateways) != 1 || p.host.Gateways[0].String() != "172.20.0.1/16" {
		t.Errorf("this host has the addresses %v", p.host.Gateways)
	}
	at := m.Address.Addr()
	const ttl, header = "X-aws-ec2-metadata-token-ttl-seconds", "X-aws-ec2-metadata-token"
	code, token := p.get(at, http.MethodPut, "/latest/api/token", ttl, "60")
	if code != http.StatusOK || token == "" {
		t.Fatalf("a session: %d %s", code, token)
	}
	for path, want := range map[string]string{
		"meta-data/instance-id": id, "meta-data/local-ipv4": at.String(), "meta-data/placement/availability-zone": "us-east-1a", "meta-data/placement/region": "us-east-1",
		"meta-data/iam/security-credentials/": "nodes.c", "meta-data/instance-type": "t3.medium", "user-data": "#!/bin/sh\necho hello\n",
		"meta-data/placement/": "availability-zone\nregion",
	} {
		if code, text := p.get(at, http.MethodGet, "/latest/"+path, header, token); code != http.StatusOK || text != want {
			t.Errorf("%s: %d %q, want %q", path, code, text, want)
		}
	}
	if code, _ := p.get(at, http.MethodGet, "/latest/meta-data/instance-id"); code != http.StatusUnauthorized {
		t.Errorf("without a session: %d", code)
	}
	if code, _ := p.get(at.Next(), http.MethodGet, "/latest/meta-data/instance-id", header, token); code != http.StatusNotFound {
		t.Errorf("somebody who is not an instance: %d", code)
	}
	_, text := p.get(at, http.MethodGet, "/latest/dynamic/instance-identity/document", header, token)
	var document struct{ InstanceID, AccountID, Region string }
	if err := json.Unmarshal([]byte(text), &document); err != nil || document.InstanceID != id || document.AccountID != "123456789012" {
		t.Errorf("the identity document is %s", text)
	}
	_, text = p.get(at, http.MethodGet, "/latest/meta-data/iam/security-credentials/nodes.c", header, token)
	var c struct{ AccessKeyID, SecretAccessKey, Token, Code string }
	p.ok(json.Unmarshal([]byte(text), &c))
	cfg := aws.Config{Region: Region, BaseEndpoint: aws.String(endpoint), HTTPClient: &http.Client{Transport: p.emulator.transport}, Credentials: aws.CredentialsProviderFunc(func(context.Context) (aws.Credentials, error) {
		return aws.Credentials{AccessKeyID: c.AccessKeyID, SecretAccessKey: c.SecretAccessKey, SessionToken: c.Token}, nil
	})}
	who, err := sts.NewFromConfig(cfg).GetCallerIdentity(t.Context(), &sts.GetCallerIdentityInput{})
	if err != nil || !strings.HasSuffix(*who.Arn, ":assumed-role/nodes.c/"+id) {
		t.Errorf("the credentials are of %v, %v", who, err)
	}
}

// TestTheSourceDestinationCheck: an instance's port checks addresses until the check is off.
func TestTheSourceDestinationCheck(t *testing.T) {
	p := newPlaying(t)
	p.role("nodes.c")
	ids := []string{p.instance("#!/bin/sh\n"), p.instance("#!/bin/sh\n")}
	at := func(id string) netip.Addr { return p.lastSnapshot().instances[id].Address }
	p.ok(p.sync(t.Context()))
	for _, id := range ids {
		if own, want := p.host.Checked[at(id)], []netip.Prefix{netip.PrefixFrom(at(id), 32)}; !slices.Equal(own, want) {
			t.Errorf("%s may use %v, not %v", id, own, want)
		}
	}
	_, err := p.clients.EC2.ModifyInstanceAttribute(t.Context(), &ec2.ModifyInstanceAttributeInput{InstanceId: &ids[0], SourceDestCheck: &types.AttributeBooleanValue{Value: aws.Bool(false)}})
	p.ok(err)
	p.ok(p.sync(t.Context()))
	if _, still := p.host.Checked[at(ids[0])]; still || len(p.host.Checked) != 1 {
		t.Errorf("with the check of %s off, there are %v", at(ids[0]), p.host.Checked)
	}
}

func TestAnInstanceThatDiedIsTerminated(t *testing.T) {
	p := newPlaying(t)
	p.role("nodes.c")
	id := p.instance("#!/bin/sh\n")
	p.host.Dead[id] = true
	p.ok(p.sync(t.Context()))
	p.ok(p.sync(t.Context()))
	if len(p.host.Machines) > 0 {
		t.Errorf("left are %v", p.host.Machines)
	}
	out, err := p.clients.EC2.DescribeInstances(t.Context(), &ec2.DescribeInstancesInput{InstanceIds: []string{id}})
	p.ok(err)
	if s := out.Reservations[0].Instances[0].State.Name; s != types.InstanceStateNameTerminated {
		t.Errorf("it is %s", s)
	}
}

func TestAVolumeOutlivesItsInstance(t *testing.T) {
	p := newPlaying(t)
	p.role("nodes.c")
	id := p.instance("#!/bin/sh\n")
	v, err := p.clients.EC2.CreateVolume(t.Context(), &ec2.CreateVolumeInput{AvailabilityZone: aws.String("us-east-1a"), Size: aws.Int32(20)})
	p.ok(err)
	attach := func(id string) {
		t.Helper()
		_, err := p.clients.EC2.AttachVolume(t.Context(), &ec2.AttachVolumeInput{VolumeId: v.VolumeId, InstanceId: &id, Device: aws.String("/dev/xvdu")})
		p.ok(err)
		p.ok(p.sync(t.Context()))
		d := p.host.Disks[*v.VolumeId]
		if d.Machine != id || d.GiB != 20 || len(d.Paths) != 3 || d.Paths[0] != "/dev/nvme20n1" || d.Paths[1] != "/dev/disk/by-id/nvme-Amazon_Elastic_Block_Store_"+strings.ReplaceAll(*v.VolumeId, "-", "") {
			t.Errorf("the disk is %+v", d)
		}
	}
	attach(id)
	_, err = p.clients.EC2.TerminateInstances(t.Context(), &ec2.TerminateInstancesInput{InstanceIds: []string{id}})
	p.ok(err)
	p.ok(p.sync(t.Context()))
	p.ok(p.sync(t.Context()))
	if d, ok := p.host.Disks[*v.VolumeId]; !ok || d.Machine != "" {
		t.Errorf("after the end of its instance the disk is %+v", d)
	}
	other := p.instance("#!/bin/sh\n")
	attach(other)
	_, err = p.clients.EC2.DetachVolume(t.Context(), &ec2.DetachVolumeInput{VolumeId: v.VolumeId, InstanceId: &other})
	p.ok(err)
	_, err = p.clients.EC2.DeleteVolume(t.Context(), &ec2.DeleteVolumeInput{VolumeId: v.VolumeId})
	p.ok(err)
	p.ok(p.sync(t.Context()))
	if len(p.host.Disks) > 0 {
		t.Errorf("left are %v", p.host.Disks)
	}
}

func TestNamesAndLoadBalancers(t *testing.T) {
	p := newPlaying(t)
	p.role("nodes.c")
	id := p.instance("#!/bin/sh\n")
	at := p.host.Machines[id].Address.Addr().String()
	l, err := p.clients.ELB.CreateLoadBalancer(t.Context(), &elb.CreateLoadBalancerInput{Name: aws.String("api"), Type: elbtypes.LoadBalancerTypeEnumNetwork, Subnets: []string{p.subnets[1]}})
	p.ok(err)
	g, err := p.clients.ELB.CreateTargetGroup(t.Context(), &elb.CreateTargetGroupInput{Name: aws.String("tcp"), Port: aws.Int32(443), Protocol: elbtypes.ProtocolEnumTcp, VpcId: &p.vpc})
	p.ok(err)
	arn := g.TargetGroups[0].TargetGroupArn
	_, err = p.clients.ELB.RegisterTargets(t.Context(), &elb.RegisterTargetsInput{TargetGroupArn: arn, Targets: []elbtypes.TargetDescription{{Id: &id}}})
	p.ok(err)
	_, err = p.clients.ELB.CreateListener(t.Context(), &elb.CreateListenerInput{LoadBalancerArn: l.LoadBalancers[0].LoadBalancerArn, Port: aws.Int32(443), Protocol: elbtypes.ProtocolEnumTcp,
		DefaultActions: []elbtypes.Action{{Type: elbtypes.ActionTypeEnumForward, TargetGroupArn: arn}}})
	p.ok(err)
	zone, err := p.clients.Route53.CreateHostedZone(t.Context(), &route53.CreateHostedZoneInput{Name: aws.String("example.com"), CallerReference: aws.String("1")})
	p.ok(err)
	record := func(name string, r route53types.ResourceRecordSet) route53types.Change {
		r.Name = aws.String(name)
		return route53types.Change{Action: route53types.ChangeActionUpsert, ResourceRecordSet: &r}
	}
	_, err = p.clients.Route53.ChangeResourceRecordSets(t.Context(), &route53.ChangeResourceRecordSetsInput{HostedZoneId: zone.HostedZone.Id, ChangeBatch: &route53types.ChangeBatch{Changes: []route53types.Change{
		record("a.example.com.", route53types.ResourceRecordSet{Type: "A", TTL: aws.Int64(60), ResourceRecords: []route53types.ResourceRecord{{Value: aws.String("10.1.2.3")}}}),
		record("t.example.com.", route53types.ResourceRecordSet{Type: "TXT", TTL: aws.Int64(60), ResourceRecords: []route53types.ResourceRecord{{Value: aws.String(`"owner=x"`)}}}),
		record("api.example.com.", route53types.ResourceRecordSet{Type: "A", AliasTarget: &route53types.AliasTarget{DNSName: l.LoadBalancers[0].DNSName, HostedZoneId: l.LoadBalancers[0].CanonicalHostedZoneId}}),
	}}})
	p.ok(err)
	p.ok(p.sync(t.Context()))
	if len(p.host.Balancers) != 1 {
		t.Fatalf("load balancers are %+v", p.host.Balancers)
	}
	b := p.host.Balancers[0]
	if b.Address.String() != "172.20.127.254" || len(b.Fronts) != 1 || b.Fronts[0].Port != 443 || b.Fronts[0].Target != 443 || len(b.Fronts[0].Hosts) != 1 || b.Fronts[0].Hosts[0] != at {
		t.Errorf("the load balancer is %+v", b)
	}
	for _, c := range []struct {
		name, kind, want string
		known            bool
	}{
		{*l.LoadBalancers[0].DNSName, "A", b.Address.String(), true},
		{*l.LoadBalancers[0].DNSName, "AAAA", "", true},
		{"API.example.com", "A", b.Address.String(), true},
		{"a.example.com", "A", "10.1.2.3", true},
		{"a.example.com", "AAAA", "", true},
		{"t.example.com", "TXT", `"owner=x"`, true},
		{"b.example.com", "A", "", false},
		{"example.org", "A", "", false},
		{id + ".ec2.internal", "A", at, true},
		{*p.lastSnapshot().instances[id].PrivateDnsName, "A", at, true},
		{"dualstack." + *l.LoadBalancers[0].DNSName, "A", b.Address.String(), true},
	} {
		got, known := p.as.Lookup(c.name, c.kind)
		if known != c.known || (c.want == "") != (len(got) == 0) || len(got) > 0 && !strings.HasSuffix(got[0], " IN "+c.kind+" "+c.want) {
			t.Errorf("%s %s: %q, %v", c.kind, c.name, got, known)
		}
	}
	if got, _ := p.as.Lookup("example.com", "NS"); len(got) < 2 {
		t.Errorf("the servers of the zone are %q", got)
	}
}

// Services are recognized by their host names, and a request that
// changes something triggers a pass.
func TestServices(t *testing.T) {
	p := newPlaying(t)
	p.role("nodes.c")
	id := p.instance("#!/bin/sh\n")
	for host, want := range map[string]bool{"ec2.us-east-1.amazonaws.com": true, "state.s3.us-east-1.amazonaws.com": true, "iam.amazonaws.com": true,
		"api-1.us-east-1.elb.amazonaws.com": false, "602401143452.dkr.ecr.us-east-1.amazonaws.com": false, "amazonaws.com.example.com": false} {
		if isServiceHost(host) != want {
			t.Errorf("%s: %v", host, !want)
		}
	}
	ask := func(body string) string {
		t.Helper()
		r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "https://ec2.us-east-1.amazonaws.com/", strings.NewReader(body))
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded; charset=utf-8")
		r.Header.Set("Authorization", "AWS4-HMAC-SHA256 Credential=x/20260101/us-east-1/ec2/aws4_request, SignedHeaders=host, Signature=0")
		w := httptest.NewRecorder()
		p.as.Handler.ServeHTTP(w, r)
		text, err := io.ReadAll(w.Result().Body)
		p.ok(err)
		return string(text)
	}
	if text := ask("Action=GetConsoleOutput&Version=2016-11-15&InstanceId=" + id); !strings.Contains(text, base64.StdEncoding.EncodeToString([]byte("the console of "+id))) {
		t.Errorf("the console: %s", text)
	}
	if text := ask("Action=GetConsoleOutput&Version=2016-11-15&InstanceId=i-0"); !strings.Contains(text, "InvalidInstanceID.NotFound") {
		t.Errorf("the console of nobody: %s", text)
	}
	if text := ask("Action=DescribeInstances&Version=2016-11-15"); !strings.Contains(text, id) || len(p.keeper.Wake) > 0 {
		t.Errorf("a question: %s", text)
	}
	attach := func() string {
		t.Helper()
		v, err := p.clients.EC2.CreateVolume(t.Context(), &ec2.CreateVolumeInput{AvailabilityZone: aws.String("us-east-1a"), Size: aws.Int32(1)})
		p.ok(err)
		return ask("Action=AttachVolume&Version=2016-11-15&Device=/dev/xvdu&InstanceId=" + id + "&VolumeId=" + *v.VolumeId)
	}
	if text := attach(); !strings.Contains(text, "attaching") && !strings.Contains(text, "attached") {
		t.Errorf("a volume is attached: %s", text)
	}
	if text := attach(); !strings.Contains(text, "InvalidParameterValue") {
		t.Errorf("another at the same device: %s", text)
	}
	<-p.keeper.Wake
	if ask("Action=CreateVolume&Version=2016-11-15&Size=1&AvailabilityZone=us-east-1a"); len(p.keeper.Wake) != 1 {
		t.Error("a change is not looked at")
	}
}

// A group's instance gets everything in its launch template, also what the emulator does not apply.
func TestAnInstanceHasWhatItsTemplateSays(t *testing.T) {
	p := newPlaying(t)
	p.role("nodes.c")
	made, err := p.clients.EC2.CreateLaunchTemplate(t.Context(), &ec2.CreateLaunchTemplateInput{LaunchTemplateName: aws.String("nodes.c"), LaunchTemplateData: &types.RequestLaunchTemplateData{
		ImageId: aws.String("ami-0"), InstanceType: types.InstanceTypeT3Medium, UserData: aws.String(base64.StdEncoding.EncodeToString([]byte("#!/bin/sh\n"))),
		IamInstanceProfile: &types.LaunchTemplateIamInstanceProfileSpecificationRequest{Name: aws.String("nodes.c")},
		NetworkInterfaces:  []types.LaunchTemplateInstanceNetworkInterfaceSpecificationRequest{{DeviceIndex: aws.Int32(0), AssociatePublicIpAddress: aws.Bool(true)}}}})
	p.ok(err)
	_, err = p.clients.AutoScaling.CreateAutoScalingGroup(t.Context(), &autoscaling.CreateAutoScalingGroupInput{AutoScalingGroupName: aws.String("nodes.c"), MinSize: aws.Int32(1), MaxSize: aws.Int32(1),
		VPCZoneIdentifier: &p.subnets[0], LaunchTemplate: &scalingtypes.LaunchTemplateSpecification{LaunchTemplateId: made.LaunchTemplate.LaunchTemplateId, Version: aws.String("1")}})
	p.ok(err)
	p.ok(p.sync(t.Context()))
	for id := range p.host.Machines {
		i := p.lastSnapshot().instances[id]
		if i.IamInstanceProfile == nil || !strings.HasSuffix(*i.IamInstanceProfile.Arn, "/nodes.c") || aws.ToString(i.PublicIpAddress) != "198.51.100.1" || i.Group != "nodes.c" {
			t.Errorf("the instance has the profile %v, the address %v and the group %s", i.IamInstanceProfile, i.PublicIpAddress, i.Group)
		}
		if m := p.wanted(p.lastSnapshot()).Machines[0]; m.Public.String() != aws.ToString(i.PublicIpAddress) || m.Address != i.Address {
			t.Errorf("its public address leads nowhere: %+v", m)
		}
		p.host.Dead[id] = true // its group creates another
	}
	p.ok(p.sync(t.Context()))
	p.ok(p.sync(t.Context()))
	out, err := p.clients.EC2.DescribeAddresses(t.Context(), &ec2.DescribeAddressesInput{})
	p.ok(err)
	if len(p.host.Machines) != 1 || len(out.Addresses) != 1 {
		t.Errorf("there are %d machines and %d public addresses", len(p.host.Machines), len(out.Addresses))
	}
}

// TestAllPagesAreRead reads more than the 100 reservations of a page, which include ended
// instances: an instance on a later page must not count as gone.
func TestAllPagesAreRead(t *testing.T) {
	p := newPlaying(t)
	for range 101 {
		_, err := p.clients.EC2.RunInstances(t.Context(), &ec2.RunInstancesInput{MinCount: aws.Int32(1), MaxCount: aws.Int32(1), ImageId: aws.String("ami-0"), SubnetId: &p.subnets[0]})
		p.ok(err)
	}
	for i := range 51 {
		_, err := p.clients.ELB.CreateLoadBalancer(t.Context(), &elb.CreateLoadBalancerInput{Name: aws.String(fmt.Sprint("l", i)), Type: elbtypes.LoadBalancerTypeEnumNetwork, Subnets: []string{p.subnets[1]}})
		p.ok(err)
	}
	now, err := p.observe(t.Context())
	p.ok(err)
	if len(now.instances) != 101 || len(now.balancers) != 51 {
		t.Errorf("seen are %d instances, %d load balancers", len(now.instances), len(now.balancers))
	}
}

// TestSessionsAreBounded checks that an instance that starts too many sessions loses its oldest,
// and that others lose none.
func TestSessionsAreBounded(t *testing.T) {
	now := time.Now()
	s := &metadataServer{tokens: map[string]token{}}
	s.startSession("other", token{"i-2", now.Add(time.Second)}, now)
	for i := range maxSessions + 1 {
		s.startSession(fmt.Sprint(i), token{"i-1", now.Add(time.Duration(i+2) * time.Second)}, now)
	}
	_, first := s.tokens["0"]
	_, second := s.tokens["1"]
	_, other := s.tokens["other"]
	if len(s.tokens) != maxSessions+1 || first || !second || !other {
		t.Errorf("there are %d sessions; the first %v, the second %v, another's %v", len(s.tokens), first, second, other)
	}
	s.startSession("late", token{"i-2", now.Add(48 * time.Hour)}, now.Add(24*time.Hour))
	if len(s.tokens) != 1 {
		t.Errorf("after a day there are %d", len(s.tokens))
	}
}

// TestDevicesWithoutALetter checks that such devices have only the path
// with the volume's identifier.
func TestDevicesWithoutALetter(t *testing.T) {
	const id = "/dev/disk/by-id/nvme-Amazon_Elastic_Block_Store_vol1"
	for device, want := range map[string][]string{"/dev/sdf": {"/dev/nvme5n1", id, "/dev/sdf"}, "": {id}, "/dev/sdf1": {id}, "/dev/": {id}, "f": {id}, "/etc/passwd": {id}, "/dev/../x": {id}} {
		if got := devicePaths(volume{id: "vol-1", device: device}); !slices.Equal(got, want) {
			t.Errorf("%q: got %q, want %q", device, got, want)
		}
	}
}

// TestTheAccountOfTheUserStaysOut checks that the emulator's environment has no variables of the
// user's account.
func TestTheAccountOfTheUserStaysOut(t *testing.T) {
	t.Setenv("AWS_SECRET_ACCESS_KEY", "of-the-user")
	t.Setenv("AWS_SESSION_TOKEN", "of-the-user")
	p := newPlaying(t)
	env, err := os.ReadFile(fmt.Sprintf("/proc/%d/environ", p.emulator.Cmd.Process.Pid))
	p.ok(err)
	if len(env) == 0 || strings.Contains(string(env), "of-the-user") {
		t.Errorf("its environment is %q", env)
	}
}

// TestTheEmulatorIsMissed checks that the error has a remedy.
func TestTheEmulatorIsMissed(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	if err := Check(); err == nil || !strings.Contains(fault.Remedy(err), "pip install") {
		t.Errorf("got %v", err)
	}
}

// TestRemediesAreLogged checks that remedies are logged, such as for a
// network that overlaps one of this host's.
func TestRemediesAreLogged(t *testing.T) {
	var out strings.Builder
	p := &play{keeper: rehearsal.NewKeeper(slog.New(slog.NewTextHandler(&out, nil)), nil)}
	p.keeper.LogError(fault.Wrap(fault.Permanent, errors.New("the networks overlap"), "choose another range"))
	if !strings.Contains(out.String(), `remedy="choose another range"`) || !strings.Contains(out.String(), `error="the networks overlap"`) {
		t.Errorf("told is %s", out.String())
	}
}
