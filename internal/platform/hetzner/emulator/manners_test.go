package emulator_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"kops.local/kops/internal/engine/fault"
	"kops.local/kops/internal/platform/hetzner/emulator"
	"kops.local/kops/internal/platform/hetzner/emulator/emulatortest"
	"kops.local/kops/internal/platform/rest"
	"kops.local/kops/internal/standin"
	"kops.local/kops/internal/standin/tree"
)

func TestListsHavePagesSelectorsAndAnOrder(t *testing.T) {
	c := play(t, emulator.Options{})
	for i := range 30 {
		c.call("POST", "/placement_groups", object{"name": fmt.Sprintf("g%02d", 29-i), "type": "spread", "labels": object{"n": fmt.Sprint(i % 3), "kops.k8s.io/cluster": "c"}})
	}
	for query, want := range map[string]string{
		"name=g03":                           "g03",
		"name=none":                          "",
		"per_page=3":                         "g29 g28 g27",
		"per_page=3&page=2":                  "g26 g25 g24",
		"per_page=20&page=2&type=spread":     "g09 g08 g07 g06 g05 g04 g03 g02 g01 g00",
		"per_page=3&page=20":                 "",
		"per_page=2&sort=name":               "g00 g01",
		"per_page=2&sort=name:desc":          "g29 g28",
		"per_page=2&sort=id:desc":            "g00 g01",
		"per_page=2&sort=created&sort=name":  "g00 g01",
		"label_selector=n%3D1&per_page=2":    "g28 g25",
		"label_selector=n%3D%3D1&per_page=1": "g28",
		"label_selector=n!%3D1&per_page=3":   "g29 g27 g26",
		"label_selector=n+in+(1,2),kops.k8s.io/cluster&per_page=2":    "g28 g27",
		"label_selector=n+notin+(1,2),kops.k8s.io/cluster&per_page=2": "g29 g26",
		"label_selector=!n": "",
	} {
		if got := c.names("/placement_groups?" + query); got != want {
			t.Errorf("%s: got %q, want %q", query, got, want)
		}
	}
	a := c.send("GET", "/placement_groups?per_page=10&page=2", nil)
	if got := fmt.Sprint(tree.Sub(a.body, "meta")["pagination"]); got != "map[last_page:3 next_page:3 page:2 per_page:10 previous_page:1 total_entries:30]" {
		t.Error(got)
	}
	if got := a.header.Get("Link"); got != fmt.Sprintf("<%[1]s/placement_groups?page=1&per_page=10>; rel=prev, <%[1]s/placement_groups?page=3&per_page=10>; rel=next, <%[1]s/placement_groups?page=3&per_page=10>; rel=last", c.URL) {
		t.Error(got)
	}
	if p := tree.Sub(tree.Sub(c.call("GET", "/placement_groups?page=2", nil), "meta"), "pagination"); p["next_page"] != nil || p["per_page"] != int64(25) {
		t.Errorf("the last page is %v", p)
	}
	c.refused(422, "invalid_input", "1 to 50", "GET", "/placement_groups?per_page=51", nil)
	c.refused(422, "invalid_input", "1 to 50", "GET", "/placement_groups?page=0", nil)
	c.refused(422, "invalid_input", "label_selector", "GET", "/placement_groups?label_selector=a+in", nil)
	c.refused(422, "invalid_input", "no such query parameter", "GET", "/placement_groups?color=red", nil)
	c.refused(422, "invalid_input", "id", "GET", "/actions", nil)
}

