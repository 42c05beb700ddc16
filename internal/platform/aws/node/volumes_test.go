package node

import (
	"maps"
	"strings"
	"testing"

	"kops.local/kops/internal/engine/fault"
	"kops.local/kops/internal/node/etcd/volume"
	"kops.local/kops/internal/platform/aws/awsquery"
	"kops.local/kops/internal/platform/aws/awstest"
	"kops.local/kops/internal/platform/aws/node/ec2/ec2test"
)

func TestTheDisksOfEtcd(t *testing.T) {
	server := awstest.Moto(t)
	answers := ec2test.Role(t, "masters", awsquery.Credentials{ID: "of-the-role", Secret: "s"})
	env := map[string]string{endpoint: server.URL, metadata: ec2test.Serve(t, answers)}
	r := volume.Request{Cluster: "etcd", Tags: []string{"k8s.io/etcd/main"}, NameTag: "k8s.io/etcd/main", Port: "3996"}
	source := newVolumes(world(env), r)
	if _, err := source.Disk(t.Context()); !fault.Is(err, fault.NotYet) || !strings.Contains(err.Error(), "identify this machine") {
		t.Errorf("a machine that is not told who it is: %v", err)
	}
	maps.Copy(answers, map[string]string{"instance-id": "i-1", "placement/region": "us-east-1", "placement/availability-zone": "us-east-1a"})
	if _, err := source.Disk(t.Context()); !fault.Is(err, fault.NotYet) || !strings.Contains(err.Error(), "no volume of this etcd cluster") {
		t.Errorf("an account without volumes: %v", err)
	}
	if all, err := source.Discover(t.Context()); err != nil || len(all) > 0 {
		t.Errorf("other managers are %v, %v", all, err)
	}

	for _, want := range []string{"of-the-role", "of-the-environment"} {
		v, err := connectVolumes(t.Context(), world(env), r)
		if err != nil {
			t.Fatal(err)
		}
		if c, err := v.API.Credentials(t.Context()); err != nil || c.ID != want {
			t.Errorf("credentials %s, %v, want %s", c.ID, err, want)
		}
		env["AWS_ACCESS_KEY_ID"], env["AWS_SECRET_ACCESS_KEY"] = "of-the-environment", "s"
	}
}
