package rest

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/url"

	"kops.local/kops/internal/engine/fault"
)

// Page is a decoded page of a list.
type Page map[string]json.RawMessage

// Paging returns the query for the page after p, which query requested, or nil if p is the last one.
type Paging func(p Page, query url.Values) (url.Values, error)

// NextValue returns a Paging for pages that contain a token, or the number of the next page, in a
// field, such as meta, pagination, next_page; parameter sends it. The last page has none, or null, or
// an empty token.
func NextValue(parameter string, field ...string) Paging {
	return func(p Page, query url.Values) (url.Values, error) {
		value, err := p.value(field)
		if value == "" || err != nil {
			return nil, err
		}
		query = maps.Clone(query)
		if query == nil {
			query = url.Values{}
		}
		query.Set(parameter, value)
		return query, nil
	}
}

// NextLink returns a Paging for pages that contain the URL of the next page in a field, such as links,
// pages, next. Only its query is used, so that the credentials go nowhere else.
func NextLink(field ...string) Paging {
	return func(p Page, _ url.Values) (url.Values, error) {
		value, err := p.value(field)
		if value == "" || err != nil {
			return nil, err
		}
		link, err := url.Parse(value)
		if err != nil {
			return nil, fmt.Errorf("parse the link to the next page: %w", err)
		}
		return link.Query(), nil
	}
}

// value returns the text of a string or a number; "" if the field is missing or null.
func (p Page) value(field []string) (string, error) {
	for len(field) > 1 {
		var inner Page
		if err := p.decode(field[0], &inner); err != nil {
			return "", err
		}
		p, field = inner, field[1:]
	}
	text := bytes.TrimSpace(p[field[0]])
	if len(text) > 0 && text[0] != '"' && !bytes.Equal(text, []byte("null")) {
		var number json.Number
		err := p.decode(field[0], &number)
		return number.String(), err
	}
	var out string
	err := p.decode(field[0], &out)
	return out, err
}

// decode reads a field that may be missing.
func (p Page) decode(key string, into any) error {
	text, there := p[key]
	if !there {
		return nil
	}
	if err := json.Unmarshal(text, into); err != nil {
		return fmt.Errorf("%s: %w", key, err)
	}
	return nil
}

// List sends a request until there are no more pages, and returns the items in the field key.
func List[T any](ctx context.Context, c Client, r Request, key string) ([]T, error) {
	var out []T
	asked := map[string]bool{r.Query.Encode(): true}
	for {
		var page Page
		if err := c.Do(ctx, r, &page); err != nil {
			return nil, err
		}
		var items []T
		if err := page.decode(key, &items); err != nil {
			return nil, c.parseError(err)
		}
		out = append(out, items...)
		if c.Next == nil {
			return out, nil
		}
		query, err := c.Next(page, r.Query)
		if err != nil {
			return nil, c.parseError(err)
		}
		if query == nil {
			return out, nil
		}
		text := query.Encode()
		if asked[text] {
			return nil, fault.New(c.unanswered(), "the server returns the same page twice: %s", text)
		}
		asked[text], r.Query = true, query
	}
}
