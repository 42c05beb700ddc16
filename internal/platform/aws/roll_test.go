package aws

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	sdk "github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/autoscaling"
	astypes "github.com/aws/aws-sdk-go-v2/service/autoscaling/types"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"
	elb "github.com/aws/aws-sdk-go-v2/service/elasticloadbalancingv2"
	elbtypes "github.com/aws/aws-sdk-go-v2/service/elasticloadbalancingv2/types"
	"github.com/google/go-cmp/cmp"

	"kops.local/kops/api"
	"kops.local/kops/internal/engine/fault"
	"kops.local/kops/internal/platform"
	"kops.local/kops/internal/platform/aws/awstest"
	"kops.local/kops/internal/platform/aws/kinds"
)

// counter counts requests by their action.
type counter struct {
	http.RoundTripper
	mu   sync.Mutex
	sent map[string]int
}

func (c *counter) RoundTrip(r *http.Request) (*http.Response, error) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return nil, err
	}
	r.Body = io.NopCloser(strings.NewReader(string(body)))
	form, _ := url.ParseQuery(string(body)) // unparseable requests count as having no action
	c.mu.Lock()
	c.sent[form.Get("Action")]++
	c.mu.Unlock()
	return c.RoundTripper.RoundTrip(r)
}

// account is an account with a cluster on the emulator.
type account struct {
	*testing.T
	*kinds.Client
	platform.Provider
	session *platform.Session
	cluster *api.Cluster
	sent    *counter
	subnet  ec2types.Subnet
}

func newAccount(t *testing.T) *account {
	t.Helper()
	server := awstest.Moto(t)
	a := &account{T: t, cluster: &api.Cluster{}, sent: &counter{RoundTripper: http.DefaultTransport, sent: map[string]int{}}}
	a.cluster.Name = "k.example.com"
	a.Provider = Provider(Options{Endpoint: server.URL, Region: server.Region, HTTP: &http.Client{Transport: a.sent},
		Credentials: credentials.NewStaticCredentialsProvider(server.AccessKey, server.SecretKey, "")})
	var err error
	a.session, err = a.Connect(t.Context(), platform.Config{})
	a.ok(err)
	a.Client = a.session.Client.(*kinds.Client)
	subnets, err := a.EC2.DescribeSubnets(t.Context(), &ec2.DescribeSubnetsInput{})
	a.ok(err)
	a.subnet = subnets.Subnets[0]
	return a
}

func (a *account) ok(err error) {
	a.Helper()
	if err != nil {
		a.Fatal(err)
	}
}

// templateData returns a launch template whose machines run a script with a node configuration.
func templateData(kind ec2types.InstanceType, hash string, tags ...string) *ec2types.RequestLaunchTemplateData {
	script := "#!/bin/bash\ncat > conf/kube_env.yaml << '__EOF_KUBE_ENV'\nNodeupConfigHash: " + hash + "\n__EOF_KUBE_ENV\n"
	d := &ec2types.RequestLaunchTemplateData{InstanceType: kind, ImageId: sdk.String("ami-12c6146b"), UserData: sdk.String(base64.StdEncoding.EncodeToString([]byte(script))),
		BlockDeviceMappings: []ec2types.LaunchTemplateBlockDeviceMappingRequest{{DeviceName: sdk.String("/dev/sda1"), Ebs: &ec2types.LaunchTemplateEbsBlockDeviceRequest{VolumeSize: sdk.Int32(64), VolumeType: "gp3"}}}}
	s := ec2types.LaunchTemplateTagSpecificationRequest{ResourceType: "instance"}
	for i := 0; i < len(tags); i += 2 {
		s.Tags = append(s.Tags, ec2types.Tag{Key: &tags[i], Value: &tags[i+1]})
	}
	if len(tags) > 0 {
		d.TagSpecifications = append(d.TagSpecifications, s)
	}
	return d
}

