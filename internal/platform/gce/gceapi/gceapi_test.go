package gceapi_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/api/compute/v1"
	"google.golang.org/api/iam/v1"

	"kops.local/kops/internal/engine/fault"
	"kops.local/kops/internal/platform/gce/gceapi"
)

// server responds as the test says, and records the requests.
type server struct {
	mu     sync.Mutex
	asked  []*http.Request
	bodies []string
	answer func(n int, w http.ResponseWriter, r *http.Request)
}

func (s *server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body) // sent by the test
	s.mu.Lock()
	s.asked, s.bodies = append(s.asked, r), append(s.bodies, string(body))
	n := len(s.asked) - 1
	s.mu.Unlock()
	s.answer(n, w, r)
}

// connect returns clients for a server, which do not sleep.
func connect(t *testing.T, s *server) *gceapi.Clients {
	t.Helper()
	h := httptest.NewServer(s)
	t.Cleanup(h.Close)
	c, err := gceapi.Connect(t.Context(), gceapi.Config{Project: "p", Region: "r", Endpoint: h.URL, UserAgent: "kops/1",
		Sleep: func(ctx context.Context, _ time.Duration) error { return ctx.Err() }})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func answers(status int, body string) func(int, http.ResponseWriter, *http.Request) {
	return func(_ int, w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(status)
		_, _ = io.WriteString(w, body) // the client may be gone
	}
}

// refusal returns an error in Compute Engine's form.
func refusal(status int, reason, message string) string {
	return fmt.Sprintf(`{"error": {"code": %d, "message": %q, "errors": [{"message": %q, "domain": "global", "reason": %q}]}}`, status, message, message, reason)
}

func get(c *gceapi.Clients) error {
	_, err := gceapi.Result(c.Compute.Networks.Get("p", "n").Do())
	return err
}

func insert(c *gceapi.Clients) error {
	return c.Await(context.Background())(c.Compute.Networks.Insert("p", &compute.Network{Name: "n"}).Do())
}

func remove(c *gceapi.Clients) error {
	return c.Await(context.Background())(c.Compute.Networks.Delete("p", "n").Do())
}

func TestErrorsHaveAClassAndARemedy(t *testing.T) {
	for _, tc := range []struct {
		name         string
		call         func(*gceapi.Clients) error
		status       int
		body         string
		want         fault.Class
		text, remedy string // substrings
	}{
		{"not there", get, 404, refusal(404, "notFound", "The resource 'projects/p/global/networks/n' was not found"), fault.Gone, "notFound: The resource", ""},
		{"deleted twice", remove, 404, refusal(404, "notFound", "x"), fault.Gone, "", ""},
		{"what it refers to is not there", insert, 404, refusal(404, "notFound", "The resource 'projects/x/global/images/i' was not found"), fault.Gone, "", "check the name"},
		{"a name that is taken", insert, 409, refusal(409, "alreadyExists", "x"), fault.Taken, "", "choose another name"},
		{"in use", remove, 400, refusal(400, "resourceInUseByAnotherResource", "x"), fault.Conflict, "", ""},
		{"in use, with the newer status", remove, 409, refusal(409, "RESOURCE_IN_USE_BY_ANOTHER_RESOURCE", "x"), fault.Conflict, "", ""},
		{"a stale fingerprint", insert, 412, refusal(412, "conditionNotMet", "x"), fault.Conflict, "", ""},
		{"not ready", insert, 400, refusal(400, "resourceNotReady", "x"), fault.NotYet, "", ""},
		{"too much", insert, 403, refusal(403, "quotaExceeded", "Quota 'NETWORKS' exceeded.  Limit: 5.0 globally."), fault.Quota, "", "a higher limit of NETWORKS"},
		{"too often", get, 403, refusal(403, "rateLimitExceeded", "x"), fault.Throttled, "", ""},
		{"too often, in HTTP's words", insert, 429, `{}`, fault.Throttled, "", ""},
		{"too many accounts", createAccount, 429, `{"error":{"code":429,"message":"Maximum number of service accounts on project reached.","status":"RESOURCE_EXHAUSTED"}}`, fault.Quota, "", "a higher limit"},
		{"no capacity", insert, 503, refusal(503, "ZONE_RESOURCE_POOL_EXHAUSTED_WITH_DETAILS", "x"), fault.Quota, "", "another zone"},
		{"not allowed", insert, 403, refusal(403, "forbidden", "Required 'compute.networks.create' permission for 'projects/p/global/networks/n'"), fault.Denied, "", "the permission compute.networks.create"},
		{"not allowed, in IAM's words", createAccount, 403, `{"error":{"code":403,"message":"Permission 'iam.serviceAccounts.create' denied on resource (or it may not exist).","status":"PERMISSION_DENIED",
			"details":[{"@type":"type.googleapis.com/google.rpc.ErrorInfo","reason":"IAM_PERMISSION_DENIED","domain":"iam.googleapis.com","metadata":{"permission":"iam.serviceAccounts.create"}}]}}`,
			fault.Denied, "", "the permission iam.serviceAccounts.create"},
		{"an API that is off", createAccount, 403, `{"error":{"code":403,"message":"x","status":"PERMISSION_DENIED","details":[{"reason":"SERVICE_DISABLED","metadata":{"service":"iam.googleapis.com"}}]}}`,
			fault.Denied, "", "gcloud services enable iam.googleapis.com --project p"},
		{"an API that is off, in the older words", get, 403, refusal(403, "accessNotConfigured", "x"), fault.Denied, "", "enable the API"},
		{"nobody", get, 401, refusal(401, "authError", "Invalid Credentials"), fault.Denied, "", "gcloud auth application-default login"},
		{"a server that is busy", get, 503, refusal(503, "backendError", "x"), fault.Throttled, "", ""},
		{"a write to a server that is busy", insert, 503, refusal(503, "backendError", "x"), fault.Lost, "", ""},
		{"a proxy's page", insert, 502, "<html>", fault.Lost, "the service returned 502", ""},
		{"an answer that breaks off", get, 200, `{"name": "n`, fault.Lost, "", ""},
		{"a bad value", insert, 400, refusal(400, "invalid", "Invalid value for field 'resource.name'"), fault.Permanent, "", ""},
		{"a new account", insert, 400, refusal(400, "badRequest", "Service account a@p.iam.gserviceaccount.com does not exist."), fault.NotYet, "", ""},
		{"what is not there at all", get, 501, `{}`, fault.Permanent, "", ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			err := tc.call(connect(t, &server{answer: answers(tc.status, tc.body)}))
			if fault.Of(err) != tc.want || !strings.Contains(fault.Remedy(err), tc.remedy) || !strings.Contains(err.Error(), tc.text) {
				t.Errorf("got %v, %s, %q", err, fault.Of(err), fault.Remedy(err))
			}
			if strings.Contains(err.Error(), "http") {
				t.Errorf("the error tells how it was asked: %v", err)
			}
			var classed *fault.Error
			if !errors.As(err, &classed) {
				t.Error("nobody classed it")
			}
		})
	}
}

