package emulator

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"kops.local/kops/internal/engine/clock"
	"kops.local/kops/internal/platform/gce/emulator/description"
)

// Emulator is an emulated Google Cloud. It serves all its APIs under their paths, on any host:
// /compute/v1/ (and beta, which is treated the same), /v1/projects/ (IAM and Resource Manager),
// /dns/v1/, /storage/v1/.
type Emulator struct {
	o        Options
	apis     *description.APIs
	handlers map[string]handler
	kinds    map[string]*collection // by the resource's name in method IDs

	mu        sync.Mutex
	now       time.Time
	events    []*event
	random    *rand.Rand
	entries   map[string]*entry
	repeats   map[string]string // the operation of each requestId
	faults    []*Fault
	requests  map[string]int
	denied    map[string]bool
	exhausted map[string]bool // zones without capacity
	silent    map[string]bool // scopes that do not respond
	numbers   int64           // the last number that was assigned

	projects map[string]*project
	dns      []*dnsZone
	accounts map[string]*account // by email
	buckets  map[string]*bucket
}

// handler handles a call that the description allows. A nil response has no body.
type handler func(*call) (object, error)

// call is one request.
type call struct {
	*Emulator
	*http.Request
	method *description.Method
	// params are the path variables and the query parameters.
	params map[string]string
	body   object
	// fails is the error with which the call's operation always ends; may be nil.
	fails *Error
}

// New returns an emulator. It returns an error if the options are invalid.
func New(o Options) (*Emulator, error) {
	apis, err := description.Read()
	if err != nil {
		return nil, err
	}
	if o, err = o.withDefaults(); err != nil {
		return nil, err
	}
	e := &Emulator{o: o, apis: apis, handlers: map[string]handler{}, kinds: map[string]*collection{}, random: rand.New(rand.NewPCG(o.Seed, 0)),
		entries: map[string]*entry{}, repeats: map[string]string{}, requests: map[string]int{}, denied: map[string]bool{}, exhausted: map[string]bool{}, silent: map[string]bool{},
		projects: map[string]*project{}, accounts: map[string]*account{}, buckets: map[string]*bucket{}, now: o.Now()}
	for _, c := range slices.Concat(networkKinds(), balancingKinds(), machineKinds()) {
		if err := e.collect(c); err != nil {
			return nil, err
		}
	}
	for _, more := range []map[string]handler{operationHandlers(), catalogueHandlers(), networkHandlers(), balancingHandlers(), instanceHandlers(), groupHandlers(), accessHandlers(), dnsHandlers(), storageHandlers()} {
		maps.Copy(e.handlers, more)
	}
	for id := range e.handlers {
		if apis.Method(id) == nil {
			return nil, fmt.Errorf("the description has no method %s", id)
		}
	}
	e.createPermanent()
	return e, nil
}

// ServeHTTP responds as Google's APIs do.
func (e *Emulator) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if e.o.Objects != nil && isObjectPath(r.URL.EscapedPath()) {
		e.o.Objects.ServeHTTP(w, r)
		return
	}
	answer, refused, lost := e.answer(r)
	if lost {
		panic(http.ErrAbortHandler)
	}
	status := http.StatusOK
	if refused != nil {
		status, answer = refused.Status, refused.body()
	}
	if answer == nil {
		w.WriteHeader(http.StatusNoContent)
		return
	}
	w.Header().Set("Content-Type", "application/json; charset=UTF-8")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(answer) // if it fails, the client is gone
}

