package awsapi

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/autoscaling"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	elb "github.com/aws/aws-sdk-go-v2/service/elasticloadbalancingv2"
	"github.com/aws/aws-sdk-go-v2/service/iam"
	"github.com/aws/aws-sdk-go-v2/service/route53"

	"kops.local/kops/internal/engine/fault"
)

// client returns clients whose requests the handler answers.
func client(t *testing.T, h http.HandlerFunc) *Clients {
	t.Helper()
	s := httptest.NewServer(h)
	t.Cleanup(s.Close)
	c, err := Connect(t.Context(), Config{Region: "eu-west-1", Endpoint: s.URL, UserAgent: "kops", UserAgentVersion: "1.2.3",
		Credentials: credentials.NewStaticCredentialsProvider("id", "secret", "")})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// call makes one of the table's calls, by name.
func call(ctx context.Context, c *Clients, name string) (err error) {
	switch name {
	case "CreateVpc":
		_, err = c.EC2.CreateVpc(ctx, &ec2.CreateVpcInput{CidrBlock: aws.String("10.0.0.0/16")})
	case "CreateVolume":
		_, err = c.EC2.CreateVolume(ctx, &ec2.CreateVolumeInput{AvailabilityZone: aws.String("eu-west-1a")})
	case "CreateSubnet":
		_, err = c.EC2.CreateSubnet(ctx, &ec2.CreateSubnetInput{VpcId: aws.String("vpc-1")})
	case "DeleteVpc":
		_, err = c.EC2.DeleteVpc(ctx, &ec2.DeleteVpcInput{VpcId: aws.String("vpc-1")})
	case "DescribeVpcs":
		_, err = c.EC2.DescribeVpcs(ctx, &ec2.DescribeVpcsInput{})
	case "CreateAutoScalingGroup":
		_, err = c.AutoScaling.CreateAutoScalingGroup(ctx, &autoscaling.CreateAutoScalingGroupInput{
			AutoScalingGroupName: aws.String("g"), MinSize: aws.Int32(0), MaxSize: aws.Int32(1)})
	case "CreateLoadBalancer":
		_, err = c.ELB.CreateLoadBalancer(ctx, &elb.CreateLoadBalancerInput{Name: aws.String("l")})
	case "GetRole":
		_, err = c.IAM.GetRole(ctx, &iam.GetRoleInput{RoleName: aws.String("r")})
	case "DeleteRole":
		_, err = c.IAM.DeleteRole(ctx, &iam.DeleteRoleInput{RoleName: aws.String("r")})
	case "AddRoleToInstanceProfile":
		_, err = c.IAM.AddRoleToInstanceProfile(ctx, &iam.AddRoleToInstanceProfileInput{
			RoleName: aws.String("r"), InstanceProfileName: aws.String("p")})
	case "CreateQueue":
		err = c.SQS.Call(ctx, "CreateQueue", Fields{"QueueName": "q"}, nil)
	case "PutRule":
		err = c.Events.Call(ctx, "PutRule", Fields{"Name": "r"}, nil)
	case "ListHostedZones":
		_, err = c.Route53.ListHostedZones(ctx, &route53.ListHostedZonesInput{})
	default:
		panic("no such call: " + name)
	}
	return err
}

// An overloaded server, or a proxy in front of it, returns an HTML page.
func TestAServerErrorWithoutReason(t *testing.T) {
	c := client(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		w.WriteHeader(http.StatusInternalServerError)
		_, _ = io.WriteString(w, "<!doctype html>\n<html lang=en><title>500 Internal Server Error</title>\n<p>The server is overloaded.<br></html>\n")
	})
	for name, action := range map[string]string{"CreateVpc": "ec2:CreateVpc", "CreateAutoScalingGroup": "autoscaling:CreateAutoScalingGroup", "GetRole": "iam:GetRole",
		"CreateQueue": "sqs:CreateQueue", "ListHostedZones": "route53:ListHostedZones"} {
		err := call(t.Context(), c, name)
		if want := "500 Internal Server Error: the answer to " + action + " gives no reason"; !fault.Is(err, fault.Lost) || err == nil || !strings.HasSuffix(err.Error(), want) || strings.ContainsAny(err.Error(), "<>") {
			t.Errorf("%s: %s: %v", name, fault.Of(err), err)
		}
	}
}

