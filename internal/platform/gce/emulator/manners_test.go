package emulator_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/api/compute/v1"

	"kops.local/kops/internal/platform/gce/emulator"
)

func empty(name string) *compute.Network {
	return &compute.Network{Name: name, ForceSendFields: []string{"AutoCreateSubnetworks"}}
}

func TestListsComeInPagesAndAreFiltered(t *testing.T) {
	c := play(t, emulator.Options{})
	for i := range 5 {
		c.done(c.Disks.Insert(project, zone, &compute.Disk{Name: fmt.Sprintf("d%d", i), SizeGb: 10 + int64(i), Labels: map[string]string{"even": fmt.Sprint(i%2 == 0), "n": fmt.Sprint(i)}}).Do())
	}
	c.done(c.Disks.Insert(project, "us-test1-b", &compute.Disk{Name: "other", SizeGb: 10}).Do())
	pages, names := 0, []string{}
	if err := c.Disks.List(project, zone).MaxResults(2).Pages(t.Context(), func(l *compute.DiskList) error {
		pages++
		for _, d := range l.Items {
			names = append(names, d.Name)
		}
		return nil
	}); err != nil || pages != 3 || !slices.Equal(names, []string{"d0", "d1", "d2", "d3", "d4"}) {
		t.Errorf("got %s in %d pages, %v", names, pages, err)
	}
	for filter, want := range map[string]string{
		"":                "d0 d1 d2 d3 d4",
		"name = d1":       "d1",
		`name="d1"`:       "d1",
		"name eq d[12]":   "d1 d2",
		"name eq 'd[12]'": "d1 d2",
		"name ne d[12]":   "d0 d3 d4",
		"name != d1":      "d0 d2 d3 d4",
		"zone eq https://www.googleapis.com/compute/v1/projects/testproject/zones/us-test1-a":  "d0 d1 d2 d3 d4",
		`zone = "https://www.googleapis.com/compute/v1/projects/testproject/zones/us-test1-b"`: "",
		`name:"d1"`:                              "d1",
		"name : d1":                              "d1",
		"name:d*":                                "d0 d1 d2 d3 d4",
		"labels.even = true":                     "d0 d2 d4",
		"labels.even=true AND labels.n=2":        "d2",
		"(labels.even=true) (labels.n=2)":        "d2",
		"(labels.n=1) OR (labels.n=2)":           "d1 d2",
		"labels.n:*":                             "d0 d1 d2 d3 d4",
		"labels.none:*":                          "",
		"NOT (labels.even = true)":               "d1 d3",
		"labels.none != x":                       "d0 d1 d2 d3 d4",
		"(labels.n=1 OR labels.n=2) AND name=d2": "d2",
		"sizeGb = 12":                            "d2",
	} {
		l, err := c.Disks.List(project, zone).Filter(filter).Do()
		if err != nil {
			t.Errorf("%s: %v", filter, err)
			continue
		}
		var got []string
		for _, d := range l.Items {
			got = append(got, d.Name)
		}
		if strings.Join(got, " ") != want {
			t.Errorf("%s: got %s, want %s", filter, got, want)
		}
	}
	for _, filter := range []string{"name", "name =", "(name = d1", "name = d1)", "name ~ d1", "name eq ["} {
		_, err := c.Disks.List(project, zone).Filter(filter).Do()
		c.checkRefused(err, 400, "invalid", "Invalid list filter expression")
	}
	_, err := c.Disks.List(project, zone).MaxResults(501).Do()
	c.checkRefused(err, 400, "invalid", "0 to 500")
	_, err = c.Disks.List(project, zone).PageToken("what").Do()
	c.checkRefused(err, 400, "invalid", "pageToken")
}

