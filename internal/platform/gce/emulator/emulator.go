package emulator

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"

	"kops.local/kops/internal/platform/gce/emulator/description"
	"kops.local/kops/internal/standin"
	"kops.local/kops/internal/standin/tree"
)

// Emulator is an emulated Google Cloud. It serves all its APIs under their paths, on any host:
// /compute/v1/ (and beta, which is treated the same), /v1/projects/ (IAM and Resource Manager),
// /dns/v1/, /storage/v1/.
type Emulator struct {
	*standin.Server

	o        Options
	apis     *description.APIs
	handlers map[string]handler
	kinds    map[string]*collection // by the resource's name in method IDs

	entries   map[string]*entry
	repeats   map[string]string // the operation of each requestId
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
	// fate says whether the call's operation always fails.
	fate standin.Fate
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
	e := &Emulator{o: o, apis: apis, handlers: map[string]handler{}, kinds: map[string]*collection{},
		entries: map[string]*entry{}, repeats: map[string]string{}, denied: map[string]bool{}, exhausted: map[string]bool{}, silent: map[string]bool{},
		projects: map[string]*project{}, accounts: map[string]*account{}, buckets: map[string]*bucket{}}
	e.Server = standin.New(standin.Options{Now: o.Now, Sleep: o.Sleep, Seed: o.Seed, OnBug: o.OnBug}, standin.API{Route: e.route, Refuse: refuse,
		Usual: Error{Status: http.StatusServiceUnavailable, Reason: "backendError", Message: "Internal error. Please try again or contact Google Support."}})
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
	e.Server.ServeHTTP(w, r)
}

// route returns the call that a request makes.
func (e *Emulator) route(r *http.Request) (standin.Call, error) {
	path := r.URL.EscapedPath()
	if rest, beta := strings.CutPrefix(path, "/compute/beta/"); beta {
		path = "/compute/v1/" + rest
	}
	method, variables, elsewhere := e.apis.Find(r.Method, path)
	switch {
	case elsewhere:
		return nil, refusal(http.StatusMethodNotAllowed, "httpMethodNotAllowed", "HTTP method %s is not allowed at %s", r.Method, r.URL.Path)
	case method == nil:
		return nil, refusal(http.StatusNotFound, "notFound", "Not Found: %s", r.URL.Path)
	}
	return &call{Emulator: e, Request: r, method: method, params: variables}, nil
}

// Method implements standin.Call.
func (c *call) Method() standin.Method {
	return standin.Method{ID: c.method.ID, Writes: isWrite(c.method), Starts: c.method.Response != nil && c.method.Response.Ref == "Operation"}
}

// Check implements standin.Call: it checks the request against its description, and the caller's
// permission.
func (c *call) Check(raw []byte) error {
	var err error
	if c.params, err = c.method.Query(c.params, c.URL.Query()); err != nil {
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

// Play implements standin.Call.
func (c *call) Play(fate standin.Fate) (standin.Answer, error) {
	c.fate = fate
	out, err := c.handle()
	if err != nil {
		return standin.Answer{}, err
	}
	if err := c.checkResponse(out); err != nil {
		return standin.Answer{}, c.Bug(err)
	}
	if out == nil {
		return standin.Answer{}, nil
	}
	if fields := c.params["fields"]; fields != "" {
		return standin.Answer{Body: selectFields(out, fields)}, nil
	}
	return standin.Answer{Body: out}, nil
}

// handle calls the method's handler. If the requestId was used before, it returns the earlier
// call's operation.
func (c *call) handle() (object, error) {
	h := c.handlers[c.method.ID]
	if h == nil {
		err := refusal(http.StatusNotImplemented, "notImplemented", "%s is not supported by this emulator of Google Cloud", c.method.ID)
		return nil, c.Bug(err)
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
		return tree.Clone(op.o), nil
	}
	out, err := h(c)
	if err == nil {
		c.repeats[c.method.ID+" "+id] = pathOf(tree.Text(out, "selfLink"))
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

// Deny takes permissions, such as compute.networks.create, from all callers, and restores all
// others.
func (e *Emulator) Deny(permissions ...string) {
	e.Do(func() {
		clear(e.denied)
		for _, p := range permissions {
			e.denied[p] = true
		}
	})
}

// Exhaust sets whether a zone has no capacity left.
func (e *Emulator) Exhaust(zone string, yes bool) { e.Do(func() { e.exhausted[zone] = yes }) }

// Silence sets whether a zone or a region is reported as unreachable in aggregated lists.
func (e *Emulator) Silence(place string, yes bool) { e.Do(func() { e.silent[place] = yes }) }

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
	var out []string
	e.Do(func() {
		for path, x := range e.entries {
			if x.kind != nil && x.owner == "" {
				out = append(out, path)
			}
		}
		out = append(out, e.accessInventory()...)
		out = append(out, e.dnsInventory()...)
	})
	slices.Sort(out)
	return out
}

// sortedBy sorts values by a key.
func sortedBy[V any, K cmp.Ordered](items []V, key func(V) K) []V {
	slices.SortStableFunc(items, func(a, b V) int { return cmp.Compare(key(a), key(b)) })
	return items
}