// Bodies of errors, one format for each protocol.
const (
	ec2XML   = `<?xml version="1.0"?><Response><Errors><Error><Code>%s</Code><Message>%s</Message></Error></Errors><RequestID>r-1</RequestID></Response>`
	queryXML = `<ErrorResponse><Error><Type>Sender</Type><Code>%s</Code><Message>%s</Message></Error><RequestId>r-1</RequestId></ErrorResponse>`
	jsonBody = `{"__type":"com.amazonaws#%s","message":"%s"}`
)

func TestErrorsAreClassed(t *testing.T) {
	for _, tc := range []struct {
		call, code, message string
		status              int
		want                fault.Class
		remedy              string // a substring of it
	}{
		{"CreateVpc", "RequestLimitExceeded", "", 503, fault.Throttled, ""},
		{"DescribeVpcs", "Throttling", "", 400, fault.Throttled, ""},
		{"CreateAutoScalingGroup", "Throttling", "Rate exceeded", 400, fault.Throttled, ""},
		{"CreateLoadBalancer", "ThrottlingException", "", 400, fault.Throttled, ""},
		{"ListHostedZones", "PriorRequestNotComplete", "", 400, fault.Throttled, ""},
		{"PutRule", "TooManyRequestsException", "", 429, fault.Throttled, ""},
		{"CreateVpc", "UnauthorizedOperation", "not authorized", 403, fault.Denied, "ec2:CreateVpc"},
		{"CreateAutoScalingGroup", "AccessDenied", "", 403, fault.Denied, "autoscaling:CreateAutoScalingGroup"},
		{"CreateLoadBalancer", "AccessDenied", "", 403, fault.Denied, "elasticloadbalancing:CreateLoadBalancer"},
		{"PutRule", "AccessDeniedException", "", 400, fault.Denied, "events:PutRule"},
		{"ListHostedZones", "AccessDenied", "", 403, fault.Denied, "route53:ListHostedZones"},
		{"GetRole", "ExpiredToken", "", 403, fault.Denied, "log in again"},
		{"DescribeVpcs", "RequestExpired", "", 400, fault.Denied, "clock"},
		{"CreateVpc", "VpcLimitExceeded", "", 400, fault.Quota, "VPCs per Region"},
		{"CreateVpc", "SomethingLimitExceeded", "", 400, fault.Quota, "Service Quotas"},
		{"CreateVpc", "VcpuLimitExceeded", "", 400, fault.Quota, "On-Demand Standard"},
		{"CreateLoadBalancer", "TooManyLoadBalancers", "", 400, fault.Quota, "Network Load Balancers"},
		{"AddRoleToInstanceProfile", "LimitExceeded", "", 409, fault.Quota, "Service Quotas"},
		{"PutRule", "LimitExceededException", "", 400, fault.Quota, "Service Quotas"},
		{"CreateVpc", "InsufficientInstanceCapacity", "", 500, fault.Quota, "another zone"},
		{"DescribeVpcs", "InvalidVpcID.NotFound", "", 400, fault.Gone, ""},
		{"DeleteVpc", "InvalidVpcID.NotFound", "", 400, fault.Gone, ""},
		{"CreateSubnet", "InvalidVpcID.NotFound", "", 400, fault.NotYet, ""},
		{"CreateSubnet", "InvalidTransitGatewayID.NotFound", "", 400, fault.Gone, "spec"},
		{"GetRole", "NoSuchEntity", "", 404, fault.Gone, ""},
		{"DeleteRole", "NoSuchEntity", "", 404, fault.Gone, ""},
		{"AddRoleToInstanceProfile", "NoSuchEntity", "", 404, fault.NotYet, ""},
		{"DeleteVpc", "DependencyViolation", "", 400, fault.Conflict, ""},
		{"DeleteRole", "DeleteConflict", "", 409, fault.Conflict, ""},
		{"DeleteVpc", "InvalidGroup.InUse", "", 400, fault.Conflict, ""},
		{"DeleteVpc", "IncorrectState", "", 400, fault.Conflict, ""},
		{"CreateAutoScalingGroup", "ResourceContention", "", 500, fault.Conflict, ""},
		{"CreateQueue", "QueueDeletedRecently", "", 400, fault.NotYet, ""},
		{"CreateVpc", "InvalidParameterValue", "Value (p) for parameter iamInstanceProfile.name is invalid. Invalid IAM Instance Profile name", 400, fault.NotYet, ""},
		{"CreateAutoScalingGroup", "ValidationError", "Invalid IAM Instance Profile name", 400, fault.NotYet, ""},
		{"CreateAutoScalingGroup", "ValidationError", "MinSize is larger than MaxSize", 400, fault.Permanent, ""},
		{"CreateVpc", "InvalidParameterValue", "bad range", 400, fault.Permanent, ""},
		{"CreateAutoScalingGroup", "Unsupported", "not offered here", 400, fault.Permanent, "machine type"},
		{"CreateVolume", "InvalidParameterCombination", "The parameter iops is not supported for standard volumes.", 400, fault.Permanent, "the volume"},
		{"CreateVpc", "UnsupportedOperation", "", 400, fault.Permanent, ""},
		{"CreateVpc", "TagLimitExceeded", "", 400, fault.Quota, "cloudLabels"},
		{"CreateVpc", "ConcurrentTagAccess", "", 400, fault.Conflict, ""},
		{"CreateSubnet", "InsufficientFreeAddressesInSubnet", "", 400, fault.Quota, "larger"},
		{"CreateLoadBalancer", "AvailabilityZoneNotSupported", "", 400, fault.Permanent, "zones"},
		{"CreateLoadBalancer", "AllocationIdNotFound", "", 400, fault.Gone, "spec"},
		{"CreateAutoScalingGroup", "AlreadyExists", "", 400, fault.Taken, "name"},
		{"CreateQueue", "QueueNameExists", "", 400, fault.Taken, "name"},
		{"ListHostedZones", "LimitsExceeded", "", 400, fault.Quota, "Service Quotas"},
		{"CreateVpc", "InvalidKeyPair.Duplicate", "", 400, fault.Taken, "name"},
		{"CreateVpc", "InternalError", "", 500, fault.Lost, ""},
		{"CreateVpc", "SomethingNew", "", 500, fault.Lost, ""},
		{"CreateVpc", "SomethingNew", "", 400, fault.Permanent, ""},
	} {
		t.Run(tc.call+" "+tc.code, func(t *testing.T) {
			var sent atomic.Int32
			c := client(t, func(w http.ResponseWriter, r *http.Request) {
				sent.Add(1)
				body := ec2XML
				switch {
				case r.Header.Get("X-Amz-Target") != "":
					body = jsonBody
				case !strings.Contains(r.Header.Get("User-Agent"), "api/ec2"):
					body = queryXML
				}
				w.WriteHeader(tc.status)
				fmt.Fprintf(w, body, tc.code, tc.message)
			})
			err := call(t.Context(), c, tc.call)
			if got := fault.Of(err); got != tc.want {
				t.Errorf("%v is %q, want %q", err, got, tc.want)
			}
			if got := fault.Remedy(err); !strings.Contains(got, tc.remedy) {
				t.Errorf("the remedy is %q, without %q", got, tc.remedy)
			}
			if Code(err) != tc.code || !strings.Contains(err.Error(), tc.code) {
				t.Errorf("the code %q of %v", Code(err), err)
			}
			if n := sent.Load(); n != 1 {
				t.Errorf("%d requests were sent", n)
			}
		})
	}
}

