package emulator

import (
	"bytes"
	"cmp"
	"compress/gzip"
	"embed"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"kops.local/kops/internal/standin"
	"kops.local/kops/internal/standin/openapi"
	"kops.local/kops/internal/standin/tree"
)

//go:embed documents/hetzner.json.gz
var documents embed.FS

// Describe returns the description of the API, which is read only once. Its paths are below Base.
var Describe = sync.OnceValues(func() (*openapi.Document, error) {
	packed, err := documents.ReadFile("documents/hetzner.json.gz")
	if err != nil {
		return nil, err
	}
	z, err := gzip.NewReader(bytes.NewReader(packed))
	if err != nil {
		return nil, err
	}
	text, err := io.ReadAll(z)
	if err != nil {
		return nil, err
	}
	return openapi.Read(text)
})

// Base is the path below which the API is served.
const Base = "/v1"

// object and list are JSON values, with int64 and float64 for numbers.
type (
	object = tree.Object
	list   = tree.List
)

// Emulator is an emulated project in Hetzner Cloud.
type Emulator struct {
	*standin.Server

	o         Options
	api       *openapi.Document
	handlers  map[string]handler // by the operation's ID
	store     *standin.Store
	rate      standin.Allowance
	exhausted map[string]bool // locations without capacity
	addresses int             // how many public addresses were ever used
}

// handler handles a call that the description allows. A nil response has no body.
type handler func(*call) (object, error)

// call is one request.
type call struct {
	*Emulator
	r         *http.Request
	operation *openapi.Operation
	variables map[string]string
	body      object
	fate      standin.Fate
}

// New returns an emulator.
func New(o Options) (*Emulator, error) {
	api, err := Describe()
	if err != nil {
		return nil, fmt.Errorf("read the description of the API: %w", err)
	}
	if o.Machines == nil {
		o.Machines = idleMachines{}
	}
	o.Rate = cmp.Or(o.Rate, 3600)
	e := &Emulator{o: o, api: api, handlers: map[string]handler{}, exhausted: map[string]bool{}, rate: standin.Allowance{Most: o.Rate, Every: time.Hour / time.Duration(o.Rate)}}
	e.Server = standin.New(standin.Options{Now: o.Now, Sleep: o.Sleep, Seed: o.Seed, OnBug: o.OnBug}, standin.API{Route: e.route, Refuse: refuse, Header: e.addRate,
		Usual: Error{Status: http.StatusServiceUnavailable, Code: "unavailable", Message: "the service is not available"}})
	var kinds []standin.Kind
	for _, name := range slices.Sorted(maps.Keys(resources)) {
		kinds = append(kinds, standin.Kind{Name: name, Refs: resources[name].refs, Most: o.Most[name]})
	}
	e.store = standin.NewStore(e.Server, kinds...)
	for _, more := range []map[string]handler{resourceHandlers(), serverHandlers(), networkHandlers(), firewallHandlers(), balancerHandlers(), volumeHandlers(), zoneHandlers()} {
		maps.Copy(e.handlers, more)
	}
	for id := range e.handlers {
		if !slices.Contains(api.Operations(), id) {
			return nil, fmt.Errorf("the description has no operation %s", id)
		}
	}
	e.addCatalogue()
	return e, nil
}

// route returns the call that a request makes.
func (e *Emulator) route(r *http.Request) (standin.Call, error) {
	path, below := strings.CutPrefix(r.URL.EscapedPath(), Base)
	o, variables, elsewhere := e.api.Find(r.Method, path)
	switch {
	case elsewhere && below:
		return nil, refusal(http.StatusMethodNotAllowed, "method_not_allowed", "the method %s is not allowed at %s", r.Method, r.URL.Path)
	case o == nil || !below:
		return nil, refusal(http.StatusNotFound, "not_found", "there is nothing at %s", r.URL.Path)
	}
	return &call{Emulator: e, r: r, operation: o, variables: variables}, nil
}

// addRate adds the headers of the rate limit.
func (e *Emulator) addRate(h http.Header) {
	now := e.Now()
	h.Set("Date", now.UTC().Format(http.TimeFormat))
	h.Set("RateLimit-Limit", strconv.Itoa(e.o.Rate))
	h.Set("RateLimit-Remaining", strconv.Itoa(e.rate.Left(now)))
	h.Set("RateLimit-Reset", strconv.FormatInt(e.rate.Full(now).Unix(), 10))
}

