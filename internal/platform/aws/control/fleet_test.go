package control

import (
	"context"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/autoscaling"
	astypes "github.com/aws/aws-sdk-go-v2/service/autoscaling/types"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"kops.local/kops/api"
	"kops.local/kops/internal/node/controller"
	"kops.local/kops/internal/platform/aws/awscloud"
	"kops.local/kops/internal/platform/aws/awstest"
)

// TestAnInstanceIsReplacedByItsGroup checks that the cluster's machines
// are listed, that those outside an Auto Scaling group do not count as
// serving, and that a group replaces a terminated machine.
func TestAnInstanceIsReplacedByItsGroup(t *testing.T) {
	cfg := awstest.Moto(t).AWS()
	servers, groups := ec2.NewFromConfig(cfg), autoscaling.NewFromConfig(cfg)
	alone := runInstance(t, servers, awscloud.ClusterTag, "demo", api.LabelInstanceGroup, "nodes")
	runInstance(t, servers, awscloud.ClusterTag, "other", api.LabelInstanceGroup, "nodes")
	template, err := servers.CreateLaunchTemplate(t.Context(), &ec2.CreateLaunchTemplateInput{LaunchTemplateName: aws.String("nodes"),
		LaunchTemplateData: &types.RequestLaunchTemplateData{ImageId: aws.String("ami-12345678"), InstanceType: types.InstanceTypeT3Micro}})
	if err != nil {
		t.Fatal(err)
	}
	tag := func(k, v string) astypes.Tag {
		return astypes.Tag{Key: &k, Value: &v, PropagateAtLaunch: aws.Bool(true)}
	}
	_, err = groups.CreateAutoScalingGroup(t.Context(), &autoscaling.CreateAutoScalingGroupInput{AutoScalingGroupName: aws.String("nodes.demo"),
		MinSize: aws.Int32(1), MaxSize: aws.Int32(1), AvailabilityZones: []string{cfg.Region + "a"},
		LaunchTemplate: &astypes.LaunchTemplateSpecification{LaunchTemplateId: template.LaunchTemplate.LaunchTemplateId},
		Tags:           []astypes.Tag{tag(awscloud.ClusterTag, "demo"), tag(api.LabelInstanceGroup, "nodes")}})
	if err != nil {
		t.Fatal(err)
	}
	f := instanceFleet{instances: instances{api: servers, cluster: "demo", byAddress: func(context.Context, string) (bool, error) { return false, nil }}, ec2: servers, scaling: groups}
	list, err := f.List(t.Context())
	if err != nil || len(list) != 2 {
		t.Fatalf("the machines are %v, %v", list, err)
	}
	serving, err := f.Serving(t.Context(), list)
	if err != nil || len(serving) != 1 || serving[0].Name == aws.ToString(alone.InstanceId) || serving[0].Group != "nodes" || serving[0].Node != serving[0].Name {
		t.Fatalf("those in service are %+v, %v", serving, err)
	}
	if err := f.Replace(t.Context(), serving[0]); err != nil {
		t.Fatal(err)
	}
	left, err := f.List(t.Context())
	if err != nil || contains(left, serving[0].Name) {
		t.Errorf("after its replacement there are %v, %v", left, err)
	}
}

func contains(list []controller.FleetMachine, name string) bool {
	for _, m := range list {
		if m.Name == name {
			return true
		}
	}
	return false
}