// group creates a scaling group, whose instances exist immediately. Its
// load balancers are target groups.
func (a *account) group(name, role string, size int32, version string, targets ...string) {
	a.Helper()
	_, err := a.EC2.CreateLaunchTemplate(a.Context(), &ec2.CreateLaunchTemplateInput{LaunchTemplateName: &name, LaunchTemplateData: templateData("t3.medium", "one=", "team", "a"),
		TagSpecifications: []ec2types.TagSpecification{{ResourceType: "launch-template", Tags: []ec2types.Tag{{Key: sdk.String(kinds.TagOwnerPrefix + a.cluster.Name), Value: sdk.String(kinds.Owned)}}}}})
	a.ok(err)
	in := &autoscaling.CreateAutoScalingGroupInput{AutoScalingGroupName: &name, MinSize: &size, MaxSize: &size, VPCZoneIdentifier: a.subnet.SubnetId, TargetGroupARNs: targets,
		LaunchTemplate: &astypes.LaunchTemplateSpecification{LaunchTemplateName: &name, Version: &version}}
	for k, v := range map[string]string{kinds.TagCluster: a.cluster.Name, kinds.TagOwnerPrefix + a.cluster.Name: kinds.Owned, api.LabelInstanceGroup: name, roleTag + role: "1"} {
		in.Tags = append(in.Tags, astypes.Tag{Key: &k, Value: &v, PropagateAtLaunch: sdk.Bool(true), ResourceId: &name, ResourceType: sdk.String("auto-scaling-group")})
	}
	_, err = a.AutoScaling.CreateAutoScalingGroup(a.Context(), in)
	a.ok(err)
}

// change creates another version of a group's launch template. The emulator's instances use the
// default version, which does not change.
func (a *account) change(name string, d *ec2types.RequestLaunchTemplateData) {
	a.Helper()
	_, err := a.EC2.CreateLaunchTemplateVersion(a.Context(), &ec2.CreateLaunchTemplateVersionInput{LaunchTemplateName: &name, LaunchTemplateData: d})
	a.ok(err)
}

// machines returns the machines of all groups, by group.
func (a *account) machines() map[string][]platform.Machine {
	a.Helper()
	groups, err := a.Fleet.Machines(a.Context(), a.session, a.cluster, nil)
	a.ok(err)
	out := map[string][]platform.Machine{}
	for _, g := range groups {
		out[g.Name] = append(out[g.Name], g.Machines...)
	}
	return out
}

func (a *account) drift(list []platform.Machine) map[string]platform.Drift {
	a.Helper()
	out, err := a.Fleet.Roll.Drift(a.Context(), a.session, a.cluster, nil, list)
	a.ok(err)
	return out
}

func TestWhichInstancesAreOutdatedAndWhy(t *testing.T) {
	a := newAccount(t)
	a.group("same", "node", 1, "1")
	a.group("latest", "node", 1, "$Latest")
	a.group("fixed", "node", 1, "1")
	before := a.machines()
	for name, list := range before {
		if len(list) != 1 || list[0].Outdated {
			t.Errorf("%s: %+v", name, list)
		}
	}
	next := templateData("t3.large", "two=", "team", "b", labelTags+"disk", "fast")
	next.BlockDeviceMappings[0].Ebs.VolumeSize = sdk.Int32(128)
	for _, name := range []string{"latest", "fixed"} {
		a.change(name, next)
	}
	got := a.machines()
	for name, want := range map[string]bool{"same": false, "latest": true, "fixed": false} {
		if got[name][0].Outdated != want {
			t.Errorf("%s: outdated is %v", name, !want)
		}
	}
	want := map[string]platform.Drift{
		got["same"][0].Name: {Config: "one=", Wanted: "one="},
		got["latest"][0].Name: {Config: "one=", Wanted: "two=", Changes: []platform.Change{
			{Field: "spec.machineType", Have: "t3.medium", Want: "t3.large"}, {Field: "spec.rootVolume.size", Have: "64", Want: "128"},
			{Field: "spec.nodeLabels", Want: "disk=fast"}, {Field: "spec.cloudLabels", Have: "team=a", Want: "team=b"}}},
	}
	if d := cmp.Diff(want, a.drift([]platform.Machine{got["same"][0], got["latest"][0], {Name: "i-0"}})); d != "" {
		t.Error(d)
	}
}

