package emulator_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	crm "google.golang.org/api/cloudresourcemanager/v1"
	"google.golang.org/api/compute/v1"
	"google.golang.org/api/dns/v1"
	"google.golang.org/api/iam/v1"
	"google.golang.org/api/option"
	"google.golang.org/api/storage/v1"

	"kops.local/kops/internal/platform/gce/emulator"
)

const parent = "projects/" + project

func (c *cloud) iam() *iam.ProjectsServiceAccountsService {
	c.Helper()
	s, err := iam.NewService(c.Context(), option.WithEndpoint(c.url), option.WithoutAuthentication())
	if err != nil {
		c.Fatal(err)
	}
	return s.Projects.ServiceAccounts
}

func (c *cloud) projects() *crm.ProjectsService {
	c.Helper()
	s, err := crm.NewService(c.Context(), option.WithEndpoint(c.url), option.WithoutAuthentication())
	if err != nil {
		c.Fatal(err)
	}
	return s.Projects
}

func (c *cloud) account(id string) *iam.ServiceAccount {
	c.Helper()
	a, err := c.iam().Create(parent, &iam.CreateServiceAccountRequest{AccountId: id, ServiceAccount: &iam.ServiceAccount{DisplayName: "d", Description: "e"}}).Do()
	if err != nil {
		c.Fatal(err)
	}
	return a
}

func TestAServiceAccountLives(t *testing.T) {
	c := play(t, emulator.Options{})
	accounts := c.iam()
	a := c.account("node-x")
	if a.Email != "node-x@testproject.iam.gserviceaccount.com" || a.Name != parent+"/serviceAccounts/"+a.Email || a.DisplayName != "d" || a.Description != "e" || a.UniqueId == "" {
		t.Errorf("got %+v", a)
	}
	_, err := accounts.Create(parent, &iam.CreateServiceAccountRequest{AccountId: "node-x"}).Do()
	c.checkRefused(err, 409, "alreadyExists", "Service account node-x already exists within project projects/testproject.")
	for _, id := range []string{"short", "Capitals", "ends-with-", strings.Repeat("x", 31), "1begins"} {
		_, err := accounts.Create(parent, &iam.CreateServiceAccountRequest{AccountId: id}).Do()
		c.checkRefused(err, 400, "badRequest", "length between 6 and 30")
	}
	for _, name := range []string{a.Name, "projects/-/serviceAccounts/" + a.Email, parent + "/serviceAccounts/" + a.UniqueId} {
		if got, err := accounts.Get(name).Do(); err != nil || got.Email != a.Email {
			t.Errorf("%s: got %+v, %v", name, got, err)
		}
	}
	if got, err := accounts.Update(a.Name, &iam.ServiceAccount{DisplayName: "other"}).Do(); err != nil || got.DisplayName != "other" || got.Description != "" || got.Etag == a.Etag {
		t.Errorf("got %+v, %v", got, err)
	}
	if got, err := accounts.Patch(a.Name, &iam.PatchServiceAccountRequest{ServiceAccount: &iam.ServiceAccount{Description: "new"}, UpdateMask: "description"}).Do(); err != nil || got.DisplayName != "other" || got.Description != "new" {
		t.Errorf("got %+v, %v", got, err)
	}
	for i := range 25 {
		c.account("more-x-" + string(rune('a'+i)))
	}
	pages, all := 0, 0
	if err := accounts.List(parent).Pages(t.Context(), func(l *iam.ListServiceAccountsResponse) error {
		pages++
		all += len(l.Accounts)
		return nil
	}); err != nil || pages != 2 || all != 27 {
		t.Errorf("got %d in %d pages, %v", all, pages, err)
	}
	if _, err := accounts.Delete(a.Name).Do(); err != nil {
		t.Fatal(err)
	}
	_, err = accounts.Get(a.Name).Do()
	c.checkRefused(err, 404, "notFound", "does not exist")
	_, err = accounts.Delete(a.Name).Do()
	c.checkRefused(err, 404, "notFound", "does not exist")
	c.Deny("iam.serviceAccounts.create")
	_, err = accounts.Create(parent, &iam.CreateServiceAccountRequest{AccountId: "denied"}).Do()
	c.checkRefused(err, 403, "forbidden", "Permission 'iam.serviceAccounts.create' denied on resource (or it may not exist).")
}