func createAccount(c *gceapi.Clients) error {
	_, err := gceapi.Result(c.IAM.Projects.ServiceAccounts.Create("projects/p", &iam.CreateServiceAccountRequest{}).Do())
	return err
}

func TestABrokenConnectionIsALostAnswer(t *testing.T) {
	for name, call := range map[string]func(*gceapi.Clients) error{"a read": get, "a write": insert} {
		err := call(connect(t, &server{answer: func(int, http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }}))
		if !fault.Is(err, fault.Lost) || !strings.HasPrefix(err.Error(), "connect to Google Cloud: ") {
			t.Errorf("%s: %v (%s)", name, err, fault.Of(err))
		}
	}
}

func TestCredentialsAreLookedForWithTheFirstRequest(t *testing.T) {
	t.Setenv("GOOGLE_APPLICATION_CREDENTIALS", t.TempDir()+"/none.json")
	sent := 0
	c, err := gceapi.Connect(t.Context(), gceapi.Config{Project: "p", Region: "r", HTTPClient: &http.Client{Transport: roundTripper(func(*http.Request) (*http.Response, error) {
		sent++
		return nil, errors.New("not to be reached")
	})}})
	if err != nil {
		t.Fatal(err)
	}
	err = insert(c)
	if !fault.Is(err, fault.Denied) || !strings.HasPrefix(err.Error(), "find Google Cloud credentials: ") || !strings.Contains(fault.Remedy(err), "gcloud auth") || sent > 0 {
		t.Errorf("got %v (%s), %q, after %d requests", err, fault.Of(err), fault.Remedy(err), sent)
	}
}

