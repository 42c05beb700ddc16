package pages

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
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
	var images []map[string]any
	for i, image := range stable.Images(api.CloudAWS) {
		owner, name, _ := strings.Cut(image, "/")
		arch := "x86_64"
		if strings.Contains(name, "arm64") {
			arch = "arm64"
		}
		images = append(images, map[string]any{"ami_id": fmt.Sprintf("ami-%08x", i+1), "name": name, "owner_id": owner, "description": name, "architecture": arch, "state": "available",
			"public": true, "image_type": "machine", "hypervisor": "xen", "virtualization_type": "hvm", "root_device_name": "/dev/sda1", "root_device_type": "ebs", "sriov": "simple"})
	}
	text, err := json.Marshal(images)
	file := filepath.Join(t.TempDir(), "images.json")
	if err := errors.Join(err, os.WriteFile(file, text, 0o600)); err != nil {
		t.Fatal(err)
	}
	t.Setenv("MOTO_AMIS_PATH", file)
	return awstest.Moto(t)
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
