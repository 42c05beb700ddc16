package emulator

import (
	"encoding/base64"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// maxPage is how many objects a page has at most, and if nothing else is asked.
const maxPage = 500

// list answers the objects of a place.
func (k *collection) list(c *call) (object, error) {
	return c.page(k.in(c, c.scope()+"/"), c.scope()+"/"+k.segment)
}

// in are the objects below a path.
func (k *collection) in(c *call, prefix string) []*entry {
	var out []*entry
	for path, x := range c.entries {
		if x.kind == k && x.made && strings.HasPrefix(path, prefix) {
			out = append(out, x)
		}
	}
	return out
}

// page answers a page of entries, in the order of their names.
func (c *call) page(found []*entry, path string) (object, error) {
	items := []object{}
	for _, x := range sortedBy(found, func(x *entry) string { return x.path }) {
		items = append(items, c.shown(x))
	}
	return c.pageOf(items, path)
}

// pageOf answers a page of objects, as far as the filter lets them through.
func (c *call) pageOf(items []object, path string) (object, error) {
	items, next, err := c.cut(items)
	if err != nil {
		return nil, err
	}
	out := object{"id": path, "selfLink": link(path)}
	if len(items) > 0 {
		out["items"] = listOf(items)
	}
	if next != "" {
		out["nextPageToken"] = next
	}
	c.method.Response.Complete(out)
	return out, nil
}

// cut is what of some objects is asked for, and where the next page begins.
func (c *call) cut(items []object) (page []object, next string, err error) {
	keep, err := parseFilter(c.params["filter"])
	if err != nil {
		return nil, "", err
	}
	items = slices.DeleteFunc(items, func(o object) bool { return !keep(o) })
	if by := c.params["orderBy"]; by != "" && by != "name" {
		if by != "creationTimestamp desc" {
			return nil, "", invalid("orderBy", by, "Only name and creationTimestamp desc are known.")
		}
		slices.Reverse(sortedBy(items, func(o object) string { return text(o, "creationTimestamp") }))
	}
	size := maxPage
	if s := c.params["maxResults"]; s != "" {
		if size, err = strconv.Atoi(s); err != nil || size < 0 || size > maxPage {
			return nil, "", invalid("maxResults", s, "Acceptable values are 0 to 500, inclusive.")
		}
	}
	return pageFrom(items, c.params["pageToken"], size)
}

// pageFrom is the page that a token tells. A token is where the page begins.
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

// aggregated answers the objects of all places, by place. A place without any has a warning.
func (k *collection) aggregated(c *call) (object, error) {
	prefix := "projects/" + c.params["project"] + "/"
	var found []object
	for _, x := range sortedBy(k.in(c, prefix), func(x *entry) string { return x.path }) {
		found = append(found, c.shown(x))
	}
	page, next, err := c.cut(found)
	if err != nil {
		return nil, err
	}
	items, unreachable := object{}, list{}
	for _, place := range c.places(k) {
		if c.silent[last(place, "/")] {
			unreachable = append(unreachable, prefix+place)
			continue
		}
		items[place] = object{"warning": object{"code": "NO_RESULTS_ON_PAGE", "message": "There are no results for scope '" + place + "' on this page.",
			"data": list{object{"key": "scope", "value": place}}}}
	}
	for _, o := range page {
		place := strings.TrimPrefix(scopeOf(pathOf(text(o, "selfLink"))), prefix)
		scoped, there := items[place].(object)
		if !there {
			continue // it does not answer
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

// places are those in which objects of a kind may be, such as zones/us-test1-a.
func (c *call) places(k *collection) []string {
	var out []string
	for _, region := range slices.Sorted(maps.Keys(c.o.Regions)) {
		if zonal(k) {
			for _, z := range c.o.Regions[region] {
				out = append(out, "zones/"+z)
			}
			continue
		}
		out = append(out, "regions/"+region)
	}
	if !zonal(k) {
		out = append(out, "global")
	}
	slices.Sort(out)
	return out
}

func zonal(k *collection) bool {
	return slices.Contains([]string{"disks", "instances", "instanceGroups", "instanceGroupManagers"}, k.name)
}
