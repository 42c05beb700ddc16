package gcerest_test

import (
	"errors"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"kops.local/kops/internal/engine/fault"
	"kops.local/kops/internal/platform/gce/gcerest"
	"kops.local/kops/internal/platform/gce/gcetest"
	"kops.local/kops/internal/platform/rest"
)

const zone = "projects/testproject/zones/us-test1-a"

// client returns a client on an instance of a project, and the project.
func client(t *testing.T) (gcerest.Client, *gcetest.Cloud) {
	t.Helper()
	c := gcetest.Start(t, map[string]string{"project/project-id": "testproject", "instance/zone": "projects/1/zones/us-test1-a", "instance/name": "self"})
	return gcerest.New(c.Env, http.DefaultClient, http.DefaultClient, time.Now), c
}

func TestAllPagesAreRead(t *testing.T) {
	c, cloud := client(t)
	for _, name := range []string{"a", "b", "c", "d", "e"} {
		labels := map[string]string{"k8s-io-cluster-name": "minimal-example-com"}
		if name == "c" {
			labels["k8s-io-cluster-name"] = "other-example-com"
		}
		cloud.Put("compute/v1/"+zone+"/instances/"+name, gcetest.Doc{"name": name, "labels": labels})
	}
	found, err := c.Instances(t.Context(), "testproject", "us-test1-a", "k8s-io-cluster-name", "minimal-example-com")
	var names []string
	for _, i := range found {
		names = append(names, i.Name)
	}
	if err != nil || !slices.Equal(names, []string{"a", "b", "d", "e"}) || len(cloud.Calls()) != 2 {
		t.Errorf("found %v, %v", names, err)
	}
	for _, z := range []string{"us-test1-a", "us-test1-b", "us-test10-a"} {
		cloud.Put("compute/v1/projects/testproject/zones/"+z, gcetest.Doc{"name": z})
	}
	if zones, err := c.Zones(t.Context(), "testproject", "us-test1"); err != nil || !slices.Equal(zones, []string{"us-test1-a", "us-test1-b"}) {
		t.Errorf("found the zones %v, %v", zones, err)
	}
}

// Errors from Google's documentation.
func TestErrorsHaveTheirClasses(t *testing.T) {
	c, cloud := client(t)
	for _, tt := range []struct {
		status int
		reason string
		want   fault.Class
	}{
		{404, "notFound", fault.Gone}, {403, "forbidden", fault.Denied}, {403, "insufficientPermissions", fault.Denied}, {403, "accessNotConfigured", fault.Denied},
		{403, "rateLimitExceeded", fault.Throttled}, {403, "userRateLimitExceeded", fault.Throttled}, {429, "", fault.Throttled},
		{403, "quotaExceeded", fault.Quota}, {409, "alreadyExists", fault.Conflict}, {412, "conditionNotMet", fault.Conflict},
		{400, "resourceInUseByAnotherResource", fault.Conflict}, {400, "resourceNotReady", fault.NotYet}, {400, "invalid", fault.Permanent},
		{401, "authError", fault.NotYet}, {500, "internalError", fault.NotYet}, {503, "backendError", fault.NotYet},
	} {
		cloud.Refuse = func(string) (int, string) { return tt.status, tt.reason }
		err := c.Get(t.Context(), gcerest.Compute, zone, nil, nil)
		var said *gcerest.Error
		if !fault.Is(err, tt.want) || !errors.As(err, &said) || said.Status != tt.status || said.Reason != tt.reason || !strings.Contains(err.Error(), "it is refused") {
			t.Errorf("%d %s is %s, not %s: %v", tt.status, tt.reason, fault.Of(err), tt.want, err)
		}
		if denied := fault.Of(err) == fault.Denied || fault.Of(err) == fault.Quota; denied != (fault.Remedy(err) != "") {
			t.Errorf("the remedy of %v is %q", err, fault.Remedy(err))
		}
	}
}