func TestOnlyTheFieldsThatAreAskedForAreAnswered(t *testing.T) {
	c := play(t, emulator.Options{})
	for _, name := range []string{"a", "b"} {
		c.done(c.Disks.Insert(project, zone, &compute.Disk{Name: name, SizeGb: 10, Labels: map[string]string{"k": "v", "l": "w"}}).Do())
	}
	for fields, want := range map[string]string{
		"kind":                      `{"kind":"compute#diskList"}`,
		"items/name":                `{"items":[{"name":"a"},{"name":"b"}]}`,
		"items(name,labels/k),kind": `{"items":[{"labels":{"k":"v"},"name":"a"},{"labels":{"k":"v"},"name":"b"}],"kind":"compute#diskList"}`,
		"items/labels(k,l)":         `{"items":[{"labels":{"k":"v","l":"w"}},{"labels":{"k":"v","l":"w"}}]}`,
		"items/name,items/sizeGb":   `{"items":[{"name":"a","sizeGb":"10"},{"name":"b","sizeGb":"10"}]}`,
		"none":                      `{}`,
	} {
		if _, got := get(t, c.Emulator, "/compute/v1/projects/testproject/zones/us-test1-a/disks?fields="+url.QueryEscape(fields)); strings.TrimSpace(got) != want {
			t.Errorf("%s: got %s, want %s", fields, got, want)
		}
	}
}

func TestAnAggregatedListHasEachPlace(t *testing.T) {
	c := play(t, emulator.Options{})
	c.done(c.Disks.Insert(project, zone, &compute.Disk{Name: "a", SizeGb: 10}).Do())
	c.done(c.Disks.Insert(project, "us-test1-b", &compute.Disk{Name: "a", SizeGb: 10}).Do())
	l, err := c.Disks.AggregatedList(project).Do()
	if err != nil || len(l.Items) != 3 || len(l.Items["zones/us-test1-a"].Disks) != 1 || l.Items["zones/us-test1-a"].Warning != nil || len(l.Items["zones/us-test1-b"].Disks) != 1 || l.Items["zones/us-test1-c"].Warning.Code != "NO_RESULTS_ON_PAGE" {
		t.Errorf("got %+v, %v", l, err)
	}
	pages, found := 0, 0
	if err := c.Disks.AggregatedList(project).MaxResults(1).Pages(t.Context(), func(l *compute.DiskAggregatedList) error {
		pages++
		for _, place := range l.Items {
			found += len(place.Disks)
		}
		return nil
	}); err != nil || pages != 2 || found != 2 {
		t.Errorf("got %d in %d pages, %v", found, pages, err)
	}
	c.Silence("us-test1-b", true)
	if l, err = c.Disks.AggregatedList(project).Do(); err != nil || !slices.Equal(l.Unreachables, []string{"projects/testproject/zones/us-test1-b"}) || len(l.Items) != 2 {
		t.Errorf("got %+v, %v", l, err)
	}
	rules, err := c.ForwardingRules.AggregatedList(project).Do()
	if err != nil || rules.Items["global"].Warning == nil || rules.Items["regions/us-test1"].Warning == nil {
		t.Errorf("got %+v, %v", rules, err)
	}
}

func TestARequestThatIsRepeatedIsOne(t *testing.T) {
	c := play(t, emulator.Options{})
	const id = "8b7f4a0e-1d1c-4b7e-9c52-0d1f3a7e2b11"
	first, err := c.Networks.Insert(project, empty("n")).RequestId(id).Do()
	if err != nil {
		t.Fatal(err)
	}
	again, err := c.Networks.Insert(project, empty("n")).RequestId(id).Do()
	if err != nil || again.Name != first.Name {
		t.Errorf("got %+v, %v", again, err)
	}
	c.done(again, nil)
	if again, err = c.Networks.Insert(project, empty("n")).RequestId(id).Do(); err != nil || again.Name != first.Name || again.Status != "DONE" {
		t.Errorf("got %+v, %v", again, err)
	}
	_, err = c.Networks.Insert(project, empty("n")).RequestId("not-one").Do()
	c.checkRefused(err, 400, "invalid", "requestId")
	_, err = c.Networks.Insert(project, empty("n")).RequestId("00000000-0000-0000-0000-000000000000").Do()
	c.checkRefused(err, 400, "invalid", "requestId")
}

