package gs

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"kops.local/kops/internal/engine/fault"
	"kops.local/kops/internal/store"
	"kops.local/kops/internal/store/web"
)

// at is the path of the bucket in the JSON API.
func (b *bucket) at() string { return "/storage/v1/b/" + url.PathEscape(b.name) }

// objects returns the path of all objects, and object the path of one, by its name in the bucket.
func (b *bucket) objects() string           { return b.at() + "/o" }
func (b *bucket) object(name string) string { return b.objects() + "/" + url.PathEscape(name) }

// request is one that bears no name. body gives what is sent, and its length; nil: nothing is.
func (b *bucket) request(ctx context.Context, method, path string, body func() (io.Reader, int64), kind string) (*http.Request, error) {
	var sent io.Reader
	var length int64
	if body != nil {
		sent, length = body()
	}
	req, err := http.NewRequestWithContext(ctx, method, b.c.Endpoint+path, sent)
	if err != nil {
		return nil, fault.Wrap(fault.Permanent, err, "")
	}
	if body != nil {
		req.ContentLength = length
		req.Header.Set("Content-Type", kind)
	}
	return req, nil
}

// sign tells who asks.
func (c Config) sign(req *http.Request) error {
	if c.Token == nil {
		return nil
	}
	t, err := c.Token(req.Context())
	if err == nil {
		req.Header.Set("Authorization", "Bearer "+t.Access)
	}
	return err
}

// ask sends a request by the token, as often as web.Ask does.
func (b *bucket) ask(ctx context.Context, method, path string, body func() (io.Reader, int64), kind string) (web.Answer, error) {
	a, err := web.Ask(ctx, b.c.HTTP, func() (*http.Request, error) {
		req, err := b.request(ctx, method, path, body, kind)
		if err == nil {
			err = b.c.sign(req)
		}
		return req, err
	}, tooMany)
	if err == nil && a.OK() {
		b.there.Store(true)
	}
	return a, err
}

// refusal is the body of an unsuccessful answer (Cloud Storage, "HTTP status and
// error codes for JSON").
type refusal struct {
	Error struct {
		Message string `json:"message"`
		Errors  []struct {
			Reason string `json:"reason"`
		} `json:"errors"`
	} `json:"error"`
}

// reason is the server's name for why it refused, or "".
func reason(a web.Answer) string {
	var r refusal
	if json.Unmarshal(a.Body, &r) != nil || len(r.Error.Errors) == 0 {
		return ""
	}
	return r.Error.Errors[0].Reason
}

// said is what the server says, in its own words where it uses few.
func said(a web.Answer) error {
	var r refusal
	text := ""
	if json.Unmarshal(a.Body, &r) == nil {
		text = r.Error.Message
	} else if t := strings.TrimSpace(string(a.Body)); len(t) < 300 && !strings.HasPrefix(t, "<") {
		text = t
	}
	return errors.New(cmp.Or(text, fmt.Sprintf("the server answers %d %s", a.Status, http.StatusText(a.Status))))
}

// tooMany says of a refusal that it is for the number of requests.
func tooMany(a web.Answer) bool {
	return a.Status == http.StatusForbidden && slices.Contains([]string{"rateLimitExceeded", "userRateLimitExceeded"}, reason(a))
}

// missing asks whether the bucket itself is missing, unless it has answered before. If the
// caller may not ask, the error names the object.
func (b *bucket) missing(ctx context.Context) bool {
	if b.there.Load() {
		return false
	}
	a, err := b.ask(ctx, http.MethodGet, b.objects()+"?maxResults=1&fields=nextPageToken", nil, "")
	return err == nil && a.Status == http.StatusNotFound
}

// failed says what was being done when a request failed, and classes the error.
func (b *bucket) failed(ctx context.Context, doing, permission, key string, a web.Answer, err error) error {
	what := doing + " " + store.URL(b, key)
	if ctx.Err() != nil { // a time-out of the connection looks like a context's
		return fmt.Errorf("%s: %w", what, ctx.Err())
	}
	if err != nil {
		return web.Lost(what, err)
	}
	why := reason(a)
	err = fmt.Errorf("%s: %w", what, said(a))
	switch a.Status {
	case http.StatusNotFound:
		if permission != "storage.objects.get" && permission != "storage.objects.delete" || b.missing(ctx) {
			return fault.Wrap(fault.Permanent, &store.Missing{Err: err}, fmt.Sprintf("create the bucket (gcloud storage buckets create gs://%s), or correct its name", b.name))
		}
		return fault.Wrap(fault.Gone, err, "")
	case http.StatusUnauthorized:
		if b.c.Token == nil {
			return fault.Wrap(fault.Denied, err, "anonymous users may not do that: log in, or give the machine a service account")
		}
		return fault.Wrap(fault.Denied, err, "log in again (gcloud auth application-default login), or renew the key in GOOGLE_APPLICATION_CREDENTIALS")
	case http.StatusForbidden:
		return b.forbidden(permission, why, err)
	case http.StatusPreconditionFailed, http.StatusConflict:
		return fault.Wrap(fault.Conflict, err, "")
	case http.StatusTooManyRequests:
		return fault.Wrap(fault.Throttled, err, "")
	}
	if a.Status/100 == 5 || a.Status == http.StatusRequestTimeout {
		return fault.Wrap(fault.Throttled, err, "")
	}
	return fault.Wrap(fault.Permanent, err, "")
}

// forbidden classes a refusal by its reason.
func (b *bucket) forbidden(permission, why string, err error) error {
	switch why {
	case "rateLimitExceeded", "userRateLimitExceeded":
		return fault.Wrap(fault.Throttled, err, "")
	case "quotaExceeded", "dailyLimitExceeded":
		return fault.Wrap(fault.Quota, err, "ask for a higher limit, or wait until the quota period ends")
	case "accountDisabled", "billingDisabled", "accessNotConfigured":
		return fault.Wrap(fault.Denied, err, "give the bucket's project a billing account, and enable the Cloud Storage API in it")
	case "retentionPolicyNotMet", "objectUnderActiveHold":
		return fault.Wrap(fault.Permanent, err, fmt.Sprintf("the bucket %s makes its objects immutable, but a state store has to change them: remove its retention policy and holds", b.name))
	case "insufficientPermissions":
		return fault.Wrap(fault.Denied, err, "give the instance the scope https://www.googleapis.com/auth/devstorage.read_write, or read_only for read access")
	}
	return fault.Wrap(fault.Denied, err, fmt.Sprintf("allow %s on the bucket %s to this account, such as by the role %s", permission, b.name, role(permission)))
}

// role is one that has a permission.
func role(permission string) string {
	if permission == "storage.objects.get" || permission == "storage.objects.list" {
		return "roles/storage.objectViewer"
	}
	return "roles/storage.objectAdmin"
}
