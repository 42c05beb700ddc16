package aws_test

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"testing"

	sdk "github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/ec2"

	"kops.local/kops/api"
	"kops.local/kops/internal/platform"
	"kops.local/kops/internal/platform/aws"
	"kops.local/kops/internal/platform/aws/awstest"
	"kops.local/kops/internal/platform/aws/kinds"
)

// quotas starts a proxy in front of the emulator, which does not implement quotas, and returns its
// URL. The proxy answers with the value of each code; other codes are denied.
func quotas(t *testing.T, emulator string, values map[string]int) string {
	t.Helper()
	behind, err := url.Parse(emulator)
	if err != nil {
		t.Fatal(err)
	}
	proxy := httputil.NewSingleHostReverseProxy(behind)
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("X-Amz-Target") != "ServiceQuotasV20190624.GetServiceQuota" {
			proxy.ServeHTTP(w, r)
			return
		}
		body, _ := io.ReadAll(r.Body)
		for code, value := range values {
			if strings.Contains(string(body), `"`+code+`"`) && strings.Contains(string(body), `"ec2"`) {
				fmt.Fprintf(w, `{"Quota":{"QuotaCode":%q,"Value":%d.0}}`, code, value)
				return
			}
		}
		w.WriteHeader(http.StatusBadRequest)
		fmt.Fprint(w, `{"__type":"AccessDeniedException","message":"no"}`)
	}))
	t.Cleanup(s.Close)
	return s.URL
}

func TestRoomIsWhatQuotasOnCPUsLeave(t *testing.T) {
	server := awstest.Moto(t)
	p := aws.Provider(aws.Options{Endpoint: quotas(t, server.URL, map[string]int{"L-1216C47A": 9, "L-34B43A08": 5}), Region: server.Region,
		Credentials: credentials.NewStaticCredentialsProvider(server.AccessKey, server.SecretKey, "")})
	s, err := p.Connect(t.Context(), platform.Config{})
	if err != nil {
		t.Fatal(err)
	}
	image := sdk.String("ami-12c6146b")
	if _, err := s.Client.(*kinds.Client).EC2.RunInstances(t.Context(), &ec2.RunInstancesInput{ImageId: image, InstanceType: "t3.medium", MinCount: sdk.Int32(2), MaxCount: sdk.Int32(2)}); err != nil {
		t.Fatal(err)
	}
	group := func(name, machine string, more func(*api.InstanceGroupSpec)) *api.InstanceGroup {
		g := &api.InstanceGroup{Spec: api.InstanceGroupSpec{MachineType: machine}}
		g.Name = name
		if more != nil {
			more(&g.Spec)
		}
		return g
	}
	got, err := p.Fleet.Room(t.Context(), s, &api.Cluster{}, []*api.InstanceGroup{
		group("plain", "t3.medium", nil),
		group("spot", "m5.large", func(s *api.InstanceGroupSpec) { s.MaxPrice = sdk.String("0.1") }),
		group("unknown", "p3.2xlarge", nil), // the quota cannot be read
		group("mixed", "t3.medium", func(s *api.InstanceGroupSpec) { s.MixedInstancesPolicy = &api.MixedInstancesPolicySpec{} }),
	})
	if err != nil || len(got) != 2 {
		t.Fatalf("%+v, %v", got, err)
	}
	if r := got[0]; r.Group != "plain" || r.Machines != 2 || !strings.Contains(r.Why, "leaves 5 vCPUs, but a t3.medium has 2") || !strings.Contains(r.Remedy, "L-1216C47A") {
		t.Errorf("%+v", r)
	}
	if r := got[1]; r.Group != "spot" || r.Machines != 2 {
		t.Errorf("%+v", r)
	}
}
