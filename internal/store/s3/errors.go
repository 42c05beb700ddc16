package s3

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"

	"github.com/aws/smithy-go"
	smithyhttp "github.com/aws/smithy-go/transport/http"

	"kops.local/kops/internal/fault"
	"kops.local/kops/internal/store"
)

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
func (b *bucket) failed(doing, permission, key string, err error) error {
	if errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return fmt.Errorf("%s %s: %w", doing, store.URL(b, key), err)
	}
	return b.classed(doing, permission, key, code(err), status(err), err)
}

// classed gives an error its class and remedy. The codes are those of the page
// "Error responses" of the Amazon S3 API reference.
func (b *bucket) classed(doing, permission, key, code string, status int, err error) error {
	err = fmt.Errorf("%s %s: %w", doing, store.URL(b, key), err)
	switch code {
	case "NoSuchKey", "NotFound":
		return fault.Wrap(fault.Gone, err, "")
	case "NoSuchBucket":
		return fault.Wrap(fault.Permanent, err,
			fmt.Sprintf("create the bucket %s, or correct the name of the state store", b.name))
	case "InvalidAccessKeyId", "SignatureDoesNotMatch", "ExpiredToken", "InvalidToken", "TokenRefreshRequired":
		return fault.Wrap(fault.Denied, err, "check or renew the credentials for the state store")
	case "RequestTimeTooSkewed":
		return fault.Wrap(fault.Denied, err, "set this machine's clock")
	case "AccessControlListNotSupported":
		return fault.Wrap(fault.Permanent, err,
			fmt.Sprintf("let the bucket %s accept ACLs, or make it readable by a bucket policy", b.name))
	case "NotImplemented":
		return fault.Wrap(fault.Permanent, err,
			"the server lacks conditional writes, without which two commands can damage each other; use another one")
	case "PreconditionFailed", "ConditionalRequestConflict", "OperationAborted":
		return fault.Wrap(fault.Conflict, err, "")
	case "TooManyBuckets", "QuotaExceeded", "EntityTooLarge":
		return fault.Wrap(fault.Quota, err, "ask for a higher limit, or free some room")
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
	var dial *net.OpError
	if errors.As(err, &dial) && dial.Op == "dial" {
		return fault.Wrap(fault.Permanent, err, "check the network, and the endpoint of the state store")
	}
	return fault.Wrap(fault.Permanent, err, "")
}

// arn names what a permission is needed on.
func (b *bucket) arn(permission, key string) string {
	if permission == "s3:ListBucket" {
		return "arn:aws:s3:::" + b.name
	}
	return "arn:aws:s3:::" + b.name + "/" + b.key(key)
}

// collided says whether a server refused a request because of another one at the same time.
func collided(err error) bool {
	var answer *smithyhttp.ResponseError
	return errors.As(err, &answer) && answer.HTTPStatusCode() == http.StatusConflict
}
