package emulator

import (
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"kops.local/kops/internal/standin/tree"
)

// bucket is a Cloud Storage bucket, without its content.
type bucket struct {
	o      object
	policy policy
	acl    []object
}

func newBucket(b Bucket, project int64, now time.Time) *bucket {
	at := now.UTC().Format(time.RFC3339)
	return &bucket{policy: newPolicy(), o: object{"kind": "storage#bucket", "id": b.Name, "name": b.Name, "selfLink": "https://www.googleapis.com/storage/v1/b/" + b.Name, "projectNumber": strconv.FormatInt(project, 10),
		"metageneration": "1", "location": "US", "locationType": "multi-region", "storageClass": "STANDARD", "etag": "CAE=", "timeCreated": at, "updated": at,
		"iamConfiguration": object{"uniformBucketLevelAccess": object{"enabled": b.Uniform}, "bucketPolicyOnly": object{"enabled": b.Uniform}, "publicAccessPrevention": "inherited"}}}
}

var objectsPath = pattern(`^/storage/v1/b/[^/]+/o(/|$)`)

// isObjectPath reports whether a path is for the content of buckets: objects in the JSON API, or
// anything in the XML API.
func isObjectPath(path string) bool {
	if objectsPath().MatchString(path) {
		return true
	}
	for _, prefix := range []string{"/compute/", "/v1/", "/dns/", "/storage/v1/"} {
		if strings.HasPrefix(path, prefix) {
			return false
		}
	}
	return true
}

func storageHandlers() map[string]handler {
	return map[string]handler{
		"storage.buckets.get":                 onBucket(func(_ *call, b *bucket) (object, error) { return tree.Clone(b.o), nil }),
		"storage.buckets.getIamPolicy":        onBucket((*call).getBucketPolicy),
		"storage.buckets.setIamPolicy":        onBucket((*call).setBucketPolicy),
		"storage.buckets.testIamPermissions":  onBucket((*call).testBucket),
		"storage.bucketAccessControls.list":   onACL((*call).listACL),
		"storage.bucketAccessControls.get":    onACL(func(c *call, b *bucket) (object, error) { return b.aclEntry(c.params["entity"]) }),
		"storage.bucketAccessControls.insert": onACL((*call).setACL),
		"storage.bucketAccessControls.update": onACL((*call).setACL),
		"storage.bucketAccessControls.patch":  onACL((*call).setACL),
		"storage.bucketAccessControls.delete": onACL((*call).deleteACL),
	}
}

func onBucket(do func(*call, *bucket) (object, error)) handler {
	return func(c *call) (object, error) {
		if b := c.buckets[c.params["bucket"]]; b != nil {
			return do(c, b)
		}
		return nil, refusal(http.StatusNotFound, "notFound", "The specified bucket does not exist.")
	}
}

// onACL is like onBucket, for buckets with access control lists.
func onACL(do func(*call, *bucket) (object, error)) handler {
	return onBucket(func(c *call, b *bucket) (object, error) {
		if tree.Bool(tree.Sub(tree.Sub(b.o, "iamConfiguration"), "uniformBucketLevelAccess"), "enabled") {
			return nil, refusal(http.StatusBadRequest, "invalid", "Cannot use ACL API to update bucket policy when uniform bucket-level access is enabled. Read more at https://cloud.google.com/storage/docs/uniform-bucket-level-access")
		}
		return do(c, b)
	})
}

func (b *bucket) policyObject(version int64) object {
	o := b.policy.toObject(version)
	o["kind"], o["resourceId"] = "storage#policy", "projects/_/buckets/"+tree.Text(b.o, "name")
	return o
}

func (c *call) getBucketPolicy(b *bucket) (object, error) {
	version, _ := strconv.ParseInt(c.params["optionsRequestedPolicyVersion"], 10, 64) // a number, or not set
	return b.policyObject(version), nil
}

func (c *call) setBucketPolicy(b *bucket) (object, error) {
	if err := c.writePolicy(&b.policy, c.body, staleError("The policy has been changed since it was read.")); err != nil {
		return nil, err
	}
	return b.policyObject(conditional), nil
}

func (c *call) testBucket(*bucket) (object, error) {
	out := c.allowedPermissions(strings.Split(c.params["permissions"], ","))
	out["kind"] = "storage#testIamPermissionsResponse"
	return out, nil
}

func (b *bucket) aclEntry(entity string) (object, error) {
	for _, a := range b.acl {
		if a["entity"] == entity {
			return tree.Clone(a), nil
		}
	}
	return nil, refusal(http.StatusNotFound, "notFound", "The specified ACL entry %s does not exist.", entity)
}

func (c *call) listACL(b *bucket) (object, error) {
	out := object{"kind": "storage#bucketAccessControls"}
	if len(b.acl) > 0 {
		out["items"] = tree.Clone(tree.ListOf(b.acl))
	}
	return out, nil
}

// setACL grants an entity a role, replacing its previous one.
func (c *call) setACL(b *bucket) (object, error) {
	entity, role := c.params["entity"], tree.Text(c.body, "role")
	if entity == "" {
		entity = tree.Text(c.body, "entity")
	}
	switch {
	case entity == "":
		return nil, refusal(http.StatusBadRequest, "required", "Required")
	case !slices.Contains([]string{"OWNER", "WRITER", "READER"}, role):
		return nil, invalid("role", role, "Must be OWNER, WRITER or READER.")
	}
	if c.method.Verb != http.MethodPost {
		if _, err := b.aclEntry(entity); err != nil {
			return nil, err
		}
	}
	name := tree.Text(b.o, "name")
	o := object{"kind": "storage#bucketAccessControl", "bucket": name, "entity": entity, "role": role, "id": name + "/" + entity, "etag": "CAE=", "selfLink": tree.Text(b.o, "selfLink") + "/acl/" + entity}
	if _, email, ok := strings.Cut(entity, "-"); ok && strings.Contains(email, "@") {
		o["email"] = email
	}
	b.acl = append(slices.DeleteFunc(b.acl, func(a object) bool { return a["entity"] == entity }), o)
	return tree.Clone(o), nil
}

func (c *call) deleteACL(b *bucket) (object, error) {
	if _, err := b.aclEntry(c.params["entity"]); err != nil {
		return nil, err
	}
	b.acl = slices.DeleteFunc(b.acl, func(a object) bool { return a["entity"] == c.params["entity"] })
	return nil, nil
}
