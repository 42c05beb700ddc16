package awsdisk

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"kops.local/kops/internal/engine/fault"
	"kops.local/kops/internal/node/etcd/volume"
	"kops.local/kops/internal/platform/aws/awsquery"
	"kops.local/kops/internal/platform/aws/awstest"
	metadata "kops.local/kops/internal/platform/aws/node/ec2"
	"kops.local/kops/internal/platform/aws/node/ec2/ec2test"
)

// testCredentials returns credentials that the emulator accepts.
func testCredentials(context.Context) (awsquery.Credentials, error) {
	return awsquery.Credentials{ID: "a", Secret: "b"}, nil
}

func client(s *awstest.Server) awsquery.Client {
	return awsquery.Client{Endpoint: s.URL, Region: s.Region, Credentials: testCredentials, HTTP: http.DefaultClient, Now: time.Now,
		Timeout: 2 * time.Minute} // the emulator takes seconds for its first machine, and longer on a busy host
}

// account is an account that a test changes.
type account struct {
	*testing.T
	c awsquery.Client
}

func (a account) do(action string, answer any, values ...string) {
	a.Helper()
	q := url.Values{}
	for i := 0; i < len(values); i += 2 {
		q.Set(values[i], values[i+1])
	}
	if err := (ec2{a.c}).call(a.Context(), action, q, answer); err != nil {
		a.Fatalf("%s: %v", action, err)
	}
}

func (a account) machine(zone string) string {
	a.Helper()
	var x struct {
		ID string `xml:"instancesSet>item>instanceId"`
	}
	a.do("RunInstances", &x, "ImageId", "ami-12c6146b", "MinCount", "1", "MaxCount", "1", "InstanceType", "t3.micro", "Placement.AvailabilityZone", zone)
	return x.ID
}

func (a account) volume(zone, cluster, etcd, member string) string {
	a.Helper()
	var x struct {
		ID string `xml:"volumeId"`
	}
	a.do("CreateVolume", &x, "AvailabilityZone", zone, "Size", "20")
	a.do("CreateTags", &struct{}{}, "ResourceId.1", x.ID, "Tag.1.Key", "k8s.io/etcd/"+etcd, "Tag.1.Value", member+"/a,b,c",
		"Tag.2.Key", "kubernetes.io/cluster/"+cluster, "Tag.2.Value", "owned", "Tag.3.Key", "k8s.io/role/control-plane", "Tag.3.Value", "1")
	return x.ID
}

// labelled returns the volumes as etcd-manager sees them.
func labelled(v Volumes) *volume.Labelled {
	return &volume.Labelled{Request: volume.Request{Cluster: "etcd", Tags: v.Tags, NameTag: v.NameTag}, Connect: func(context.Context) (volume.Disks, volume.Place, error) {
		return v, volume.Place{Machine: v.Machine.ID, Location: v.Machine.Zone}, nil
	}}
}

