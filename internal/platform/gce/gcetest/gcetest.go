// Package gcetest emulates, for tests, the part of Google Cloud that machines use: the metadata
// server of one instance, and a few methods of Compute Engine and Cloud DNS. It returns the objects
// that a test sets unchanged, in pages, and changes are operations that clients must wait for.
package gcetest

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
)

// Doc is a JSON object.
type Doc = map[string]any

// pageSize is the number of items per page: small, so that lists have several pages.
const pageSize = 2

// Cloud is a Google Cloud project.
type Cloud struct {
	// URL replaces the URL of every service; Host is the metadata server.
	URL, Host string
	// Refuse makes a request, given as METHOD PATH, fail if it returns a status other than 0.
	Refuse func(call string) (status int, reason string)

	t          testing.TB
	mu         sync.Mutex
	metadata   map[string]string
	things     map[string]Doc
	operations map[string]*operation
	calls      []string
	tokens     int
}

// operation is a change that takes effect at the second wait.
type operation struct {
	waits int
	do    func() (code, message string)
}

// Start serves a project until the test ends, to the instance with this metadata, by key below
// computeMetadata/v1.
func Start(t testing.TB, metadata map[string]string) *Cloud {
	t.Helper()
	c := &Cloud{t: t, metadata: maps.Clone(metadata), things: map[string]Doc{}, operations: map[string]*operation{}}
	s := httptest.NewServer(c)
	t.Cleanup(s.Close)
	c.URL, c.Host = s.URL, strings.TrimPrefix(s.URL, "http://")
	return c
}

// Env returns an environment variable of a program that uses the project.
func (c *Cloud) Env(name string) string {
	return map[string]string{"KOPS_GCE_ENDPOINT": c.URL, "GCE_METADATA_HOST": c.Host}[name]
}

// Put stores an object at a path, such as compute/v1/projects/P/zones/Z/disks/D.
func (c *Cloud) Put(path string, d Doc) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.things[path] = d
}

// Delete removes an object.
func (c *Cloud) Delete(path string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.things, path)
}

// Get returns a field of an object.
func (c *Cloud) Get(path, field string) any {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.things[path][field]
}

// Calls returns the calls since it was last called, each as METHOD PATH, without those to the
// metadata server.
func (c *Cloud) Calls() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	out := c.calls
	c.calls = nil
	return out
}

// ServeHTTP implements http.Handler.
func (c *Cloud) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	c.mu.Lock()
	defer c.mu.Unlock()
	path := strings.Trim(r.URL.Path, "/")
	if key, ok := strings.CutPrefix(path, "computeMetadata/v1/"); ok {
		c.serveMetadata(w, r, key)
		return
	}
	call := r.Method + " " + path
	c.calls = append(c.calls, call)
	if c.Refuse != nil {
		if status, reason := c.Refuse(call); status != 0 {
			writeError(w, status, reason)
			return
		}
	}
	n, err := strconv.Atoi(strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer token-"))
	if err != nil || n < 1 || n > c.tokens {
		writeError(w, http.StatusUnauthorized, "authError")
		return
	}
	in := Doc{}
	if r.ContentLength > 0 {
		if err := json.NewDecoder(r.Body).Decode(&in); err != nil {
			c.t.Errorf("%s: %v", call, err)
		}
	}
	c.answer(w, r, path, in)
}

func (c *Cloud) serveMetadata(w http.ResponseWriter, r *http.Request, key string) {
	text, ok := c.metadata[key]
	switch {
	case r.Header.Get("Metadata-Flavor") != "Google":
		w.WriteHeader(http.StatusForbidden)
	case key == "instance/service-accounts/default/token":
		c.tokens++
		_, _ = fmt.Fprintf(w, `{"access_token":"token-%d","expires_in":3599,"token_type":"Bearer"}`, c.tokens)
	case !ok:
		w.WriteHeader(http.StatusNotFound)
	default:
		_, _ = fmt.Fprintln(w, text)
	}
}

// answer handles a request depending on the last part of its path.
func (c *Cloud) answer(w http.ResponseWriter, r *http.Request, path string, in Doc) {
	parent, last := path[:strings.LastIndexByte(path, '/')], path[strings.LastIndexByte(path, '/')+1:]
	thing, there := c.things[parent]
	switch {
	case last == "wait":
		c.wait(w, parent)
	case last == "getShieldedInstanceIdentity" && there:
		write(w, Doc{"signingKey": Doc{"ekPub": thing["ekPub"]}})
	case last == "listManagedInstances" && there && r.Method == http.MethodPost:
		managed, _ := thing["managed"].([]Doc)
		page(w, r, "managedInstances", managed)
	case last == "attachDisk" && there:
		c.startOperation(w, parent, func() (string, string) { return c.attach(parent, in) })
	case last == "recreateInstances" && there:
		c.startOperation(w, parent, func() (string, string) { thing["recreated"] = in["instances"]; return "", "" })
	case last == "changes" && there:
		c.change(w, parent, in)
	case r.Method == http.MethodGet && c.things[path] != nil:
		write(w, c.things[path])
	case r.Method == http.MethodGet && slices.Contains([]string{"instances", "disks", "zones", "managedZones", "rrsets", "instanceGroupManagers"}, last):
		key := "items"
		if last == "managedZones" || last == "rrsets" {
			key = last
		}
		page(w, r, key, c.listBelow(path, r.URL.Query().Get("filter")))
	default:
		writeError(w, http.StatusNotFound, "notFound")
	}
}

