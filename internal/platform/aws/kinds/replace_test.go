package kinds

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"kops.local/kops/internal/engine/fault"
	"kops.local/kops/internal/engine/graph"
	"kops.local/kops/internal/engine/resource"
	"kops.local/kops/internal/platform/aws/awsapi"
	"kops.local/kops/internal/platform/aws/awstest"
)

// strictNAT is a proxy in front of moto that treats NAT gateways as AWS does: a deleted gateway
// keeps its address for two more reads, and a gateway created with an address in use fails.
type strictNAT struct {
	moto     *Client
	deleting map[string]int // reads until it is deleted
	failed   []string       // the addresses of gateways that were created too early
}

func (s *strictNAT) Do(q *http.Request) (*http.Response, error) {
	body, err := io.ReadAll(q.Body)
	if err != nil {
		return nil, err
	}
	q.Body = io.NopCloser(bytes.NewReader(body))
	form, err := url.ParseQuery(string(body))
	if err != nil {
		return nil, err
	}
	switch action := form.Get("Action"); action {
	case "CreateNatGateway":
		list, err := natDescriber.describe(q.Context(), s.moto, nil)
		if err != nil {
			return nil, err
		}
		for _, d := range list {
			n := natGatewayOf(d)
			if n.Allocation.Text() == form.Get("AllocationId") && (d.State != ec2types.NatGatewayStateDeleted || s.deleting[n.ID] > 0) {
				s.failed = append(s.failed, form.Get("AllocationId"))
			}
		}
	case "DeleteNatGateway":
		s.deleting[form.Get("NatGatewayId")] = 2
		if err := s.releaseAddress(q.Context(), form.Get("NatGatewayId")); err != nil {
			return nil, err
		}
	case "DescribeNatGateways":
		return s.describe(q, form)
	}
	return http.DefaultClient.Do(q)
}

// releaseAddress releases a gateway's address, which moto leaves with the deleted gateway.
func (s *strictNAT) releaseAddress(ctx context.Context, id string) error {
	d, err := describeNAT(ctx, s.moto, id)
	if err != nil {
		return err
	}
	list, err := addressDescriber.describe(ctx, s.moto, []ec2types.Filter{filter("allocation-id", natGatewayOf(d).Allocation.Text())})
	if err != nil {
		return err
	}
	_, err = s.moto.EC2.DisassociateAddress(ctx, &ec2.DisassociateAddressInput{AssociationId: list[0].AssociationId})
	return err
}

