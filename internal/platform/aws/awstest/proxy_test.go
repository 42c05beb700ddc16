package awstest_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/aws/retry"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/autoscaling"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/eventbridge"
	"github.com/aws/aws-sdk-go-v2/service/iam"
	"github.com/aws/aws-sdk-go-v2/service/route53"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/google/go-cmp/cmp"

	"kops.local/kops/internal/platform/aws/awstest"
	"kops.local/kops/internal/test/proxy"
)

// backend is the server behind the proxy: it counts requests, and includes the count in its answers.
type backend struct {
	reached atomic.Int32
	host    atomic.Value
}

func (b *backend) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	n := b.reached.Add(1)
	b.host.Store(r.Host)
	body, err := io.ReadAll(r.Body)
	if err != nil {
		panic(err)
	}
	fmt.Fprintf(w, "%d %s %s %s", n, r.Method, r.URL.RequestURI(), body)
}

func start(t *testing.T) (*proxy.Proxy, *backend) {
	b := &backend{}
	server := httptest.NewServer(b)
	t.Cleanup(server.Close)
	return awstest.Proxy(t, server.URL), b
}

func send(t *testing.T, method, url, body string) (string, error) {
	t.Helper()
	// A new connection each time, because the standard client resends a request when an idle
	// connection breaks.
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	req, err := http.NewRequest(method, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	answer, err := client.Do(req)
	if err != nil {
		return "", err
	}
	defer answer.Body.Close()
	data, err := io.ReadAll(answer.Body)
	return string(data), err
}

func TestForwards(t *testing.T) {
	p, b := start(t)
	got, err := send(t, "PUT", p.URL+"/bucket/a%20key?x=1", "content")
	if got != "1 PUT /bucket/a%20key?x=1 content" || err != nil {
		t.Errorf("%q, %v", got, err)
	}
	if host := b.host.Load(); "http://"+host.(string) != p.URL {
		t.Errorf("the server saw host %v; the signature is of %s", host, p.URL)
	}
}

// calls makes one call in each protocol, and returns each call's error.
func calls(ctx context.Context, url string) map[string]error {
	cfg := aws.Config{
		Region: "us-east-1", BaseEndpoint: &url, RetryMaxAttempts: 1,
		Credentials: credentials.NewStaticCredentialsProvider("a", "b", ""),
	}
	s3c := s3.NewFromConfig(cfg, func(o *s3.Options) { o.UsePathStyle = true })
	bucket, key := aws.String("b"), aws.String("folder/k")
	out := map[string]error{}
	_, out["ec2.DescribeVpcs"] = ec2.NewFromConfig(cfg).DescribeVpcs(ctx, &ec2.DescribeVpcsInput{})
	_, out["autoscaling.DescribeAutoScalingGroups"] = autoscaling.NewFromConfig(cfg).DescribeAutoScalingGroups(ctx, &autoscaling.DescribeAutoScalingGroupsInput{})
	_, out["iam.DeleteRole"] = iam.NewFromConfig(cfg).DeleteRole(ctx, &iam.DeleteRoleInput{RoleName: aws.String("r")})
	_, out["events.ListRules"] = eventbridge.NewFromConfig(cfg).ListRules(ctx, &eventbridge.ListRulesInput{})
	_, out["sqs.CreateQueue"] = sqs.NewFromConfig(cfg).CreateQueue(ctx, &sqs.CreateQueueInput{QueueName: aws.String("q")})
	_, out["route53.ListResourceRecordSets"] = route53.NewFromConfig(cfg).ListResourceRecordSets(ctx, &route53.ListResourceRecordSetsInput{HostedZoneId: aws.String("Z1")})
	_, out["route53.ListHostedZonesByName"] = route53.NewFromConfig(cfg).ListHostedZonesByName(ctx, &route53.ListHostedZonesByNameInput{})
	_, out["s3.PutObject"] = s3c.PutObject(ctx, &s3.PutObjectInput{Bucket: bucket, Key: key})
	_, out["s3.ListObjectsV2"] = s3c.ListObjectsV2(ctx, &s3.ListObjectsV2Input{Bucket: bucket})
	_, out["s3.GetBucketLocation"] = s3c.GetBucketLocation(ctx, &s3.GetBucketLocationInput{Bucket: bucket})
	_, out["s3.CreateBucket"] = s3c.CreateBucket(ctx, &s3.CreateBucketInput{Bucket: bucket})
	_, out["s3.DeleteObject"] = s3c.DeleteObject(ctx, &s3.DeleteObjectInput{Bucket: bucket, Key: key})
	return out
}

func TestCallsAreNamedAndCounted(t *testing.T) {
	p, _ := start(t)
	want := map[string]int{}
	for name := range calls(t.Context(), p.URL) {
		want[name] = 1
	}
	if diff := cmp.Diff(want, p.Counts()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if p.Requests() != len(want) || p.Writes() != 5 {
		t.Errorf("%d requests, %d writes; want %d and 5", p.Requests(), p.Writes(), len(want))
	}
	if !strings.Contains(p.Report(), "     1 ec2.DescribeVpcs\n") {
		t.Errorf("report:\n%s", p.Report())
	}
	p.Reset()
	if p.Requests() != 0 || p.Writes() != 0 {
		t.Errorf("after a reset %d requests, %d writes", p.Requests(), p.Writes())
	}
}

// Each SDK must recognize the answer as throttling, so that it would retry.
func TestThrottlingIsUnderstood(t *testing.T) {
	p, b := start(t)
	p.Throttle(100, 1)
	isThrottle := retry.IsErrorThrottles(retry.DefaultThrottles)
	for name, err := range calls(t.Context(), p.URL) {
		var api interface{ ErrorCode() string }
		if !errors.As(err, &api) || isThrottle.IsErrorThrottle(err) != aws.TrueTernary {
			t.Errorf("%s: %v", name, err)
		}
	}
	if n := b.reached.Load(); n != 0 || p.Writes() != 0 {
		t.Errorf("%d throttled requests reached the server, %d counted as writes", n, p.Writes())
	}
}

func TestThrottlingHitsTheShareThatTheSeedSays(t *testing.T) {
	hits := func(seed uint64) string {
		p, _ := start(t)
		p.Throttle(10, seed)
		var out strings.Builder
		for range 300 {
			got, err := send(t, "GET", p.URL+"/b/k", "")
			if err != nil {
				t.Fatal(err)
			}
			fmt.Fprint(&out, map[bool]int{true: 1}[strings.Contains(got, "SlowDown")])
		}
		return out.String()
	}
	one, again, other := hits(1), hits(1), hits(2)
	if one != again || one == other {
		t.Errorf("seed 1: %s\nagain:  %s\nseed 2: %s", one, again, other)
	}
	if n := strings.Count(one, "1"); n < 15 || n > 50 {
		t.Errorf("%d of 300 throttled, want about 30", n)
	}
}

// Each SDK must find the code of the refusal.
func TestRefusalsAreUnderstood(t *testing.T) {
	p, b := start(t)
	for why, codes := range map[proxy.Refusal][]string{proxy.Denied: {"AccessDenied", "UnauthorizedOperation"}, proxy.OverQuota: {"QueueLimitExceeded", "BucketLimitExceeded"}} {
		all := calls(t.Context(), p.URL)
		p.Refuse(why, slices.Collect(maps.Keys(all))...)
		b.reached.Store(0)
		found := map[string]bool{}
		for name, err := range calls(t.Context(), p.URL) {
			var api interface{ ErrorCode() string }
			if !errors.As(err, &api) {
				t.Fatalf("%s: %v", name, err)
			}
			found[api.ErrorCode()] = true
		}
		for _, code := range codes {
			if !found[code] {
				t.Errorf("no call is refused with %s: %v", code, found)
			}
		}
		if n := b.reached.Load(); n != 0 {
			t.Errorf("%d refused requests reached the server", n)
		}
	}
	p.Refuse(proxy.Denied, "s3.PutObject")
	if _, err := send(t, http.MethodGet, p.URL+"/b/k", ""); err != nil || b.reached.Load() != 1 {
		t.Errorf("another call is refused: %v", err)
	}
}

func TestLostAnswersAreOfWritesThatHappened(t *testing.T) {
	p, b := start(t)
	p.Lose(50, 1)
	lost := 0
	for range 40 {
		if _, err := send(t, http.MethodPut, p.URL+"/b/k", "x"); err != nil {
			lost++
		}
		if _, err := send(t, http.MethodGet, p.URL+"/b/k", ""); err != nil {
			t.Fatalf("a read is lost: %v", err)
		}
	}
	if lost < 10 || lost > 30 || b.reached.Load() != 80 {
		t.Errorf("%d of 40 answers are lost, %d of 80 requests reached the server", lost, b.reached.Load())
	}
}

func TestCut(t *testing.T) {
	tests := []struct {
		name           string
		cut            proxy.Cut
		fails          string // x for each of four writes that fails for the client
		reached, kills int32
	}{
		{"before the second write", proxy.Cut{At: 2}, ".xxx", 1, 1},
		{"after the second write", proxy.Cut{At: 2, After: true}, ".xxx", 2, 1},
		{"before the second write only", proxy.Cut{At: 2, Once: true}, ".x..", 3, 1},
		{"the answer of the second write only", proxy.Cut{At: 2, After: true, Once: true}, ".x..", 4, 1},
		{"never", proxy.Cut{}, "....", 4, 0},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			p, b := start(t)
			var kills atomic.Int32
			tt.cut.Then = func() { kills.Add(1) }
			p.SetCut(tt.cut)
			if _, err := send(t, "GET", p.URL+"/b/k", ""); err != nil {
				t.Fatalf("a read before the cut: %v", err)
			}
			b.reached.Store(0)
			fails := ""
			for range 4 {
				_, err := send(t, "PUT", p.URL+"/b/k", "x")
				fails += map[bool]string{true: ".", false: "x"}[err == nil]
			}
			if fails != tt.fails || b.reached.Load() != tt.reached || kills.Load() != tt.kills {
				t.Errorf("failures %s, %d reached the server, %d kills; want %s, %d, %d",
					fails, b.reached.Load(), kills.Load(), tt.fails, tt.reached, tt.kills)
			}
			_, err := send(t, "GET", p.URL+"/b/k", "")
			if dead := tt.cut.At > 0 && !tt.cut.Once; dead != (err != nil) {
				t.Errorf("a read after the cut: %v", err)
			}
			p.Restore()
			if _, err := send(t, "PUT", p.URL+"/b/k", "x"); err != nil {
				t.Errorf("after healing: %v", err)
			}
		})
	}
}