// Method implements standin.Call.
func (c *call) Method() standin.Method {
	o := c.operation
	writes := c.r.Method != http.MethodGet
	return standin.Method{ID: o.ID, Writes: writes, Starts: writes && (o.Has(o.Success(), "action") || o.Has(o.Success(), "actions"))}
}

// Check implements standin.Call: it checks the caller, and the request against its description.
func (c *call) Check(raw []byte) error {
	token, _ := strings.CutPrefix(c.r.Header.Get("Authorization"), "Bearer ")
	switch readOnly := c.o.ReadOnly != "" && token == c.o.ReadOnly; {
	case !c.rate.Take(c.Now()):
		return refusal(http.StatusTooManyRequests, "rate_limit_exceeded", "limit of %d requests per hour reached", c.o.Rate)
	case token == "", !readOnly && c.o.Token != "" && token != c.o.Token:
		return refusal(http.StatusUnauthorized, "unauthorized", "unable to authenticate")
	case readOnly && c.r.Method != http.MethodGet:
		return refusal(http.StatusUnauthorized, "token_readonly", "the token is only allowed to perform GET requests")
	}
	body, err := tree.Decode(raw)
	if err != nil {
		return refusal(http.StatusBadRequest, "json_error", "%v", err)
	}
	if err := c.operation.Query(c.variables, c.r.URL.Query()); err != nil {
		return err
	}
	if err := c.operation.Body(body); err != nil {
		return err
	}
	c.body, _ = tree.Plain(body).(object)
	return checkLabels(tree.Sub(c.body, "labels"))
}

// Play implements standin.Call.
func (c *call) Play(fate standin.Fate) (standin.Answer, error) {
	h := c.handlers[c.operation.ID]
	if h == nil {
		return standin.Answer{}, c.Bug(refusal(http.StatusNotImplemented, "not_implemented", "%s is not supported by this emulator", c.operation.ID))
	}
	c.fate = fate
	out, err := h(c)
	if err != nil {
		return standin.Answer{}, err
	}
	a := standin.Answer{Status: c.operation.Success(), Header: c.links(out)}
	var raw []byte
	if out != nil {
		a.Body = out
		if raw, err = json.Marshal(out); err != nil {
			return a, c.Bug(err)
		}
	}
	body, err := tree.Decode(raw)
	if err == nil {
		err = c.operation.Answer(a.Status, body)
	}
	if err != nil {
		return a, c.Bug(refusal(http.StatusInternalServerError, "server_error", "%v", err))
	}
	return a, nil
}

// Exhaust sets whether a location has no capacity left for servers.
func (e *Emulator) Exhaust(location string, yes bool) { e.Do(func() { e.exhausted[location] = yes }) }

// Limit sets the limit of a kind, such as servers; 0: there is none.
func (e *Emulator) Limit(kind string, most int) { e.Do(func() { e.store.SetMost(kind, most) }) }

// SetLag makes reads return objects as they were some time ago, from now on.
func (e *Emulator) SetLag(d time.Duration) { e.Do(func() { e.store.SetLag(d) }) }

// Died reports that the machine of a server has stopped on its own: the server is off.
func (e *Emulator) Died(id int64) {
	e.Do(func() {
		if s := e.store.Get("servers", id); s != nil && s.Object["status"] == running {
			s.Object["status"] = off
		}
	})
}

// Servers returns the servers that exist.
func (e *Emulator) Servers() []Server {
	var out []Server
	e.Do(func() {
		for _, s := range e.store.All("servers") {
			out = append(out, e.machineOf(s))
		}
	})
	return out
}

// Inventory lists everything that was created and exists, sorted, as KIND/NAME, without what exists
// from the start and without actions; a record set is rrsets/ZONE/NAME/TYPE.
func (e *Emulator) Inventory() []string {
	var out []string
	e.Do(func() {
		for name, r := range resources {
			for _, x := range e.store.All(name) {
				if r.created {
					out = append(out, name+"/"+tree.Text(x.Object, "name"))
				}
			}
		}
		out = append(out, e.recordInventory()...)
	})
	slices.Sort(out)
	return out
}
