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

// Emulator is a Google Cloud of its own. It answers at the paths of all its APIs, on any host:
// /compute/v1/ (and beta, which is treated the same), /v1/projects/ (IAM and Resource Manager),
// /dns/v1/, /storage/v1/.
type Emulator struct {
	o        Options
	apis     *description.APIs
	handlers map[string]handler
	kinds    map[string]*collection // by the name of the resource in the ids of methods

	mu       sync.Mutex
	now      time.Time
	events   []*event
	random   *rand.Rand
	entries  map[string]*entry
	repeats  map[string]string // the operation of a requestId
	faults   []*Fault
	requests map[string]int
	denied   map[string]bool
	empty    map[string]bool // zones without capacity
	silent   map[string]bool // scopes that do not answer
	numbers  int64           // the last of whatever is numbered

	projects map[string]*project
	dns      []*dnsZone
	accounts map[string]*account // by e-mail
	buckets  map[string]*bucket
}

// handler answers a call that the description allows. A nil answer has no body.
type handler func(*call) (object, error)

// call is one request.
type call struct {
	*Emulator
	*http.Request
	method *description.Method
	// params are the variables of the path and the query.
	params map[string]string
	body   object
	// fails is the error with which the operation of the call ends in any case; may be nil.
	fails *Error
}

// New makes an emulator. An error is of the options.
func New(o Options) (*Emulator, error) {
	apis, err := description.Read()
	if err != nil {
		return nil, err
	}
	if o, err = o.complete(); err != nil {
		return nil, err
	}
	e := &Emulator{o: o, apis: apis, handlers: map[string]handler{}, kinds: map[string]*collection{}, random: rand.New(rand.NewPCG(o.Seed, 0)),
		entries: map[string]*entry{}, repeats: map[string]string{}, requests: map[string]int{}, denied: map[string]bool{}, empty: map[string]bool{}, silent: map[string]bool{},
		projects: map[string]*project{}, accounts: map[string]*account{}, buckets: map[string]*bucket{}, now: o.Now()}
	for _, c := range slices.Concat(networking(), balancing(), machines()) {
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
	e.furnish()
	return e, nil
}

// ServeHTTP answers as Google's APIs do.
func (e *Emulator) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if e.o.Objects != nil && ofObjects(r.URL.EscapedPath()) {
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
	_ = json.NewEncoder(w).Encode(answer) // who asked has gone
}

// answer returns the answer to a request, and whether it should be lost.
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
	e.pass(r.Context())
	e.requests[method.ID]++
	c := &call{Emulator: e, Request: r, method: method}
	var f *Fault
	if err = c.read(variables, raw); err == nil {
		if f = e.faultOf(method); f != nil && f.When == Before {
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
	if err := c.judge(answer); err != nil {
		e.wrong(err)
		return nil, refusal(http.StatusInternalServerError, "internalError", "%v", err), false
	}
	if fields := c.params["fields"]; fields != "" && answer != nil {
		answer, _ = masked(answer, fields).(object)
	}
	return answer, nil, false
}

// wrong reports a fault of this package.
func (e *Emulator) wrong(err error) {
	if e.o.OnWrong != nil {
		e.o.OnWrong(err)
	}
}

// decode reads JSON with its numbers as they are written.
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

// read checks the request by its description, and whether who asks may.
func (c *call) read(variables map[string]string, raw []byte) error {
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
	return c.permitted()
}

// handle has the method answer. A call that was made before with the same requestId is
// answered by its operation.
func (c *call) handle() (object, error) {
	h := c.handlers[c.method.ID]
	if h == nil {
		c.wrong(fmt.Errorf("%s is not played", c.method.ID))
		return nil, refusal(http.StatusNotImplemented, "notImplemented", "%s is not played by this stand-in for Google Cloud", c.method.ID)
	}
	if err := c.place(); err != nil {
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

// judge checks the answer by its description.
func (c *call) judge(answer object) error {
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

// Requests are the calls so far, by the id of their method.
func (e *Emulator) Requests() map[string]int {
	e.mu.Lock()
	defer e.mu.Unlock()
	return maps.Clone(e.requests)
}

// Deny takes permissions, such as compute.networks.create, from all callers, and gives back all
// others.
func (e *Emulator) Deny(permissions ...string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	clear(e.denied)
	for _, p := range permissions {
		e.denied[p] = true
	}
}

// Exhaust says whether a zone has no machines left to give.
func (e *Emulator) Exhaust(zone string, yes bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.empty[zone] = yes
}

// Silence says whether a zone or a region is left out of aggregated lists as unreachable.
func (e *Emulator) Silence(place string, yes bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.silent[place] = yes
}

// Inventory lists everything that exists and was made, sorted: objects of Compute Engine by their
// path without operations, service accounts, record sets besides a zone's own, and the members of
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
	e.pass(context.Background())
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

// sortedBy are values in the order of a key.
func sortedBy[V any, K cmp.Ordered](items []V, key func(V) K) []V {
	slices.SortStableFunc(items, func(a, b V) int { return cmp.Compare(key(a), key(b)) })
	return items
}

// clockOf are the real ones, unless others are given.
func clockOf(o Options) Options {
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Sleep == nil {
		o.Sleep = clock.Sleep
	}
	return o
}