func TestFaultsHappenWhereTheyAreWanted(t *testing.T) {
	const insert = "compute.networks.insert"
	there := func(c *cloud, name string) bool {
		c.clock.Sleep(c.Context(), time.Minute)
		_, err := c.Networks.Get(project, name).Do()
		return err == nil
	}
	t.Run("before", func(t *testing.T) {
		c := play(t, emulator.Options{})
		c.Inject(emulator.Fault{Method: insert, Skip: 1})
		c.done(c.Networks.Insert(project, empty("one")).Do())
		_, err := c.Networks.Insert(project, empty("two")).Do()
		c.checkRefused(err, 503, "backendError", "")
		if there(c, "two") {
			t.Error("it took effect")
		}
		c.done(c.Networks.Insert(project, empty("two")).Do())
	})
	t.Run("after", func(t *testing.T) {
		c := play(t, emulator.Options{})
		c.Inject(emulator.Fault{When: emulator.After, Error: emulator.Error{Status: 403, Reason: "rateLimitExceeded", Message: "Rate Limit Exceeded"}})
		_, err := c.Networks.List(project).Do() // it changes nothing, so the fault does not apply
		if err != nil {
			t.Error(err)
		}
		_, err = c.Networks.Insert(project, empty("n")).Do()
		c.checkRefused(err, 403, "rateLimitExceeded", "Rate Limit Exceeded")
		if !there(c, "n") {
			t.Error("it took no effect")
		}
	})
	t.Run("lost", func(t *testing.T) {
		c := play(t, emulator.Options{})
		c.Inject(emulator.Fault{Method: insert, When: emulator.Lost})
		if _, err := c.Networks.Insert(project, empty("n")).Do(); err == nil || hasStatus(err, 503) {
			t.Errorf("an answer came: %v", err)
		}
		if !there(c, "n") {
			t.Error("it took no effect")
		}
	})
	t.Run("inside", func(t *testing.T) {
		c := play(t, emulator.Options{})
		c.Inject(emulator.Fault{Method: insert, When: emulator.Inside, Times: 2, Error: emulator.Error{Status: 403, Reason: "quotaExceeded", Message: "Quota 'NETWORKS' exceeded."}})
		for range 2 {
			op, err := c.wait(c.Networks.Insert(project, empty("n")).Do())
			if err == nil || op.Error.Errors[0].Code != "QUOTA_EXCEEDED" || op.HttpErrorStatusCode != 403 || op.HttpErrorMessage != "FORBIDDEN" {
				t.Errorf("got %+v, %v", op, err)
			}
		}
		if there(c, "n") {
			t.Error("it took effect")
		}
		c.done(c.Networks.Insert(project, empty("n")).Do())
		c.Inject(emulator.Fault{Method: "compute.networks.delete", When: emulator.Inside})
		if _, err := c.wait(c.Networks.Delete(project, "n").Do()); err == nil || !there(c, "n") {
			t.Errorf("the deletion did not fail: %v", err)
		}
		c.done(c.Networks.Delete(project, "n").Do())
	})
	t.Run("inside an instance", func(t *testing.T) {
		c := play(t, emulator.Options{})
		c.network()
		before := c.Inventory()
		c.Inject(emulator.Fault{Method: "compute.instances.insert", When: emulator.Inside})
		i := machine("i")
		i.Disks[0].AutoDelete = false
		if _, err := c.wait(c.Instances.Insert(project, zone, i).Do()); err == nil || !slices.Equal(c.Inventory(), before) {
			t.Errorf("got %v, and there is %s", err, c.Inventory())
		}
		c.instance("i")
	})
}

func TestWhatIsOfTheBetaIsAnsweredAsOfTheFirstVersion(t *testing.T) {
	c := play(t, emulator.Options{})
	if status, body := get(t, c.Emulator, "/compute/beta/projects/testproject/zones/us-test1-a"); status != http.StatusOK || !strings.Contains(body, `"selfLink":"https://www.googleapis.com/compute/v1/projects/testproject/zones/us-test1-a"`) {
		t.Errorf("got %d %s", status, body)
	}
}