func TestASignedClientIsUsedAsItIs(t *testing.T) {
	t.Setenv("GOOGLE_APPLICATION_CREDENTIALS", t.TempDir()+"/none.json")
	host := ""
	c, err := gceapi.Connect(t.Context(), gceapi.Config{Project: "p", Region: "r", Signed: true, HTTPClient: &http.Client{Transport: roundTripper(func(q *http.Request) (*http.Response, error) {
		host = q.URL.Host
		return &http.Response{StatusCode: http.StatusOK, Header: http.Header{}, Body: io.NopCloser(strings.NewReader("{}")), Request: q}, nil
	})}})
	if err == nil {
		err = get(c)
	}
	if err != nil || host != "compute.googleapis.com" {
		t.Errorf("asked %q: %v", host, err)
	}
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(q *http.Request) (*http.Response, error) { return f(q) }

func TestACancelledCallReturnsTheErrorOfItsContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	c := connect(t, &server{answer: func(_ int, _ http.ResponseWriter, r *http.Request) { cancel(); <-r.Context().Done() }})
	if _, err := gceapi.Result(c.Compute.Networks.Get("p", "n").Context(ctx).Do()); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
}

// operation returns a zonal operation, in which Google uses the same host whatever the request's
// host.
func operation(status, more string) string {
	return `{"status": "` + status + `", "selfLink": "https://www.googleapis.com/compute/v1/projects/p/zones/z-a/operations/o"` + more + `}`
}

func TestAWriteIsDoneWhenItsOperationIs(t *testing.T) {
	s := &server{answer: func(n int, w http.ResponseWriter, r *http.Request) {
		switch n {
		case 0:
			answers(200, operation("PENDING", ""))(n, w, r)
		case 1:
			answers(503, refusal(503, "backendError", "x"))(n, w, r) // a failed poll is retried
		case 2:
			answers(200, operation("RUNNING", ""))(n, w, r)
		default:
			answers(200, operation("DONE", ""))(n, w, r)
		}
	}}
	c := connect(t, s)
	if err := c.Await(t.Context())(c.Compute.Disks.Delete("p", "z-a", "d").Do()); err != nil {
		t.Fatal(err)
	}
	if len(s.asked) != 4 || s.asked[3].URL.Path != "/compute/v1/projects/p/zones/z-a/operations/o/wait" {
		t.Errorf("asked %d times, last for %s", len(s.asked), s.asked[len(s.asked)-1].URL)
	}
	if agent := s.asked[0].UserAgent(); !strings.Contains(agent, "kops/1") {
		t.Errorf("the user agent is %q", agent)
	}
}