func TestWhatIsNotThereIsNotFound(t *testing.T) {
	c := play(t, emulator.Options{OnBug: func(error) {}})
	c.refused(404, "not_found", "server with ID '7000' not found", "GET", "/servers/7000", nil)
	c.refused(404, "not_found", "", "DELETE", "/networks/7000", nil)
	c.refused(404, "not_found", "", "POST", "/volumes/7000/actions/detach", nil)
	c.refused(404, "not_found", "", "GET", "/zones/none.example.com", nil)
	c.refused(404, "not_found", "/v1/nothing", "GET", "/nothing", nil)
	c.refused(405, "method_not_allowed", "", "PATCH", "/servers", nil)
	c.refused(422, "invalid_input", "integer", "GET", "/servers/seven", nil)
	c.refused(501, "not_implemented", "POST /floating_ips", "POST", "/floating_ips", object{"type": "ipv4"})
	c.URL = strings.TrimSuffix(c.URL, "/v1")
	c.refused(404, "not_found", "", "GET", "/servers", nil)
}

func TestTheCallerIsKnown(t *testing.T) {
	c := play(t, emulator.Options{Token: "secret", ReadOnly: "reader"})
	c.refused(401, "unauthorized", "", "GET", "/servers", nil)
	c.token = ""
	c.refused(401, "unauthorized", "", "GET", "/servers", nil)
	c.token = "reader"
	c.call("GET", "/servers", nil)
	c.refused(401, "token_readonly", "", "POST", "/placement_groups", object{"name": "g", "type": "spread"})
	c.token = "secret"
	c.call("POST", "/placement_groups", object{"name": "g", "type": "spread"})
}

func TestRequestsAreLimited(t *testing.T) {
	c := play(t, emulator.Options{Rate: 3})
	for left := range 3 {
		a := c.send("GET", "/servers", nil)
		if want := fmt.Sprint(2 - left); a.status != 200 || a.header.Get("RateLimit-Limit") != "3" || a.header.Get("RateLimit-Remaining") != want || a.header.Get("RateLimit-Reset") != fmt.Sprint(c.Clock.Now().Add(time.Duration(left+1)*20*time.Minute).Unix()) {
			t.Errorf("got %d %v", a.status, a.header)
		}
	}
	c.refused(429, "rate_limit_exceeded", "", "GET", "/servers", nil)
	c.wait(20 * time.Minute)
	c.call("GET", "/servers", nil)
	c.refused(429, "rate_limit_exceeded", "", "GET", "/servers", nil)
	if got := c.Requests()["GET /servers"]; got != 6 {
		t.Errorf("counted %d", got)
	}
}

func TestNamesAndKeysAreUnique(t *testing.T) {
	c := play(t, emulator.Options{})
	c.made("/ssh_keys", object{"name": "a", "public_key": key})
	c.refused(409, "uniqueness_error", "SSH key with the same fingerprint already exists", "POST", "/ssh_keys", object{"name": "b", "public_key": key + " again"})
	c.refused(422, "invalid_input", "public_key", "POST", "/ssh_keys", object{"name": "b", "public_key": "ssh-rsa"})
	c.refused(422, "invalid_input", "public_key", "POST", "/ssh_keys", object{"name": "b", "public_key": "ssh-rsa AAA!"})
	if got := c.names("/ssh_keys?fingerprint=00:e3:ac:e4:64:67:42:ce:fa:80:dc:4c:3d:1b:52:11"); got != "" {
		t.Error(got)
	}
	print := tree.Text(tree.Subs(c.call("GET", "/ssh_keys", nil), "ssh_keys")[0], "fingerprint")
	if got := c.names("/ssh_keys?fingerprint=" + print); got != "a" || len(print) != 47 {
		t.Errorf("found %q by %s", got, print)
	}
	n := c.made("/networks", object{"name": "n", "ip_range": "10.0.0.0/16"})
	c.made("/networks", object{"name": "m", "ip_range": "10.0.0.0/16"})
	c.refused(409, "uniqueness_error", "network name is already used", "POST", "/networks", object{"name": "n", "ip_range": "10.0.0.0/16"})
	c.refused(409, "uniqueness_error", "", "PUT", fmt.Sprintf("/networks/%d", n), object{"name": "m"})
	c.refused(422, "invalid_input", "", "PUT", fmt.Sprintf("/networks/%d", n), object{"name": ""})
	c.call("PUT", fmt.Sprintf("/networks/%d", n), object{"name": "n", "labels": object{}})
}