// describe also returns the gateways that moto has deleted.
func (s *strictNAT) describe(q *http.Request, form url.Values) (*http.Response, error) {
	for k, v := range form {
		if strings.HasPrefix(k, "Filter.") && v[0] == string(ec2types.NatGatewayStateDeleting) {
			form.Set(k, string(ec2types.NatGatewayStateDeleted))
		}
	}
	q.Body, q.ContentLength = io.NopCloser(strings.NewReader(form.Encode())), int64(len(form.Encode()))
	answer, err := http.DefaultClient.Do(q)
	if err != nil {
		return nil, err
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err != nil {
		return nil, err
	}
	whole := string(text)
	for id, looks := range s.deleting {
		gateway := "<natGatewayId>" + id + "</natGatewayId><state>"
		if looks > 0 && strings.Contains(whole, gateway+"deleted") {
			whole = strings.Replace(whole, gateway+"deleted", gateway+"deleting", 1)
			s.deleting[id]--
		}
	}
	answer.Body, answer.ContentLength = io.NopCloser(strings.NewReader(whole)), int64(len(whole))
	answer.Header.Del("Content-Length")
	return answer, nil
}

// An address can belong to only one gateway.
func TestANATGatewayThatMovesKeepsItsAddress(t *testing.T) {
	server := awstest.Moto(t)
	strict := &strictNAT{moto: connect(t, server), deleting: map[string]int{}}
	api, err := awsapi.Connect(t.Context(), awsapi.Config{Region: server.Region, Endpoint: server.URL, HTTPClient: strict,
		Credentials: credentials.NewStaticCredentialsProvider(server.AccessKey, server.SecretKey, "")})
	if err != nil {
		t.Fatal(err)
	}
	c := NewClient(*api)
	e := ec2Engine(t, c)
	network := func(host string) *graph.Graph {
		vpc := VPCs.New("v", VPC{CIDR: "10.0.0.0/16", Tags: OwnedTags(testCluster, "v")})
		a := Subnets.New("a", Subnet{VPC: vpc.Out("id"), Zone: "us-east-1a", CIDR: "10.0.0.0/24", Tags: OwnedTags(testCluster, "a")})
		b := Subnets.New("b", Subnet{VPC: vpc.Out("id"), Zone: "us-east-1a", CIDR: "10.0.1.0/24", Tags: OwnedTags(testCluster, "b")})
		eip := ElasticIPs.New("e", ElasticIP{Domain: "vpc", Tags: OwnedTags(testCluster, "e")})
		nat := NATGateways.New("n", NATGateway{Allocation: eip.Out("id"), Subnet: resource.Out(resource.Address{Kind: Subnets.Name, Name: host}, "id"),
			Tags: OwnedTags(testCluster, "n")})
		table := RouteTables.New("t", RouteTable{VPC: vpc.Out("id"), Tags: OwnedTags(testCluster, "t")})
		var g graph.Graph
		if err := g.Add(vpc, a, b, eip, nat, table, Routes.New("r", Route{RouteTable: table.Out("id"), CIDR: "0.0.0.0/0", NATGateway: nat.Out("id")})); err != nil {
			t.Fatal(err)
		}
		return &g
	}
	e.Apply(testCluster, network("a"), false)
	was := observed(t, c, &NATGateways, resource.Scope{Cluster: testCluster})
	e.Apply(testCluster, network("b"), false)
	current := observed(t, c, &NATGateways, resource.Scope{Cluster: testCluster})
	if len(was) != 1 || len(current) != 1 || was[0].ID == current[0].ID || was[0].Allocation.String() != current[0].Allocation.String() {
		t.Errorf("the gateways were %+v and are %+v", was, current)
	}
	if len(strict.failed) > 0 {
		t.Errorf("a gateway was made while another had its address %v", strict.failed)
	}
	if got := changes(e.Plan(testCluster, network("b"), false)); len(got) != 0 {
		t.Errorf("after the move there is still to do: %v", got)
	}
}

func TestAnAddressThatAnotherGatewayHasIsWaitedFor(t *testing.T) {
	held := func(id, state, subnet, name, cluster, owner string) string {
		return "<natGatewaySet><item><natGatewayId>" + id + "</natGatewayId><state>" + state + "</state><subnetId>" + subnet + "</subnetId>" +
			"<natGatewayAddressSet><item><allocationId>eipalloc-1</allocationId></item></natGatewayAddressSet><tagSet>" +
			"<item><key>Name</key><value>" + name + "</value></item><item><key>KubernetesCluster</key><value>" + cluster + "</value></item>" +
			"<item><key>kubernetes.io/cluster/" + cluster + "</key><value>" + owner + "</value></item></tagSet></item></natGatewaySet>"
	}
	c := scripted(t, script{
		"DescribeNatGateways": {held("nat-2", "available", "subnet-2", "n", "other", Owned), held("nat-3", "available", "subnet-2", "m", testCluster, Owned),
			held("nat-4", "pending", "subnet-1", "n", testCluster, Owned), held("nat-5", "deleting", "subnet-1", "n", testCluster, Owned),
			held("nat-6", "available", "subnet-2", "n", testCluster, Shared), held("nat-7", "failed", "subnet-1", "n", testCluster, Owned)},
		"CreateNatGateway": {"<natGateway><natGatewayId>nat-1</natGatewayId></natGateway>"}, // the script allows no deletion
	})
	n := &NATGateway{Allocation: lit("eipalloc-1"), Subnet: lit("subnet-1"), Tags: OwnedTags(testCluster, "n")}
	for _, holder := range []string{"nat-2", "nat-3", "nat-4", "nat-5", "nat-6"} {
		if err := NATGateways.Create(t.Context(), c, n); !fault.Is(err, fault.NotYet) || !strings.Contains(err.Error(), holder) {
			t.Errorf("got %v", err)
		}
	}
	steps(t, func() error { return NATGateways.Create(t.Context(), c, n) }, "")
}

// A route that a spec no longer contains is removed when deletions are allowed; other routes in the
// same table remain, even one whose target has changed.
func TestAdditionalRoutesGoWhenTheyAreNoLongerWanted(t *testing.T) {
	c := connect(t, awstest.Moto(t))
	e := ec2Engine(t, c)
	other := build(t, c, &VPCs, VPC{CIDR: "10.8.0.0/16"})
	vpc := VPCs.New("v", VPC{CIDR: "10.0.0.0/16", Tags: OwnedTags(testCluster, "v")})
	table := RouteTables.New("t", RouteTable{VPC: vpc.Out("id"), Tags: OwnedTags(testCluster, "t")})
	network := func(target string, cidrs ...string) *graph.Graph {
		var g graph.Graph
		err := g.Add(vpc, table)
		for _, cidr := range cidrs {
			err = g.Add(Routes.New(cidr, Route{RouteTable: table.Out("id"), CIDR: cidr, Peering: lit(target), Recorded: target}))
		}
		if err != nil {
			t.Fatal(err)
		}
		return &g
	}
	e.Apply(testCluster, network(""), false)
	made := observed(t, c, &RouteTables, resource.Scope{Cluster: testCluster})[0]
	peer := func() string {
		o, err := c.EC2.CreateVpcPeeringConnection(t.Context(), &ec2.CreateVpcPeeringConnectionInput{VpcId: aws.String(made.VPC.Text()), PeerVpcId: &other.ID})
		if err != nil {
			t.Fatal(err)
		}
		return *o.VpcPeeringConnection.VpcPeeringConnectionId
	}
	ours, theirs := peer(), peer()
	all := network(ours, "10.8.0.0/20", "10.8.16.0/20", "10.8.32.0/20")
	e.Apply(testCluster, all, false)
	if got := changes(e.Plan(testCluster, all, false)); len(got) != 0 {
		t.Errorf("after an apply there is still to do: %v", got)
	}
	build(t, c, &Routes, Route{RouteTable: lit(made.ID), CIDR: "10.8.48.0/20", Peering: lit(ours)}) // created by a user
	taken := &Route{RouteTable: lit(made.ID), CIDR: "10.8.32.0/20", Peering: lit(theirs)}           // changed by a user
	if err := replaceRoute(t.Context(), c, taken, taken); err != nil {
		t.Fatal(err)
	}

	fewer := network(ours, "10.8.0.0/20")
	p := e.Plan(testCluster, fewer, false)
	if got := changes(p); len(got) != 0 || len(p.Deferred) != 1 || p.Deferred[0].Key != made.ID+" 10.8.16.0/20" {
		t.Errorf("without deletions there is to do %v, and deferred %+v", got, p.Deferred)
	}
	e.Prune = true
	e.Apply(testCluster, fewer, false)
	tables, err := routeTableDescriber.listOwned(t.Context(), c, resource.Scope{Cluster: testCluster})
	if err != nil {
		t.Fatal(err)
	}
	var left []string
	for _, d := range tables[0].Routes {
		if d.VpcPeeringConnectionId != nil {
			left = append(left, *d.DestinationCidrBlock)
		}
	}
	slices.Sort(left)
	if want := []string{"10.8.0.0/20", "10.8.32.0/20", "10.8.48.0/20"}; !slices.Equal(left, want) {
		t.Errorf("the routes left are %v, want %v", left, want)
	}
	if tags := tagMap(tables[0].Tags); tags[routeTagPrefix+"10.8.0.0/20"] != ours || tags[routeTagPrefix+"10.8.16.0/20"] != "" {
		t.Errorf("the table's tags are %v", tags)
	}
	if got := changes(e.Plan(testCluster, fewer, false)); len(got) != 0 {
		t.Errorf("after the deletion there is still to do: %v", got)
	}
}