func TestAPolicyIsReadChangedAndWrittenBack(t *testing.T) {
	c := play(t, emulator.Options{})
	a := c.account("node-x")
	member := "serviceAccount:" + a.Email
	read := func(version int64) *crm.Policy {
		t.Helper()
		p, err := c.projects().GetIamPolicy(project, &crm.GetIamPolicyRequest{Options: &crm.GetPolicyOptions{RequestedPolicyVersion: version}}).Do()
		if err != nil {
			t.Fatal(err)
		}
		return p
	}
	write := func(p *crm.Policy) error {
		_, err := c.projects().SetIamPolicy(project, &crm.SetIamPolicyRequest{Policy: p}).Do()
		return err
	}
	old := read(3)
	p := read(3)
	p.Bindings = append(p.Bindings, &crm.Binding{Role: "roles/container.serviceAgent", Members: []string{member}})
	if err := write(p); err != nil {
		t.Fatal(err)
	}
	c.checkRefused(write(old), 409, "aborted", "concurrent policy changes")
	if got := read(3); len(got.Bindings) != 1 || !slices.Equal(got.Bindings[0].Members, []string{member}) || got.Etag == old.Etag {
		t.Errorf("got %+v", got)
	}
	p = read(3)
	p.Bindings = append(p.Bindings, &crm.Binding{Role: "roles/viewer", Members: []string{"user:u@example.com"}, Condition: &crm.Expr{Title: "t", Expression: "true"}})
	c.checkRefused(write(p), 400, "invalid", "version 3")
	p.Version = 3
	if err := write(p); err != nil {
		t.Fatal(err)
	}
	if got := read(3); got.Version != 3 || got.Bindings[1].Condition == nil {
		t.Errorf("got %+v", got)
	}
	if got := read(1); got.Version != 1 || got.Bindings[1].Condition != nil || !strings.HasPrefix(got.Bindings[1].Role, "roles/viewer_withcond_") {
		t.Errorf("got %+v", got.Bindings[1])
	}
	for _, m := range []string{"serviceAccount:none@testproject.iam.gserviceaccount.com", "someone", "serviceAccount:default"} {
		c.checkRefused(write(&crm.Policy{Bindings: []*crm.Binding{{Role: "roles/viewer", Members: []string{m}}}}), 400, "badRequest", "")
	}
	if got := c.Inventory(); !slices.Contains(got, "projects/testproject/policy/roles/container.serviceAgent/"+member) {
		t.Errorf("got %s", got)
	}
	if _, err := c.iam().Delete(a.Name).Do(); err != nil {
		t.Fatal(err)
	}
	if got := read(3).Bindings[0].Members[0]; got != "deleted:"+member+"?uid="+a.UniqueId {
		t.Errorf("got %s", got)
	}
	if got, err := c.projects().Get(project).Do(); err != nil || got.ProjectNumber != 100000000000 {
		t.Errorf("got %+v, %v", got, err)
	}
	c.Deny("compute.networks.create")
	if got, err := c.projects().TestIamPermissions(project, &crm.TestIamPermissionsRequest{Permissions: []string{"compute.networks.create", "compute.networks.get"}}).Do(); err != nil || !slices.Equal(got.Permissions, []string{"compute.networks.get"}) {
		t.Errorf("got %+v, %v", got, err)
	}
	_, err := c.projects().GetIamPolicy("other-project", &crm.GetIamPolicyRequest{}).Do()
	c.checkRefused(err, 403, "forbidden", "The caller does not have permission")
}

func TestANewAccountIsNotKnownAtOnce(t *testing.T) {
	c := play(t, emulator.Options{AccountDelay: 10 * time.Second})
	c.network()
	a := c.account("node-x")
	set := func() error {
		_, err := c.projects().SetIamPolicy(project, &crm.SetIamPolicyRequest{Policy: &crm.Policy{Bindings: []*crm.Binding{{Role: "roles/viewer", Members: []string{"serviceAccount:" + a.Email}}}}}).Do()
		return err
	}
	insert := func() error {
		i := machine("i")
		i.ServiceAccounts = []*compute.ServiceAccount{{Email: a.Email, Scopes: []string{compute.CloudPlatformScope}}}
		_, err := c.Instances.Insert(project, zone, i).Do()
		return err
	}
	c.checkRefused(set(), 400, "badRequest", "does not exist")
	c.checkRefused(insert(), 400, "invalid", "service account")
	c.clock.Sleep(t.Context(), 10*time.Second)
	if err := set(); err != nil {
		t.Error(err)
	}
	if err := insert(); err != nil {
		t.Error(err)
	}
}

