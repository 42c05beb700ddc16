package rehearsal

import (
	"encoding/base64"
	"net/http/httptest"
	"slices"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/autoscaling"
	scalingtypes "github.com/aws/aws-sdk-go-v2/service/autoscaling/types"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"
)

// TestAGroupIsRolled checks that each instance is reported with the version of the launch template
// that it was created from; that a detached one keeps running, and its group creates another from
// the new version; and that a warm pool does so, too, when its spare is terminated.
func TestAGroupIsRolled(t *testing.T) {
	p := newPlaying(t)
	server := httptest.NewServer(p.as.Handler)
	t.Cleanup(server.Close)
	scaling := autoscaling.New(autoscaling.Options{Region: Region, BaseEndpoint: &server.URL, Credentials: credentials.NewStaticCredentialsProvider(accessKey, secretKey, "")})
	root := []types.LaunchTemplateBlockDeviceMappingRequest{{DeviceName: aws.String("/dev/sda1"), Ebs: &types.LaunchTemplateEbsBlockDeviceRequest{VolumeSize: aws.Int32(40)}}}
	script := func(text string) *types.RequestLaunchTemplateData {
		return &types.RequestLaunchTemplateData{ImageId: aws.String("ami-0"), InstanceType: types.InstanceTypeT3Medium, BlockDeviceMappings: root, UserData: aws.String(base64.StdEncoding.EncodeToString([]byte("#!/bin/sh\necho " + text)))}
	}
	made, err := p.clients.EC2.CreateLaunchTemplate(t.Context(), &ec2.CreateLaunchTemplateInput{LaunchTemplateName: aws.String("nodes.c"), LaunchTemplateData: script("one")})
	p.ok(err)
	id := made.LaunchTemplate.LaunchTemplateId
	of := func(version string) *scalingtypes.LaunchTemplateSpecification {
		return &scalingtypes.LaunchTemplateSpecification{LaunchTemplateId: id, Version: &version}
	}
	group := aws.String("nodes.c")
	_, err = scaling.CreateAutoScalingGroup(t.Context(), &autoscaling.CreateAutoScalingGroupInput{AutoScalingGroupName: group, MinSize: aws.Int32(1), MaxSize: aws.Int32(2), DesiredCapacity: aws.Int32(1),
		VPCZoneIdentifier: &p.subnets[0], LaunchTemplate: of("1")})
	p.ok(err)
	_, err = scaling.PutWarmPool(t.Context(), &autoscaling.PutWarmPoolInput{AutoScalingGroupName: group})
	p.ok(err)
	pass := func() {
		t.Helper()
		for range 3 { // to create, to observe and to complete the instances
			p.ok(p.sync(t.Context()))
		}
	}
	versions := func() (running, spares map[string]string) {
		t.Helper()
		pass()
		running, spares = map[string]string{}, map[string]string{}
		g, err := scaling.DescribeAutoScalingGroups(t.Context(), &autoscaling.DescribeAutoScalingGroupsInput{})
		p.ok(err)
		for _, i := range g.AutoScalingGroups[0].Instances {
			running[*i.InstanceId] = *i.LaunchTemplate.Version
		}
		w, err := scaling.DescribeWarmPool(t.Context(), &autoscaling.DescribeWarmPoolInput{AutoScalingGroupName: group})
		p.ok(err)
		for _, i := range w.Instances {
			if spares[*i.InstanceId] = *i.LaunchTemplate.Version; i.LifecycleState != scalingtypes.LifecycleStateWarmedStopped || *i.LaunchTemplate.LaunchTemplateId != *id {
				t.Errorf("a spare is %+v", i)
			}
		}
		return running, spares
	}
	all := func(m map[string]string) (out []string) {
		for _, v := range m {
			out = append(out, v)
		}
		slices.Sort(out)
		return out
	}
	running, spares := versions()
	if !slices.Equal(all(running), []string{"1"}) || !slices.Equal(all(spares), []string{"1"}) || len(p.host.Machines) != 1 {
		t.Fatalf("at first there are %v and in reserve %v; machines are %v", running, spares, p.host.Machines)
	}
	old := ""
	for old = range running {
	}

	_, err = p.clients.EC2.CreateLaunchTemplateVersion(t.Context(), &ec2.CreateLaunchTemplateVersionInput{LaunchTemplateId: id, LaunchTemplateData: script("two")})
	p.ok(err)
	_, err = p.clients.EC2.ModifyLaunchTemplate(t.Context(), &ec2.ModifyLaunchTemplateInput{LaunchTemplateId: id, DefaultVersion: aws.String("2")})
	p.ok(err)
	_, err = scaling.UpdateAutoScalingGroup(t.Context(), &autoscaling.UpdateAutoScalingGroupInput{AutoScalingGroupName: group, LaunchTemplate: of("2")})
	p.ok(err)
	if now, reserve := versions(); !slices.Equal(all(now), []string{"1"}) || !slices.Equal(all(reserve), []string{"1"}) {
		t.Errorf("after an update there are %v and %v", now, reserve)
	}
	_, err = scaling.DetachInstances(t.Context(), &autoscaling.DetachInstancesInput{AutoScalingGroupName: group, InstanceIds: []string{old}, ShouldDecrementDesiredCapacity: aws.Bool(false)})
	p.ok(err)
	for spare := range spares {
		_, err = p.clients.EC2.TerminateInstances(t.Context(), &ec2.TerminateInstancesInput{InstanceIds: []string{spare}})
		p.ok(err)
	}
	now, reserve := versions()
	if !slices.Equal(all(now), []string{"2"}) || !slices.Equal(all(reserve), []string{"2"}) {
		t.Errorf("after the roll there are %v and %v", now, reserve)
	}
	for fresh := range now {
		if p.host.Machines[fresh].UserData != "#!/bin/sh\necho two" || p.host.Machines[old].UserData != "#!/bin/sh\necho one" || len(p.host.Machines) != 2 {
			t.Errorf("the machines are %+v", p.host.Machines)
		}
	}

	_, err = p.clients.EC2.TerminateInstances(t.Context(), &ec2.TerminateInstancesInput{InstanceIds: []string{old}})
	p.ok(err)
	if versions(); len(p.host.Machines) != 1 || p.host.Machines[old].Name != "" {
		t.Errorf("after the end of the instance that was detached, the machines are %+v", p.host.Machines)
	}

	_, err = scaling.DeleteWarmPool(t.Context(), &autoscaling.DeleteWarmPoolInput{AutoScalingGroupName: group})
	p.ok(err)
	if _, reserve := versions(); len(reserve) != 0 {
		t.Errorf("without a pool there are %v", reserve)
	}
}
