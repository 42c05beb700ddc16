package kinds

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"kops.local/kops/internal/engine/fault"
	"kops.local/kops/internal/engine/observe"
	"kops.local/kops/internal/engine/resource"
	"kops.local/kops/internal/platform/gce/gcename"
)

// ProjectMember grants an account a role in the project, and does not affect other members.
type ProjectMember struct {
	Project string         `res:"forbid" tf:"project"`
	Role    string         `res:"forbid" tf:"role"`
	Member  resource.Value `res:"forbid" tf:"member"` // serviceAccount:EMAIL

	// Account is the email of an observed member, which must lose the role before the account is
	// deleted.
	Account resource.Value `res:"out"`
}

// ProjectMembers is the kind of ProjectMember.
var ProjectMembers = resource.Kind[ProjectMember, *Client]{
	Name:   "google_project_iam_member",
	API:    apiProjects,
	Tasks:  []string{"ProjectIAMBinding"},
	Early:  true,
	Key:    func(m *ProjectMember) string { return m.Role + " " + m.Member.Text() },
	Grants: func(*ProjectMember) bool { return true },
	List:   listProjectMembers,
	Create: func(ctx context.Context, c *Client, m *ProjectMember) error {
		return grantRole(ctx, c, m.Project, c.projectPolicy(m.Project), m.Role, m.Member.Text())
	},
	Delete: func(ctx context.Context, c *Client, m *ProjectMember) error {
		return fault.IgnoreGone(revokeRole(ctx, c, m.Project, c.projectPolicy(m.Project), m.Role, m.Member.Text()))
	},
}

// projectRoles are the project roles that kops grants. Other roles were granted by someone else.
var projectRoles = []string{"roles/container.serviceAgent"}

// listProjectMembers finds the roles that the cluster's accounts, existing or deleted, have in the
// project. If the caller may not read the policy, and wants no member, the result is empty.
func listProjectMembers(ctx context.Context, c *Client, s resource.Scope) ([]*ProjectMember, error) {
	found, err := membersOf(ctx, c, c.Project, c.projectPolicy(c.Project), s, projectRoles)
	if len(s.Names) == 0 && fault.Is(err, fault.Denied) {
		return nil, nil
	}
	var out []*ProjectMember
	for _, m := range found {
		out = append(out, &ProjectMember{Project: c.Project, Role: m.role, Member: resource.Lit(m.name), Account: resource.Lit(emailOf(m.name))})
	}
	return out, err
}

// BucketMember grants an account a role in a bucket, and does not affect other members.
type BucketMember struct {
	Bucket string         `res:"forbid" tf:"bucket"`
	Role   string         `res:"forbid" tf:"role"`
	Member resource.Value `res:"forbid" tf:"member"` // serviceAccount:EMAIL

	// Account is as in ProjectMember.
	Account resource.Value `res:"out"`
}

// BucketMembers is the kind of BucketMember.
var BucketMembers = resource.Kind[BucketMember, *Client]{
	Name:   "google_storage_bucket_iam_member",
	API:    apiStorage,
	Tasks:  []string{"StorageBucketIAM"},
	Key:    func(m *BucketMember) string { return m.Bucket + " " + m.Role + " " + m.Member.Text() },
	Grants: func(*BucketMember) bool { return true },
	List:   listBucketMembers,
	Create: func(ctx context.Context, c *Client, m *BucketMember) error {
		return grantRole(ctx, c, "b/"+m.Bucket, c.bucketPolicy(m.Bucket), m.Role, m.Member.Text())
	},
	Delete: func(ctx context.Context, c *Client, m *BucketMember) error {
		return fault.IgnoreGone(revokeRole(ctx, c, "b/"+m.Bucket, c.bucketPolicy(m.Bucket), m.Role, m.Member.Text()))
	},
}

// bucketRoles are the roles that kops grants in a bucket.
var bucketRoles = []string{"roles/storage.objectAdmin", "roles/storage.objectViewer"}

// listBucketMembers reads the policies of the wanted members' buckets, and of the client's Buckets.
// A bucket that does not exist, or whose policy the caller may not read, has no members: if more is
// allowed, adding a member shows it, and that may be lenient.
func listBucketMembers(ctx context.Context, c *Client, s resource.Scope) ([]*BucketMember, error) {
	buckets := slices.Clone(c.Buckets)
	for _, key := range s.Names {
		bucket, _, _ := strings.Cut(key, " ")
		buckets = append(buckets, bucket)
	}
	slices.Sort(buckets)
	return observe.EachOf(ctx, slices.Compact(buckets), func(ctx context.Context, b string) ([]*BucketMember, error) {
		scope := s
		scope.Names = nil
		for _, key := range s.Names {
			if rest, ok := strings.CutPrefix(key, b+" "); ok {
				scope.Names = append(scope.Names, rest)
			}
		}
		found, err := membersOf(ctx, c, "b/"+b, c.bucketPolicy(b), scope, bucketRoles)
		if fault.Is(err, fault.Gone) || fault.Is(err, fault.Denied) {
			return nil, nil
		}
		var out []*BucketMember
		for _, m := range found {
			out = append(out, &BucketMember{Bucket: b, Role: m.role, Member: resource.Lit(m.name), Account: resource.Lit(emailOf(m.name))})
		}
		return out, err
	})
}

// member is a member of a policy with one of its roles.
type member struct{ role, name string }

// membersOf finds the accounts of a cluster in a policy, with one of the roles or, with Scope.All,
// any role, and the wanted members, whose keys are their role and name.
func membersOf(ctx context.Context, c *Client, name string, of policySource, s resource.Scope, roles []string) ([]member, error) {
	p, err := readPolicy(ctx, c, name, of)
	if err != nil {
		return nil, fmt.Errorf("read the policy of %s: %w", name, err)
	}
	own := accountIDs(s.Cluster)
	for i, id := range own {
		own[i] = accountMember + gcename.AccountEmail(id, c.Project)
	}
	var out []member
	for _, g := range p.grants {
		for _, m := range *g.members {
			found := member{g.role, plainMember(m)}
			ours := slices.Contains(own, found.name) && (s.All || slices.Contains(roles, g.role) && m == found.name)
			if !g.conditional && (ours || m == found.name && slices.Contains(s.Names, found.role+" "+found.name)) && !slices.Contains(out, found) {
				out = append(out, found)
			}
		}
	}
	return out, nil
}

const accountMember = "serviceAccount:"

// plainMember strips what a policy adds to the member for a deleted account:
// deleted:serviceAccount:EMAIL?uid=NUMBER (IAM, "Policies and deleted principals").
func plainMember(m string) string {
	if rest, ok := strings.CutPrefix(m, "deleted:"); ok {
		m, _, _ = strings.Cut(rest, "?uid=")
	}
	return m
}

func emailOf(member string) string { return strings.TrimPrefix(member, accountMember) }
