package azureblob

import (
	"bytes"
	"cmp"
	"context"
	"crypto/hmac"
	"crypto/md5"
	"crypto/sha256"
	"encoding/base64"
	"encoding/xml"
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
	"kops.local/kops/internal/store"
	"kops.local/kops/internal/store/web"
)

// apiVersion is the REST API's version in use, which both Azure's servers and their
// emulators support.
const apiVersion = "2021-12-02"

// request is a request for a blob, by its name in the container, or for the container.
type request struct {
	method, blob string
	query        url.Values
	header       http.Header
	body         []byte
}

// do sends a request, retrying as web.Do does.
func (s *container) do(ctx context.Context, r request) (web.Answer, error) {
	at := s.endpoint
	if r.blob != "" {
		at += "/" + url.PathEscape(r.blob)
	}
	if len(r.query) > 0 {
		at += "?" + r.query.Encode()
	}
	return web.Do(ctx, s.c.HTTP, func() (*http.Request, error) {
		req, err := http.NewRequestWithContext(ctx, r.method, at, bytes.NewReader(r.body))
		if err != nil {
			return nil, fault.Wrap(fault.Permanent, err, "")
		}
		maps.Copy(req.Header, r.header)
		req.Header.Set("X-Ms-Version", apiVersion)
		req.Header.Set("X-Ms-Date", time.Now().UTC().Format(http.TimeFormat))
		return req, s.sign(req)
	}, nil)
}

// sign adds the credentials to a request: the account's key, or a token.
func (s *container) sign(req *http.Request) error {
	switch {
	case s.c.Key != "":
		key, err := base64.StdEncoding.DecodeString(s.c.Key)
		if err != nil {
			return fault.Wrap(fault.Denied, errors.New("the key of the account is not in base64"), "set AZURE_STORAGE_KEY to a key of the account, as az storage account keys list shows it")
		}
		sum := hmac.New(sha256.New, key)
		sum.Write([]byte(s.stringToSign(req)))
		req.Header.Set("Authorization", "SharedKey "+s.account+":"+base64.StdEncoding.EncodeToString(sum.Sum(nil)))
	case s.c.Token != nil:
		token, err := s.c.Token(req.Context())
		if err != nil {
			return err
		}
		req.Header.Set("Authorization", "Bearer "+token)
	}
	return nil
}

// stringToSign returns the text to sign with a shared key (Storage services REST API,
// "Authorize with Shared Key").
func (s *container) stringToSign(req *http.Request) string {
	length := ""
	if req.ContentLength > 0 {
		length = strconv.FormatInt(req.ContentLength, 10)
	}
	h := req.Header
	lines := []string{req.Method, h.Get("Content-Encoding"), h.Get("Content-Language"), length, h.Get("Content-MD5"), h.Get("Content-Type"), h.Get("Date"),
		h.Get("If-Modified-Since"), h.Get("If-Match"), h.Get("If-None-Match"), h.Get("If-Unmodified-Since"), h.Get("Range")}
	for _, name := range slices.Sorted(maps.Keys(h)) {
		if n := strings.ToLower(name); strings.HasPrefix(n, "x-ms-") {
			lines = append(lines, n+":"+h.Get(name))
		}
	}
	lines = append(lines, "/"+s.account+req.URL.EscapedPath())
	query := req.URL.Query()
	for _, name := range slices.Sorted(maps.Keys(query)) {
		lines = append(lines, name+":"+strings.Join(query[name], ","))
	}
	return strings.Join(lines, "\n")
}

func md5Sum(data []byte) string {
	sum := md5.Sum(data)
	return base64.StdEncoding.EncodeToString(sum[:])
}

// isPublic reports whether the blobs of the container are publicly readable.
func (s *container) isPublic(ctx context.Context) (bool, error) {
	a, err := s.do(ctx, request{method: http.MethodHead, query: url.Values{"restype": {"container"}}})
	if err != nil || !a.OK() {
		return false, s.wrapError(ctx, "check whether public access is allowed to", "", a, err)
	}
	return a.Header.Get("X-Ms-Blob-Public-Access") != "", nil
}

