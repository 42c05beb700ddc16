package emulator

import (
	"cmp"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/validation"

	"kops.local/kops/internal/standin/tree"
)

// Sizes of pages.
const usualPage, maxPage = 25, 50

// page returns the requested page of those objects that the query selects.
func (c *call) page(name string, all []object) (object, error) {
	query := c.r.URL.Query()
	all, err := c.selectBy(query, all)
	if err != nil {
		return nil, err
	}
	number, size := int64(1), int64(usualPage)
	for key, to := range map[string]*int64{"page": &number, "per_page": &size} {
		if text := query.Get(key); text != "" {
			*to, _ = strconv.ParseInt(text, 10, 64) // a number, by the description
		}
	}
	if number < 1 || size < 1 || size > maxPage {
		return nil, invalid("per_page", "pages have 1 to %d entries", maxPage)
	}
	total := int64(len(all))
	last := max(1, (total+size-1)/size)
	p := object{"page": number, "per_page": size, "previous_page": nil, "next_page": nil, "last_page": last, "total_entries": total}
	if number > 1 {
		p["previous_page"] = number - 1
	}
	if number < last {
		p["next_page"] = number + 1
	}
	items := list{}
	for _, o := range all[min((number-1)*size, total):min(number*size, total)] {
		items = append(items, c.show(name, o))
	}
	return object{name: items, "meta": object{"pagination": p}}, nil
}

// links returns the header with links to other pages (RFC 8288).
func (c *call) links(out object) http.Header {
	p := tree.Sub(tree.Sub(out, "meta"), "pagination")
	if p == nil {
		return nil
	}
	var links []string
	for _, l := range []struct{ key, rel string }{{"previous_page", "prev"}, {"next_page", "next"}, {"last_page", "last"}} {
		if n, ok := p[l.key].(int64); ok {
			u := *c.r.URL
			q := u.Query()
			q.Set("page", strconv.FormatInt(n, 10))
			u.Host, u.Scheme, u.RawQuery = c.r.Host, "http", q.Encode()
			links = append(links, "<"+u.String()+">; rel="+l.rel)
		}
	}
	return http.Header{"Link": {strings.Join(links, ", ")}}
}

// selectBy returns the objects that fit the parameters of a list, in the order that they ask for.
func (c *call) selectBy(query url.Values, all []object) ([]object, error) {
	var out []object
	selector, err := labels.Parse(query.Get("label_selector"))
	if err != nil {
		return nil, invalid("label_selector", "%v", err)
	}
	for _, o := range all {
		fits := selector.Matches(labelsOf(o))
		for key, values := range query {
			if !slices.Contains([]string{"page", "per_page", "sort", "label_selector", "include_deprecated"}, key) {
				fits = fits && slices.Contains(values, fmt.Sprint(o[key]))
			}
		}
		if fits {
			out = append(out, o)
		}
	}
	for _, by := range slices.Backward(query["sort"]) {
		field, direction, _ := strings.Cut(by, ":")
		slices.SortStableFunc(out, func(a, b object) int {
			n := cmp.Or(cmp.Compare(tree.Number(a, field), tree.Number(b, field)), cmp.Compare(tree.Text(a, field), tree.Text(b, field)))
			if direction == "desc" {
				return -n
			}
			return n
		})
	}
	return out, nil
}

func labelsOf(o object) labels.Set {
	out := labels.Set{}
	for k := range tree.Sub(o, "labels") {
		out[k] = tree.Text(tree.Sub(o, "labels"), k)
	}
	return out
}

// checkLabels checks the keys of labels; the description has the rules for values.
func checkLabels(all object) error {
	for k := range all {
		if msgs := validation.IsQualifiedName(k); len(msgs) > 0 {
			return invalid("labels", "the key %q is not valid: %s", k, msgs[0])
		}
		if strings.HasPrefix(k, "hetzner.cloud/") {
			return invalid("labels", "the prefix hetzner.cloud/ is reserved")
		}
	}
	return nil
}