// answer returns the response to a request, and whether it must be lost.
func (e *Emulator) answer(r *http.Request) (answer object, refused *Error, lost bool) {
	path := r.URL.EscapedPath()
	if rest, beta := strings.CutPrefix(path, "/compute/beta/"); beta {
		path = "/compute/v1/" + rest
	}
	method, variables, elsewhere := e.apis.Find(r.Method, path)
	switch {
	case elsewhere:
		return nil, refusal(http.StatusMethodNotAllowed, "httpMethodNotAllowed", "HTTP method %s is not allowed at %s", r.Method, r.URL.Path), false
	case method == nil:
		return nil, refusal(http.StatusNotFound, "notFound", "Not Found: %s", r.URL.Path), false
	}
	raw, err := io.ReadAll(r.Body)
	if err != nil {
		return nil, refusal(http.StatusBadRequest, "badRequest", "%v", err), false
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.runDue(r.Context())
	e.requests[method.ID]++
	c := &call{Emulator: e, Request: r, method: method}
	var f *Fault
	if err = c.check(variables, raw); err == nil {
		if f = e.takeFault(method); f != nil && f.When == Before {
			return nil, &f.Error, false
		}
		if f != nil && f.When == Inside && (method.Response == nil || method.Response.Ref != "Operation") {
			return nil, &f.Error, false // it has no operation
		}
		if f != nil && f.When == Inside {
			c.fails = &f.Error
		}
		answer, err = c.handle()
	}
	if err != nil {
		return nil, refusalOf(err), false
	}
	if f != nil && (f.When == After || f.When == Lost) {
		return nil, &f.Error, f.When == Lost
	}
	if err := c.checkResponse(answer); err != nil {
		e.reportBug(err)
		return nil, refusal(http.StatusInternalServerError, "internalError", "%v", err), false
	}
	if fields := c.params["fields"]; fields != "" && answer != nil {
		answer, _ = selectFields(answer, fields).(object)
	}
	return answer, nil, false
}

// reportBug reports a bug in this package.
func (e *Emulator) reportBug(err error) {
	if e.o.OnBug != nil {
		e.o.OnBug(err)
	}
}

// decode decodes JSON, keeping numbers as they are written.
func decode(raw []byte) (any, error) {
	if len(raw) == 0 {
		return nil, nil
	}
	d := json.NewDecoder(strings.NewReader(string(raw)))
	d.UseNumber()
	var v any
	if err := d.Decode(&v); err != nil {
		return nil, refusal(http.StatusBadRequest, "parseError", "Parse Error: %v", err)
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return nil, refusal(http.StatusBadRequest, "parseError", "Parse Error: more than one value")
	}
	return v, nil
}

// check checks the request against its description, and the caller's permission.
func (c *call) check(variables map[string]string, raw []byte) error {
	var err error
	if c.params, err = c.method.Query(variables, c.URL.Query()); err != nil {
		return err
	}
	sent, err := decode(raw)
	if err != nil {
		return err
	}
	body, err := c.method.Body(sent)
	if err != nil {
		return err
	}
	c.body, _ = body.(object)
	return c.checkPermission()
}

// handle calls the method's handler. If the requestId was used before, it returns the earlier
// call's operation.
func (c *call) handle() (object, error) {
	h := c.handlers[c.method.ID]
	if h == nil {
		c.reportBug(fmt.Errorf("%s is not supported", c.method.ID))
		return nil, refusal(http.StatusNotImplemented, "notImplemented", "%s is not supported by this emulator of Google Cloud", c.method.ID)
	}
	if err := c.checkLocation(); err != nil {
		return nil, err
	}
	id := c.params["requestId"]
	if id == "" {
		return h(c)
	}
	if !uuid().MatchString(id) || strings.Trim(id, "0-") == "" {
		return nil, invalid("requestId", id, "Must be a UUID that is not zero.")
	}
	if op := c.entries[c.repeats[c.method.ID+" "+id]]; op != nil {
		return clone(op.o), nil
	}
	out, err := h(c)
	if err == nil {
		c.repeats[c.method.ID+" "+id] = pathOf(text(out, "selfLink"))
	}
	return out, err
}

// checkResponse checks the response against its description.
func (c *call) checkResponse(answer object) error {
	if answer == nil {
		return c.method.Answer(nil)
	}
	raw, err := json.Marshal(answer)
	if err != nil {
		return err
	}
	v, err := decode(raw)
	if err != nil {
		return err
	}
	return c.method.Answer(v)
}

// Requests returns the number of calls so far, by method ID.
func (e *Emulator) Requests() map[string]int {
	e.mu.Lock()
	defer e.mu.Unlock()
	return maps.Clone(e.requests)
}

// Deny takes permissions, such as compute.networks.create, from all callers, and restores all
// others.
func (e *Emulator) Deny(permissions ...string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	clear(e.denied)
	for _, p := range permissions {
		e.denied[p] = true
	}
}

// Exhaust sets whether a zone has no capacity left.
func (e *Emulator) Exhaust(zone string, yes bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.exhausted[zone] = yes
}

// Silence sets whether a zone or a region is reported as unreachable in aggregated lists.
func (e *Emulator) Silence(place string, yes bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.silent[place] = yes
}

// Inventory lists everything that was created and exists, sorted: Compute Engine objects by path,
// without operations; service accounts; record sets other than a zone's own; and the members of
// policies, such as
//
//	projects/p/zones/us-test1-a/disks/d
//	projects/p/serviceAccounts/a@p.iam.gserviceaccount.com
//	projects/p/managedZones/z/rrsets/www.example.com./A
//	projects/p/policy/roles/viewer/serviceAccount:a@p.iam.gserviceaccount.com
//	b/bucket/policy/roles/storage.objectViewer/user:u@example.com
func (e *Emulator) Inventory() []string {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.runDue(context.Background())
	var out []string
	for path, x := range e.entries {
		if x.kind != nil && x.owner == "" {
			out = append(out, path)
		}
	}
	out = append(out, e.accessInventory()...)
	out = append(out, e.dnsInventory()...)
	slices.Sort(out)
	return out
}

// sortedBy sorts values by a key.
func sortedBy[V any, K cmp.Ordered](items []V, key func(V) K) []V {
	slices.SortStableFunc(items, func(a, b V) int { return cmp.Compare(key(a), key(b)) })
	return items
}

// withClock sets the real clock, unless the options have another.
func withClock(o Options) Options {
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Sleep == nil {
		o.Sleep = clock.Sleep
	}
	return o
}