// drop closes the connection, after an incomplete response if half is set.
func drop(w http.ResponseWriter, half bool) {
	conn, rw, err := w.(http.Hijacker).Hijack()
	if err != nil {
		panic(err)
	}
	if half {
		writeHead(rw)
	}
	conn.Close() // the test checks how the client handles this
}

func writeHead(rw *bufio.ReadWriter) {
	io.WriteString(rw, "HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n<CreateVpc")
	rw.Flush()
}

func TestAnswersThatDoNotArriveAreLost(t *testing.T) {
	for name, h := range map[string]http.HandlerFunc{
		"no answer":      func(w http.ResponseWriter, _ *http.Request) { drop(w, false) },
		"half an answer": func(w http.ResponseWriter, _ *http.Request) { drop(w, true) },
		"a proxy's page": func(w http.ResponseWriter, _ *http.Request) {
			http.Error(w, "<html>bad gateway</html>", http.StatusBadGateway)
		},
		"an empty 500": func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(500) },
		"not xml":      func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "hello <") },
	} {
		t.Run(name, func(t *testing.T) {
			for _, op := range []string{"CreateVpc", "DescribeVpcs", "PutRule"} {
				if err := call(t.Context(), client(t, h), op); !fault.Is(err, fault.Lost) {
					t.Errorf("%s: %v is %q", op, err, fault.Of(err))
				}
			}
		})
	}
}

