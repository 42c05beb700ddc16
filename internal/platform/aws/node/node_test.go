package node

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sts"

	"kops.local/kops/internal/engine/fault"
	"kops.local/kops/internal/node/bootstrap"
	"kops.local/kops/internal/platform/aws/awsquery"
	"kops.local/kops/internal/platform/aws/awssts"
	"kops.local/kops/internal/platform/aws/awstest"
	"kops.local/kops/internal/platform/aws/node/ec2/ec2test"
	"kops.local/kops/internal/platform/onmachine"
)

// world returns the world of a machine with an environment.
func world(env map[string]string) onmachine.World {
	return onmachine.World{Env: func(name string) string { return env[name] }, HTTP: http.DefaultClient, Direct: http.DefaultClient, Now: time.Now}
}

// newWorld returns the world of a machine whose metadata service has credentials, and whose AWS
// endpoint is url.
func newWorld(t *testing.T, c awsquery.Credentials, url string) onmachine.World {
	t.Helper()
	return world(map[string]string{region: "us-east-1", endpoint: url, metadata: ec2test.Serve(t, ec2test.Role(t, "nodes", c)) + "/"})
}

type anyInstance struct{}

func (anyInstance) Instance(_ context.Context, id string) (awssts.Instance, error) {
	return awssts.Instance{NodeName: id, Group: "nodes"}, nil
}

func TestAMachineOfAWSProvesItself(t *testing.T) {
	server := awstest.Moto(t)
	const id = "i-0123456789abcdef0"
	out, err := sts.NewFromConfig(server.AWS()).AssumeRole(t.Context(), &sts.AssumeRoleInput{RoleArn: aws.String("arn:aws:iam::123456789012:role/nodes.c"), RoleSessionName: aws.String(id)})
	if err != nil {
		t.Fatal(err)
	}
	c := out.Credentials
	w := newWorld(t, awsquery.Credentials{ID: *c.AccessKeyId, Secret: *c.SecretAccessKey, Token: *c.SessionToken}, server.URL)
	if got, err := credentials(t.Context(), w); err != nil || got.ID != *c.AccessKeyId || got.Token != *c.SessionToken {
		t.Errorf("credentials %v", err)
	}
	p, err := newProver(w)
	if err != nil {
		t.Fatal(err)
	}
	token, err := p.Prove(t.Context(), []byte("body"))
	if err != nil {
		t.Fatal(err)
	}
	v := awssts.Verifier{Endpoint: server.URL, HTTP: http.DefaultClient, Account: "123456789012", Partition: "aws", Roles: []string{"nodes.c"}, Instances: anyInstance{}, Now: time.Now}
	if got, err := v.Verify(t.Context(), bootstrap.Proof{Token: token, Body: []byte("body")}); err != nil || got.NodeName != id {
		t.Errorf("got %+v, %v", got, err)
	}
	if _, err := newProver(world(nil)); err == nil || !strings.Contains(err.Error(), "AWS_REGION") {
		t.Errorf("without a region: %v", err)
	}
}

func TestTheLaunchIsCompleted(t *testing.T) {
	sent, status := "", http.StatusOK
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		sent = string(body)
		w.WriteHeader(status)
		_, _ = io.WriteString(w, "<R><Error><Code>ValidationError</Code><Message>No active Lifecycle Action found</Message></Error></R>") // the test fails anyway
	}))
	defer server.Close()
	w := newWorld(t, awsquery.Credentials{ID: "id", Secret: "secret"}, server.URL)
	f := onmachine.Facts{Waiting: "nodes.c", ProviderID: "aws:///us-east-1a/i-1"}
	if err := completeLaunch(t.Context(), w, f); err != nil || !strings.Contains(sent, "AutoScalingGroupName=nodes.c&InstanceId=i-1&") {
		t.Errorf("told %q, %v", sent, err)
	}
	status = http.StatusBadRequest
	if err := completeLaunch(t.Context(), w, f); err != nil {
		t.Errorf("a machine that nobody waits for: %v", err)
	}
	f.Warming = true
	if err := completeLaunch(t.Context(), w, f); !fault.Is(err, fault.Permanent) {
		t.Errorf("a machine that is prepared, and that nobody waits for: %v", err)
	}
}