func TestRecordsChangeAllOrNone(t *testing.T) {
	c := play(t, emulator.Options{DNSZones: []emulator.DNSZone{{Name: "b-example", DNSName: "example.com.", ID: 7}, {Name: "a-internal", DNSName: "internal.example.com.", Private: true}, {Name: "c-other", DNSName: "other.org."}}})
	s, err := dns.NewService(t.Context(), option.WithEndpoint(c.url), option.WithoutAuthentication())
	if err != nil {
		t.Fatal(err)
	}
	pages, zones := 0, []string{}
	if err := s.ManagedZones.List(project).MaxResults(2).Pages(t.Context(), func(l *dns.ManagedZonesListResponse) error {
		pages++
		for _, z := range l.ManagedZones {
			zones = append(zones, z.Name+" "+z.Visibility)
		}
		return nil
	}); err != nil || pages != 2 || !slices.Equal(zones, []string{"a-internal private", "b-example public", "c-other public"}) {
		t.Errorf("got %s in %d pages, %v", zones, pages, err)
	}
	if z, err := s.ManagedZones.Get(project, "7").Do(); err != nil || z.Name != "b-example" || z.Id != 7 || z.DnsName != "example.com." {
		t.Errorf("got %+v, %v", z, err)
	}
	record := func(name, kind string, ttl int64, data ...string) *dns.ResourceRecordSet {
		return &dns.ResourceRecordSet{Name: name, Type: kind, Ttl: ttl, Rrdatas: data}
	}
	change := func(additions, deletions []*dns.ResourceRecordSet) error {
		_, err := s.Changes.Create(project, "b-example", &dns.Change{Additions: additions, Deletions: deletions}).Do()
		return err
	}
	one := func(r *dns.ResourceRecordSet) []*dns.ResourceRecordSet { return []*dns.ResourceRecordSet{r} }
	api := record("api.example.com.", "A", 60, "203.0.113.1")
	if err := change(one(api), nil); err != nil {
		t.Fatal(err)
	}
	c.checkRefused(change(one(api), nil), 409, "alreadyExists", "The resource 'entity.change.additions[0]' named 'api.example.com. (A)' already exists")
	c.checkRefused(change(one(record("x.example.com.", "A", 1, "10.0.0.1")), one(record("api.example.com.", "A", 61, "203.0.113.1"))), 412, "conditionNotMet", "Precondition not met for 'entity.change.deletions[0]'")
	c.checkRefused(change(nil, one(record("api.example.com.", "A", 60, "203.0.113.2"))), 412, "conditionNotMet", "")
	c.checkRefused(change(nil, one(record("none.example.com.", "A", 60, "203.0.113.2"))), 404, "notFound", "named 'none.example.com. (A)' does not exist")
	c.checkRefused(change(one(record("api.example.com", "A", 60, "203.0.113.2")), nil), 400, "invalid", "end with a dot")
	c.checkRefused(change(one(record("api.example.org.", "A", 60, "203.0.113.2")), nil), 400, "invalid", "not in the zone")
	c.checkRefused(change(one(record("y.example.com.", "A", 60, "fd00::1")), nil), 400, "invalid", "not of type A")
	c.checkRefused(change(one(record("api.example.com.", "CNAME", 60, "www.example.com.")), nil), 400, "cnameResourceRecordSetConflict", "")
	c.checkRefused(change(nil, nil), 400, "required", "")
	list, err := s.ResourceRecordSets.List(project, "b-example").Do()
	if err != nil || len(list.Rrsets) != 3 {
		t.Errorf("what was refused took effect: %+v, %v", list, err)
	}
	made, err := s.Changes.Create(project, "b-example", &dns.Change{Deletions: one(api), Additions: one(record("api.example.com.", "A", 60, "203.0.113.9", "203.0.113.8"))}).Do()
	if err != nil || made.Status != "pending" {
		t.Fatalf("got %+v, %v", made, err)
	}
	c.clock.Sleep(t.Context(), time.Minute)
	if made, err = s.Changes.Get(project, "b-example", made.Id).Do(); err != nil || made.Status != "done" {
		t.Errorf("got %+v, %v", made, err)
	}
	if list, err = s.ResourceRecordSets.List(project, "7").Name("api.example.com.").Type("A").Do(); err != nil || len(list.Rrsets) != 1 || list.Rrsets[0].Rrdatas[0] != "203.0.113.9" {
		t.Errorf("got %+v, %v", list, err)
	}
	if got := c.Inventory(); !slices.Equal(got, []string{"projects/testproject/managedZones/b-example/rrsets/api.example.com./A"}) {
		t.Errorf("got %s", got)
	}
	if err := change(nil, one(record("api.example.com.", "A", 60, "203.0.113.8", "203.0.113.9"))); err != nil {
		t.Errorf("the order of the records counts: %v", err)
	}
	_, err = s.ResourceRecordSets.List(project, "none").Do()
	c.checkRefused(err, 404, "notFound", "'parameters.managedZone' resource named 'none'")
}