// TestEventsHappenWithoutRequests stops the emulator's clock after a minute.
func TestEventsHappenWithoutRequests(t *testing.T) {
	h := &hosts{}
	c := play(t, emulator.Options{Machines: h})
	c.network()
	if _, err := c.Instances.Insert(project, zone, machine("i")).Do(); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	end := c.clock.Now().Add(time.Minute)
	c.clock.Deadline = func(now time.Time) {
		if now.After(end) {
			cancel()
		}
	}
	if err := c.Emulator.Run(ctx); !errors.Is(err, context.Canceled) || len(h.log) != 1 || !strings.HasPrefix(h.log[0], "start us-test1-a/i") {
		t.Errorf("got %v, %s", err, h.log)
	}
}

func TestCallsAreCounted(t *testing.T) {
	c := play(t, emulator.Options{})
	for range 3 {
		if _, err := c.Networks.List(project).Do(); err != nil {
			t.Fatal(err)
		}
	}
	if got := c.Requests(); len(got) != 1 || got["compute.networks.list"] != 3 {
		t.Errorf("got %v", got)
	}
}

func TestAQuotaIsKept(t *testing.T) {
	c := play(t, emulator.Options{Quotas: map[string]float64{"NETWORKS": 1, "CPUS": 3, "SSD_TOTAL_GB": 25}})
	c.network()
	_, err := c.Networks.Insert(project, empty("m")).Do()
	c.checkRefused(err, 403, "quotaExceeded", "Quota 'NETWORKS' exceeded.  Limit: 1.0 globally.")
	c.instance("i")
	_, err = c.Instances.Insert(project, zone, machine("j")).Do()
	c.checkRefused(err, 403, "quotaExceeded", "Quota 'CPUS' exceeded.  Limit: 3.0 in region us-test1.")
	c.disk("d")
	_, err = c.Disks.Insert(project, zone, &compute.Disk{Name: "e", SizeGb: 20, Type: "zones/us-test1-a/diskTypes/pd-ssd"}).Do()
	c.checkRefused(err, 403, "quotaExceeded", "SSD_TOTAL_GB")
	r, err := c.Regions.Get(project, region).Do()
	if err != nil {
		t.Fatal(err)
	}
	for _, q := range r.Quotas {
		if q.Metric == "CPUS" && (q.Limit != 3 || q.Usage != 2) {
			t.Errorf("got %+v", q)
		}
	}
	p, err := c.Projects.Get(project).Do()
	if err != nil || p.Id != 100000000000 || p.DefaultServiceAccount != "100000000000-compute@developer.gserviceaccount.com" {
		t.Errorf("got %+v, %v", p, err)
	}
	if !slices.ContainsFunc(p.Quotas, func(q *compute.Quota) bool { return q.Metric == "NETWORKS" && q.Limit == 1 && q.Usage == 1 }) {
		t.Errorf("got %+v", p.Quotas)
	}
	c.template("t")
	c.group("m", 2)
	if m := c.members(); m[0].LastAttempt == nil || m[0].LastAttempt.Errors.Errors[0].Code != "QUOTA_EXCEEDED" {
		t.Errorf("got %+v", m[0])
	}
}

func TestAPermissionCanBeTaken(t *testing.T) {
	c := play(t, emulator.Options{})
	c.Deny("compute.networks.create", "compute.instanceGroupManagers.update")
	_, err := c.Networks.Insert(project, empty("n")).Do()
	c.checkRefused(err, 403, "forbidden", "Required 'compute.networks.create' permission for 'projects/testproject/global/networks/n'")
	_, err = c.InstanceGroupManagers.Resize(project, zone, "m", 1).Do()
	c.checkRefused(err, 403, "forbidden", "Required 'compute.instanceGroupManagers.update' permission")
	c.Deny()
	c.done(c.Networks.Insert(project, empty("n")).Do())
}

