package awscloud_test

import (
	"testing"

	"kops.local/kops/internal/platform/aws/awscloud"
)

func TestScalingGroup(t *testing.T) {
	for role, want := range map[string]string{"ControlPlane": "g.masters.c.example.com", "APIServer": "g.apiservers.c.example.com", "Node": "g.c.example.com", "Bastion": "g.c.example.com"} {
		if got := awscloud.ScalingGroup("g", role, "c.example.com"); got != want {
			t.Errorf("%s: %s, want %s", role, got, want)
		}
	}
}
