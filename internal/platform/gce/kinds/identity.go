package kinds

import "kops.local/kops/internal/engine/resource"

// ServiceAccount is what machines act as.
type ServiceAccount struct {
	AccountID   string `res:"forbid" tf:"account_id"` // 6 to 30 characters
	Project     string `res:"forbid" tf:"project"`
	Description string `tf:"description"`
	DisplayName string `tf:"display_name"`

	// Email is ACCOUNT@PROJECT.iam.gserviceaccount.com.
	Email string `res:"out,id" out:"email"`
}

// ServiceAccounts is the kind of ServiceAccount. A shared one is adopted by its email.
var ServiceAccounts = resource.Kind[ServiceAccount, *Client]{
	Name:  "google_service_account",
	API:   apiIAM,
	Tasks: []string{"ServiceAccount"},
	Key:   func(a *ServiceAccount) string { return a.AccountID },
}

// ProjectMember gives an account a role in the project, and says nothing of who else has it.
type ProjectMember struct {
	Project string         `res:"forbid" tf:"project"`
	Role    string         `res:"forbid" tf:"role"`
	Member  resource.Value `res:"forbid" tf:"member"` // serviceAccount:EMAIL
}

// ProjectMembers is the kind of ProjectMember.
var ProjectMembers = resource.Kind[ProjectMember, *Client]{
	Name:   "google_project_iam_member",
	API:    apiProjects,
	Tasks:  []string{"ProjectIAMBinding"},
	Key:    func(m *ProjectMember) string { return m.Role + " " + known(m.Member) },
	Grants: func(*ProjectMember) bool { return true },
}

// BucketMember gives an account a role in a bucket, and says nothing of who else has it.
type BucketMember struct {
	Bucket string         `res:"forbid" tf:"bucket"`
	Role   string         `res:"forbid" tf:"role"`
	Member resource.Value `res:"forbid" tf:"member"` // serviceAccount:EMAIL
}

// BucketMembers is the kind of BucketMember.
var BucketMembers = resource.Kind[BucketMember, *Client]{
	Name:   "google_storage_bucket_iam_member",
	API:    apiStorage,
	Tasks:  []string{"StorageBucketIAM"},
	Key:    func(m *BucketMember) string { return m.Bucket + " " + m.Role + " " + known(m.Member) },
	Grants: func(*BucketMember) bool { return true },
}