// TestWhatIsNoCallIsRefused sends requests that no Google client would send.
func TestWhatIsNoCallIsRefused(t *testing.T) {
	c := play(t, emulator.Options{})
	const networks = "/compute/v1/projects/testproject/global/networks"
	for _, r := range []struct {
		verb, path, body string
		status           int
		words            string
	}{
		{"GET", "/compute/v1/projects/testproject/nothing", "", 404, "Not Found"},
		{"PUT", networks, "", 405, "not allowed"},
		{"POST", networks, `{"name":`, 400, "Parse Error"},
		{"POST", networks, `{"name":"n"} {}`, 400, "more than one value"},
		{"POST", networks, `[]`, 400, "TYPE_OBJECT"},
		{"POST", networks, `{"name":"n","autoCreateSubnetworks":false,"color":"red"}`, 400, `Unknown name \"color\"`},
		{"POST", networks + "?color=red", `{"name":"n","autoCreateSubnetworks":false}`, 400, "Cannot bind query parameter"},
		{"GET", networks + "/N", "", 400, "Must be a match of regex"},
	} {
		request, err := http.NewRequestWithContext(t.Context(), r.verb, c.url+r.path, strings.NewReader(r.body))
		if err != nil {
			t.Fatal(err)
		}
		answer, err := http.DefaultClient.Do(request)
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(answer.Body)
		answer.Body.Close()
		if err != nil || answer.StatusCode != r.status || !strings.Contains(string(text), r.words) || !strings.Contains(string(text), `"errors":[{`) {
			t.Errorf("%s %s %s: got %d %s, %v", r.verb, r.path, r.body, answer.StatusCode, text, err)
		}
	}
}

func TestAMethodThatIsNotPlayedSaysSo(t *testing.T) {
	var told error
	e, err := emulator.New(emulator.Options{OnBug: func(err error) { told = err }})
	if err != nil {
		t.Fatal(err)
	}
	status, body := get(t, e, "/compute/v1/projects/testproject/global/snapshots")
	if status != http.StatusNotImplemented || !strings.Contains(body, "compute.snapshots.list is not supported") || told == nil || !strings.Contains(told.Error(), "compute.snapshots.list") {
		t.Errorf("got %d %s, told %v", status, body, told)
	}
}

func TestAWaitEndsAfterTwoMinutes(t *testing.T) {
	c := play(t, emulator.Options{Latency: 5 * time.Minute})
	op, err := c.Networks.Insert(project, empty("n")).Do()
	if err != nil {
		t.Fatal(err)
	}
	before := c.clock.Now()
	if op, err = c.GlobalOperations.Wait(project, op.Name).Do(); err != nil || op.Status == "DONE" || c.clock.Now().Sub(before) != 2*time.Minute {
		t.Errorf("after %s: %+v, %v", c.clock.Now().Sub(before), op, err)
	}
	c.done(op, err)
	_, err = c.GlobalOperations.Get(project, "operation-none").Do()
	c.checkRefused(err, 404, "notFound", "operation-none")
	ops, err := c.GlobalOperations.List(project).Do()
	if err != nil || len(ops.Items) != 1 {
		t.Errorf("got %+v, %v", ops, err)
	}
	if err := c.GlobalOperations.Delete(project, op.Name).Do(); err != nil {
		t.Error(err)
	}
}