func TestTheErrorOfAnOperationHasTheClassOfOneOfACall(t *testing.T) {
	for _, tc := range []struct {
		code, more string
		want       fault.Class
		remedy     string
	}{
		{"RESOURCE_IN_USE_BY_ANOTHER_RESOURCE", "", fault.Conflict, ""},
		{"QUOTA_EXCEEDED", `, "errorDetails": [{"quotaInfo": {"metricName": "compute.googleapis.com/cpus", "limit": 8}}]`, fault.Quota, "of compute.googleapis.com/cpus, now 8"},
		{"ZONE_RESOURCE_POOL_EXHAUSTED", "", fault.Quota, "another zone"},
		{"RESOURCE_NOT_READY", "", fault.NotYet, ""},
		{"RESOURCE_NOT_FOUND", "", fault.Gone, ""},
		{"RESOURCE_OPERATION_RATE_EXCEEDED", "", fault.Throttled, ""},
		{"RESOURCE_ALREADY_EXISTS", "", fault.Taken, "another name"},
		{"INTERNAL_ERROR", "", fault.Lost, ""},
	} {
		c := connect(t, &server{answer: answers(200, operation("DONE", `, "operationType": "delete", "error": {"errors": [{"code": "`+tc.code+`", "message": "it did not go"`+tc.more+`}]}`))})
		err := c.Await(t.Context())(c.Compute.Disks.Delete("p", "z-a", "d").Do())
		if !fault.Is(err, tc.want) || !strings.Contains(fault.Remedy(err), tc.remedy) || !strings.Contains(err.Error(), tc.code+": it did not go") {
			t.Errorf("%s: %v (%s), %q", tc.code, err, fault.Of(err), fault.Remedy(err))
		}
	}
}

// A creation whose response was lost is retried with the same ID, and creates nothing twice. After
// any response, or with different content, it is a new creation.
func TestOnlyALostCreationIsRepeated(t *testing.T) {
	s := &server{answer: func(n int, w http.ResponseWriter, r *http.Request) {
		switch n {
		case 0:
			panic(http.ErrAbortHandler)
		case 2:
			answers(400, refusal(400, "resourceNotReady", "x"))(n, w, r)
		default:
			answers(200, operation("DONE", ""))(n, w, r)
		}
	}}
	c := connect(t, s)
	for range 4 {
		_ = insert(c) // only the requests matter
	}
	_ = c.Await(t.Context())(c.Compute.Networks.Insert("p", &compute.Network{Name: "other"}).Do())
	_ = c.Await(t.Context())(c.Compute.InstanceGroupManagers.SetInstanceTemplate("p", "z", "m", &compute.InstanceGroupManagersSetInstanceTemplateRequest{}).Do())
	var ids []string
	for _, q := range s.asked {
		ids = append(ids, q.URL.Query().Get("requestId"))
	}
	if len(ids) != 6 || ids[0] == "" || ids[0] != ids[1] || ids[1] == ids[2] || ids[2] == ids[3] || ids[3] == ids[4] || ids[5] != "" {
		t.Errorf("got the ids %q", ids)
	}
}

// An object that is deleted and created again is not mistaken for the previous one.
func TestADeletionEndsTheRepetitionOfACreation(t *testing.T) {
	s := &server{answer: func(n int, w http.ResponseWriter, r *http.Request) {
		if n == 0 {
			panic(http.ErrAbortHandler)
		}
		answers(200, operation("DONE", ""))(n, w, r)
	}}
	c := connect(t, s)
	_ = insert(c) // only the requests matter
	_ = remove(c)
	_ = insert(c)
	if len(s.asked) != 3 || s.asked[0].URL.Query().Get("requestId") == s.asked[2].URL.Query().Get("requestId") {
		t.Errorf("of %d requests the last repeats the first", len(s.asked))
	}
}

func TestLinksAreOneSpellingOfAURL(t *testing.T) {
	const disk = "projects/p/zones/z/disks/d"
	for _, u := range []string{disk, "https://www.googleapis.com/compute/v1/" + disk, "https://compute.googleapis.com/compute/beta/" + disk, "http://127.0.0.1:1/compute/v1/" + disk} {
		if got := gceapi.Link(u); got != disk {
			t.Errorf("%s: got %s", u, got)
		}
	}
	if got := gceapi.Link("default"); got != "default" {
		t.Errorf("got %s", got)
	}
	if gceapi.URL(disk) != "https://www.googleapis.com/compute/v1/"+disk || gceapi.URL("") != "" || gceapi.Name(disk) != "d" ||
		gceapi.Place(disk, "zones") != "z" || gceapi.Place(disk, "projects") != "p" || gceapi.Place(disk, "regions") != "" {
		t.Error("a link is taken apart wrongly")
	}
}
