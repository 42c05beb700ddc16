package kinds

import (
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/service/iam"

	"kops.local/kops/internal/engine/clock"
	"kops.local/kops/internal/engine/fault"
	"kops.local/kops/internal/engine/resource"
	"kops.local/kops/internal/test/kindtest"
)

const (
	testTrust  = `{"Version":"2012-10-17","Statement":[{"Effect":"Allow","Principal":{"Service":"ec2.amazonaws.com"},"Action":"sts:AssumeRole"}]}`
	testPolicy = `{"Version": "2012-10-17", "Statement": [{"Effect": "Allow", "Action": ["s3:Get*"], "Resource": "arn:aws:s3:::b+c/%2A d/*"}]}`
)

func testRole(t *testing.T, c *Client, name string) {
	t.Helper()
	build(t, c, &IAMRoles, IAMRole{Name: name, AssumeRolePolicy: testTrust, Tags: OwnedTags(testCluster, name)})
}

// testManagedPolicy creates a standalone policy.
func testManagedPolicy(t *testing.T, c *Client, name string) (arn string) {
	t.Helper()
	out, err := c.IAM.CreatePolicy(t.Context(), &iam.CreatePolicyInput{PolicyName: &name, PolicyDocument: new(testPolicy)})
	if err != nil {
		t.Fatal(err)
	}
	return *out.Policy.Arn
}

func liveRole(t *testing.T, c *Client) {
	name := "life." + testCluster
	kindtest.Run(t, &IAMRoles, c, kindtest.Life[IAMRole]{
		Cluster: testCluster,
		Want:    IAMRole{Name: name, AssumeRolePolicy: testTrust, Tags: tagged(name)},
		Changes: []kindtest.Change[IAMRole]{
			{Name: "trust", Do: func(r *IAMRole) {
				r.AssumeRolePolicy = strings.ReplaceAll(testTrust, "ec2.amazonaws.com", "ec2.amazonaws.com.cn")
			}},
			{Name: "boundary", Do: func(r *IAMRole) { r.PermissionsBoundary = "arn:aws:iam::123456789012:policy/b" }},
			{Name: "no boundary", Do: func(r *IAMRole) { r.PermissionsBoundary = "" }},
			{Name: "tags", Do: func(r *IAMRole) { retagged(r.Tags) }},
		},
	})
	t.Run("deletion takes what hangs on it", func(t *testing.T) {
		role := IAMRole{Name: "full." + testCluster, AssumeRolePolicy: testTrust, Tags: OwnedTags(testCluster, "full")}
		build(t, c, &IAMRoles, role)
		build(t, c, &IAMRolePolicies, IAMRolePolicy{Name: "p", Policy: testPolicy, Role: lit(role.Name)})
		build(t, c, &IAMAttachments, IAMAttachment{PolicyARN: testManagedPolicy(t, c, "hangs"), Role: lit(role.Name)})
		build(t, c, &IAMProfiles, IAMInstanceProfile{Name: role.Name, Role: lit(role.Name), Tags: OwnedTags(testCluster, "full")})
		if err := IAMRoles.Delete(t.Context(), c, &role); err != nil {
			t.Fatal(err)
		}
		if list := observed(t, c, &IAMRoles, resource.Scope{Cluster: testCluster, Names: []string{role.Name}}); len(list) != 0 {
			t.Errorf("the role is still there: %+v", list[0])
		}
	})
	t.Run("a role of that name that is not the cluster's is an error", func(t *testing.T) {
		other := "masters." + testCluster
		build(t, c, &IAMRoles, IAMRole{Name: other, AssumeRolePolicy: testTrust})
		_, err := listRoles(t.Context(), c, resource.Scope{Cluster: testCluster, Names: []string{other}})
		if !fault.Is(err, fault.Permanent) || fault.Remedy(err) == "" || !strings.Contains(err.Error(), other) {
			t.Errorf("got %v (%s), want an error that names the role and has a remedy", err, fault.Of(err))
		}
		for _, r := range observed(t, c, &IAMRoles, resource.Scope{Cluster: testCluster, All: true}) {
			if r.Name == other {
				t.Error("a deletion of the cluster would delete it")
			}
		}
		if err := deleteRole(t.Context(), c, &IAMRole{Name: other}); err != nil {
			t.Fatal(err)
		}
	})
	t.Run("a name that was cut is found for a deletion", func(t *testing.T) {
		cut := "aws-cloud-controller-manager.kube-system.sa.k.example.com-" + "abc123"
		cut = strings.Repeat("x", 64-len(cut)) + cut
		build(t, c, &IAMRoles, IAMRole{Name: cut, AssumeRolePolicy: testTrust, Tags: OwnedTags(testCluster, cut)})
		found := false
		for _, r := range observed(t, c, &IAMRoles, resource.Scope{Cluster: testCluster, All: true}) {
			found = found || r.Name == cut
		}
		if !found {
			t.Error("it was not found")
		}
	})
}