func TestWhatIsProtectedStays(t *testing.T) {
	c := play(t, emulator.Options{})
	n := c.network()
	c.done("/networks", n, "change_protection", object{"delete": true}, "")
	c.refused(423, "protected", "", "DELETE", fmt.Sprintf("/networks/%d", n), nil)
	c.done("/networks", n, "change_protection", object{"delete": false}, "")
	c.call("DELETE", fmt.Sprintf("/networks/%d", n), nil)
	c.refused(404, "not_found", "", "GET", fmt.Sprintf("/networks/%d", n), nil)
}

func TestActionsAreListed(t *testing.T) {
	c := play(t, emulator.Options{})
	one, two := c.server("one", nil), c.server("two", nil)
	c.done("/servers", one, "poweroff", nil, "")
	commands := func(path string) string {
		t.Helper()
		var out []string
		for _, a := range tree.Subs(c.call("GET", path, nil), "actions") {
			out = append(out, tree.Text(a, "command"))
		}
		return strings.Join(out, " ")
	}
	for path, want := range map[string]string{
		"/servers/actions":                           "create_server start_server create_server start_server stop_server",
		fmt.Sprintf("/servers/%d/actions", one):      "create_server start_server stop_server",
		fmt.Sprintf("/servers/%d/actions", two):      "create_server start_server",
		"/servers/actions?status=running":            "",
		"/servers/actions?sort=command&per_page=3":   "create_server create_server start_server",
		"/networks/actions":                          "",
		fmt.Sprintf("/actions?id=%d&id=%d", 9999, 1): "",
	} {
		if got := commands(path); got != want {
			t.Errorf("%s: got %q, want %q", path, got, want)
		}
	}
	first := tree.Number(tree.Subs(c.call("GET", "/servers/actions", nil), "actions")[0], "id")
	for _, path := range []string{"/actions", "/servers/actions"} {
		if a := c.get(path, first); a["command"] != "create_server" || a["finished"] == nil || a["progress"] != int64(100) {
			t.Errorf("got %v", a)
		}
	}
}

func TestFaultsHappenWhereTheyAreWanted(t *testing.T) {
	c := play(t, emulator.Options{})
	g := func(name string) object { return object{"name": name, "type": "spread"} }
	c.Inject(standin.Fault{Method: "POST /placement_groups", Skip: 1})
	c.call("POST", "/placement_groups", g("a"))
	c.refused(503, "unavailable", "", "POST", "/placement_groups", g("b"))
	c.Inject(standin.Fault{Method: "POST /placement_groups", When: standin.Lost})
	if a := c.send("POST", "/placement_groups", g("c")); a.status != 0 || c.names("/placement_groups") != "a c" {
		t.Errorf("got %v", a)
	}
	c.Inject(standin.Fault{Method: "GET /placement_groups", Error: emulator.Error{Status: 429, Code: "rate_limit_exceeded"}})
	c.refused(429, "rate_limit_exceeded", "", "GET", "/placement_groups", nil)
	v := c.made("/volumes", object{"name": "v", "size": 10, "location": "fsn1"})
	c.Inject(standin.Fault{Method: "POST /volumes/{id}/actions/resize", When: standin.Inside, Error: errors.New("broken")})
	c.done("/volumes", v, "resize", object{"size": 20}, "action_failed")
	if size := c.get("/volumes", v)["size"]; size != int64(10) {
		t.Errorf("its size is %v", size)
	}
	c.Inject(standin.Fault{Method: "POST /volumes/{id}/actions/resize", When: standin.Never, Delay: time.Hour})
	a := tree.Sub(c.call("POST", fmt.Sprintf("/volumes/%d/actions/resize", v), object{"size": 20}), "action")
	c.wait(time.Hour)
	if got := c.action(tree.Number(a, "id")); got != "running" {
		t.Errorf("a slow action ended with %q", got)
	}
	c.wait(2 * time.Second)
	if got := c.action(tree.Number(a, "id")); got != "" {
		t.Errorf("it ended with %q", got)
	}
	c.Inject(standin.Fault{Method: "GET /volumes/{id}", When: standin.Never, Meanwhile: func() { c.call("DELETE", fmt.Sprintf("/volumes/%d", v), nil) }})
	if got := c.names("/volumes"); got != "v" {
		t.Error(got)
	}
	c.refused(404, "not_found", "", "GET", fmt.Sprintf("/volumes/%d", v), nil)
}

