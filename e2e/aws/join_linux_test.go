package aws

import (
	"io"
	"log"
	"net/http"
	"net/http/httputil"
	"net/url"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"
	"github.com/aws/aws-sdk-go-v2/service/sts"

	"kops.local/kops/internal/platform"
	"kops.local/kops/internal/platform/aws/awsquery"
	"kops.local/kops/internal/platform/aws/node/ec2/ec2test"
	"kops.local/kops/internal/test/cloudsuite"
	"kops.local/kops/internal/test/joinsuite"
)

func TestMachinesJoin(t *testing.T) {
	joinsuite.Run(t, func(t *testing.T) *joinsuite.Cloud {
		c := cloud(t)
		c.Open = withOwnStore(c.Open)
		return &joinsuite.Cloud{Cloud: c, Options: []string{"--dns", "none"},
			Owns: func(host string) bool { return strings.HasSuffix(host, ".amazonaws.com") },
			API:  serveAPI, Metadata: serveMetadata,
			Elsewhere:  func(at string) map[string]string { return map[string]string{"AWS_EC2_METADATA_SERVICE_ENDPOINT": at} },
			Script:     func(w *cloudsuite.World, m platform.Machine) string { return userData(w, m.Group) },
			Identify:   addProfile,
			Devices:    devices,
			ProviderID: func(m platform.Machine) string { return "aws:///" + m.Zone + "/" + m.Name },
		}
	})
}

// withOwnStore returns accounts whose state store is on AWS, and reached by the names of its hosts.
func withOwnStore(open func(testing.TB) cloudsuite.Account) func(testing.TB) cloudsuite.Account {
	return func(t testing.TB) cloudsuite.Account {
		a := open(t)
		for _, v := range []string{"S3_ENDPOINT", "S3_REGION", "S3_ACCESS_KEY_ID", "S3_SECRET_ACCESS_KEY"} {
			delete(a.Env, v)
		}
		return a
	}
}

// serveAPI serves AWS' APIs by the names of their hosts.
func serveAPI(w *cloudsuite.World) http.Handler {
	moto, err := url.Parse(of(w).URL)
	if err != nil {
		w.Fatal(err)
	}
	return &httputil.ReverseProxy{Rewrite: func(p *httputil.ProxyRequest) {
		p.SetURL(moto)
		p.Out.Host = strings.Replace(p.In.Host, ".s3.dualstack.", ".s3.", 1) // an alias
	}, ErrorLog: log.New(io.Discard, "", 0)}
}

// serveMetadata is the metadata service of an instance.
func serveMetadata(w *cloudsuite.World, m platform.Machine) http.Handler {
	w.Helper()
	role := "nodes." + name
	if m.Group == w.ControlPlane() {
		role = "masters." + name
	}
	assumed, err := sts.NewFromConfig(of(w).AWS()).AssumeRole(w.Context(), &sts.AssumeRoleInput{RoleArn: aws.String("arn:aws:iam::123456789012:role/" + role), RoleSessionName: &m.Name})
	if err != nil {
		w.Fatal(err)
	}
	found, err := of(w).api.EC2.DescribeInstances(w.Context(), &ec2.DescribeInstancesInput{InstanceIds: []string{m.Name}})
	if err != nil || len(found.Reservations) != 1 {
		w.Fatal(found, err)
	}
	i, c := found.Reservations[0].Instances[0], assumed.Credentials
	out := ec2test.Role(w, role, awsquery.Credentials{ID: *c.AccessKeyId, Secret: *c.SecretAccessKey, Token: *c.SessionToken})
	out["instance-id"], out["instance-type"], out["local-hostname"], out["local-ipv4"] = m.Name, string(i.InstanceType), aws.ToString(i.PrivateDnsName), aws.ToString(i.PrivateIpAddress)
	out["placement/availability-zone"], out["placement/region"] = m.Zone, region
	return ec2test.Handler(out)
}

// addProfile gives an instance the profile of its launch template, which moto forgets.
func addProfile(w *cloudsuite.World, m platform.Machine, _ string) {
	w.Helper()
	if _, err := of(w).api.EC2.AssociateIamInstanceProfile(w.Context(), &ec2.AssociateIamInstanceProfileInput{InstanceId: &m.Name,
		IamInstanceProfile: &ec2types.IamInstanceProfileSpecification{Name: aws.String("nodes." + name)}}); err != nil {
		w.Fatal(err)
	}
}

// devices returns where an instance sees its volumes.
func devices(w *cloudsuite.World, m platform.Machine) []string {
	w.Helper()
	found, err := of(w).api.EC2.DescribeVolumes(w.Context(), &ec2.DescribeVolumesInput{Filters: []ec2types.Filter{{Name: aws.String("attachment.instance-id"), Values: []string{m.Name}}}})
	if err != nil {
		w.Fatal(err)
	}
	var out []string
	for _, v := range found.Volumes {
		out = append(out, "/dev/disk/by-id/nvme-Amazon_Elastic_Block_Store_"+strings.ReplaceAll(*v.VolumeId, "-", ""))
	}
	return out
}
