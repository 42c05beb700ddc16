package s3

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/smithy-go"
	smithyhttp "github.com/aws/smithy-go/transport/http"

	"kops.local/kops/internal/engine/fault"
	"kops.local/kops/internal/store"
	"kops.local/kops/internal/store/web"
)

// endless is the error of a listing whose next part cannot be asked for.
func (b *bucket) endless(prefix string) error {
	return fault.New(fault.Permanent, "list %s: the server did not list all objects and gave no continuation token",
		store.URL(b, strings.TrimPrefix(prefix, b.prefix)))
}

// code is the server's own name for an error, or "".
func code(err error) string {
	var api smithy.APIError
	if errors.As(err, &api) {
		return api.ErrorCode()
	}
	return ""
}

// status is the HTTP status of an error, or 0.
func status(err error) int {
	var answer *smithyhttp.ResponseError
	if errors.As(err, &answer) && answer.Response != nil {
		return answer.HTTPStatusCode()
	}
	return 0
}

// refused says that a conditional write was not done because its condition does
// not hold: another version (412), a write at the same time (409), or no object (404).
func refused(err error) bool {
	switch code(err) {
	case "PreconditionFailed", "ConditionalRequestConflict", "NoSuchKey":
		return true
	}
	return code(err) != "NoSuchBucket" && status(err) == http.StatusPreconditionFailed
}

// failed says what was being done when a request failed, and classes the error.
func (b *bucket) failed(ctx context.Context, doing, permission, key string, err error) error {
	if ctx.Err() != nil { // a time-out of the connection looks like a context's
		return fmt.Errorf("%s %s: %w", doing, store.URL(b, key), err)
	}
	return b.classed(doing, permission, key, code(err), status(err), plain(err))
}

// answer is what a server said, without what the SDK says around it.
type answer struct {
	text string
	err  error
}

func (a *answer) Error() string { return a.text }
func (a *answer) Unwrap() error { return a.err }

// plain is an error whose text is the server's own words, where it said any, and
// the number by which the server's operators find the request.
func plain(err error) error {
	var api smithy.APIError
	if !errors.As(err, &api) || api.ErrorCode() == "" || api.ErrorMessage() == "" {
		return err
	}
	a := &answer{text: api.ErrorCode() + ": " + api.ErrorMessage(), err: err}
	var response interface{ ServiceRequestID() string }
	if errors.As(err, &response) && response.ServiceRequestID() != "" {
		a.text += " (request " + response.ServiceRequestID() + ")"
	}
	return a
}

// creation is the command that makes the bucket.
func (b *bucket) creation() string {
	command := "aws s3 mb s3://" + b.name
	if !amazon(b.cfg.Endpoint) {
		command += " --endpoint-url " + b.cfg.Endpoint
	}
	return command
}

// classed gives an error its class and remedy. The codes are from the page
// "Error responses" of the Amazon S3 API reference.
func (b *bucket) classed(doing, permission, key, code string, status int, err error) error {
	what := doing + " " + store.URL(b, key)
	if code == "" && status < http.StatusBadRequest {
		if err := unanswered(what, err); err != nil {
			return err
		}
	}
	err = fmt.Errorf("%s: %w", what, err)
	switch code {
	case "NoSuchKey", "NotFound":
		return fault.Wrap(fault.Gone, err, "")
	case "NoSuchBucket":
		return fault.Wrap(fault.Permanent, &store.Missing{Err: err},
			fmt.Sprintf("create the bucket (%s), or correct its name", b.creation()))
	case "InvalidAccessKeyId", "SignatureDoesNotMatch", "ExpiredToken", "InvalidToken", "TokenRefreshRequired":
		return fault.Wrap(fault.Denied, err, "check or renew the credentials for the state store")
	case "RequestTimeTooSkewed":
		return fault.Wrap(fault.Denied, err, "set this machine's clock")
	case "AuthorizationHeaderMalformed":
		return fault.Wrap(fault.Permanent, err, "set S3_REGION to the region of the bucket")
	case "AccessControlListNotSupported":
		return fault.Wrap(fault.Permanent, err,
			fmt.Sprintf("enable ACLs on the bucket %s, or allow everyone s3:GetObject on %s in the bucket policy", b.name, store.URL(b, key)))
	case "NotImplemented":
		return fault.Wrap(fault.Permanent, err,
			"the server does not support conditional writes, so two commands could overwrite each other's changes; use another one")
	case "PreconditionFailed", "ConditionalRequestConflict", "OperationAborted":
		return fault.Wrap(fault.Conflict, err, "")
	case "TooManyBuckets", "QuotaExceeded", "EntityTooLarge":
		return fault.Wrap(fault.Quota, err, "ask for a higher limit, or free some space")
	case "SlowDown", "Throttling", "ThrottlingException", "RequestLimitExceeded", "ServiceUnavailable",
		"InternalError", "RequestTimeout":
		return fault.Wrap(fault.Throttled, err, "")
	}
	return b.classedByStatus(permission, key, status, err)
}

// classedByStatus classes what servers say without a code that is known.
func (b *bucket) classedByStatus(permission, key string, status int, err error) error {
	switch {
	case status == http.StatusForbidden || status == http.StatusUnauthorized:
		return fault.Wrap(fault.Denied, err, fmt.Sprintf("allow %s on %s to this identity", permission, b.arn(permission, key)))
	case status == http.StatusNotFound:
		return fault.Wrap(fault.Gone, err, "")
	case status == http.StatusConflict || status == http.StatusPreconditionFailed:
		return fault.Wrap(fault.Conflict, err, "")
	case status == http.StatusTooManyRequests || status >= 500:
		return fault.Wrap(fault.Throttled, err, "")
	}
	return fault.Wrap(fault.Permanent, err, "")
}

// unanswered classes what failed without an answer that could be understood, and
// returns nil for other errors. A write that was sent may have taken effect.
func unanswered(what string, err error) error {
	var unsent *smithyhttp.RequestSendError
	var garbled *smithy.DeserializationError
	var own *fault.Error
	broken := errors.Is(err, io.ErrUnexpectedEOF) || errors.As(err, new(net.Error)) || errors.As(err, &garbled)
	switch {
	case errors.As(err, &unsent):
		err = unsent.Err // what goes before it counts the tries
	case errors.As(err, &own): // of what was to give credentials
		return fault.Wrap(own.Class, fmt.Errorf("%s: %w", what, own), "")
	case !broken:
		return nil
	}
	return web.Lost(what, err)
}

// hopeless says of what a connection was refused for that another one would be too,
// and leaves the rest to the SDK's own rules.
func hopeless(err error) aws.Ternary {
	if web.Refused(err) {
		return aws.FalseTernary
	}
	return aws.UnknownTernary
}

// arn names what a permission is needed on.
func (b *bucket) arn(permission, key string) string {
	if strings.HasPrefix(permission, "s3:ListBucket") || strings.HasPrefix(permission, "s3:GetBucket") {
		return "arn:aws:s3:::" + b.name
	}
	return "arn:aws:s3:::" + b.name + "/" + b.key(key)
}

// collided says whether a server refused a request because of another one at the same time.
func collided(err error) bool {
	var answer *smithyhttp.ResponseError
	return errors.As(err, &answer) && answer.HTTPStatusCode() == http.StatusConflict
}