func TestWhatIsAlwaysThere(t *testing.T) {
	c := play(t, emulator.Options{Regions: map[string][]string{"us-test1": {"us-test1-a", "us-test1-b"}, "europe-test2": {"europe-test2-a"}},
		Images: []emulator.Image{{Project: "debian-cloud", Name: "debian-12-v1", Family: "debian-12"}, {Project: "debian-cloud", Name: "debian-12-v2", Family: "debian-12"}, {Project: "debian-cloud", Name: "debian-12-v3", Family: "debian-12", Deprecated: true},
			{Project: "debian-cloud", Name: "debian-12-arm64-v1", Family: "debian-12-arm64", Arm64: true}}, Others: []string{"debian-cloud"}})
	zones, err := c.Zones.List(project).Do()
	if err != nil || len(zones.Items) != 3 || lastPart(zones.Items[0].Region) != "europe-test2" || zones.Items[0].Status != "UP" {
		t.Errorf("got %+v, %v", zones, err)
	}
	if z, err := c.Zones.Get(project, "us-test1-b").Do(); err != nil || lastPart(z.Region) != "us-test1" || z.Kind != "compute#zone" {
		t.Errorf("got %+v, %v", z, err)
	}
	_, err = c.Zones.Get(project, "us-test1-c").Do()
	c.checkRefused(err, 404, "notFound", "projects/testproject/zones/us-test1-c")
	regions, err := c.Regions.List(project).Do()
	if err != nil || len(regions.Items) != 2 || len(regions.Items[1].Zones) != 2 {
		t.Errorf("got %+v, %v", regions, err)
	}
	m, err := c.MachineTypes.Get(project, zone, "t2a-standard-2").Do()
	if err != nil || m.GuestCpus != 2 || m.Architecture != "ARM64" || m.MemoryMb != 8192 {
		t.Errorf("got %+v, %v", m, err)
	}
	if l, err := c.MachineTypes.List(project, zone).Filter("name=e2-medium").Do(); err != nil || len(l.Items) != 1 {
		t.Errorf("got %+v, %v", l, err)
	}
	if l, err := c.MachineTypes.AggregatedList(project).Do(); err != nil || len(l.Items) != 3 || len(l.Items["zones/us-test1-b"].MachineTypes) < 10 {
		t.Errorf("got %+v, %v", l, err)
	}
	if d, err := c.DiskTypes.Get(project, zone, "pd-ssd").Do(); err != nil || d.DefaultDiskSizeGb != 100 {
		t.Errorf("got %+v, %v", d, err)
	}
	if i, err := c.Images.GetFromFamily("debian-cloud", "debian-12").Do(); err != nil || i.Name != "debian-12-v2" || i.Architecture != "X86_64" {
		t.Errorf("got %+v, %v", i, err)
	}
	if i, err := c.Images.Get("debian-cloud", "debian-12-arm64-v1").Do(); err != nil || i.Architecture != "ARM64" || i.DiskSizeGb != 10 {
		t.Errorf("got %+v, %v", i, err)
	}
	if l, err := c.Images.List("debian-cloud").Do(); err != nil || len(l.Items) != 4 {
		t.Errorf("got %+v, %v", l, err)
	}
	_, err = c.Images.Get("debian-cloud", "none").Do()
	c.checkRefused(err, 404, "notFound", "none")
}

func TestASeedDecidesAllThatIsRandom(t *testing.T) {
	names := func(seed uint64) string {
		c := play(t, emulator.Options{Seed: seed})
		c.network()
		c.template("t")
		c.group("m", 3)
		var out []string
		for _, m := range c.members() {
			out = append(out, m.Name, fmt.Sprint(m.Id))
		}
		return strings.Join(out, " ")
	}
	if a, b, other := names(1), names(1), names(2); a != b || a == other {
		t.Errorf("got %s, %s and %s", a, b, other)
	}
}

// TestManyMayAskAtOnce is mainly for the race detector.
func TestManyMayAskAtOnce(t *testing.T) {
	c := play(t, emulator.Options{Latency: time.Millisecond})
	ctx, cancel := context.WithCancel(t.Context())
	var all sync.WaitGroup
	for i := range 8 {
		all.Go(func() {
			for n := range 5 {
				name := fmt.Sprintf("n%d-%d", i, n)
				c.done(c.Networks.Insert(project, empty(name)).Do())
				if _, err := c.Networks.List(project).Context(ctx).Do(); err != nil {
					t.Error(err)
				}
				c.done(c.Networks.Delete(project, name).Do())
			}
		})
	}
	all.Wait()
	cancel()
	if left := c.Inventory(); len(left) > 0 {
		t.Errorf("left: %s", left)
	}
}