// code returns the server's error code, or "".
func code(a web.Answer) string { return a.Header.Get("X-Ms-Error-Code") }

// serverError returns the server's error message.
func serverError(a web.Answer) error {
	var e struct{ Code, Message string }
	_ = xml.Unmarshal(bytes.TrimPrefix(a.Body, []byte("\xef\xbb\xbf")), &e) // otherwise there is no message
	text, _, _ := strings.Cut(e.Message, "\n")                              // the rest are IDs of the request
	return errors.New(cmp.Or(strings.TrimSuffix(cmp.Or(code(a), e.Code)+": "+text, ": "), fmt.Sprintf("the server answers %d %s", a.Status, http.StatusText(a.Status))))
}

// wrapError adds the failed operation to an error, and classifies it by its code (Blob
// service REST API, "Blob service error codes").
func (s *container) wrapError(ctx context.Context, doing, key string, a web.Answer, err error) error {
	what := doing + " " + store.URL(s, key)
	if ctx.Err() != nil { // a timeout of the connection looks like one of the context
		return fmt.Errorf("%s: %w", what, ctx.Err())
	}
	if err != nil {
		return web.ConnectionError(what, err)
	}
	err = fmt.Errorf("%s: %w", what, serverError(a))
	switch code(a) {
	case "ContainerNotFound", "ContainerDisabled":
		return fault.Wrap(fault.Permanent, &store.MissingError{Err: err}, fmt.Sprintf("create the container (az storage container create --account-name %s --name %s --auth-mode login), or correct its name", s.account, s.name))
	case "ContainerBeingDeleted":
		return fault.Wrap(fault.NotYet, err, "")
	case "AuthorizationPermissionMismatch", "InsufficientAccountPermissions":
		return fault.Wrap(fault.Denied, err, "give this identity the role Storage Blob Data Contributor on the container "+s.name+" of the account "+s.account)
	case "AuthenticationFailed", "InvalidAuthenticationInfo", "NoAuthenticationInformation", "KeyBasedAuthenticationNotPermitted":
		return fault.Wrap(fault.Denied, err, "log in again (az login), or check AZURE_STORAGE_KEY and this machine's clock")
	case "AuthorizationFailure":
		return fault.Wrap(fault.Denied, err, "let the account "+s.account+" be reached from this network, and give this identity the role Storage Blob Data Contributor; or check AZURE_STORAGE_KEY")
	case "LeaseIdMissing", "BlobImmutableDueToPolicy", "SnapshotsPresent":
		return fault.Wrap(fault.Permanent, err, "the blob is immutable, but a state store has to change it: remove its lease, or the policy of the container")
	}
	return s.classifyByStatus(a.Status, err)
}

// classifyByStatus classifies an error whose code is unknown by its HTTP status.
func (s *container) classifyByStatus(status int, err error) error {
	switch {
	case status == http.StatusNotFound:
		return fault.Wrap(fault.Gone, err, "")
	case status == http.StatusUnauthorized || status == http.StatusForbidden:
		return fault.Wrap(fault.Denied, err, "give this identity the role Storage Blob Data Contributor on the account "+s.account)
	case status == http.StatusConflict || status == http.StatusPreconditionFailed:
		return fault.Wrap(fault.Conflict, err, "")
	case status == http.StatusTooManyRequests || status == http.StatusRequestTimeout || status/100 == 5:
		return fault.Wrap(fault.Throttled, err, "")
	}
	return fault.Wrap(fault.Permanent, err, "")
}

// Create creates a container with additional request headers. It is for tests only: users create their
// stores themselves.
func Create(ctx context.Context, c Config, account, name string, header http.Header) error {
	s, err := c.open(ctx, "azureblob", account+"/"+name)
	if err != nil {
		return err
	}
	in := s.(*container)
	a, err := in.do(ctx, request{method: http.MethodPut, query: url.Values{"restype": {"container"}}, header: header})
	if err != nil || !a.OK() {
		return in.wrapError(ctx, "create", "", a, err)
	}
	return nil
}
