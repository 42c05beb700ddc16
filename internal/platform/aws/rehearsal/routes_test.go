package rehearsal

import (
	"maps"
	"net/http/httptest"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"
)

// TestARouteToAnInstanceThatEnded checks that such a route is a black hole, and that no other is.
func TestARouteToAnInstanceThatEnded(t *testing.T) {
	p := newPlaying(t)
	server := httptest.NewServer(p.as.Handler)
	t.Cleanup(server.Close)
	user := ec2.New(ec2.Options{Region: Region, BaseEndpoint: &server.URL, Credentials: credentials.NewStaticCredentialsProvider(accessKey, secretKey, "")})
	p.role("nodes.c")
	table, err := user.CreateRouteTable(t.Context(), &ec2.CreateRouteTableInput{VpcId: &p.vpc})
	p.ok(err)
	ids := map[string]string{"100.96.1.0/24": p.instance("#!/bin/sh\n"), "100.96.2.0/24": p.instance("#!/bin/sh\n")}
	for to, id := range ids {
		_, err := user.CreateRoute(t.Context(), &ec2.CreateRouteInput{RouteTableId: table.RouteTable.RouteTableId, DestinationCidrBlock: &to, InstanceId: &id})
		p.ok(err)
	}
	states := func() map[string]types.RouteState {
		t.Helper()
		p.ok(p.sync(t.Context()))
		found, err := user.DescribeRouteTables(t.Context(), &ec2.DescribeRouteTablesInput{RouteTableIds: []string{*table.RouteTable.RouteTableId}})
		p.ok(err)
		out := map[string]types.RouteState{}
		for _, r := range found.RouteTables[0].Routes {
			if r.InstanceId != nil {
				out[aws.ToString(r.DestinationCidrBlock)] = r.State
			}
		}
		return out
	}
	if got, want := states(), map[string]types.RouteState{"100.96.1.0/24": "active", "100.96.2.0/24": "active"}; !maps.Equal(got, want) || len(p.host.Ranges) != 2 {
		t.Errorf("at first the routes are %v, and those of the host %v", got, p.host.Ranges)
	}
	_, err = user.TerminateInstances(t.Context(), &ec2.TerminateInstancesInput{InstanceIds: []string{ids["100.96.1.0/24"]}})
	p.ok(err)
	if got, want := states(), map[string]types.RouteState{"100.96.1.0/24": "blackhole", "100.96.2.0/24": "active"}; !maps.Equal(got, want) || p.host.Ranges["100.96.1.0/24"] != "" || len(p.host.Ranges) != 1 {
		t.Errorf("then the routes are %v, and those of the host %v", got, p.host.Ranges)
	}
}
