// Package hetznerapi is a client of Hetzner Cloud's API: lists of objects, changes that are awaited, and
// errors with their classes. An object is identified by its path, such as servers/42.
//
// It must not know what a cluster is. It links no SDK.
package hetznerapi

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"kops.local/kops/internal/engine/fault"
	"kops.local/kops/internal/platform/rest"
)

// endpoint is the URL of Hetzner's API.
const endpoint = "https://api.hetzner.cloud/v1"

// Limits of time: for one request, and for actions, of which the creation of a server takes longest.
const (
	timeout  = time.Minute
	patience = 10 * time.Minute
)

// perPage is the maximum number of objects in a page.
const perPage = "50"

// Config says how the API is reached, with a token of the project.
type Config = rest.Config

// Client calls the API in one project.
type Client struct{ rest.Client }

// New returns a client. It sends no request.
func New(c Config) *Client {
	out := &Client{c.Client(endpoint, CheckToken)}
	out.Classify, out.Next, out.Timeout, out.Patience = classify, rest.NextValue("page", "meta", "pagination", "next_page"), timeout, patience
	return out
}

// CheckToken returns an error if there is no token.
func CheckToken(token string) error {
	if token == "" {
		return fault.Wrap(fault.Denied, errors.New("HCLOUD_TOKEN is not set"), remedyToken)
	}
	return nil
}

// Path returns the path of an object.
func Path(kind string, id int64) string { return kind + "/" + strconv.FormatInt(id, 10) }

// Number returns the number in a path; 0 if it has none.
func Number(path string) int64 {
	n, _ := strconv.ParseInt(path[strings.LastIndex(path, "/")+1:], 10, 64) // the error is that it has none
	return n
}

// List returns the objects of a kind, such as servers, that a query selects.
func List[T any](ctx context.Context, c *Client, kind string, query url.Values) ([]T, error) {
	q := url.Values{"per_page": {perPage}}
	for k, v := range query {
		q[k] = v
	}
	out, err := rest.List[T](ctx, c.Client, rest.Request{Path: kind, Query: q}, kind)
	if err != nil {
		return nil, fmt.Errorf("list %s: %w", strings.ReplaceAll(kind, "_", " "), err)
	}
	return out, nil
}

// Labelled returns the query for objects that a label selector selects.
func Labelled(selector string) url.Values { return url.Values{"label_selector": {selector}} }

// Get reads the object at a path.
func Get[T any](ctx context.Context, c *Client, path string) (T, error) {
	var out map[string]T
	err := c.Client.Get(ctx, path, nil, &out)
	return out[singular(path)], err
}

// FindNetwork returns the network with a number or a name, or nil if there is none.
func FindNetwork(ctx context.Context, c *Client, name string) (*Network, error) {
	if id, err := strconv.ParseInt(name, 10, 64); err == nil {
		n, err := Get[Network](ctx, c, Path("networks", id))
		if !fault.Is(err, fault.Gone) {
			return &n, err
		}
	}
	all, err := List[Network](ctx, c, "networks", url.Values{"name": {name}})
	if err != nil || len(all) == 0 {
		return nil, err
	}
	return &all[0], nil
}

// singular returns the key of an object in a response, such as server for servers/42.
func singular(path string) string {
	kind, _, _ := strings.Cut(path, "/")
	return strings.TrimSuffix(kind, "s")
}

// Create creates an object of a kind, awaits the actions that follow, and returns the object. The object
// is also returned with an error, if only an action failed.
func Create[T any](ctx context.Context, c *Client, kind string, body any) (T, error) {
	answer := map[string]json.RawMessage{}
	var out T
	err := c.change(ctx, http.MethodPost, kind, body, func(text []byte) error {
		return errors.Join(json.Unmarshal(text, &answer), json.Unmarshal(answer[singular(kind)], &out))
	})
	return out, err
}

// Act does an action with the object at a path, and awaits it. Some actions have no body.
func (c *Client) Act(ctx context.Context, path, action string, body any) error {
	return c.change(ctx, http.MethodPost, path+"/actions/"+action, body, nil)
}

// Set changes the properties of the object at a path that need no action: its name or its labels.
func (c *Client) Set(ctx context.Context, path string, body any) error {
	return c.change(ctx, http.MethodPut, path, body, nil)
}

// Delete deletes the object at a path, and returns when it is gone.
func (c *Client) Delete(ctx context.Context, path string) error {
	return fault.IgnoreGone(c.change(ctx, http.MethodDelete, path, nil, nil))
}

// change sends a request, passes the response to read, unless it is nil, and awaits the actions in the
// response.
func (c *Client) change(ctx context.Context, method, path string, body any, read func([]byte) error) error {
	var text json.RawMessage
	if err := c.Do(ctx, rest.Request{Method: method, Path: path, Body: body}, &text); err != nil || len(text) == 0 {
		return err
	}
	var started struct {
		Action  *Action  `json:"action"`
		Actions []Action `json:"actions"`
		Next    []Action `json:"next_actions"`
	}
	err := json.Unmarshal(text, &started)
	if err == nil && read != nil {
		err = read(text)
	}
	if err != nil {
		return fault.New(fault.Lost, "cannot parse the response: %w", err)
	}
	actions := append(started.Actions, started.Next...)
	if started.Action != nil {
		actions = append(actions, *started.Action)
	}
	return c.await(ctx, actions)
}

// await waits until actions are done. One request asks for all of them; it may not see new ones at once.
func (c *Client) await(ctx context.Context, actions []Action) error {
	var failed error
	running := map[string]bool{}
	err := c.Await(ctx, func(ctx context.Context) (bool, error) {
		if len(running) > 0 {
			var err error
			if actions, err = rest.List[Action](ctx, c.Client, rest.Request{Path: "actions", Query: url.Values{"id": slices.Sorted(maps.Keys(running))}}, "actions"); err != nil {
				return false, err
			}
		}
		for _, a := range actions {
			id := strconv.FormatInt(a.ID, 10)
			if running[id] = a.Status == "running"; !running[id] {
				delete(running, id)
			}
			if a.Status == "error" && failed == nil {
				failed = fmt.Errorf("%s: %w", a.Command, withClass(cmp.Or(a.Error, &Error{Code: "action_failed", Message: "no reason is known"})))
			}
		}
		return len(running) == 0, nil
	})
	return cmp.Or(err, failed)
}