// TestAMachineTakesAVolumeOfItsZone checks it for each manager, in an account with volumes of other
// zones, etcd clusters and clusters.
func TestAMachineTakesAVolumeOfItsZone(t *testing.T) {
	server := awstest.Moto(t)
	a := account{t, client(server)}
	first, second, other := a.machine("us-east-1a"), a.machine("us-east-1a"), a.machine("us-east-1b")
	main := a.volume("us-east-1a", "c.example.com", "main", "a")
	events := a.volume("us-east-1a", "c.example.com", "events", "a")
	elsewhere := a.volume("us-east-1b", "c.example.com", "main", "b")
	a.volume("us-east-1a", "d.example.com", "main", "a")
	of := func(machine, zone, etcd string) volume.Cloud {
		return labelled(Volumes{API: a.c, Machine: Machine{machine, "us-east-1", zone}, NameTag: "k8s.io/etcd/" + etcd,
			Tags: []string{"kubernetes.io/cluster/c.example.com=owned", "k8s.io/etcd/" + etcd, "k8s.io/role/control-plane=1"}})
	}
	all, err := of(first, "us-east-1a", "main").Volumes(t.Context())
	if err != nil || len(all) != 2 {
		t.Fatalf("the volumes are %+v, %v", all, err)
	}
	for _, v := range all {
		if v.Free != (v.ID == main) || v.Attached || v.Machine != "" || v.Peer != map[string]string{main: "etcd-a", elsewhere: "etcd-b"}[v.ID] {
			t.Errorf("%+v, where %s is free", v, main)
		}
	}
	for _, x := range []struct {
		at      volume.Cloud
		attach  string
		devices string
	}{
		{of(first, "us-east-1a", "main"), main, "/dev/xvdu"},
		{of(first, "us-east-1a", "events"), events, "/dev/xvdv"},
		{of(other, "us-east-1b", "main"), elsewhere, "/dev/xvdu"},
	} {
		if _, _, err := volume.Take(t.Context(), x.at, nil); !fault.Is(err, fault.NotYet) || !strings.Contains(err.Error(), x.attach+" is being attached") {
			t.Fatalf("%s: %v", x.attach, err)
		}
		all, err := x.at.Volumes(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		for _, v := range all {
			if v.ID != x.attach {
				continue
			}
			want := []string{"/dev/disk/by-id/nvme-Amazon_Elastic_Block_Store_" + strings.Replace(v.ID, "-", "", 1), x.devices}
			if !v.Attached || v.Free || fmt.Sprint(v.Devices) != fmt.Sprint(want) || len(v.Addresses) != 1 {
				t.Errorf("%+v, want it here at %v", v, want)
			}
		}
	}
	late := of(second, "us-east-1a", "main")
	if _, _, err := volume.Take(t.Context(), late, nil); !fault.Is(err, fault.NotYet) || !strings.Contains(err.Error(), main+" of etcd-a is attached to "+first) {
		t.Errorf("a machine for which no volume is left: %v", err)
	}
	found, err := volume.Machines{Cloud: late, Port: "3996"}.Discover(t.Context())
	if err != nil || len(found) != 2 || !strings.HasSuffix(found[0].Endpoint, ":3996") || found[0].ID != "etcd-a" || found[1].ID != "etcd-b" {
		t.Errorf("the managers are at %v, %v", found, err)
	}
}

func TestErrorsAreClassed(t *testing.T) {
	for _, x := range []struct {
		status     int
		body       string
		want       fault.Class
		wantRemedy bool
	}{
		{403, "<Response><Errors><Error><Code>UnauthorizedOperation</Code><Message>no</Message></Error></Errors></Response>", fault.Denied, true},
		{401, "<Response><Errors><Error><Code>AuthFailure</Code></Error></Errors></Response>", fault.Denied, true},
		{503, "<Response><Errors><Error><Code>RequestLimitExceeded</Code></Error></Errors></Response>", fault.Throttled, false},
		{500, "<Response><Errors><Error><Code>InternalError</Code></Error></Errors></Response>", fault.NotYet, false},
		{502, "bad gateway", fault.NotYet, false},
		{400, "<Response><Errors><Error><Code>InvalidVolume.NotFound</Code></Error></Errors></Response>", fault.Permanent, false},
		{200, "no XML <", fault.NotYet, true},
	} {
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(x.status)
			fmt.Fprint(w, x.body)
		}))
		c := awsquery.Client{Endpoint: s.URL, Region: "eu-west-1", Credentials: testCredentials, HTTP: s.Client(), Now: time.Now}
		_, err := labelled(Volumes{API: c, Tags: []string{"a"}, NameTag: "a"}).Volumes(t.Context())
		if !fault.Is(err, x.want) || (fault.Remedy(err) != "") != x.wantRemedy {
			t.Errorf("%s: %v is %q, want %q", x.body, err, fault.Of(err), x.want)
		}
		s.Close()
	}
	for code, want := range map[string]fault.Class{"VolumeInUse": fault.Conflict, "IncorrectState": fault.Conflict, "InvalidParameterValue": fault.Conflict, "InvalidVolume.ZoneMismatch": fault.Permanent} {
		if err := classifyError("attach volume v", &awsquery.Error{Status: 400, Code: code}); !fault.Is(err, want) {
			t.Errorf("%s of an attachment is %q, want %q", code, fault.Of(err), want)
		}
	}
}

