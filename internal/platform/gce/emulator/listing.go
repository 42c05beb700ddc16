package emulator

import (
	"encoding/base64"
	"maps"
	"slices"
	"strconv"
	"strings"

	"kops.local/kops/internal/standin/tree"
)

// maxPage is the maximum and default number of objects in a page.
const maxPage = 500

// list returns the objects of a scope.
func (k *collection) list(c *call) (object, error) {
	return c.page(k.entriesBelow(c, c.scope()+"/"), c.scope()+"/"+k.segment)
}

// entriesBelow returns the objects below a path.
func (k *collection) entriesBelow(c *call, prefix string) []*entry {
	var out []*entry
	for path, x := range c.entries {
		if x.kind == k && x.created && strings.HasPrefix(path, prefix) {
			out = append(out, x)
		}
	}
	return out
}

// page returns a page of entries, sorted by path.
func (c *call) page(found []*entry, path string) (object, error) {
	items := []object{}
	for _, x := range sortedBy(found, func(x *entry) string { return x.path }) {
		items = append(items, c.toObject(x))
	}
	return c.pageOf(items, path)
}

// pageOf returns a page of those objects that pass the filter.
func (c *call) pageOf(items []object, path string) (object, error) {
	items, next, err := c.paginate(items)
	if err != nil {
		return nil, err
	}
	out := object{"id": path, "selfLink": link(path)}
	if len(items) > 0 {
		out["items"] = tree.ListOf(items)
	}
	if next != "" {
		out["nextPageToken"] = next
	}
	c.method.Response.Complete(out)
	return out, nil
}

// paginate returns the requested page of some objects, and the token of the next one.
func (c *call) paginate(items []object) (page []object, next string, err error) {
	keep, err := parseFilter(c.params["filter"])
	if err != nil {
		return nil, "", err
	}
	items = slices.DeleteFunc(items, func(o object) bool { return !keep(o) })
	if by := c.params["orderBy"]; by != "" && by != "name" {
		if by != "creationTimestamp desc" {
			return nil, "", invalid("orderBy", by, "Only name and creationTimestamp desc are known.")
		}
		slices.Reverse(sortedBy(items, func(o object) string { return tree.Text(o, "creationTimestamp") }))
	}
	size := maxPage
	if s := c.params["maxResults"]; s != "" {
		if size, err = strconv.Atoi(s); err != nil || size < 0 || size > maxPage {
			return nil, "", invalid("maxResults", s, "Acceptable values are 0 to 500, inclusive.")
		}
	}
	return pageFrom(items, c.params["pageToken"], size)
}

// pageFrom returns the page at a token, which encodes the page's first index.
func pageFrom[V any](items []V, token string, size int) (page []V, next string, err error) {
	at := 0
	if token != "" {
		raw, err := base64.RawURLEncoding.DecodeString(token)
		if at, _ = strconv.Atoi(string(raw)); err != nil || at <= 0 {
			return nil, "", invalid("pageToken", token, "Invalid page token.")
		}
	}
	at = min(at, len(items))
	if end := at + size; size > 0 && end < len(items) {
		return items[at:end], base64.RawURLEncoding.EncodeToString([]byte(strconv.Itoa(end))), nil
	}
	return items[at:], "", nil
}

// aggregated returns the objects of all scopes, by scope. A scope without objects has a warning.
func (k *collection) aggregated(c *call) (object, error) {
	prefix := "projects/" + c.params["project"] + "/"
	var found []object
	for _, x := range sortedBy(k.entriesBelow(c, prefix), func(x *entry) string { return x.path }) {
		found = append(found, c.toObject(x))
	}
	page, next, err := c.paginate(found)
	if err != nil {
		return nil, err
	}
	items, unreachable := object{}, list{}
	for _, place := range c.places(k) {
		if c.silent[lastPart(place, "/")] {
			unreachable = append(unreachable, prefix+place)
			continue
		}
		items[place] = object{"warning": object{"code": "NO_RESULTS_ON_PAGE", "message": "There are no results for scope '" + place + "' on this page.",
			"data": list{object{"key": "scope", "value": place}}}}
	}
	for _, o := range page {
		place := strings.TrimPrefix(scopeOf(pathOf(tree.Text(o, "selfLink"))), prefix)
		scoped, there := items[place].(object)
		if !there {
			continue // the scope is unreachable
		}
		delete(scoped, "warning")
		all, _ := scoped[k.segment].(list)
		scoped[k.segment] = append(all, o)
	}
	path := prefix + "aggregated/" + k.segment
	out := object{"id": path, "selfLink": link(path), "items": items}
	if len(unreachable) > 0 {
		out["unreachables"] = unreachable
	}
	if next != "" {
		out["nextPageToken"] = next
	}
	c.method.Response.Complete(out)
	return out, nil
}

// places returns the scopes that may contain objects of a kind, such as zones/us-test1-a.
func (c *call) places(k *collection) []string {
	var out []string
	for _, region := range slices.Sorted(maps.Keys(c.o.Regions)) {
		if isZonal(k) {
			for _, z := range c.o.Regions[region] {
				out = append(out, "zones/"+z)
			}
			continue
		}
		out = append(out, "regions/"+region)
	}
	if !isZonal(k) {
		out = append(out, "global")
	}
	slices.Sort(out)
	return out
}

func isZonal(k *collection) bool {
	return slices.Contains([]string{"disks", "instances", "instanceGroups", "instanceGroupManagers"}, k.name)
}
