package kinds

import (
	"testing"

	"github.com/aws/aws-sdk-go-v2/service/iam"

	"kops.local/kops/internal/engine/graph"
	"kops.local/kops/internal/engine/plan"
	"kops.local/kops/internal/engine/resource"
	"kops.local/kops/internal/platform/aws/awstest"
)

// A deletion knows only the cluster's name. Its plan must include everything and, executed in
// order, must not meet an object that is still in use.
func TestADeletionFindsEveryServiceObjectAndLeavesNothing(t *testing.T) {
	server := awstest.Moto(t)
	c := connect(t, server)
	keys := buildServices(t, c)
	add(t, c, keys, &OIDCProviders, OIDCProvider{URL: "https://k.example.com", ClientIDs: []string{"a"}, Thumbprints: []string{"9e99a48a9960b14926bb7f3b02e22da2b0ab7280"},
		Tags: OwnedTags(testCluster, "")})
	add(t, c, keys, &StoreKeySets, testStoreKeys())
	zone := testZone(t, c, "example.com.", "")
	add(t, c, keys, &DNSRecords, DNSRecord{ZoneID: zone, Name: "api." + testCluster, Type: "A",
		Alias: &DNSAlias{Name: lit("api-1.elb.amazonaws.com"), ZoneID: lit("Z2P70J7EXAMPLE")}})
	build(t, c, &IAMRoles, IAMRole{Name: "masters.x." + testCluster, AssumeRolePolicy: testTrust, Tags: OwnedTags("x."+testCluster, "other cluster")})

	kinds := []resource.Any{IAMRoles.Erase(), IAMRolePolicies.Erase(), IAMAttachments.Erase(), IAMProfiles.Erase(), OIDCProviders.Erase(),
		LoadBalancers.Erase(), TargetGroups.Erase(), Listeners.Erase(), AutoScalingGroups.Erase(), LifecycleHooks.Erase(),
		Queues.Erase(), EventRules.Erase(), EventTargets.Erase(), DNSRecords.Erase(), DNSPlaceholders.Erase(), ZoneAssociations.Erase(), StoreKeySets.Erase()}
	everything := func() plan.Snapshot {
		have, snapshot := plan.Snapshot{}, c.Snapshot()
		for _, k := range kinds {
			list, err := k.Observe(t.Context(), snapshot, resource.Scope{Cluster: testCluster, All: true})
			if err != nil {
				t.Fatal(err)
			}
			have[k.KindName()] = list
		}
		return have
	}
	have := everything()
	for _, k := range []string{IAMRoles.Name, IAMProfiles.Name, OIDCProviders.Name, LoadBalancers.Name, TargetGroups.Name, Listeners.Name,
		AutoScalingGroups.Name, Queues.Name, EventRules.Name, DNSRecords.Name, StoreKeySets.Name} {
		if len(have[k]) != len(keys[k]) {
			t.Errorf("%s: %d found, want %d", k, len(have[k]), len(keys[k]))
		}
	}
	p, err := plan.Make(&graph.Graph{}, have, kinds, plan.Options{Prune: true})
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range p.Steps {
		if err := s.Kind.Delete(t.Context(), c, s.Have); err != nil {
			t.Errorf("%s %s: %v", s.Op, s.Address, err)
		}
	}
	for kind, left := range everything() {
		for _, o := range left {
			t.Errorf("%s %s is left", kind, o.Key)
		}
	}
	out, err := c.IAM.ListRoles(t.Context(), &iam.ListRolesInput{})
	if err != nil {
		t.Fatal(err)
	}
	if len(out.Roles) != 1 || *out.Roles[0].RoleName != "masters.x."+testCluster {
		t.Errorf("roles left: %+v, want only the other cluster's", out.Roles)
	}
}