// Templates are compared for every instance that was created from them.
func TestAChangedPriceIsReportedForEveryInstance(t *testing.T) {
	spot := func(price string) *kinds.LaunchTemplate {
		return &kinds.LaunchTemplate{Market: kinds.MarketOptions{Type: "spot", Spot: kinds.SpotOptions{MaxPrice: price}}}
	}
	have, want := spot("0.1"), spot("0.2")
	for range 2 {
		if d := cmp.Diff([]platform.Change{{Field: "spec.maxPrice", Have: "0.1", Want: "0.2"}}, compare(have, want).Changes); d != "" {
			t.Error(d)
		}
	}
}

// The preview of a rolling update of a large cluster in which every group has changed.
func TestAPreviewOfARollTakesFewRequests(t *testing.T) {
	a := newAccount(t)
	for n := range 67 {
		name := fmt.Sprintf("g%02d", n)
		a.group(name, "node", 1, "$Latest")
		a.change(name, templateData("t3.large", "two="))
	}
	clear(a.sent.sent)
	var all []platform.Machine
	for _, list := range a.machines() {
		all = append(all, list...)
	}
	made := a.drift(all)
	n := 0
	for _, sent := range a.sent.sent {
		n += sent
	}
	t.Logf("FIGURE a preview of a roll over 67 groups: %d requests: %v", n, a.sent.sent)
	if len(made) != 67 || n > 80 {
		t.Errorf("of %d instances it is told what they were made of, after %d requests", len(made), n)
	}
}

// A detached instance keeps running outside of its group, which starts another, and is terminated
// like any other.
func TestInstancesAreDetachedAndTerminated(t *testing.T) {
	a := newAccount(t)
	a.group("nodes", "node", 2, "1")
	first := a.machines()["nodes"][0]
	a.ok(a.Fleet.Roll.Detach(t.Context(), a.session, a.cluster, first))
	count := func(is func(platform.Machine) bool) (n int) {
		for _, m := range a.machines()["nodes"] {
			if is(m) {
				n++
			}
		}
		return n
	}
	detached := func(m platform.Machine) bool { return m.Detached && m.Outdated && m.Running && m.Name == first.Name }
	if all, out := count(func(platform.Machine) bool { return true }), count(detached); all != 3 || out != 1 {
		t.Errorf("of %d machines %d are detached: %+v", all, out, a.machines())
	}
	again := first
	again.Detached = true
	a.ok(a.Fleet.Roll.Detach(t.Context(), a.session, a.cluster, again))
	if err := a.Fleet.Roll.Detach(t.Context(), a.session, a.cluster, platform.Machine{Name: first.Name}); !fault.Is(err, fault.Permanent) {
		t.Errorf("an instance of no group is detached: %v", err)
	}
	for range 2 { // the second call has nothing to do
		a.ok(a.Fleet.Roll.Terminate(t.Context(), a.session, a.cluster, first))
	}
	a.ok(a.Fleet.Roll.Terminate(t.Context(), a.session, a.cluster, platform.Machine{Name: "i-0123456789abcdef0"}))
	if all := count(func(platform.Machine) bool { return true }); all != 2 {
		t.Errorf("there are %d machines", all)
	}
	if err := a.Fleet.Roll.Detach(t.Context(), a.session, a.cluster, platform.Machine{Name: "i-0123456789abcdef0"}); err == nil {
		t.Error("an instance that is not there is detached")
	}
}