func TestAnAnswerThatIsNotGooglesIsAnError(t *testing.T) {
	_, cloud := client(t)
	cloud.Put("compute/v1/"+zone, gcetest.Doc{"name": 7})
	c := gcerest.New(cloud.Env, http.DefaultClient, http.DefaultClient, time.Now)
	var out struct {
		Name string `json:"name"`
	}
	if err := c.Get(t.Context(), gcerest.Compute, zone, nil, &out); !fault.Is(err, fault.NotYet) || !strings.Contains(err.Error(), "cannot parse") {
		t.Errorf("a number as a name: %v", err)
	}
	c.Endpoint = "http://127.0.0.1:1"
	if err := c.Get(t.Context(), gcerest.Compute, zone, nil, &out); !fault.Is(err, fault.NotYet) {
		t.Errorf("nobody answers: %v", err)
	}
}

func TestAChangeIsWaitedForAndFails(t *testing.T) {
	c, cloud := client(t)
	cloud.Put("compute/v1/"+zone+"/instances/self", gcetest.Doc{"name": "self"})
	cloud.Put("compute/v1/"+zone+"/disks/d", gcetest.Doc{"name": "d"})
	body := map[string]string{"source": zone + "/disks/d", "mode": "READ_WRITE"}
	attach := rest.Request{Method: http.MethodPost, Path: "instances/self/attachDisk", Body: body}
	if err := c.DoAndWait(t.Context(), zone, attach); err != nil {
		t.Fatal(err)
	}
	want := []string{"POST compute/v1/" + zone + "/instances/self/attachDisk", "POST compute/v1/" + zone + "/operations/operation-1/wait", "POST compute/v1/" + zone + "/operations/operation-1/wait"}
	if got := cloud.Calls(); !slices.Equal(got, want) {
		t.Errorf("called %v", got)
	}
	err := c.DoAndWait(t.Context(), zone, attach)
	if !fault.Is(err, fault.Conflict) || !strings.Contains(err.Error(), "already being used by") {
		t.Errorf("a second time: %v", err)
	}
	body["source"] = zone + "/disks/none"
	if err := c.DoAndWait(t.Context(), zone, attach); !fault.Is(err, fault.Gone) {
		t.Errorf("a disk that is not there: %v", err)
	}
}

func TestATokenIsUsedUntilShortlyBeforeItsEnd(t *testing.T) {
	cloud := gcetest.Start(t, nil)
	now := time.Date(2026, 8, 1, 12, 0, 0, 0, time.UTC)
	tokens := &gcerest.Tokens{Metadata: gcerest.NewMetadata(cloud.Env, http.DefaultClient), Now: func() time.Time { return now }}
	for _, tt := range []struct {
		after time.Duration
		want  string
	}{{0, "token-1"}, {3538 * time.Second, "token-1"}, {time.Second, "token-2"}, {time.Hour, "token-3"}} {
		now = now.Add(tt.after)
		if got, err := tokens.Token(t.Context()); err != nil || got != tt.want {
			t.Errorf("at %s it is %s, not %s: %v", now, got, tt.want, err)
		}
	}
}

func TestATokenThatIsRefusedIsNotUsedAgain(t *testing.T) {
	c, cloud := client(t)
	cloud.Put("compute/v1/"+zone, gcetest.Doc{"name": "us-test1-a"})
	ask := func() error { return c.Get(t.Context(), gcerest.Compute, zone, nil, nil) }
	if err := ask(); err != nil {
		t.Fatal(err)
	}
	first, _ := c.Token(t.Context())
	cloud.Refuse = func(string) (int, string) { return 401, "authError" }
	if err := ask(); !fault.Is(err, fault.NotYet) {
		t.Errorf("a token that is not good any more: %v", err)
	}
	cloud.Refuse = nil
	if err := ask(); err != nil {
		t.Error(err)
	}
	if second, err := c.Token(t.Context()); err != nil || second == first {
		t.Errorf("the token is still %s, %v", second, err)
	}
}

func TestAMachineKnowsWhichItIs(t *testing.T) {
	_, cloud := client(t)
	got, err := gcerest.NewMetadata(cloud.Env, http.DefaultClient).Machine(t.Context())
	if err != nil || got != (gcerest.Machine{Project: "testproject", Zone: "us-test1-a", Name: "self"}) {
		t.Errorf("it is %+v, %v", got, err)
	}
	none := gcetest.Start(t, nil)
	if _, err := gcerest.NewMetadata(none.Env, http.DefaultClient).Machine(t.Context()); !fault.Is(err, fault.NotYet) || !strings.Contains(err.Error(), "project/project-id") {
		t.Errorf("without metadata: %v", err)
	}
}