func liveRolePolicy(t *testing.T, c *Client) {
	role := "policy." + testCluster
	testRole(t, c, role)
	kindtest.Run(t, &IAMRolePolicies, c, kindtest.Life[IAMRolePolicy]{
		Cluster: testCluster,
		Want:    IAMRolePolicy{Name: role, Policy: testPolicy, Role: lit(role)},
		Changes: []kindtest.Change[IAMRolePolicy]{
			{Name: "document", Do: func(p *IAMRolePolicy) { p.Policy = strings.ReplaceAll(testPolicy, "Get", "List") }},
		},
		OnlyNamed: true,
	})
	t.Run("a policy that is no longer wanted is found on the nodes' role", func(t *testing.T) {
		testRole(t, c, "nodes."+testCluster)
		build(t, c, &IAMRolePolicies, IAMRolePolicy{Name: "additional.nodes." + testCluster, Policy: testPolicy, Role: lit("nodes." + testCluster)})
		list := observed(t, c, &IAMRolePolicies, resource.Scope{Cluster: testCluster})
		if len(list) != 1 || list[0].Name != "additional.nodes."+testCluster {
			t.Errorf("got %+v", list)
		}
		if err := deleteRole(t.Context(), c, &IAMRole{Name: "nodes." + testCluster}); err != nil {
			t.Fatal(err)
		}
	})
}

func liveAttachment(t *testing.T, c *Client) {
	role := "attached." + testCluster
	testRole(t, c, role)
	kindtest.Run(t, &IAMAttachments, c, kindtest.Life[IAMAttachment]{
		Cluster:   testCluster,
		Want:      IAMAttachment{PolicyARN: testManagedPolicy(t, c, "attached"), Role: lit(role)},
		OnlyNamed: true,
	})
	t.Run("a policy that does not exist fails at once", func(t *testing.T) {
		err := attachPolicy(t.Context(), c, &IAMAttachment{PolicyARN: "arn:aws:iam::123456789012:policy/none", Role: lit(role)})
		if !fault.Is(err, fault.Permanent) || fault.Remedy(err) == "" {
			t.Errorf("got %v (%s)", err, fault.Of(err))
		}
	})
	t.Run("a role that does not exist yet is waited for", func(t *testing.T) {
		err := attachPolicy(t.Context(), c, &IAMAttachment{PolicyARN: "arn:aws:iam::123456789012:policy/attached", Role: lit("none")})
		if !fault.Is(err, fault.NotYet) {
			t.Errorf("got %v (%s)", err, fault.Of(err))
		}
	})
}