// listBelow returns the objects of a collection that have the labels in a filter: labels.KEY=VALUE, or
// labels.KEY:* for any value, joined by AND. Any other filter selects all objects.
func (c *Cloud) listBelow(path, filter string) []Doc {
	if !strings.HasPrefix(filter, "labels.") {
		filter = ""
	}
	var out []Doc
	for _, p := range slices.Sorted(maps.Keys(c.things)) {
		rest, ok := strings.CutPrefix(p, path+"/")
		labels, _ := c.things[p]["labels"].(map[string]string)
		for _, f := range strings.FieldsFunc(filter, func(r rune) bool { return r == ' ' }) {
			key, value, exact := strings.Cut(strings.TrimPrefix(f, "labels."), "=")
			if !exact {
				key = strings.TrimSuffix(key, ":*")
			}
			have, there := labels[key]
			ok = ok && (f == "AND" || there && (!exact || have == value))
		}
		if ok && !strings.Contains(rest, "/") {
			out = append(out, c.things[p])
		}
	}
	return out
}

func page(w http.ResponseWriter, r *http.Request, key string, all []Doc) {
	from, _ := strconv.Atoi(r.URL.Query().Get("pageToken"))
	from = min(from, len(all))
	to := min(from+pageSize, len(all))
	out := Doc{}
	if from < to {
		out[key] = all[from:to]
	}
	if to < len(all) {
		out["nextPageToken"] = strconv.Itoa(to)
	}
	write(w, out)
}

// startOperation responds with an operation in the zone of an object.
func (c *Cloud) startOperation(w http.ResponseWriter, path string, do func() (code, message string)) {
	parts := strings.Split(path, "/") // compute/v1/projects/P/zones/Z/…
	name := "operation-" + strconv.Itoa(len(c.operations)+1)
	c.operations[strings.Join(parts[:6], "/")+"/operations/"+name] = &operation{do: do}
	write(w, Doc{"name": name, "status": "RUNNING"})
}

func (c *Cloud) wait(w http.ResponseWriter, path string) {
	o := c.operations[path]
	if o == nil {
		writeError(w, http.StatusNotFound, "notFound")
		return
	}
	out := Doc{"name": path[strings.LastIndexByte(path, '/')+1:], "status": "RUNNING"}
	if o.waits++; o.waits > 1 {
		out["status"] = "DONE"
		if code, message := o.do(); code != "" {
			out["error"] = Doc{"errors": []Doc{{"code": code, "message": message}}}
			out["httpErrorStatusCode"] = http.StatusBadRequest
		}
	}
	write(w, out)
}

// attach attaches a disk, which must not be in use, to an instance.
func (c *Cloud) attach(instance string, in Doc) (code, message string) {
	source, _ := in["source"].(string)
	disk := c.things["compute/v1/"+source]
	switch users, _ := disk["users"].([]string); {
	case disk == nil:
		return "RESOURCE_NOT_FOUND", "The resource '" + source + "' was not found"
	case in["mode"] == "READ_WRITE" && len(users) > 0:
		return "RESOURCE_IN_USE_BY_ANOTHER_RESOURCE", "The disk resource '" + source + "' is already being used by '" + users[0] + "'"
	}
	disk["users"] = []string{"https://www.googleapis.com/" + instance}
	disk["deviceName"] = in["deviceName"]
	return "", ""
}

// change adds and deletes record sets of a DNS zone atomically.
func (c *Cloud) change(w http.ResponseWriter, zone string, in Doc) {
	key := func(s any) string {
		set, _ := s.(Doc)
		return fmt.Sprintf("%s/rrsets/%v %v", zone, set["name"], set["type"])
	}
	after := maps.Clone(c.things)
	deletions, _ := in["deletions"].([]any)
	additions, _ := in["additions"].([]any)
	for _, s := range deletions {
		set, _ := s.(Doc)
		have := after[key(s)]
		if have == nil {
			writeError(w, http.StatusNotFound, "notFound")
			return
		}
		if fmt.Sprint(have["ttl"], have["rrdatas"]) != fmt.Sprint(set["ttl"], set["rrdatas"]) {
			writeError(w, http.StatusPreconditionFailed, "conditionNotMet")
			return
		}
		delete(after, key(s))
	}
	for _, s := range additions {
		if after[key(s)] != nil {
			writeError(w, http.StatusConflict, "alreadyExists")
			return
		}
		after[key(s)], _ = s.(Doc)
	}
	c.things = after
	write(w, Doc{"id": "1", "status": "pending"})
}

func write(w http.ResponseWriter, d Doc) {
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(d) // if it fails, so does the test
}

// writeError responds with an error in Google's form.
func writeError(w http.ResponseWriter, status int, reason string) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(Doc{"error": Doc{"code": status, "message": "it is refused", "errors": []Doc{{"reason": reason, "message": "it is refused", "domain": "global"}}}}) // if it fails, so does the test
}