// TestEveryPageIsRead also checks that IPv6 addresses come before IPv4 addresses.
func TestEveryPageIsRead(t *testing.T) {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if err := r.ParseForm(); err != nil {
			t.Error(err)
		}
		switch {
		case r.Form.Get("Action") == "DescribeInstances":
			fmt.Fprint(w, `<R><reservationSet><item><instancesSet><item><instanceId>i-1</instanceId><networkInterfaceSet><item>
				<ipv6AddressesSet><item><ipv6Address>fd00::1</ipv6Address></item></ipv6AddressesSet>
				<privateIpAddressesSet><item><privateIpAddress>10.0.0.1</privateIpAddress></item></privateIpAddressesSet></item></networkInterfaceSet></item></instancesSet></item></reservationSet></R>`)
		case r.Form.Get("NextToken") == "":
			fmt.Fprint(w, `<R><volumeSet><item><volumeId>vol-1</volumeId></item></volumeSet><nextToken>more</nextToken></R>`)
		default:
			fmt.Fprint(w, `<R><volumeSet><item><volumeId>vol-2</volumeId><status>in-use</status><attachmentSet><item><instanceId>i-1</instanceId><status>detaching</status></item></attachmentSet></item></volumeSet></R>`)
		}
	}))
	defer s.Close()
	c := awsquery.Client{Endpoint: s.URL, Region: "eu-west-1", Credentials: testCredentials, HTTP: s.Client(), Now: time.Now}
	all, err := labelled(Volumes{API: c, Machine: Machine{ID: "i-1"}, Tags: []string{"a"}, NameTag: "a"}).Volumes(t.Context())
	if err != nil || len(all) != 2 || all[1].Attached || all[1].Free || fmt.Sprint(all[1].Addresses) != "[fd00::1]" {
		t.Errorf("%+v, %v", all, err)
	}
}

// TestAMachinesOwnAddressIsFirst also checks that a tag without a value names no peer.
func TestAMachinesOwnAddressIsFirst(t *testing.T) {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.FormValue("Action") == "DescribeInstances" {
			fmt.Fprint(w, `<R><reservationSet><item><instancesSet><item><instanceId>i-1</instanceId><privateIpAddress>10.0.0.1</privateIpAddress><networkInterfaceSet>
				<item><privateIpAddressesSet><item><privateIpAddress>10.0.0.9</privateIpAddress></item></privateIpAddressesSet></item>
				<item><privateIpAddressesSet><item><privateIpAddress>10.0.0.1</privateIpAddress></item></privateIpAddressesSet></item></networkInterfaceSet></item></instancesSet></item></reservationSet></R>`)
			return
		}
		fmt.Fprint(w, `<R><volumeSet><item><volumeId>vol-1</volumeId><tagSet><item><key>a</key><value></value></item></tagSet>
			<attachmentSet><item><instanceId>i-1</instanceId><status>attached</status></item></attachmentSet></item></volumeSet></R>`)
	}))
	defer s.Close()
	c := awsquery.Client{Endpoint: s.URL, Region: "eu-west-1", Credentials: testCredentials, HTTP: s.Client(), Now: time.Now}
	all, err := labelled(Volumes{API: c, Machine: Machine{ID: "i-1"}, Tags: []string{"a"}, NameTag: "a"}).Volumes(t.Context())
	if err != nil || len(all) != 1 || fmt.Sprint(all[0].Addresses) != "[10.0.0.1 10.0.0.9]" || all[0].Peer != "" {
		t.Errorf("%+v, %v", all, err)
	}
}

func TestAMachineKnowsItself(t *testing.T) {
	answers := map[string]string{"instance-id": "i-1", "placement/region": "eu-west-1", "placement/availability-zone": "eu-west-1c"}
	of := metadata.Metadata{HTTP: http.DefaultClient, Endpoint: ec2test.Serve(t, answers)}
	got, err := Identify(t.Context(), of)
	if want := (Machine{"i-1", "eu-west-1", "eu-west-1c"}); err != nil || got != want {
		t.Errorf("it is %v, %v", got, err)
	}
	delete(answers, "placement/region")
	if _, err := Identify(t.Context(), of); !fault.Is(err, fault.NotYet) || !strings.Contains(err.Error(), "placement/region") {
		t.Errorf("without a region: %v", err)
	}
}