func TestReadsCanLagBehind(t *testing.T) {
	c := play(t, emulator.Options{})
	c.SetLag(10 * time.Second)
	out := c.call("POST", "/placement_groups", object{"name": "g", "type": "spread"})
	path := fmt.Sprintf("/placement_groups/%d", tree.Number(tree.Sub(out, "placement_group"), "id"))
	if got := c.names("/placement_groups"); got != "" {
		t.Errorf("there is %s already", got)
	}
	c.refused(404, "not_found", "", "GET", path, nil)
	c.refused(409, "uniqueness_error", "", "POST", "/placement_groups", object{"name": "g", "type": "spread"})
	c.wait(10 * time.Second)
	if got := c.names("/placement_groups"); got != "g" {
		t.Errorf("there is %q", got)
	}
	c.call("DELETE", path, nil)
	c.call("GET", path, nil)
	c.refused(404, "not_found", "", "DELETE", path, nil)
	c.wait(10 * time.Second)
	c.refused(404, "not_found", "", "GET", path, nil)
}

// TestAClientOfSmallClouds reads pages and awaits actions as package rest does.
func TestAClientOfSmallClouds(t *testing.T) {
	c := emulatortest.Start(t, emulator.Options{Rate: 60})
	api := rest.Client{Base: c.URL, HTTP: c.HTTP, Pause: c.Sleep, Next: rest.NextValue("page", "meta", "pagination", "next_page"), Repeat: true,
		Auth: func(r *http.Request) error { r.Header.Set("Authorization", "Bearer x"); return nil },
		Classify: func(a rest.Answer) error {
			class := map[int]fault.Class{404: fault.Gone, 409: fault.Taken, 429: fault.Throttled}[a.Status]
			return fault.New(class, "%s", a.Body)
		}}
	type thing struct {
		ID     int64
		Name   string
		Status string
	}
	create := func(name string) (out struct{ Action thing }) {
		t.Helper()
		if err := api.Do(t.Context(), rest.Request{Method: "POST", Path: "volumes", Body: object{"name": name, "size": 10, "location": "fsn1"}}, &out); err != nil {
			t.Fatal(err)
		}
		return out
	}
	var ids []string
	for i := range 30 {
		ids = append(ids, fmt.Sprint(create(fmt.Sprintf("v%02d", i)).Action.ID))
	}
	var last []thing
	err := api.Await(t.Context(), func(ctx context.Context) (bool, error) {
		got, err := rest.List[thing](ctx, api, rest.Request{Path: "actions", Query: map[string][]string{"id": ids}}, "actions")
		last = got
		return !slices.ContainsFunc(got, func(a thing) bool { return a.Status == "running" }), err
	})
	if err != nil || len(last) != 30 || last[29].Status != "success" {
		t.Errorf("got %v, %v", last, err)
	}
	start := c.Clock.Now()
	for range 15 { // each list is two requests, and one comes back each minute
		all, err := rest.List[thing](t.Context(), api, rest.Request{Path: "volumes"}, "volumes")
		if err != nil || len(all) != 30 || all[29].Name != "v29" {
			t.Fatalf("got %v, %v", all, err)
		}
	}
	if took := c.Clock.Now().Sub(start); took < time.Minute || took > 10*time.Minute {
		t.Errorf("the limit made it wait %s", took)
	}
}
