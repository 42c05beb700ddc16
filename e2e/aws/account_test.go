package aws

import (
	"slices"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"
	"github.com/aws/aws-sdk-go-v2/service/route53"
	r53types "github.com/aws/aws-sdk-go-v2/service/route53/types"

	"kops.local/kops/internal/platform/aws/awsapi"
	"kops.local/kops/internal/platform/aws/awstest"
	"kops.local/kops/internal/store"
	"kops.local/kops/internal/store/s3"
	"kops.local/kops/internal/test/cloudsuite"
)

// account is an account at an emulator.
type account struct {
	*awstest.Server
	api   *awsapi.Clients // bypasses the proxy
	store store.Store
}

// of returns the account of a world.
func of(w *cloudsuite.World) *account { return w.Own.(*account) }

// open resets the server, which tests share, and creates the state store, and two zones.
func open(t testing.TB, server *awstest.Server) cloudsuite.Account {
	server.Reset(t)
	server.Bucket(t, bucket)
	a := &account{Server: server, store: openBucket(t, server)}
	var err error
	if a.api, err = awsapi.Connect(t.Context(), awsapi.Config{Region: region, Endpoint: server.URL, Credentials: server.AWS().Credentials}); err != nil {
		t.Fatal(err)
	}
	a.createZones(t)
	p := awstest.Proxy(t, server.URL)
	return cloudsuite.Account{Proxy: p, Store: a.store, Objects: func() []string { return a.inventory(t) }, Own: a, Env: map[string]string{
		"KOPS_STATE_STORE": "s3://" + bucket,
		"AWS_ENDPOINT_URL": p.URL, "AWS_REGION": region,
		"AWS_ACCESS_KEY_ID": server.AccessKey, "AWS_SECRET_ACCESS_KEY": server.SecretKey,
		"KOPS_STATE_S3_WITHOUT_LOCKS": "true", // it stands in for Amazon's, which need not prove that it supports conditions
		"S3_ENDPOINT":                 p.URL, "S3_REGION": region,
		"S3_ACCESS_KEY_ID": server.AccessKey, "S3_SECRET_ACCESS_KEY": server.SecretKey,
	}}
}

func openBucket(t testing.TB, server *awstest.Server) store.Store {
	t.Helper()
	s, err := store.Backends{s3.Backend(server.S3())}.Open(t.Context(), "s3://"+bucket)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// createZones creates a public and a private hosted zone.
func (a *account) createZones(t testing.TB) {
	t.Helper()
	vpcs, err := a.api.EC2.DescribeVpcs(t.Context(), &ec2.DescribeVpcsInput{})
	if err != nil || len(vpcs.Vpcs) == 0 {
		t.Fatal("the account has no VPC", err)
	}
	for _, in := range []*route53.CreateHostedZoneInput{
		{Name: new("example.com"), CallerReference: new("1")},
		{Name: new("example.com"), CallerReference: new("2"), HostedZoneConfig: &r53types.HostedZoneConfig{PrivateZone: true},
			VPC: &r53types.VPC{VPCId: vpcs.Vpcs[0].VpcId, VPCRegion: r53types.VPCRegion(region)}},
	} {
		if _, err := a.api.Route53.CreateHostedZone(t.Context(), in); err != nil {
			t.Fatal(err)
		}
	}
}

// withoutNames removes identities, which differ from run to run.
func withoutNames(inventory []string) []string {
	out := make([]string, len(inventory))
	for i, s := range inventory {
		out[i], _, _ = strings.Cut(s, ":")
	}
	return out
}

// changed checks what changes have done.
func changed() map[string]func(*cloudsuite.World) {
	return map[string]func(*cloudsuite.World){
		"who may come in": func(w *cloudsuite.World) {
			rules, err := of(w).api.EC2.DescribeSecurityGroupRules(w.Context(), &ec2.DescribeSecurityGroupRulesInput{})
			if err != nil || !slices.ContainsFunc(rules.SecurityGroupRules, func(r ec2types.SecurityGroupRule) bool {
				return aws.ToString(r.CidrIpv4) == "192.0.2.0/24" && aws.ToInt32(r.FromPort) == 22
			}) {
				w.Errorf("SSH is not let in: %+v, %v", rules, err)
			}
		},
		"larger disks of etcd": func(w *cloudsuite.World) {
			disks, err := of(w).api.EC2.DescribeVolumes(w.Context(), &ec2.DescribeVolumesInput{Filters: []ec2types.Filter{{Name: new("tag:Name"), Values: []string{"a.etcd-main." + name}}}})
			if err != nil || len(disks.Volumes) != 1 || aws.ToInt32(disks.Volumes[0].Size) != 30 {
				w.Errorf("the disk of etcd is %+v, %v, want 30 GiB", disks, err)
			}
		},
	}
}

// block creates a subnet in the cluster's VPC.
func block(w *cloudsuite.World) (subnet string, remove func()) {
	w.Helper()
	c := of(w).api.EC2
	vpcs, err := c.DescribeVpcs(w.Context(), &ec2.DescribeVpcsInput{Filters: []ec2types.Filter{{Name: new("tag:KubernetesCluster"), Values: []string{name}}}})
	if err != nil || len(vpcs.Vpcs) != 1 {
		w.Fatal(vpcs, err)
	}
	subnet = createSubnet(w, *vpcs.Vpcs[0].VpcId, "172.20.255.0/24")
	return subnet, func() {
		if _, err := c.DeleteSubnet(w.Context(), &ec2.DeleteSubnetInput{SubnetId: &subnet}); err != nil {
			w.Fatal(err)
		}
	}
}

// outdate makes the emulator, which reports the current default version for all instances, report that
// they were created from the first version of their launch template.
func outdate(w *cloudsuite.World) {
	w.Helper()
	api := of(w).api.EC2
	out, err := api.DescribeLaunchTemplates(w.Context(), &ec2.DescribeLaunchTemplatesInput{MaxResults: aws.Int32(200)})
	if err != nil {
		w.Fatal(err)
	}
	for _, l := range out.LaunchTemplates {
		if _, err := api.ModifyLaunchTemplate(w.Context(), &ec2.ModifyLaunchTemplateInput{LaunchTemplateId: l.LaunchTemplateId, DefaultVersion: aws.String("1")}); err != nil {
			w.Fatal(err)
		}
	}
}
