package aws_test

import (
	"testing"

	"kops.local/kops/api"
	"kops.local/kops/internal/platform/aws"
	awsspec "kops.local/kops/internal/platform/aws/spec"
)

func TestRegionsOfZones(t *testing.T) {
	n := awsspec.Platform().Network
	for zone, want := range map[string]string{
		"us-east-1c": "us-east-1", "ap-southeast-2a": "ap-southeast-2", "cn-north-1b": "cn-north-1", "us-gov-west-1b": "us-gov-west-1",
		"us-west-2-lax-1a": "us-west-2", "us-east-1-wl1-bos-wlz-1": "", "us-east-1": "", "": "",
	} {
		if got := n.Region(zone); got != want {
			t.Errorf("zone %q is in region %q, want %q", zone, got, want)
		}
	}
}

func TestAClusterIsInOneRegion(t *testing.T) {
	p := aws.Provider(aws.Options{Region: "eu-central-1"})
	c := &api.Cluster{}
	for _, step := range []struct {
		subnet      api.ClusterSubnetSpec
		want, wrong string
	}{
		{api.ClusterSubnetSpec{Name: "a", Zone: "us-east-1-wl1-bos-wlz-1"}, "eu-central-1", ""},
		{api.ClusterSubnetSpec{Name: "b", Zone: "us-east-1a"}, "us-east-1", ""},
		{api.ClusterSubnetSpec{Name: "c", Region: "us-east-1"}, "us-east-1", ""},
		{api.ClusterSubnetSpec{Name: "d", Zone: "us-gov-west-1a"}, "", "subnet d is in region us-gov-west-1, but others are in us-east-1; all subnets of a cluster must be in one region"},
	} {
		c.Spec.Networking.Subnets = append(c.Spec.Networking.Subnets, step.subnet)
		got, err := p.Lookup.Region(c)
		if got != step.want || (err == nil) != (step.wrong == "") || err != nil && err.Error() != step.wrong {
			t.Errorf("with subnet %s the region is %q, %v", step.subnet.Name, got, err)
		}
	}
}
