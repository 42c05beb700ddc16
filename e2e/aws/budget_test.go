package aws

import (
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"

	"kops.local/kops/internal/platform/aws/awstest"
	"kops.local/kops/internal/test/clitest"
)

func (w *world) work() clitest.Work {
	return clitest.Work{Small: w.small, Large: w.large, Nameless: []string{"--dns", "none", "--discovery-store", "s3://" + bucket + "/discovery"}, // and an issuer
		Outdated: func() {
			w.reportOldTemplates()
			w.Proxy.Lag(2) // the responses were recorded before: the emulator's own time is not counted
		}}
}

func TestRequestBudgets(t *testing.T) {
	w := newWorld(t, awstest.Moto(t))
	w.CheckBudgets(w.work())
}

// BenchmarkRequests prints the table of requests and time at 50 ms latency.
func BenchmarkRequests(b *testing.B) {
	server := awstest.Moto(b)
	clitest.PrintTable(b, func() (*clitest.Proxied, clitest.Work) {
		w := newWorld(b, server)
		return w.Proxied, w.work()
	})
}

// reportOldTemplates makes the emulator, which reports the current default version for all instances,
// report that they were created from the first version of their launch template.
func (w *world) reportOldTemplates() {
	w.Helper()
	api := w.api().EC2
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
