package kinds

import (
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/credentials"

	"kops.local/kops/internal/engine/resource"
	"kops.local/kops/internal/platform/aws/awsapi"
)

// approver answers every request with success, for the services whose requests are forms, and records
// the requests. It is used for actions that moto does not implement.
type approver struct{ asked []url.Values }

func (y *approver) Do(q *http.Request) (*http.Response, error) {
	body, err := io.ReadAll(q.Body)
	if err != nil {
		return nil, err
	}
	form, err := url.ParseQuery(string(body))
	if err != nil {
		return nil, err
	}
	y.asked = append(y.asked, form)
	answer := fmt.Sprintf("<%[1]sResponse><%[1]sResult/></%[1]sResponse>", form.Get("Action"))
	return &http.Response{StatusCode: http.StatusOK, Body: io.NopCloser(strings.NewReader(answer)), Header: http.Header{}, Request: q}, nil
}

// brief returns, for each request, its action and the values of the parameters whose names have one
// of the prefixes.
func (y *approver) brief(prefixes ...string) []string {
	out := make([]string, len(y.asked))
	for i, form := range y.asked {
		words := []string{form.Get("Action")}
		for name := range form {
			if slices.ContainsFunc(prefixes, func(p string) bool { return strings.HasPrefix(name, p) }) {
				words = append(words, form.Get(name))
			}
		}
		slices.Sort(words[1:])
		out[i] = strings.Join(words, " ")
	}
	return out
}

func newApprovingClient(t *testing.T) (*Client, *approver) {
	t.Helper()
	y := &approver{}
	api, err := awsapi.Connect(t.Context(), awsapi.Config{Region: "us-east-1", Endpoint: "http://aws.test", HTTPClient: y,
		Credentials: credentials.NewStaticCredentialsProvider("a", "b", "")})
	if err != nil {
		t.Fatal(err)
	}
	return NewClient(*api), y
}

func expect(t *testing.T, got []string, want ...string) {
	t.Helper()
	if !slices.Equal(got, want) {
		t.Errorf("requests:\n  %s\nwant:\n  %s", strings.Join(got, "\n  "), strings.Join(want, "\n  "))
	}
}

// change applies the setters of the fields that differ.
func change[T any](t *testing.T, c *Client, k *resource.Kind[T, *Client], have, want *T) {
	t.Helper()
	e := k.Erase()
	if _, err := e.Set(t.Context(), c, have, want, e.Schema().Diff(want, have)); err != nil {
		t.Fatal(err)
	}
}

func TestAudiencesAreAddedBeforeOthersGo(t *testing.T) {
	c, y := newApprovingClient(t)
	change(t, c, &OIDCProviders, &OIDCProvider{ARN: "arn", ClientIDs: []string{"amazonaws.com", "old"}},
		&OIDCProvider{ARN: "arn", ClientIDs: []string{"sts.amazonaws.com", "amazonaws.com", "z"}})
	expect(t, y.brief("ClientID"), "AddClientIDToOpenIDConnectProvider sts.amazonaws.com", "AddClientIDToOpenIDConnectProvider z",
		"RemoveClientIDFromOpenIDConnectProvider old")
}

func TestGroupMetricsThatAreNotWantedAreDisabled(t *testing.T) {
	c, y := newApprovingClient(t)
	change(t, c, &AutoScalingGroups, &AutoScalingGroup{Name: "g", Metrics: []string{"A", "B"}, Granularity: "1Minute"},
		&AutoScalingGroup{Name: "g", Metrics: []string{"B", "C"}, Granularity: "1Minute"})
	change(t, c, &AutoScalingGroups, &AutoScalingGroup{Name: "g", Metrics: []string{"A"}, Granularity: "1Minute"}, &AutoScalingGroup{Name: "g"})
	expect(t, y.brief("Metrics", "Granularity"), "EnableMetricsCollection 1Minute B C", "DisableMetricsCollection A", "DisableMetricsCollection A")
}

func TestClassicLoadBalancersAreAttachedTenAtATime(t *testing.T) {
	c, y := newApprovingClient(t)
	want := &AutoScalingGroup{Name: "g"}
	for i := range 11 {
		want.LoadBalancers = append(want.LoadBalancers, fmt.Sprintf("lb%02d", i))
	}
	change(t, c, &AutoScalingGroups, &AutoScalingGroup{Name: "g", LoadBalancers: []string{"old"}}, want)
	expect(t, y.brief("LoadBalancerNames"), "AttachLoadBalancers lb00 lb01 lb02 lb03 lb04 lb05 lb06 lb07 lb08 lb09",
		"AttachLoadBalancers lb10", "DetachLoadBalancers old")
}

func TestALimitOfLifeIsLiftedWithZero(t *testing.T) {
	c, y := newApprovingClient(t)
	change(t, c, &AutoScalingGroups, &AutoScalingGroup{Name: "g", MaxInstanceLifetime: 86400}, &AutoScalingGroup{Name: "g", CapacityRebalance: true})
	expect(t, y.brief("MaxInstanceLifetime", "CapacityRebalance"), "UpdateAutoScalingGroup 0 true")
	y.asked = nil
	for _, life := range []int{0, 86400} {
		if err := createGroup(t.Context(), c, &AutoScalingGroup{Name: "g", MaxInstanceLifetime: life}); err != nil {
			t.Fatal(err)
		}
	}
	expect(t, y.brief("MaxInstanceLifetime"), "CreateAutoScalingGroup", "CreateAutoScalingGroup 86400")
}

func TestAListenerBecomesOneOfTLS(t *testing.T) {
	c, y := newApprovingClient(t)
	have := Listener{ARN: "arn", Port: 443, Protocol: "TCP", DefaultAction: ListenerAction{TargetGroup: lit("tcp"), Type: "forward"}}
	want := have
	want.Protocol, want.CertificateARN, want.SSLPolicy = "TLS", "cert", "ELBSecurityPolicy-2016-08"
	change(t, c, &Listeners, &have, &want)
	expect(t, y.brief("Protocol", "Certificates", "SslPolicy", "DefaultActions"), "ModifyListener ELBSecurityPolicy-2016-08 TLS cert forward tcp")
}

func TestAttributesOfALoadBalancerAreAllSet(t *testing.T) {
	c, asked := newApprovingClient(t)
	change(t, c, &LoadBalancers, &LoadBalancer{ARN: "arn"}, &LoadBalancer{ARN: "arn", CrossZone: true})
	expect(t, asked.brief("Attributes."), "ModifyLoadBalancerAttributes access_logs.s3.enabled false load_balancing.cross_zone.enabled true")
}
