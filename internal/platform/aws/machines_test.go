package aws_test

import (
	"slices"
	"strings"
	"testing"

	sdk "github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/autoscaling"
	astypes "github.com/aws/aws-sdk-go-v2/service/autoscaling/types"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"kops.local/kops/api"
	"kops.local/kops/internal/platform"
	"kops.local/kops/internal/platform/aws"
	"kops.local/kops/internal/platform/aws/awstest"
	"kops.local/kops/internal/platform/aws/kinds"
)

const cluster = "k.example.com"

// world is an account with machines.
type world struct {
	*testing.T
	*kinds.Client
	subnet string
}

// group creates a scaling group, whose machines exist immediately on the emulator.
func (w *world) group(cluster, name string, size int32) {
	w.Helper()
	full := name + "." + cluster
	data := &ec2types.RequestLaunchTemplateData{InstanceType: ec2types.InstanceTypeT3Medium, ImageId: sdk.String("ami-12c6146b")}
	_, err := w.EC2.CreateLaunchTemplate(w.Context(), &ec2.CreateLaunchTemplateInput{LaunchTemplateName: &full, LaunchTemplateData: data})
	in := &autoscaling.CreateAutoScalingGroupInput{AutoScalingGroupName: &full, MinSize: &size, MaxSize: &size, VPCZoneIdentifier: &w.subnet,
		LaunchTemplate: &astypes.LaunchTemplateSpecification{LaunchTemplateName: &full, Version: sdk.String("1")}}
	for k, v := range map[string]string{kinds.TagCluster: cluster, kinds.TagOwnerPrefix + cluster: kinds.Owned, api.LabelInstanceGroup: name} {
		in.Tags = append(in.Tags, astypes.Tag{Key: &k, Value: &v, PropagateAtLaunch: sdk.Bool(true), ResourceId: &full, ResourceType: sdk.String("auto-scaling-group")})
	}
	if err == nil {
		_, err = w.AutoScaling.CreateAutoScalingGroup(w.Context(), in)
	}
	if err != nil {
		w.Fatal(err)
	}
}

func TestMachines(t *testing.T) {
	server := awstest.Moto(t)
	p := aws.Provider(aws.Options{Endpoint: server.URL, Region: server.Region, Credentials: credentials.NewStaticCredentialsProvider(server.AccessKey, server.SecretKey, "")})
	s, err := p.Connect(t.Context(), platform.Config{})
	if err != nil {
		t.Fatal(err)
	}
	w := &world{T: t, Client: s.Client.(*kinds.Client)}
	subnets, err := w.EC2.DescribeSubnets(t.Context(), &ec2.DescribeSubnetsInput{})
	if err != nil || len(subnets.Subnets) == 0 {
		t.Fatalf("no subnets: %v", err)
	}
	w.subnet = *subnets.Subnets[0].SubnetId
	c := &api.Cluster{}
	c.Name = cluster
	find := func() []platform.MachineGroup {
		t.Helper()
		got, err := p.Fleet.Machines(t.Context(), s, c, nil)
		if err != nil {
			t.Fatal(err)
		}
		slices.SortFunc(got, func(a, b platform.MachineGroup) int { return strings.Compare(a.Name, b.Name) })
		return got
	}
	if got := find(); len(got) != 0 {
		t.Errorf("before there are any: %+v", got)
	}
	w.group(cluster, "nodes", 2)
	w.group(cluster, "cp", 1)
	w.group("other.example.com", "nodes", 1)

	got := find()
	if len(got) != 2 || got[0].Name != "cp" || got[0].Target != 1 || len(got[0].Machines) != 1 || got[1].Name != "nodes" || got[1].Target != 2 || len(got[1].Machines) != 2 {
		t.Fatalf("%+v", got)
	}
	one := got[1].Machines[0]
	if !strings.HasPrefix(one.Name, "i-") || one.Node != one.Name || one.Group != "nodes" || !one.Running || one.State != "running" || one.Type != "t3.medium" ||
		one.Zone != *subnets.Subnets[0].AvailabilityZone || len(one.Addresses) == 0 || one.Created.IsZero() || one.Spare || one.Detached {
		t.Errorf("%+v", one)
	}

	// One machine was detached by a rolling update, and one was stopped.
	detached, stopped := got[1].Machines[0].Name, got[1].Machines[1].Name
	_, err = w.EC2.CreateTags(t.Context(), &ec2.CreateTagsInput{Resources: []string{detached}, Tags: []ec2types.Tag{{Key: sdk.String("kops.k8s.io/detached-from-asg"), Value: sdk.String("")}}})
	if err == nil {
		_, err = w.EC2.StopInstances(t.Context(), &ec2.StopInstancesInput{InstanceIds: []string{stopped}})
	}
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range find()[1].Machines {
		if m.Detached != (m.Name == detached) || m.Running == (m.Name == stopped) {
			t.Errorf("%+v", m)
		}
	}

	r, err := p.Fleet.BootRecord(t.Context(), s, c, one)
	if err != nil || len(r.Console) == 0 || r.Report != nil {
		t.Errorf("boot record %q, %v", r, err)
	}
	if _, err := p.Fleet.BootRecord(t.Context(), s, c, platform.Machine{Name: "i-0123456789abcdef0"}); err == nil || !strings.Contains(err.Error(), "read the console of i-0123456789abcdef0") {
		t.Errorf("the console of a machine that is not there: %v", err)
	}
}