func TestBucketsHavePoliciesAndLists(t *testing.T) {
	c := play(t, emulator.Options{Buckets: []emulator.Bucket{{Name: "state"}, {Name: "uniform", Uniform: true}}})
	s, err := storage.NewService(t.Context(), option.WithEndpoint(c.url+"/storage/v1/"), option.WithoutAuthentication())
	if err != nil {
		t.Fatal(err)
	}
	b, err := s.Buckets.Get("uniform").Do()
	if err != nil || !b.IamConfiguration.UniformBucketLevelAccess.Enabled || b.Location != "US" {
		t.Errorf("got %+v, %v", b, err)
	}
	_, err = s.Buckets.Get("none").Do()
	c.checkRefused(err, 404, "notFound", "The specified bucket does not exist.")
	p, err := s.Buckets.GetIamPolicy("state").OptionsRequestedPolicyVersion(3).Do()
	if err != nil {
		t.Fatal(err)
	}
	first := storage.Policy{Etag: p.Etag, Bindings: []*storage.PolicyBindings{{Role: "roles/storage.admin", Members: []string{"user:u@example.com"}}}}
	p.Bindings = append(p.Bindings, &storage.PolicyBindings{Role: "roles/storage.objectViewer", Members: []string{"allUsers"}})
	if p, err = s.Buckets.SetIamPolicy("state", p).Do(); err != nil || len(p.Bindings) != 1 {
		t.Errorf("got %+v, %v", p, err)
	}
	_, err = s.Buckets.SetIamPolicy("state", &first).Do()
	c.checkRefused(err, 412, "conditionNotMet", "")
	if _, err := s.BucketAccessControls.Insert("state", &storage.BucketAccessControl{Entity: "user-100000000000-compute@developer.gserviceaccount.com", Role: "READER"}).Do(); err != nil {
		t.Fatal(err)
	}
	if l, err := s.BucketAccessControls.List("state").Do(); err != nil || len(l.Items) != 1 || l.Items[0].Email != "100000000000-compute@developer.gserviceaccount.com" {
		t.Errorf("got %+v, %v", l, err)
	}
	c.Deny("storage.buckets.update")
	if got, err := s.Buckets.TestIamPermissions("state", []string{"storage.buckets.get", "storage.buckets.update"}).Do(); err != nil || !slices.Equal(got.Permissions, []string{"storage.buckets.get"}) {
		t.Errorf("got %+v, %v", got, err)
	}
	_, err = s.BucketAccessControls.List("uniform").Do()
	c.checkRefused(err, 400, "invalid", "uniform bucket-level access")
	if err := s.BucketAccessControls.Delete("state", "user-100000000000-compute@developer.gserviceaccount.com").Do(); err != nil {
		t.Error(err)
	}
	err = s.BucketAccessControls.Delete("state", "allUsers").Do()
	c.checkRefused(err, 404, "notFound", "allUsers")
}
