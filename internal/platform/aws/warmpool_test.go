package aws_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/credentials"

	"kops.local/kops/api"
	"kops.local/kops/internal/engine/fault"
	"kops.local/kops/internal/platform"
	"kops.local/kops/internal/platform/aws"
)

// quota is the reason that AWS gives for not starting an instance.
const quota = "You have requested more vCPU capacity than your current vCPU limit of 4 allows. Launching EC2 instance failed."

// serveWarmPool answers as AWS does for a group with a warm pool, where the emulator has no instances: the
// group does not list its pool's instances.
func serveWarmPool(w http.ResponseWriter, r *http.Request) {
	answer := func(action, namespace, body string) {
		_, _ = fmt.Fprintf(w, `<%[1]sResponse xmlns=%[2]q>%[3]s</%[1]sResponse>`, action, namespace, body) // the test fails anyway
	}
	scaling := func(body string) {
		a := r.FormValue("Action")
		answer(a, "http://autoscaling.amazonaws.com/doc/2011-01-01/", "<"+a+"Result>"+body+"</"+a+"Result>")
	}
	member := func(id, state string) string {
		return "<member><InstanceId>" + id + "</InstanceId><LifecycleState>" + state + "</LifecycleState></member>"
	}
	switch action := r.FormValue("Action"); {
	case action == "DescribeAutoScalingGroups":
		tags := "<Tags><member><Key>" + api.LabelInstanceGroup + "</Key><Value>nodes</Value></member></Tags>"
		scaling("<AutoScalingGroups><member><AutoScalingGroupName>nodes.k</AutoScalingGroupName><DesiredCapacity>2</DesiredCapacity>" + tags +
			"<Instances>" + member("i-1", "InService") + member("i-2", "Terminating:Wait") + "</Instances><WarmPoolConfiguration><MinSize>1</MinSize></WarmPoolConfiguration></member>" +
			"<member><AutoScalingGroupName>cp.k</AutoScalingGroupName><DesiredCapacity>1</DesiredCapacity><Instances>" + member("i-5", "InService") + "</Instances></member></AutoScalingGroups>")
	case action == "DescribeScalingActivities" && r.FormValue("AutoScalingGroupName") == "nodes.k": // it is one short, because one is terminating
		activity := func(status, message string) string {
			return "<member><StatusCode>" + status + "</StatusCode><StatusMessage>" + message + "</StatusMessage></member>"
		}
		scaling("<Activities>" + activity("PreInService", "") + activity("Failed", quota) + activity("Successful", "") + activity("Failed", "long ago") + "</Activities>")
	case action == "DescribeWarmPool" && r.FormValue("AutoScalingGroupName") != "nodes.k":
		w.WriteHeader(http.StatusForbidden)
		_, _ = w.Write([]byte("<ErrorResponse><Error><Code>AccessDenied</Code><Message>not this one</Message></Error></ErrorResponse>")) // the test fails anyway
	case action == "DescribeWarmPool" && r.FormValue("NextToken") == "":
		scaling("<Instances>" + member("i-3", "Warmed:Stopped") + "</Instances><NextToken>more</NextToken>")
	case action == "DescribeWarmPool":
		scaling("<Instances>" + member("i-4", "Warmed:Terminating:Wait") + "</Instances>")
	case action == "DescribeInstances":
		var body strings.Builder
		for n := 1; n <= 5; n++ {
			fmt.Fprintf(&body, "<item><instanceId>i-%d</instanceId><instanceState><name>running</name></instanceState></item>", n)
		}
		answer(action, "http://ec2.amazonaws.com/doc/2016-11-15/", "<reservationSet><item><instancesSet>"+body.String()+"</instancesSet></item></reservationSet>")
	default:
		w.WriteHeader(http.StatusNotFound)
	}
}

func TestMachinesOfAWarmPool(t *testing.T) {
	deny := false
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if deny && r.FormValue("Action") == "DescribeWarmPool" {
			r.Form.Set("AutoScalingGroupName", "denied")
		}
		serveWarmPool(w, r)
	}))
	t.Cleanup(server.Close)
	p := aws.Provider(aws.Options{Endpoint: server.URL, Region: "eu-west-1", Credentials: credentials.NewStaticCredentialsProvider("id", "secret", "")})
	s, err := p.Connect(t.Context(), platform.Config{})
	if err != nil {
		t.Fatal(err)
	}
	groups, err := p.Fleet.Machines(t.Context(), s, &api.Cluster{}, nil)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, g := range groups {
		if want := map[string]string{"nodes": quota}[g.Name]; g.Trouble != want {
			t.Errorf("in the way of the group %q is %q, want %q", g.Name, g.Trouble, want)
		}
		for _, m := range g.Machines {
			got = append(got, fmt.Sprintf("%s %s spare=%t detached=%t", m.Name, m.State, m.Spare, m.Detached))
		}
	}
	want := `i-1 running spare=false detached=false
i-2 Terminating:Wait spare=false detached=true
i-3 Warmed:Stopped spare=true detached=false
i-4 Warmed:Terminating:Wait spare=true detached=false
i-5 running spare=false detached=false`
	if all := strings.Join(got, "\n"); all != want {
		t.Errorf("got\n%s\nwant\n%s", all, want)
	}

	deny = true
	if _, err := p.Fleet.Machines(t.Context(), s, &api.Cluster{}, nil); !fault.Is(err, fault.Denied) || !strings.Contains(fault.Remedy(err), "autoscaling:DescribeWarmPool") {
		t.Errorf("a caller who may not ask: %v (%s)", err, fault.Remedy(err))
	}
}