func liveProfile(t *testing.T, c *Client) {
	name, other := "profile."+testCluster, "other."+testCluster
	testRole(t, c, name)
	testRole(t, c, other)
	kindtest.Run(t, &IAMProfiles, c, kindtest.Life[IAMInstanceProfile]{
		Cluster: testCluster,
		Want:    IAMInstanceProfile{Name: name, Role: lit(name), Tags: tagged(name)},
		Changes: []kindtest.Change[IAMInstanceProfile]{
			{Name: "other role", Do: func(p *IAMInstanceProfile) { p.Role = lit(other) }},
			{Name: "no role", Do: func(p *IAMInstanceProfile) { p.Role = resource.Value{} }},
			{Name: "tags", Do: func(p *IAMInstanceProfile) { retagged(p.Tags) }},
		},
		Unrepeated: map[string]string{
			"other role": "moto fails to remove a role that is no longer there",
			"no role":    "moto fails to remove a role that is no longer there",
		},
	})
	t.Run("adding a role twice is done", func(t *testing.T) {
		p := build(t, c, &IAMProfiles, IAMInstanceProfile{Name: name, Role: lit(name), Tags: tagged(name)})
		again := func() error { return setProfileRole(t.Context(), c, &IAMInstanceProfile{Name: name}, p) }
		if err := fault.Retry(t.Context(), clock.Sleep, again); err != nil { // a response may be lost
			t.Error(err)
		}
	})
	t.Run("a shared one is found by its ARN, whoever made it", func(t *testing.T) {
		p := build(t, c, &IAMProfiles, IAMInstanceProfile{Name: "custom"})
		list := observed(t, c, &IAMProfiles, resource.Scope{Cluster: testCluster, Adopted: []string{p.ARN}})
		if len(list) != 1 || list[0].ARN != p.ARN {
			t.Errorf("got %+v", list)
		}
	})
}

func liveOIDC(t *testing.T, c *Client) {
	kindtest.Run(t, &OIDCProviders, c, kindtest.Life[OIDCProvider]{
		Cluster: testCluster,
		Want: OIDCProvider{URL: "https://discovery.example.com/" + testCluster, ClientIDs: []string{"amazonaws.com"},
			Thumbprints: []string{strings.Repeat("9e", 20)}, Tags: tagged(testCluster)},
		Changes: []kindtest.Change[OIDCProvider]{
			{Name: "thumbprints", Do: func(p *OIDCProvider) {
				p.Thumbprints = []string{strings.Repeat("9e", 20), strings.Repeat("a9", 20)}
			}},
			{Name: "tags", Do: func(p *OIDCProvider) { retagged(p.Tags) }},
		},
		Untested: map[string]string{"ClientIDs": "moto has no AddClientIDToOpenIDConnectProvider"},
	})
}

func TestPolicyDocumentsAreComparedAsDocuments(t *testing.T) {
	schema := IAMRolePolicies.Erase().Schema()
	want := &IAMRolePolicy{Name: "p", Policy: "{\n  \"b\": [1, 2],\n  \"a\": \"x y\"\n}"}
	for have, same := range map[string]bool{
		`{"a":"x y","b":[1,2]}`: true,
		`{"a":"x y","b":[2,1]}`: false,
		`{"a":"x+y","b":[1,2]}`: false,
		``:                      false,
	} {
		got := len(schema.Diff(want, &IAMRolePolicy{Name: "p", Policy: have})) == 0
		if got != same {
			t.Errorf("%q: same = %v, want %v", have, got, same)
		}
	}
}

func TestKeysOfWhatIsOnARoleDoNotWaitForTheRole(t *testing.T) {
	role := IAMRoles.New("masters."+testCluster, IAMRole{Name: "masters." + testCluster})
	early := IAMRolePolicy{Name: "p", Role: role.Out("name")}
	late := IAMRolePolicy{Name: "p", Role: lit("masters." + testCluster)}
	if a, b := IAMRolePolicies.Key(&early), IAMRolePolicies.Key(&late); a != b {
		t.Errorf("%q before and %q after the role is known", a, b)
	}
}

func TestNamesThatMayBeTheClusters(t *testing.T) {
	for name, want := range map[string]bool{
		"masters.k.example.com":             true,
		"masters.x-k.example.com":           false,
		"nodes.k.example.com.other":         false,
		strings.Repeat("a", 57) + "-abcdef": true,
		strings.Repeat("a", 56) + "-abcdef": false,
		strings.Repeat("a", 64):             false,
	} {
		if got := mayBelong(name, testCluster); got != want {
			t.Errorf("%s: %v, want %v", name, got, want)
		}
	}
}
