package ec2_test

import (
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	awsec2 "github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"kops.local/kops/internal/engine/fault"
	"kops.local/kops/internal/platform/aws/awsquery"
	"kops.local/kops/internal/platform/aws/awstest"
	"kops.local/kops/internal/platform/aws/node/ec2"
	"kops.local/kops/internal/platform/aws/node/ec2/ec2test"
)

var role = awsquery.Credentials{ID: "id", Secret: "secret", Token: "token"}

func metadata(t *testing.T, answers map[string]string) ec2.Metadata {
	t.Helper()
	return ec2.Metadata{HTTP: http.DefaultClient, Endpoint: ec2test.Serve(t, answers)}
}

func TestCredentialsOfTheRole(t *testing.T) {
	answers := ec2test.Role(t, "nodes.c", role)
	answers["instance-id"] = "i-1"
	m := metadata(t, answers)
	got, err := m.Credentials(t.Context())
	if err != nil || got != role {
		t.Errorf("got %v", err)
	}
	s, err := m.Session(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for key, want := range map[string]string{"instance-id": "i-1", "ipv6": ""} {
		if got, err := s.Get(t.Context(), key); err != nil || got != want {
			t.Errorf("%s: got %q, %v", key, got, err)
		}
	}
	for says, answers := range map[string]map[string]string{
		"has no role":                        {},
		"read the credentials of the role r": {"iam/security-credentials/": "r", "iam/security-credentials/r": "<html>"},
		"Failed why":                         {"iam/security-credentials/": "r", "iam/security-credentials/r": `{"Code":"Failed","Message":"why"}`},
	} {
		if _, err := metadata(t, answers).Credentials(t.Context()); !fault.Is(err, fault.NotYet) || !strings.Contains(err.Error(), says) {
			t.Errorf("got %v, want %s", err, says)
		}
	}
	if _, err := (ec2.Metadata{HTTP: http.DefaultClient, Endpoint: "http://127.0.0.1:1"}).Credentials(t.Context()); !fault.Is(err, fault.NotYet) {
		t.Errorf("got %v", err)
	}
}

func api(t *testing.T, endpoint string) ec2.API {
	t.Helper()
	return ec2.API{Metadata: metadata(t, ec2test.Role(t, "r", role)), HTTP: http.DefaultClient,
		Region: "us-east-1", Endpoint: endpoint, Now: time.Now}
}

func TestAddressesOfAMachineType(t *testing.T) {
	server := awstest.Moto(t)
	out, err := awsec2.NewFromConfig(server.AWS()).DescribeInstanceTypes(t.Context(), &awsec2.DescribeInstanceTypesInput{InstanceTypes: []types.InstanceType{"m5.large"}})
	if err != nil {
		t.Fatal(err)
	}
	n := out.InstanceTypes[0].NetworkInfo
	want := int(*n.MaximumNetworkInterfaces)*(int(*n.Ipv4AddressesPerInterface)-1) + 2
	if got, err := api(t, server.URL).PodAddresses(t.Context(), "m5.large"); err != nil || got != want || got < 10 {
		t.Errorf("got %d, %v, want %d", got, err, want)
	}
	var said *awsquery.Error
	if _, err := api(t, server.URL).PodAddresses(t.Context(), "x0.none"); !errors.As(err, &said) || said.Code != "InvalidInstanceType" {
		t.Errorf("got %v", err)
	}
}

func TestContinuing(t *testing.T) {
	status, answer := http.StatusOK, "<CompleteLifecycleActionResponse><CompleteLifecycleActionResult/></CompleteLifecycleActionResponse>"
	var form, auth string
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		form, auth = string(body), r.Header.Get("Authorization")
		w.WriteHeader(status)
		_, _ = io.WriteString(w, answer) // the test fails anyway
	}))
	defer s.Close()
	a := api(t, s.URL)
	if err := a.Continue(t.Context(), "nodes.c", "i-1"); err != nil {
		t.Fatal(err)
	}
	const want = "Action=CompleteLifecycleAction&AutoScalingGroupName=nodes.c&InstanceId=i-1&LifecycleActionResult=CONTINUE&LifecycleHookName=kops-warmpool&Version=2011-01-01"
	if form != want || !strings.Contains(auth, "/us-east-1/autoscaling/aws4_request") {
		t.Errorf("sent %s\nsigned %s", form, auth)
	}
	for _, c := range []struct {
		status       int
		answer, code string
		class        fault.Class
	}{
		{400, "<ErrorResponse><Error><Code>ValidationError</Code><Message>No active Lifecycle Action</Message></Error></ErrorResponse>", "ValidationError", fault.Permanent},
		{403, "<ErrorResponse><Error><Code>AccessDenied</Code><Message>no</Message></Error></ErrorResponse>", "AccessDenied", fault.Denied},
		{403, "<Response><Errors><Error><Code>UnauthorizedOperation</Code><Message>no</Message></Error></Errors></Response>", "UnauthorizedOperation", fault.Denied},
		{400, "<ErrorResponse><Error><Code>Throttling</Code><Message>Rate exceeded</Message></Error></ErrorResponse>", "Throttling", fault.Throttled},
		{401, "<Response><Errors><Error><Code>AuthFailure</Code><Message>not yet known</Message></Error></Errors></Response>", "AuthFailure", fault.NotYet},
		{503, "", "503 Service Unavailable", fault.NotYet},
		{200, "not XML", "", fault.NotYet},
	} {
		status, answer = c.status, c.answer
		var said *awsquery.Error
		if err := a.Continue(t.Context(), "nodes.c", "i-1"); !fault.Is(err, c.class) || c.code != "" && (!errors.As(err, &said) || said.Code != c.code) {
			t.Errorf("%d %s: %v", c.status, c.answer, err)
		}
	}
}
