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

// ProjectMember gives an account a role in the project, and says nothing of who else has it.
type ProjectMember struct {
	Project string         `res:"forbid" tf:"project"`
	Role    string         `res:"forbid" tf:"role"`
	Member  resource.Value `res:"forbid" tf:"member"` // serviceAccount:EMAIL

	// Account is the email of an observed member, which must lose the role before the account goes.
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
		return give(ctx, c, m.Project, c.projectPolicy(m.Project), m.Role, m.Member.Text())
	},
	Delete: func(ctx context.Context, c *Client, m *ProjectMember) error {
		return fault.IgnoreGone(take(ctx, c, m.Project, c.projectPolicy(m.Project), m.Role, m.Member.Text()))
	},
}

// projectRoles are the roles that kops gives in a project. Others, somebody else gave.
var projectRoles = []string{"roles/container.serviceAgent"}

// listProjectMembers finds what the cluster's accounts, there or gone, may do in the project.
// A caller that may not read the policy, and wants no member, has none.
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

// BucketMember gives an account a role in a bucket, and says nothing of who else has it.
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
		return give(ctx, c, "b/"+m.Bucket, c.bucketPolicy(m.Bucket), m.Role, m.Member.Text())
	},
	Delete: func(ctx context.Context, c *Client, m *BucketMember) error {
		return fault.IgnoreGone(take(ctx, c, "b/"+m.Bucket, c.bucketPolicy(m.Bucket), m.Role, m.Member.Text()))
	},
}

// bucketRoles are the roles that kops gives in a bucket.
var bucketRoles = []string{"roles/storage.objectAdmin", "roles/storage.objectViewer"}

// listBucketMembers looks at the buckets of the wanted members, and at those that the client names.
// A bucket that is gone has none, and neither has one of which who asks may not see it: whether
// more is allowed shows when a member is added, which may be lenient.
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

// member is who has a role.
type member struct{ role, name string }

// membersOf finds the accounts of a cluster in a policy, and the wanted members, whose keys are their
// role and name. Where everything is asked for, no role is left.
func membersOf(ctx context.Context, c *Client, name string, of policyOf, s resource.Scope, roles []string) ([]member, error) {
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
			is := member{g.role, memberNow(m)}
			ours := slices.Contains(own, is.name) && (s.All || slices.Contains(roles, g.role) && m == is.name)
			if !g.conditional && (ours || m == is.name && slices.Contains(s.Names, is.role+" "+is.name)) && !slices.Contains(out, is) {
				out = append(out, is)
			}
		}
	}
	return out, nil
}

const accountMember = "serviceAccount:"

// memberNow is a member without what a policy adds to an account that is gone:
// deleted:serviceAccount:EMAIL?uid=NUMBER (IAM, "Policies and deleted principals").
func memberNow(m string) string {
	if rest, ok := strings.CutPrefix(m, "deleted:"); ok {
		m, _, _ = strings.Cut(rest, "?uid=")
	}
	return m
}

func emailOf(member string) string { return strings.TrimPrefix(member, accountMember) }