// Forty sequential requests of a tenth of a second each would take four seconds.
func TestLatencyIsSideBySide(t *testing.T) {
	p, _ := start(t)
	const latency = 100 * time.Millisecond
	p.SetLatency(latency)
	begin := time.Now()
	var all sync.WaitGroup
	for range 40 {
		all.Go(func() {
			if _, err := send(t, "GET", p.URL+"/b/k", ""); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	if took := time.Since(begin); took < latency || took > 20*latency {
		t.Errorf("forty at once took %v", took)
	}
	if p.Requests() != 40 {
		t.Errorf("%d requests counted", p.Requests())
	}
}

func TestLag(t *testing.T) {
	p, _ := start(t)
	p.Lag(2)
	got := ""
	send := func(target string) {
		req, err := http.NewRequest("POST", p.URL, strings.NewReader("{}"))
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("X-Amz-Target", target)
		answer, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		defer answer.Body.Close()
		var n int
		if _, err := fmt.Fscan(answer.Body, &n); err != nil {
			t.Fatal(err)
		}
		got += fmt.Sprint(n)
	}
	for _, action := range []string{"List", "List", "Put", "List", "List", "List", "List"} {
		send("Events." + action + "Rules")
	}
	if got != "1232245" {
		t.Errorf("answers %s; want two of the past after the write, which is the third", got)
	}
}

func TestHold(t *testing.T) {
	p, b := start(t)
	reached, release := p.Hold("s3.PutObject")
	done := make(chan error, 1)
	go func() {
		_, err := send(t, http.MethodPut, p.URL+"/bucket/key", "x")
		done <- err
	}()
	<-reached
	if _, err := send(t, http.MethodGet, p.URL+"/bucket/key", ""); err != nil {
		t.Errorf("another call: %v", err)
	}
	if n := b.reached.Load(); n != 1 {
		t.Errorf("%d requests reached the server while one was held", n)
	}
	release(true)
	release(true)
	if err := <-done; err != nil || b.reached.Load() != 2 {
		t.Errorf("after the release: %v, %d requests", err, b.reached.Load())
	}
	if _, err := send(t, http.MethodPut, p.URL+"/bucket/key", "x"); err != nil {
		t.Errorf("the next: %v", err)
	}
	reached, release = p.Hold("s3.PutObject")
	go func() {
		_, err := send(t, http.MethodPut, p.URL+"/bucket/key", "x")
		done <- err
	}()
	<-reached
	release(false)
	if err := <-done; err == nil || b.reached.Load() != 3 {
		t.Errorf("a dropped request: %v, %d requests", err, b.reached.Load())
	}
}
