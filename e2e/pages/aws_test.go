package pages

import (
	"context"
	"testing"

	sdk "github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"kops.local/kops/api"
	"kops.local/kops/internal/platform/aws/awstest"
	"kops.local/kops/internal/spec/versions"
)

// newMoto starts an emulator of AWS that has only the images that kops uses by default.
func newMoto(t *testing.T) *awstest.Server {
	t.Helper()
	stable, _ := versions.Embedded(versions.Stable)
	return awstest.Moto(t, stable.Images(api.CloudAWS)...)
}

// instances lists the machines that an emulator of AWS runs for clusters.
func instances(server *awstest.Server) func(context.Context) ([]machine, error) {
	client := ec2.NewFromConfig(server.AWS())
	return func(ctx context.Context) ([]machine, error) {
		all, err := client.DescribeInstances(ctx, &ec2.DescribeInstancesInput{Filters: []ec2types.Filter{
			{Name: sdk.String("instance-state-name"), Values: []string{"running"}}, {Name: sdk.String("tag-key"), Values: []string{api.LabelInstanceGroup}},
		}})
		if err != nil {
			return nil, err
		}
		var out []machine
		for _, r := range all.Reservations {
			for _, i := range r.Instances {
				m := machine{name: *i.InstanceId, provider: "aws:///" + *i.Placement.AvailabilityZone + "/" + *i.InstanceId}
				for _, tag := range i.Tags {
					switch *tag.Key {
					case api.LabelInstanceGroup:
						m.group = *tag.Value
					case "k8s.io/role/control-plane":
						m.controlPlane = true
					}
				}
				out = append(out, m)
			}
		}
		return out, nil
	}
}