func TestInstancesLeaveTheirLoadBalancers(t *testing.T) {
	a := newAccount(t)
	g, err := a.ELB.CreateTargetGroup(t.Context(), &elb.CreateTargetGroupInput{Name: sdk.String("api"), Protocol: elbtypes.ProtocolEnumTcp, Port: sdk.Int32(443), VpcId: a.subnet.VpcId})
	a.ok(err)
	arn := *g.TargetGroups[0].TargetGroupArn
	a.group("cp-a", "control-plane", 1, "1", arn)
	registered := func() (n int) {
		out, err := a.ELB.DescribeTargetHealth(t.Context(), &elb.DescribeTargetHealthInput{TargetGroupArn: &arn})
		a.ok(err)
		return len(out.TargetHealthDescriptions)
	}
	leave := func() error {
		return deregister(t.Context(), func(context.Context, time.Duration) error { return errors.New("it is waited for") }, a.Client, a.cluster, a.machines()["cp-a"][0])
	}
	a.ok(leave())
	if registered() != 1 {
		t.Error("the only control plane has left")
	}
	a.group("cp-b", "control-plane", 1, "1", arn)
	for range 2 {
		a.ok(leave())
		if n := registered(); n != 1 {
			t.Errorf("%d targets are left", n)
		}
	}
}

// A draining target is polled with growing pauses, and not forever.
func TestAnInstanceIsWaitedForUntilItIsUnused(t *testing.T) {
	looks, slept := 0, time.Duration(0)
	sleep := func(_ context.Context, d time.Duration) error { slept += d; return nil }
	err := pollUntil(t.Context(), sleep, "x", func() (bool, error) {
		if looks++; looks == 2 {
			return false, fault.New(fault.Throttled, "slow down")
		}
		return looks > 10, nil
	})
	if err != nil || looks != 11 || slept < 30*time.Second || slept > 2*time.Minute {
		t.Errorf("after %d looks and %s: %v", looks, slept, err)
	}
	if err := pollUntil(t.Context(), sleep, "x", func() (bool, error) { return false, nil }); !fault.Is(err, fault.NotYet) {
		t.Errorf("what never ends: %v", err)
	}
	no := fault.New(fault.Denied, "no")
	if err := pollUntil(t.Context(), sleep, "x", func() (bool, error) { return false, no }); !errors.Is(err, no) {
		t.Errorf("a refusal: %v", err)
	}
}

// The activity that ended last explains why a group starts no instance.
func TestWhyNoInstanceStarts(t *testing.T) {
	of := func(status astypes.ScalingActivityStatusCode, message string) astypes.Activity {
		return astypes.Activity{StatusCode: status, StatusMessage: &message}
	}
	under, failed, cancelled, done := of(astypes.ScalingActivityStatusCodePreInService, ""), of(astypes.ScalingActivityStatusCodeFailed, "a quota"), of(astypes.ScalingActivityStatusCodeCancelled, "no capacity"), of(astypes.ScalingActivityStatusCodeSuccessful, "")
	for _, c := range []struct {
		newestFirst []astypes.Activity
		want        string
	}{
		{nil, ""}, {[]astypes.Activity{under}, ""}, {[]astypes.Activity{under, failed, done}, "a quota"},
		{[]astypes.Activity{cancelled, failed}, "no capacity"}, {[]astypes.Activity{under, done, failed}, ""},
	} {
		if got := lastFailure(c.newestFirst); got != c.want {
			t.Errorf("%v: got %q, want %q", c.newestFirst, got, c.want)
		}
	}
	for name, c := range map[string]struct {
		states []astypes.LifecycleState
		want   bool
	}{"all": {[]astypes.LifecycleState{"InService", "Pending"}, false}, "one ends": {[]astypes.LifecycleState{"InService", "Terminating:Wait"}, true}} {
		g := astypes.AutoScalingGroup{DesiredCapacity: sdk.Int32(2)}
		for _, s := range c.states {
			g.Instances = append(g.Instances, astypes.Instance{LifecycleState: s})
		}
		if got := isBelowDesired(g); got != c.want {
			t.Errorf("%s: it lacks instances: %v", name, got)
		}
	}
}
