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

// apiPath returns the path of the bucket in the JSON API.
func (b *bucket) apiPath() string { return "/storage/v1/b/" + url.PathEscape(b.name) }

// objects returns the path of all objects, and object the path of one, by its name in the bucket.
func (b *bucket) objects() string           { return b.apiPath() + "/o" }
func (b *bucket) object(name string) string { return b.objects() + "/" + url.PathEscape(name) }

// request returns an anonymous request. body returns what is sent, and its length; nil: nothing is.
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

// sign adds the token to a request.
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

// do sends a request with the token, retrying as web.Do does.
func (b *bucket) do(ctx context.Context, method, path string, body func() (io.Reader, int64), kind string) (web.Answer, error) {
	a, err := web.Do(ctx, b.c.HTTP, func() (*http.Request, error) {
		req, err := b.request(ctx, method, path, body, kind)
		if err == nil {
			err = b.c.sign(req)
		}
		return req, err
	}, isThrottled)
	if err == nil && a.OK() {
		b.exists.Store(true)
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

// reason returns the server's reason for a refusal, or "".
func reason(a web.Answer) string {
	var r refusal
	if json.Unmarshal(a.Body, &r) != nil || len(r.Error.Errors) == 0 {
		return ""
	}
	return r.Error.Errors[0].Reason
}

// serverError returns the server's error message, in its own words if they are short.
func serverError(a web.Answer) error {
	var r refusal
	text := ""
	if json.Unmarshal(a.Body, &r) == nil {
		text = r.Error.Message
	} else if t := strings.TrimSpace(string(a.Body)); len(t) < 300 && !strings.HasPrefix(t, "<") {
		text = t
	}
	return errors.New(cmp.Or(text, fmt.Sprintf("the server answers %d %s", a.Status, http.StatusText(a.Status))))
}

// isThrottled reports whether a request was rejected because of the request rate.
func isThrottled(a web.Answer) bool {
	return a.Status == http.StatusForbidden && slices.Contains([]string{"rateLimitExceeded", "userRateLimitExceeded"}, reason(a))
}

// isBucketMissing reports whether the bucket itself is missing, unless it has answered before. If
// the caller may not find out, the error names the object.
func (b *bucket) isBucketMissing(ctx context.Context) bool {
	if b.exists.Load() {
		return false
	}
	a, err := b.do(ctx, http.MethodGet, b.objects()+"?maxResults=1&fields=nextPageToken", nil, "")
	return err == nil && a.Status == http.StatusNotFound
}

// wrapError adds the failed operation to an error, and classifies it.
func (b *bucket) wrapError(ctx context.Context, doing, permission, key string, a web.Answer, err error) error {
	what := doing + " " + store.URL(b, key)
	if ctx.Err() != nil { // a timeout of the connection looks like one of the context
		return fmt.Errorf("%s: %w", what, ctx.Err())
	}
	if err != nil {
		return web.ConnectionError(what, err)
	}
	why := reason(a)
	err = fmt.Errorf("%s: %w", what, serverError(a))
	switch a.Status {
	case http.StatusNotFound:
		if permission != "storage.objects.get" && permission != "storage.objects.delete" || b.isBucketMissing(ctx) {
			return fault.Wrap(fault.Permanent, &store.MissingError{Err: err}, fmt.Sprintf("create the bucket (gcloud storage buckets create gs://%s), or correct its name", b.name))
		}
		return fault.Wrap(fault.Gone, err, "")
	case http.StatusUnauthorized:
		if b.c.Token == nil {
			return fault.Wrap(fault.Denied, err, "anonymous users may not do that: log in, or give the machine a service account")
		}
		return fault.Wrap(fault.Denied, err, "log in again (gcloud auth application-default login), or renew the key in GOOGLE_APPLICATION_CREDENTIALS")
	case http.StatusForbidden:
		return b.classifyForbidden(permission, why, err)
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

// classifyForbidden classifies a refusal by its reason.
func (b *bucket) classifyForbidden(permission, why string, err error) error {
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
	return fault.Wrap(fault.Denied, err, fmt.Sprintf("allow %s on the bucket %s to this account, such as by the role %s", permission, b.name, roleFor(permission)))
}

// roleFor returns a role that includes a permission.
func roleFor(permission string) string {
	if permission == "storage.objects.get" || permission == "storage.objects.list" {
		return "roles/storage.objectViewer"
	}
	return "roles/storage.objectAdmin"
}