func TestAServerThatIsNotThere(t *testing.T) {
	for host, want := range map[string]fault.Class{
		"http://127.0.0.1:1":          fault.Lost,
		"http://ec2.nowhere.invalid/": fault.Permanent,
	} {
		var dialer net.Dialer
		c, err := Connect(t.Context(), Config{Region: "eu-west-1", Endpoint: host,
			Credentials: credentials.NewStaticCredentialsProvider("id", "secret", ""),
			HTTPClient: &http.Client{Transport: &http.Transport{DialContext: func(ctx context.Context, network, addr string) (net.Conn, error) {
				if strings.HasSuffix(addr, ".invalid:80") { // the test does not query a DNS server
					return nil, &net.DNSError{Err: "no such host", Name: addr, IsNotFound: true}
				}
				return dialer.DialContext(ctx, network, addr)
			}}}})
		if err != nil {
			t.Fatal(err)
		}
		if err := call(t.Context(), c, "DescribeVpcs"); fault.Of(err) != want {
			t.Errorf("%s: %v is %q, want %q", host, err, fault.Of(err), want)
		}
	}
}

func TestACancelledRequestIsNoFault(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	c := client(t, func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body) // the server notices the end of a connection only after the body
		cancel()
		<-r.Context().Done()
	})
	err := call(ctx, c, "CreateVpc")
	if !errors.Is(err, context.Canceled) || fault.Of(err) != fault.Permanent {
		t.Errorf("got %v (%s)", err, fault.Of(err))
	}
}

// TestAnEmulatorIsReachedWithoutTheUsersOwnConfiguration checks that a profile that does not exist,
// and a configuration file with another region and endpoint, are ignored.
func TestAnEmulatorIsReachedWithoutTheUsersOwnConfiguration(t *testing.T) {
	file := filepath.Join(t.TempDir(), "config")
	if err := os.WriteFile(file, []byte("[default]\nregion = eu-north-1\nendpoint_url = http://127.0.0.1:1\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, profile := range []string{"", "of-another-computer"} {
		t.Setenv("AWS_PROFILE", profile)
		t.Setenv("AWS_CONFIG_FILE", file)
		c := client(t, func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "<DescribeVpcsResponse/>") })
		if err := call(t.Context(), c, "DescribeVpcs"); err != nil || c.Region != "eu-west-1" {
			t.Errorf("with the profile %q: region %s, %v", profile, c.Region, err)
		}
	}
}

func TestMissingCredentialsAreDenied(t *testing.T) {
	c, err := Connect(t.Context(), Config{Region: "eu-west-1", Endpoint: "http://127.0.0.1:1",
		Credentials: aws.CredentialsProviderFunc(func(context.Context) (aws.Credentials, error) {
			return aws.Credentials{}, errors.New("none here")
		})})
	if err != nil {
		t.Fatal(err)
	}
	err = call(t.Context(), c, "CreateVpc")
	if !fault.Is(err, fault.Denied) || !strings.Contains(fault.Remedy(err), "AWS_PROFILE") {
		t.Errorf("got %v (%s), remedy %q", err, fault.Of(err), fault.Remedy(err))
	}
}

func TestIdentify(t *testing.T) {
	c := client(t, func(w http.ResponseWriter, r *http.Request) {
		if !strings.Contains(r.Header.Get("User-Agent"), "kops/1.2.3") {
			t.Errorf("the user agent is %q", r.Header.Get("User-Agent"))
		}
		io.WriteString(w, `<GetCallerIdentityResponse><GetCallerIdentityResult><Arn>arn:aws-cn:iam::123456789012:user/me</Arn>`+
			`<Account>123456789012</Account></GetCallerIdentityResult></GetCallerIdentityResponse>`)
	})
	if err := c.Identify(t.Context()); err != nil {
		t.Fatal(err)
	}
	if c.AccountID != "123456789012" || c.Partition != "aws-cn" || c.Region != "eu-west-1" {
		t.Errorf("got %+v", *c)
	}
}

// early answers before it has read a request's body to the end.
type early struct{ body io.Reader }

func (e *early) Do(r *http.Request) (*http.Response, error) {
	e.body = r.Body
	return &http.Response{StatusCode: http.StatusOK, Body: io.NopCloser(strings.NewReader("<DescribeVpcsResponse/>"))}, nil
}

func TestAnEarlyAnswerKeepsTheConnection(t *testing.T) {
	e := &early{}
	c, err := Connect(t.Context(), Config{Region: "eu-west-1", HTTPClient: e, Credentials: credentials.NewStaticCredentialsProvider("id", "secret", "")})
	if err != nil {
		t.Fatal(err)
	}
	if err := call(t.Context(), c, "DescribeVpcs"); err != nil {
		t.Fatal(err)
	}
	if n, err := io.Copy(io.Discard, e.body); n != 0 || err != nil {
		t.Errorf("the rest of a body that was closed: %d bytes, %v", n, err)
	}
}
